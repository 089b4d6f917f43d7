"""Records the programs of `programs/` into `stored/`: `python tests/recording/store.py [NAME ...]`; needs clang 22."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
STORED = HERE / "stored"
PROGRAMS = {
    "stencil": ("cc", "stencil.c", "1"),
    "five_kernels": ("cc", "five_kernels.c", "1"),
    "patches": ("cc", "patches.c", "1,2,4"),
    "order": ("cc", "order.c", "4"),
    "blocks": ("cc", "blocks.c", "1"),
    "deferred": ("cc", "deferred.c", "4"),
    "globals": ("cc", "globals.c", "1"),
    "devices": ("cc", "devices.c", "1"),
    "synchronization": ("cc", "synchronization.c", "3"),
    "boxes": ("cc", "boxes.c", "1"),
    "regions": ("cc", "regions.c", "1"),
    "members": ("cxx", "members.cpp", "1"),
    "axpy": ("fc", "axpy.f90", "1"),
    "algorithms/triads": ("cxx", "triads.cpp", "1"),
    "checked/wrong_algorithms": ("cxx", "wrong_algorithms.cpp", "1"),
}
"""Language, source, and the numbers of threads that it is recorded with."""
RANKS = {
    "halo": ("halo.c", 4),
    "calls_of_mpi": ("calls_of_mpi.c", 2, "said"),
    "algorithms/reduced": ("reduced.cpp", 2),
    "checked/messages": ("messages.c", 2),
    "checked/wrong_messages": ("messages.c", 2, "wrong"),
}
"""Programs of MPI: the source, the number of ranks, and the program's arguments; they need MPICH."""


def store(name: str, folder: Path) -> None:
    language, source, threads = PROGRAMS[name]
    offloadrt = sys.executable, "-m", "offloadrt"
    program, model = folder / Path(name).name, "-stdpar" if "algorithms" in name else "-fopenmp"
    subprocess.run(
        [*offloadrt, language, "-g", "-O2", model, source, "-o", str(program)], cwd=HERE / "programs", check=True
    )
    out = STORED / f"{name}.rec"
    wishes = ["--threads", threads, *(["--check"] if name.startswith("checked/") else []), "-o", str(out)]
    subprocess.run([*offloadrt, "record", *wishes, f"./{program.name}"], cwd=folder, check=True)


def store_ranks(name: str, folder: Path) -> None:
    source, ranks, *words = RANKS[name]
    offloadrt = sys.executable, "-m", "offloadrt"
    program = folder / Path(name).name
    wrapper, variable, language, model = "mpicc.mpich", "MPICH_CC", "cc", "-fopenmp"
    if source.endswith(".cpp"):
        wrapper, variable, language, model = "mpicxx.mpich", "MPICH_CXX", "cxx", "-stdpar"
    compiler = {**os.environ, variable: f"{sys.executable} -m offloadrt {language}"}
    command = [wrapper, "-w", "-g", "-O2", model, source, "-o", str(program)]
    subprocess.run(command, cwd=HERE / "programs", check=True, env=compiler)
    ranked = ["mpiexec.mpich", "-n", str(ranks), f"./{program.name}", *map(str, words)]
    out, checked = str(STORED / f"{name}.rec"), ["--check"] if name.startswith("checked/") else []
    subprocess.run([*offloadrt, "record", *checked, "-o", out, *ranked], cwd=folder, check=True)


def main() -> None:
    STORED.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[1:] or [*PROGRAMS, *RANKS]:
            (store_ranks if name in RANKS else store)(name, Path(folder))


if __name__ == "__main__":
    main()
