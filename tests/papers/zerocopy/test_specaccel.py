"""The structure of the SPECaccel codes, as the paper states it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from offloadrt.papers.zerocopy.specaccel import CODES, Ends, Solver, code

RunProgram = Callable[..., Any]
SHORT = Ends(sizes="low", lengths="low", fraction=0.02)


def recorded(run_program: RunProgram, name: str, configuration: str = "copy", ends: Ends = SHORT) -> Any:
    """A short run of a code."""
    return run_program(lambda run: run.parallel(code(name, ends).run), configuration, record=True)


def program_copies(ran: Any) -> list[int]:
    """Bytes of the program's own copies, of a megabyte and more (the runtime's are small)."""
    return [event.bytes for event in ran.events("CopyBegin") if event.bytes >= 1 << 20]


def allocations(ran: Any) -> list[int]:
    """Bytes of the program's own device blocks."""
    return [event.size for event in ran.events("Allocate") if event.size >= 1 << 20]


def test_stencil_copies_one_grid_in_and_out(run_program: RunProgram) -> None:
    ran = recorded(run_program, "stencil")
    grid = code("stencil", SHORT).assumed()["grid_bytes"]
    assert ran.run.device().bytes_moved()["h2d"] == pytest.approx(grid, rel=1e-3)
    assert ran.run.device().bytes_moved()["d2h"] == pytest.approx(grid, rel=1e-3)


def test_ep_copies_nothing(run_program: RunProgram) -> None:
    assert program_copies(recorded(run_program, "ep")) == []


def test_lbm_transfers_both_lattices_once(run_program: RunProgram) -> None:
    moved = recorded(run_program, "lbm").run.device().bytes_moved()
    assert moved["h2d"] == pytest.approx(2 * code("lbm", SHORT).assumed()["lattice_bytes"], rel=1e-3)
    assert moved["d2h"] == 0


@pytest.mark.parametrize(("name", "kernels"), [("spC", 13), ("bt", 10)])
def test_solvers_allocate_their_stack_arrays_in_every_call(run_program: RunProgram, name: str, kernels: int) -> None:
    solver = code(name, SHORT)
    assert isinstance(solver, Solver)
    ran = recorded(run_program, name)
    assert len(ran.events("KernelSubmit")) == (3 * kernels + len(solver.outside)) * solver.steps
    whole_run = 4  # the fields that live through it
    assert len(allocations(ran)) == len(solver.stack) * solver.calls + whole_run


def test_the_solvers_run_the_kernels_of_the_public_code() -> None:
    for name, kernels, doubles in (("spC", 23, 171), ("bt", 16, 154)):
        solver = code(name)
        assert isinstance(solver, Solver)
        cells = [part.flops for part in solver.outside if not part.lines]
        assert (len(solver.outside), sum(cells)) == (kernels, doubles), name


def test_the_longest_kernel_of_spc_takes_the_published_part_of_an_allocation() -> None:
    solver = code("spC")
    assert isinstance(solver, Solver)
    longest = max(part.bytes for part in solver.sweeps if not part.lines)
    longest_s, allocation_s = longest / 3.55e12, 40 / 2**30 * 0.037
    assert longest_s / allocation_s == pytest.approx(0.06, rel=0.02)


def test_the_papers_orders_of_magnitude() -> None:
    for where in ("low", "mean", "high"):
        ends = Ends(sizes=where)
        assert 1e9 <= code("spC", ends).assumed()["stack_bytes"] <= 1e10
        assert code("bt", ends).assumed()["largest_stack_array_bytes"] > 2e9
        assert code("stencil", ends).assumed()["grid_bytes"] * 3 < code("ep", ends).assumed()["array_bytes"]


def test_ep_is_of_class_e_in_15000_blocks() -> None:
    ep = code("ep").assumed()
    assert ep["array_bytes"] == 15_000 << 20
    assert ep["chunks"] * ep["array_bytes"] / 16 == pytest.approx(2**40, rel=1e-3)


def test_stack_arrays_are_forgotten_only_when_asked(run_program: RunProgram) -> None:
    lost: list[str] = []
    ends = Ends(sizes="low", lengths="low", fraction=0.03)
    calls = code("bt", ends).assumed()["calls"]
    run_program(lambda run: run.parallel(code("bt", ends, lambda array: lost.append(array.name)).run))
    assert lost == ["blocks", "flux jacobian", "viscous jacobian"] * int(calls)


def test_a_fraction_shortens_the_run_and_keeps_the_arrays() -> None:
    for name in CODES:
        whole, part = code(name, Ends()).assumed(), code(name, Ends(fraction=0.1)).assumed()
        shorter = [key for key in whole if part[key] < whole[key]]
        assert len(shorter) == 1, name


def test_an_unknown_code_is_refused() -> None:
    with pytest.raises(ValueError, match="there are stencil"):
        code("minighost")
