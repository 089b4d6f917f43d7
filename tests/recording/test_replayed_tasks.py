"""Host tasks of a replay: a waiting thread begins only what OpenMP lets it begin, however many tasks are nested."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

import pytest
from numpy.typing import NDArray
from raw_program import BEGIN, END, TO, RawProgram, only

from offloadrt import Run
from offloadrt.extensions.checking import races, strands
from offloadrt.extensions.checking.checked import check
from offloadrt.extensions.recording.replay import replay
from offloadrt.runtime.events import StrandBegan, StrandEnded, TaskMade
from offloadrt.runtime.host_array import HostArray
from offloadrt.sim import Actor, Simulation
from offloadrt.study.scripts import registry
from offloadrt.study.spec import RunSpec

EXPLICIT, UNDEFERRED = 0x4, 0x8000004
TASKWAIT, REGION_END = 5, 9
X = 0x10000
WRITES = 2


class TeamProgram(RawProgram):
    """A team of which the first thread makes tasks; all are recorded in it, though others may run them."""

    def __init__(self, threads: int) -> None:
        super().__init__()
        self.threads = range(threads)
        self.waiting: list[tuple[int, Callable[[int], None]]] = []
        self.tasks = 100
        self.begin_team(1, threads)
        for number in self.threads:
            self.member(1, 10 + number, number, threads, tid=number)

    def make(self, flags: int = EXPLICIT) -> int:
        self.tasks += 1
        self.task_create({**self.at(0), "task": self.tasks, "parent": 0, "flags": hex(flags), "dep": False})
        return self.tasks

    def begin(self, task: int, below: int) -> None:
        self.task_schedule({**self.at(0), "prior": below, "status": 7, "next": task})

    def end(self, task: int, below: int) -> None:
        self.task_schedule({**self.at(0), "prior": task, "status": 1, "next": below})

    def finish(self, folder: Path) -> Path:
        for number in self.threads:
            self.synchronize(REGION_END, "begin", tid=number)
        while self.waiting:
            task, body = self.waiting.pop(0)
            self.begin(task, 10)
            body(task)
            self.end(task, 10)
        for number in self.threads:
            self.synchronize(REGION_END, "end", tid=number)
            self.end_member(10 + number, tid=number)
        self.end_team(1)
        self.directive(BEGIN, (X, 4096, TO))
        self.directive(END, (X, 4096, 0))
        return self.recorded(folder)


class TaskTree:
    """Follows who made whom, and checks what a thread begins while it has suspended a task."""

    watch_kernel: Any = None  # what kernels use is no concern of it

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.makers: dict[Hashable, Hashable] = {}
        self.running: dict[Actor, list[Hashable]] = {}
        self.begun = self.deepest = 0
        self.threads: set[Actor] = set()

    def watch_array(self, array: HostArray, values: NDArray[Any]) -> NDArray[Any]:
        return values

    def handle(self, event: object) -> None:
        actor = self.sim.running or self.sim.current
        stack = self.running.setdefault(actor, [])
        if isinstance(event, TaskMade):
            self.makers[event.what] = stack[-1]
        elif isinstance(event, StrandBegan):
            if len(stack) > 1:  # not an implicit task, which may be at a barrier
                assert self.descends(event.task, stack[-1])
            stack.append(event.task)
            if event.task is not None:
                self.begun += 1
                self.threads.add(actor)
            self.deepest = max(self.deepest, len(stack))
        elif isinstance(event, StrandEnded):
            stack.pop()

    def descends(self, task: Hashable, other: Hashable) -> bool:
        while task is not None and task is not other:
            task = self.makers[task]
        return task is other


def walked(recording: Path, gear: str) -> TaskTree:
    run = Run(gear=gear)
    run.configure(phantom=True, allocator="malloc")
    tree = TaskTree(run.sim)
    run.observe(tree)

    async def main() -> None:
        await replay(only(recording), run.openmp)
        await run.finish()

    run.sim.run(main)
    return tree


@pytest.mark.parametrize("seed", range(6))
def test_a_thread_begins_only_descendants_of_the_task_that_it_has_suspended(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    program = TeamProgram(3)

    def body(task: int, depth: int) -> None:
        program.work(chance.randrange(200_000))
        made: Sequence[int] = [program.make() for _ in range(chance.randrange(4) if depth else 0)]

        def below(child: int) -> None:
            body(child, depth - 1)

        if chance.random() < 0.7:
            program.synchronize(TASKWAIT, "begin")
            for child in chance.sample(made, len(made)):
                program.begin(child, task)
                below(child)
                program.end(child, task)
            program.synchronize(TASKWAIT, "end")
        else:
            program.waiting += [(child, below) for child in made]
        program.work(chance.randrange(200_000))

    for _ in range(6):
        program.waiting.append((program.make(), lambda task: body(task, 4)))
    file = program.finish(tmp_path)
    trees = [walked(file, gear) for gear in ("native", "turbo")]
    for tree in trees:
        assert tree.begun == program.tasks - 100
        assert len(tree.threads) > 1 and tree.deepest > 2
    assert len({(tree.begun, tree.deepest) for tree in trees}) == 1


def nested(folder: Path, count: int, flags: int, used: bool = False) -> Path:
    """Return a recording of tasks of which each waits for one that it makes; used: all write one array, then."""
    program = TeamProgram(2)
    tasks = [10]
    for _ in range(count):
        task = program.make(flags)
        if flags == EXPLICIT:
            program.synchronize(TASKWAIT, "begin")
        program.begin(task, tasks[-1])
        tasks.append(task)
    program.work(1_000_000)
    while len(tasks) > 1:
        if used:
            program.touches(X, 4096, WRITES)
        task = tasks.pop()
        program.end(task, tasks[-1])
        if flags == EXPLICIT:
            program.synchronize(TASKWAIT, "end")
    return program.finish(folder)


@pytest.mark.parametrize("flags", [EXPLICIT, UNDEFERRED])
@pytest.mark.parametrize("gear", ["native", "turbo"])
def test_tasks_may_be_nested_deeper_than_python_can_recurse(tmp_path: Path, gear: str, flags: int) -> None:
    count = 3 * sys.getrecursionlimit()
    tree = walked(nested(tmp_path, count, flags), gear)
    assert tree.begun == (count if flags == EXPLICIT else 0)


def test_a_check_of_nested_tasks_takes_a_time_in_their_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work: Counter[str] = Counter()

    def count(owner: Any, name: str) -> None:
        whole = getattr(owner, name)

        def counted(*arguments: Any) -> Any:
            work[name] += 1
            return whole(*arguments)

        monkeypatch.setattr(owner, name, counted)

    count(strands, "_merged")
    count(races.Races, "_compare")
    each = []
    for tasks in (500, 2000):
        (tmp_path / str(tasks)).mkdir()
        scenario = registry.find(str(nested(tmp_path / str(tasks), tasks, EXPLICIT, used=True)))
        work.clear()
        assert check(scenario, scenario.bind({}), RunSpec()).mistakes == ()
        each.append({name: number / tasks for name, number in work.items()})
    assert each[0].keys() == each[1].keys() == {"_merged", "_compare"}
    assert all(each[1][name] < 1.5 * each[0][name] for name in each[0])
