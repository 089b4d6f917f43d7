"""What a recording of a million directives takes: bytes on disk, seconds to load, memory while it is loaded.

    python bench/recordings.py [directives]

The recording is synthetic: on four threads, patches of two arrays are mapped, four kernels run on them, and they are
unmapped. Addresses come again as malloc gives them out again. Every directive has its own CPU time.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from offloadrt.extensions.recording.format import RecordingFile, convert
from offloadrt.extensions.recording.format.slots import Slot

THREADS = 4
PATCHES = 512
"""Places in memory that patches take in turn."""
PATCH = 32 << 10
BEGIN, END, KERNEL = 1, 2, 7
TO, FROM, PARAM, ATTACH = 0x1, 0x2, 0x20, 0x4000
CODE = 0x400000


def slot(kind: Slot, *words: int, a: int = 0, b: int = 0) -> list[int]:
    return [int(kind) | a << 16 | b << 32, *words, *[0] * (7 - len(words))]


def slots(thread: int, directives: int) -> Iterator[list[int]]:
    """Yield what a thread does."""
    rng = np.random.default_rng(thread)
    now, cpu, call = 1_000_000 + thread, 1_000_000, (thread + 1) << 40
    yield slot(Slot.THREAD, now, thread, thread, cpu, 1, 1)
    for number in range(directives):
        turn = number // 6
        step = number % 6
        work = int(rng.integers(200, 60_000))
        now, cpu, call = now + work, cpu + work, call + 1
        a = 0x7F0000000000 + (thread * PATCHES + turn * 7 % PATCHES) * 4 * PATCH
        b = a + PATCH + 4096
        stack = 0x7FFC00000000 + thread * (8 << 20)
        items = [(a, a, PATCH, PARAM, 2), (b, b, PATCH, PARAM, 1)]
        if step == 0:
            items = [(b, b, PATCH, TO, 1), (stack, b, 8, ATTACH, 1)]
            items += [(a, a, PATCH, TO | FROM, 2), (stack + 8, a, 8, ATTACH, 2)]
        elif step == 5:
            items = [(a, a, PATCH, FROM, 2), (b, b, PATCH, 0, 1)]
        function = (BEGIN, KERNEL, KERNEL, KERNEL, KERNEL, END)[step]
        kernel = int(function == KERNEL)
        yield slot(Slot.CALL, now, call, 0, cpu, 10 + step, 2**64 - 1, 0, a=function, b=kernel + len(items))
        if kernel:
            yield slot(Slot.KERNEL, CODE + step, 0, 0, 4096, 0, 0, 0, a=3)
        for place, item in enumerate(items):
            yield slot(Slot.ITEM, *item, a=place)
        for operation, source, destination in operations_of(step, a, b):
            yield slot(Slot.OP, now, call, source, destination, PATCH, 0, now, a=operation)
        if kernel:
            yield slot(Slot.LAUNCH, now, call, 32, 128, 4096, 4096, 0, a=0, b=3)
            for part in range(3):
                yield slot(Slot.COUNTS, *[12288, 0, 0, 0, 0, 0, 0] if part == 0 else [0] * 7, a=part)
            yield slot(Slot.SUBMIT, now, call, 0, cpu, 0, 0, now)
        now, cpu = now + 20_000, cpu + 20_000
        yield slot(Slot.RET, now, call, 0, cpu, a=function)


def operations_of(step: int, a: int, b: int) -> list[tuple[int, int, int]]:
    """Return OMPT's number, source and destination of what the runtime does."""
    if step == 0:
        return [(1, b, a), (2, b, a), (1, a, b), (2, a, b)]
    return [(3, b, a), (4, b, 0), (4, a, 0)] if step == 5 else []


def write(folder: Path, directives: int) -> None:
    run = folder / "run-0"
    run.mkdir(parents=True)
    lines = ['{"k":"process","version":1,"pid":1,"argv":["synthetic"]}', '{"k":"end","how":"exit"}']
    lines += [f'{{"k":"entry","at":{CODE + step},"name":"kernel {step}","size":0}}' for step in range(1, 5)]
    texts = {1: ";b[0:n];app.c;7;67;;", 2: ";a[0:n];app.c;7;47;;"}
    texts |= {10 + step: f";app.c;main;{8 + step};1;;" for step in range(6)}
    lines += [f'{{"k":"string","at":{at},"text":"{text}"}}' for at, text in texts.items()]
    (run / "1.jsonl").write_text("\n".join(lines) + "\n")
    for thread in range(THREADS):
        with (run / f"1.{thread}.slots").open("wb") as file:
            chunk: list[list[int]] = []
            for row in slots(thread, directives // THREADS):
                chunk.append(row)
                if len(chunk) == 1 << 16:
                    file.write(np.array(chunk, "<u8").tobytes())
                    chunk = []
            file.write(np.array(chunk, "<u8").tobytes())


def main() -> None:
    directives = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "raw", directives)
        if (pid := os.fork()) == 0:
            began = time.perf_counter()
            convert(folder / "raw", folder / "app.rec")
            print(f"converted in {time.perf_counter() - began:.1f} s", flush=True)
            os._exit(0)
        os.waitpid(pid, 0)
        with zipfile.ZipFile(folder / "app.rec") as archive:
            sizes = {member.filename: member.compress_size for member in archive.infolist()}
        of_records = sum(size for member, size in sizes.items() if "/record." in member or "/task." in member)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.perf_counter()
        file = RecordingFile.read(folder / "app.rec")
        recording = file.load(file.runs[0])
        took = time.perf_counter() - began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{recording.directives} directives: {sum(sizes.values()) / 1e6:.1f} MB")
    shared = sum(sizes.values()) - of_records
    print(f"{of_records / recording.directives:.1f} B a directive, and {shared} B of dictionaries and shared lists")
    print(f"loaded in {took:.2f} s, {peak / 1024:.0f} MB at most ({before / 1024:.0f} MB before)")


if __name__ == "__main__":
    main()
