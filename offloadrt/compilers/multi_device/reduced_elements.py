"""Elements that the distributed loop reduces, such as ``total[0] += e``, become scalars that are stored after it."""

from __future__ import annotations

import ast
import copy

import attrs

from offloadrt.compilers.multi_device.filtering import Names
from offloadrt.kernels.accesses import Branch, Reduction
from offloadrt.kernels.execution import NestBody
from offloadrt.kernels.kernel import Kernel
from offloadrt.kernels.loop_kernel import of_source
from offloadrt.kernels.loop_subset import LoopNest
from offloadrt.kernels.source import text


def with_scalars(kernel: Kernel) -> tuple[Kernel, dict[str, str]]:
    """Give the kernel a scalar for each element that every iteration reduces; also return by scalar the array.

    The loop must use the array for no more. Lines of the source stay.
    """
    assert kernel.analysis is not None and isinstance(kernel.body, NestBody)
    nest = kernel.body.nest
    by_target: dict[str, list[Reduction]] = {}
    for reduction in kernel.analysis.reductions:
        if "[" in reduction.target:
            by_target.setdefault(reduction.target, []).append(reduction)
    names = Names(nest.source)
    scalars = {
        target: names.fresh(f"{target.partition('[')[0]}_value")
        for target, reductions in by_target.items()
        if _is_only_use_of_array(nest, target, reductions)
    }
    if not scalars:
        return kernel, {}
    tree = copy.deepcopy(nest.source.tree)
    place = tree.body.index(next(node for node in tree.body if isinstance(node, ast.For)))
    loop = _Replaced(scalars).visit(tree.body[place])
    first, last = (ast.copy_location(ast.Pass(), node) for node in (tree.body[place], loop))
    before = [_assignment(scalar, target, first) for target, scalar in scalars.items()]
    after = [_assignment(target, scalar, last) for target, scalar in scalars.items()]
    tree.body[place : place + 1] = [*before, loop, *after]
    changed = of_source(kernel, attrs.evolve(nest.source, tree=tree), len(nest.distributed))
    return changed, {scalar: target.partition("[")[0] for target, scalar in scalars.items()}


def _is_only_use_of_array(nest: LoopNest, target: str, reductions: list[Reduction]) -> bool:
    """Tell whether this reduction, of an element that the launch decides, is all that the loop does with the array."""
    array = target.partition("[")[0]
    inside = list(ast.walk(nest.distributed[0]))
    elements = [node for node in inside if isinstance(node, ast.Subscript) and text(node.value) == array]
    uses = sum(1 if isinstance(reduction.statement, ast.AugAssign) else 2 for reduction in reductions)
    changing = {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    mentioned = {node.id for node in ast.walk(elements[0].slice) if isinstance(node, ast.Name)}
    return (
        {text(node) for node in elements} == {target}
        and len(elements) == uses
        and len({reduction.operator for reduction in reductions}) == 1
        and not any(isinstance(part, Branch) for reduction in reductions for part in reduction.path)
        and not mentioned & {*changing, *nest.arrays}
    )


def _assignment(target: str, value: str, at: ast.stmt) -> ast.stmt:
    (statement,) = ast.parse(f"{target} = {value}").body
    for node in ast.walk(statement):
        ast.copy_location(node, at)
    return statement


class _Replaced(ast.NodeTransformer):
    def __init__(self, scalars: dict[str, str]) -> None:
        self.scalars = scalars

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if (scalar := self.scalars.get(text(node))) is not None:
            return ast.copy_location(ast.Name(scalar, node.ctx), node)
        return self.generic_visit(node)
