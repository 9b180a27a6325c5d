"""The command line: its own words, exactly, at 80 columns."""

import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError

import pytest

import understudy
from tests.cli import Command
from tests.wording import quaint
from understudy import registry
from understudy.commands import doctor, errors
from understudy.commands.list_parts import SECTIONS, listing
from understudy.measures import MEASURES

COMMANDS = [
    "run", "studies", "list", "show", "table", "plot", "report", "export", "doctor",
    "new-app",
    "retire", "watch",
]  # fmt: skip


@pytest.fixture
def command(capsys, monkeypatch):
    return Command(capsys, monkeypatch)


def test_version(command):
    said = command("--version")
    assert (said.code, said.err) == (0, "")
    assert said.out == f"understudy {understudy.__version__}\n"


def test_help_is_in_the_words_of_the_trade(command):
    def plain(*arguments):
        return " ".join(command(*arguments, "--help").out.replace("│", " ").split())

    assert "Print the version." in plain()
    shown = plain("run")
    assert "Number of seeds." in shown
    assert "Finished cells are not rerun." in shown
    assert "the same command resumes it" in shown
    assert "The strategy that others are compared with." in plain("table")


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_has_no_quaint_words(name, command):
    shown = command(*([name] if name else []), "--help").out
    assert quaint(shown.replace("│", " ")) == []


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.name)
def test_what_is_listed_has_no_quaint_words(section):
    for name in section.entries():
        assert quaint(" ".join(listing(name))) == [], name


def test_help_names_all_commands(command):
    said = command("--help")
    assert said.code == 0
    for name in COMMANDS:
        assert re.search(rf"^\W*{name} ", said.out, re.M), name


@pytest.mark.parametrize("name", COMMANDS)
def test_help_teaches_by_an_example_that_parses(name, command):
    """Lines of the help begin with the command, and name no option that it has not."""
    said = command(name, "--help")
    assert said.code == 0
    assert "\\" not in said.out
    examples = re.findall(rf"^ understudy {name}\b(.*)$", said.out, re.M)
    assert examples, said.out
    options = {word for example in examples for word in example.split() if word.startswith("--")}
    known = set(re.findall(r"(?<![\w-])--[a-z-]+", said.out.partition("Options")[2]))
    assert options <= known


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_in_short(name, command):
    arguments = [name] if name else []
    short, long = command(*arguments, "-h"), command(*arguments, "--help")
    assert (short.code, short.err) == (0, "")
    assert short.out == long.out


def test_help_is_quick_to_come():
    """Asking for help loads neither torch nor pandas: counted, not timed."""
    program = (
        "import sys\n"
        "from understudy.cli import main\n"
        "try: main(['run', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'pandas', 'scipy', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_without_a_command_the_help_is_printed(command):
    said = command()
    assert said.code == 2
    assert "Usage: understudy" in said.out
    assert said.err == ""


# -- errors: one line ----------------------------------------------------------------------------


def test_an_unknown_command(command):
    said = command("lst")
    assert said.code == 2
    assert said.out == ""
    assert said.err == (
        "understudy: No such command 'lst'. Did you mean 'list'? (see understudy --help)\n"
    )


def test_an_unknown_option(command):
    said = command("list", "--role", "x")
    assert said.code == 2
    assert re.fullmatch(r"understudy: No such option '?--role'?.*--help\)\n", said.err)


def test_an_unknown_kind(command):
    said = command("list", "smplers")
    assert said.code == 2
    assert said.out == ""
    assert said.err == (
        "understudy: unknown name 'smplers'; did you mean 'samplers'? kinds: "
        "strategies, samplers, compensators, races, cutoffs, guards, aggregators, servers, local, "
        "rules, schedules, availability, chances, delays, data, partitions, models, losses, "
        "analyses, measures\n"
    )


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ValueError("alpha: expected\n 0 <= alpha < 1, got 2"), 2,
         "alpha: expected 0 <= alpha < 1, got 2"),
        (FileNotFoundError(2, "No such file or directory", "x.toml"), 2,
         "x.toml: No such file or directory"),
        (OSError(28, "No space left on device", "runs"), 1, "runs: No space left on device"),
        (registry.UnknownName("sampler", "a", ["b"]), 2, "no sampler named 'a'; known: b"),
        (understudy.CheckpointError("runs: torn"), 2, "runs: torn"),
    ],
)  # fmt: skip
def test_what_is_told_of_an_error(error, code, line, capsys, monkeypatch):
    monkeypatch.delenv(errors.TRACEBACK, raising=False)
    assert errors.report_error(error) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"understudy: {line}\n"


