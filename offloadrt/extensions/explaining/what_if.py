"""What could be changed to make a run faster, the most promising first, and what each change gains.

Each change is tried by a run of its own, through the executors of `sweep`, within a budget of real time. This run is
bit by bit the run of `offloadrt run` with the change on its command line.
"""

from __future__ import annotations

import math
import re
import shlex
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, Literal

import attrs
import msgspec

from offloadrt.extensions.explaining.charged_in import charged_in
from offloadrt.extensions.explaining.critical_path import FAULTS, RELAYED, PathPart
from offloadrt.extensions.explaining.work import NOTHING, WorkDone, run_with_work
from offloadrt.machine import MachineSpec
from offloadrt.machine.profile.entry import ProfileEntry
from offloadrt.runtime.environment import OF_CALLS
from offloadrt.study.certainty import over
from offloadrt.study.reporting.results import Interval, Result, from_builtins
from offloadrt.study.reporting.words import word
from offloadrt.study.scripts import registry
from offloadrt.study.scripts.definition import Scenario
from offloadrt.study.scripts.listing import folder
from offloadrt.study.scripts.parameters import Parameter, Value
from offloadrt.study.scripts.registry import is_shipped
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import Point, run_point

Kind = Literal["decision", "policy", "contention", "cost", "hardware"]

_DECISIONS = ("configuration", "allocator")
"""Parameters whose other values are tried in every scenario; so are those that the scenario's own sweep varies.

In a scenario without a sweep, all parameters whose choices are words are tried, too.
"""
THREADS = ("threads", "num_threads")
"""Parameters with the number of threads: half and twice as many are tried, unless the scenario's sweep has them."""
_CONFIGURATIONS = ("copy", "keep_mapped", "usm", "implicit_zero_copy", "eager_maps", "managed", "managed+prefetch")
"""Memory configurations that are tried for a user's own script, which gets them by `--configuration`."""
_FACTS = ("driver.api", "driver.calls", "runtime.start", "usm.shared")
"""Entries with choices that are facts about the machine; their other choices are not tried."""
NO_COSTS = ("jitter", "noise", "thrash.lapse", "thrash.pin", "mem.size", "mem.reserved", "gpu.boost_time")
"""Beginnings of the names of entries that are no cost: spreads, thresholds, sizes, and how long a boost clock is held.

They are not set to zero or doubled.
"""
_AT_START = ("init.", "module.")
"""Groups of costs that a program pays once, at its start: they are tried last."""
_HARDWARE = (
    "gpu.copy_engines", "gpu.max_connections", "gpu.hw_queues", "cpu.cores", "dma.rings", "dma.multiple_engines",
    "hsa.queues",
)  # fmt: skip
"""Numbers of hardware parts, which are doubled, and whether several are used; other counts are limits or sizes."""

_SEVERAL = ("nvlink.", "p2p.", "pcie.peers", "numa.peer", "gpu.copy_engines_p2p", "process.")
"""Beginnings of the names of entries that matter only with several devices or processes."""
_SECOND = re.compile(r"p2p|(device|rank|process) [1-9]|time slices")
"""Matches a resource of a second device or process, or one between two of them."""
_ALONE = 0.01
"""The factor on the promise of an entry of `_SEVERAL` if the run has one device and one process."""

_BOTH_WAYS = ("link.d2h_pinned", "link.h2d_pinned")
_SHARED = 0.5
"""The weight of a part for a shared bandwidth: the path does not show whether another one used it at the time."""
_POLICY = 0.9
"""The weight of a part for another policy: it may change nothing, while a cost charged there is certainly paid."""
_ANY_CALL = 0.5
"""The weight of a part of the path for an entry that is charged in all calls; for an entry of one call it is 1.

The entry of one call usually is the larger piece of that call's time.
"""


