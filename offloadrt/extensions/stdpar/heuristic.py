"""The offload heuristic, which decides whether the next algorithm runs on the device or on the host.

A pure policy: it reads no clock, its caller passes the time. Before each algorithm whose pointers the device can use,
the executor calls `OffloadHeuristic.decide`. It decides anew only when enough operations and enough time have passed
since its last decision:

- It predicts what comes next: each operation is expected to be followed by the one that followed it last time.
- Along this chain it adds up the estimated runtimes on the host and on the device, as far as both are known.
- Where none are known, the algorithm is offloaded: only a run that sampled the host can speak for the host.
- The side that does not have the data now also pays for the transfer of what the operation uses.
- If both sides differ by less than the tolerance, the algorithm stays where the last one ran.

One measurement of an operation is enough; the first one in each run is discarded. A new process does not know which
operation follows which, so its first decision rests on its first operation alone. It keeps that decision for the least
time (`min_time_s`) or longer. So does AdaptiveCpp.

Follows AdaptiveCpp's ``should_offload`` (``offload.hpp``), one state for each thread. Not followed: in that source the
least number of operations between decisions is the least time in nanoseconds, 10⁹, so that a run hardly ever decides
twice; here it is what its configuration says, 128.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import msgspec

from offloadrt.extensions.stdpar.arrays import HeuristicDatabaseError

LEAST_S = 1e-29
"""The least estimate in seconds. An interpolation that gives less than this, or a negative time, is raised to it."""
_VERSION = 1


class Place(enum.Enum):
    """Where an operation (an algorithm) ran: on the host, or on the device (OFFLOAD)."""

    HOST = "host"
    OFFLOAD = "offload"


@attrs.frozen
class OperationId:
    """Identifies the operations that the offload heuristic treats as the same.

    name: the algorithm's and its kernel's, as in ``for_each(scale)``; AdaptiveCpp uses a hash of the arguments' types
    instead. size: the number of iterations.
    """

    name: str
    size: int


class Sample(msgspec.Struct, forbid_unknown_fields=True):
    """The mean runtime in seconds of an operation of one size at a `place`, over a number of `measurements`."""

    place: Place
    size: int
    seconds: float
    measurements: int

    def __post_init__(self) -> None:
        if self.size < 0 or self.measurements < 1 or not 0 <= self.seconds < float("inf"):
            what = f"size {self.size}, seconds {self.seconds} or measurements {self.measurements}"
            raise ValueError(f"{what} is out of range")


class _File(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    operations: dict[str, list[Sample]]


class HeuristicDatabase:
    """The measured runtimes of a program's operations, on the host and on the device."""

    def __init__(self) -> None:
        self._samples: dict[str, list[Sample]] = {}
        self._measured: set[str] = set()
        """Operations that have been measured in this run."""

    def __len__(self) -> int:
        """Return the number of operations with samples."""
        return len(self._samples)

    def samples(self, name: str) -> tuple[Sample, ...]:
        """Return the samples of one operation, in the order of their first measurement."""
        return tuple(self._samples.get(name, ()))

    def add(self, operation: OperationId, place: Place, seconds: float) -> None:
        """Add a measurement of an operation's runtime in seconds, on the host or on the device (`place`).

        The first one of an operation in each run is discarded: it may include what happens only once, such as
        just-in-time compilation.
        """
        if operation.name not in self._measured:
            self._measured.add(operation.name)
            return
        samples = self._samples.setdefault(operation.name, [])
        for sample in samples:
            if sample.place is place and sample.size == operation.size:
                sample.seconds = (sample.seconds * sample.measurements + seconds) / (sample.measurements + 1)
                sample.measurements += 1
                return
        samples.append(Sample(place, operation.size, seconds, 1))

    def add_batch(self, operations: Sequence[OperationId], seconds: float) -> None:
        """Add a measurement of a batch, all that was offloaded between two waits; each operation gets an equal part.

        seconds: from the batch's first submission to the end of the wait.
        """
        for operation in operations:
            self.add(operation, Place.OFFLOAD, seconds / len(operations))

    def estimate(self, operation: OperationId, place: Place) -> float | None:
        """Estimate the seconds that an operation would take on the host or device; None without a usable sample there.

        A sample of the operation's own size is the estimate. Else the estimate lies on the line through the samples of
        the two nearest sizes; among equally near ones the first measured counts. With one other size only, the line
        goes through that sample and the origin. place: host or device.
        """
        known = [sample for sample in self._samples.get(operation.name, ()) if sample.place is place]
        known.sort(key=lambda sample: abs(sample.size - operation.size))
        points = [(sample.size, sample.seconds) for sample in known[:2]]
        if not points:
            return None
        if points[0][0] == operation.size:
            return max(points[0][1], LEAST_S)
        (low, low_s), (high, high_s) = sorted([(0, 0.0), *points][-2:])
        if low == high:
            return None
        return max(low_s + (operation.size - low) * (high_s - low_s) / (high - low), LEAST_S)

    # the file

    @classmethod
    def read(cls, path: Path) -> HeuristicDatabase:
        """Read the samples that an earlier run wrote; none where there is no file. Raises HeuristicDatabaseError."""
        database = cls()
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return database
        except OSError as error:
            raise HeuristicDatabaseError(f"{path}: cannot be read ({error.strerror})") from None
        try:
            stored = msgspec.json.decode(content, type=_File)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise HeuristicDatabaseError(f"{path}: no database of the offload heuristic: {error}") from None
        if stored.version != _VERSION:
            raise HeuristicDatabaseError(f"{path}: version is {stored.version}; this is offloadrt's version {_VERSION}")
        for name, samples in stored.operations.items():
            if len({(sample.place, sample.size) for sample in samples}) < len(samples):
                raise HeuristicDatabaseError(f"{path}: operations.{name} has two samples of one place and size")
        database._samples = stored.operations
        return database

    def write(self, path: Path) -> None:
        """Write all samples, including those that were read. Raises HeuristicDatabaseError."""
        content = msgspec.json.format(msgspec.json.encode(_File(_VERSION, self._samples)))
        try:
            path.write_bytes(content + b"\n")
        except OSError as error:
            raise HeuristicDatabaseError(f"{path}: cannot be written ({error.strerror})") from None