def test_a_reader_who_has_seen_enough_is_told_nothing():
    program = [sys.executable, "-c", "from understudy.cli import main; main(['list'])"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        child.stdout.close()
        assert child.stderr.read() == b""


def test_a_mistake_of_ours_keeps_its_traceback(monkeypatch):
    monkeypatch.delenv(errors.TRACEBACK, raising=False)
    with pytest.raises(ZeroDivisionError):
        errors.report_error(ZeroDivisionError("division by zero"))
    with pytest.raises(KeyError):
        errors.report_error(KeyError("a"))


def test_a_traceback_for_the_asking(monkeypatch):
    monkeypatch.setenv(errors.TRACEBACK, "1")
    with pytest.raises(ValueError, match="alpha"):
        errors.report_error(ValueError("alpha"))


# -- list ----------------------------------------------------------------------------------------


def test_list_names_everything_with_its_parameters(command):
    said = command("list")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert max(map(len, lines)) <= 80
    entries: dict[str, str] = {}  # continued lines are joined, columns are as wide as their names
    for line in lines:
        if re.match(r"  \S", line):
            name, _, rest = line.strip().partition(" ")
            entries[name] = rest.strip()
        elif line.startswith("   "):
            entries[name] += f" {line.strip()}"
    assert entries["fixed_dropout"] == (
        "alpha=0.5, keep_one_per_group=False, first_round_full=False, counts='compositions'"
    )
    assert entries["fdms_dropout"] == (
        "alpha=0.5, keep_one_per_group=True, first_round_full=True, counts='compositions'"
    )
    assert entries["bernoulli"] == "p or p_min, seed=0"
    assert entries["accuracy_last10"] == "accuracy, mean of last 10, %, higher is better"
    assert entries["everyone"] == "–"
    assert entries["sgd"] == "lr=1.0, schedule=constant"
    assert entries["blind"] == "inner=uniform"
    assert entries["deadline"] == "latency=latency, seconds=60.0"
    assert entries["mlp"] == "hidden=32"
    assert entries["iid"] == "n_clients=20"
    assert any(re.fullmatch("  synthetic +alpha=0.5, beta=0.5, n_clients=30", one) for one in lines)
    blocks = said.out.rstrip("\n").split("\n\n")
    for block, section in zip(blocks, SECTIONS, strict=True):
        assert block.startswith(f"{section.name}: ")
        names = [line.split()[0] for line in block.splitlines() if re.match(r"  \S", line)]
        assert names == list(section.entries())


def test_every_registry_has_a_section():
    shown = [section.entries() for section in SECTIONS]
    for value in vars(registry).values():
        if isinstance(value, registry.Registry):
            assert any(entries is value for entries in shown), value.role


SCHEDULES = """\
schedules: factor on a learning rate, by round

  constant
    The same step in every round.

  inverse_time
    1 / (t + 1), as in MIFA's experiments.

  exponential
    decay ** t; FedGS multiplies its step by 0.998 in each round.
    decay=0.998

  inverse_root
    1 / sqrt(t / period + 1); FedAWE's experiments have a period of 10.
    period=10.0

  inverse_root_horizon
    1 / sqrt(rounds) in every round: the step that rates of O(1/√T) are stated
    for.
    rounds=100
"""


def test_list_of_one_kind_says_what_each_is(command):
    said = command("list", "schedules")
    assert (said.code, said.err) == (0, "")
    assert said.out == SCHEDULES


FDMS = """\
fdms: strategy
  FL-FDMS: updates of similar clients (friends) stand in for the absent.
  similarity='cosine', race=None

fdms: compensator
  Friend discovery and model substitution: (1/K)(Σ_{i∈A} Δ_i + Σ_{k∉A} Δ_φ(k))
  (eq. 5).
  similarity='cosine', race=None, single_from=500, exact_up_to=20000,
  candidates=64

  similarity : {"cosine", "distance"}
      The alternative score is −‖Δ_i − Δ_j‖.
  race : HoeffdingRace, optional
      Drop candidates that lag behind, and compute only what someone still needs
      (§5.3).
  single_from : int
      From so many updates in a round on, their cosines are of products in
      single precision, off by about 1e-6, in half the time; the note
      single_precision says so.
  exact_up_to : int
      Largest number of clients for which all pairs are kept. Of more, each
      keeps its best candidates only, and the note candidates_kept says so; a
      race is then refused.
  candidates : int
      How many those are.
"""


@pytest.mark.parametrize("name", ["fdms", "FDMS"])
def test_list_of_one_name_tells_all_about_it(name, command):
    said = command("list", name)
    assert (said.code, said.err) == (0, "")
    assert said.out == FDMS


@pytest.mark.parametrize(
    ("name", "begin"),
    [
        ("FedAvgIS", "fedavg_is: strategy\n"),
        ("power-of-choice", "power_of_choice: strategy\n"),
        ("mlp", "mlp: model\n  One hidden layer of rectified units.\n  hidden=32\n"),
        (
            "loss_last",
            "loss_last: measure\n  last test loss, lower is better\n",
        ),
        (
            "accuracy_last10",
            "accuracy_last10: measure\n  Accuracy: mean of the last 10 evaluated rounds.\n",
        ),
    ],
)
def test_a_name_is_known_by_several_spellings(name, begin, command):
    assert command("list", name).out.startswith(begin)


def test_everything_that_is_listed_can_be_looked_up():
    for section in SECTIONS:
        for name in section.entries():
            lines = list(listing(name))
            assert lines
            assert max(map(len, lines)) <= 80, name


def test_list_of_measures(command):
    said = command("list", "measures")
    assert (said.code, said.err) == (0, "")
    names = re.findall(r"^  (\w+)$", said.out, re.M)
    assert names == list(MEASURES)


def test_a_name_that_is_nearly_known(command):
    said = command("list", "fmds")
    assert said.code == 2
    assert said.err.startswith("understudy: unknown name 'fmds'; did you mean 'fdms'? kinds: ")


@pytest.mark.parametrize("kind", ["data", "data sets", "data_set", "Data-Sets"])
def test_a_kind_is_known_by_several_names(kind):
    assert next(listing(kind)).startswith("data: ")


# -- doctor --------------------------------------------------------------------------------------


def test_doctor_names_what_is_missing_and_how_to_get_it(command, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("UNDERSTUDY_DATA", raising=False)
    monkeypatch.setattr(doctor, "EXTRAS", {"no-such-package": "nothing", "not-used": "nothing"})
    monkeypatch.setattr(
        doctor, "requires", lambda name: ["no-such-package>=2,<3; extra == 'one'", "numpy>=1.26"]
    )
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    said = command("doctor")
    assert (said.code, said.err) == (0, "")
    blocks = dict(block.split("\n", 1) for block in said.out.rstrip("\n").split("\n\n"))
    assert list(blocks) == ["versions", "machine", "data sets", "extras"]
    said_of = {name: " ".join(block.split()) for name, block in blocks.items()}  # any columns
    assert said_of["versions"].startswith(f"understudy {understudy.__version__} ")
    assert re.search(r"^  cores +\d+$", blocks["machine"], re.M)
    assert re.search(r"^  memory +[\d.]+ GB free of [\d.]+ GB$", blocks["machine"], re.M)
    assert re.search(r"^  disk +\d+ GB free for runs$", blocks["machine"], re.M)
    assert max(map(len, said.out.splitlines())) <= 80
    assert said_of["data sets"].startswith(
        "digits part of the package synthetic drawn fedgs_synthetic drawn "
        "mnist no train-images-idx3-ubyte or train-images-idx3-ubyte.gz in data/MNIST/raw "
        "(root=… or UNDERSTUDY_DATA names another place); "
        "torchvision.datasets.MNIST(root, download=True) fetches it "
    )
    assert said_of["extras"] == (
        "no-such-package not installed: pip install 'no-such-package>=2,<3' (nothing) "
        "chromium not installed: with the system's tools (tests of the report open it there)"
    )


def test_doctor_recommends_what_an_extra_of_ours_needs(monkeypatch):
    """Its own name is on no package index; what its extras name is."""
    needs = doctor.optional_requirements()
    assert needs["ray"].startswith("ray>=")
    assert needs["pyarrow"].startswith("pyarrow>=")
    assert not {"numpy", "pytest", "sphinx"} & set(needs)

    def nothing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "version", nothing)
    words = {finding.name: finding.words for finding in doctor._extras()}
    assert words["pyarrow"] == f"not installed: pip install '{needs['pyarrow']}' (Parquet files)"
    monkeypatch.setattr(doctor, "requires", nothing)
    assert doctor.optional_requirements() == {}


def test_doctor_says_where_a_data_set_was_found(monkeypatch, tmp_path):
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name in ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"):
        (folder / name).touch()
    monkeypatch.setenv("UNDERSTUDY_DATA", str(tmp_path))

    def found():
        findings = doctor.examine(tmp_path)
        return next(finding for finding in findings if finding.name == "cifar10")

    assert not found().found
    assert "lacks test_batch" in found().words
    (folder / "test_batch").touch()
    assert found().found
    assert found().words == str(folder)


# -- plot trace ----------------------------------------------------------------------------------


def test_a_trace_is_drawn_before_it_is_used(command, tmp_path):
    (tmp_path / "phones.csv").write_text(
        "device,t_s,state\na,0,AVL_TRAIN\na,1800,UN_AVL\nb,900,AVL_TRAIN\nb,3600,UN_AVL\n"
    )
    said = command("plot", "trace", str(tmp_path / "phones.csv"), "--to", str(tmp_path),
                   "--format", "png")  # fmt: skip
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[:2] == [
        "2 devices, 0 of them never there, 0.0417 days",
        "there 62.5 % of the time, the median visit lasts 37.5 minutes",
    ]
    assert '{ name = "trace", file = ' in said.out
    assert "seconds_per_round = 600, drop_first_seconds = 600 }" in said.out
    assert (tmp_path / "phones-trace.png").read_bytes()[:4] == b"\x89PNG"
