"""A program whose schedules are explored, and one run of it: its outcome, its story and its token.

`ScenarioProgram` is a scenario or a recording with its parameters and its machine. `RunOutcome` is what a run ended
with; runs with the same key have the same outcome. `AwaitRecorder` records where a program waits: every call of the
driver libraries, and every wait of one of its threads. It needs the gear ``native``, where each step of an actor is a
step of its Trio task; the other gear has the same history. `EndCheck` is for runs with faults: after an error it shuts
the program down, and then lists what is wrong with the runtime's state. `StoryStrategy` records which actors are held
back; `token_of` and `replay` go from a failing run to its token and back.
"""

from __future__ import annotations

import functools
import json
import re
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import attrs
import trio
from trio.lowlevel import Task, add_instrument, remove_instrument

from offloadrt.extensions.checking.checked import causes_of, reports_mistakes, reports_runtime_faults
from offloadrt.extensions.exploring.invariants import held, unreturned, violations
from offloadrt.extensions.exploring.schedules import CHECKED, ScheduleCase, Token, costs_with_a_range
from offloadrt.extensions.exploring.strategies.recorded import Watched
from offloadrt.machine.injection import ThreadDied
from offloadrt.sim import SimulationError, story
from offloadrt.sim.scheduler import SELF, Actor
from offloadrt.sim.strategies import Strategy
from offloadrt.study.errors import ScriptFailed, UserError
from offloadrt.study.reporting.results import measured_of
from offloadrt.study.reporting.words import some
from offloadrt.study.running import profiles
from offloadrt.study.running.execution import (
    ENDING_ERRORS,
    PROGRAM_ERRORS,
    NeverAwaited,
    Supervisor,
    run_of,
    run_to_the_end,
    with_policies,
)
from offloadrt.study.running.run import Run
from offloadrt.study.scripts import registry
from offloadrt.study.scripts.definition import Scenario
from offloadrt.study.scripts.listing import folder
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.scripts.tracebacks import innermost
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import digest_of_file, digest_of_sources
from offloadrt.trace.events import to_ns

_TIMES = ("_s", "_ms", "_us", "_ns", "time", "elapsed", "speedup", "ratio")
"""Endings of the names of figures that are times or depend on times; these differ from schedule to schedule."""


@attrs.frozen
class RunOutcome:
    """How a run ended: with an error, with reports of checkers, or with a result."""

    key: str
    """Runs whose outcomes have equal keys ended alike."""
    text: str
    """The outcome in one line."""
    is_error: bool
    detail: str = ""
    """The error's full text, with its traceback if it has one, or the reports; else empty."""
    is_named: bool = False
    """Whether it is a documented error: one of the runtime or the driver library, or a UserError."""
    is_refusal: bool = False
    """Whether the request cannot be carried out, such as a memory configuration that the machine does not have."""


def result_of(figures: Mapping[str, Value], names: Sequence[str]) -> RunOutcome:
    """Return the outcome of a run without an error: the figures in `names`, or by default all that are no times.

    Raises UserError for a name that the program did not return.
    """
    for name in names:
        if name not in figures:
            raise UserError(f"--result {name}: the program returned {', '.join(figures) or 'no figures'}")
    chosen = {
        name: value
        for name, value in figures.items()
        if (name in names if names else not name.endswith(_TIMES) and "per_s" not in name)
    }
    text = " ".join(f"{name}={value}" for name, value in chosen.items()) or "it ended"
    return RunOutcome("result " + json.dumps(chosen, sort_keys=True), text, False)


def reported(reports: Sequence[str]) -> RunOutcome:
    """Return the outcome of a run for which checkers made one or more reports, as texts."""
    first = reports[0].partition("\n")[0]
    return RunOutcome(f"report {_without_numbers(first)}", first, True, "\n".join(reports))


def failure_of(error: BaseException) -> RunOutcome:
    """Return the outcome of a run that raised an error; errors of one type at one line count as the same outcome."""
    detail = str(error)
    cause = error.__cause__ if isinstance(error, ScriptFailed) and error.__cause__ is not None else error
    inner = innermost(cause)
    if inner is not error and not isinstance(error, ScriptFailed):
        detail = str(inner)
    kind = type(inner).__name__
    message = (str(inner).partition("\n")[0] or detail.partition("\n")[0]).strip()
    site = story.site(traceback.walk_tb(inner.__traceback__))
    where = f" ({site})" if site else ""
    key = f"{kind} {site or _without_numbers(message)}"
    if isinstance(inner, SimulationError):  # its message says which actor waits for which; that differs
        key = kind
    text = f"{kind}: {message}{where}" if message else f"{kind}{where}"
    ended = (*PROGRAM_ERRORS, ThreadDied)
    of_program = isinstance(error, NeverAwaited) or any(isinstance(one, ended) for one in causes_of(error))
    refusal = isinstance(error, UserError) and not of_program
    return RunOutcome(key, text, True, detail, isinstance(inner, (UserError, *ENDING_ERRORS)), refusal)


