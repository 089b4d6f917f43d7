"""Runs of a program under the checker: one run of a scenario, each run of an exploration, and tests."""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import attrs
import msgspec

from offloadrt.extensions.checking.checker import Checker
from offloadrt.extensions.checking.mistakes import Mistake, Waste, in_words_of
from offloadrt.extensions.checking.repairs import Costs, Repair, WithoutOperations
from offloadrt.study.errors import ScriptFailed, UserError
from offloadrt.study.reporting.results import Result
from offloadrt.study.running.execution import PROGRAM_ERRORS, Progress, execute
from offloadrt.study.running.run import Run
from offloadrt.study.scripts.definition import Scenario
from offloadrt.study.spec import RunSpec


@attrs.frozen
class CheckReport:
    """The findings of a check of one run; `elapsed_s` is in virtual seconds, None when an error ended the program.

    unknown_kernels: kernels whose reads and writes are not known, so that nothing was checked about them. scenario,
    machine: the names of the program and of the emulated machine. mistakes: the gravest first.
    """

    scenario: str
    machine: str
    seed: int
    elapsed_s: float | None
    mistakes: tuple[Mistake, ...]
    unknown_kernels: tuple[str, ...]
    wastes: tuple[Waste, ...] = ()
    """Needless operations, the one whose repair saves most time first. A program without mistakes may have some."""
    runtime_faults: tuple[Mistake, ...] = ()
    """Errors of the runtime itself, which happened or can happen under another schedule, though the program is right.
    """
    unknown_copies: str = ""
    """A sentence that names copies for which the check cannot decide whether they are needless, and why; empty if there
    are none.
    """
    not_known: tuple[str, ...] = ()
    """What the recording of a program does not show, so that the check says nothing about it: a sentence each."""
    lost_results: tuple[str, ...] = ()
    """Results that recorded kernels compute in private copies, which nobody uses: a sentence each."""
    requires: str = ""
    """What a recorded program `requires` (OpenMP's directive), and the memory configuration that it therefore ran
    under; else empty.
    """
    failure: str = ""
    """The text of what ended the run, where that is no mistake of the program: an assertion of the script, or a
    recording that cannot be replayed.
    """
    script_failed: bool = False
    """Whether `failure` is a traceback of the script."""
    model: str = "openmp"
    """The programming model in whose words the report gives advice."""

    def to_json(self) -> bytes:
        """Encode the report as one JSON object on one line."""
        return msgspec.json.encode(attrs.asdict(self))


_STRIDED: Final = "runtime.strided_update"
"""The entry that makes the emulator move what LLVM 22 moves for sections with gaps, which is wrong. A check switches it
off: the program is judged by what OpenMP says.
"""


def check(
    scenario: Scenario,
    given: Mapping[str, Any],
    options: RunSpec,
    on_progress: Progress | None = None,
    before_run: Callable[[Run], object] = lambda run: None,
    savings: bool = False,
) -> CheckReport:
    """Run a scenario once under the checker; an OpenMP error that ends the program becomes a mistake of the report.

    given: values of the scenario's parameters, by name. options: how it is run, such as the machine and the seed.
    on_progress: called with (done, total), the numbers of the program's steps. before_run: called with the run before
    it begins. savings: run the program again for each repair to find what it saves, however long that takes. Otherwise
    only the repairs that may save most are tried, as far as these runs are short.

    Another exception, such as an assertion of the script, becomes the report's `failure` if something was found before
    it, and is raised otherwise.
    """
    checkers: list[tuple[Run, Checker, Costs]] = []

    def observed(run: Run) -> None:
        checker = Checker(run.sim)
        run.observe(checker)
        run.trace = Costs(run.sim)
        checkers.append((run, checker, run.trace))
        before_run(run)

    result: Result | None = None
    failure: UserError | ScriptFailed | None = None
    fatal: BaseException | None = None
    once = attrs.evolve(options, repeat=1, overrides={_STRIDED: "specification", **options.overrides})
    try:
        result = execute(scenario, given, spec=once, on_progress=on_progress, before_run=observed)
    except (UserError, ScriptFailed) as error:
        if not checkers:
            raise
        fatal = next((cause for cause in causes_of(error) if isinstance(cause, PROGRAM_ERRORS)), None)
        failure = None if fatal is not None else error
    run, checker, costs = checkers[0]
    try:
        _require_told(scenario.name, run)
    except UserError as error:  # also where the scenario was refused before it had made its program
        raise failure or error from None
    ended, model = result is not None, run.options.model
    mistakes, repairs = tuple(checker.finish(ended, model)), checker.repairs(costs, ended)
    is_late = run.spec.text("table.count_down") == "kernel"
    faults = tuple(
        fault
        for fault in checker.runtime_faults()
        if (fault.happened or not is_late)
        and (fault.kind != "misplaced update" or options.overrides.get(_STRIDED) != "specification")
    )
    if failure is not None and not mistakes and not any(fault.happened for fault in faults):
        raise failure
    elapsed_s = None if result is None else result.elapsed_s
    # A copy that takes no time would be done too early in an async queue or a stream.
    timed_s = elapsed_s if model == "openmp" else None
    most = math.inf if savings else _MOST_OPERATIONS
    wastes = _ranked(repairs, lambda repair: _time_without(repair, scenario, given, once), timed_s, most)
    wastes = tuple(attrs.evolve(waste, advice=in_words_of(model, waste.advice)) for waste in wastes)
    if (
        fatal is not None
        and not checker.is_explained
        and all(one.kind != "fatal error" for one in (*mistakes, *faults))
    ):  # in no directive
        mistakes = (Mistake("fatal error", str(fatal).partition("\n")[0], (), ""), *mistakes)
    return CheckReport(
        scenario.name, run.spec.name, options.seed, elapsed_s, mistakes, tuple(checker.unknown_kernels), wastes, faults,
        checker.unknown_copies, tuple(checker.not_known), tuple(checker.lost_results),
        "" if result is None else str(result.measured.get("requires", "")),
        "" if failure is None else str(failure), isinstance(failure, ScriptFailed), model,
    )  # fmt: skip


