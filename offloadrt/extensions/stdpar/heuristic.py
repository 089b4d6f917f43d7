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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import msgspec

from offloadrt.extensions.stdpar.arrays import HeuristicDatabaseError

LEAST_S = 1e-29
"""The least estimate: what an interpolation that ends below nothing is taken for."""
_VERSION = 1


class Place(enum.Enum):
    """Where an operation ran."""

    HOST = "host"
    OFFLOAD = "offload"


@attrs.frozen
class OperationId:
    """name: the algorithm and the types of its arguments, which the real one hashes. size: its problem size."""

    name: str
    size: int


class Sample(msgspec.Struct, forbid_unknown_fields=True):
    """The mean of what an operation of one size took at one place."""

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
    """The samples of a program."""

    def __init__(self) -> None:
        self._samples: dict[str, list[Sample]] = {}
        self._measured: set[str] = set()
        """Operations that have been measured in this run."""

    def __len__(self) -> int:
        """List the operations with samples."""
        return len(self._samples)

    def samples(self, name: str) -> tuple[Sample, ...]:
        """List those of one operation, in the order of their first measurement."""
        return tuple(self._samples.get(name, ()))

    def add(self, operation: OperationId, place: Place, seconds: float) -> None:
        """Add a measurement.

        The first of an operation in each run does not count: it may hold what happens only once, as just-in-time
        compilation does.
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
        """Add a batch of offloaded operations, of which each gets the same part of the time.

        It was measured from its first submission to the end of the wait.
        """
        for operation in operations:
            self.add(operation, Place.OFFLOAD, seconds / len(operations))

    def estimate(self, operation: OperationId, place: Place) -> float | None:
        """Estimate the seconds that an operation would take; None without samples of it there.

        The estimate is the sample of its size, or lies on the line through the two nearest sizes, of equally near ones
        the first measured. With one other size only, it lies on the line through that and the origin.
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
        """Read what an earlier run has written; empty where there is no file. Raises HeuristicDatabaseError."""
        database = cls()
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return database
        except OSError as error:
            raise HeuristicDatabaseError(f"{path}: cannot be read ({error.strerror})") from None
        try:
            stored = msgspec.json.decode(content, type=_File)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise HeuristicDatabaseError(f"{path}: no database of the offload heuristic: {error}") from None
        if stored.version != _VERSION:
            raise HeuristicDatabaseError(f"{path}: version is {stored.version}; this is offloadrt's version {_VERSION}")
        for name, samples in stored.operations.items():
            if len({(sample.place, sample.size) for sample in samples}) < len(samples):
                raise HeuristicDatabaseError(f"{path}: operations.{name} has two samples of one place and size")
        database._samples = stored.operations
        return database

    def write(self, path: Path) -> None:
        """Write all samples, also those that were read. Raises HeuristicDatabaseError."""
        content = msgspec.json.format(msgspec.json.encode(_File(_VERSION, self._samples)))
        try:
            path.write_bytes(content + b"\n")
        except OSError as error:
            raise HeuristicDatabaseError(f"{path}: cannot be written ({error.strerror})") from None


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
        """Decide by comparing the predicted times of both sides.

        offloading: where the operation runs now; None before the first decision, when the data lies nowhere.
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