@attrs.frozen
class Proposal:
    """One change of a run that may be tried: other parameters, entries of the machine (`overrides`), or options.

    `kind` says who could make the change: the user of the program (`decision`) or the author of the runtime or driver
    (`policy`). Three kinds nobody can make; they show what a cost amounts to: a lock or server that never makes anybody
    wait (`contention`), an operation that is cheaper (`cost`), and other hardware.
    """

    kind: Kind
    parameters: Mapping[str, Value] = attrs.field(factory=dict)
    overrides: Mapping[str, str] = attrs.field(factory=dict)
    promise: float = 0.0
    """A guess, without unit, of how much it gains; changes with a larger promise are tried first."""
    configuration: str | None = None
    """The memory configuration that the run gets by `--configuration`; None leaves it."""
    allocator: str | None = None
    """The allocator of device memory that the run gets by `--allocator`; None leaves it."""
    environment: Mapping[str, str] = attrs.field(factory=dict)
    """Environment variables that the program gets, as by `--env`."""
    resource: str = ""
    """The resource of the critical path that it makes cheaper; empty if unknown."""

    @property
    def name(self) -> str:
        """Return the change as the command line has it: `memory=pool`, `--set table.uncontended=true`."""
        parts = [shlex.quote(f"{name}={word(value)}") for name, value in self.parameters.items()]
        parts += [] if self.configuration is None else [f"--configuration {self.configuration}"]
        parts += [] if self.allocator is None else [f"--allocator {self.allocator}"]
        parts += [f"--env {name}={value}" for name, value in self.environment.items()]
        parts += [f"--set {key}={value}" for key, value in self.overrides.items()]
        return " ".join(parts)


