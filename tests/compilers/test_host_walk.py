"""The graph of a host function, where OTM's regions and frequencies show it."""

from __future__ import annotations

import ast

import pytest
from written import function

from offloadrt.extensions.host_functions.flow import HostLoop, InlinedCall, Scope, frequencies, nodes_of
from offloadrt.extensions.host_functions.host_walk import HostWalk
from offloadrt.kernels.source import Source


class Names(HostWalk[str, Scope]):
    """Meets calls of names other than `range`; `inner(lambda: ...)` is inlined."""

    def call(self, node: ast.Call) -> None:
        self.arguments(node)
        if ast.unparse(node.func) == "inner" and isinstance(node.args[0], ast.Lambda):
            (tree,) = ast.parse(f"def inner():\n    return {ast.unparse(node.args[0].body)}").body
            assert isinstance(tree, ast.FunctionDef)
            self.inline(Scope(Source("inner", "", tree, {})), node)
        elif ast.unparse(node.func) != "range":
            self.emit(ast.unparse(node.func), node)

    def contexts_end(self, node: ast.With | ast.AsyncWith) -> None:
        self.emit("end", node)


def walk(*lines: str) -> Names:
    text = "def f(n):\n" + "".join(f"    {line}\n" for line in lines)
    return Names(Scope(Source.of(function(text), "host function")))


def met(*lines: str) -> dict[str, float]:
    """How often each name is called."""
    graph = walk(*lines)
    often = frequencies(graph.pieces, graph.entry)
    total: dict[str, float] = {}
    for node in nodes_of(graph.pieces):
        if node.operation is not None:
            total[node.operation] = total.get(node.operation, 0.0) + often.get(node, 0.0)
    return total


def test_pieces_stand_in_the_order_of_the_source() -> None:
    graph = walk("a()", "for i in n:", "    b()", "inner(lambda: c())", "d()")
    assert [node.operation for node in nodes_of(graph.pieces) if node.operation] == ["a", "b", "c", "d"]
    kinds = [type(piece) for piece in graph.pieces if isinstance(piece, HostLoop | InlinedCall)]
    assert kinds == [HostLoop, InlinedCall]


def test_what_a_jump_passes_is_done_on_every_way_out() -> None:
    assert met("for i in range(4):", "    with n:", "        if n: break", "        a()", "    b()") == {
        "a": 0.9375,
        "b": 0.9375,
        "end": 1.875,
    }
    assert met("try:", "    if n: return", "finally:", "    a()", "b()") == {"a": 1.0, "b": 0.5}


def test_a_break_in_a_finally_leaves_the_loop_around_its_try() -> None:
    lines = ["for i in range(2):", "    try:", "        for j in range(2):", "            return", "    finally:"]
    assert met(*lines, "        a()", "        break", "b()") == {"a": 1.0, "b": 1.0}


def test_an_exception_passes_what_lies_inside_of_its_handlers() -> None:
    lines = ["try:", "    with n:", "        raise KeyError", "except KeyError:", "    a()", "b()"]
    assert met(*lines) == {"end": 1.0, "a": 1.0, "b": 1.0}


def test_an_inlined_function_returns_to_its_caller() -> None:
    assert met("for i in range(3):", "    inner(lambda: a() if n else b())", "c()") == {"a": 1.5, "b": 1.5, "c": 1.0}


@pytest.mark.parametrize("jump", ["return", "raise KeyError", "while True: pass"])
def test_nothing_comes_behind_what_does_not_go_on(jump: str) -> None:
    assert met("a()", jump, "b()") == {"a": 1.0, "b": 0.0}
