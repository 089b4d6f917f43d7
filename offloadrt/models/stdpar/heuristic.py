"""The offload heuristic, which decides whether the next algorithm runs on the device or on the host.

A pure policy, which is told the time. Before each algorithm whose pointers the device can use `OffloadHeuristic.decide`
is asked; it decides anew only when enough operations and enough time have passed since it last did:

- what comes next is predicted: each operation is expected to be followed by what followed it last time;
- along this chain the estimated runtimes on the host and on the device are added up, as far as both are known;
- without any, the algorithm is offloaded: only a run that sampled the host can speak for the host;
- the side that does not have the data now also pays for the transfer of what the operation uses;
- sides that differ by less than the tolerance leave everything as it is.

One measurement of an operation is enough, after the first of each run, which never counts. A new process does not know
what follows what, so that its first decision is from its first operation alone. It keeps that for the least time or
longer. So does the source.

Follows AdaptiveCpp's ``should_offload`` (``offload.hpp``), one state for each thread. Not followed: in that source the
least number of operations between decisions is the least time in nanoseconds, 10⁹, so that a run hardly ever
decides twice; here it is what its configuration says, 128.
"""

from __future__ import annotations

import enum
from typing import Any

import attrs

from offloadrt.models.stdpar.heuristic_database import HeuristicDatabase, OperationId, Place


class Sampling(enum.Enum):
    """A run that only measures: ``ACPP_STDPAR_HOST_SAMPLING``, ``ACPP_STDPAR_OFFLOAD_SAMPLING``."""

    NONE = "none"
    HOST = "host"
    OFFLOAD = "offload"


class Why(enum.Enum):
    """What made a decision."""

    SAMPLING = "a sampling run"
    NO_DATA = "no runtimes of both host and device are known"
    FASTER = "it is predicted to be faster"
    TOLERANCE = "the other side is not faster by more than the tolerance"


def _not_negative(rules: HeuristicRules, attribute: attrs.Attribute[Any], value: float) -> None:
    if not value >= 0:
        raise ValueError(f"offload heuristic: {attribute.name} is {value}, but must not be negative")


def _positive(rules: HeuristicRules, attribute: attrs.Attribute[Any], value: float) -> None:
    if not value > 0:
        raise ValueError(f"offload heuristic: {attribute.name} is {value}, but must be positive")


@attrs.frozen
class HeuristicRules:
    """The numbers of the source.

    min_operations, min_time_s: least distance between decisions (``ACPP_STDPAR_OHC_MIN_OPS``, ``…_MIN_TIME``); the
    first is also the longest prediction. transfer_bytes_per_s: of the link. tolerance: how far the ratio of both sides
    may be from 1.
    """

    min_operations: int = attrs.field(default=128, validator=_positive)
    min_time_s: float = attrs.field(default=1.0, validator=_not_negative)
    transfer_bytes_per_s: float = attrs.field(default=32e9, validator=_positive)
    tolerance: float = attrs.field(default=0.2, validator=_not_negative)
    sampling: Sampling = Sampling.NONE


@attrs.frozen
class OffloadDecision:
    """One decision: when and before which operation it was made, and from what.

    host_s, offload_s: of the `predicted` operations, with the transfer. changed: did the other side run before?
    """

    time_s: float
    operation: OperationId
    offload: bool
    why: Why
    host_s: float = 0.0
    offload_s: float = 0.0
    predicted: int = 0
    changed: bool = False

    def __str__(self) -> str:
        where = "offloads" if self.offload else "stays on the host"
        sides = f": host {self.host_s:.3e} s, device {self.offload_s:.3e} s" if self.predicted else ""
        return (
            f"{self.time_s:.6f} s: from {self.operation.name} of size {self.operation.size} on it {where}, "
            f"{self.why.value}{sides} for {self.predicted} operations"
        )


@attrs.define
class OffloadHeuristic:
    """The state of one thread. decisions: all that were made, in order."""

    database: HeuristicDatabase
    rules: HeuristicRules = HeuristicRules()
    decisions: list[OffloadDecision] = attrs.field(factory=list)
    _successor: dict[OperationId, OperationId] = attrs.field(factory=dict)
    _previous: OperationId | None = None
    _since: int = 0
    """Operations since the last decision."""

    def decide(self, operation: OperationId, used_bytes: int, now_s: float, batch: int) -> bool:
        """Decide whether `operation` is offloaded.

        used_bytes: of the allocations that its pointers point into. batch: how many batches of operations have been
        completed; during the first all data is new, and none has to be transferred.
        """
        if self.rules.sampling is not Sampling.NONE:
            return self._sampled(operation, now_s)
        if not self.decisions:
            self._decided(self._compared(operation, None, 0.0, now_s))
        if self._previous is not None:
            self._successor[self._previous] = operation
        self._previous = operation
        self._since += 1
        last = self.decisions[-1]
        enough = self._since >= max(last.predicted, self.rules.min_operations)
        if enough and now_s - last.time_s >= self.rules.min_time_s:
            transfer_s = used_bytes / self.rules.transfer_bytes_per_s if batch > 0 else 0.0
            self._decided(self._compared(operation, last.offload, transfer_s, now_s))
        return self.decisions[-1].offload

    def predicted(self, operation: OperationId) -> list[OperationId]:
        """`operation` and what is expected to follow, `HeuristicRules.min_operations` at most."""
        chain = [operation]
        while len(chain) < self.rules.min_operations and (following := self._successor.get(chain[-1])) is not None:
            chain.append(following)
        return chain

    def _sampled(self, operation: OperationId, now_s: float) -> bool:
        offload = self.rules.sampling is Sampling.OFFLOAD
        if not self.decisions:
            self.decisions.append(OffloadDecision(now_s, operation, offload, Why.SAMPLING))
        return offload

    def _decided(self, decision: OffloadDecision) -> None:
        self.decisions.append(decision)
        self._since = 0

    def _compared(
        self, operation: OperationId, offloading: bool | None, transfer_s: float, now_s: float
    ) -> OffloadDecision:
        """offloading: what is done now; None before the first decision, when the data is nowhere."""
        host_s = offload_s = 0.0
        count = 0
        for expected in self.predicted(operation):
            on_host, offloaded = (self.database.estimate(expected, place) for place in (Place.HOST, Place.OFFLOAD))
            if on_host is None or offloaded is None:
                break
            host_s, offload_s, count = host_s + on_host, offload_s + offloaded, count + 1
        if not count:
            return OffloadDecision(now_s, operation, True, Why.NO_DATA, changed=offloading is False)
        if offloading:
            host_s += transfer_s
        elif offloading is not None:
            offload_s += transfer_s
        why, offload = Why.FASTER, offload_s < host_s
        if offloading is not None and abs(host_s / offload_s - 1.0) <= self.rules.tolerance:
            why, offload = Why.TOLERANCE, offloading
        return OffloadDecision(
            now_s, operation, offload, why, host_s, offload_s, count, offloading is not None and offload != offloading
        )