_MOST_OPERATIONS: Final = 500
"""The largest number of operations, in all runs for repairs together, unless `savings` asks for all. They take about a
tenth of a second, which is a tenth of the check of a small program.
"""


def _ranked(
    repairs: list[tuple[Waste, Repair]], time_without: Callable[[Repair], float | None], elapsed_s: float | None,
    most: float,
) -> tuple[Waste, ...]:  # fmt: skip
    """Sort the wastes by the time that their repair saves, measured by a run without the wasted operations.

    Runs are made for the repairs that may save most, until they have had `most` operations together. Blocks that a pool
    of the runtime served are worth no run unless all are asked for: they cost no call of the driver, and no copy.
    """
    found: list[Waste] = []
    left = most
    for waste, repair in sorted(repairs, key=lambda pair: -pair[0].time_s):
        if waste.is_of_pool and most < math.inf:
            found.append(waste)
            continue
        left -= repair.operations
        without = time_without(repair) if left >= 0 and elapsed_s is not None else None
        if elapsed_s is not None and without is not None:
            # If the other operations then come in another order, the run may take longer: nothing is saved.
            waste = attrs.evolve(waste, time_s=max(0.0, elapsed_s - without), is_sum=False)
        found.append(waste)
    return tuple(sorted(found, key=lambda waste: -waste.time_s))


def _time_without(repair: Repair, scenario: Scenario, given: Mapping[str, Any], options: RunSpec) -> float | None:
    """Return the virtual seconds of a run in which the operations of a repair take no time.

    Returns None if that run does not have the same operations.
    """
    observers: list[WithoutOperations] = []

    def before_run(run: Run) -> None:
        observers.append(WithoutOperations(run, repair.keys))
        run.observe(observers[0])

    try:
        with contextlib.redirect_stdout(io.StringIO()):
            elapsed_s = execute(scenario, given, spec=options, before_run=before_run).elapsed_s
    except (UserError, ScriptFailed):  # for example because a kernel's costs are not known
        return None
    return elapsed_s if observers[0].is_complete else None


def reports_mistakes(run: Run) -> Callable[[], list[str]]:
    """Attach a checker to a run that has not begun; return a function that lists the mistakes after the run has ended.

    That function returns one text for each mistake of the program. `explore` uses this function as one of its
    `checkers`. Raises UserError, at the latest after the run, if the program's programming model sends no events to a
    checker.
    """
    checker = Checker(run.sim)
    run.observe(checker)

    def reports() -> list[str]:
        _require_told("this", run)
        found = checker.finish(model=run.options.model)
        found += [fault for fault in checker.runtime_faults() if fault.happened]
        return ["\n".join(mistake.lines()) for mistake in found]

    return reports


def reports_runtime_faults(run: Run) -> Callable[[], list[str]]:
    """Attach a checker to a run that has not begun, as `reports_mistakes` does; list errors of the runtime itself.

    The returned function gives one text for each error that happened in the run.
    """
    checker = Checker(run.sim)
    run.observe(checker)
    return lambda: ["\n".join(fault.lines()) for fault in checker.runtime_faults() if fault.happened]


def reports_in_a_test(run: Run) -> Callable[[], list[str]]:
    """Watch a run that has not begun as `reports_mistakes` does, but as a test, which is only a part of a program.

    Data that the test leaves mapped, tasks that it does not await and errors that it handles are no mistakes then.
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


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors from which an error came (its causes and contexts), with groups of errors split up."""
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
