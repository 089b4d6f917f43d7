"""Replays the phases that a recorded program names, as phases of `Run.phase`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from offloadrt.extensions.recording.format.recording import NONE
from offloadrt.sim import Actor
from offloadrt.trace import Trace

_OF_THE_EMULATOR: Final = ("compute", "barrier", "taskwait", "taskgroup", "depend", "critical", "ordered", "lock")
"""Names of activities that the emulator itself uses (`ProgramThread.doing`); a program's phase of such a name is
renamed.
"""


@attrs.define(eq=False)
class ReplayedPhases:
    """Begins and ends the phases that a program names by its profiling calls (such as NVTX ranges), for each thread.

    They are recorded in the run's causal log (who waited for whom), which is kept for `why`, `report`, `timeline` and
    Perfetto files only. Without it, the calls do nothing.
    """

    _trace: Trace | None
    _names: Sequence[str]
    _open: dict[Actor, list[int]] = attrs.field(factory=dict)
    """By actor: the phases that it is in, the innermost last."""
    _crossing: dict[int, Actor] = attrs.field(factory=dict)
    """By number of a phase that ends in another task: the actor that is in it."""

    def begin(self, actor: Actor, phase: int, number: int) -> None:
        """Begin a named phase of the program in a thread (`actor`).

        phase: the index of the phase's name. number: NONE, or a number by which `end` finds the phase in another task.
        """
        if self._trace is None or self._trace.causal_log is None:
            return
        if number != NONE:
            self._crossing[number] = actor
        self._open.setdefault(actor, []).append(phase)
        self._trace.causal_log.begin(actor, self._name(phase))

    def end(self, actor: Actor, phase: int, number: int) -> None:
        """End a named phase of the program.

        actor: the thread that ends the phase. phase: the index of the phase's name. number: NONE for a phase of this
        thread; else the number of a phase that began with it, perhaps in another thread, and ends there. A program may
        end its phases in any order, but the activities of a thread are nested. So the activities that began inside the
        phase end with it, and begin again at once.
        """
        if self._trace is None or (log := self._trace.causal_log) is None:
            return
        if number != NONE:
            actor = self._crossing.pop(number, actor)
        within = self._open.get(actor, [])
        name, doing = self._name(phase), log.activities_of(actor)
        if phase not in within or name not in doing:
            return
        within.reverse()
        within.remove(phase)
        within.reverse()
        inner = list(doing[len(doing) - 1 - list(reversed(doing)).index(name) + 1 :])
        for _ in range(len(inner) + 1):
            log.end(actor)
        for activity in inner:
            log.begin(actor, activity)

    def _name(self, phase: int) -> str:
        name = self._names[phase]
        return f"phase {name}" if name in _OF_THE_EMULATOR else name
