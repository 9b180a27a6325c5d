"""The example app: what `understudy new-app` writes, and its certificates and keys."""

import ssl
import stat
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key
from flwr.cli.build import build_fab_from_disk

from tests.cli import Command
from tests.flower.live import APP, example
from understudy import strategies


@pytest.fixture
def command(capsys, monkeypatch):
    return Command(capsys, monkeypatch)


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_new_app_writes_the_example(command, tmp_path):
    said = command("new-app", str(tmp_path / "mine"))
    assert (said.code, said.err) == (0, "")
    assert said.out.endswith("README.md\n")
    assert files(tmp_path / "mine") == files(APP)
    assert "digits_app/server_app.py" in files(tmp_path / "mine")


def test_new_app_overwrites_nothing(command, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    said = command("new-app", str(tmp_path / "mine"))
    assert said.code == 2
    assert "expected a folder that is new or empty" in said.err
    assert files(tmp_path / "mine") == {"thesis.txt": b"years of work"}


@pytest.mark.filterwarnings("ignore:GitWildMatchPattern")  # Flower asks for what pathspec will drop
def test_flower_accepts_the_app_and_no_secret_gets_into_it(command, tmp_path):
    command("new-app", str(tmp_path / "mine"))
    make_keys(tmp_path / "mine" / "secrets", 1)
    content = build_fab_from_disk(tmp_path / "mine")
    packed = tmp_path / "app.fab"
    packed.write_bytes(content)
    with zipfile.ZipFile(packed) as archive:
        names = archive.namelist()
        everything = b"".join(archive.read(name) for name in names)
    assert "digits_app/client_app.py" in names
    assert not any("secrets" in name for name in names)
    assert b"PRIVATE KEY" not in everything


def test_every_setting_of_the_app_is_used():
    settings = tomllib.loads((APP / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    server = (APP / "digits_app" / "server_app.py").read_text()
    assert [name for name in settings if f'config["{name}"]' not in server] == []
    assert hasattr(strategies, settings["strategy"])


def make_keys(folder, n_nodes):
    example("make_keys").make_keys(folder, n_nodes, ["localhost", "127.0.0.1"])


def test_certificates_and_keys_are_what_they_say(tmp_path):
    folder = tmp_path / "secrets"
    make_keys(folder, 3)
    ca = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
    server = x509.load_pem_x509_certificate((folder / "server.pem").read_bytes())
    server.verify_directly_issued_by(ca)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == ["localhost", "127.0.0.1"]
    ssl.create_default_context(cafile=folder / "ca.crt")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    keys = set()
    for number in range(3):
        private = load_ssh_private_key((folder / f"client-{number}").read_bytes(), None)
        public = load_ssh_public_key((folder / f"client-{number}.pub").read_bytes())
        assert private.public_key() == public
        keys.add(public.public_numbers())
    assert len(keys) == 3
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not list(folder.glob("ca.key"))
    with pytest.raises(FileExistsError):  # keys in use are never overwritten
        make_keys(folder, 3)


def test_the_script_makes_them_too(tmp_path):
    done = subprocess.run(
        [sys.executable, APP / "make_keys.py", tmp_path / "secrets", "--nodes", "2"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "secrets").iterdir())) == 3 + 2 * 2


def test_a_federation_is_secure_unless_told_otherwise(tmp_path):
    federation = example("federation").Federation(tmp_path / "secure", 2)
    command = federation.superlink_command()
    assert "--enable-supernode-auth" in command
    assert "--insecure" not in command
    assert "--insecure" not in federation.node_command(0, "client-0")
    assert (tmp_path / "secure" / "secrets" / "client-1.pub").is_file()
    open_one = example("federation").Federation(tmp_path / "open", 2, insecure=True)
    assert "--insecure" in open_one.superlink_command()
    assert not (tmp_path / "open" / "secrets").exists()
    for one in (federation, open_one):
        words = [*one.superlink_command(), *one.node_command(0, "client-0")]
        hosts = [words[i + 1] for i, word in enumerate(words) if word == "--host"]
        assert hosts == ["127.0.0.1", "127.0.0.1"]
