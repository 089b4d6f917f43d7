"""Reads the raw files of a recording for tests, with nothing of offloadrt."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

CALL, KERNEL, ITEM, RET, OP, LAUNCH, COUNTS, ARRAY, PAGES, SECTORS = 2, 3, 4, 6, 8, 10, 11, 13, 14, 15
TASK_CREATE, DEPENDENCE, MUTEX, ALLOC, FREE, TOUCH = 20, 22, 23, 24, 25, 26
DATA_BEGIN, DATA_END, TARGET_KERNEL = 1, 2, 7
_OPERATIONS = ("f64", "f32", "f16", "div64", "div32", "div16", "special64", "special32", "integer")
_MEMORY = ("loads", "load_bytes", "stores", "store_bytes", "atomics", "stack")
COUNTERS = (*_OPERATIONS, *_MEMORY, "branches", "unknown_calls", "atomic_bytes")


class Raw:
    """The slots of all threads of a run, one thread after the other."""

    def __init__(self, folder: Path) -> None:
        files = sorted(folder.glob("*.slots"))
        self.threads = [np.fromfile(path, "<u8").reshape(-1, 8) for path in files]
        self.slots = np.concatenate(self.threads)
        self.lines = [
            json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()
        ]

    def of(self, kind: int, a: int | None = None) -> np.ndarray:
        head = self.slots[:, 0]
        wanted = (head & 0xFF) == kind
        return self.slots[wanted if a is None else wanted & ((head >> 16 & 0xFFFF) == a)]

    def strings(self) -> set[str]:
        return {line["text"] for line in self.lines if line["k"] == "string"}

    def launches(self) -> list[Launch]:
        """The launches with what belongs to them."""
        kinds = self.slots[:, 0] & 0xFF
        return [
            Launch(self.slots[at], self.slots[at + 1 : at + 1 + int(self.slots[at, 0] >> 32)])
            for at in np.flatnonzero(kinds == LAUNCH)
        ]


class Launch:
    def __init__(self, head: np.ndarray, parts: np.ndarray) -> None:
        kinds = parts[:, 0] & 0xFF
        numbers = parts[kinds == COUNTS][:, 1:].ravel()
        self.traced = bool(head[0] >> 16 & 0xFFFF)
        self.teams, self.threads, self.trip = (int(word) for word in head[3:6])
        self.gpu_threads, self.barriers = int(head[6]), int(head[7])
        self.counts = dict(zip(COUNTERS, (int(number) for number in numbers), strict=False))
        self.arrays = [
            Array(array, sectors, parts[(kinds == PAGES) & ((parts[:, 0] >> 32) == (array[0] >> 16 & 0xFFFF))])
            for array, sectors in zip(parts[kinds == ARRAY], parts[kinds == SECTORS], strict=True)
        ]

    def moved(self) -> tuple[int, int]:
        """Bytes that the launch loaded from its arrays and stored into them."""
        return sum(array.load_bytes for array in self.arrays), sum(array.store_bytes for array in self.arrays)


class Array:
    def __init__(self, array: np.ndarray, sectors: np.ndarray, pages: np.ndarray) -> None:
        self.host, self.device, self.size, self.load_bytes, self.store_bytes = (int(word) for word in array[1:6])
        self.sectors_loaded, self.sectors_stored = int(sectors[1]), int(sectors[2])
        self.pages = [(int(run[0] >> 16 & 0xFFFF), *(int(word) for word in run[1:5])) for run in pages]
