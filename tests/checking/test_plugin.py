"""The pytest plugin checks the program of a test, unless the mark says otherwise."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

TESTS = """
    import pytest
    from offloadrt import kernel
    from offloadrt import openmp as omp

    @kernel
    def double(a, n):
        for i in range(n):
            a[i] = a[i] * 2.0

    async def program(t):
        a = t.array("a", 64, fill=1.0)
        await t.target_enter_data(omp.map(to=a))
        await t.target(double, a, 64)
        if a[0] > 0.0:
            return

    async def test_by_default(offload):
        await offload.parallel(program)

    @pytest.mark.offload(check=False)
    async def test_unchecked(offload):
        await offload.parallel(program)

    @pytest.mark.offload(check="all")
    async def test_what_is_left_mapped(offload):
        async def body(t):
            await t.target_enter_data(omp.map(to=t.array("a", 64)))
        await offload.parallel(body)

    async def test_what_is_left_mapped_does_no_harm(offload):
        async def body(t):
            await t.target_enter_data(omp.map(to=t.array("a", 64)))
        await offload.parallel(body)
"""


def test_the_check_of_a_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-q")
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines([
        "stale data: a", "*writes a in kernel 'double' of target at *.py:*", "*target update from(a)*",
        "missing unmap: a",
    ])  # fmt: skip