def decisions(scenario: Scenario, given: Mapping[str, Value], configuration: str | None = None) -> list[Proposal]:
    """Propose other values for the parameters that the user may choose, and other memory configurations.

    configuration: the value of `--configuration`; None if it was not given.
    """
    found = []
    if "configuration" not in scenario.parameters and not is_shipped(scenario):
        others = [name for name in _CONFIGURATIONS if name != (configuration or "copy")]
        found += [Proposal("decision", promise=1.4, configuration=name) for name in others]
    for name, parameter in scenario.parameters.items():
        has_words = not scenario.sweep and all(isinstance(choice, str) for choice in parameter.choices or (0,))
        if name in scenario.sweep or name in _DECISIONS or has_words:
            for value in _others(parameter, given[name], scenario.sweep.get(name, ())):
                promise = 1.5 if isinstance(value, str) else 0.7
                found.append(Proposal("decision", {name: value}, {}, promise))
        elif name in THREADS and isinstance(now := given[name], int):
            changed = [value for value in (now // 2, 2 * now) if value >= 1 and parameter.range.holds(value)]
            found += [Proposal("decision", {name: value}, {}, 0.7) for value in changed]
    return found


def switches(
    spec: MachineSpec, path: Sequence[PathPart], options: RunSpec, model: str, scenario: Scenario
) -> list[Proposal]:
    """Propose environment variables and allocators, which change a run without a change of the program.

    A variable or allocator is proposed only if it acts on some part of the critical path. model: the programming model.
    options: those of the run that is explained. scenario: the program.
    """
    shares, whole_ps = _shares(path), sum(part.ps for part in path)
    found: list[Proposal] = []
    for switch in SWITCHES:
        entry = spec.entries.get(switch.entry)
        if switch.name in options.environment or switch.entry in options.overrides or model not in switch.models:
            continue
        if switch.entry and (entry is None or not _is_read(switch.name, spec)):
            continue
        match = sum(
            share * max((_weight(where, *part) for where in switch.acts_on), default=0.0)
            for part, share in shares.items()
        )
        if switch.of_actors:
            match += sum(part.ps for part in path if part.actor.startswith(switch.of_actors)) / (whole_ps or 1)
        resource = "" if "*" in switch.acts_on else _resource(switch.acts_on, shares)
        found += [
            Proposal("decision", promise=_SWITCH * match, environment={switch.name: value}, resource=resource)
            for value in switch.values_beside(entry)
            if match > 0.0
        ]
    if model == "openmp" and options.allocator is None and "allocator" not in scenario.parameters:
        match = sum(share for (_, _, call), share in shares.items() if call.startswith(_ALLOCATIONS))
        names = ("direct", "malloc") if match > 0.0 else ()
        found += [Proposal("decision", promise=_SWITCH * match, allocator=name) for name in names]
    return found


def _is_read(variable: str, spec: MachineSpec) -> bool:
    """Tell whether the machine's driver library, or the runtime's plugin for it, reads an environment variable."""
    if variable.startswith("LIBOMPTARGET_AMDGPU_"):
        return spec.text("driver.api") == "rocr"
    return variable not in OF_CALLS or spec.text("driver.calls") == OF_CALLS[variable]


@attrs.frozen
class Switch:
    """An environment variable of a real runtime or driver that the command `why` tries, with the values to try.

    It is tried for programs of the programming models `models`, and first where the parts of the critical path on which
    it acts are long.
    """

    name: str
    values: tuple[str, ...]
    """The values to try; `2x` stands for twice the present value of `entry`."""
    acts_on: tuple[str, ...]
    """The parts of the critical path on which the variable acts, such as "kernel" or "driver: cuMemFree"."""
    entry: str = ""
    """The entry of the profile that the variable overrides; empty if there is none."""
    models: tuple[str, ...] = ("openmp",)
    of_actors: str = ""
    """If not empty: the variable acts on all work of actors (threads, engines) whose names begin so, too."""

    def values_beside(self, entry: ProfileEntry | None) -> list[str]:
        """Return the values of the variable to try, without the one that the run has now.

        entry: the entry of the machine's profile that the variable overrides; None if there is none.
        """
        now = None if entry is None else entry.value
        doubled = str(int(2 * now)) if isinstance(now, int | float) else ""
        values = [doubled if value == "2x" else value for value in self.values]
        return [value for value in values if value and value.lower() != str(now).lower()]


_ALLOCATIONS = ("cuMemAlloc", "cuMemFree", "memory_pool_")
_MEMORY = (*(f"driver: {name}*" for name in _ALLOCATIONS), "behind driver context")
_ASYNC_COPIES = ("driver: memory_async_copy", "driver: memory_lock")
_HSA_QUEUES = ("behind device * hsa queue *", "behind hsa queue *")
_EVENTS = ("behind entry locks", "driver: cuEvent*", "driver: cuStreamWait*")
_MODULES = ("driver: cuModule*", "driver: cuLaunchKernel")
_CONNECTIONS = ("behind device * hardware queue *",)
_EITHER = ("openmp", "cuda")
_ANY = (*_EITHER, "openacc", "stdpar")
_LARGE = str(1 << 30)
_SWITCH = 1.5
"""The weight of a part of the path for a switch: above 1, since a switch costs the user nothing."""

SWITCHES: Final = (
    Switch("LIBOMPTARGET_MEMORY_MANAGER_THRESHOLD", ("0", _LARGE), _MEMORY, "memory_manager.threshold"),
    Switch("LIBOMPTARGET_MAP_FORCE_ATOMIC", ("false",), _EVENTS, "entry.events"),
    Switch("LIBOMPTARGET_AMDGPU_NUM_HSA_QUEUES", ("2x",), _HSA_QUEUES, "hsa.queues"),
    Switch("LIBOMPTARGET_AMDGPU_MAX_ASYNC_COPY_BYTES", ("0", _LARGE), _ASYNC_COPIES, "copy.async_limit"),
    Switch("LIBOMPTARGET_AMDGPU_NUM_INITIAL_HSA_SIGNALS", ("2x",), ("driver: signal_create",), "signal.initial"),
    Switch("LIBOMPTARGET_AMDGPU_TEAMS_PER_CU", ("2x",), ("kernel",), "teams.per_cu"),
    Switch("LIBOMPTARGET_MIN_THREADS_FOR_LOW_TRIP_COUNT", ("2x",), ("kernel",), "teams.least_threads"),
    Switch("LIBOMPTARGET_REUSE_BLOCKS_FOR_HIGH_TRIP_COUNT", ("true", "false"), ("kernel",), "teams.reuse"),
    Switch(
        "LIBOMP_NUM_HIDDEN_HELPER_THREADS",
        ("2x",),
        ("behind hidden helper*",),
        "runtime.hidden_helper_threads",
        of_actors="hidden helper",
    ),
    Switch("CUDA_DEVICE_MAX_CONNECTIONS", ("2x",), _CONNECTIONS, "gpu.max_connections", _ANY),
    Switch("GPU_MAX_HW_QUEUES", ("2x",), _CONNECTIONS, "gpu.max_connections", _ANY),
    Switch("CUDA_MODULE_LOADING", ("EAGER", "LAZY"), _MODULES, "module.loading", _EITHER),
    Switch("CUDA_API_PER_THREAD_DEFAULT_STREAM", ("1",), ("behind device * stream order",), "", ("cuda",)),
    Switch("OMP_TARGET_OFFLOAD", ("disabled",), ("*",)),
)
"""The variables that the emulator models (`runtime/environment.py`) and that may make a run faster."""


def _others(parameter: Parameter, now: Value, swept: Sequence[Value]) -> list[Value]:
    """Return the other choices of a parameter; for a number, the next lower and higher one in the scenario's sweep."""
    if parameter.choices or parameter.type is bool:
        choices = parameter.choices or (True, False)
        return [value for value in choices if value != now]
    if not isinstance(now, int | float):
        return []
    numbers = sorted(value for value in swept if isinstance(value, int | float) and not isinstance(value, bool))
    below, above = [n for n in numbers if n < now], [n for n in numbers if n > now]
    return [*below[-1:], *above[:1]]


def proposals(
    spec: MachineSpec, path: Sequence[PathPart], overrides: Mapping[str, str], *, evicts: bool = False
) -> list[Proposal]:
    """Propose changes of the entries of a machine's profile that the user has not set, the largest expected gain first.

    path: the parts of the run's critical path; an entry that costs much of it is expected to gain much. overrides: the
    entries that the user has set. evicts: whether managed memory does not fit on the device, so that more device memory
    may help.
    """
    shares = _shares(path)
    several = any(_SECOND.search(f"{part.actor} {part.resource} {part.waited_for}") for part in path)
    found: list[Proposal] = []
    for key, entry in spec.entries.items():
        if not entry.reference and key not in overrides and key not in _FACTS:
            of_entry = _of_entry(key, entry, 0.0 if key.startswith(_AT_START) else _match(entry, shares))
            weight = _ALONE if key.startswith(_SEVERAL) and not several else 1.0
            resource = _resource(charged_in(key) or (), shares)
            found += [attrs.evolve(change, promise=weight * change.promise, resource=resource) for change in of_entry]
    if (relayed := _share_of(path, RELAYED)) and not overrides.keys() & set(_BOTH_WAYS):
        # A copy through the host crosses both links, so a faster link in one direction does not make it faster.
        twice = {key: _quantity(spec.entries[key], 2.0) for key in _BOTH_WAYS}
        found.append(Proposal("hardware", overrides=twice, promise=relayed, resource=RELAYED))
    if evicts and "mem.size" not in overrides:
        twice = {"mem.size": _quantity(spec.entries["mem.size"], 2.0)}
        found.append(Proposal("hardware", overrides=twice, promise=_share_of(path, FAULTS), resource=FAULTS))
    return sorted(found, key=lambda change: -change.promise)


def _share_of(path: Sequence[PathPart], resource: str) -> float:
    return sum(part.ps for part in path if part.resource == resource) / (sum(part.ps for part in path) or 1)


def _resource(places: Iterable[str], shares: Mapping[tuple[str, str, str], float]) -> str:
    """Return the resource with the largest share of the path among those charged in `places`; empty for none."""
    sums: dict[str, float] = {}
    for (waited_for, resource, call), share in shares.items():
        weight = max((_weight(where, waited_for, resource, call) for where in places), default=0.0)
        sums[waited_for or resource] = sums.get(waited_for or resource, 0.0) + weight * share
    best = max(sums, key=lambda name: sums[name], default="")
    return best if sums.get(best) else ""


def half(change: Proposal, spec: MachineSpec, gain: float) -> Proposal | None:
    """Return the change that halves a cost, after the change that sets it to zero made the run faster.

    change: the change to zero. gain: by how much the run was faster with it. Returns None if `change` sets no cost to
    zero.
    """
    if change.kind != "cost":
        return None
    ((key, given),) = change.overrides.items()
    entry = spec.entries[key]
    if given != _quantity(entry, 0.0):
        return None  # this change is already the half
    if not isinstance(entry.value, float | int) or entry.unit is None or entry.unit.is_rate:
        return None
    return attrs.evolve(change, overrides={key: _quantity(entry, 0.5)}, promise=gain)


def _of_entry(key: str, entry: ProfileEntry, match: float) -> Iterator[Proposal]:
    value, unit = entry.value, entry.unit
    if isinstance(value, bool):
        if key.endswith(".uncontended") and not value:
            is_turn = any(where.startswith("behind ") for where in charged_in(key) or ())
            yield Proposal("contention", {}, {key: "true"}, 0.05 + (3.0 if is_turn else _SHARED) * match)
        elif key in _HARDWARE and not value:
            yield Proposal("hardware", {}, {key: "true"}, 0.02 + match)
    elif isinstance(value, str):
        for choice in entry.choices:
            if choice != value:
                yield Proposal("policy", {}, {key: choice}, 0.02 + _POLICY * match)
    elif unit is None or key.startswith(NO_COSTS) or not value:
        return
    elif unit.is_count:
        if key.startswith(_HARDWARE):
            yield Proposal("hardware", {}, {key: _quantity(entry, 2.0)}, 0.02 + match)
    elif unit.is_rate:
        yield Proposal("cost", {}, {key: _quantity(entry, 2.0)}, match)
    elif "time" in unit.dimension:
        yield Proposal("cost", {}, {key: f"0 {unit.text}".replace(" ", "")}, match)


def _quantity(entry: ProfileEntry, factor: float) -> str:
    """Return an entry's value times `factor` as text for `--set`, such as 158us or 21.9GB/s."""
    assert entry.unit is not None and not isinstance(entry.value, str)
    unit, value = entry.unit, entry.value * factor
    number, text = value / unit.factor, unit.text
    if unit.dimension == "time" and value:
        number, text = next((value / size, name) for name, size in _TIMES if value >= size or name == "ps")
    if number == int(number) and abs(number) < 1e6:
        return f"{int(number)}{text}"
    digits = max(2 - math.floor(math.log10(abs(number))), 0)
    return f"{number:.{digits}f}{text}"


_TIMES = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9), ("ps", 1e-12))


