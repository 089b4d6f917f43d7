"""A run: one emulated machine with its program in virtual time, as a scenario or a test sees it.

The machine is built at the first use of anything that needs it (`run.machine`, `run.parallel`, …); until then
`run.set` overrides entries of its profile.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from offloadrt.machine import MachineSpec
from offloadrt.sim import Fifo, Random, Simulation
from offloadrt.sim.strategy import Strategy
from offloadrt.study.errors import UserError, did_you_mean
from offloadrt.study.running import profiles
from offloadrt.study.running.building import Built, build
from offloadrt.study.running.ledger import Ledger
from offloadrt.study.running.windows import Windows
from offloadrt.trace import Calls, Trace

if TYPE_CHECKING:
    from offloadrt.compilers.object_ranking import HostProgram
    from offloadrt.machine import Device, Machine
    from offloadrt.machine.host_lock import LockPolicy
    from offloadrt.machine.managed_usage import ManagedUsage
    from offloadrt.models.openacc import OpenACC
    from offloadrt.models.openmp import OpenMP
    from offloadrt.models.stdpar import HeuristicRules, Implementation, StdPar
    from offloadrt.runtime.allocators import MakeAllocator
    from offloadrt.runtime.configurations import MemoryConfiguration
    from offloadrt.sim import Actor
    from offloadrt.trace import HostTime

Model = Literal["openmp", "openacc", "stdpar"]
Gear = Literal["native", "turbo"]
GEARS: tuple[Gear, ...] = ("native", "turbo")


def strategy_of(text: str | Strategy, seed: int) -> Strategy:
    """The order of actors at one instant that `text` names: `fifo`, `random` (with the run's seed) or `random(N)`; an
    object of one's own as it is. Raises UserError.
    """
    if not isinstance(text, str):
        if isinstance(text, type) or not (hasattr(text, "choose") and hasattr(text, "name")):
            raise UserError(f"strategy {type(text).__name__}: is no object with `name` and `choose(ready)`")
        return text
    if text == "fifo":
        return Fifo()
    if match := re.fullmatch(r"random(?:\((\d+)\))?", text):
        return Random(int(match[1]) if match[1] else seed)
    raise UserError(f"--strategy {text}: it can be fifo, random or random(N)")


class Run:
    """One run of an offloading program on one emulated machine.

    `machine` is the name of a profile or the path of a file, `overrides` replaces entries of it (`{"alloc.cudaFree":
    "20 us"}`), `range_end` says where entries with a range run. `record`, `hash` and `sinks` ask for a trace; without
    any there is none (`run.trace` is None). `strategy` is a name or an object of one's own. What is recorded is hashed
    too, unless `hash` is False. Raises UserError for a gear, strategy or machine that does not exist.
    """

    def __init__(
        self,
        *,
        machine: str = "alex-a100",
        overrides: Mapping[str, str] | None = None,
        range_end: str | Mapping[str, str] = "mean",
        seed: int = 0,
        gear: str = "turbo",
        strategy: str | Strategy = "fifo",
        record: bool = False,
        hash: bool | None = None,
        sinks: Sequence[Any] = (),
    ) -> None:
        if seed < 0:
            raise UserError(f"--seed {seed}: it cannot be negative")
        if gear not in GEARS:
            raise UserError(f"--gear {gear}: it can be native or turbo")
        self.seed = seed
        self.gear = gear
        self.strategy = strategy
        self.sim = Simulation(gear=gear, strategy=strategy_of(strategy, seed), seed=seed)
        self._counting = Calls()
        self.trace: Trace | None = None
        if record or hash or sinks:
            self.trace = Trace(self.sim, record=record, hash=record if hash is None else hash, sinks=list(sinks))
            self.sim.observer = self.trace
        self.phantom = False
        """Whether arrays have a size and no storage, unless an array says otherwise. Read when the machine is built,
        as the next fourteen.
        """
        self.model: Model = "openmp"
        """What the program is written in: `openmp`, `openacc` or `stdpar`, whose threads `parallel` then runs."""
        self.compiler = "pgi"
        """Whose run-time library an OpenACC program is linked with: `pgi` or `gcc`."""
        self.pools = False
        """Whether that of GCC has JACC's two pools of device memory."""
        self.implementation: str | Implementation = "acpp"
        """Of a stdpar program: a name of `stdpar.IMPLEMENTATIONS`, or one made of these with `attrs.evolve`."""
        self.pool_gb: float | None = None
        """Of a stdpar program: the size of its memory pool in GiB, 0 for none, instead of the implementation's own."""
        self.system_usm = False
        """Of a stdpar program: whether the device uses all memory of the host as it is (``--acpp-stdpar-system-usm``):
        nothing is taken over, validated or prefetched.
        """
        self.heuristic: HeuristicRules | None = None
        """Of a stdpar program: the rules of the offload heuristic, instead of the implementation's own."""
        self.heuristic_file: Path | None = None
        """Of a stdpar program: the file with the runtimes that the heuristic knows; written at the end."""
        self.configuration: str | MemoryConfiguration = "copy"
        """What a map means: `copy`, `usm`, `implicit_zero_copy`, `eager_maps`, `managed`, `managed+prefetch`, `otm`;
        with `environment` the runtime chooses, as a real one does; or an object of one's own.
        """
        self.host_program: HostProgram | None = None
        """What a compiler knows about the program, `HostProgram.of(its host function)`; `otm` needs it."""
        self.requires_unified_shared_memory = False
        """Whether the program is built with `requires unified_shared_memory`; for the configuration `environment`."""
        self.environment: dict[str, str] = {}
        """Environment variables of the program, by name: those that `runtime.environment` knows."""
        self.allocator: str | MakeAllocator = "llvm"
        """How device blocks are obtained: `direct` or `llvm`, or a class of one's own; in an OpenACC program as its
        compiler says.
        """
        self.table_policy: str | LockPolicy | None = None
        """Who enters the device table of an OpenMP program next: `fifo`, `barging`, or an object of one's own
        (`machine/host_lock/policy.py`); None: as the profile's `lock.handoff` says.
        """
        self.num_devices = 1
        self.on_progress: Callable[[int, int], object] | None = None
        """Who is told how far a long program is; nobody if None."""
        self._spec = profiles.load(machine, overrides, range_end)
        self._made: Built | None = None
        self._windows = Windows(lambda: Ledger.of(self), self._counting)

    # ------------------------------------------------------------------ the machine
    def set(self, key: str, value: str | float | bool) -> None:
        """Override one entry of the machine's profile, before the machine is first used. Raises UserError afterwards,
        or for a bad entry.
        """
        if self._made is not None:
            raise UserError(f"set {key}: the machine runs already; set its entries before its first use")
        self._spec = profiles.override(self._spec, key, value)

    @property
    def spec(self) -> MachineSpec:
        """The machine's profile, with all overrides so far."""
        return self._spec

    @property
    def machine(self) -> Machine:
        """The hardware: cores, host memory, devices."""
        return self._built.machine

    @property
    def openmp(self) -> OpenMP:
        """The OpenMP program: its runtime library and its present tables. Raises UserError for another `model`."""
        from offloadrt.models.openmp import OpenMP

        if not isinstance(program := self.program, OpenMP):
            raise UserError(f"run.openmp: run.model is {self.model}")
        return program

    @property
    def openacc(self) -> OpenACC:
        """The OpenACC program: its runtime library, its async queues. Raises UserError for another `model`."""
        from offloadrt.models.openacc import OpenACC

        if not isinstance(program := self.program, OpenACC):
            raise UserError(f"run.openacc: run.model is {self.model}")
        return program

    @property
    def stdpar(self) -> StdPar:
        """The stdpar program: its heap, its implementation. Raises UserError for another `model`."""
        from offloadrt.models.stdpar import StdPar

        if not isinstance(program := self.program, StdPar):
            raise UserError(f"run.stdpar: run.model is {self.model}")
        return program

    @property
    def program(self) -> OpenMP | OpenACC | StdPar:
        """The program, in whichever model."""
        return self._built.program

    @property
    def _built(self) -> Built:
        if self._made is None:
            self._made = build(self, self._counting)
            self._spec = self._made.spec
        return self._made

    @property
    def is_built(self) -> bool:
        """Whether the machine has been used."""
        return self._made is not None

    @property
    def devices(self) -> Sequence[Device]:
        """The machine's devices, by number."""
        return self.machine.devices

    def device(self, number: int = 0) -> Device:
        """Device `number`."""
        return self.machine.devices[number]

    # ------------------------------------------------------------------ the program
    async def parallel(self, body: Callable[[Any], Awaitable[Any]], num_threads: int = 1) -> list[Any]:
        """A parallel region: `num_threads` host threads, of the program's model, each run `await body(t)`; their
        results in order of thread number.

        Raises UserError for fewer than one thread; what a thread raises ends the others and is raised here.
        """
        from offloadrt.kernels.whole import is_whole

        if not is_whole(num_threads) or num_threads < 1:
            raise UserError(f"a parallel region of {num_threads!r} threads: a whole number, and at least one")
        return list(await self.program.parallel(body, num_threads=num_threads))

    def spawn(
        self, function: Callable[..., Awaitable[Any]], *args: Any, name: str | None = None, daemon: bool = False
    ) -> Actor:
        """Start any other actor. The run waits for it at its end, unless it is a daemon."""
        return self.sim.spawn(function, *args, name=name, daemon=daemon)

    async def finish(self) -> None:
        """The end of the program: deferred tasks, async queues and what directives that were left early have begun
        complete, then the runtime gives pooled memory back, as at exit.

        What nobody measured in windows is measured up to the exit.
        """
        if self._made is None:
            return
        await self.program.end_tasks()
        self._windows.finish(self.now)
        await self.program.shutdown()

    def progress(self, done: int, total: int) -> None:
        """A long program tells now and then that `done` of its `total` steps are over. Nothing depends on it."""
        if self.on_progress is not None:
            self.on_progress(done, total)

    def attached(self) -> AbstractAsyncContextManager[None]:
        """`async with run.attached():` plain Trio may be used inside, in virtual time."""
        return self.sim.attached()

    # ------------------------------------------------------------------ time
    @property
    def now(self) -> float:
        """Virtual seconds since the start."""
        return self.sim.now

    def start_window(self) -> None:
        """The measured time starts here; several windows add up. Without any, everything is measured."""
        self._windows.start(self.now)

    def end_window(self) -> None:
        """The measured time ends here."""
        self._windows.end(self.now)

    @asynccontextmanager
    async def measure(self) -> AsyncIterator[None]:
        """`async with run.measure():` the measured time is that of the body."""
        self.start_window()
        try:
            yield
        finally:
            self.end_window()

    @property
    def elapsed(self) -> float:
        """Virtual seconds in the measured windows so far; since the start when none was opened."""
        return self._windows.elapsed(self.now)

    # ------------------------------------------------------------------ what it counted
    @property
    def measured(self) -> Ledger:
        """Locks, engines, bytes and host time of the measured windows so far; of everything when none was opened."""
        return self._windows.measured

    @property
    def measured_calls(self) -> Calls:
        """API calls that returned in the measured windows so far; all of them when none was opened."""
        return self._windows.calls_inside

    @property
    def calls_outside(self) -> Calls:
        """API calls that returned outside of the measured windows so far, as at the start of the program and its exit;
        none when no window was opened.
        """
        return self._windows.calls_outside

    @property
    def calls(self) -> Calls:
        """All API calls so far."""
        return self._windows.calls

    @property
    def locks(self) -> Mapping[str, Any]:
        """Statistics of every lock so far (`.acquired`, `.contended`, `.wait_s`, `.hold_s`), by name: `device table`,
        `driver context`, …
        """
        found = _ByName("lock", self.program.locks())
        for driver in self._built.drivers:
            found.update(driver.locks())
        return found

    @property
    def engines(self) -> Mapping[str, Any]:
        """Statistics of every part of the machine so far, and of the driver's own threads (`.busy_s`, `.idle_s`), by
        name: `device 0 copy engine h2d`, …
        """
        found = _ByName("part", self.machine.statistics())
        for driver in self._built.drivers:
            found.update(driver.engines())
        return found

    @property
    def faults(self) -> Mapping[str, int]:
        """Pages of host memory so far, on an APU: what kernels faulted in (`gpu`: faults that were served, `gpu_pages`:
        pages that they mapped, `gpu_duplicates`: faults for pages that somebody else had mapped meanwhile), what the
        host populated by touching it first (`cpu_pages`), what prefaults mapped (`prefault_pages`). Of managed memory:
        CUPTI's counters and the driver's own (`driver.UvmCounters`). Empty elsewhere.
        """
        found: dict[str, int] = {}
        for driver in self._made.drivers if self._made else ():
            for name, count in driver.faults().items():
                found[name] = found.get(name, 0) + count
        return found

    @property
    def managed_objects(self) -> Mapping[str, ManagedUsage]:
        """What became of managed memory so far, by name of the object, over all devices: its sums are `faults`."""
        return {name: one for device in self.devices for name, one in device.managed_objects.items()}

    @property
    def objects(self) -> Mapping[str, int]:
        """Of the configuration `otm`, over all devices: the most bytes of explicit and of implicit objects that were
        active at one time (`explicit_bytes`, `implicit_bytes`), and what there was for both (`budget_bytes`). Empty
        under others. Where each object lies is `run.device().placements`.
        """
        found: dict[str, int] = {}
        for device in self.program.devices if self._made else ():
            if (table := device.objects) is not None:
                peak = table.peak
                counters = {
                    "explicit_bytes": peak.explicit, "implicit_bytes": peak.implicit, "budget_bytes": table.budget
                }  # fmt: skip
                found = {name: found.get(name, 0) + nbytes for name, nbytes in counters.items()}
        return found

    @property
    def algorithms(self) -> Mapping[str, int]:
        """Of a stdpar program, so far: algorithms called, offloaded and on the host, waits, barriers elided,
        prefetches, allocations taken over, decisions of the offload heuristic. Empty for other models.
        """
        if self.model != "stdpar" or self._made is None:
            return {}
        return self.stdpar.algorithms()

    @property
    def host_time(self) -> HostTime:
        """Where the host threads' time went, so far."""
        return self.machine.host_time


class _ByName(dict[str, Any]):
    """Statistics by name; who asks for a name that does not exist is told which there are."""

    def __init__(self, what: str, found: Mapping[str, Any]) -> None:
        super().__init__(found)
        self._what = what

    def __missing__(self, name: str) -> Any:
        raise KeyError(f"no {self._what} {name!r}{did_you_mean(name, self)}; there are: {', '.join(self)}")
