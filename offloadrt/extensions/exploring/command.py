"""The commands that look for schedules under which a program fails: `explore` and `replay`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import attrs
from cyclopts import Parameter

from offloadrt.cli.options import DEFAULTS, Jobs, Json, ParameterValues, ScenarioName, single
from offloadrt.cli.terminal import INTERRUPTED, NEGATIVE, console, duration, print_json, stages
from offloadrt.study.reporting.words import counted
from offloadrt.study.spec import Configuration, Environment, Faults, Gear, Machine, Overrides, RunSpec, Runtime, Seed

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from offloadrt.extensions.exploring.explore import Everywhere, Exploration
    from offloadrt.extensions.exploring.program import Program, Replayed, RunOutcome, ScenarioProgram
    from offloadrt.extensions.exploring.schedules import ScheduleCase

T = TypeVar("T", bound="Exploration | Everywhere")

_LONG_S = 2.0
"""A first run that took longer is not timed again."""


def explore(
    program: ScenarioName,
    /,
    *parameters: ParameterValues,
    strategy: str = "pct:3",
    runs: int = 1000,
    jobs: Jobs = None,
    keep_going: Annotated[bool, Parameter(negative=())] = False,
    check: Annotated[bool, Parameter(negative=())] = False,
    result: Annotated[list[str] | None, Parameter(negative=())] = None,
    machine: Machine = None,
    runtime: Runtime = None,
    configuration: Configuration = None,
    seed: Seed = 0,
    overrides: Overrides = DEFAULTS.overrides,
    environment: Environment = DEFAULTS.environment,
    faults: Faults = (),
    json: Json = False,
) -> int:
    """Run a program under many schedules; any error, failed assertion or differing result is shown with a token.

    With `--faults everywhere`, run it instead once for each of its awaits (calls of the driver and waits of threads),
    with a fault there: the call fails, or the thread dies. A run that hangs, leaves something behind or ends in an
    error without a name is shown. The exit code is 1 when a run under a schedule or with a fault fails.

    Parameters
    ----------
    strategy:
        random, pct:DEPTH[:LENGTH], delay:BOUND[:LENGTH], dfs:BOUND[:LENGTH], costs[:JITTER]; docs/how-to/explore.md
        has what they do.
    runs:
        How many schedules are run; with `--faults everywhere`, how many faults, chosen evenly if there are more.
    keep_going:
        Go on after the first failure.
    check:
        Whatever `offloadrt check` reports about a schedule is a failure too: races, stale data, wrong maps.
    result:
        The name of a returned figure that must not depend on the schedule; may be repeated. By default the figures that
        the scenario names, or else every figure that is no time.
    seed:
        The seed of the runs' random generator, and of the first schedule.
    """
    from offloadrt.extensions.checking.checked import reports_mistakes
    from offloadrt.extensions.exploring.explore import explore as search
    from offloadrt.extensions.exploring.program import ScenarioProgram
    from offloadrt.extensions.exploring.schedules import SchedulePlan
    from offloadrt.machine.injection import EVERYWHERE
    from offloadrt.study.errors import UserError
    from offloadrt.study.scripts import registry
    from offloadrt.study.scripts.parameters import split_assignments
    from offloadrt.study.sweep import processors

    if runs < 1:
        raise UserError(f"--runs {runs}: at least one")
    by_plan = [fault for fault in faults if fault != EVERYWHERE]
    spec = RunSpec(
        machine=machine,
        runtime=runtime,
        configuration=configuration,
        overrides=overrides,
        environment=environment,
        seed=seed,
        faults=by_plan,
    )
    chosen = registry.find(program)
    explored = ScenarioProgram(
        registry.reference(chosen),
        chosen.bind(split_assignments(parameters)),
        single(spec),
        tuple(result or ()),
        (reports_mistakes,) if check else (),
    )
    if len(by_plan) < len(faults):
        return _everywhere(explored, runs, jobs, json)
    plan = SchedulePlan.parse(strategy, seed)
    few = runs <= 100  # a pool takes longer to start than these take to run
    workers = jobs if jobs is not None else 1 if few else processors()
    _announce(f"{chosen.name}: {counted(runs, 'run')} at most under {strategy}")
    begin = time.monotonic()
    found, interrupted = _searched(
        chosen.name,
        "schedules",
        workers,
        lambda pool, told: search(
            explored, plan, runs, pool, jobs=workers, keep_going=keep_going,
            advanced=lambda so_far: told(so_far, so_far.runs - 1, runs),
        ),
    )  # fmt: skip
    seconds = time.monotonic() - begin
    if found.failures:
        _announce("makes each failing schedule smaller, by 600 runs at most; Ctrl-C shows it as small as it is")
    record = ExplorationRecord.of(found, strategy)
    if json:
        print_json(record)
    else:
        rate = f"{record.runs / seconds:.0f} a second with {workers} process{'es' if workers > 1 else ''}"
        _print_exploration(record, rate, plan.bound)
    return INTERRUPTED if interrupted else NEGATIVE if record.failures else 0


def _everywhere(program: ScenarioProgram, runs: int, jobs: int | None, json: bool) -> int:
    """Run a program with a fault at each of its awaits, and print what came out."""
    from offloadrt.extensions.exploring.explore import everywhere
    from offloadrt.study.sweep import processors

    few = runs <= 100  # as for schedules
    workers = jobs if jobs is not None else 1 if few else processors()
    name = program.scenario.name
    _announce(f"{name}: a run that finds its awaits, then one with a fault at each, {runs} at most")
    found, interrupted = _searched(
        name,
        "faults",
        workers,
        lambda pool, told: everywhere(
            program, runs, pool, jobs=workers, advanced=lambda so_far: told(so_far, so_far.runs, len(so_far.cases))
        ),
    )
    record = EverywhereRecord.of(found)
    if json:
        print_json(record)
    else:
        _print_everywhere(record)
    return INTERRUPTED if interrupted else NEGATIVE if record.failures else 0


def _announce(text: str) -> None:
    """Say on standard error what the command does next."""
    print(f"explore {text}", file=sys.stderr, flush=True)


def _searched(
    name: str, stage: str, workers: int, work: Callable[[Executor, Callable[[T, int, int], None]], T]
) -> tuple[T, bool]:
    """Do the work of a search on so many processes; return what came out, and whether Ctrl-C ended it before its end.

    Shows how many runs are over and, from the time of the first one, how long the others will take. work: gets the
    executor, and a function to call after the first run and after each batch with what came out so far, the number of
    runs made and the number of all. Raises UserError for a program that cannot be run as the command line asks.
    """
    from offloadrt.study.errors import UserError
    from offloadrt.study.sweep import executor

    latest: T | None = None
    begun = time.monotonic()
    try:
        with executor("process", workers) as pool, stages(f"explore {name}") as shown:

            def advanced(so_far: T, done: int, total: int) -> None:
                nonlocal latest
                if latest is None:
                    whole_s = _seconds_of_a_run(so_far.program, time.monotonic() - begun) * total / workers
                    about = f"about {duration(whole_s)}" if whole_s >= 1.0 else "less than a second"
                    _announce(f"{name}: {about} for {counted(total, 'run')}; --runs makes fewer")
                latest = so_far
                shown(stage, done, total)

            found = work(pool, advanced)
            if found.reference.is_refusal:
                raise UserError(found.reference.detail)
            return found, False
    except KeyboardInterrupt:
        if latest is None:
            raise
        print("offloadrt: note: interrupted: what came out up to now follows", file=sys.stderr)
        return latest, True


def _seconds_of_a_run(program: Program, first_s: float) -> float:
    """Return how long a run takes here; first_s: how long the first one took, much of which may be imports."""
    from offloadrt.extensions.exploring.schedules import ScheduleCase

    if first_s > _LONG_S:
        return first_s
    begun, fifo = time.monotonic(), ScheduleCase()
    program.run(fifo, fifo.strategy)
    return time.monotonic() - begun


def _print_exploration(record: ExplorationRecord, rate: str, bound: int) -> None:
    screen = console()
    screen.print(
        f"{record.program}: one run in the order of scheduling, {record.runs} under {record.strategy}, {rate}",
        soft_wrap=True,
    )
    _print_outcomes(record.outcomes)
    if record.every_schedule:
        departures = f"{bound} departure{'' if bound == 1 else 's'}"
        screen.print(f"every schedule with at most {departures} from the order of scheduling was run")
    for failure in record.failures:
        _print_failure(failure)


def _print_everywhere(record: EverywhereRecord) -> None:
    console().print(
        f"{record.program}: {record.runs} of {record.calls + record.waits} awaits were made to fail, one in each run: "
        f"{counted(record.calls, 'call')} of the driver, {counted(record.waits, 'wait')} of threads",
        soft_wrap=True,
    )
    _print_outcomes(record.outcomes)
    for failure in record.failures:
        print(f"\n{failure.program}, fault {' '.join(failure.faults) or 'none'}: {failure.outcome}")
        if failure.detail:
            print(failure.detail)
        print(f"offloadrt replay {failure.token}")


def _print_outcomes(outcomes: list[OutcomeRecord]) -> None:
    for one in outcomes:
        console().print(f"{one.runs:8}  {one.outcome}{' FAILS' if one.fails else ''}", soft_wrap=True, markup=False)


def _print_failure(failure: FailureRecord) -> None:
    """Print a failing run: its outcome, its schedule made smaller, and its token."""
    print(f"\n{failure.program}: {failure.outcome}")
    if not failure.is_error:
        print(f"in the order of scheduling: {failure.expected}")
    if failure.detail:
        print(failure.detail)
    print(f"schedule, made smaller in {counted(failure.tried, 'run')}:")
    _print_schedule(failure.schedule)
    print(f"offloadrt replay {failure.token}")


def _print_schedule(schedule: list[str]) -> None:
    for line in schedule or ["the order of scheduling"]:
        print(f"  {line}")


def replay(token: str, /, *, gear: Gear = "turbo", json: Json = False) -> int:
    """Repeat a run from its token, bit by bit, and describe the run's schedule.

    The exit code is 1 when the run fails, as it did when the token was made.

    Parameters
    ----------
    token:
        What `offloadrt explore` or the pytest plugin printed.
    """
    from offloadrt.extensions.exploring.program import replay as run_again

    record = ReplayRecord.of(run_again(token, gear=gear))
    if json:
        print_json(record)
    else:
        print(f"{record.program}: {record.outcome}")
        if record.detail:
            print(record.detail)
        _print_schedule(record.schedule)
        print(_judged(record))
    return NEGATIVE if record.fails else 0


def _judged(record: ReplayRecord) -> str:
    """Return in words whether the run is the one from which the token was made."""
    changed = f"; changed since: {', '.join(record.changed)}" if record.changed else ""
    if record.same_run:
        return f"the same run, event by event (trace hash {record.trace_hash}){changed}"
    return f"another run, with {'the same' if record.same_outcome else 'another'} outcome{changed}"


@attrs.frozen
class OutcomeRecord:
    """An outcome of the program: in how many runs it occurred, and whether it is a failure.

    `fails` tells whether it is one. `outcome` describes it in one line, and `runs` is the number of runs.
    """

    outcome: str
    runs: int
    fails: bool


@attrs.frozen
class FailureRecord:
    """A failing run, after it was made as small as possible.

    `expected` is the outcome of the reference run: no fault is injected in it, and actors (threads and parts of the
    machine) that are ready at the same time run in the order in which they became ready. `is_error` tells whether the
    failing run ended with an error, rather than with another result. `detail` is the error's own traceback, or what the
    checkers report. `faults` are the injected faults, and `schedule` says in sentences which actors went on in another
    order. `token` is the text from which `replay` repeats the run.
    """

    program: str
    outcome: str
    is_error: bool
    expected: str
    detail: str
    faults: list[str]
    schedule: list[str]
    tried: int
    """The number of runs that were made to find a smaller failing run."""
    token: str

    @classmethod
    def of(
        cls,
        program: Program,
        case: ScheduleCase,
        outcome: RunOutcome,
        reference: RunOutcome,
        schedule: list[str],
        tried: int,
    ) -> FailureRecord:
        """Convert a failing run to a record for JSON, with its token; this runs the program again.

        case: the run's schedule, costs and faults. reference: the outcome of the run in which nothing is changed.
        schedule: lines that describe the schedule. tried: how many runs were made to make the failure smaller.
        """
        from offloadrt.extensions.exploring.program import lost_updates, token_of

        lost = lost_updates(_scenario_of(program), case)
        token = token_of(_scenario_of(program), case).encode()
        faults = list(case.faults)
        return cls(
            program.label,
            outcome.text,
            outcome.is_error,
            reference.text,
            "\n".join([*([outcome.detail] if outcome.detail else []), *lost]),
            faults,
            schedule,
            tried,
            token,
        )


@attrs.frozen
class ExplorationRecord:
    """The JSON record that `explore` prints: the outcomes of all runs, first that of the run without changes of order.

    `every_schedule`: whether all schedules within the bound of `dfs` were run. `program` and `strategy` are as the
    command line gives them; `failures` are the different failures, each once.
    """

    program: str
    strategy: str
    runs: int
    every_schedule: bool
    outcomes: list[OutcomeRecord]
    failures: list[FailureRecord]

    @classmethod
    def of(cls, found: Exploration, strategy: str) -> ExplorationRecord:
        """Convert an exploration to a record for JSON; each failure is first made smaller, which takes runs.

        found: the exploration. strategy: the plan of schedules, as the user wrote it.
        """
        from offloadrt.extensions.exploring.explore import shrink
        from offloadrt.extensions.exploring.program import story_of

        failures = []
        for failed in found.failures:
            small = shrink(found.program, found.plan, failed.case, failed.outcome, found.reference)
            story = story_of(small.program, small.case)
            failures.append(
                FailureRecord.of(small.program, small.case, small.outcome, small.reference, story, small.runs)
            )
        label = found.program.label
        return cls(label, strategy, found.runs - 1, found.exhausted, outcomes_of(found), failures)


@attrs.frozen
class EverywhereRecord:
    """The JSON record of `explore --faults everywhere`: in each run, one `await` of the program gets a fault.

    calls, waits: how many calls of the driver libraries and waits of threads the program has. runs: how many runs were
    made. outcomes, failures: how the runs ended, and those that failed.
    """

    program: str
    calls: int
    waits: int
    runs: int
    outcomes: list[OutcomeRecord]
    failures: list[FailureRecord]

    @classmethod
    def of(cls, found: Everywhere) -> EverywhereRecord:
        """Convert the runs with faults to the record that `--json` prints.

        Each failure is recorded as it was found. Since a run has only one fault, no smaller failing run is searched
        for.
        """
        failures = [
            FailureRecord.of(found.program, counted.case, counted.outcome, found.reference, [], 0)
            for counted in found.failures
        ]
        return cls(found.program.label, found.calls, found.waits, found.runs, outcomes_of(found), failures)


@attrs.frozen
class ReplayRecord:
    """The JSON record that `replay` prints about a run that was repeated from a token (a line of text from `explore`).

    same_run: whether the run has the same trace hash as the one for which the token was made, so that all events are
    equal. same_outcome: whether it ended in the same way. changed: what differs since the token was made: the program,
    its machine, or offloadrt. outcome, detail: the outcome in one line, and in full. fails: whether it is a failure.
    schedule: sentences that say which threads or parts of the machine went on in another order. trace_hash: the hash of
    the run's events now.
    """

    program: str
    outcome: str
    detail: str
    fails: bool
    schedule: list[str]
    same_run: bool
    same_outcome: bool
    trace_hash: str
    changed: list[str]

    @classmethod
    def of(cls, again: Replayed) -> ReplayRecord:
        """Convert a replayed run to the record that `--json` prints."""
        from offloadrt.extensions.exploring.explore import is_failure
        from offloadrt.extensions.exploring.program import story_of

        outcome = again.ended.outcome
        return cls(
            again.program.label,
            outcome.text,
            outcome.detail,
            is_failure(outcome, again.reference),
            story_of(again.program, again.token.case),
            again.is_same,
            outcome.key == again.token.outcome,
            again.ended.hash,
            list(again.changed),
        )


def outcomes_of(found: Exploration | Everywhere) -> list[OutcomeRecord]:
    """Return each outcome with the number of its runs, the most frequent first."""
    failures = found.failures
    counted = sorted(found.outcomes.values(), key=lambda one: -one.runs)
    return [OutcomeRecord(one.outcome.text, one.runs, one in failures) for one in counted]


def _scenario_of(program: Program) -> ScenarioProgram:
    """Return a program as a ScenarioProgram, which all programs of these commands are."""
    from offloadrt.extensions.exploring.program import ScenarioProgram

    assert isinstance(program, ScenarioProgram)
    return program
