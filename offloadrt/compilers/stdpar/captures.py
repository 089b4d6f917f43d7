"""What a compiler refuses that does not let kernels capture by reference (icpx): objects of the stack as arguments.

The source of the host function tells it, before it runs. What the source does not tell, such as an object that another
function made, is refused when the algorithm is called.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from offloadrt.compilers.stdpar.elision import Marker
from offloadrt.compilers.stdpar.memory_scope import MemoryScope
from offloadrt.compilers.stdpar.standard_algorithms import ALGORITHMS
from offloadrt.compilers.stdpar.translation_unit import TranslationUnit
from offloadrt.kernels import KernelError
from offloadrt.kernels.source import Source, text


class CompilationRefused(Exception):
    """The implementation's compiler does not accept the program, which does not start.

    icpx: a kernel captures an array by reference. The message names the implementation, the algorithm and the array.
    """


def refuse_captures(function: Callable[..., Any], implementation: str) -> None:
    """Refuse a function in which an algorithm would capture an object of the stack.

    Raises CompilationRefused, with file and line, for the first such algorithm.
    Does nothing for a function whose source cannot be read.
    """
    try:
        source = Source.of(function, "host function")
        scope = MemoryScope.of(source, TranslationUnit.of(function))
    except (KernelError, AttributeError):
        return
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call) or (name := scope.thread_method(node)) not in ALGORITHMS:
            continue
        if scope.method_marker(node, name) is Marker.HOST_ALGORITHM:
            continue
        for argument in node.args[1:]:
            if isinstance(argument, ast.Name) and argument.id in scope.stack:
                raise CompilationRefused(
                    f"{source.file}:{node.lineno}: {implementation} does not compile {name}: {text(argument)} is an "
                    "object of the stack, which the kernel would capture by reference"
                )