def _shares(path: Iterable[PathPart]) -> dict[tuple[str, str, str], float]:
    """Return the shares of the path, 0 to 1, by (what was waited for, what worked, call)."""
    sums: dict[tuple[str, str, str], int] = {}
    for part in path:
        key = part.waited_for, part.resource, part.call
        sums[key] = sums.get(key, 0) + part.ps
    whole = sum(sums.values())
    return {key: ps / whole for key, ps in sums.items() if ps}


def _match(entry: ProfileEntry, shares: Mapping[tuple[str, str, str], float]) -> float:
    """Return the share of the path in which an entry is charged, weighted by `_weight`."""
    return sum(
        share * max((_weight(where, *part) for where in charged_in(entry.key) or ()), default=0.0)
        for part, share in shares.items()
    )


def _weight(where: str, waited_for: str, resource: str, call: str) -> float:
    """Return the weight, 0 to 1, of a part of the path for an entry that is charged in the place `where`."""
    if where.startswith("behind "):
        return float(fnmatchcase(waited_for, where.removeprefix("behind ")))
    worked, colon, called = where.partition(": ")
    if not fnmatchcase(resource, worked) or not fnmatchcase(call, called or "*"):
        return 0.0
    return 1.0 if colon else _ANY_CALL


_WORTH = 1.01
"""If setting a cost to zero gains at least this factor, half of the cost is tried as well."""


