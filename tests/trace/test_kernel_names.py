"""Kernels are shown by the names that their authors gave them."""

from __future__ import annotations

import pytest

from offloadrt.trace.events import plain_kernel


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        ("__omp_offloading_fe00_21a8fc_main_l10", "main:10"),
        (
            "__omp_offloading_fe00_210536__ZL28CalcFBHourglassForceForElemsR6DomainPdS1_dii_l904",
            "CalcFBHourglassForceForElems:904",
        ),
        ("__omp_offloading_10301_3a__ZN9OMPStreamIdE4copyEv_l90", "OMPStream::copy:90"),
        ("__omp_offloading_10301_3a__Z5saxpyiPf_l7_debug__", "saxpy:7"),
        ("saxpy", "saxpy"),
        ("_Z5saxpyiPf", "_Z5saxpyiPf"),
    ],
)  # fmt: skip
def test_a_kernel_is_named_by_function_and_line(made: str, shown: str) -> None:
    assert plain_kernel(made) == shown
