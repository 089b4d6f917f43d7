"""Kernels for several devices: their counts."""

from __future__ import annotations

from typing import Any

import pytest
from divided_nests import SINGLE, of
from instrumented import Phantom

from offloadrt.extensions.openacc.multi_device import predicate, split_loop


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
