"""What recording costs: CPU time of five streaming kernels built by clang, with counters, and with traced launches.

    python bench/recorder.py [ELEMENTS [ROUNDS]]

The middle one of five runs each, in turn. Needs clang 22; writes nothing but its table.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from offloadrt.extensions.recording.toolchain import RecordOptions, compiler_command, find_compiler, record

PROGRAM = Path(__file__).parents[1] / "tests" / "recording" / "programs" / "five_kernels.c"
REPEAT = 5
COUNTERS, TRACED, TRACED_3 = RecordOptions(0, False), RecordOptions(1, True), RecordOptions(3, True)


def cpu_seconds() -> float:
    times = os.times()
    return times.children_user + times.children_system


def main(elements: str = "1048576", rounds: str = "100") -> None:
    os.environ["OMP_NUM_THREADS"] = "1"  # clang's kernels would else spin on all cores
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        plain, built = folder / "plain", folder / "built"
        flags = ["-O2", "-fopenmp", str(PROGRAM)]
        clang = [str(find_compiler("cc").path), "-fopenmp-targets=x86_64-pc-linux-gnu"]
        subprocess.run([*clang, *flags, "-o", str(plain)], check=True)
        subprocess.run([*compiler_command("cc", flags), "-o", str(built)], check=True)
        ways: dict[str, RecordOptions | None] = {
            "clang": None,
            "counters": COUNTERS,
            "1 traced launch a shape": TRACED,
            "3 traced launches a shape": TRACED_3,
        }
        measured: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(REPEAT):
            for way, wishes in ways.items():
                began = cpu_seconds()
                if wishes is None:
                    subprocess.run([str(plain), elements, rounds], check=True, stdout=subprocess.DEVNULL)
                else:
                    record([str(built), elements, rounds], folder / "raw", [None], wishes)
                measured[way].append(cpu_seconds() - began)
        middle = {way: sorted(seconds)[REPEAT // 2] for way, seconds in measured.items()}
        for way, seconds in middle.items():
            print(f"{way:28} {seconds:7.2f} s {seconds / middle['clang']:6.2f} x", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