def _without_numbers(text: str) -> str:
    return re.sub(r"\d+(\.\d+)?(e[+-]?\d+)?", "N", text)


NEVER = "call:1000000000000"
"""A fault that never happens; with it, a run counts the calls of its driver libraries."""
_ENDINGS = "rest of directive"
"""How the names begin of the actors that finish a directive after its thread has left it."""


@attrs.frozen
class Wait:
    """A wait of a thread (its name; `actor` is its index); begin and end are virtual seconds."""

    actor: int
    thread: str
    begin: float
    end: float

    @property
    def fault(self) -> str:
        """Return a fault, as `--faults` writes it, that kills the thread in the middle of this wait."""
        return f"thread:#{self.actor}@{(self.begin + self.end) / 2!r}s"


@attrs.define(eq=False)
class AwaitRecorder(trio.abc.Instrument):
    """Records at which points of a run a fault can be injected: its driver calls, and the waits of its threads."""

    waits: list[Wait] = attrs.field(factory=list)
    calls: list[str] = attrs.field(factory=list)
    """The calls of the driver libraries, by name, in order."""
    _since: dict[Actor, float] = attrs.field(factory=dict)

    @asynccontextmanager
    async def around(self, run: Run) -> AsyncIterator[None]:
        """Record the awaits of a run while the body of ``async with`` executes."""
        add_instrument(self)
        try:
            yield
        finally:
            remove_instrument(self)
        if run.injector is not None:
            self.calls += run.injector.calls

    def before_task_step(self, task: Task) -> None:
        actor = _actor_of(task)
        if actor is not None and (since := self._since.pop(actor, None)) is not None and actor.sim.now > since:
            self.waits.append(Wait(actor.index, actor.name, since, actor.sim.now))

    def after_task_step(self, task: Task) -> None:
        if (actor := _actor_of(task)) is not None and not actor.finished:
            self._since[actor] = actor.sim.now

    def call_faults(self) -> list[str]:
        """Return a fault, as `--faults` writes it, for each recorded call.

        It lets the call fail once. If the call allocates, later calls of the same function fail, too, as if device
        memory were exhausted.
        """
        seen: Counter[str] = Counter()
        faults = []
        for number, call in enumerate(self.calls, 1):
            seen[call] += 1
            allocates = "Alloc" in call or "allocate" in call
            faults.append(f"{call}:{seen[call]}+" if allocates else f"call:{number}")
        return faults


def _actor_of(task: Task) -> Actor | None:
    """Return the program's thread that a Trio task runs; None for daemons, the first actor, and ends of directives."""
    actor = task.context.get(SELF)
    if actor is None or actor.task is not task or actor.daemon or not actor.index:
        return None
    return None if actor.name.startswith(_ENDINGS) else actor


