"""The user's compilers, and the native parts of the recorder, which are compiled at first use.

`find_compiler` finds clang or flang; `recorder_library`, `device_runtime` and `compiler_plugin` return one compiled
part each. The parts are kept in a cache folder that is named after the compiler's version and a digest of the sources,
so a new compiler or a new offloadrt compiles them anew.
"""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from typing import Final, Literal

import attrs
import numpy as np
from attrs import field, frozen

from offloadrt.extensions.recording.format.slots import (
    PLACES,
    RAW_VERSION,
    SLOT_BYTES,
    SLOT_WORDS,
    STOP,
    Slot,
    died_key,
)


class RecordingRefused(Exception):
    """Raised when something that recording needs is missing, or nothing was recorded; says what to do."""


class ToolchainMissing(RecordingRefused):
    """Raised when a compiler, its headers or a library is missing or too old; says what to install."""


Language = Literal["cc", "cxx", "fc"]

OLDEST = 22
"""The oldest major version of LLVM whose device code and plugin interface are known to work."""

_NEWEST = 40
_NATIVE = Path(__file__).parent / "native"
_TOOLS: dict[Language, str] = {"cc": "clang", "cxx": "clang++", "fc": "flang"}
_CHOICE: dict[Language, str] = {"cc": "OFFLOADRT_CC", "cxx": "OFFLOADRT_CXX", "fc": "OFFLOADRT_FC"}
_PACKAGES = {
    "cc": f"clang-{OLDEST}, clang-tools-{OLDEST}, lld-{OLDEST}, llvm-{OLDEST}, libomp-{OLDEST}-dev and "
    f"liboffload-{OLDEST}-dev",
    "fc": f"flang-{OLDEST}",
}
_WARNINGS = ("-Wall", "-Wextra")


@frozen
class Compiler:
    """An LLVM compiler: its language, the path of its program, and the version that it prints."""

    language: Language
    path: Path
    version: str

    @property
    def major(self) -> int:
        """Return the major number of the compiler's version."""
        return int(self.version.partition(".")[0])


@cache
def find_compiler(language: Language) -> Compiler:
    """Return the compiler of a language: the one that the environment names, or else the newest LLVM on the path.

    The environment variables are OFFLOADRT_CC, OFFLOADRT_CXX and OFFLOADRT_FC. Raises ToolchainMissing where there is
    none, or only one that is too old.
    """
    chosen = os.environ.get(_CHOICE[language])
    tool = _TOOLS[language]
    newer = [f"{tool}-{major}" for major in range(OLDEST, _NEWEST)]
    names = [chosen] if chosen else [tool, *newer, *(["flang-new"] if tool == "flang" else [])]
    found: list[Compiler] = []
    for name in names:
        path = shutil.which(name)
        version = None if path is None else _version_of(Path(path))
        if path is not None and version is not None:
            found.append(Compiler(language, Path(path), version))
    best = max(found, key=lambda compiler: compiler.major, default=None)
    if best is not None and best.major >= OLDEST:
        return best
    packages = _PACKAGES["fc" if language == "fc" else "cc"]
    advice = f"install {packages} (apt.llvm.org or your distribution), or name a compiler by {_CHOICE[language]}"
    if best is not None:
        raise ToolchainMissing(f"{best.path} is LLVM {best.version}; recording needs LLVM {OLDEST} or later: {advice}")
    if chosen:
        raise ToolchainMissing(f"{_CHOICE[language]}={chosen}: no compiler of LLVM answers by that name: {advice}")
    raise ToolchainMissing(f"no {tool} of LLVM {OLDEST} or later was found on the path: {advice}")


def _version_of(path: Path) -> str | None:
    """Return the version that an LLVM compiler prints; None for other programs, and if the program cannot be run."""
    try:
        printed = subprocess.run([str(path), "--version"], capture_output=True, check=False).stdout
    except OSError:
        return None
    match = re.search(r"(?:clang|flang|flang-new) version (\d+\.\d+\.\d+)", printed.decode(errors="replace"))
    return None if match is None else match[1]


def recorder_library(compiler: Compiler) -> Path:
    """Return the library to preload into a program to record it. ToolchainMissing if `compiler` cannot build it."""
    # Each malloc and free of the program looks at its thread: hence no lookup of symbols, and a model of TLS.
    flags = ["-std=gnu17", "-O2", "-g", "-fPIC", "-fvisibility=hidden", "-ftls-model=initial-exec", "-pthread"]
    return _compiled(compiler, "recorder.so", _sources("recorder", "c"), [*flags, _layout()], ["-shared", "-ldl"])


