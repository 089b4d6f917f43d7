"""Build the micro-benchmarks, run them on this machine's first GPU, and write what they measured.

    python3 bench/hardware/measure.py results/mine
    uv run offloadrt calibrate results/mine/benchmarks.jsonl --base alex-a100 -o mine.toml

`benchmarks.jsonl` has the rows of unit costs, `offload.jsonl` those of many threads that offload patches, to which no
cost is fitted, and `machine.txt` what the system says of itself.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
UNIT_COSTS = ("launches", "allocation", "copies", "locks", "beside", "bandwidth", "managed", "amd")
OFFLOAD = "offload"
SMALL_PATCH = ("48", "11552", "289", "500")
LARGE_PATCH = ("24", "628232", "729", "30000")
"""Patches of a thread, bytes of a patch, its volumes, and operations of a volume."""
SYSTEM = (("nvidia-smi", "-q"), ("rocminfo",), ("lscpu",), ("uname", "-a"))
SECONDS = 300


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    compiler = shutil.which(options.compiler) if options.compiler else shutil.which("nvcc") or shutil.which("hipcc")
    if compiler is None:
        print(f"measure.py: {options.compiler or 'nvcc or hipcc'} is not here", file=sys.stderr)
        return 2
    options.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        with ThreadPoolExecutor() as pool:
            built = pool.map(lambda name: _built(name, compiler, options.arch, Path(folder)), options.only)
        programs = dict(zip(options.only, built, strict=True))
        if None in programs.values():
            return 1
        if options.compile_only:
            return 0
        (options.output / "machine.txt").write_text("".join(_said(command) for command in SYSTEM))
        ended = [
            _run([str(program), *more], options.output / ("offload.jsonl" if name == OFFLOAD else "benchmarks.jsonl"))
            for name, program in programs.items()
            for more in _arguments(name, options.oversubscribe)
        ]
    print(f"{options.output}: {sum(ended)} of {len(ended)} programs ended well")
    return 0 if all(ended) else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="the folder to write into; rows are added to files that are there")
    everything = (*UNIT_COSTS, OFFLOAD)
    parser.add_argument("--only", nargs="+", choices=everything, default=everything, help="run only these programs")
    parser.add_argument("--compiler", help="nvcc or hipcc, or its path; by default whichever is there")
    parser.add_argument("--arch", default="native", help="the compiler's name of the GPU, as sm_90 or gfx942")
    parser.add_argument("--compile-only", action="store_true", help="build the programs and run none")
    parser.add_argument(
        "--oversubscribe", action="store_true", help="also take more managed memory than is free, which can hang a GPU"
    )
    return parser.parse_args(arguments)


def _built(name: str, compiler: str, arch: str, folder: Path) -> Path | None:
    """Compile a program and return it; None, with the compiler's message, if that fails."""
    program = folder / name
    hip = "hip" in Path(compiler).name
    target = ["-x", "hip", f"--offload-arch={arch}"] if hip else [f"-arch={arch}"]
    done = subprocess.run([compiler, "-O2", "-std=c++17", *target, str(HERE / f"{name}.cu"), "-o", str(program)])
    return program if done.returncode == 0 else None


def _arguments(name: str, oversubscribe: bool) -> Sequence[tuple[str, ...]]:
    """Return the arguments of each run of a program."""
    if name == "managed" and oversubscribe:
        return [(), ("oversubscribed",)]
    if name == "launches":
        return [(), ("blocking_sync",)]
    if name != OFFLOAD:
        return [()]
    runs = [
        (mode, str(threads), str(batch), *SMALL_PATCH)
        for mode in ("map", "pool", "managed")
        for threads in (1, 2, 4, 8, 16, 32, 64)
        for batch in (1, 4, 16)
    ]
    return runs + [(mode, str(threads), "4", *LARGE_PATCH) for mode in ("map", "pool") for threads in (1, 8, 16)]


def _run(command: Sequence[str], output: Path) -> bool:
    """Run a program, add its rows to a file, also those of one that fails, and return whether it ended well."""
    program = Path(command[0]).name
    begin = time.monotonic()
    with output.open("a") as file:
        try:
            code = subprocess.run(command, stdout=file, timeout=SECONDS).returncode
        except subprocess.TimeoutExpired:
            code = -1
    if code:
        why = f"was stopped after {SECONDS} s" if code == -1 else f"ended with {code}"
        print(f"measure.py: {program} {' '.join(command[1:])} {why}", file=sys.stderr)
    print(f"{program} {' '.join(command[1:])}: {time.monotonic() - begin:.0f} s", flush=True)
    return code == 0


def _said(command: Sequence[str]) -> str:
    """Return what a command of the system prints; nothing if it is not here."""
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(command, capture_output=True, text=True)
    return f"$ {' '.join(command)}\n{done.stdout}\n"


if __name__ == "__main__":
    sys.exit(main())
