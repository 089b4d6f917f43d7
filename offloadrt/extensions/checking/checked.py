"""Runs under the checker: what it found in one run of a scenario, and in each run of an exploration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import msgspec

from offloadrt.extensions.checking.checker import Checker
from offloadrt.extensions.checking.mistakes import Mistake, Waste
from offloadrt.extensions.checking.waste import Costs
from offloadrt.study.errors import ScriptFailed, UserError
from offloadrt.study.reporting.results import Result
from offloadrt.study.running.execution import PROGRAM_ERRORS, Progress, execute
from offloadrt.study.running.run import Run
from offloadrt.study.scripts.definition import Scenario
from offloadrt.study.spec import RunSpec


@attrs.frozen
class CheckReport:
    """What a check of one run found. elapsed_s: virtual seconds; None when an error ended the program.

    unknown_kernels: those of which nothing says what they read and write, so that nothing was checked about them.
    """

    scenario: str
    machine: str
    seed: int
    elapsed_s: float | None
    mistakes: tuple[Mistake, ...]
    unknown_kernels: tuple[str, ...]
    wastes: tuple[Waste, ...] = ()
    """What was done for nothing, the most time first; a program without mistakes may have some."""
    requires: str = ""
    """What a recorded program requires, and the memory configuration that it was given for that; else empty."""
    failure: str = ""
    """What ended the run, where that is none of the mistakes: an assertion of the script, or what cannot be replayed.
    """
    script_failed: bool = False
    """Whether that is the script's own traceback."""

    model: str = "openmp"
    """The programming model, in whose words advice is given."""

    def to_json(self) -> bytes:
        """Encode it as one JSON object on one line."""
        return msgspec.json.encode(attrs.asdict(self))


def check(
    scenario: Scenario,
    given: Mapping[str, Any],
    options: RunSpec,
    on_progress: Progress | None = None,
    before_run: Callable[[Run], object] = lambda run: None,
) -> CheckReport:
    """Run a scenario once under the checker. An error of the program is a mistake.

    Another error, as of an assertion of the script, is the report's `failure` when something was found before it. Else
    it is raised, as `execute` does.
    """
    checkers: list[tuple[Run, Checker]] = []

    def observed(run: Run) -> None:
        checker = Checker(run.sim)
        run.observe(checker)
        checkers.append((run, checker))
        before_run(run)

    result: Result | None = None
    failure: UserError | ScriptFailed | None = None
    fatal: BaseException | None = None
    costs = Costs()
    try:
        once = attrs.evolve(options, repeat=1)
        result = execute(scenario, given, spec=once, on_progress=on_progress, before_run=observed, sinks=[costs])
    except (UserError, ScriptFailed) as error:
        if not checkers:
            raise
        fatal = next((cause for cause in _causes(error) if isinstance(cause, PROGRAM_ERRORS)), None)
        failure = None if fatal is not None else error
    run, checker = checkers[0]
    _require_told(scenario.name, run)
    ended = result is not None
    mistakes, wastes = tuple(checker.finish(ended, run.options.model)), tuple(checker.wastes(costs, ended))
    if failure is not None and not mistakes:
        raise failure
    if fatal is not None and all(mistake.kind != "fatal error" for mistake in mistakes):  # in no directive
        mistakes = (Mistake("fatal error", str(fatal).partition("\n")[0], (), ""), *mistakes)
    return CheckReport(
        scenario.name,
        run.spec.name,
        options.seed,
        None if result is None else result.elapsed_s,
        mistakes,
        tuple(checker.unknown_kernels),
        wastes,
        "" if result is None else str(result.measured.get("requires", "")),
        "" if failure is None else str(failure),
        isinstance(failure, ScriptFailed),
        run.options.model,
    )


def reports_mistakes(run: Run) -> Callable[[], list[str]]:
    """Watch a run that has not begun; what this returns gives the mistakes of the run that has ended, each as a text.

    It is one of the `checkers` of an exploration. Raises UserError once the machine is built, and at the end of a
    program whose model tells nothing.
    """
    checker = Checker(run.sim)
    run.observe(checker)

    def reports() -> list[str]:
        _require_told("this", run)
        return ["\n".join(mistake.lines()) for mistake in checker.finish(model=run.options.model)]

    return reports


def reports_in_a_test(run: Run) -> Callable[[], list[str]]:
    """Watch a run that has not begun as `reports_mistakes` does, but as a part of a program, which a test is.

    What it leaves mapped or unawaited is no mistake then, nor an error that it has dealt with.
    """
    checker = Checker(run.sim)
    run.observe(checker)

    def reports() -> list[str]:
        found = checker.finish(False, run.options.model)
        return ["\n".join(mistake.lines()) for mistake in found if mistake.kind != "fatal error"]

    return reports


def _require_told(name: str, run: Run) -> None:
    if not run.program.tells_uses:
        model = run.options.model
        why = f"{name} is a program of {model}, and {model} tells nothing of what it does with memory"
        raise UserError(f"check: {why}; programs of OpenMP, OpenACC and CUDA are checked, and recordings")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield what an error came from, groups of errors taken apart."""
    waiting = [error.__cause__, error.__context__]
    seen: set[int] = set()
    while waiting:
        cause = waiting.pop()
        if cause is None or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        waiting += [cause.__cause__, cause.__context__]
        if isinstance(cause, BaseExceptionGroup):
            waiting += cause.exceptions
