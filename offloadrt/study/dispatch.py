"""Gives the runs of a sweep to an executor: `Dispatcher`.

A call of a cluster costs milliseconds, more than a short run. So runs that are short are given several in one call.
A worker process can die under a run; what the executor had then is given once more.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from queue import Empty, SimpleQueue

import attrs
import msgspec

from offloadrt.study.errors import ScriptFailed, UserError
from offloadrt.study.executors import killed_its_workers
from offloadrt.study.points import Point
from offloadrt.study.reporting.results import to_json
from offloadrt.study.running.execution import execute
from offloadrt.study.scripts import registry

_CALL_S = 0.25
"""How long a call should take: a hundred times what a cluster needs for it, and short enough to lose when one dies."""
_MOST_IN_A_CALL = 64
_INTERRUPTIBLE_S = 0.5
"""Longest wait in one piece; between two Python sees a Ctrl-C, which polars' own handler of SIGINT would hide."""
_DEATHS = 2
"""How many deaths of workers a run may have been near to before it is given alone."""


def run_point(point: Point) -> bytes:
    """Run one point, in whichever process; return its result as JSON, or `{"error": message, "of_program": bool}`."""
    try:
        scenario = registry.find(point.scenario)
        return to_json(execute(scenario, point.parameters, spec=point.options))
    except (UserError, ScriptFailed) as error:
        return msgspec.json.encode({"error": str(error), "of_program": isinstance(error, ScriptFailed)})


def run_points(points: Sequence[Point]) -> tuple[float, list[bytes]]:
    """Run several points one after the other; return the seconds that it took, and what `run_point` returns of each."""
    begun = time.perf_counter()
    answers = [run_point(point) for point in points]
    return time.perf_counter() - begun, answers


@attrs.define
class Dispatcher:
    """Gives points to an executor and yields their answers as they come.

    When a worker process dies, the executor fails every call that it had, and nobody can tell which run was to blame.
    So each of these runs is given once more, in a call of its own. A run that was there twice when a worker died is
    given while the executor has no other; when a worker dies then as well, the run fails.
    """

    points: Sequence[Point]
    pool: Executor
    jobs: int
    """How many calls the executor works on at a time; twice as many are given to it."""
    ahead: deque[int]
    """Numbers of the points that have not been given yet."""
    again: list[int] = attrs.field(factory=list)
    """Points to give once more, those that need not be alone first."""
    deaths: Counter[int] = attrs.field(factory=Counter)
    """How often a worker died while the executor had a point."""
    given: dict[Future[tuple[float, list[bytes]]], list[int]] = attrs.field(factory=dict)
    done: SimpleQueue[Future[tuple[float, list[bytes]]]] = attrs.field(factory=SimpleQueue)
    run_s: float = _CALL_S
    """Moving mean of a run's duration."""

    def answers(self) -> Iterator[tuple[int, bytes]]:
        """Yield number and answer of each point, as they finish.

        Raises UserError when the executor takes no more runs, or lost those that it had for another reason than the
        death of a worker.
        """
        while True:
            self._give()
            if not self.given:
                return
            for future in self._finished():
                numbers = self.given.pop(future)
                yield from zip(numbers, self._answers_of(numbers, future), strict=False)

    def _give(self) -> None:
        limit = 1 if self.jobs == 1 else 2 * self.jobs
        while len(self.given) < limit and (numbers := self._next()):
            try:
                future = self.pool.submit(run_points, [self.points[number] for number in numbers])
            except RuntimeError as error:
                raise UserError(f"the executor takes no more runs: {error}") from None
            self.given[future] = numbers
            future.add_done_callback(self.done.put)

    def _next(self) -> list[int]:
        """Choose the points of the next call; none while a run that has to be alone waits or is under way."""
        if any(self._must_be_alone(numbers[0]) for numbers in self.given.values()):
            return []
        if self.again:
            alone = self._must_be_alone(self.again[0])
            return [] if alone and self.given else [self.again.pop(0)]
        in_time = int(_CALL_S / self.run_s) if self.jobs > 1 else 1
        fair = len(self.ahead) // (4 * self.jobs)  # so that all workers are busy until the end
        size = max(1, min(in_time, fair, _MOST_IN_A_CALL))
        return [self.ahead.popleft() for _ in range(min(size, len(self.ahead)))]

    def _finished(self) -> list[Future[tuple[float, list[bytes]]]]:
        """Wait for a call to finish, and return all that have; those that were given first come first."""
        finished: list[Future[tuple[float, list[bytes]]]] = []
        while not finished:
            with contextlib.suppress(Empty):
                finished.append(self.done.get(timeout=_INTERRUPTIBLE_S))
        with contextlib.suppress(Empty):
            while True:
                finished.append(self.done.get_nowait())
        return sorted(finished, key=self.given.__getitem__)

    def _answers_of(self, numbers: list[int], future: Future[tuple[float, list[bytes]]]) -> list[bytes]:
        """Return what the runs of a call answered; nothing when they are to be given once more."""
        try:
            seconds, answers = future.result()
        except CancelledError:
            raise UserError("the executor was closed while runs were waiting for it") from None
        except BrokenExecutor as error:
            self.deaths.update(numbers)
            if self.deaths[numbers[0]] > _DEATHS:
                return [_died(error)]
            self.again = sorted([*self.again, *numbers], key=self._must_be_alone)
            return []
        except Exception as error:
            if not killed_its_workers(error):
                raise UserError(f"the executor failed: {type(error).__name__}: {error}") from None
            if len(numbers) == 1:
                return [_died(error)]
            self.again = [*numbers, *self.again]
            return []
        self.run_s += (seconds / len(numbers) - self.run_s) / 4
        return answers

    def _must_be_alone(self, number: int) -> bool:
        return self.deaths[number] >= _DEATHS


def _died(error: Exception) -> bytes:
    """Answer for a run under which worker processes died."""
    message = f"its worker process died each time, as it does when memory runs out: {error}"
    return msgspec.json.encode({"error": message, "of_program": True})
