"""A run: one emulated machine with its program in virtual time, as a scenario or a test sees it.

The machine is built at the first use of anything that needs it (`run.machine`, `run.parallel`, …). Until then `run.set`
overrides entries of its profile, and `run.options` can be changed. `RunStatistics` has the run's counts, `Windows`
those of its measured windows.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from offloadrt.kernels.integers import is_integer
from offloadrt.registry import Registry
from offloadrt.study.errors import UserError, installed
from offloadrt.study.spec import RunSpec

if TYPE_CHECKING:  # a script that is only read needs no machine, which takes a good part of the start-up time
    from offloadrt.machine import Device, Machine, MachineSpec
    from offloadrt.machine.host_lock import LockPolicy
    from offloadrt.models.host.process import Process
    from offloadrt.models.host.program import OffloadProgram, ProgramOptions
    from offloadrt.models.openmp import OpenMP
    from offloadrt.runtime.allocators import MakeAllocator
    from offloadrt.runtime.configurations import MemoryConfiguration
    from offloadrt.runtime.events import ProgramObserver
    from offloadrt.sim.strategies import Strategy
    from offloadrt.study.running.building import Built
    from offloadrt.study.running.statistics import Ledger, MeasuredPart, RunStatistics
    from offloadrt.trace import Calls, CausalObserver, Trace

DEFAULT_MACHINE = "alex-a100"
STRATEGIES: Final = Registry["Strategy"]("strategy", "offloadrt.strategies")
V = TypeVar("V")
P = TypeVar("P", bound="OffloadProgram[Any]")


def strategy_of(text: str | Strategy, seed: int) -> Strategy:
    """Return the strategy (the order of ready actors) that `text` names: `fifo`, `random` (run's seed), `random(N)`.

    Another name is an entry point of the group `offloadrt.strategies`, which is called with the run's seed, or with the
    number in parentheses. A strategy object is returned unchanged. Raises UserError.
    """
    if not isinstance(text, str):
        if isinstance(text, type) or not (hasattr(text, "choose") and hasattr(text, "name")):
            raise UserError(f"strategy {type(text).__name__}: is no object with `name` and `choose(ready)`")
        return text
    if text == "fifo":
        from offloadrt.sim import Fifo

        return Fifo()  # the one that no seed decides
    match = re.fullmatch(r"([^()]+)(?:\((\d+)\))?", text)
    if match is not None and match[1] in STRATEGIES.points() and match[1] != "fifo":
        make = installed(STRATEGIES, match[1], "--strategy ")
        try:
            made = make(int(match[2]) if match[2] else seed)
        except Exception as error:
            raise UserError(f"--strategy {text}: {type(error).__name__}: {error}") from None
        return strategy_of("?" if isinstance(made, str) else made, seed)
    known = ", ".join(["fifo", *STRATEGIES.others(), "random or random(N)"])
    raise UserError(f"--strategy {text}: it can be {known}")


def _check_function(call: str, given: object) -> None:
    if not callable(given):
        raise TypeError(f"{call} takes an async function first, not {given!r:.80}")


class _Option(Generic[V]):
    """Descriptor for an attribute of `Run` that reads and replaces the field of that name in `run.options`."""

    def __set_name__(self, owner: type[Run], name: str) -> None:
        self._name = name

    def __get__(self, run: Run, owner: type[Run]) -> V:
        value: V = getattr(run.options, self._name)
        return value

    def __set__(self, run: Run, value: V) -> None:
        run.configure(**{self._name: value})


class Run:
    """One run of an offloading program on one emulated machine.

    `spec` describes the run; its fields can also be given by name: `Run(machine="mi300a", seed=1)`. The default machine
    is alex-a100. `hash`, `record`, `sinks` and `causal_log` request a trace; without any of them there is none
    (`run.trace` is None). Recorded events are hashed too, unless the field `hash` is False. `causal_log` records who
    resumes whom. `on_progress` is called with (done, total) as a long program advances. Raises UserError for an unknown
    engine (`gear`), strategy, fault, machine or runtime, TypeError for an unknown field.

    Each member delegates in one line to the part that does the work (`sim`, `trace`, `options`, `machine`, `windows`,
    `statistics`, the program).
    """

    __slots__ = (
        "_built", "_counting", "_environment", "_forced", "_observer", "_on_progress", "_options", "_spec",
        "doubts", "injector", "most_threads", "seed", "sim", "trace", "windows",
    )  # fmt: skip
    # With slots, a script that sets what is no attribute gets an error instead of being ignored.

    def __init__(
        self, spec: RunSpec | None = None, *, sinks: Sequence[Any] = (), causal_log: CausalObserver | None = None,
        on_progress: Callable[[int, int], object] | None = None, **fields: Any,
    ) -> None:  # fmt: skip
        from offloadrt.machine.injection import Injector
        from offloadrt.sim import Simulation
        from offloadrt.study.running import building, profiles
        from offloadrt.study.running.statistics import Ledger, Windows
        from offloadrt.trace import Calls, Trace

        spec = RunSpec.of(spec, fields)
        if wrong := [sink for sink in sinks if not hasattr(sink, "write") or not hasattr(sink, "close")]:
            raise UserError(f"sinks: {wrong[0]!r:.80} is no sink of a trace, which has write(rows) and close()")
        self.seed = spec.seed
        strategy = strategy_of(spec.strategy, spec.seed)
        self.sim = Simulation(gear=spec.gear, strategy=strategy, seed=spec.seed, causal_log=causal_log)
        self.trace: Trace | None = None
        if spec.record or spec.hash or sinks or causal_log is not None:
            hashed = spec.record if spec.hash is None else spec.hash
            self.trace = Trace(self.sim, record=spec.record, hash=hashed, sinks=list(sinks), causal_log=causal_log)
            self.sim.observer = self.trace
        self._built: Built | None = None
        self._spec = profiles.load(
            DEFAULT_MACHINE if spec.machine is None else spec.machine,
            spec.overrides,
            spec.range_end or "mean",
            spec.runtime,
        )
        self._environment = spec.environment
        self._forced = {name: value for name, value in spec.policies.items() if value is not None}
        self.most_threads = 0
        """The threads of the largest parallel region so far."""
        self.options = building.options_for("openmp")()
        self._on_progress = on_progress
        self._observer: ProgramObserver | None = None
        self._counting = Calls()
        self.injector = Injector(self.sim, building.plan_of(spec.faults)) if spec.faults else None
        """Injects faults; None in a run without faults."""
        self.doubts: list[str] = []
        """Warnings of what has read the program, such as a recording's reader; they become warnings of the result."""
        self.windows = Windows(
            self.sim, lambda: Ledger.of(self.statistics, self.sim.now), self._counting, spec.sample_phases
        )
        """The measured windows of the run; `measure` opens one."""

    # ------------------------------------------------------------------ the machine
    def set(self, key: str, value: str | float | bool) -> None:
        """Override an entry of the machine's profile. UserError once the machine is built, and for a bad entry."""
        from offloadrt.study.running import profiles

        if self._built is not None:
            raise UserError(f"set {key}: the machine runs already; set its entries before its first use")
        self._spec = profiles.override(self._spec, key, value)

    @property
    def spec(self) -> MachineSpec:
        """Return the machine's profile, with all overrides so far."""
        return self._spec

    @property
    def runtime(self) -> str:
        """Return the name of the offloading runtime's profile."""
        return self._spec.runtime

    @property
    def machine(self) -> Machine:
        """Return the hardware: cores, host memory, devices."""
        return self._parts.machine

    def device(self, number: int = 0) -> Device:
        """Return the machine's device with this number."""
        return self.machine.devices[number]

    @property
    def _parts(self) -> Built:
        if self._built is None:
            from offloadrt.study.running.building import build

            self._built = build(
                self.sim, self._spec, self._options, self._environment, self.trace, self._counting, self.injector
            )
            if self.injector is not None:
                self.injector.arm()
            self._spec = self._built.spec
            if self._observer is not None:
                for program in self._built.programs:
                    program.observe(self._observer)
        return self._built

    # ------------------------------------------------------------------ the program
    @property
    def options(self) -> ProgramOptions:
        """Return the options of the program, which also select its model: `OpenMPOptions`, `OpenACCOptions`, ….

        They are fixed once the machine is built: setting them afterwards raises UserError.
        """
        return self._options

    @options.setter
    def options(self, options: ProgramOptions) -> None:
        from offloadrt.models.host.program import ProgramOptions
        from offloadrt.study.running.building import changed

        if self._built is not None:
            raise UserError("run.options: the machine runs already; set the program's options before its first use")
        if not isinstance(options, ProgramOptions):
            raise UserError(f"run.options: {options!r} are no options of a program, as openmp.OpenMPOptions(...) is")
        self._options = options
        for name, value in self._forced.items():
            if not hasattr(options, name):
                option = f"--{name.replace('_', '-')} {value}"
                raise UserError(f"{option}: it is for OpenMP programs; one of {options.model} has none")
            self._options = changed(self._options, {name: value})

    def configure(self, **changes: Any) -> None:
        """Replace the program's options that are named: `run.configure(phantom=True)`.

        Raises UserError for an option that the program's model does not have, and once the machine is built.
        """
        from offloadrt.study.running.building import changed

        self.options = changed(self._options, changes)

    phantom: _Option[bool] = _Option()
    """The option of that name: whether arrays have a size and no storage."""
    configuration: _Option[str | MemoryConfiguration] = _Option()
    """The OpenMP program's option of that name: what a map means."""
    allocator: _Option[str | MakeAllocator] = _Option()
    """The OpenMP program's option of that name: how device blocks are obtained."""
    table_policy: _Option[str | LockPolicy | None] = _Option()
    """The OpenMP program's option of that name: which thread enters the device table next."""

    @property
    def program(self) -> OffloadProgram[Any]:
        """Return the emulated program, whatever its programming model; with several processes, that of rank 0."""
        return self._parts.programs[0]

    @property
    def processes(self) -> Sequence[Process]:
        """Return the processes that run the program, by rank: as many as `options.num_processes` says."""
        return self._parts.processes

    def observe(self, observer: ProgramObserver) -> None:
        """Send the program's events to `observer` from its start. Raises UserError once the machine is built."""
        if self._built is not None:
            raise UserError("observe: the machine runs already; name the observer before its first use")
        self._observer = observer

    @property
    def is_observed(self) -> bool:
        """Tell whether an observer receives what the program does."""
        return self._observer is not None

    def program_as(self, kind: type[P]) -> P:
        """Return the program if its class is `kind`: `run.program_as(acc.OpenACC)`. Raises UserError otherwise."""
        if not isinstance(program := self.program, kind):
            raise UserError(f"run: the program is no {kind.__name__}, its model is {self.options.model}")
        return program

    if not TYPE_CHECKING:  # which cannot know what entry points give; `program_as` has a type

        def __getattr__(self, name: str) -> Any:
            """Return the program by the name of its model, as in `run.openacc`. Raises UserError for another model."""
            from offloadrt.models.host.program import MODELS

            if name in dir(type(self)):  # a property that raised AttributeError: raise it again, for its message
                return self.__getattribute__(name)
            if name.startswith("_") or name not in MODELS.points():
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return self._of_model(name)

    def _of_model(self, name: str) -> Any:
        if self.options.model != name:
            raise UserError(f"run.{name}: the program's model is {self.options.model}")
        return self.program

    @property
    def openmp(self) -> OpenMP:
        """Return the OpenMP program: its runtime library and its present tables. Raises UserError for another model."""
        program: OpenMP = self._of_model("openmp")
        return program

    async def parallel(self, body: Callable[[Any], Awaitable[Any]], num_threads: int = 1) -> list[Any]:
        """Run a parallel region: `num_threads` host threads, of the program's model, each run `await body(t)`.

        Returns their results in order of thread number. Raises UserError for fewer than one thread, TypeError for
        a body that is no function; what a thread raises ends the others and is raised here.
        """
        _check_function("run.parallel(body, num_threads)", body)
        if not is_integer(num_threads) or num_threads < 1:
            raise UserError(f"a parallel region of {num_threads!r} threads: a whole number, and at least one")
        if self.options.num_processes > 1:
            raise UserError(
                f"run.parallel: {self.options.num_processes} processes run the program; "
                "start them with `await run.mpiexec(main)`, in which `await process.parallel(body, num_threads)`"
            )
        self.most_threads = max(self.most_threads, num_threads)
        return list(await self.program.parallel(body, num_threads=num_threads))

    async def mpiexec(
        self, main: Callable[[Process], Awaitable[Any]], n: int | None = None, *, nodes: int | None = None,
        gpus_per_node: int | None = None,
    ) -> list[Any]:  # fmt: skip
        """Run `await main(process)` in each of `n` processes on `nodes` nodes, as `mpiexec -n` does.

        Omitted counts come from `options.num_processes`, `num_nodes` and `num_devices`. Each node is a machine of its
        own with `gpus_per_node` GPUs, of which each process chooses one; the network of the machine's profile connects
        the nodes. Returns the processes' results by rank; an error of a process ends the others and is raised here.
        Raises UserError for inconsistent counts, and once the machine is built.
        """
        from offloadrt.models.host.process import mpiexec

        _check_function("run.mpiexec(main, n)", main)
        given = {"num_processes": n, "num_nodes": nodes, "num_devices": gpus_per_node}
        if changes := {name: value for name, value in given.items() if value is not None}:
            self.configure(**changes)
        results = await mpiexec(self.processes, main)
        self.most_threads = sum(process.most_threads for process in self.processes)
        return results

    async def finish(self, *, measure: bool = True) -> None:
        """End the program, as a real one ends at its exit.

        Deferred tasks, async queues and the clean-up of directives left early complete, then the runtime gives pooled
        memory back. If the program opened no measured window, everything up to the exit is measured, unless `measure`
        is False because no result is needed.
        """
        if self._built is None:
            return
        first, *others = self._built.programs
        await first.end_tasks()
        if measure:
            self.windows.finish()
        if not others:
            await first.shutdown()
            return
        async with self.sim.open_nursery() as nursery:
            for program in (first, *others):
                nursery.spawn(program.shutdown, name=f"exit of process {program.machine.process}")

    def progress(self, done: int, total: int) -> None:
        """Report that `done` of a long program's `total` steps are over; this changes nothing else in the run."""
        if self._on_progress is not None:
            self._on_progress(done, total)

    def steps(self, count: int) -> Iterator[int]:
        """Yield the numbers of a loop's steps, as `range(count)` does: `for step in run.steps(100):`.

        In a run with `sample_phases`, only a few steps of a long loop are run, and the times of the others are
        estimated. So each step must leave the program, except for results, in the state in which it began.
        """
        return self.windows.phases.steps(count)

    # ------------------------------------------------------------------ what is measured and counted
    def measure(self) -> MeasuredPart:
        """Open a measured window: `async with run.measure():`. Windows add up; without any, all is measured."""
        from offloadrt.study.running.statistics import MeasuredPart

        return MeasuredPart(self.windows)

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Name what the calling thread does: `with run.phase("halo"):`; reports compare runs phase by phase."""
        from offloadrt.trace import doing

        return doing(self.trace, self.sim.current, name)

    @property
    def elapsed(self) -> float:
        """Return the virtual seconds in the measured windows (`measure`) so far; since the start if none was opened."""
        return self.windows.elapsed

    @property
    def counted(self) -> Ledger:
        """Return the counts and virtual seconds since the run's start, measured or not, without the API calls."""
        return self.windows.counted

    @property
    def measured(self) -> Ledger:
        """Return the counts and virtual seconds of the measured windows (`measure`); without any, of the whole run."""
        return self.windows.measured

    @property
    def statistics(self) -> RunStatistics:
        """Return the run's statistics since its start, measured or not."""
        from offloadrt.study.running.statistics import RunStatistics

        return RunStatistics(self._built)

    @property
    def calls(self) -> Calls:
        """Return all API calls so far."""
        return self.windows.calls

    @property
    def locks(self) -> Mapping[str, Any]:
        """Return the statistics of every lock so far, by name: `run.locks["device table"].contended`."""
        return self.statistics.locks