def device_runtime(compiler: Compiler) -> Path:
    """Return the path of the object file that runs kernels on the host, as the device's part of a recorded program.

    It is linked into device images, and executes the kernels' grids. Raises ToolchainMissing if it cannot be compiled.
    """
    flags = ["-std=gnu17", "-O2", "-g", "-fPIC", _layout()]
    return _compiled(compiler, "device.o", _sources("device", "c"), flags, ["-r", "-nostdlib"])


def program_markers(compiler: Compiler) -> Path:
    """Return the object file to link in for NVTX and rocTX, which records their ranges; raises ToolchainMissing."""
    flags = ["-std=gnu17", "-O2", "-fPIC"]
    return _compiled(compiler, "program.o", _sources("markers", "c"), flags, ["-r", "-nostdlib"])


def compiler_plugin(compiler: Compiler) -> Path | None:
    """Return the plugin that adds counters of work; None without LLVM's headers. ToolchainMissing if not built."""
    headers = _llvm_headers(compiler)
    if headers is None:
        return None
    flags = ["-std=c++17", "-O1", "-fPIC", "-fno-rtti", "-D__STDC_CONSTANT_MACROS", "-D__STDC_LIMIT_MACROS"]
    flags += ["-isystem", str(headers)]
    return _compiled(find_compiler("cxx"), "plugin.so", _sources("plugin", "cpp"), flags, ["-shared"], units=2)


_MPI_LIBRARY: Final = re.compile(r"lib(?:mpi|mpich|pmpi|mpi_\w+|mpich\w+)\.so(?:\.\d+)* => (/\S+)")
_MPICC: Final = "OFFLOADRT_MPICC"
_LAUNCHERS: Final = ("mpiexec", "mpirun", "orterun", "prterun")


def mpi_library(command: Sequence[str]) -> Path | None:
    """Return the library that records MPI calls, built for the program's MPI; None for a program without MPI.

    MPI libraries differ in the types of their handles. So the headers of an `mpicc` are used that links with the same
    library. Raises ToolchainMissing if there is no such `mpicc`.
    """
    programs = [Path(found) for word in command if (found := shutil.which(word)) is not None]
    linked = next((library for program in programs if (library := _mpi_of(program)) is not None), None)
    launcher = next((program for program in programs if program.name.startswith(_LAUNCHERS)), None)
    if linked is None and launcher is None:
        return None
    tried = []
    for mpicc in _mpiccs(launcher, linked):
        made_with = _mpi_of_compiler(str(mpicc))
        if made_with is not None and linked in (None, made_with[0]):
            return _mpi_recorder(made_with[1])
        tried.append(str(mpicc))
    if linked is None:  # a launcher may start programs without MPI
        return None
    advice = f"install what brings it (libmpich-dev, libopenmpi-dev), or name it by {_MPICC}"
    others = f"; {', '.join(tried)} is for another one" if tried else ""
    raise ToolchainMissing(
        f"{command[0]}: the program is linked with {linked}, and no mpicc for that is here{others}: {advice}"
    )


def _mpi_of(program: Path) -> Path | None:
    """Return the MPI library that a program or a library is linked with; None if there is none."""
    with program.open("rb") as file:
        if file.read(4) != b"\x7fELF":
            return None
    done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    libraries = [Path(path).resolve() for path in _MPI_LIBRARY.findall(done.stdout)]
    named = [path for path in libraries if path.name.startswith(("libmpi.", "libmpich."))]
    return next(iter(named), None)


def _mpiccs(launcher: Path | None, linked: Path | None) -> list[Path]:
    """Return the MPI compilers to try: the one that the environment names, or else first those beside the launcher."""
    if own := os.environ.get(_MPICC):
        return [Path(found) for found in [shutil.which(own)] if found is not None]
    names = ["mpicc", "mpicc.mpich", "mpicc.openmpi"]
    found: list[Path] = []
    if launcher is not None:
        kind = launcher.name.partition(".")[2]
        found += [launcher.with_name(name) for name in (*([f"mpicc.{kind}"] if kind else []), *names[:1])]
    if linked is not None:
        found += [folder / "bin" / "mpicc" for folder in linked.parents[1:3]]
    found += [Path(path) for name in names if (path := shutil.which(name)) is not None]
    return [path for path in dict.fromkeys(found) if path.is_file()]


