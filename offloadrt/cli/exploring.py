"""The commands that look for schedules under which a program fails: `explore` and `replay`."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from offloadrt.cli.app import app
from offloadrt.cli.exit_codes import NEGATIVE
from offloadrt.cli.options import (
    Configuration,
    Environment,
    Faults,
    Gear,
    Jobs,
    Machine,
    Overrides,
    RunOptions,
    Runtime,
    Seed,
)
from offloadrt.cli.terminal import bars, console

if TYPE_CHECKING:
    from offloadrt.study.exploring.everywhere import Everywhere
    from offloadrt.study.exploring.explore import Counted, Exploration
    from offloadrt.study.exploring.program import ScenarioProgram
    from offloadrt.study.exploring.replay import Replayed

_TOLD_EVERY_S = 10.0
EVERYWHERE = "everywhere"
"""The text of `--faults` that asks for a fault at each await."""


@app.command
def explore(
    program: str,
    /,
    *parameters: str,
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
    set_: Overrides = None,
    env: Environment = None,
    faults: Faults = None,
) -> int:
    """Run a program under many schedules; any error, failed assertion or differing result is shown with a token.

    With `--faults everywhere`, run it once for each of its awaits instead, each call of the driver and each wait of a
    thread, in which that call fails or the thread dies; a run that hangs, leaves something behind or ends in an error
    without a name is shown. The exit code is 1 when a schedule or a fault fails.

    Parameters
    ----------
    program:
        A scenario's name, a script, SCRIPT.py:NAME, or a recording.
    parameters:
        The scenario's parameters, as name=value (see `offloadrt show SCENARIO`).
    strategy:
        random, pct:DEPTH[:LENGTH], delay:BOUND[:LENGTH], dfs:BOUND[:LENGTH], costs[:JITTER]; docs/how-to/explore.md
        has what they do.
    runs:
        How many schedules, or how many faults everywhere, which are then chosen evenly.
    keep_going:
        Go on after the first failure.
    check:
        Whatever `offloadrt check` reports about a schedule is a failure too: races, stale data, wrong maps.
    result:
        A returned figure that must not depend on the schedule; may be repeated. By default what the scenario says, or
        else every figure that is no time.
    seed:
        Of the runs' random generator, and of the first schedule.
    """
    from offloadrt.study.errors import UserError
    from offloadrt.study.executors import executor, processors
    from offloadrt.study.exploring.explore import explore as search
    from offloadrt.study.exploring.plan import SchedulePlan
    from offloadrt.study.exploring.program import ScenarioProgram
    from offloadrt.study.running.checked import reports_mistakes
    from offloadrt.study.scripts import registry
    from offloadrt.study.scripts.parameters import split_assignments

    if runs < 1:
        raise UserError(f"--runs {runs}: at least one")
    by_plan = [fault for fault in faults or () if fault != EVERYWHERE]
    options = RunOptions(
        machine=machine, runtime=runtime, configuration=configuration, set_=set_, env=env, seed=seed, faults=by_plan
    )
    chosen = registry.find(program)
    explored = ScenarioProgram(
        registry.reference(chosen),
        chosen.bind(split_assignments(parameters)),
        options.given(),
        tuple(result or ()),
        (reports_mistakes,) if check else (),
    )
    if len(by_plan) < len(faults or ()):
        return _everywhere(explored, runs, jobs)
    plan = SchedulePlan.parse(strategy, seed)
    workers = jobs if jobs is not None else processors()
    if runs <= 100:
        workers = 1  # a pool takes longer to start
    begin = told = time.monotonic()
    with executor("process", workers) as pool, bars() as (progress, shown):
        task = progress.add_task(chosen.name, total=runs)

        def advanced(so_far: Exploration) -> None:
            nonlocal told
            progress.update(task, completed=so_far.runs - 1)
            if not shown and time.monotonic() - told > _TOLD_EVERY_S:
                told = time.monotonic()
                print(f"{chosen.name}: {so_far.runs - 1} of {runs} runs", file=sys.stderr, flush=True)

        found = search(explored, plan, runs, pool, jobs=workers, keep_going=keep_going, advanced=advanced)
    seconds = time.monotonic() - begin
    screen = console()
    screen.print(
        f"{explored.label}: one run in the order of scheduling, {found.runs - 1} under {strategy}, "
        f"{(found.runs - 1) / seconds:.0f} a second with {workers} process{'es' if workers > 1 else ''}",
        soft_wrap=True,
    )
    _count(found)
    if found.exhausted:
        departures = f"{plan.bound} departure{'' if plan.bound == 1 else 's'}"
        screen.print(f"every schedule with at most {departures} from the order of scheduling was run")
    for counted in found.failures:
        _tell(found, counted)
    return NEGATIVE if found.failures else 0


def _everywhere(program: ScenarioProgram, runs: int, jobs: int | None) -> int:
    """Run a program with a fault at each of its awaits, and print what came out."""
    from offloadrt.study.executors import executor, processors
    from offloadrt.study.exploring.everywhere import everywhere
    from offloadrt.study.exploring.replay import token_of

    workers = jobs if jobs is not None else processors()
    with executor("process", workers) as pool, bars() as (progress, _):
        task = progress.add_task(program.scenario.name, total=None)

        def advanced(so_far: Everywhere) -> None:
            progress.update(task, completed=so_far.runs, total=len(so_far.cases))

        found = everywhere(program, runs, pool, jobs=workers, advanced=advanced)
    screen, awaits = console(), found.calls + found.waits
    screen.print(
        f"{program.label}: {found.runs} of {awaits} awaits were made to fail, one in each run: "
        f"{found.calls} calls of the driver, {found.waits} waits of threads",
        soft_wrap=True,
    )
    _count(found)
    for counted in found.failures:
        print(f"\n{program.label}, fault {' '.join(counted.case.faults) or 'none'}: {counted.outcome.text}")
        if counted.outcome.detail:
            print(counted.outcome.detail)
        print(f"offloadrt replay {token_of(program, counted.case).encode()}")
    return NEGATIVE if found.failures else 0


def _count(found: Exploration | Everywhere) -> None:
    """Print each outcome with the number of its runs, the most frequent first."""
    for counted in sorted(found.outcomes.values(), key=lambda counted: -counted.runs):
        bad = " FAILS" if counted in found.failures else ""
        console().print(f"{counted.runs:8}  {counted.outcome.text}{bad}", soft_wrap=True, markup=False)


def _tell(found: Exploration, counted: Counted) -> None:
    """Print a failure: what went wrong, its schedule made smaller, and its token."""
    from offloadrt.study.exploring.program import ScenarioProgram
    from offloadrt.study.exploring.replay import token_of
    from offloadrt.study.exploring.shrink import shrink
    from offloadrt.study.exploring.story import story_of

    shrunk = shrink(found.program, found.plan, counted.case, counted.outcome, found.reference)
    assert isinstance(shrunk.program, ScenarioProgram)
    print(f"\n{shrunk.program.label}: {shrunk.outcome.text}")
    if not shrunk.outcome.is_error:
        print(f"in the order of scheduling: {shrunk.reference.text}")
    if shrunk.outcome.detail:
        print(shrunk.outcome.detail)
    print(f"schedule, made smaller in {shrunk.runs} runs:")
    for line in story_of(shrunk.program, shrunk.case) or ["the order of scheduling"]:
        print(f"  {line}")
    print(f"offloadrt replay {token_of(shrunk.program, shrunk.case).encode()}")


@app.command
def replay(token: str, /, *, gear: Gear = "turbo") -> int:
    """Run again what a token stands for, bit by bit, and tell its schedule.

    The exit code is 1 when the run fails, as it did when the token was made.

    Parameters
    ----------
    token:
        What `offloadrt explore` or the pytest plugin printed.
    """
    from offloadrt.study.exploring.explore import is_failure
    from offloadrt.study.exploring.replay import replay as run_again
    from offloadrt.study.exploring.story import story_of

    again = run_again(token, gear=gear)
    print(f"{again.program.label}: {again.ended.outcome.text}")
    if again.ended.outcome.detail:
        print(again.ended.outcome.detail)
    for line in story_of(again.program, again.token.case) or ["the order of scheduling"]:
        print(f"  {line}")
    print(_judged(again))
    return NEGATIVE if is_failure(again.ended.outcome, again.reference) else 0


def _judged(again: Replayed) -> str:
    """Tell whether the run is the one that the token was made of."""
    changed = f"; changed since: {', '.join(again.changed)}" if again.changed else ""
    if again.is_same:
        return f"the same run, event by event (trace hash {again.ended.hash}){changed}"
    same = "the same outcome" if again.ended.outcome.key == again.token.outcome else "another outcome"
    return f"another run, with {same}{changed}"