@attrs.frozen
class CurvePoint:
    """How many times faster a run is (`gain`) when only the part `part`, from 0 to 1, of a cost is left.

    A rate is raised, not lowered: to up to twice its value with `part` 0, and not at all with `part` 1.
    """

    part: float
    gain: float


@attrs.frozen
class WhatIf:
    """A change of a run that was tried (another parameter, cost or option), and how much faster the run was with it.

    `elapsed_s` is the changed run's measured time in virtual seconds. `change` is that change.
    """

    change: Proposal
    elapsed_s: float
    gain: float
    """The original run's figure of merit (a time) over the changed run's: above 1 the change makes the run faster. If
    the changed run does more or less work, its time is first scaled to the work of the original run.
    """
    command: str
    """The command line that repeats the changed run."""
    interval: Interval | None = None
    """The gain over draws; None if no draws were made with this change."""
    curve: tuple[CurvePoint, ...] = ()
    """Gains when only parts of the cost are left; empty if they were not tried."""
    work: float = 1.0
    """The changed run's work divided by the original run's; `gain` is for equal work."""
    same: tuple[str, ...] = ()
    """Names of other changes whose runs took exactly as long and gained as much."""


@attrs.frozen
class Tried:
    """The results of all tried changes, the largest gain first; `what_ifs` are those that changed the run's time.

    A gain is a time of the original run divided by that of the changed run.
    """

    merit: str
    """The name of the time that is compared: `elapsed_s` (the measured time), or the scenario's own main figure."""
    what_ifs: tuple[WhatIf, ...]
    refused: Mapping[str, str]
    """Names of changes that cannot be run, each with the error."""
    left: int
    """How many changes were not tried because the budget was used up."""
    without_effect: tuple[str, ...] = ()
    """Names of changes with which the run takes exactly as long as without."""
    best: Mapping[str, WhatIf] = attrs.field(factory=dict)
    """By resource of the critical path: the change with the largest gain among those that make the resource cheaper."""
    unknown: frozenset[str] = frozenset()
    """Resources of the critical path of which the best change may not have been tried: the untried changes of such a
    resource promise more, in sum, than the tried ones.
    """
    other_work: tuple[str, ...] = ()
    """Names of changes with which the program does other work, so that its times cannot be compared."""

    @property
    def count(self) -> int:
        """Return how many changes were tried."""
        return sum(1 + len(one.same) for one in self.what_ifs) + len(self.without_effect) + len(self.other_work)


