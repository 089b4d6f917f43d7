"""Who waits for a lock in a trace, and until when: a wait that is cancelled has no event of its own."""

import attrs


@attrs.frozen
class EndedWait:
    """A wait that is over."""

    lock: str
    since_ps: int
    got: bool
    """The actor has the lock; else it had given up (it was cancelled), at some time before."""


class LockWaits:
    """Follows the events of a trace in their order."""

    def __init__(self) -> None:
        self._waits: dict[int, tuple[str, int]] = {}
        self._woken: set[int] = set()
        """Those who wait and were woken by a release, to try again."""
        self._holders: dict[str, int] = {}
        self._released: dict[str, int] = {}

    def tries_again(self, actor: int) -> bool:
        """Tell whether the actor's last event was a `LockWait` that goes on with the wait before it."""
        return actor in self._woken

    def follow(self, label: str, time_ps: int, actor: int, lock: str) -> EndedWait | None:
        """Return the wait that an event of its actor shows to be over. `lock` matters for events of locks only.

        Whoever waits and then does anything but get the lock has given up; so has who gets one that was free before,
        unless it was woken to try: then a second `LockWait` came while the lock was free.
        """
        waits_for_it = actor in self._waits and self._waits[actor][0] == lock
        if label == "LockWait" and waits_for_it and not self._holders.get(lock):
            self._woken.add(actor)
            return None
        ended, woken = None, actor in self._woken
        self._woken.discard(actor)
        if (wait := self._waits.pop(actor, None)) is not None:
            was_free = not self._holders.get(wait[0]) and self._released.get(wait[0]) != time_ps
            got = label == "LockAcquire" and lock == wait[0] and (woken or not was_free)
            ended = EndedWait(*wait, got)
        if label == "LockWait":
            self._waits[actor] = lock, time_ps
        elif label == "LockAcquire":
            self._holders[lock] = self._holders.get(lock, 0) + 1
        elif label == "LockRelease":
            self._holders[lock] = max(0, self._holders.get(lock, 0) - 1)
            self._released[lock] = time_ps
        return ended
