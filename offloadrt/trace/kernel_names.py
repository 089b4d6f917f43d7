"""Names of kernels as people read them, from those that compilers make."""

from __future__ import annotations

import functools
import re

_OF_LLVM = re.compile(r"__omp_offloading_[0-9a-f]+_[0-9a-f]+_(?P<function>.*)_l(?P<line>\d+)(_debug__)?$")
_PART = re.compile(r"(?P<length>\d+)")


@functools.lru_cache(maxsize=4096)
def plain_kernel(name: str) -> str:
    """Shorten LLVM's name of a kernel to function and line: `main:16`, `OMPStream::copy:90`; others stay."""
    found = _OF_LLVM.match(name)
    return name if found is None else f"{_function(found['function'])}:{found['line']}"


def _function(mangled: str) -> str:
    """Return the name of a C++ function without its arguments, as far as it consists of plain identifiers."""
    if not mangled.startswith("_Z"):
        return mangled
    at = 3 if mangled.startswith(("_ZN", "_ZL")) else 2
    parts: list[str] = []
    while at < len(mangled):
        if mangled[at] == "I" and parts:  # arguments of a template
            at = mangled.find("E", at) + 1 or len(mangled)
        elif found := _PART.match(mangled, at):
            end = found.end() + int(found["length"])
            parts.append(mangled[found.end() : end])
            at = end
            if not mangled.startswith("_ZN"):
                break
        elif mangled[at] in "KL":
            at += 1
        else:
            break
    return "::".join(parts) or mangled