@cache
def _mpi_of_compiler(mpicc: str) -> tuple[Path, tuple[str, ...]] | None:
    """Return the MPI library with which an `mpicc` links programs, and its flags for headers; None if it fails."""
    shown = subprocess.run([mpicc, "-show"], capture_output=True, text=True, check=False).stdout
    headers = tuple(word for word in shlex.split(shown) if word.startswith(("-I", "-D")))
    links = [word for word in shlex.split(shown) if word.startswith(("-L", "-l", "-Wl,-rpath"))]
    compiler = find_compiler("cc")
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder) / "uses_mpi.c", Path(folder) / "uses_mpi.so"
        source.write_text("#include <mpi.h>\nint uses(void) { return MPI_Init(0, 0); }\n", encoding="ascii")
        command = [str(compiler.path), *headers, "-shared", "-fPIC", str(source), *links, "-o", str(made)]
        done = subprocess.run(command, capture_output=True, check=False)
        library = _mpi_of(made) if done.returncode == 0 and made.is_file() else None
    return None if library is None else (library, headers)


def _mpi_recorder(headers: Sequence[str]) -> Path:
    flags = ["-std=gnu17", "-O2", "-g", "-fPIC", "-fvisibility=hidden", "-pthread", *headers]
    for folder in (Path(word[2:]) for word in headers if word.startswith("-I")):
        if (folder / "mpi.h").is_file():
            digest = hashlib.blake2b((folder / "mpi.h").read_bytes(), digest_size=8).hexdigest()
            flags.append(f"-DHEADER=0x{digest}ull")
    return _compiled(find_compiler("cc"), "mpi.so", _sources("mpi", "c"), flags, ["-shared", "-ldl", "-Wl,-z,lazy"])


def _llvm_headers(compiler: Compiler) -> Path | None:
    prefix = compiler.path.resolve().parent.parent
    for folder in (prefix / "include", Path(f"/usr/lib/llvm-{compiler.major}/include"), Path("/usr/include")):
        config = folder / "llvm" / "Config" / "llvm-config.h"
        if (folder / "llvm" / "Passes" / "PassBuilder.h").exists() and _major_of(config) == compiler.major:
            return folder
    return None


def _major_of(config: Path) -> int | None:
    match = (
        re.search(r"#define LLVM_VERSION_MAJOR (\d+)", config.read_text(encoding="utf-8")) if config.exists() else None
    )
    return None if match is None else int(match[1])


def _layout() -> str:
    """Return the flag that defines LAYOUT: a digest of the headers that recorder and device images share."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(_NATIVE.glob("*.h")):
        digest.update(path.read_bytes())
    return f"-DLAYOUT=0x{digest.hexdigest()}ull"


def _sources(folder: str, suffix: str) -> list[Path]:
    return sorted((_NATIVE / folder).glob(f"*.{suffix}"))


def cache_folder() -> Path:
    """Return the folder for compiled parts: $OFFLOADRT_CACHE, or offloadrt/ in the user's cache folder."""
    own = os.environ.get("OFFLOADRT_CACHE")
    return Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "offloadrt"


