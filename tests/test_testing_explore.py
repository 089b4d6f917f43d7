"""The pytest plugin explores schedules: a failure has a token, a story and both sites."""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest

from offloadrt import models

pytest_plugins = ["pytester"]

LAZY = [module.name for module in pkgutil.walk_packages(models.__path__, "offloadrt.models.")]
for name in (
    "numpy.random",
    "pint",
    "offloadrt.extensions.exploring.tested",
    "offloadrt.study.running.execution",
    *LAZY,
):
    importlib.import_module(name)
"""Pytester forgets what its runs in this process import: a class that is imported twice is two classes."""

RACE = """
    import pytest
    from offloadrt import kernel
    from offloadrt import openmp as omp

    @kernel(flops_per_iteration=1, bytes_per_iteration=16)
    def fill(a, value):
        a[:] = value

    @pytest.fixture
    def late():
        return 60e-6

    @pytest.mark.offload(explore="delay:2", runs=60)
    async def test_update(offload, late):
        shared = {}

        async def body(t):
            if t.number == 0:
                shared["a"] = t.array("a", 64, fill=0.0)
                await t.target_enter_data(omp.map(to=shared["a"]))
            await t.barrier()
            if t.number == 0:
                await t.target(fill, shared["a"], 1.0, iterations=64)
            else:
                await t.compute(late)
                await t.target_update(omp.from_(shared["a"]))

        await offload.parallel(body, num_threads=2)
        assert shared["a"][0] == 1.0

    @pytest.mark.offload(explore="random", runs=3)
    async def test_that_holds(offload):
        await offload.sim.sleep(1.0)

    @pytest.fixture
    def rig(offload):
        return offload

    @pytest.mark.offload(explore="random")
    async def test_of_a_rig(rig):
        await rig.sim.sleep(1.0)

    async def test_that_skips(offload):
        pytest.skip("as it likes")
"""


def test_a_failure_has_a_story_and_a_token_that_replays(pytester: pytest.Pytester) -> None:
    path = pytester.makepyfile(RACE)
    arguments = ("-p", "no:cacheprovider", "--offload-explore", "random", "--offload-runs", "40")
    result = pytester.runpytest_inprocess(*arguments)
    result.assert_outcomes(passed=1, failed=2, skipped=1)
    result.stdout.fnmatch_lines(
        [
            "*assert shared*",
            "*schedule * of delay:2, made smaller in * runs:*",
            "*host thread 0 (*.py:23) is held back for *",
            "*meanwhile host thread 1 (*.py:25), host thread 1 (*.py:26)*",
        ]
    )
    result.stdout.fnmatch_lines(["*explore: the fixture 'rig' is made of `offload`*"])
    token = re.findall(r"--offload-replay (offloadrt1\.\S+)", result.stdout.str())[0]
    again = pytester.runpytest_inprocess("-p", "no:cacheprovider", f"--offload-replay={token}")
    again.assert_outcomes(failed=1, deselected=3)
    again.stdout.fnmatch_lines(["*the schedule of the token:*", "*is held back for*"])
    path.write_text(path.read_text().replace("omp.from_", "omp.to"))
    mended = pytester.runpytest_inprocess("-p", "no:cacheprovider", f"--offload-replay={token}")
    mended.stdout.fnmatch_lines(["*the program changed since*"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--offload-replay", "offloadrt1.nonsense"), "the token cannot be read"),
        (("--offload-replay", ""), "--offload-replay: no token"),
        (("--offload-explore", "lifo"), "--offload-explore: lifo: there are"),
        (("--offload-explore", ""), "--offload-explore: : there are"),
        (("--offload-runs", "0"), "--offload-runs: 0 is no whole number from 1 to 1,000,000"),
        (("--offload-explore=pct:3", "--offload-runs=-1"), "--offload-runs: -1 is no whole number"),
        (("-o", "offload_check=perhaps"), "offload_check of the ini file: invalid truth value 'perhaps'"),
    ],
)
def test_what_cannot_be_done_is_said(pytester: pytest.Pytester, options: tuple[str, str], message: str) -> None:
    pytester.makepyfile("async def test_nothing(offload): ...")
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", *options)
    assert result.ret != 0 and message in result.stdout.str() + result.stderr.str()


