"""`offloadrt cc`, `cxx` and `fc`: the user's compiler, with the host as the device and code that counts.

`rewrite` turns a command line for any offloading compiler (clang, icx, nvc, amdclang) into one for LLVM with the host
as device. What has nothing to do with offloading is passed on, so that the commands can be CC of a makefile.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from offloadrt.recording.toolchain import (
    Compiler,
    Language,
    compiler_plugin,
    device_runtime,
    find_compiler,
    headers_package,
)

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