def _compiled(
    compiler: Compiler, name: str, sources: list[Path], flags: list[str], linked: list[str], *, units: int = 0
) -> Path:
    """Return a native part from the cache, after compiling it with `flags` and linking it if it is not there.

    units: the sources are joined into so many files before; 0: they are not. Reading LLVM's headers takes 2 seconds for
    each file, everything else 6.
    """
    digest = hashlib.blake2b(digest_size=8)
    for part in (str(compiler.path), compiler.version, *flags, *linked):
        digest.update(part.encode() + b"\0")
    for path in sorted([*_NATIVE.glob("*.h"), *sources[0].parent.iterdir()]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    folder = cache_folder() / f"llvm-{compiler.version}-{digest.hexdigest()}"
    target = folder / name
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("w") as lock:  # `make -j` begins with several compilers at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            if units:
                flags = [*flags, "-I", str(sources[0].parent)]
                sources = [_joined(folder, name, sources[number::units], number) for number in range(units)]
            _compile(compiler, sources, flags, linked, target)
    return target


def _joined(folder: Path, name: str, sources: list[Path], number: int) -> Path:
    """Write a source file that includes other ones, and return it."""
    joined = folder / f"{name}-{number}{sources[0].suffix}"
    joined.write_text("".join(f'#include "{source}"\n' for source in sources), encoding="utf-8")
    return joined


def _compile(compiler: Compiler, sources: list[Path], flags: list[str], linked: list[str], target: Path) -> None:
    """Compile the sources in parallel and link them; prints its progress."""
    steps = len(sources) + 1
    told = _tell_step(compiler, target, 1, steps, 0.0)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        objects = [Path(folder) / f"{source.stem}.o" for source in sources]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            compiled = [
                pool.submit(_make, compiler, [*flags, *_WARNINGS, "-c", str(source)], made, target)
                for source, made in zip(sources, objects, strict=True)
            ]
            for step, _ in enumerate(as_completed(compiled), 2):
                told = _tell_step(compiler, target, step, steps, told)
            for each in compiled:
                each.result()
        made = Path(folder) / target.name
        _make(compiler, [*map(str, objects), *linked], made, target)
        made.replace(target)


_TOLD_EVERY_S = 5.0


def _tell_step(compiler: Compiler, target: Path, step: int, steps: int, told: float) -> float:
    """Print which step begins, unless one was printed just before; return when the last one was printed."""
    now = time.monotonic()
    if told and now - told < _TOLD_EVERY_S:
        return told
    what = f"{target.name} of the recorder for LLVM {compiler.version}"
    print(f"offloadrt: builds {what}, once: step {step} of {steps}", file=sys.stderr, flush=True)
    return now


def _make(compiler: Compiler, arguments: list[str], made: Path, target: Path) -> None:
    command = [str(compiler.path), *arguments, "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not made.exists():
        raise ToolchainMissing(
            f"{compiler.path} (LLVM {compiler.version}) cannot compile {target.name} of the recorder:\n"
            f"{done.stderr.strip()}\nare {_PACKAGES['cc']} installed?"
        )


_OPENMP = ("-fopenmp", "-fiopenmp", "-qopenmp", "-mp", "-qsmp=omp", "-homp")
"""Flags with which various compilers switch OpenMP on."""

# Flags that choose a GPU, that LLVM does not have, or that keep a library from being loaded before the program
# (-static, sanitizers): single ones, beginnings of others, and those that take the next argument with them.
_DROPPED = ("-flto", "-fopenmp-target-fast", "-ipo", "-fast", "-cuda", "-stdpar=multicore", "-qoffload", "-nogpulib",
            "-static", "-static-pie", "-lnvToolsExt", "-lroctx64", "-lrocprofiler-sdk-roctx")  # fmt: skip
_DROPPED_PREFIXES = (
    "-fopenmp-targets=",
    "-foffload",
    "--offload-arch=",
    "--offload-device",
    "-gpu=",
    "-Minfo",
    "-Mcuda",
    "-tp",
    "-ta=",
    "-acc",
    "-xHost",
    "-mcpu=",  # clang has none for x86
    "-fopenmp-assume-no",
    "-flto=",
    "-fsanitize=",
    "--cuda-path=",
    "--rocm-path=",
)
_DROPPED_WITH_NEXT = ("-Xopenmp-target", "-Xcuda-ptxas", "-Xarch_device")
_OF_GFORTRAN = ("-fallow-", "-ffile-prefix-map=", "-fstack-protector")
"""Prefixes of flags that an `mpifort` for gfortran adds, and that flang does not know."""
_ALGORITHMS = ("-stdpar", "-stdpar=gpu", "--acpp-stdpar", "--hipsycl-stdpar", "--hipstdpar", "-fsycl-pstl-offload")
"""Flags that make compilers offload the parallel algorithms of C++."""
_ALGORITHMS_PREFIXES = ("--acpp-stdpar-", "--acpp-targets=", "--hipstdpar-", "-fsycl-pstl-offload=", "-fsycl-targets=")
"""Prefixes of further flags about this offloading."""
_OTHER_PROCESSORS = ("sm_", "gfx", "pwr", "power")
"""Prefixes of processor names in `-march=` that are not the host's."""
_NOT_LINKING = {"-c", "-S", "-E", "-M", "-MM", "-fsyntax-only"}
"""Flags with which a compiler makes no program or library."""
_INPUTS = (".c", ".cc", ".cpp", ".cxx", ".C", ".f", ".F", ".f90", ".F90", ".f95", ".f03", ".f08", ".o", ".a", ".so")
_HOST = "x86_64-pc-linux-gnu"


def rewrite(arguments: Sequence[str], language: Language = "cc") -> tuple[list[str], bool]:
    """Return the arguments without flags for a GPU or another compiler's OpenMP, and whether OpenMP is on.

    If C++ parallel algorithms are to be offloaded, a header is included that turns them into OpenMP directives.
    """
    kept: list[str] = []
    openmp = False
    if language == "cxx" and any(_offloads_algorithms(argument) for argument in arguments):
        openmp = True
        kept += ["-include", str(_NATIVE / "algorithms" / "offload_algorithms.hpp")]
    given = iter(arguments)
    for argument in given:
        if argument.startswith(_DROPPED_WITH_NEXT):
            next(given, None)
        elif argument in _OPENMP or argument.startswith(("-fopenmp=", "-mp=")):
            openmp = True
        elif not _chooses_gpu(argument):
            kept.append(argument)
    return kept, openmp


def _offloads_algorithms(argument: str) -> bool:
    return argument in _ALGORITHMS or argument.startswith("-fsycl-pstl-offload=")


def _chooses_gpu(argument: str) -> bool:
    """Tell whether a flag chooses a GPU or is one of another compiler's OpenMP."""
    if argument in (*_DROPPED, *_ALGORITHMS) or argument.startswith((*_DROPPED_PREFIXES, *_ALGORITHMS_PREFIXES)):
        return True
    return argument.startswith(("-march=", "-mtune=")) and argument.partition("=")[2].startswith(_OTHER_PROCESSORS)


def links(arguments: Sequence[str]) -> bool:
    """Tell whether a compiler command with these arguments links a program or a library."""
    return not _NOT_LINKING & set(arguments) and any(_is_input(argument) for argument in arguments)


def _is_input(argument: str) -> bool:
    return not argument.startswith("-") and argument.endswith(_INPUTS)


def compiler_command(language: Language, arguments: Sequence[str]) -> list[str]:
    """Return the command that compiles for recording, with the compiler's path; ToolchainMissing without a compiler."""
    compiler = find_compiler(language)
    kept, openmp = rewrite(arguments, language)
    if language == "fc":
        kept = [argument for argument in kept if not argument.startswith(_OF_GFORTRAN)]
    has_input = any(_is_input(argument) for argument in kept)
    if not has_input:  # for example `--version`, or a test for a flag
        return [str(compiler.path), *(["-fopenmp"] if openmp else []), *kept]
    added = ["-g"] if not any(argument.startswith("-g") for argument in kept) else []
    plugin = _plugin_of(compiler)
    if plugin is not None:
        added.append(f"-fpass-plugin={plugin}")
    if openmp:
        added += ["-fopenmp", f"-fopenmp-targets={_HOST}"]
        if links(kept):
            added += ["-Xoffload-linker", str(device_runtime(find_compiler("cc")))]
    if language != "fc":
        added += ["-idirafter", str(_NATIVE / "headers")]
    linked = [str(program_markers(find_compiler("cc"))), "-ldl"] if links(kept) else []
    return [str(compiler.path), *added, *kept, *linked]


def _plugin_of(compiler: Compiler) -> str | None:
    plugin = compiler_plugin(compiler)
    if plugin is None:
        print(
            f"offloadrt: LLVM's headers are not installed: kernels have no costs, only directives are recorded "
            f"(install llvm-{compiler.major}-dev)",
            file=sys.stderr,
        )
        return None
    return str(plugin)


def compile_for_recording(language: Language, arguments: Sequence[str]) -> None:
    """Replace this process by the compiler that compiles for recording. ToolchainMissing if there is no compiler."""
    command = compiler_command(language, arguments)
    os.execv(command[0], command)


_PROGRESS_INTERVAL_S = 0.5
_PATIENCE_S = 5
"""Seconds after which a program that was asked to end, and has not, is killed."""
_ALL_LAUNCHES = 1 << 30
"""The number of samples for a check: no program launches a kernel that often."""


@frozen
class RecordOptions:
    """The options with which a program is recorded.

    `samples` launches of each kernel and shape are traced; `stop_directives` and `stop_seconds` end the program early;
    `host_touches` asks for the pages that host code accesses. `check` asks for what a check needs: every launch is
    traced, and the host's accesses are recorded byte by byte. The program runs `repeats` times.
    """

    samples: int = 1
    host_touches: bool = True
    check: bool = False
    stop_directives: int | None = None
    stop_seconds: float | None = None
    repeats: int = 1


@frozen
class RecordedRun:
    """One recorded run of the program: the folder of its raw files, and how it ended.

    threads: the number of threads that was asked for; None: none was. exit, signal: its exit code or the signal that
    ended it. stopped: whether it was ended early, as asked. seconds: how long it ran. samples: how many launches of
    each kernel and shape were traced at most. host_touches, exact: whether the host's accesses were recorded, and each
    byte. directives: how many ran.
    """

    folder: str
    threads: int | None
    exit: int | None
    signal: int | None
    stopped: bool
    seconds: float
    samples: int
    host_touches: bool
    exact: bool = False
    message: str = ""
    """The last message of the program or the runtime before it died."""
    pid: int | None = None
    """The process number of the command that was started."""
    repeat: int = 0
    """The number of the repeat among those of this run; 0 is the first."""
    ended_ns: int = 0
    """When it ended, by the clock of the raw files."""
    directives: int = field(kw_only=True)

    def ending(self) -> str:
        """Return how the program ended, in words for a message."""
        if self.stopped:
            return "was stopped, as you asked"
        if self.signal is not None:
            return f"was ended by signal {self.signal} ({signal.Signals(self.signal).name})"
        return f"ended with exit code {self.exit}"


def parse_stop_after(text: str) -> tuple[int | None, float | None]:
    """Return (directives, seconds), one of them None, of `--stop-after 1000` or `30s`. RecordingRefused for others."""
    number, seconds = (text[:-1], True) if text.endswith("s") else (text, False)
    try:
        value = float(number) if seconds else int(number)
    except ValueError:
        value = 0
    if not 0 < value < math.inf:
        raise RecordingRefused(f"--stop-after {text}: give a number of directives (1000) or of seconds (30s)")
    return (None, value) if seconds else (int(value), None)


def record(
    command: Sequence[str],
    raw: Path,
    threads: Sequence[int | None],
    options: RecordOptions,
    progress: Callable[[int, float], None] = lambda directives, seconds: None,
) -> list[RecordedRun]:
    """Run the program for each number of threads, as often as the options say, and return what was recorded.

    The folder `raw` is made anew. `progress` is called with directives and seconds so far, about twice a second. Raises
    RecordingRefused if the program cannot be run, if it calls no offloading runtime, or if something else has the name
    of `raw`, and ToolchainMissing if there is no compiler to build the recorder.
    """
    program = shutil.which(command[0])
    if program is None:
        raise RecordingRefused(f"{command[0]}: no such program, or it may not be executed")
    library = recorder_library(find_compiler("cc"))
    preloaded = [*filter(None, [library, mpi_library([program, *command[1:]])])]
    if raw.is_file() or (raw.is_dir() and any(raw.iterdir()) and not any(raw.glob("run-*"))):
        raise RecordingRefused(f"{raw}: is no folder of raw files, which would be made there; move it")
    shutil.rmtree(raw, ignore_errors=True)
    runs: list[RecordedRun] = []
    for number, (count, repeat) in enumerate(itertools.product(threads, range(options.repeats))):
        folder = raw / f"run-{number}"
        folder.mkdir(parents=True)
        run = _run([program, *command[1:]], preloaded, folder, count, options, progress)
        if run.signal == signal.SIGINT and repeat:
            break  # the repeats before it are whole
        if not any(folder.glob("*.jsonl")):
            raise RecordingRefused(
                f"{command[0]} {run.ending()} and called no OpenMP offloading runtime: is it linked with libomptarget "
                "dynamically? Build it with `offloadrt cc -fopenmp` (or cxx, fc)"
            )
        runs.append(attrs.evolve(run, repeat=repeat))
        record = {"version": RAW_VERSION, "command": list(command), "runs": [attrs.asdict(run) for run in runs]}
        (raw / "record.json").write_text(json.dumps(record, indent=1), encoding="utf-8")
        if run.signal == signal.SIGINT:
            break  # the user wants no further run
    return runs


_ASKED_FOR_RECORDER: Final = ("NVTX_INJECTION64_PATH", "KOKKOS_TOOLS_LIBS")
"""Environment variables by which NVTX's headers and Kokkos find the library that gets a program's named ranges."""


def _environment(
    libraries: Sequence[Path], folder: Path, threads: int | None, options: RecordOptions
) -> dict[str, str]:
    preloaded = [*map(str, libraries), *filter(None, [os.environ.get("LD_PRELOAD")])]
    environment = {
        **os.environ,
        "LD_PRELOAD": ":".join(preloaded),
        "OFFLOADRT_RECORDING": str(folder.resolve()),
        "OFFLOADRT_SAMPLES": str(_ALL_LAUNCHES if options.check else options.samples),
        "OFFLOADRT_HOST_TOUCHES": "2" if options.check else "1" if options.host_touches else "0",
        # With a second team, races between teams show even if there are few iterations.
        "OFFLOADRT_LEAST_TEAMS": "2" if options.check else "1",
    }
    for variable in _ASKED_FOR_RECORDER:
        environment.setdefault(variable, str(libraries[0]))
    if options.stop_directives is not None:
        environment["OFFLOADRT_STOP_AFTER"] = str(options.stop_directives)
    if threads is not None:
        environment["OMP_NUM_THREADS"] = str(threads)
    return environment


def _run(
    command: Sequence[str],
    libraries: Sequence[Path],
    folder: Path,
    threads: int | None,
    options: RecordOptions,
    progress: Callable[[int, float], None],
) -> RecordedRun:
    began = time.monotonic()
    counter = DirectiveCounter(folder)
    process = subprocess.Popen(command, env=_environment(libraries, folder, threads, options), stderr=subprocess.PIPE)
    words = _LastWords(process)
    stopped, interrupts = False, 0
    while True:
        try:
            process.wait(_PROGRESS_INTERVAL_S)
            break
        except subprocess.TimeoutExpired:
            seconds = time.monotonic() - began
            progress(counter.count(), seconds)
            if options.stop_seconds is not None and seconds >= options.stop_seconds and not stopped:
                stopped = True
                process.terminate()
            elif options.stop_seconds is not None and seconds >= options.stop_seconds + _PATIENCE_S:
                process.kill()
        except KeyboardInterrupt:
            interrupts += 1  # the terminal sent SIGINT to the program too, which decides how to react to the first one
            if interrupts > 1:
                stopped = True
                process.kill()
    # A process that has reached the number of directives to stop after says so itself.
    stopped = stopped or any('"how":"stopped"' in path.read_text(encoding="ascii") for path in folder.glob("*.jsonl"))
    code = process.returncode
    words.end()
    _name_places(folder, libraries, stopped or -code == signal.SIGINT)
    return RecordedRun(
        folder=folder.name,
        threads=threads,
        exit=code if code >= 0 else None,
        signal=-code if code < 0 else None,
        stopped=stopped,
        seconds=round(time.monotonic() - began, 3),
        samples=options.samples,
        host_touches=options.host_touches,
        exact=options.check,
        message=words.message(code) if code and not stopped else "",
        pid=process.pid,
        ended_ns=time.monotonic_ns(),
        directives=counter.count(),
    )


_STDERR: Final = 2


class _LastWords:
    """Passes on what a program writes to its standard error, and keeps the last part of it."""

    _KEPT: Final = 1 << 14
    _FATAL: Final = re.compile(r"omptarget|fatal|error|terminat|assert|abort", re.IGNORECASE)
    _MPI: Final = re.compile(r"Abort\(\d+\) on node.*?(?=, error stack:|$)|MPI_ERR_\w+: .*")
    """What MPICH and Open MPI write of the call that ends a program; mpiexec adds words of its own behind it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._tail = b""
        self._thread = threading.Thread(target=self._pass_on, args=(process,), daemon=True)
        self._thread.start()

    def _pass_on(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        with process.stderr as stream:
            while written := os.read(stream.fileno(), 1 << 16):
                os.write(_STDERR, written)
                self._tail = (self._tail + written)[-self._KEPT :]

    def end(self) -> None:
        """Wait up to a second for the rest of the output; a process left behind may keep the pipe open for ever."""
        self._thread.join(1.0)

    def message(self, code: int) -> str:
        """Return why the program died, in one line; empty if no message says so."""
        lines = [line.strip() for line in self._tail.decode("utf-8", "replace").splitlines() if line.strip()]
        lines = [line for line in lines if not line.startswith("OMP: Hint")]  # what libomp advises, not why
        runtime = [line for line in lines if line.startswith("omptarget message:")]
        mpi = [found.group() for line in lines if (found := self._MPI.search(line))][:1]
        last = mpi or [line for line in lines[-1:] if code == -signal.SIGABRT or self._FATAL.search(line)]
        return "; ".join([line.removeprefix("omptarget message: ") for line in dict.fromkeys([*runtime[-1:], *last])])


def _name_places(folder: Path, libraries: Sequence[Path], stopped: bool) -> None:
    """Write the file PLACES: where processes called MPI and died, and waited if they were `stopped`.

    Without line numbers in the program the file has nothing.
    """
    begins = ('{"k":"place"', '{"k":"waits"')[: 1 + stopped]
    lines = [
        json.loads(text)
        for path in folder.glob("*.jsonl")
        for text in path.read_text(encoding="ascii", errors="replace").splitlines()
        if text.startswith(begins) and text.endswith("}")
    ]
    asked = sorted({(str(line["module"]), int(line["offset"])) for line in lines})
    symbolizer = shutil.which(f"llvm-symbolizer-{OLDEST}") or shutil.which("llvm-symbolizer")
    if symbolizer is None:
        return
    places = _places_of_deaths(folder, libraries, symbolizer)
    if asked:
        places |= _places_of_calls(asked, symbolizer)
    (folder / PLACES).write_text(json.dumps(places), encoding="utf-8")


def _places_of_calls(asked: Sequence[tuple[str, int]], symbolizer: str) -> dict[str, str]:
    # A return address is that of the instruction behind the call.
    text = "\n".join(f'"{module}" {offset - 1:#x}' for module, offset in asked)
    command = [symbolizer, "--output-style=JSON", "--relativenames"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    places: dict[str, str] = {}
    for (module, offset), answer in zip(asked, done.stdout.splitlines(), strict=False):
        symbols = json.loads(answer).get("Symbol") or [{}]
        own = next((one for one in symbols if not str(one.get("FileName", "")).startswith("/usr/")), symbols[0])
        if own.get("Line"):
            function = str(own["FunctionName"]).partition(".")[0]  # without a suffix that the compiler added
            words = [own["FileName"].removeprefix("./"), function, str(own["Line"]), str(own["Column"])]
            places[f"{offset} {module}"] = ";".join(words)
    return places


def _places_of_deaths(folder: Path, libraries: Sequence[Path], symbolizer: str) -> dict[str, str]:
    """Return, for each process that a signal ended, the innermost line of the program's own code on its stack.

    libraries: those of the recorder, which are not the program's code.
    """
    found: dict[str, str] = {}
    recorder = {str(library) for library in libraries}
    for path in sorted(folder.glob("*.jsonl")):
        for text in path.read_text(encoding="ascii", errors="replace").splitlines():
            if not text.startswith('{"k":"died"') or not text.endswith("}"):
                continue
            frames = [frame for frame in json.loads(text)["frames"] if isinstance(frame, list)]
            # The address of an outer frame is that of the instruction behind its call.
            asked = [
                f'"{module}" {offset - 1:#x}'
                for module, offset in frames
                if not module.startswith(("/usr/", "/lib")) and module not in recorder
            ]
            command = [symbolizer, "--no-inlines", "--functions=none"]
            done = subprocess.run(command, input="\n".join(asked), capture_output=True, text=True, check=False)
            places = [line.rsplit(":", 1)[0] for line in done.stdout.splitlines() if line and not line.startswith("??")]
            own = [place for place in places if not place.startswith("/usr/") and not place.endswith(":0")]
            found[died_key(path)] = Path(own[0]).name if own else ""
    return found


_TAKEN_BACK: Final = (Slot.MPI, Slot.MPI_END, Slot.MPI_PART)
"""Slots that the recorder may take back: of polls that find nothing, it keeps one."""


class DirectiveCounter:
    """Counts the directives in the raw files of a run while the program still writes.

    It reads each slot once, except for those at the end of a file that the recorder may take back.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        self._directives = 0

    def count(self) -> int:
        """Return how many runtime calls have been written so far, without calls inside other calls."""
        for path in sorted(self._folder.glob("*.slots")):
            self._read[path] = self._read_from(path, self._read.get(path, 0))
        return self._directives

    def _read_from(self, path: Path, begin: int) -> int:
        with path.open("rb") as file:  # np.fromfile makes up what a file loses that is cut while it is read
            file.seek(begin)
            data = file.read()
        slots = np.frombuffer(data, "<u8", len(data) // SLOT_BYTES * SLOT_WORDS).reshape(-1, SLOT_WORDS)
        kinds = slots[:, 0] & 0xFF
        unused = np.flatnonzero(kinds == 0)
        written = int(unused[0]) if unused.size else len(slots)
        head, outer = slots[:written, 0], slots[:written, 3]
        is_stop = (head >> 16 & 0xFFFF) == STOP
        self._directives += int(np.count_nonzero((kinds[:written] == Slot.CALL) & (outer == 0) & ~is_stop))
        kept = np.flatnonzero(~np.isin(kinds[:written], _TAKEN_BACK))
        return begin + (int(kept[-1]) + 1 if kept.size else 0) * SLOT_BYTES