MARKS = [
    ("explore=3", "mark offload: explore: 3 is no text, as 'pct:3' is"),
    ("explore=''", "mark offload: explore: : there are"),
    ("explore='random', runs=-1", "mark offload: runs: -1 is no whole number from 1 to 1,000,000"),
    ("explore='random', runs=float('nan')", "mark offload: runs: nan is no whole number"),
    ("faults='everywhere', runs='x'", "mark offload: runs: 'x' is no whole number"),
    ("check='no'", "offload: check is 'no', but must be True or False"),
    ("phantom='yes'", "mark offload: phantom is 'yes', but must be True or False"),
    ("requires_unified_shared_memory=1", "requires_unified_shared_memory is 1, but must be True or False"),
    ("'alex-a100'", "offload: 'alex-a100' has no name; an option is written machine='t4'"),
]


def test_what_a_mark_cannot_ask_for_is_said(pytester: pytest.Pytester) -> None:
    tests = (f"@pytest.mark.offload({mark})\nasync def test_{n}(offload): ..." for n, (mark, _) in enumerate(MARKS))
    pytester.makepyfile("import pytest\n\n" + "\n\n".join(tests))
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    missing = [message for _, message in MARKS if message not in result.stdout.str()]
    assert not missing and sum(result.parseoutcomes().values()) == len(MARKS)


def test_what_the_checker_reports_fails_a_test_that_asks_for_it(pytester: pytest.Pytester) -> None:
    body = """
        async def body(t):
            a = t.array("a", 64, fill=0.0)
            await t.target_enter_data(omp.map(to=a))

        await offload.parallel(body, num_threads=1)
    """
    pytester.makepyfile(
        f"""
    import pytest
    from offloadrt import openmp as omp

    @pytest.mark.offload(explore="random", runs=2, check=True)
    async def test_checked(offload):{body}

    @pytest.mark.offload(explore="random", runs=2)
    async def test_unchecked(offload):{body}

    @pytest.mark.offload(explore="random", runs=2, check=True)
    async def test_that_skips_itself(offload):{body}
        pytest.skip("it has nothing more to show")
    """
    )
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1, skipped=1)
    result.stdout.fnmatch_lines(["*AssertionError: missing unmap: a*", "*target enter data at *.py:8 *"])
    token = re.findall(r"--offload-replay (offloadrt1\.\S+)", result.stdout.str())[0]
    again = pytester.runpytest_inprocess("-p", "no:cacheprovider", f"--offload-replay={token}")
    again.assert_outcomes(failed=1, deselected=2)
    again.stdout.fnmatch_lines(["*AssertionError: missing unmap: a*"])


FAULTS = """
    import pytest
    from offloadrt import openmp as omp

    @pytest.mark.offload(faults=["cuMemAlloc:1+"])
    async def test_no_memory(offload):
        async def body(t):
            return await t.omp_target_alloc(1 << 20)

        assert await offload.parallel(body) == [None]

    @pytest.mark.offload(faults="everywhere")
    async def test_ready(offload):
        async def body(t):
            await t.omp_target_free(await t.omp_target_alloc(1 << 20))

        await offload.parallel(body)

    @pytest.mark.offload(faults="everywhere")
    async def test_not_ready(offload):
        async def body(t):
            assert await t.omp_target_alloc(1 << 20) is not None

        await offload.parallel(body)
"""


def test_a_mark_injects_faults_by_plan_and_everywhere(pytester: pytest.Pytester) -> None:
    path = pytester.makepyfile(FAULTS)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*assert await t.omp_target_alloc*", "*fault cuMemAlloc:1+: AssertionError*"])
    (token,) = set(re.findall(r"--offload-replay (\S+)", result.stdout.str()))  # told twice where CI is set
    again = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--offload-replay", token, path)
    again.assert_outcomes(failed=1, deselected=2)
