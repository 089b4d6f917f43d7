"""`HostTime`: where the time of the host threads went, always on.

Whatever lets time pass in a host thread adds that time to one category, once: the innermost operation adds it, its
callers do not add it again. So the categories exclude one another, and with what nobody claimed ("other") they add up
to the lives of all host threads.
"""

from collections.abc import Iterable

HOST_TIME: dict[str, str] = {
    "compute": "the program's own work on a core, waiting for a core included",
    "compile": "the compiler that generates kernels at run time (JACC), on a core",
    "runtime": "the offloading runtime's own steps: table look-up, bookkeeping, lock hand-over",
    "table lock": "waiting for the lock of the device table",
    "entry lock": "waiting for the lock of a table entry, or for another thread's pending copy of it",
    "runtime lock": "waiting for another lock of the runtime: stream pool, pooled blocks, loading of the globals",
    "manager lock": "waiting for the semaphore of a GPU memory manager of the program",
    "driver lock": "waiting for a lock of the driver",
    "driver": "in a call of the driver, while it does its work",
    "drain": "in an allocation or a free that waits until running kernels have been drained",
    "copies": "staging a copy, or waiting while a copy of its own stream is in progress",
    "kernels": "waiting while a kernel of its own stream runs",
    "device": "waiting for the device while its own work is queued behind that of others",
    "threads": "waiting for other host threads: barrier, taskwait, a lock or a queue of the program",
}
"""The categories, in the order in which they are reported, and what belongs to each."""

OTHER = "other"
"""The name in `shares()` of the part of the threads' lives that nobody claimed."""


class HostTime:
    """Virtual seconds of all host threads (hidden helper threads included), by category.

    seconds: by category, every category of `HOST_TIME` being present.
    lived_s: the lives of all host threads together.
    """

    __slots__ = ("lived_s", "seconds")

    def __init__(self) -> None:
        self.seconds: dict[str, float] = dict.fromkeys(HOST_TIME, 0.0)
        self.lived_s = 0.0

    def add(self, category: str, dt: float) -> None:
        """Add `dt` virtual seconds that a host thread has just spent in `category`; ValueError for an unknown one."""
        try:
            self.seconds[category] += dt
        except KeyError:
            raise ValueError(f"no category {category!r} of host time; there are {', '.join(HOST_TIME)}") from None

    def add_wait(self, begin: float, end: float, spans: Iterable[tuple[str, float, float]]) -> None:
        """Add the wait of a host thread for the device from `begin` to `end` (virtual seconds).

        spans: (category, begin, end) of what the stream that it waited for was doing, "copies" or "kernels", in order
        and without overlap. What of the wait falls into a span goes to the span's category, the rest to "device".
        """
        rest = end - begin
        for category, span_begin, span_end in spans:
            inside = (span_end if span_end < end else end) - (span_begin if span_begin > begin else begin)
            if inside > 0.0:
                self.seconds[category] += inside
                rest -= inside
        if rest > 0.0:
            self.seconds["device"] += rest

    def lived(self, dt: float) -> None:
        """Add the life of a host thread that ends, `dt` virtual seconds."""
        self.lived_s += dt

    def shares(self) -> dict[str, float]:
        """Return each category's share of the threads' lives, "other" for what nobody claimed; 0 when no time passed.

        Every category is present. A hidden helper that was never reported with `lived` can make claims exceed lives;
        the shares are then of the claims, and "other" is 0.
        """
        claimed = self._claimed()
        whole = max(self.lived_s, claimed)
        if whole <= 0.0:
            return {**dict.fromkeys(self.seconds, 0.0), OTHER: 0.0}
        return {**{category: dt / whole for category, dt in self.seconds.items()}, OTHER: (whole - claimed) / whole}

    def lines(self) -> list[str]:
        """Format a readable table: each category in which time was spent, its seconds, its share, and what it means."""
        shares = self.shares()
        spent = {**self.seconds, OTHER: max(self.lived_s - self._claimed(), 0.0)}
        meanings = {**HOST_TIME, OTHER: "not accounted for"}
        return [
            f"{category:<12} {spent[category]:>12.6f} s {100.0 * shares[category]:>6.1f} %  {meanings[category]}"
            for category in spent
            if shares[category] >= 0.0005
        ]

    def _claimed(self) -> float:
        """Return the seconds of all categories, added one by one: `sum` rounds otherwise from Python 3.12 on."""
        claimed = 0.0
        for dt in self.seconds.values():
            claimed += dt
        return claimed
