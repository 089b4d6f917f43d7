"""Kernels for several devices: who owns and reads what, and what they exchange."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from devices import Devices, copied, same_bits
from divided_nests import DIMENSIONS, MULTI, SINGLE, of
from instrumented import Phantom
from nests import expand, graph

from offloadrt.compilers.multi_device import Holders, Transfer, predicate, split_loop
from offloadrt.kernels import KernelError, kernel
from offloadrt.kernels.algebra import Cut, Polynomial, cut_range

RIM = "def k(v, n):\n    for j in range(n):\n        for d in range(2):\n            v[1 - d, j] = v[2 + d, j]"
"""Two rows are mirrored."""


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

    def test_rows_that_a_split_kernel_does_not_store_are_not_its_own(self) -> None:
        """Two rows at the rim, divided by columns: two pieces for each device, however many rows there are."""
        divided, arguments = split_loop(of(RIM)), [Phantom((50, 16)), 16]
        owned = [divided.segments(share, arguments)["v"] for share in divided.split(4, arguments)]
        assert owned == [((32 * part, 32), (128 + 32 * part, 32)) for part in range(4)]

    def test_elements_between_those_that_a_split_kernel_stores_are_its_own_where_that_joins_pieces(self) -> None:
        """A column at the rim, divided by rows: one piece for each device."""
        text = "def k(v, n):\n    for i in range(n):\n        v[i, 0] = v[i, 3]"
        divided, arguments = split_loop(of(text)), [Phantom((16, 8)), 16]
        owned = [divided.segments(share, arguments)["v"] for share in divided.split(4, arguments)]
        assert owned == [((4 * 64 * part, 4 * 64),) for part in range(4)]

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

    def test_rows_that_nobody_reads_are_not_needed(self) -> None:
        """Columns of the mirrored rows, and those at the rim that are its own."""
        divided, arguments = split_loop(of(RIM)), [Phantom((50, 16)), 16]
        reads = [divided.reads_of(share, arguments)["v"] for share in divided.split(4, arguments)]
        assert reads == [tuple((128 * row + 32 * part, 32) for row in range(4)) for part in range(4)]

    def test_what_all_shares_read_alike_is_needed_whole(self) -> None:
        text = "def k(u, v, n):\n    for i in range(n):\n        for j in range(1, 3):\n            v[i] += u[j, 1]"
        arguments = [Phantom((9, 4)), Phantom((8,)), 8]
        for divided in (predicate(of(text)), split_loop(of(text))):
            reads = [divided.reads_of(share, arguments)["u"] for share in divided.split(2, arguments)]
            assert reads == [((0, 9 * 32),)] * 2

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


def test_a_block_that_is_as_long_as_its_distance_can_be_split() -> None:
    divided = split_loop(
        of("def k(v, n, m):\n    for i in range(n):\n        for j in range(m):\n            v[i * m + j] = 1.0")
    )
    arguments = [Phantom((12,), "f4"), 4, 3]
    assert [divided.segments(share, arguments)["v"] for share in divided.split(2, arguments)] == [
        ((0, 24),),
        ((24, 24),),
    ]


def test_a_search_of_a_graph_is_divided() -> None:
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
