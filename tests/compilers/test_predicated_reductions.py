"""Reductions that several devices share: their results are those of one device, and every iteration counts once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from devices import Devices, on_one_device, same_values
from divided_nests import WAYS, of
from instrumented import Counted, Phantom
from written import function

from offloadrt.extensions.openacc.multi_device import DividedKernel, predicate, split_loop
from offloadrt.kernels import SourceRefused

# as a reader checks it

NORM = """
def norm(r, total, n):
    s = 0.0
    largest = -1.0
    for i in range(1, n - 1):
        for j in range(n):
            s += r[i, j] * r[i, j]
            largest = max(largest, r[i, j])
    total[0] = math.sqrt(s)
    total[1] = largest
"""

RELAX = """
def relax(u, v, gosa, n):
    s = 0.0
    for i in range(1, n - 1):
        d = 0.5 * (u[i - 1] + u[i + 1]) - u[i]
        s += d * d
        v[i] = u[i] + d
    gosa[0] = s
"""


class TestSource:
    def test_the_device_that_stores_contributes(self) -> None:
        divided = predicate(of(RELAX))
        assert {region.name: region.dimension for region in divided.written} == {"v": 0, "gosa": None}
        assert divided.source == (
            "@kernel\n"
            "def relax(u, v, n, v_lb, v_ub, s_parts, device):\n"
            "    s = 0.0\n"
            "    for i in range(1, n - 1):\n"
            "        to_v = v_lb <= i <= v_ub\n"
            "        d = 0.5 * ((u[i - 1] if to_v else 0) + (u[i + 1] if to_v else 0)) - (u[i] if to_v else 0)\n"
            "        s_value = d * d\n"
            "        if to_v:\n"
            "            s += s_value\n"
            "        v_value = (u[i] if to_v else 0) + d\n"
            "        if to_v:\n"
            "            v[i] = v_value\n"
            "    s_parts[device] = s\n"
        )
        assert divided.combination is not None
        assert divided.combination.source == (
            "@kernel\n"
            "def combine_relax(gosa, s_parts):\n"
            "    s = 0.0\n"
            "    for device in range(len(s_parts)):\n"
            "        s += s_parts[device]\n"
            "    gosa[0] = s\n"
        )

    def test_where_nothing_is_stored_iterations_are_split(self) -> None:
        divided = predicate(of(NORM, collapse=2))
        assert [region.dimension for region in divided.written] == [None]
        assert divided.source == (
            "@kernel(collapse=2)\n"
            "def norm(r, n, i_lb, i_ub, largest_parts, s_parts, device):\n"
            "    s = 0.0\n"
            "    largest = -1.0\n"
            "    for i in range(1, n - 1):\n"
            "        for j in range(n):\n"
            "            to_i = i_lb <= i <= i_ub\n"
            "            s_value = (r[i, j] if to_i else 0) * (r[i, j] if to_i else 0)\n"
            "            if to_i:\n"
            "                s += s_value\n"
            "            if to_i:\n"
            "                largest = max(largest, r[i, j])\n"
            "    largest_parts[device] = largest\n"
            "    s_parts[device] = s\n"
        )

    def test_a_split_loop_reduces_its_own_iterations(self) -> None:
        assert split_loop(of(NORM)).source.splitlines()[1:5] == [
            "def norm(r, n, i_lb, i_ub, largest_parts, s_parts, device):",
            "    s = 0.0",
            "    largest = -1.0",
            "    for i in range(i_lb, i_ub + 1):",
        ]


# what is shared


def shares_of(divided: DividedKernel, devices: int, arguments: list[Any]) -> list[Any]:
    analysis = divided.kernel.analysis
    assert analysis is not None
    return [analysis.at(*divided.arguments(share, arguments)) for share in divided.split(devices, arguments)]


@pytest.mark.parametrize("divide", WAYS)
def test_loads_are_divided_and_nothing_is_owned(divide: Any) -> None:
    divided, arguments = divide(of(NORM)), [Phantom((402, 400)), Phantom((2,)), 402]
    counts = shares_of(divided, 4, arguments)
    assert [one.array("r").reads for one in counts] == [of(NORM).analysis.at(*arguments).array("r").reads / 4] * 4  # type: ignore[union-attr]
    for part in divided.parts(4, arguments):
        assert part.segments == {}
        assert part.reads["r"] is not None and sum(nbytes for _, nbytes in part.reads["r"]) == 100 * 400 * 8


@pytest.mark.parametrize("divide", WAYS)
def test_every_iteration_contributes_once(divide: Any) -> None:
    """Each element of x is loaded by one device, also where iterations go backwards or leave some out."""
    for ends in ("n", "n - 1, -1, -1", "2, n, 3", "n - 1, 1, -4"):
        divided = divide(
            of(f"def k(x, out, n):\n    s = 0\n    for i in range({ends}):\n        s += x[i]\n    out[0] = s")
        )
        x = np.arange(23)
        seen: list[int] = []
        for part in divided.parts(5, [x, np.zeros(1), 23]):
            loads = Counted(x)
            function(divided.source.removeprefix("@kernel\n"))(
                *divided.arguments(part.share, [loads, np.zeros(1), 23], [np.zeros(5)])
            )
            seen += loads.loaded
        assert sorted(seen) == sorted(range(*eval(f"({ends},)", {"n": 23})))


def test_an_iteration_whose_store_may_be_left_out_still_contributes() -> None:
    """The loop that stores runs from row to row less often; rows without it have an owner all the same."""
    text = (
        "def k(x, v, out, n):\n    s = 0.0\n    for i in range(n):\n        s += x[i]\n"
        "        for j in range(i - 3):\n            v[i, j] = x[i]\n    out[0] = s"
    )
    start = {"x": np.arange(9.0), "v": np.zeros((9, 9)), "out": np.zeros(1), "n": 9}
    divided = predicate(of(text))
    assert "if to_v:\n            s += x[i]" in divided.source
    for count in (1, 2, 4):
        devices = Devices(count, start)
        devices.run(divided)
        assert all(same_values(one, on_one_device(divided.original, start)) for one in devices.memories)


# rounding, and types


def test_a_sum_is_rounded_in_another_order_and_the_largest_value_is_exact() -> None:
    values = np.random.default_rng(3).normal(size=(60, 60)) * 1e3
    start = {"r": values, "total": np.zeros(2), "n": 60}
    found = []
    for count in (1, 2, 4):
        devices = Devices(count, start)
        devices.run(predicate(of(NORM)))
        totals = {memory["total"].tobytes() for memory in devices.memories}
        assert len(totals) == 1  # all devices have one result
        found.append(devices.memories[0]["total"])
    inside = values[1:-1]
    assert {total[1] for total in found} == {inside.max()}
    for total in found:
        assert total[0] == pytest.approx(math.sqrt(math.fsum((inside * inside).ravel())), rel=1e-14)


def test_whole_numbers_are_reduced_in_64_bits() -> None:
    text = (
        "def k(x, out, n):\n    s = 5\n    for i in range(n):\n        s += x[i] * x[i] // 2\n    out[0] = s % 1000003"
    )
    divided = predicate(of(text))
    start = {"x": np.arange(1, 40) * (2**24 + 1), "out": np.zeros(1, np.int64), "n": 39}
    assert divided.combination is not None
    assert divided.combination.types(list(start.values())) == (np.dtype(np.int64),)
    assert divided.combination.types([start["x"] / 3, start["out"], 39]) == (np.dtype(np.float64),)
    devices = Devices(4, start)
    devices.run(divided)
    assert devices.memories[3]["out"][0] == (5 + sum(int(x) ** 2 // 2 for x in start["x"])) % 1000003


def test_what_was_there_before_the_loop_counts_once() -> None:
    text = "def k(x, out, n, s):\n    for i in range(n):\n        s += x[i]\n    out[0] = out[0] + s"
    for divide in WAYS:
        devices = Devices(3, {"x": np.ones(10), "out": np.full(1, 100.0), "n": 10, "s": 7.0})
        devices.run(divide(of(text)))
        assert [memory["out"][0] for memory in devices.memories] == [117.0] * 3


def test_an_element_that_every_iteration_reduces_is_like_a_scalar() -> None:
    text = "def k(x, out, n):\n    for i in range(n):\n        out[0] = max(out[0], x[i])\n        out[1] += x[i]"
    with pytest.raises(SourceRefused, match="no parallel loop runs along a dimension of out"):  # it has two of them
        predicate(of(text))
    divided = predicate(of(text.replace("out[1]", "sums[k]").replace("(x, out", "(x, out, sums, k")))
    assert divided.combination is not None
    assert divided.combination.source.splitlines()[2:] == [
        "    out_value = out[0]",
        "    sums_value = sums[k]",
        "    for device in range(len(out_value_parts)):",
        "        out_value = max(out_value, out_value_parts[device])",
        "        sums_value += sums_value_parts[device]",
        "    out[0] = out_value",
        "    sums[k] = sums_value",
    ]
    start = {"x": np.arange(9.0), "out": np.full(1, 4.0), "sums": np.full(3, 100.0), "k": 1, "n": 9}
    devices = Devices(4, start)
    devices.run(divided)
    assert all(memory["out"][0] == 8.0 for memory in devices.memories)
    assert all(memory["sums"].tolist() == [100.0, 136.0, 100.0] for memory in devices.memories)
