"""From a function that is a loop nest to its kernel: source, subset, analysis and body come together here."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

import attrs

from offloadrt.kernels.costs import KernelAnalysis
from offloadrt.kernels.execution import NestBody
from offloadrt.kernels.kernel import Kernel
from offloadrt.kernels.loop_subset import read, refuse_loops, written_out
from offloadrt.kernels.source import Source, is_loop_nest, text


def as_loop_nest(kernel: Kernel, function: Callable[..., None], collapse: int) -> Kernel:
    """Return the kernel with body, costs and arrays from its function's source; as it is when that has no loop.

    Raises SourceRefused, and KernelError when the source cannot be read.
    """
    source = written_out(Source.of(function, "kernel"))
    if is_loop_nest(source):
        return of_source(kernel, source, collapse)
    refuse_loops(source)
    return kernel


def of_source(kernel: Kernel, source: Source, collapse: int) -> Kernel:
    """Return the kernel with body, costs and arrays from a source. Raises SourceRefused."""
    nest = read(source, collapse)
    analysis = KernelAnalysis.of(nest, kernel.name)
    return attrs.evolve(
        kernel,
        body=NestBody(nest, analysis),
        flops_per_iteration=analysis.flops,
        bytes_per_iteration=analysis.bytes,
        loads_in_flight=analysis.waits.loads_in_flight,
        bytes_per_load=analysis.waits.bytes_per_load(analysis.bytes),
        arrays=analysis.arrays,
        analysis=analysis,
    )


def written(name: str, collapse: int, parameters: Sequence[ast.arg], body: list[ast.stmt]) -> str:
    """Write a kernel as Python."""
    decorator: ast.expr = ast.Name("kernel", ast.Load())
    if collapse > 1:
        decorator = ast.Call(decorator, [], [ast.keyword("collapse", ast.Constant(collapse))])
    arguments = ast.arguments(posonlyargs=[], args=list(parameters), kwonlyargs=[], kw_defaults=[], defaults=[])
    function = ast.FunctionDef(name=name, args=arguments, body=body, decorator_list=[decorator])
    if "type_params" in function._fields:
        function.type_params = []  # type: ignore[attr-defined, unused-ignore]  # since Python 3.12
    lines = text(ast.fix_missing_locations(ast.Module([function], []))).splitlines()
    return "\n".join(short for line in lines for short in _wrapped(line)) + "\n"


_WIDTH = 120


def _wrapped(line: str) -> list[str]:
    """Wrap an assignment into lines that end before an operator outside of square brackets."""
    target, sign, value = line.partition(" = ")
    if len(line) <= _WIDTH or not sign:
        return [line]
    margin = " " * (len(line) - len(line.lstrip()) + 4)
    pieces = [margin]
    inside = start = 0
    for end, character in enumerate([*value, ""]):
        inside += (character == "[") - (character == "]")
        if end == len(value) or (inside == 0 and value[end : end + 2] in (" +", " -", " *", " /")):
            piece = value[start:end]
            if len(pieces[-1]) + len(piece) > _WIDTH and pieces[-1] != margin:
                pieces.append(margin)
                piece = piece.lstrip()
            pieces[-1] += piece
            start = end
    return [f"{target}{sign}(", *pieces, f"{margin[4:]})"]
