"""The pass on sources: what it says of functions that are written out in `host_functions`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from host_functions import (
    Domain,
    allocations,
    arguments,
    branch,
    calls_wrapper,
    direct_caller,
    early_exits,
    endless,
    example,
    external,
    external_call,
    global_state,
    inlines,
    leaves_contexts,
    load_and_store,
    local_functions,
    methods,
    not_on_the_stack,
    on_the_host,
    other_names,
    recursive,
    returns_value,
    sequence,
    spins,
    stack,
    wrapper,
)

from offloadrt.extensions.stdpar.elision import Elided, ElisionPass, Endless, Kept, Marker, Reason, TranslationUnit


def outcome(function: Callable[..., Any], **options: Any) -> list[Reason | None]:
    """Why the barrier of each call stays; None for one that is elided."""
    decisions = ElisionPass.of(function, **options).decisions
    return [one.reason if isinstance(one, Kept) else None for one in decisions]


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
    assert "called by another name: t.for_each (host_functions.py:" in str(found)
    assert ElisionPass.of(sequence).unresolved == ElisionPass.of(arguments).unresolved == ()


def test_globals_are_memory() -> None:
    assert outcome(global_state) == [Reason.ACCESS] * 2


def test_without_elision_every_barrier_stays() -> None:
    assert outcome(returns_value, elision=False) == [Reason.OFF, Reason.VALUE]


def test_the_table_tells_file_line_and_reason() -> None:
    text = str(ElisionPass.of(branch))
    assert text.startswith("branch: 0 of 2 barriers elided")
    assert "host_functions.py:" in text and "a function is called that is not inlined: external" in text
