"""The initial tasks of a recording that do something of the program's, and the widest team below them.

libomp's hidden helper threads are a team below an initial task of their own, which does nothing but fork them; what
target tasks do there is in the records of these tasks.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from offloadrt.recording.format.recording import Column, Step, TaskKind

_IDLE = (Step.FORK, Step.BARRIER, Step.REST)


@attrs.define(eq=False)
class TaskTree:
    """The tasks of a recording by team."""

    columns: Mapping[str, Column]
    members: dict[int, list[int]] = attrs.field(factory=dict)
    """The implicit tasks of each team, by their numbers in it."""

    def __attrs_post_init__(self) -> None:
        numbers = self.columns["task.number"].tolist()
        for task, team in enumerate(self.columns["task.team"].tolist()):
            if team >= 0:
                self.members.setdefault(team, []).append(task)
        for members in self.members.values():
            members.sort(key=lambda task: int(numbers[task]))

    def roots(self) -> list[int]:
        """Return the initial tasks that do something of the program's."""
        initial = [task for task, kind in enumerate(self.columns["task.kind"].tolist()) if kind == TaskKind.INITIAL]
        return [task for task in initial if self._works(task)]

    def widest(self) -> int:
        """Return the most threads of a team below these."""
        teams = [team for root in self.roots() for team in self._teams_below(root)]
        return max([1, *(len(self.members.get(team, ())) for team in teams)])

    def rows(self, task: int) -> slice:
        """Return where the records of a task are."""
        first = int(self.columns["task.first"][task])
        return slice(first, first + int(self.columns["task.count"][task]))

    def _works(self, task: int) -> bool:
        steps = set(self.columns["record.step"][self.rows(task)].tolist())
        if steps.difference(_IDLE):
            return True
        return any(self._works(member) for team in self._forks(task) for member in self.members.get(team, ()))

    def _teams_below(self, task: int) -> list[int]:
        forks = self._forks(task)
        below = [team for fork in forks for member in self.members.get(fork, ()) for team in self._teams_below(member)]
        return [*forks, *below]

    def _forks(self, task: int) -> list[int]:
        rows = self.rows(task)
        teams: list[int] = self.columns["record.subject"][rows][self.columns["record.step"][rows] == Step.FORK].tolist()
        return teams
