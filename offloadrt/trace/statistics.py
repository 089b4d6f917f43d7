"""Statistics computed from recorded events: per lock, per engine, per API call, and bytes by direction.

The components' own counters are always on and cheaper; these are for traces, where only the events are left, and as a
check of the counters.
"""

from collections.abc import Iterable, Sequence

import attrs

from offloadrt.sim import LockUse
from offloadrt.trace.calls import Calls, ProfiledCalls
from offloadrt.trace.event import Row, lock_family
from offloadrt.trace.lock_waits import EndedWait, LockWaits

S_PER_PS = 1e-12


@attrs.frozen
class TracedLock(LockUse):
    """The use of one lock in a trace, in virtual seconds."""

    longest_wait_s: float


_UNUSED = TracedLock(0, 0, 0.0, 0.0, 0.0)


@attrs.define
class EngineUse:
    """What one copy engine did in a trace."""

    device: int
    engine: str
    copies: int
    bytes: int
    busy_s: float


@attrs.define
class KernelUse:
    """How often a kernel ran on a device, and the sum of the times from its starts to its ends."""

    device: int
    kernel: str
    launched: int
    resident_s: float


@attrs.frozen
class CopiedBytes:
    """Bytes that were copied in one direction from or to one kind of host memory."""

    direction: str
    memory: str
    bytes: int


@attrs.frozen
class LogStatistics:
    """The sums over a log, as `offloadrt stats` prints them."""

    calls: dict[str, ProfiledCalls]
    locks: dict[str, TracedLock]
    engines: list[EngineUse]
    kernels: list[KernelUse]
    bytes: list[CopiedBytes]


class TraceStatistics:
    """Sums over events; a sink of `Trace`, or made from rows with `TraceStatistics.of(rows)`.

    locks: by name of the lock (entry locks are summed).  engines: by (device, engine).  kernels: by (device, name).
    bytes: by (direction, memory), as ("h2d", "pinned").  calls: the API calls, as the driver's own `Calls`.
    """

    def __init__(self) -> None:
        self.locks: dict[str, TracedLock] = {}
        self.engines: dict[tuple[int, str], EngineUse] = {}
        self.kernels: dict[tuple[int, str], KernelUse] = {}
        self.bytes: dict[tuple[str, str], int] = {}
        self.calls = Calls()
        self._waits = LockWaits()
        self._holds: dict[tuple[str, int], int] = {}
        self._open_calls: dict[int, list[int]] = {}
        self._copies: dict[int, int] = {}
        self._kernels: dict[int, int] = {}

    @classmethod
    def of(cls, rows: Iterable[Row]) -> "TraceStatistics":
        """Compute the statistics of recorded rows (`trace.rows`)."""
        statistics = cls()
        statistics.write(list(rows))
        return statistics

    def record(self) -> LogStatistics:
        """Return all sums, engines, kernels and bytes in lists."""
        moved = [CopiedBytes(*where, nbytes) for where, nbytes in self.bytes.items()]
        return LogStatistics(
            self.calls.table(), self.locks, list(self.engines.values()), list(self.kernels.values()), moved
        )

    def write(self, rows: Sequence[Row], /) -> None:
        """Count some rows."""
        for label, time_ps, actor, device, _queue, _cause, *payload in rows:
            waited = self._waits.follow(label, time_ps, actor, payload[0] if payload else "")
            match label:
                case "LockWait" | "LockAcquire" | "LockRelease":
                    self._lock(label, time_ps, actor, payload[0], waited)
                case "CallBegin":
                    self._open_calls.setdefault(actor, []).append(time_ps)
                case "CallEnd":
                    if begun := self._open_calls.get(actor):
                        self.calls.add(payload[0], (time_ps - begun.pop()) * S_PER_PS)
                case "CopyBegin":
                    self._copies[payload[0]] = time_ps
                case "CopyEnd":
                    self._copy_end(time_ps, device, *payload)
                case "KernelStart":
                    self._kernels[payload[0]] = time_ps
                case "KernelEnd":
                    kernel, name = payload
                    use = self.kernels.setdefault((device, name), KernelUse(device, name, 0, 0.0))
                    use.launched += 1
                    use.resident_s += (time_ps - self._kernels.pop(kernel, time_ps)) * S_PER_PS
                case _:
                    pass

    def close(self) -> None:
        """Do nothing: a sink is closed, but nothing is left to write."""

    def _lock(self, label: str, time_ps: int, actor: int, name: str, ended: EndedWait | None) -> None:
        family = lock_family(name)
        use = self.locks.setdefault(family, _UNUSED)
        match label:
            case "LockWait":
                pass
            case "LockAcquire":
                self._holds[name, actor] = time_ps
                contended = ended is not None and ended.got
                waited = (time_ps - ended.since_ps) * S_PER_PS if ended is not None and ended.got else 0.0
                self.locks[family] = attrs.evolve(
                    use,
                    acquired=use.acquired + 1,
                    contended=use.contended + contended,
                    wait_s=use.wait_s + waited,
                    longest_wait_s=max(use.longest_wait_s, waited),
                )
            case _:
                since = self._holds.pop((name, actor), None)
                if since is not None:
                    self.locks[family] = attrs.evolve(use, hold_s=use.hold_s + (time_ps - since) * S_PER_PS)

    def _copy_end(
        self, time_ps: int, device: int, copy: int, direction: str, engine: str, nbytes: int, memory: str
    ) -> None:
        use = self.engines.setdefault((device, engine), EngineUse(device, engine, 0, 0, 0.0))
        use.copies += 1
        use.bytes += nbytes
        use.busy_s += (time_ps - self._copies.pop(copy, time_ps)) * S_PER_PS
        self.bytes[direction, memory] = self.bytes.get((direction, memory), 0) + nbytes
