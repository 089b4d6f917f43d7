"""Kernels for several devices: their source."""

from __future__ import annotations

import numpy as np
from divided_nests import DIMENSIONS, MULTI, SINGLE, of

from offloadrt.extensions.openacc.multi_device import predicate, split_loop


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

    def test_the_source_is_a_kernel_that_can_be_pasted(self) -> None:
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