def tried_of(tried: Tried) -> str:
    """Say in words how many changes of the run `why` tried, how many it had no time for, and which cannot be run."""
    count = "1 change was" if tried.count == 1 else f"{tried.count} changes were"
    left = f", {tried.left} are left for a larger --budget" if tried.left else ""
    refused = ", ".join([*tried.refused][:_MOST_REFUSED]) + (", ..." if len(tried.refused) > _MOST_REFUSED else "")
    return f"{count} tried{left}" + (f", {len(tried.refused)} cannot be run ({refused})" if refused else "")


_MOST_REFUSED = 4
"""How many of the changes that cannot be run are named."""


def notes_on_work(tried: Tried, most: int) -> list[str]:
    """Return sentences on which of the first `most` changes in `tried` make the run do more, less or other work."""
    scaled = [one for one in tried.what_ifs[:most] if one.work != 1.0]
    notes = [f"{one.change.name} does {one.work:.3g} times the work; its gain is for equal work" for one in scaled]
    if tried.other_work:
        notes.append(f"not compared, since the program then does other work: {', '.join(tried.other_work)}")
    return notes


def _merged(what_ifs: Iterable[WhatIf], without: Sequence[str]) -> tuple[WhatIf, ...]:
    """Merge changes whose runs take equally long into the first of them; drop those named in `without`."""
    rows: dict[tuple[float, float], WhatIf] = {}
    for one in what_ifs:
        if one.change.name in without:
            continue
        key = one.elapsed_s, one.gain
        first = rows.setdefault(key, one)
        if first is not one:
            rows[key] = attrs.evolve(first, same=(*first.same, one.change.name))
    return tuple(rows.values())


