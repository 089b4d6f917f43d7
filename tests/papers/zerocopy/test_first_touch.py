"""First touches: what is charged to which of the paper's two overheads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from offloadrt.papers.zerocopy.first_touch import FirstTouch
from offloadrt.papers.zerocopy.memory_time import memory_overheads

RunProgram = Callable[..., Any]
MIB = 1 << 20


def touched(run_program: RunProgram, program: FirstTouch, configuration: str) -> Any:
    """A run of the synthetic program."""
    return run_program(lambda run: run.parallel(program.run), configuration)


def times(ran: Any) -> tuple[float, float]:
    """MM and MI."""
    overheads = memory_overheads(ran.run)
    return overheads["memory_management_s"], overheads["memory_initialization_s"]


def test_maps_are_counted() -> None:
    assert FirstTouch(64 * MIB, arrays=4, remaps=2, filled=False).maps == 12


def test_each_page_faults_once(run_program: RunProgram) -> None:
    once = touched(run_program, FirstTouch(64 * MIB, 1, 0, False), "implicit_zero_copy")
    often = touched(run_program, FirstTouch(64 * MIB, 1, 5, False), "implicit_zero_copy")
    assert 32 <= once.run.device().fault_statistics().faults <= 33
    assert often.run.device().fault_statistics().faults == once.run.device().fault_statistics().faults


def test_zero_copy_initialises_copy_and_eager_maps_manage(run_program: RunProgram) -> None:
    program = FirstTouch(4096 * MIB, 1, 0, False)
    for configuration, manages, initialises in (  # the runtime's own start stays below 50 ms
        ("copy", True, False),
        ("implicit_zero_copy", False, True),
        ("eager_maps", True, False),
    ):
        mm, mi = times(touched(run_program, program, configuration))
        assert (mm > 5e-2, mi > 5e-2) == (manages, initialises), configuration


def test_eager_maps_pay_for_much_new_memory_and_lose_on_many_maps(run_program: RunProgram) -> None:
    def elapsed(program: FirstTouch, configuration: str) -> float:
        return float(touched(run_program, program, configuration).run.elapsed)

    much, often = FirstTouch(256 * MIB, 1, 0, False), FirstTouch(MIB, 16, 50, True)
    assert elapsed(much, "eager_maps") < elapsed(much, "implicit_zero_copy")
    assert elapsed(often, "eager_maps") > elapsed(often, "implicit_zero_copy")
