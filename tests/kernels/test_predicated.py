"""Kernels for several devices: their source, who owns and reads what, their counts, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from devices import Devices, copied, same_bits
from instrumented import Phantom
from nests import expand, graph
from written import function

from offloadrt.kernels import (
    DividedKernel,
    Holders,
    Kernel,
    KernelError,
    SourceRefused,
    Transfer,
    kernel,
    predicate,
    split_loop,
)
from offloadrt.kernels.intervals import Cut, cut_range
from offloadrt.kernels.polynomial import Polynomial


def of(text: str, **options: Any) -> Kernel:
    return kernel(**options)(function(text))


SINGLE = """
def stencil(u, v, n, m):
    for i in range(1, n - 1):
        for j in range(1, m - 1):
            v[i, j] = 0.5 * (u[i - 1, j] + u[i + 1, j])
"""

MULTI = """
def chain(x, a, b, c, n):
    for i in range(1, n - 1):
        t = x[i]
        a[i] = t * 2.0
        b[i + 1] = a[i] + x[i + 1]
        c[i] = x[i - 1]
"""

DIMENSIONS = """
def solve(left, right, n, m):
    for j in range(n):
        for k in range(1, m):
            right[k, j] = right[k, j] - left[k, j] * right[k - 1, j]
"""


class TestSource:
    """As a reader checks it against the paper: guards on accesses, each the "or" of the regions that it feeds."""

    def test_one_array(self) -> None:
        assert predicate(of(SINGLE)).source == (
            "@kernel\n"
            "def stencil(u, v, n, m, v_lb, v_ub):\n"
            "    for i in range(1, n - 1):\n"
            "        to_v = v_lb <= i <= v_ub\n"
            "        for j in range(1, m - 1):\n"
            "            v_value = 0.5 * ((u[i - 1, j] if to_v else 0) + (u[i + 1, j] if to_v else 0))\n"
            "            if to_v:\n"
            "                v[i, j] = v_value\n"
        )

    def test_several_arrays(self) -> None:
        """What is stored to a is read for b: a device stores it for its part of either."""
        assert predicate(of(MULTI)).source == (
            "@kernel\n"
            "def chain(x, a, b, c, n, a_lb, a_ub, b_lb, b_ub, c_lb, c_ub):\n"
            "    for i in range(1, n - 1):\n"
            "        to_a_b = a_lb <= i <= a_ub or b_lb <= i + 1 <= b_ub\n"
            "        to_b = b_lb <= i + 1 <= b_ub\n"
            "        to_c = c_lb <= i <= c_ub\n"
            "        t = x[i] if to_a_b else 0\n"
            "        a_value = t * 2.0\n"
            "        if to_a_b:\n"
            "            a[i] = a_value\n"
            "        b_value = (a[i] if to_b else 0) + (x[i + 1] if to_b else 0)\n"
            "        if to_b:\n"
            "            b[i + 1] = b_value\n"
            "        if to_c:\n"
            "            c[i] = x[i - 1]\n"
        )

    def test_the_dimension_with_the_parallel_loop(self) -> None:
        """The loop over k hands values on, the one over j does not: the array is divided along its second dimension."""
        divided = predicate(of(DIMENSIONS))
        assert [(region.name, region.dimension) for region in divided.written] == [("right", 1)]
        assert divided.source == (
            "@kernel\n"
            "def solve(left, right, n, m, right_lb, right_ub):\n"
            "    for j in range(n):\n"
            "        to_right = right_lb <= j <= right_ub\n"
            "        for k in range(1, m):\n"
            "            right_value = (\n"
            "                (right[k, j] if to_right else 0) - (left[k, j] if to_right else 0)\n"
            "                * (right[k - 1, j] if to_right else 0)\n"
            "            )\n"
            "            if to_right:\n"
            "                right[k, j] = right_value\n"
        )

    def test_it_is_a_kernel_that_can_be_pasted(self) -> None:
        for text in (SINGLE, MULTI, DIMENSIONS):
            divided = predicate(of(text, collapse=1))
            again = of(divided.source.removeprefix("@kernel\n"))
            assert again.analysis is not None
            assert divided.kernel.analysis is not None
            assert again.analysis.parameters == divided.kernel.analysis.parameters

    def test_names_that_are_taken_get_a_number(self) -> None:
        text = "def k(v, v_lb, to_v, n):\n    for i in range(n):\n        v[i] = v_lb + to_v"
        source = predicate(of(text)).source
        assert "def k(v, v_lb, to_v, n, v_lb_2, v_ub):" in source
        assert "to_v_2 = v_lb_2 <= i <= v_ub" in source

    def test_collapsed_loops_stay_perfectly_nested(self) -> None:
        source = predicate(of(SINGLE, collapse=2)).source
        assert source.startswith("@kernel(collapse=2)\n")
        assert "        for j in range(1, m - 1):\n            to_v = v_lb <= i <= v_ub\n" in source

    def test_a_linear_index_guards_nothing_outside_of_the_inner_loop(self) -> None:
        """A linear split depends on all loops, so that what stands between them is done by every device."""
        text = (
            "def k(x, v, n, m):\n"
            "    for i in range(n):\n"
            "        t = x[i]\n"
            "        for j in range(m):\n"
            "            v[i * m + j] = t"
        )
        assert "        t = x[i]\n" in predicate(of(text)).source

    def test_what_decides_the_control_flow_is_read_by_everyone(self) -> None:
        text = (
            "def k(x, first, v, n):\n"
            "    for i in range(n):\n"
            "        v[i] = 0.0\n"
            "        for e in range(first[i], first[i + 1]):\n"
            "            if x[e] > 0.0:\n"
            "                v[i] += x[e]"
        )
        source = predicate(of(text)).source
        assert "for e in range(first[i], first[i + 1]):" in source
        assert "if x[e] > 0.0:" in source
        assert "(x[e] if to_v else 0)" in source

    def test_assignments_that_feed_nothing_are_left_out(self) -> None:
        text = "def k(x, y, v, n):\n    for i in range(n):\n        t = y[i] // x[i]\n        v[i] = x[i]"
        divided = predicate(of(text))
        assert "y" not in divided.kernel.analysis.parameters  # type: ignore[union-attr]
        (share,) = divided.split(1, [np.ones(3), np.ones(3), np.zeros(3), 3])
        assert len(divided.arguments(share, [1, 2, 3, 4])) == 3 + 2

    def test_split_loops(self) -> None:
        assert split_loop(of(SINGLE)).source.splitlines()[1:3] == [
            "def stencil(u, v, m, i_lb, i_ub):",
            "    for i in range(i_lb, i_ub + 1):",
        ]
        backwards = "def k(v, n):\n    for i in range(n - 1, -1, -2):\n        v[i] = 1.0"
        assert "for i in range(i_ub, i_lb - 1, -2):" in split_loop(of(backwards)).source


class TestOwnership:
    @pytest.mark.parametrize("devices", [1, 2, 3, 4, 7, 40])
    def test_parts_are_even_apart_and_together_all_that_is_written(self, devices: int) -> None:
        arguments = [Phantom((30, 8)), Phantom((30, 8)), 30, 8]
        for divided in (predicate(of(SINGLE)), split_loop(of(SINGLE))):
            shares = divided.split(devices, arguments)
            rows = [high - low + 1 for ((low, high),) in (share.bounds for share in shares)]
            assert sum(rows) == 28
            assert max(rows) - min(rows) <= 1
            owned = [place for share in shares for place in divided.segments(share, arguments)["v"]]
            covered = [byte for offset, nbytes in owned for byte in range(offset, offset + nbytes, 8)]
            assert sorted(covered) == list(range(64, 29 * 64, 8))

    def test_a_part_of_the_leftmost_dimension_is_one_piece(self) -> None:
        divided, arguments = predicate(of(SINGLE)), [Phantom((10, 4)), Phantom((10, 4), "f4"), 10, 4]
        pieces = [divided.segments(share, arguments)["v"] for share in divided.split(2, arguments)]
        assert pieces == [((16, 64),), ((80, 64),)]

    def test_a_part_of_another_dimension_is_one_piece_for_each_index_on_its_left(self) -> None:
        divided, arguments = predicate(of(DIMENSIONS)), [Phantom((75, 8)), Phantom((75, 8)), 8, 75]
        first, second = (divided.segments(share, arguments)["right"] for share in divided.split(2, arguments))
        assert first == tuple((64 * k, 32) for k in range(75))
        assert second == tuple((64 * k + 32, 32) for k in range(75))

    def test_each_written_array_has_bounds_of_its_own(self) -> None:
        divided = predicate(of(MULTI))
        arguments = [Phantom((12,))] * 1 + [Phantom((12,)), Phantom((12,)), Phantom((12,)), 12]
        assert [share.bounds for share in divided.split(2, arguments)] == [
            ((1, 5), (2, 6), (1, 5)),
            ((6, 10), (7, 11), (6, 10)),
        ]

    @pytest.mark.parametrize("divide", [predicate, split_loop])
    def test_parts_say_it_all_and_are_kept(self, divide: Any) -> None:
        divided, arguments = divide(of(SINGLE)), [Phantom((30, 8)), Phantom((30, 8)), 30, 8]
        parts = divided.parts(3, arguments)
        for part, share in zip(parts, divided.split(3, arguments), strict=True):
            assert (part.share, part.segments) == (share, divided.segments(share, arguments))
            assert part.reads == divided.reads_of(share, arguments)
        assert divided.parts(3, [Phantom((30, 8)), Phantom((30, 8)), 30, 8]) is parts
        assert divided.parts(2, arguments) != parts
        assert divided.parts(3, [Phantom((30, 8), "f4"), Phantom((30, 8), "f4"), 30, 8]) != parts

    def test_arrays_that_overlap_are_refused(self) -> None:
        memory = np.zeros((40, 8))
        for divided in (predicate(of(SINGLE)), split_loop(of(SINGLE))):
            with pytest.raises(
                KernelError, match="'stencil': v, which it writes, overlaps u; give each argument memory"
            ):
                divided.split(2, [memory[:30], memory[10:], 30, 8])

    def test_a_store_outside_of_its_array_is_refused(self) -> None:
        with pytest.raises(
            KernelError, match=r":5: kernel 'stencil': v\[i, j\] is stored at 1 to 28, which is not in 0"
        ):
            predicate(of(SINGLE)).split(2, [np.zeros((30, 8)), np.zeros((20, 8)), 30, 8])

    @pytest.mark.parametrize("divide", [predicate, split_loop])
    def test_arguments_that_cannot_be_divided(self, divide: Any) -> None:
        divided = divide(of(SINGLE))
        with pytest.raises(KernelError, match="divided among 0 devices"):
            divided.split(0, [Phantom((9, 8)), Phantom((9, 8)), 9, 8])
        with pytest.raises(KernelError, match="the shape of u is not known"):
            divided.split(2, [None, Phantom((9, 8)), 9, 8])


class TestReads:
    def test_a_stencil_reads_its_part_and_its_neighbours_rows(self) -> None:
        arguments = [Phantom((10, 4)), Phantom((10, 4)), 10, 4]
        for divided in (predicate(of(SINGLE)), split_loop(of(SINGLE))):
            reads = [divided.reads_of(share, arguments)["u"] for share in divided.split(2, arguments)]
            assert reads == [((0, 6 * 32),), ((4 * 32, 6 * 32),)]

    def test_what_data_decide_needs_everything(self) -> None:
        text = "def k(p, at, q, n):\n    for i in range(n):\n        q[i] = p[at[i]]"
        arguments = [Phantom((8,)), Phantom((8,), "i4"), Phantom((8,)), 8]
        for divided in (predicate(of(text)), split_loop(of(text))):
            reads = divided.reads_of(divided.split(2, arguments)[0], arguments)
            assert reads == {"p": None, "at": ((0, 16),), "q": ((0, 32),)}

    def test_only_the_halo_travels_between_sweeps(self) -> None:
        """Jacobi on n rows: after the first sweep each border costs one row each way, whatever the number of rows."""
        forth, back = predicate(of(SINGLE)), predicate(of(SINGLE.replace("u", "w").replace("v", "u").replace("w", "v")))
        rng = np.random.default_rng(0)
        memory = {"u": rng.normal(size=(34, 5)), "v": rng.normal(size=(34, 5)), "n": 34, "m": 5}
        expected = copied(memory)
        devices = Devices(4, memory)
        for _ in range(3):
            for divided in (forth, back):
                names = divided.original.analysis.parameters  # type: ignore[union-attr]
                divided.original(*[expected[name] for name in names])
                devices.run_lazily(divided)
        row = 5 * 8
        assert devices.sent == 5 * 3 * 2 * row
        devices.gather()
        assert all(same_bits(found, expected) for found in devices.memories)


class TestExchange:
    def test_only_what_is_read_is_sent_and_only_once(self) -> None:
        holders = Holders()
        holders.wrote("p", [((0, 100),), ((100, 100),)])
        assert holders.fetch("p", 0, ((0, 108),)) == [Transfer(1, 0, 100, 8)]
        assert holders.fetch("p", 0, ((0, 108),)) == []
        assert holders.fetch("p", 0, None) == [Transfer(1, 0, 108, 92)]
        assert holders.fetch("q", 0, None) == []

    def test_what_was_written_later_counts(self) -> None:
        holders = Holders()
        holders.wrote("p", [((0, 100),), ((100, 100),)])
        holders.wrote("p", [((40, 100),), ()])
        assert holders.fetch("p", 1, None) == [Transfer(0, 1, 0, 40), Transfer(0, 1, 40, 100)]
        assert holders.fetch("p", 0, None) == [Transfer(1, 0, 140, 60)]
        holders.wrote("p", [(), ((0, 200),)])
        holders.everywhere("p")
        assert holders.fetch("p", 0, None) == []


class TestCounts:
    """What the machine times: memory accesses are divided, computation is not."""

    def share_of(self, text: str, arguments: list[Any], devices: int) -> list[Any]:
        divided = predicate(of(text))
        analysis = divided.kernel.analysis
        assert analysis is not None
        shares = divided.split(devices, arguments)
        return [analysis.at(*divided.arguments(share, arguments)) for share in shares]

    @pytest.mark.parametrize("devices", [1, 2, 4, 8])
    def test_a_stencil(self, devices: int) -> None:
        n, m = 4098, 1026
        arguments = [Phantom((n, m)), Phantom((n, m)), n, m]
        whole = of(SINGLE).analysis.at(*arguments)  # type: ignore[union-attr]
        for counts in self.share_of(SINGLE, arguments, devices):
            assert (counts.iterations, counts.flops) == (whole.iterations, whole.flops)
            assert counts.bytes == whole.bytes / devices
            assert counts.assumed == ()

    def test_an_ep_like_kernel_gains_nothing_where_it_computes(self) -> None:
        text = "def ep(x, n):\n    for i in range(n):\n        s = 0.5\n" + "        s = s * s + 0.25\n" * 50
        text += "        x[i] = s"
        for counts in self.share_of(text, [Phantom((1 << 20,)), 1 << 20], 4):
            assert counts.flops == 100 * (1 << 20)
            assert counts.bytes == 8 * (1 << 18)

    def test_a_split_loop_divides_both(self) -> None:
        divided, arguments = split_loop(of(SINGLE)), [Phantom((402, 102)), Phantom((402, 102)), 402, 102]
        whole = of(SINGLE).analysis.at(*arguments)  # type: ignore[union-attr]
        for share in divided.split(4, arguments):
            counts = divided.kernel.analysis.at(*divided.arguments(share, arguments))  # type: ignore[union-attr]
            assert (counts.flops, counts.bytes) == (whole.flops / 4, whole.bytes / 4)
            assert counts.iterations == 100

    def test_what_stays_in_a_cache_while_guarded_rows_pass_is_read_once(self) -> None:
        text = (
            "def k(p, q, n, m):\n"
            "    for i in range(n):\n"
            "        q[i] = 0.0\n"
            "        for j in range(m):\n"
            "            q[i] += p[j]"
        )
        whole = of(text).analysis.at(Phantom((40,)), Phantom((80,)), 80, 40)  # type: ignore[union-attr]
        for counts in self.share_of(text, [Phantom((40,)), Phantom((80,)), 80, 40], 4):
            assert whole.bytes - counts.bytes == pytest.approx(8 * 60)  # of q; p is read by every device

    def test_scattered_stores_are_spread_evenly(self) -> None:
        text = "def k(at, h, n):\n    for i in range(n):\n        h[at[i]] += 1"
        for counts in self.share_of(text, [Phantom((800,), "i4"), Phantom((40,)), 800], 4):
            assert counts.array("h").writes == pytest.approx(200)
            assert counts.array("at").reads >= 800
            assert {text.partition(": ")[2] for text in counts.assumed} == {
                "an index from data is equally often each of the 40 that it can be"
            }

    @pytest.mark.parametrize("n", [2, 5, 70, 150])
    def test_bounds_over_two_loops_are_counted_exactly(self, n: int) -> None:
        text = (
            "def k(v, n, low, high):\n"
            "    for i in range(n):\n"
            "        for j in range(i, n):\n"
            "            if low <= i + 2 * j <= high or 3 <= j <= 9:\n"
            "                v[i] += 1.0"
        )
        made = of(text)
        for low, high in ((0, 3 * n), (n, n + 3), (2 * n, n), (-5, 7)):
            expected = sum(low <= i + 2 * j <= high or 3 <= j <= 9 for i in range(n) for j in range(i, n))
            counts = made.analysis.at(Phantom((n,)), n, low, high)  # type: ignore[union-attr]
            assert (counts.array("v").writes, counts.assumed) == (expected, ())


class TestReductions:
    def test_every_device_has_all_of_it(self) -> None:
        text = (
            "def k(x, y, out):\n"
            "    s = 0.0\n"
            "    for i in range(len(x)):\n"
            "        y[i] = 2.0 * x[i]\n"
            "        s += x[i]\n"
            "    out[0] = s"
        )
        divided = predicate(of(text))
        assert {region.name: region.dimension for region in divided.written} == {"y": 0, "out": None}
        memory = {"x": np.random.default_rng(1).normal(size=33), "y": np.zeros(33), "out": np.zeros(1)}
        expected = copied(memory)
        divided.original(*expected.values())
        devices = Devices(3, memory)
        devices.run(divided)
        assert all(np.array_equal(found["y"], expected["y"]) for found in devices.memories)
        assert all(math.isclose(found["out"][0], expected["out"][0]) for found in devices.memories)
        assert math.isclose(expected["out"][0], memory["x"].sum())

    def test_a_histogram_is_divided_by_its_bins(self) -> None:
        divided = predicate(of("def k(at, h, n):\n    for i in range(n):\n        h[at[i]] += 0.1"))
        assert "if h_lb <= at[i] % h.shape[0] <= h_ub" in divided.source
        memory = {"at": np.random.default_rng(2).integers(-5, 10, 99).astype(np.int32), "h": np.zeros(10), "n": 99}
        expected = copied(memory)
        divided.original(*expected.values())
        devices = Devices(4, memory)
        devices.run_lazily(divided)
        devices.gather()
        assert all(same_bits(found, expected) for found in devices.memories)


def from_the_end(divide: Any, text: str, n: int, low: int = 0) -> DividedKernel:
    """A kernel of v, x and low that is divided in three is what one device computes."""
    divided: DividedKernel = divide(of(text))
    rng = np.random.default_rng(3)
    memory = {"v": rng.normal(size=n), "x": rng.normal(size=n), "low": low, "n": n}
    given = {name: memory[name] for name in divided.original.analysis.parameters}  # type: ignore[union-attr]
    expected = copied(given)
    divided.original(*expected.values())
    for lazily in (False, True):
        devices = Devices(3, given)
        (devices.run_lazily if lazily else devices.run)(divided)
        devices.gather()
        assert all(same_bits(found, expected) for found in devices.memories)
    return divided


LOOP = "def k(v, x, low, n):\n    for i in range(low, n):\n        "


@pytest.mark.parametrize(
    "text",
    [
        "def k(v, x, n):\n    for i in range(n):\n        v[i - 1] = x[i]",
        "def k(v, x, n):\n    for i in range(n):\n        v[i - 2] += x[i]\n        v[i - 2] *= v[i - 2]",
        "def k(v, x, n):\n    for i in range(n):\n        if i > 0:\n            v[i - 1] = x[i]",
        "def k(v, x, n):\n    for i in range(n):\n        if x[i] > 0.0:\n            v[i - 3] = x[i - 1]",
        "def k(v, x, n):\n    for i in range(n):\n        for j in range(1):\n            v[-i - 1] = x[i]",
    ],
)
def test_an_index_below_zero_counts_from_the_end(text: str) -> None:
    assert "% v.shape[0] <=" in from_the_end(predicate, text, 11).source


@pytest.mark.parametrize("divide", [predicate, split_loop])
def test_an_index_that_the_arguments_put_below_zero_is_refused_at_the_launch(divide: Any) -> None:
    assert "%" not in from_the_end(divide, f"{LOOP}v[i - 1] = x[i]", 11, 1).source
    with pytest.raises(KernelError) as raised:
        from_the_end(divide, f"{LOOP}v[i - 1] = x[i]", 11, 0)
    message = str(raised.value)
    assert ":3: kernel 'k': index 0 of v[i - 1], an array that it writes, may be -1" in message
    assert "begin the loop where the index is 0, or write it % v.shape[0]" in message
    if divide is predicate:
        from_the_end(divide, f"{LOOP}v[(i - 1) % v.shape[0]] = x[i]", 11, 0)


def test_a_split_loop_whose_stores_wrap_has_no_owners() -> None:
    with pytest.raises(KernelError, match=r"v\[i - 1\].* may be -1, which counts from the end"):
        from_the_end(split_loop, "def k(v, x, n):\n    for i in range(n):\n        v[i - 1] = x[i]", 11)


REFUSED = [
    (predicate, "def k(v, n):\n    for i in range(1, n):\n        v[i] = v[i - 1]", 2, "handed on from iteration"),
    (
        predicate,
        "def k(x, out, n):\n    for i in range(n):\n        if i > 3:\n            out[0] = max(out[0], x[i])",
        4,
        "no parallel loop runs",
    ),
    (
        predicate,
        "def k(v, n):\n    for i in range(n):\n        if v[i] > 0.0:\n            v[i] = 1.0",
        3,
        "which way the kernel",
    ),
    (predicate, "def k(v, n):\n    s = 0.0\n    for i in range(n):\n        s += v[i]", 1, "it writes no array"),
    (
        split_loop,
        "def k(at, v, n):\n    for i in range(n):\n        v[at[i]] = 1.0",
        3,
        "v[at[i]] is scattered: at decides",
    ),
    (split_loop, "def k(v, n):\n    for i in range(1, n):\n        v[i] = v[i - 1]", 3, "different elements of v"),
    (
        split_loop,
        "def k(v, n, m):\n    for i in range(n):\n        for j in range(m):\n            v[i * n + j] = 1.0",
        4,
        "of v",
    ),
    (
        split_loop,
        "def k(v, n):\n    for i in range(n):\n        if i > 3:\n            v[0] += 1.0",
        4,
        "v[0] is reduced by the loop that is split, but not in each iteration",
    ),
    (
        split_loop,
        "def k(v, n):\n    for i in range(n):\n        v[i] = 1.0\n    v[0] = 2.0",
        4,
        "stands after the loop",
    ),
    (split_loop, "def k(c, v):\n    for i in range(c[0]):\n        v[i] = 1.0", 2, "are read from data"),
]


@pytest.mark.parametrize(("divide", "text", "line", "what"), REFUSED, ids=[row[3] for row in REFUSED])
def test_what_cannot_be_divided_is_refused_with_file_and_line(divide: Any, text: str, line: int, what: str) -> None:
    made = of(text)
    assert made.analysis is not None
    with pytest.raises(SourceRefused) as raised:
        divide(made)
    assert (raised.value.file, raised.value.line) == (made.analysis.file, line)
    assert what in raised.value.what


@pytest.mark.parametrize("divide", [predicate, split_loop])
def test_a_kernel_without_source_is_refused(divide: Any) -> None:
    made = kernel(name="halve", flops_per_iteration=1, bytes_per_iteration=8)(lambda v: None)
    with pytest.raises(KernelError, match="kernel 'halve' is declared by its costs and has no source to divide"):
        divide(made)


def test_a_block_that_is_as_long_as_its_distance_can_be_split() -> None:
    divided = split_loop(
        of("def k(v, n, m):\n    for i in range(n):\n        for j in range(m):\n            v[i * m + j] = 1.0")
    )
    arguments = [Phantom((12,), "f4"), 4, 3]
    assert [divided.segments(share, arguments)["v"] for share in divided.split(2, arguments)] == [
        ((0, 24),),
        ((24, 24),),
    ]


def test_graphs_too() -> None:
    """Breadth-first search: what decides the way is read by everyone, one scattered array is divided."""
    names = ["nodes", "edges", "mask", "updating", "visited", "cost", "n"]
    memory = dict(zip(names, graph(60, 3), strict=True))
    divided = predicate(kernel(expand))
    assert {region.name for region in divided.written if region.dimension is not None} == {"updating"}
    expected = copied(memory)
    divided.original(*expected.values())
    devices = Devices(3, memory)
    devices.run(divided)
    assert all(same_bits(found, expected) for found in devices.memories)


@pytest.mark.parametrize("reach", [3, 12])
def test_elements_that_are_read_again_by_other_iterations(reach: int) -> None:
    """A few neighbours are stored by those who read them, too; for many of them every device stores all."""
    terms = " + ".join(f"a[i + {k}]" for k in range(reach))
    text = f"def k(x, a, b, n):\n    for i in range(n - 20, -1, -1):\n        a[i] = x[i] * 2.0\n        b[i] = {terms}"
    divided = predicate(of(text))
    assert [region.name for region in divided.divided] == (["a", "b"] if reach == 3 else ["b"])
    rng = np.random.default_rng(4)
    memory = {"x": rng.normal(size=50), "a": rng.normal(size=50), "b": rng.normal(size=50), "n": 50}
    expected = copied(memory)
    divided.original(*expected.values())
    for devices in (2, 3):
        made = Devices(devices, memory)
        made.run_lazily(divided)
        made.gather()
        assert all(same_bits(found, expected) for found in made.memories)


@pytest.mark.parametrize("slope", [-3, -1, 1, 2])
@pytest.mark.parametrize("step", [-4, -1, 1, 3])
def test_a_range_is_cut_where_an_index_leaves_its_bounds(slope: int, step: int) -> None:
    values = range(5, 5 + 9 * step, step)
    index = Polynomial.of([(("i",), slope), (("n",), 2), ((), 7)])
    for low in range(-40, 60, 3):
        for high in (low - 1, low, low + 1, low + 17):
            kept = [i for i in values if low <= slope * i + 2 * 11 + 7 <= high]
            cut = Cut.of(index, low, high)
            assert list(cut_range(values, cut, "i", {"n": 11})) == kept