@attrs.define(eq=False)
class Trials:
    """Tries changes of one run, each by a run of its own in the processes of `pool`, until a deadline.

    scenario, given, options: the run to explain. merit: the name of the time that changes are to improve. deadline: a
    reading of `time.monotonic`, in seconds. jobs: how many runs are made at a time.
    """

    scenario: Scenario
    given: Mapping[str, Value]
    options: RunSpec
    pool: Executor
    jobs: int
    deadline: float
    merit: str = "elapsed_s"
    has_budget: bool = True
    """Whether there is a budget, so that changes are tried at all."""
    spec: MachineSpec | None = None
    """The machine of the run that is explained."""
    work: WorkDone = NOTHING
    """The work of that run; NOTHING if it was not counted, and then gains are not scaled by work."""
    _waiting: dict[Future[bytes], tuple[Proposal, float]] = attrs.field(factory=dict)
    _answered: list[tuple[Proposal, Result]] = attrs.field(factory=list)
    _works: dict[str, WorkDone] = attrs.field(factory=dict)
    """By the change's name: the work of the runs with other parameters."""
    _refused: dict[str, str] = attrs.field(factory=dict)
    _took_s: list[float] = attrs.field(factory=list)

    def start(self, changes: Iterable[Proposal]) -> None:
        """Submit changes that do not depend on the original run, before that run has ended."""
        for change in changes:
            self._submit(change)

    def finish(
        self,
        base: Result,
        spec: MachineSpec,
        changes: Iterable[Proposal],
        advanced: Callable[[int, int], object] = lambda done, asked: None,
    ) -> Tried:
        """Try the changes, the most promising first, until the deadline; wait for those that were begun.

        base: the result of the original run. advanced: called with the number of runs done, and of all runs planned so
        far. spec: the machine of the original run.
        """
        self.spec = spec
        ahead = sorted(changes, key=lambda change: -change.promise)
        known = self.merit_in(base)
        while True:
            while ahead and len(self._waiting) < self.jobs and self._has_time():
                self._submit(ahead.pop(0))
            if not self._waiting:
                break
            for change, result in self._answers():
                gain = over(known, self.merit_in(result))
                if gain >= _WORTH and (smaller := half(change, spec, gain)) is not None:
                    ahead.insert(0, smaller)
            advanced(len(self._answered), len(self._answered) + len(self._waiting) + len(ahead))
        return self.known(base, ahead)

    def known(self, base: Result, left: Sequence[Proposal]) -> Tried:
        """Sort the results of the changes tried so far by gain, and say what could not be tried or compared.

        base: the result of the original run. left: the changes that are not tried yet.
        """
        known = self.merit_in(base)
        what_ifs, other_work = [], []
        for change, result in self._answered:
            work = self._work_with(change)
            if work is None:
                other_work.append(change.name)
                continue
            gain = work * over(known, self.merit_in(result))
            what_ifs.append(WhatIf(change, result.elapsed_s, gain, self._command(change, result), work=work))
        what_ifs.sort(key=lambda tried: (-tried.gain, tried.change.name))
        best: dict[str, WhatIf] = {}
        for one in what_ifs:
            if one.change.resource:
                best.setdefault(one.change.resource, one)
        without = [one.change.name for one in what_ifs if one.elapsed_s == base.elapsed_s and one.gain == 1.0]
        merged = _merged(what_ifs, without)
        promises: dict[str, float] = {}
        for sign, changes in ((1.0, left), (-1.0, [change for change, _ in self._answered])):
            for change in changes:
                promises[change.resource] = promises.get(change.resource, 0.0) + sign * change.promise
        unknown = frozenset(resource for resource, open_ in promises.items() if open_ > 0.0)
        others = tuple(sorted(other_work))
        refused = dict(sorted(self._refused.items()))  # in one order, whichever run has ended first
        return Tried(self.merit, merged, refused, len(left), tuple(without), best, unknown, others)

    def _work_with(self, change: Proposal) -> float | None:
        """Return the changed run's work divided by the original's; None if it does work of another kind.

        It is 1.0 if the figure of merit is a time that the program itself measures, since its author chose for which
        work, and if the original run does no counted work, such as one that only allocates.
        """
        if self.merit != "elapsed_s" or self.work == NOTHING or change.name not in self._works:
            return 1.0
        return self._works[change.name].over(self.work)

    def _has_time(self) -> bool:
        usual_s = statistics.median_low(self._took_s) if self._took_s else 0.0
        return time.monotonic() + usual_s < self.deadline

    def point_of(self, change: Proposal | None) -> Point:
        """Return the run (a point of a sweep) that tries a change; for None, the run to explain."""
        if change is None:
            return Point(registry.reference(self.scenario), dict(self.given), self.options)
        options = attrs.evolve(self._options(change), overrides={**self.options.overrides, **change.overrides})
        return Point(registry.reference(self.scenario), {**self.given, **change.parameters}, options)

    def parts_of(self, change: Proposal) -> dict[float, Proposal]:
        """Return weaker variants of a change of a cost: those that leave 0.75, 0.5 and 0.25 of it, by this number.

        For a rate, which the change doubles, the number says how much of the increase is left out. Empty if the change
        is no cost, or neither sets the cost to zero nor doubles a rate.
        """
        if change.kind != "cost" or self.spec is None:
            return {}
        ((key, given),) = change.overrides.items()
        entry = self.spec.entries[key]
        if given == _quantity(entry, 0.0):
            return {part: attrs.evolve(change, overrides={key: _quantity(entry, part)}) for part in (0.75, 0.5, 0.25)}
        if given == _quantity(entry, 2.0):
            return {
                part: attrs.evolve(change, overrides={key: _quantity(entry, 2.0 - part)}) for part in (0.75, 0.5, 0.25)
            }
        return {}

    def _submit(self, change: Proposal) -> None:
        begun = time.monotonic()
        run = run_with_work if change.parameters else run_point
        self._waiting[self.pool.submit(run, self.point_of(change))] = change, begun

    def _options(self, change: Proposal) -> RunSpec:
        """Return the options of the original run, with the change's configuration, allocator and environment."""
        named = {"configuration": change.configuration, "allocator": change.allocator}
        chosen: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
        if change.environment:
            chosen["environment"] = {**self.options.environment, **change.environment}
        return attrs.evolve(self.options, **chosen)

    def _answers(self) -> list[tuple[Proposal, Result]]:
        """Wait until at least one submitted run has ended; return the changes whose runs succeeded, with results."""
        done, _ = wait(self._waiting, return_when=FIRST_COMPLETED)
        new = []
        for future in [future for future in self._waiting if future in done]:
            change, begun = self._waiting.pop(future)
            self._took_s.append(time.monotonic() - begun)
            row: Any = msgspec.json.decode(future.result())
            if "error" in row:
                self._refused[change.name] = row["error"]
            else:
                if (work := row.pop("work", None)) is not None:
                    self._works[change.name] = WorkDone(**work)
                new.append((change, from_builtins(row)))
        self._answered += new
        return new

    def merit_in(self, result: Result) -> float:
        """Return the time, in seconds, that the changes are to improve (`merit`), from the result of a run."""
        value = result.measured.get(self.merit, result.elapsed_s)
        return float(value) if isinstance(value, int | float) else result.elapsed_s

    def _command(self, change: Proposal, result: Result) -> str:
        parameters = {**self.given, **change.parameters}
        sampled = bool(result.phases)
        return command_of(self.scenario, parameters, self._options(change), change.overrides, sampled=sampled)


