"""Random programs: a tree is written as source, and run by a small interpreter that knows nothing of the pass."""

from __future__ import annotations

import ast
from typing import Any

import attrs
from host_functions import external
from hypothesis import given
from hypothesis import strategies as st

from offloadrt.extensions.stdpar.elision import (
    Elided,
    ElisionPass,
    Kept,
    Marker,
    Operation,
    Reason,
    TranslationUnit,
    par_unseq,
    stops,
    windows,
)
from offloadrt.kernels.source import Source

LEAVES = {
    "await t.fill(par_unseq, a, 0.0)": Marker.ALGORITHM,
    "x = await t.reduce(par_unseq, a)": Marker.RETURNING,
    "a[0] = 1.0": Marker.HOST_ACCESS,
    "local[0] = 1.0": Marker.STACK_ACCESS,
    "external()": Marker.CALL,
    "await t.delete(a)": Marker.ALLOCATION,
    "x = 1": None,
    "return": Marker.RETURN,
}
leaves = st.sampled_from(sorted(LEAVES))
trees = st.recursive(
    leaves.map(lambda leaf: (leaf,)),
    lambda inner: st.tuples(st.sampled_from(["if", "for", "inline"]), st.lists(inner, min_size=1, max_size=4)),
    max_leaves=14,
)


@attrs.define
class Program:
    """`body` as source, and as what it does when the branches go as `choices` say."""

    body: list[Any]
    choices: list[int]
    lines: list[str] = attrs.field(factory=lambda: ["async def body(t, a, n):", "    local = [0.0]"])
    places: dict[int, int] = attrs.field(factory=dict)
    recorded: list[Operation] = attrs.field(factory=list)

    def write(self, trees: list[Any], depth: int) -> None:
        for tree in trees:
            self.places[id(tree)] = len(self.lines) + 1
            pad = "    " * depth
            if len(tree) == 1:
                self.lines.append(pad + tree[0])
            elif tree[0] == "inline":
                # Only an algorithm makes the compiler inline a local function.
                self.lines += [f"{pad}async def helper(t, a, local):"]
                self.write([("await t.fill(par_unseq, a, 0.0)",), *tree[1]], depth + 1)
                self.lines.append(f"{pad}await helper(t, a, local)")
            else:
                self.lines.append(pad + ("if n:" if tree[0] == "if" else "for i in range(n):"))
                self.write(tree[1], depth + 1)

    def run(self, trees: list[Any]) -> bool:
        """False when the function returns."""
        for tree in trees:
            if len(tree) == 1:
                if tree[0] == "return":
                    return False
                self.met(LEAVES[tree[0]], self.places[id(tree)])
            elif tree[0] == "inline":
                self.met(Marker.ALGORITHM, self.places[id(tree)] + 1)
                self.run(tree[1])
            else:
                for _ in range(self.choices.pop() if self.choices else 0):
                    if not self.run(tree[1]):
                        return False
                    if tree[0] == "if":
                        break
        return True

    def met(self, marker: Marker | None, line: int) -> None:
        if marker is not None:
            self.recorded.append(Operation(marker, line=line))


def copied(tree: Any) -> Any:
    """Every node an object of its own."""
    return (str(tree[0]),) if len(tree) == 1 else [tree[0], [copied(one) for one in tree[1]]]


@given(st.lists(trees, min_size=1, max_size=5), st.lists(st.integers(0, 3), max_size=30), st.booleans())
def test_a_run_waits_where_the_pass_put_barriers_and_where_the_window_says(
    body: list[Any], choices: list[int], system_usm: bool
) -> None:
    program = Program([copied(one) for one in body], list(choices))
    program.write(program.body, 1)
    (tree,) = ast.parse("\n".join(program.lines)).body
    assert isinstance(tree, ast.AsyncFunctionDef)
    names = {"par_unseq": par_unseq, "external": external, "range": range}
    found = ElisionPass.of_source(Source("body", "", tree, names), TranslationUnit(()), True, system_usm)
    program.run(program.body)

    dynamic = windows(program.recorded, system_usm=system_usm)
    barriers = {one.line for one in found.barriers}
    outstanding = waited = 0
    for operation in program.recorded:
        if stops(operation.marker, system_usm) is not None and operation.line in barriers:
            waited, outstanding = waited + (outstanding > 0), 0
        if operation.marker is Marker.RETURNING:
            waited, outstanding = waited + 1, 0
        elif operation.marker is Marker.ALGORITHM:
            outstanding += 1
    assert waited + (outstanding > 0) == sum(isinstance(decision, Kept) for decision in dynamic)

    stopping = {(call.algorithm.line, one.line) for call in found.calls for one in call.stops}
    following = {(call.algorithm.line, by.line) for call in found.calls for by in call.followed_by}
    for decision in dynamic:
        if isinstance(decision, Elided):
            assert (decision.algorithm.line, decision.by.line) in following
        elif decision.reason is not Reason.EXIT:
            assert (decision.algorithm.line, decision.line) in stopping