@attrs.define
class EndCheck:
    """Checks the state of the runtime at the end of a run, and collects the invariants that are violated.

    After an error, the check first shuts the program down. `violations` has a sentence for each violated invariant.
    """

    violations: list[str] = attrs.field(factory=list)

    def outcome(self, ended: RunOutcome) -> RunOutcome:
        """Return the outcome that reports the violated invariants of a run.

        ended: the outcome that the run would have otherwise; it is named in each line.
        """
        return reported([f"{line} (after: {ended.text})" for line in self.violations])

    @asynccontextmanager
    async def around(self, run: Run) -> AsyncIterator[None]:
        """Check the run's state after the body of ``async with``, unless the run was cancelled from outside."""
        try:
            yield
        except (trio.Cancelled, KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            for process in run.processes:
                await process.program.end_tasks()
            await run.finish(measure=False)
            self._look(run)
            raise
        self._look(run)

    def _look(self, run: Run) -> None:
        devices = [device for process in run.processes for device in process.program.devices]
        self.violations += held(run.sim)
        self.violations += [line for device in devices for line in violations(device)]
        if run.options.model in ("openmp", "openacc"):  # programs of other models call the driver library themselves
            self.violations += [line for device in devices for line in unreturned(device)]
        busy = [actor.name for actor in run.sim.actors.values() if not actor.daemon and actor is not run.sim.current]
        self.violations += [f"{name} has not ended" for name in busy]


Checker = Callable[[Run], Callable[[], Sequence[str]]]
"""Called with a run before it begins. It returns a function that is called at the end and returns the reports."""


@attrs.frozen
class Ended:
    """A run that has ended: its outcome, its virtual seconds, and its trace hash, empty if none was asked for."""

    outcome: RunOutcome
    time_s: float
    hash: str = ""

    @classmethod
    def of(
        cls, run: Run, outcome: RunOutcome, reports: Sequence[Callable[[], Sequence[str]]], end_check: EndCheck | None
    ) -> Ended:
        """Make the record of a run that has ended.

        reports: functions that return the reports of the run's checkers. Such reports, and violations that `end_check`
        found, replace `outcome`.
        """
        if found := [line for report in reports for line in report()]:
            outcome = reported(found)
        if end_check is not None and end_check.violations:
            outcome = end_check.outcome(outcome)
        return cls(outcome, run.sim.now, run.trace.hash() if run.trace is not None else "")


class Program(Protocol):
    """A program whose schedules `explore` can run: a scenario or a test."""

    @property
    def label(self) -> str:
        """Return the program's name in reports."""

    def run(self, case: ScheduleCase, strategy: Strategy, *, hash: bool = False) -> Ended:
        """Run the program once, with the costs and faults of `case` and with the scheduling strategy `strategy`.

        hash: whether the trace hash is computed, which identifies a run. Raises UserError for wrong options.
        """

    def costs(self) -> tuple[str, ...]:
        """Return the names of the machine's entries that are costs or rates with a range."""

    def smaller(self) -> Sequence[Program]:
        """Return variants of the program with one of its shrinkable parameters made smaller, smallest value first."""


@attrs.frozen
class ScenarioProgram:
    """A scenario with its parameters and options; it can be sent to other processes."""

    reference: str
    """The scenario's reference, for `registry.find`."""
    parameters: Mapping[str, Value]
    options: RunSpec = attrs.field(factory=RunSpec)
    results: tuple[str, ...] = ()
    """Names of the figures that are compared; if empty, those that the scenario names."""
    checkers: tuple[Checker, ...] = ()
    """Checkers whose reports make a run a failure."""

    @property
    def label(self) -> str:
        return " ".join([self.scenario.name, *(f"{name}={value}" for name, value in self.given.items())])

    @property
    def scenario(self) -> Scenario:
        return _found(self.reference)

    @property
    def given(self) -> dict[str, Value]:
        """Return the parameters that differ from their defaults."""
        known = self.scenario.parameters
        return {name: value for name, value in self.parameters.items() if value != known[name].default}

    def run(self, case: ScheduleCase, strategy: Strategy, *, hash: bool = False) -> Ended:
        run, parameters = self._made(case, strategy=strategy, hash=hash)
        reports = [checker(run) for checker in self.checkers]
        end_check = EndCheck() if case.faults else None
        outcome = self._outcome(run, parameters, end_check)
        return Ended.of(run, outcome, () if outcome.is_error else reports, end_check)

    def recorded_awaits(self) -> tuple[RunOutcome, AwaitRecorder]:
        recorder = AwaitRecorder()
        run, parameters = self._made(ScheduleCase(faults=(NEVER,)), gear="native")
        return self._outcome(run, parameters, recorder), recorder

    def _made(self, case: ScheduleCase, **how: Any) -> tuple[Run, dict[str, Value]]:
        """Return the run of a case, not yet started, and its parameters."""
        spec = attrs.evolve(
            self.options,
            overrides={**self.options.overrides, **case.overrides},
            range_end=case.range_end,
            faults=(*self.options.faults, *case.faults),
            **how,
        )
        parameters = with_policies(self.parameters, spec)
        return run_of(self.scenario, parameters, spec), parameters

    def _outcome(self, run: Run, parameters: Mapping[str, Value], supervisor: Supervisor | None) -> RunOutcome:
        """Run a program to its end, and return the outcome."""
        scenario = self.scenario
        try:
            returned = run_to_the_end(run, scenario, parameters, supervisor, measure=False)
        except (ScriptFailed, UserError) as error:
            return failure_of(error)
        return result_of(measured_of(returned, scenario.name), self.results or scenario.results)

    def costs(self) -> tuple[str, ...]:
        scenario, options = self.scenario, self.options
        machine = options.machine or scenario.machine
        return costs_with_a_range(
            profiles.load(machine, options.overrides, runtime=options.runtime or scenario.runtime)
        )

    def smaller(self) -> Sequence[Program]:
        programs: list[Program] = []
        for name in self.scenario.shrinks:
            parameter, value = self.scenario.parameters[name], self.parameters[name]
            least = parameter.range.low if parameter.range.low is not None else 1
            if isinstance(value, int) and value > least:
                smaller = dict.fromkeys((int(least), (value + int(least)) // 2, value - 1))
                programs += [self._with(name, less) for less in smaller]
        return programs

    def _with(self, name: str, value: int) -> ScenarioProgram:
        return attrs.evolve(self, parameters={**self.parameters, name: value})


@functools.lru_cache(maxsize=8)
def _found(reference: str) -> Scenario:
    return registry.find(reference)


_DIGITS = 12


def token_of(program: ScenarioProgram, case: ScheduleCase) -> Token:
    """Run the program once more; return its token, one line of text from which a run of `case` can be repeated."""
    ended = program.run(case, case.strategy, hash=True)
    options = program.options.changed()
    options.pop("gear", None)  # both give the same run
    if reports_mistakes in program.checkers:
        options[CHECKED] = True
    return Token(
        _shown(program),
        program.given,
        options,
        program.results,
        case,
        digests_of(program),
        ended.outcome.key,
        ended.hash,
    )


def lost_updates(program: ScenarioProgram, case: ScheduleCase) -> list[str]:
    """Check the runtime library itself: run a program under a case and once more without changes; return errors found.

    The error is that LLVM's runtime copies data back to the host before a kernel of another thread has written it.
    case: the schedule, costs and faults of the first of the two runs.
    """
    found: list[str] = []
    for title, one in (("in this schedule", case), ("in the order of scheduling", ScheduleCase())):
        run, parameters = program._made(one, strategy=one.strategy)
        reports = reports_runtime_faults(run)
        program._outcome(run, parameters, None)
        found += [f"{title}, {report}" for report in reports()]
    return found


def digests_of(program: ScenarioProgram) -> dict[str, str]:
    """Return hashes by which a replay notices that the program, its machine's profile or the emulator has changed.

    They are the first 12 hexadecimal digits, by the names under which a token stores them.
    """
    scenario, options = program.scenario, program.options
    machine = profiles.load(options.machine or scenario.machine, runtime=options.runtime or scenario.runtime)
    return first_digits(digest_of_file(scenario.path) or "", machine.digest, digest_of_sources())


def first_digits(program: str, machine: str, emulator: str) -> dict[str, str]:
    """Return the first 12 digits of three given hashes, under the names by which a token stores them.

    program, machine, emulator: hashes of the program's file, its machine's profile, and the emulator's sources.
    """
    every = {"the program": program, "its machine": machine, "offloadrt": emulator}
    return {name: digest[:_DIGITS] for name, digest in every.items()}


def _shown(program: ScenarioProgram) -> str:
    """Return the program's reference: a name if the package has it, else a path, relative if it is below here."""
    scenario = program.scenario
    if scenario.path is None or scenario.path.parent == folder():
        return scenario.name
    reference = registry.reference(scenario)
    path, name = registry.split(reference)
    assert path is not None
    here = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return f"{here}:{name}" if name is not None else str(here)


@attrs.frozen
class Replayed:
    """A run that was repeated from a token, a line of text that describes it.

    `program` and `token` are what was run and the token; `ended` is how it ended now.
    """

    token: Token
    program: ScenarioProgram
    ended: Ended
    reference: RunOutcome
    """The outcome if actors go on in the order in which they became ready."""
    changed: list[str]
    """Which of the program, its machine and the emulator have changed since the token was made."""

    @property
    def is_same(self) -> bool:
        """Tell whether the run has the token's trace hash, so that it is the same event by event."""
        return self.ended.hash == self.token.hash


def replay(text: str, *, gear: str = "turbo", checkers: tuple[Checker, ...] = ()) -> Replayed:
    """Repeat the run that a token describes. Raises UserError for a token that cannot be read or run.

    text: the token. gear: the emulator's engine, which changes no result, only real time. checkers: their reports count
    as failures.
    """
    token = Token.decode(text)
    if "::" in token.program:
        file = token.program.partition("::")[0]
        raise UserError(f"replay: the token is of a test; run it with `pytest {file} --offload-replay TOKEN`")
    scenario = registry.find(token.program)
    given = {**token.options, "gear": gear}
    if given.pop(CHECKED, False) and reports_mistakes not in checkers:
        checkers = (*checkers, reports_mistakes)
    try:
        options = RunSpec(**given)
    except TypeError as error:
        raise UserError(f"replay: the token cannot be read ({error}); copy all of it") from None
    program = ScenarioProgram(
        registry.reference(scenario), scenario.bind(token.parameters), options, token.results, checkers
    )
    fifo = ScheduleCase()
    reference = program.run(fifo, fifo.strategy).outcome
    if reference.is_refusal:
        raise UserError(reference.detail)
    ended = program.run(token.case, token.case.strategy, hash=True)
    return Replayed(token, program, ended, reference, token.changed(digests_of(program)))


_MOST = 4
"""A line of a story names at most so many actors that went on while another one was late."""


@attrs.define
class _Departed:
    """A departure from the order of scheduling, and the actors that went on while its actor was late (in seconds)."""

    time: float
    actor: int
    who: str
    until: float
    """When the actor goes on again. Infinite for one that was passed over, as long as it has not gone on."""
    seconds: float | None
    meanwhile: dict[str, None] = attrs.field(factory=dict)


@attrs.define
class StoryStrategy(Watched):
    """A scheduling strategy that chooses as ``strategy`` does, and records each change of order to describe it later.

    In a change of order, an actor (a thread or part of the machine) is passed over or held back. departed: these
    changes, in the order in which they happened.
    """

    departed: list[_Departed] = attrs.field(init=False, factory=list)
    sites: dict[int, str] = attrs.field(init=False, factory=dict)
    """By directive: its line in the program."""

    def choose(self, ready: Sequence[Actor]) -> int:
        for actor in ready:
            self._who(actor)
        chosen = self.strategy.choose(ready)
        for actor in ready[:chosen]:
            if not any(one.actor == actor.index and one.until > actor.sim.now for one in self.departed):
                self.departed.append(_Departed(actor.sim.now, actor.index, self._who(actor), float("inf"), None))
        return chosen

    def delay(self, actor: Actor) -> float | None:
        now, who = actor.sim.now, self._who(actor)
        held = self._held(actor)
        for one in self.departed:
            if one.actor == actor.index:
                if one.until > now and one.seconds is None:
                    one.until, one.seconds = now, now - one.time
            elif one.until >= now and held is None:
                one.meanwhile.setdefault(who)
        if held is not None:
            self.departed.append(_Departed(now, actor.index, who, now + held, held))
        return held

    def _who(self, actor: Actor) -> str:
        site = story.site(story.awaited(getattr(actor.task, "coro", None)))
        if site:
            self.sites[actor.cause] = site
        elif actor.cause:
            site = self.sites.get(actor.cause, f"directive {actor.cause}")
        return f"{actor.name} ({site})" if site else actor.name

    def lines(self) -> list[str]:
        """Describe each change of order in a line of text: which actor was passed over or held back.

        A second line says which other actors (threads or parts of the machine) went on before it.
        """
        lines = []
        for one in self.departed:
            late = "goes behind the others" if not one.seconds else f"is held back for {_time(one.seconds)}"
            lines.append(f"t={_time(one.time)}  {one.who} {late}")
            others = sorted(one.meanwhile, key=lambda who: "(" not in who)
            if others:
                lines.append(f"    meanwhile {some(others, _MOST)} went on")
        return lines


def story_of(program: Program, case: ScheduleCase) -> list[str]:
    """Run a program once more; return as lines of text what is special in a case: faults, changed costs and order.

    case: the schedule, costs and faults. The order is changed where the actor (thread or part of the machine) that goes
    on is not the one that became ready first.
    """
    told = StoryStrategy(case.strategy)
    program.run(case, told)
    return [*(f"fault {fault}" for fault in case.faults), *cost_lines(case), *told.lines()]


def cost_lines(case: ScheduleCase) -> Iterable[str]:
    """Yield a line of text for each cost of the machine that a case changes, with its position in its range."""
    for key, share in case.costs:
        yield f"{key} is at {share:.0%} of its range"
    if case.jitter:
        yield f"each cost of the host varies by {case.jitter:.0%}"


def _time(seconds: float) -> str:
    ns = to_ns(round(seconds * 1e12))
    for unit, size in (("s", 10**9), ("ms", 10**6), ("µs", 10**3)):
        if ns >= size:
            return f"{ns / size:.4g} {unit}"
    return f"{ns} ns"
