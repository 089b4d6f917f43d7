"""The user's compilers, and the native parts of the recorder, which they compile at first use.

`find_compiler` finds clang or flang; `recorder_library`, `device_runtime` and `compiler_plugin` give a compiled part
each. They lie in a cache whose folder is named after the compiler's version and the digest of the sources, so that a
new compiler or a new offloadrt compiles them anew.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from attrs import frozen


class RecordingRefused(Exception):
    """Something that is needed to record is missing, or nothing was recorded; `str(error)` says what to do."""


class ToolchainMissing(RecordingRefused):
    """A compiler, its headers or a library is not there, or too old; the message says what to install."""


Language = Literal["cc", "cxx", "fc"]

OLDEST = 22
"""The oldest LLVM whose device code and plugin interface are known to fit."""

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
    """A compiler of LLVM: which language it compiles, where it is, and its version as it says it."""

    language: Language
    path: Path
    version: str

    @property
    def major(self) -> int:
        """Return the first number of the version."""
        return int(self.version.partition(".")[0])


@cache
def find_compiler(language: Language) -> Compiler:
    """Find the compiler that the environment names (OFFLOADRT_CC, _CXX, _FC), or else the newest LLVM on the path.

    Raises ToolchainMissing where there is none, or only one that is too old.
    """
    chosen = os.environ.get(_CHOICE[language])
    names = [chosen] if chosen else _candidates(_TOOLS[language])
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
    raise ToolchainMissing(f"no {_TOOLS[language]} of LLVM {OLDEST} or later was found on the path: {advice}")


def _candidates(tool: str) -> list[str]:
    return [tool, *(f"{tool}-{major}" for major in range(OLDEST, _NEWEST)), *(["flang-new"] if tool == "flang" else [])]


def _version_of(path: Path) -> str | None:
    """Return the version that a compiler of LLVM prints; None for other programs, and for what is no program."""
    try:
        printed = subprocess.run([str(path), "--version"], capture_output=True, check=False).stdout
    except OSError:
        return None
    match = re.search(r"(?:clang|flang|flang-new) version (\d+\.\d+\.\d+)", printed.decode(errors="replace"))
    return None if match is None else match[1]


def recorder_library(compiler: Compiler) -> Path:
    """Return the library that is loaded before a program to record it. Raises ToolchainMissing."""
    command = [
        "-std=gnu17",
        "-O2",
        "-g",
        "-fPIC",
        "-fvisibility=hidden",  # each malloc and free of the program looks at its thread
        "-ftls-model=initial-exec",
        "-shared",
        "-pthread",
        _layout(),
        *_WARNINGS,
        *_sources("recorder", "c"),
        "-ldl",
    ]
    return _compiled(compiler, "recorder", "recorder.so", command)


def device_runtime(compiler: Compiler) -> Path:
    """Return the object that is linked into device images: it plays the grid. Raises ToolchainMissing."""
    command = ["-std=gnu17", "-O2", "-g", "-fPIC", "-r", "-nostdlib", _layout(), *_WARNINGS, *_sources("device", "c")]
    return _compiled(compiler, "device", "device.o", command)


def compiler_plugin(compiler: Compiler) -> Path | None:
    """Return the plugin that makes code count; None where LLVM's headers are not installed. Raises ToolchainMissing."""
    headers = _llvm_headers(compiler)
    if headers is None:
        return None
    flags = ["-std=c++17", "-O1", "-fPIC", "-fno-rtti", "-shared", "-D__STDC_CONSTANT_MACROS", "-D__STDC_LIMIT_MACROS"]
    command = [*flags, *_WARNINGS, "-isystem", str(headers), *_sources("plugin", "cpp")]
    return _compiled(find_compiler("cxx"), "plugin", "plugin.so", command)


def headers_package(compiler: Compiler) -> str:
    """Return the name of the package that brings the headers that `compiler_plugin` needs."""
    return f"llvm-{compiler.major}-dev"


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
    """Define LAYOUT for native code: a digest of the headers that recorder and device images share."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(_NATIVE.glob("*.h")):
        digest.update(path.read_bytes())
    return f"-DLAYOUT=0x{digest.hexdigest()}ull"


def _sources(folder: str, suffix: str) -> list[str]:
    return [str(path) for path in sorted((_NATIVE / folder).glob(f"*.{suffix}"))]


def cache_folder() -> Path:
    """Return where compiled parts are kept: $OFFLOADRT_CACHE, or offloadrt/ in the user's cache."""
    own = os.environ.get("OFFLOADRT_CACHE")
    return Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "offloadrt"


