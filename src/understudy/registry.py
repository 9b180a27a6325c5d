"""All parts by name: one line each.

A name stands for ``module:Class`` inside the package; the class is imported when it is asked for.
``module:Class`` with a full module name works wherever a registered name does, for other people's
parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from traceback import walk_tb
from typing import Any

from understudy.core.module_origin import is_installed
from understudy.core.suggestions import suggestion

_PARTS: dict[str, dict[str, str]] = {
    "sampler": {
        "everyone": "parts.samplers.uniform:Everyone",
        "uniform": "parts.samplers.uniform:Uniform",
        "by_data": "parts.samplers.uniform:ByData",
        "power_of_choice": "parts.samplers.power_of_choice:PowerOfChoice",
        "fedgs": "parts.samplers.fedgs:FedGS",
        "blind": "parts.samplers.blind:Blind",
        "keep_asking": "parts.samplers.keep_asking:KeepAsking",
        "oldest_first": "parts.samplers.oldest_first:OldestFirst",
        "f3ast": "parts.samplers.f3ast:F3AST",
        "oort": "parts.samplers.oort:Oort",
        "least_available_first": "parts.samplers.least_available:LeastAvailableFirst",
    },
    "compensator": {
        "ignore": "parts.compensators.ignore:Ignore",
        "stale": "parts.compensators.stale:Stale",
        "fdms": "parts.compensators.fdms:FDMS",
        "mifa": "parts.compensators.mifa:MIFA",
        "fedar": "parts.compensators.fedar:FedAR",
        "fedvarp": "parts.compensators.fedvarp:FedVARP",
        "fedavg_is": "parts.compensators.reweight:FedAvgIS",
        "horvitz_thompson": "parts.compensators.reweight:HorvitzThompson",
        "fedau": "parts.compensators.reweight:FedAU",
        "fedstale": "parts.compensators.fedstale:FedStale",
        "mimic": "parts.compensators.mimic:MimiC",
        "late_updates": "parts.compensators.late_updates:LateUpdates",
        "fedawe": "parts.compensators.fedawe:FedAWE",
        "gather": "parts.compensators.gather:Gather",
        "kriging": "parts.compensators.kriging.kriging:Kriging",
        "capped": "parts.compensators.capped:Capped",
    },
    "race": {"hoeffding_race": "parts.compensators.race:HoeffdingRace"},
    "cutoff": {
        "linear_cutoff": "parts.compensators.fedar:LinearCutoff",
        "sqrt_cutoff": "parts.compensators.fedar:SqrtCutoff",
    },
    "guard": {"norm_guard": "parts.guards:NormGuard"},
    "aggregator": {
        "linear": "parts.aggregators.linear:Linear",
        "median": "parts.aggregators.robust:Median",
        "trimmed_mean": "parts.aggregators.robust:TrimmedMean",
        "concord": "parts.aggregators.concord:Concord",
        "fedmgda": "parts.aggregators.fedmgda:FedMGDA",
        "fedfv": "parts.aggregators.fedfv:FedFV",
    },
    "server": {
        "sgd": "parts.servers:Sgd",
        "momentum": "parts.servers:Momentum",
        "adam": "parts.servers:Adam",
        "yogi": "parts.servers:Yogi",
        "extrapolated": "parts.extrapolated:Extrapolated",
        "generalized_fedavg": "parts.amplified:GeneralizedFedAvg",
    },
    "rule": {
        "plain": "parts.local:Plain",
        "proximal": "parts.local:Proximal",
        "scaffold": "parts.local:Scaffold",
        "amplified_scaffold": "parts.amplified:AmplifiedScaffold",
        "focus": "parts.focus:Focus",
    },
    "schedule": {
        "constant": "parts.schedules:constant",
        "inverse_time": "parts.schedules:inverse_time",
        "exponential": "parts.schedules:Exponential",
        "inverse_root": "parts.schedules:InverseRoot",
        "inverse_root_horizon": "parts.schedules:InverseRootHorizon",
    },
    "availability": {
        "always": "parts.availability.always:Always",
        "bernoulli": "parts.availability.bernoulli:Bernoulli",
        "label_bernoulli": "parts.availability.bernoulli:LabelBernoulli",
        "fixed_dropout": "parts.availability.dropout:FixedDropout",
        "fdms_dropout": "parts.availability.dropout:fdms_dropout",
        "vanishing_dropout": "parts.availability.vanishing:VanishingDropout",
        "more_data_first": "parts.availability.skewed:MoreDataFirst",
        "less_data_first": "parts.availability.skewed:LessDataFirst",
        "y_max_first": "parts.availability.skewed:YMaxFirst",
        "y_cycle": "parts.availability.skewed:YCycle",
        "log_normal": "parts.availability.skewed:LogNormal",
        "sin_log_normal": "parts.availability.skewed:SinLogNormal",
        "markov": "parts.availability.markov:Markov",
        "cyclic": "parts.availability.periodic:Cyclic",
        "diurnal": "parts.availability.periodic:Diurnal",
        "own_cycle": "parts.availability.periodic:OwnCycle",
        "sine": "parts.availability.fluctuating:Sine",
        "staircase": "parts.availability.fluctuating:Staircase",
        "arriving": "parts.availability.staged:Arriving",
        "departing": "parts.availability.staged:Departing",
        "round_robin": "parts.availability.staged:RoundRobin",
        "min_separation": "parts.availability.separation:MinSeparation",
        "fedau_bernoulli": "parts.availability.protocols:fedau_bernoulli",
        "fedau_markov": "parts.availability.protocols:fedau_markov",
        "fedau_cyclic": "parts.availability.protocols:fedau_cyclic",
        "fedawe_sine": "parts.availability.protocols:fedawe_sine",
        "fedawe_staircase": "parts.availability.protocols:fedawe_staircase",
        "fedawe_interleaved": "parts.availability.protocols:fedawe_interleaved",
        "wang_ji_groups": "parts.availability.protocols:wang_ji_groups",
        "trace": "parts.availability.trace:Trace",
        "flash_trace": "parts.availability.trace:FlashTrace",
        "fedscale_trace": "parts.availability.trace:FedScaleTrace",
        "last_rounds_away": "parts.availability.scripted:LastRoundsAway",
        "full_start": "parts.availability.full_start:FullStart",
        "gone": "parts.availability.gone:Gone",
    },
    "chances": {
        "label_dirichlet": "parts.availability.chances:LabelDirichlet",
        "label_halves": "parts.availability.chances:LabelHalves",
    },
    "delay": {
        "failure": "parts.delay:Failure",
        "latency": "parts.delay:Latency",
        "recorded_latency": "parts.recorded_latency:RecordedLatency",
        "deadline": "parts.delay:Deadline",
        "combined": "parts.delay:Combined",
    },
    "strategy": {
        "fedavg": "strategies:fedavg",
        "waiting_fedavg": "strategies:waiting_fedavg",
        "fedprox": "strategies:fedprox",
        "fdms": "strategies:fdms",
        "stale": "strategies:stale",
        "mifa": "strategies:mifa",
        "fedar": "strategies:fedar",
        "fedvarp": "strategies:fedvarp",
        "fedavg_is": "strategies:fedavg_is",
        "fedau": "strategies:fedau",
        "fedstale": "strategies:fedstale",
        "mimic": "strategies:mimic",
        "fedawe": "strategies:fedawe",
        "fedlaavg": "strategies:fedlaavg",
        "scaffold": "strategies:scaffold",
        "fedgs": "strategies:fedgs",
        "mdsample": "strategies:mdsample",
        "power_of_choice": "strategies:power_of_choice",
        "fedexp": "strategies:fedexp",
        "f3ast": "strategies:f3ast",
        "fedmgda": "strategies:fedmgda",
        "fedfv": "strategies:fedfv",
        "oort": "strategies:oort",
        "refl": "strategies:refl",
        "generalized_fedavg": "strategies:generalized_fedavg",
        "amplified_scaffold": "strategies:amplified_scaffold",
        "focus": "strategies:focus",
        "concord": "strategies:concord",
    },
    "analysis": {
        "shapley": "analysis.shapley:shapley",
        "sigma": "papers.sigma:sigma",
        "graph_f1": "papers.graph_f1:graph_f1",
        "similarity": "analysis.similarity:similarity",
        "spread": "papers.spread:spread",
        "race_errors": "papers.race_errors:race_errors",
        "inactive_rounds": "papers.inactive_rounds:inactive_rounds",
    },
}


class Registry(Mapping[str, Any]):
    """Names of one role → classes (or functions), imported when asked for."""

    def __init__(self, role: str) -> None:
        self.role = role
        self._places = _PARTS[role]

    def __getitem__(self, name: str) -> Any:
        if ":" in name:
            return imported(name)
        if name not in self._places:
            raise UnknownName(self.role, name, list(self._places))
        return imported(f"understudy.{self._places[name]}", name)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        return f"<{self.role}: {', '.join(self)}>"


class UnknownName(KeyError):
    """A name that stands for nothing; suggests what may have been meant."""

    def __init__(self, role: str, name: str, known: list[str]) -> None:
        super().__init__(f"no {role} named {name!r}; {suggestion(name, known)}")

    def __str__(self) -> str:
        return str(self.args[0])


def named(
    kind: str, name: str, known: Mapping[str, Any], importer: Callable[[str], Any] | None = None
) -> Any:
    """What a known name, or ``module:name``, stands for; `importer` in place of `imported`."""
    if ":" in name:
        return (importer or imported)(name)
    if name not in known:
        raise UnknownName(kind, name, list(known))
    return known[name]


def imported(place: str, name: str | None = None) -> Any:
    """What ``module:Name`` stands for; `name` is what an error calls it."""
    name = place if name is None else name
    module, _, attribute = place.partition(":")
    is_ours = module.partition(".")[0] == "understudy"
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module}.".startswith(f"{error.name}."):
            raise ImportError(f"{name}: no module named {module!r}") from error
        if is_ours:
            raise  # the module is there; something it needs is not
        raise _broken(name, error) from error
    except (Exception, SystemExit) as error:
        if is_ours:
            raise
        raise _broken(name, error) from error
    try:
        return getattr(found, attribute)
    except AttributeError as error:
        raise ImportError(f"{name}: {module!r} has no {attribute!r}") from error


def _broken(name: str, error: BaseException) -> ImportError:
    """What went wrong in other people's module while it was imported, in one line."""
    words, file, line = str(error), None, None
    if isinstance(error, SyntaxError):
        words, file, line = error.msg, error.filename, error.lineno
    for frame, number in walk_tb(None if file else error.__traceback__):
        if not is_installed(frame.f_globals.get("__name__", "")):  # the last line that is theirs
            file, line = frame.f_code.co_filename, number
    where = f" ({Path(file).name}, line {line})" if file else ""
    kind = ModuleNotFoundError if isinstance(error, ModuleNotFoundError) else ImportError
    return kind(f"{name}: {type(error).__name__}{where}: {' '.join(words.split())}".rstrip(": "))


SAMPLERS = Registry("sampler")
COMPENSATORS = Registry("compensator")
RACES = Registry("race")
CUTOFFS = Registry("cutoff")
GUARDS = Registry("guard")
AGGREGATORS = Registry("aggregator")
SERVERS = Registry("server")
RULES = Registry("rule")
SCHEDULES = Registry("schedule")
AVAILABILITY = Registry("availability")
CHANCES = Registry("chances")
DELAYS = Registry("delay")
STRATEGIES = Registry("strategy")

# public name → place, for `from understudy import …`
PUBLIC = {
    place.partition(":")[2]: f"understudy.{place}"
    for role, parts in _PARTS.items()
    if role != "analysis"
    for place in parts.values()
}


def public(name: str) -> Any:
    """The registered part or method with this Python name, or an AttributeError."""
    if name not in PUBLIC:
        raise AttributeError(name)
    return imported(PUBLIC[name], name)
