"""The implementations: the feature table of the paper, and what may be offloaded."""

from __future__ import annotations

import attrs
import pytest

from offloadrt.extensions.stdpar.elision import ALGORITHMS, par, par_unseq, seq
from offloadrt.extensions.stdpar.implementations import (
    IMPLEMENTATIONS,
    ForeignFreeing,
    HostPointer,
    KernelFactor,
    PrefetchMode,
    implementation,
)

STDPAR = ("acpp", "nvcpp", "rocstdpar", "icpx")


def having(feature: str) -> set[str]:
    return {name for name in STDPAR if getattr(implementation(name), feature)}


def test_the_feature_table() -> None:
    assert having("pool") == {"acpp", "nvcpp", "rocstdpar"}
    assert having("elision") == having("heuristic") == {"acpp"}
    assert {name for name in STDPAR if implementation(name).prefetch is not PrefetchMode.NEVER} == {"acpp"}


def test_what_the_table_leaves_open_is_said() -> None:
    assert {name: one.open for name, one in IMPLEMENTATIONS.items() if one.open} == {"icpx": ("pool", "heuristic")}


def test_host_pointers() -> None:
    assert {name: implementation(name).host_pointer for name in STDPAR} == {
        "acpp": HostPointer.HOST,
        "nvcpp": HostPointer.CRASH,
        "rocstdpar": HostPointer.CRASH,
        "icpx": HostPointer.REFUSED,
    }


def test_only_rocstdpar_crashes_at_a_free_elsewhere() -> None:
    crashing = {name for name, one in IMPLEMENTATIONS.items() if one.foreign_free is ForeignFreeing.CRASH}
    assert crashing == {"rocstdpar"}


def test_no_implementation_offloads_seq() -> None:
    for one in IMPLEMENTATIONS.values():
        assert not any(one.offloads(name, seq, True) for name in ALGORITHMS)


def test_par_needs_independent_progress_under_acpp() -> None:
    acpp = implementation("acpp")
    assert acpp.offloads("for_each", par, True) and not acpp.offloads("for_each", par, False)
    assert acpp.offloads("for_each", par_unseq, False)


def test_the_host_offloads_nothing_and_who_has_a_device_offloads_par_unseq() -> None:
    offloading = {name for name, one in IMPLEMENTATIONS.items() if one.offloads("transform", par_unseq, False)}
    assert offloading == set(IMPLEMENTATIONS) - {"host"}


def test_kernels_are_the_machines_own_unless_a_source_says_otherwise() -> None:
    assert all(one.kernel_factor.value == 1 and one.kernel_factor.source for one in IMPLEMENTATIONS.values())
    slow = attrs.evolve(implementation("icpx"), kernel_factor=KernelFactor("a measurement", 1.2))
    assert slow.kernel_factor.value == 1.2
    with pytest.raises(ValueError, match="a measurement"):
        KernelFactor("a measurement", 0)


def test_names_that_do_not_exist() -> None:
    with pytest.raises(ValueError, match="no implementation 'gcc'; there are: acpp, "):
        implementation("gcc")
    with pytest.raises(ValueError, match="no algorithm 'sorted'"):
        implementation("acpp").offloads("sorted", par_unseq, True)