class Sampling(enum.Enum):
    """Where a run that only takes measurements executes algorithms.

    HOST or OFFLOAD: all of them on the host, or on the device (``ACPP_STDPAR_HOST_SAMPLING``, ``…_OFFLOAD_SAMPLING``).
    NONE: the run is an ordinary one.
    """

    NONE = "none"
    HOST = "host"
    OFFLOAD = "offload"


class Why(enum.Enum):
    """Why the offload heuristic chose the host or the device for an algorithm; each value says it in words."""

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
    """The parameters of the offload heuristic, with AdaptiveCpp's defaults.

    min_operations, min_time_s: how many operations and seconds lie at least between two decisions
    (``ACPP_STDPAR_OHC_MIN_OPS``, ``…_MIN_TIME``). min_operations is also how many operations a decision looks ahead.
    transfer_bytes_per_s: bandwidth of the link. tolerance: how far the ratio of host to device time may be from 1
    before the heuristic changes between host and device. sampling: whether the run only measures, and where.
    """

    min_operations: int = attrs.field(default=128, validator=_positive)
    min_time_s: float = attrs.field(default=1.0, validator=_not_negative)
    transfer_bytes_per_s: float = attrs.field(default=32e9, validator=_positive)
    tolerance: float = attrs.field(default=0.2, validator=_not_negative)
    sampling: Sampling = Sampling.NONE


@attrs.frozen
class OffloadDecision:
    """A decision of the offload heuristic: when and before which operation it was made, and from which estimates.

    time_s: the virtual time of the decision. offload: whether operations run on the device from then on, rather than on
    the host. changed: whether this differs from before. host_s, offload_s: estimated times in seconds of the next
    `predicted` operations on host and device, with the transfer of their data where it is needed. why: the reason.
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
    """Decides for one host thread whether its next algorithms run on the device. decisions: all that were made.

    database: the runtimes measured so far. rules: its parameters.
    """

    database: HeuristicDatabase
    rules: HeuristicRules = HeuristicRules()
    decisions: list[OffloadDecision] = attrs.field(factory=list)
    _successor: dict[OperationId, OperationId] = attrs.field(factory=dict)
    _previous: OperationId | None = None
    _since: int = 0
    """How many operations came since the last decision."""

    def decide(self, operation: OperationId, used_bytes: int, now_s: float, batch: int) -> bool:
        """Return True if `operation` is to run on the device, False if on the host; called for every operation in turn.

        used_bytes: size of the allocations that its pointers point into. now_s: virtual time in seconds. batch: how
        many batches (what a thread submits between two waits) have been completed. If it is 0, all data is new, and no
        time for transferring `used_bytes` is added to the estimate.
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
        """Return `operation` and the operations that are expected to follow it.

        Each is followed by the operation that came after it last time. There are at most
        `HeuristicRules.min_operations`.
        """
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
        """Decide by comparing the predicted times of both sides.

        offloading: whether the operations are offloaded now; None before the first decision, when the data lies
        nowhere.
        """
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
