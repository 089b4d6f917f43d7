"""The pass on sources: what it says of functions that are written out here, and that it says of random programs what a
run of them says.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st

from offloadrt.kernels.source import Source
from offloadrt.models.stdpar.elision import Elided, Endless, Kept, Marker, Operation, Reason, stops, waits, windows
from offloadrt.models.stdpar.elision_source import ElisionPass
from offloadrt.models.stdpar.standard_algorithms import par_unseq, seq
from offloadrt.models.stdpar.translation_unit import TranslationUnit

SIZE = 100
COUNTS = [0]


def outcome(function: Callable[..., Any], **options: Any) -> list[Reason | None]:
    """Why the barrier of each call stays; None for one that is elided."""
    decisions = ElisionPass.of(function, **options).decisions
    return [one.reason if isinstance(one, Kept) else None for one in decisions]


def external() -> None:
    """Does not call algorithms, so it is not inlined."""


async def direct_caller(t: Any, a: Any) -> Any:
    await t.fill(par_unseq, a, 0.0)
    return a


async def wrapper(t: Any, a: Any) -> None:
    await direct_caller(t, a)


async def sequence(t: Any, a: Any, b: Any) -> None:
    await t.fill(par_unseq, a, 0.0)
    await t.transform(par_unseq, a, b)


async def example(t: Any, a: Any, n: int) -> None:
    for _ in range(n):
        await t.for_each(par_unseq, a)
        await t.for_each(par_unseq, a)


async def external_call(t: Any, a: Any) -> None:
    await t.fill(par_unseq, a, 0.0)
    external()
    await t.fill(par_unseq, a, 0.0)


async def allocations(t: Any, a: Any) -> None:
    await t.fill(par_unseq, a, 0.0)
    b = await t.new_array("b", SIZE)
    await t.copy(par_unseq, a, b)
    await t.delete(b)


async def load_and_store(t: Any, a: Any) -> None:
    await t.fill(par_unseq, a, 0.0)
    x = a[3]
    await t.fill(par_unseq, a, x)
    a[4] = x
    await t.fill(par_unseq, a, x)
    a.size += 1


async def stack(t: Any, a: Any) -> None:
    local = [0.0, 1.0]
    other = await t.stack_array("s", 2)
    await t.fill(par_unseq, a, 0.0)
    local[0] = other[1]
    await t.fill(par_unseq, a, 1.0)


async def arguments(t: Any, domain: Any) -> None:
    await t.fill(par_unseq, domain.x, domain.value[3])
    await t.transform(par_unseq, domain.y[2:], math.sqrt(SIZE), max(SIZE, 3))


async def returns_value(t: Any, a: Any) -> float:
    await t.fill(par_unseq, a, 0.0)
    return float(await t.reduce(par_unseq, a) * 2.0)


async def inlines(t: Any, a: Any) -> None:
    await direct_caller(t, a)
    await direct_caller(t, a)


async def calls_wrapper(t: Any, a: Any) -> None:
    await t.fill(par_unseq, a, 0.0)
    await wrapper(t, a)


async def local_functions(t: Any, a: Any) -> None:
    async def zero() -> None:
        await t.fill(par_unseq, a, 0.0)

    await zero()
    await zero()


async def branch(t: Any, a: Any, n: int) -> None:
    await t.fill(par_unseq, a, 0.0)
    if n > 10:
        external()
    await t.fill(par_unseq, a, 1.0)


async def on_the_host(t: Any, a: Any) -> None:
    await t.fill(par_unseq, a, 0.0)
    await t.fill(seq, a, 0.0)


async def early_exits(t: Any, a: Any, n: int) -> None:
    while True:
        await t.fill(par_unseq, a, 0.0)
        try:
            if n > 3:
                break
            await t.copy(par_unseq, a, a)
            if n > 2:
                return
        finally:
            external()
    await t.fill(par_unseq, a, 0.0)


async def endless(t: Any, a: Any) -> None:
    while True:
        await t.fill(par_unseq, a, 0.0)
    external()


async def spins(t: Any, a: Any, n: int) -> None:
    await t.fill(par_unseq, a, 0.0)
    if n:
        await t.fill(par_unseq, a, 1.0)
    while True:
        pass


async def other_names(t: Any, a: Any) -> None:
    f = t.for_each
    await f(par_unseq, a)

    async def copy() -> None:
        await t.copy(par_unseq, a, a)

    for later in (lambda: t.fill(par_unseq, a, 0.0), copy):
        await later()


async def global_state(t: Any, a: Any) -> None:
    global SIZE
    await t.fill(par_unseq, a, 0.0)
    SIZE = 3
    await t.fill(par_unseq, a, 0.0)
    for _ in COUNTS:
        pass


async def methods(t: Any, a: Any) -> None:
    local = t.stack_array("s", 2)
    async with t.function():
        await t.fill(par_unseq, a, 0.0)
        await t.compute(1e-3)
        await t.fill(par_unseq, a, 1.0)
    await t.fill(par_unseq, a, 2.0)
    await t.read(local)
    await t.read(a)
    await t.fill(par_unseq, a, 3.0)
    await t.external("solver")
    with open("/dev/null"):
        await t.fill(par_unseq, a, 4.0)


async def not_on_the_stack(t: Any, a: Any, pointers: Any) -> None:
    rows = [a, a]
    either = [0.0]
    if pointers:
        either = pointers
    await t.fill(par_unseq, a, 0.0)
    rows[1] = either
    await t.fill(par_unseq, a, 0.0)
    rows[1][0] = 1.0
    await t.fill(par_unseq, a, 0.0)
    either[0] = 1.0


async def leaves_contexts(t: Any, a: Any) -> None:
    for _ in range(3):
        async with t.function():
            await t.fill(par_unseq, a, 0.0)
            break
    await t.fill(par_unseq, a, 0.0)


async def recursive(t: Any, a: Any, n: int) -> None:
    await t.fill(par_unseq, a, 0.0)
    await recursive(t, a, n - 1)


class Domain:
    async def zero(self, t: Any) -> None:
        await t.fill(par_unseq, self, 0.0)

    async def step(self, t: Any) -> None:
        await self.zero(t)
        await t.fill(par_unseq, self, 1.0)


def test_a_sequence_has_one_barrier_at_its_end() -> None:
    assert outcome(sequence) == [None, Reason.EXIT]


def test_the_example_loop_waits_at_the_end_of_the_function_only() -> None:
    found = ElisionPass.of(example)
    assert found.elided == 1 and [one.marker for one in found.barriers] == [Marker.RETURN]
    last = found.calls[1]
    assert [one.line for one in last.followed_by] == [found.calls[0].algorithm.line]


def test_what_stops_a_barrier_is_told_with_its_line() -> None:
    first, second = ElisionPass.of(external_call).decisions
    assert isinstance(first, Kept) and first.at.name == "external" and first.line == first.algorithm.line + 1
    assert isinstance(second, Kept) and second.reason is Reason.EXIT


def test_allocations_are_calls() -> None:
    assert outcome(allocations) == [Reason.ALLOCATION, Reason.ALLOCATION]


def test_loads_and_stores_stop_a_barrier() -> None:
    assert outcome(load_and_store) == [Reason.ACCESS] * 3


def test_the_stack_does_so_under_system_usm_only() -> None:
    assert outcome(stack) == [None, Reason.EXIT]
    assert outcome(stack, system_usm=True) == [Reason.STACK, Reason.EXIT]


def test_arguments_of_an_algorithm_may_be_loaded() -> None:
    assert outcome(arguments) == [None, Reason.EXIT]


def test_an_algorithm_that_returns_a_value_waits_itself() -> None:
    assert outcome(returns_value) == [None, Reason.VALUE]


def test_direct_callers_are_inlined_one_level_deep() -> None:
    assert outcome(inlines) == [None, Reason.EXIT]
    assert outcome(calls_wrapper) == [Reason.CALL]
    assert outcome(wrapper) == [Reason.EXIT]
    assert outcome(local_functions) == [None, Reason.EXIT]
    assert outcome(Domain.step) == [None, Reason.EXIT]


def test_functions_of_other_translation_units_are_not() -> None:
    alone = TranslationUnit((inlines,))
    assert ElisionPass.of(inlines, alone).calls == ()
    assert outcome(calls_wrapper, unit=TranslationUnit((calls_wrapper,), inline=(wrapper, direct_caller))) == [
        None,
        Reason.EXIT,
    ]


def test_what_the_compiler_is_told_to_inline_is_looked_into() -> None:
    assert outcome(external_call, inline=(external,)) == [None, Reason.EXIT]


def test_a_branch_needs_its_own_barrier_on_the_path_that_stops() -> None:
    first = ElisionPass.of(branch).calls[0]
    assert [one.at.name for one in first.stops] == ["external"] and len(first.followed_by) == 1


def test_an_algorithm_with_the_policy_seq_runs_on_the_host() -> None:
    assert outcome(on_the_host) == [Reason.HOST]


def test_methods_of_the_thread() -> None:
    assert outcome(methods) == [None, Reason.EXIT, Reason.ACCESS, Reason.CALL, Reason.CALL]
    assert outcome(methods, system_usm=True)[1:] == [Reason.EXIT, Reason.STACK, Reason.CALL, Reason.CALL]


def test_barriers_that_a_run_does_not_see_are_named() -> None:
    assert [one.name for one in ElisionPass.of(external_call).unseen] == ["external"]
    assert ElisionPass.of(allocations).unseen == ElisionPass.of(sequence).unseen == ()
    assert "a run does not see: a[3] (" in str(ElisionPass.of(load_and_store))


def test_what_an_object_of_the_stack_points_to_is_not_on_the_stack() -> None:
    assert outcome(not_on_the_stack) == [None, Reason.ACCESS, Reason.ACCESS]


def test_the_end_of_a_with_is_on_every_way_out() -> None:
    first = ElisionPass.of(leaves_contexts).calls[0]
    assert [(one.reason, one.at.name) for one in first.stops] == [(Reason.EXIT, "t.function()")]
    assert not first.followed_by


def test_a_function_that_calls_itself_is_a_call_within() -> None:
    assert outcome(recursive) == [Reason.CALL]


def test_finally_is_on_every_way_out() -> None:
    first, second, last = ElisionPass.of(early_exits).calls
    assert [one.at.name for one in first.stops] == ["external"] and len(first.followed_by) == 1
    assert [one.at.name for one in second.stops] == ["external"] and not second.followed_by
    assert [one.reason for one in last.stops] == [Reason.EXIT]


def test_a_loop_without_an_end_never_comes_to_what_stands_behind() -> None:
    found = ElisionPass.of(endless)
    assert outcome(endless) == [None] and found.barriers == ()


def test_an_algorithm_before_an_empty_endless_loop_has_no_barrier_and_none_takes_its_place() -> None:
    found = ElisionPass.of(spins)
    first, second = found.decisions
    assert isinstance(first, Elided) and isinstance(second, Endless)
    assert found.elided == 1 and found.barriers == ()
    assert "endless loop" in str(found)


def test_algorithms_that_are_called_by_another_name_are_listed_as_unresolved() -> None:
    found = ElisionPass.of(other_names)
    first = other_names.__code__.co_firstlineno
    assert [(one.name, one.line - first) for one in found.unresolved] == [
        ("t.for_each", 1),
        ("t.fill", 7),
        ("t.copy", 5),
    ]
    assert "called by another name: t.for_each (test_elision_source.py:" in str(found)
    assert ElisionPass.of(sequence).unresolved == ElisionPass.of(arguments).unresolved == ()


def test_globals_are_memory() -> None:
    assert outcome(global_state) == [Reason.ACCESS] * 2


def test_without_elision_every_barrier_stays() -> None:
    assert outcome(returns_value, elision=False) == [Reason.OFF, Reason.VALUE]


def test_the_table_tells_file_line_and_reason() -> None:
    text = str(ElisionPass.of(branch))
    assert text.startswith("branch: 0 of 2 barriers elided")
    assert "test_elision_source.py:" in text and "a function is called that is not inlined: external" in text


# Random programs: a tree is written as source, and run by a small interpreter that knows nothing of the pass.

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
    assert waited + (outstanding > 0) == waits(dynamic)

    stopping = {(call.algorithm.line, one.line) for call in found.calls for one in call.stops}
    following = {(call.algorithm.line, by.line) for call in found.calls for by in call.followed_by}
    for decision in dynamic:
        if isinstance(decision, Elided):
            assert (decision.algorithm.line, decision.by.line) in following
        elif decision.reason is not Reason.EXIT:
            assert (decision.algorithm.line, decision.line) in stopping
