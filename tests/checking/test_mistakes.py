"""How the mistakes of a run are put together for the report."""

from __future__ import annotations

import pytest

from offloadrt.extensions.checking.mistakes import MOST_PLACES, Mistakes, Story


def race(mistakes: Mistakes, kernel: str, line: int) -> None:
    stories = [Story(f"thread {thread}", f"writes a in kernel {kernel!r}", f"a.c:{line}", 0.0) for thread in (0, 1)]
    mistakes.add("race", "a", stories, "", "a", (kernel, "a"))


@pytest.mark.parametrize("further", [1, 40])
def test_of_a_kernel_that_does_the_same_at_many_lines_a_few_are_told_and_the_others_counted(further: int) -> None:
    mistakes = Mistakes()
    for _ in range(2):  # a second launch does the same at the same lines
        for line in range(MOST_PLACES + further):
            race(mistakes, "k", line)
    found = mistakes.all()
    assert [one.stories[0].where for one in found] == [f"a.c:{line}" for line in range(MOST_PLACES)]
    assert [one.times for one in found] == [2] * MOST_PLACES
    assert [one.elsewhere for one in found] == [0] * (MOST_PLACES - 1) + [further]
    assert found[-1].lines()[-1].endswith(f"at {further} other place{'s' if further > 1 else ''}.")


def test_arenas_of_another_kernel_are_told_by_themselves() -> None:
    mistakes = Mistakes()
    for line in range(MOST_PLACES):
        race(mistakes, "k", line)
    race(mistakes, "other", 0)
    assert [one.elsewhere for one in mistakes.all()] == [0] * (MOST_PLACES + 1)


@pytest.mark.parametrize(("where", "told"), [("a.c:3", "reads a at a.c:3"), ("after a.c:3", "reads a after a.c:3")])
def test_a_story_names_its_line_or_the_one_before(where: str, told: str) -> None:
    assert str(Story("host thread 0", "reads a", where, 1e-6)) == f"host thread 0 {told} (1.000 us)"