def merit_of(scenario: Scenario, base: Result) -> str:
    """Return the name of the time to improve: the one on the y axis of the scenario's figure, else `elapsed_s`.

    A figure's quantity counts only if it is a time in seconds that the run `base` has measured.
    """
    name = "" if scenario.figure is None else scenario.figure.y
    return name if name.endswith("_s") and isinstance(base.measured.get(name), float) else "elapsed_s"


def command_of(
    scenario: Scenario,
    parameters: Mapping[str, Value],
    options: RunSpec,
    more: Mapping[str, str],
    *,
    sampled: bool = False,
) -> str:
    """Return the command line of a run, quoted for a shell; parameters at their defaults are left out.

    scenario, options: the program and the options of the run. parameters: by name. more: further entries of the machine
    to set. sampled: whether instances of repeated phases were left out.
    """
    words = ["offloadrt", "run", _called(scenario)]
    for name, value in parameters.items():
        if scenario.parameters[name].required or value != scenario.parameters[name].default:
            words.append(f"{name}={word(value)}")
    changed = attrs.evolve(options, overrides={**options.overrides, **more}, repeat=1, hash=None, sample_phases=sampled)
    return shlex.join([*words, *changed.words()])


def _called(scenario: Scenario) -> str:
    if scenario.path is not None and scenario.path.parent == folder():
        return scenario.name
    return registry.reference(scenario).removeprefix(f"{Path.cwd()}/")
