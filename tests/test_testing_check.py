"""The pytest plugin runs programs of tests under the checker, unless it is told not to."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

PROGRAMS = """
import pytest
from offloadrt import kernel, openmp as omp

@kernel
def double(a, n):
    for i in range(n):
        a[i] = a[i] * 2.0

async def stale(offload):
    async def body(t):
        a = t.array("a", 64, fill=1.0)
        await t.target(double, a, 8, maps=omp.map(to=a))
        a.data.sum()

    await offload.parallel(body, num_threads=1)

async def test_stale(offload):
    await stale(offload)

@pytest.mark.offload(check=False)
async def test_whose_subject_it_is(offload):
    await stale(offload)

async def test_that_leaves_a_map(offload):
    async def body(t):
        await t.target_enter_data(omp.map(to=t.array("a", 64, fill=1.0)))

    await offload.parallel(body, num_threads=1)

@pytest.mark.offload(check=True)
async def test_that_is_a_whole_program(offload):
    await test_that_leaves_a_map(offload)

@pytest.mark.offload(model="cuda")
async def test_of_another_model(offload):
    await offload.sim.sleep(1.0)
"""


def _outcomes(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    pytester.makepyfile(PROGRAMS)
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-rf", *options)


def test_a_mistake_fails_the_test_with_the_report(pytester: pytest.Pytester) -> None:
    result = _outcomes(pytester)
    result.assert_outcomes(passed=3, failed=2)
    result.stdout.fnmatch_lines(["offloadrt check reports:", "stale data: a", "*reads a on the host at *.py:13 *"])
    result.stdout.fnmatch_lines(["missing unmap: a"])


@pytest.mark.parametrize("how", ["option", "ini"])
def test_the_checker_is_turned_off_where_no_mark_asks_for_it(pytester: pytest.Pytester, how: str) -> None:
    if how == "ini":
        pytester.makeini("[pytest]\noffload_check = false")
    result = _outcomes(pytester, *(["--offload-no-check"] if how == "option" else []))
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["FAILED *::test_that_is_a_whole_program*"])


def test_a_test_that_fails_says_why_itself(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(PROGRAMS + "    assert offload.elapsed == 2.0")
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-k", "another_model")
    result.stdout.fnmatch_lines(["*assert 1.0 == 2.0"])
