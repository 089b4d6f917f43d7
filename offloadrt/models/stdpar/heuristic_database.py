"""Runtimes of earlier executions, by operation, device and problem size; kept in a file between runs.

Follows AdaptiveCpp's ``offload_heuristic_db.hpp``. Here one database serves all threads of a program; there each thread
has its own, and they are added up at the end, with what they all had read from the file in each of them.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from pathlib import Path

import attrs
import msgspec

from offloadrt.models.stdpar.errors import HeuristicDatabaseError

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
