"""Compare with the real runtime: `python tests/fuzz/differential.py [--programs 100] [--seed 0] [--folder FOLDER]`.

Random programs (`openmp_programs.py`) are compiled with clang 22, recorded while they run under LLVM's runtime, and
replayed: the operations of each directive must be those of the real runtime. Sources and recordings of programs with a
difference stay in the folder.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import openmp_programs

LONGEST_S = 120
"""Wall-clock seconds after which a step counts as a hang."""


def offloadrt(*arguments: object) -> str:
    """Run a command of offloadrt and return what it prints. Raises CalledProcessError with what went wrong."""
    command = [sys.executable, "-m", "offloadrt", *map(str, arguments)]
    return subprocess.run(command, check=True, timeout=LONGEST_S, capture_output=True, text=True).stdout


def compared(seed: int, folder: Path) -> tuple[int, list[str]]:
    """Return how many directives the program of a seed has, and those whose operations differ, each with how.

    Raises CalledProcessError when a step fails, and TimeoutExpired when one does not end.
    """
    program = folder / f"p{seed}"
    source, recording = program.with_suffix(".c"), program.with_suffix(".rec")
    source.write_text(openmp_programs.program(seed))
    offloadrt("cc", "-w", "-O1", "-fopenmp", "-fopenmp-version=52", source, "-o", program)
    offloadrt("record", "-o", recording, program)
    measured = json.loads(offloadrt("run", recording, "configuration=copy", "--json"))["measured"]
    return measured["directives"], [str(what) for name, what in measured.items() if name.startswith("difference_")]


def main() -> int:
    """Compare, and return how many programs differ or fail."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="of the first program; the next ones follow")
    parser.add_argument("--folder", type=Path, default=Path("build/differential"))
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    failed = directives = 0
    for seed in range(asked.seed, asked.seed + asked.programs):
        try:
            number, differences = compared(seed, asked.folder)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            number, differences = 0, [f"{error}\n{error.stderr or ''}"]
        directives += number
        if differences:
            failed += 1
            print(f"program {seed}:", *differences, sep="\n    ", flush=True)
        else:
            for path in asked.folder.glob(f"p{seed}*"):
                path.unlink()
    print(f"{asked.programs} programs with {directives} directives, {failed} with differences")
    return failed


if __name__ == "__main__":
    sys.exit(min(main(), 1))