def _compiled(compiler: Compiler, sources: str, name: str, arguments: list[str]) -> Path:
    """Return the part of that name from the cache, compiled if it is not there."""
    digest = hashlib.blake2b(digest_size=8)
    for part in (str(compiler.path), compiler.version, *arguments):
        digest.update(part.encode() + b"\0")
    for path in sorted([*_NATIVE.glob("*.h"), *(_NATIVE / sources).iterdir()]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    folder = cache_folder() / f"llvm-{compiler.version}-{digest.hexdigest()}"
    target = folder / name
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("w") as lock:  # `make -j` begins with several compilers at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            _compile(compiler, arguments, target)
    return target


def _compile(compiler: Compiler, arguments: list[str], target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / target.name
        command = [str(compiler.path), *arguments, "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not made.exists():
            raise ToolchainMissing(
                f"{compiler.path} (LLVM {compiler.version}) cannot compile {target.name} of the recorder:\n"
                f"{done.stderr.strip()}\nare {_PACKAGES['cc']} installed?"
            )
        made.replace(target)


_OPENMP = ("-fopenmp", "-fiopenmp", "-qopenmp", "-mp", "-qsmp=omp", "-homp")
"""Flags by which compilers switch OpenMP on."""

# Flags that choose a GPU or its libraries, or that LLVM's compilers do not have: single ones, beginnings of others, and
# those that take the next argument with them.
_DROPPED = ("-flto", "-fopenmp-target-fast", "-ipo", "-fast", "-cuda", "-stdpar", "-qoffload", "-nogpulib")
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
    "--cuda-path=",
    "--rocm-path=",
)
_DROPPED_WITH_NEXT = ("-Xopenmp-target", "-Xcuda-ptxas", "-Xarch_device")
_OTHER_PROCESSORS = ("sm_", "gfx", "pwr", "power")
"""Beginnings of the names of processors in `-march=` that are not this one."""
_NOT_LINKING = {"-c", "-S", "-E", "-M", "-MM", "-fsyntax-only"}
"""Flags with which a compiler makes no program or library."""
_INPUTS = (".c", ".cc", ".cpp", ".cxx", ".C", ".f", ".F", ".f90", ".F90", ".f95", ".f03", ".f08", ".o", ".a", ".so")
_HOST = "x86_64-pc-linux-gnu"


def rewrite(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """Return the arguments without what chooses a GPU or another compiler's OpenMP, and whether OpenMP is on."""
    kept: list[str] = []
    openmp = False
    given = iter(arguments)
    for argument in given:
        if argument.startswith(_DROPPED_WITH_NEXT):
            next(given, None)
        elif argument in _OPENMP or argument.startswith(("-fopenmp=", "-mp=")):
            openmp = True
        elif not _chooses_gpu(argument):
            kept.append(argument)
    return kept, openmp


def _chooses_gpu(argument: str) -> bool:
    """Tell whether a flag chooses a GPU, or is of another compiler's OpenMP."""
    if argument in _DROPPED or argument.startswith(_DROPPED_PREFIXES):
        return True
    return argument.startswith(("-march=", "-mtune=")) and argument.partition("=")[2].startswith(_OTHER_PROCESSORS)


def links(arguments: Sequence[str]) -> bool:
    """Tell whether the command makes a program or a library of its input files."""
    return not _NOT_LINKING & set(arguments) and any(_is_input(argument) for argument in arguments)


def _is_input(argument: str) -> bool:
    return not argument.startswith("-") and argument.endswith(_INPUTS)


def compiler_command(language: Language, arguments: Sequence[str]) -> list[str]:
    """Return the command that compiles for recording. Raises ToolchainMissing."""
    compiler = find_compiler(language)
    kept, openmp = rewrite(arguments)
    has_input = any(_is_input(argument) for argument in kept)
    if not has_input:  # as `--version`, or a test of which flags it takes
        return [str(compiler.path), *(["-fopenmp"] if openmp else []), *kept]
    added = ["-g"] if not any(argument.startswith("-g") for argument in kept) else []
    plugin = _plugin_of(compiler)
    if plugin is not None:
        added.append(f"-fpass-plugin={plugin}")
    if openmp:
        added += ["-fopenmp", f"-fopenmp-targets={_HOST}"]
        if links(kept):
            added += ["-Xoffload-linker", str(device_runtime(find_compiler("cc")))]
    return [str(compiler.path), *added, *kept, *(["-ldl"] if links(kept) else [])]


def _plugin_of(compiler: Compiler) -> str | None:
    plugin = compiler_plugin(compiler)
    if plugin is None:
        package = headers_package(compiler)
        print(
            f"offloadrt: LLVM's headers are not installed: kernels have no costs, only directives are recorded "
            f"(install {package})",
            file=sys.stderr,
        )
        return None
    return str(plugin)


def compile_for_recording(language: Language, arguments: Sequence[str]) -> None:
    """Replace this process by the compiler. Raises ToolchainMissing."""
    command = compiler_command(language, arguments)
    os.execv(command[0], command)
