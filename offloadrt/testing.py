"""The pytest plugin: emulated machines in virtual time, as a fixture for pytest-trio.

    async def test_allocations_queue_at_the_table(offload):
        offload.set("alloc.cudaMalloc_small", "50 ms")

        async def body(t):
            await t.target_enter_data(omp.map(to=t.array("a", 8192)))

        await offload.parallel(body, num_threads=8)
        assert offload.locks["device table"].contended == 7

`offload` is a `Run` (see `offloadrt.study.running.run`) and the clock of the test's `trio.run`: in the test function
and in all that it starts, time is virtual. The test function is the first actor, so it may await everything of
`offload` and of `offload.sim` itself. The mark `@pytest.mark.offload(machine=..., runtime=..., gear=..., seed=...,
strategy=..., overrides={...}, phantom=..., model="openmp"|"openacc"|"stdpar"|"cuda", compiler=..., pools=...,
configuration=..., allocator=..., table_policy=..., implementation=..., pool_gb=..., system_usm=..., heuristic=...,
heuristic_file=..., devices=..., record=True, check=True)` says how the run is made; `strategy`, `configuration`,
`allocator` and `table_policy` may be objects of one's own (`runtime/configurations/base.py` and
`machine/host_lock/policy.py` say what one has). A fixture `offload_options` that returns such a dict does so too, and
may be parametrized. It needs pytest-trio.

An OpenMP program is checked while it runs (`offloadrt.checking`): a test that passed fails for a race, for stale or
uninitialised data, and for the use of memory that was freed or not mapped; with ``check="all"`` also for what is left
mapped and for the other mistakes of maps. ``check=False`` leaves the checker out.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from offloadrt.checking import Checker
    from offloadrt.study import Run

_OF_THE_PROGRAM = {
    "phantom": "phantom",
    "compiler": "compiler",
    "pools": "pools",
    "configuration": "configuration",
    "allocator": "allocator",
    "host_program": "host_program",
    "table_policy": "table_policy",
    "implementation": "implementation",
    "pool_gb": "pool_gb",
    "system_usm": "system_usm",
    "heuristic": "heuristic",
    "heuristic_file": "heuristic_file",
    "devices": "num_devices",
}
"""Options of the mark that are options of the program, and their names there."""
_OF_THE_RUN = (
    "machine", "runtime", "overrides", "range_end", "environment", "seed", "gear", "strategy", "record", "hash", "sinks"
)  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line(
        "markers",
        "offload(machine, runtime, gear, seed, strategy, overrides, phantom, model, compiler, pools, configuration, "
        "allocator, table_policy, implementation, pool_gb, system_usm, heuristic, heuristic_file, devices, record, "
        "check): "
        "how the emulated machine of the fixture `offload` is made",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give an async test that takes `offload` to pytest-trio, with or without its `trio_mode`."""
    for item in items:
        if (
            isinstance(item, pytest.Function)
            and "offload" in item.fixturenames
            and inspect.iscoroutinefunction(item.obj)
            and item.get_closest_marker("trio") is None
        ):
            item.add_marker(pytest.mark.trio)


@pytest.fixture
def offload_options() -> Mapping[str, Any]:
    """Return options for `offload`, as the mark takes them; override or parametrize it for a whole module."""
    return {}


@pytest.fixture
def offload(request: pytest.FixtureRequest, offload_options: Mapping[str, Any]) -> Run:
    """Make an emulated machine in virtual time for one test.

    It is alex-a100 in gear native, unless the mark says otherwise.
    """
    from offloadrt.study.errors import UserError
    from offloadrt.study.running.building import check
    from offloadrt.study.running.clock import ClockedRun
    from offloadrt.study.running.options import options_for

    if not request.config.pluginmanager.hasplugin("trio"):
        raise pytest.UsageError("offload: tests in virtual time need pytest-trio: pip install 'offloadrt[testing]'")
    options: dict[str, Any] = {"gear": "native", **offload_options}
    for mark in reversed(list(request.node.iter_markers("offload"))):
        options |= mark.kwargs
    known = (*_OF_THE_RUN, "model", "check", *_OF_THE_PROGRAM)
    if unknown := [name for name in options if name not in known]:
        raise pytest.UsageError(f"offload: no option {unknown[0]!r}; there are {', '.join(known)}")
    try:
        run = ClockedRun(**{name: value for name, value in options.items() if name in _OF_THE_RUN})
        run.options = options_for(options.get("model", "openmp"))()
        run.configure(**{_OF_THE_PROGRAM[name]: value for name, value in options.items() if name in _OF_THE_PROGRAM})
        check(run.spec, run.options)
        _watch(request.node, run, options.get("check", True))
    except UserError as error:
        raise UserError(f"mark offload: {str(error).removeprefix('--')}") from None
    return run


_CHECKED: pytest.StashKey[tuple[Checker, bool]] = pytest.StashKey()
"""The checker of a test's run, and whether all that it finds fails the test."""


def _watch(node: pytest.Item, run: Run, wanted: object) -> None:
    """Check the run's program, unless it is not wanted or no OpenMP program."""
    from offloadrt.checking import Checker

    if wanted not in (True, False, "all"):
        raise pytest.UsageError(f"offload: check is {wanted!r}, but can be True, False or 'all'")
    if wanted and run.options.model == "openmp":
        checker = Checker(run.sim)
        run.observe(checker)
        node.stash[_CHECKED] = checker, wanted == "all"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Make the test function the first actor of the run, before pytest-trio takes it; a single error is no group."""
    __tracebackhide__ = True
    if not (isinstance(item, pytest.Function) and "offload" in item.funcargs and inspect.iscoroutinefunction(item.obj)):
        return (yield)
    from offloadrt.study.scripts.tracebacks import unwrapped

    item.obj = _as_actor(item.obj, item.funcargs["offload"])
    try:
        result = yield
    except BaseExceptionGroup as group:
        raise unwrapped(group) from None
    if _CHECKED in item.stash:
        checker, everything = item.stash[_CHECKED]
        mistakes = [mistake for mistake in checker.finish() if everything or mistake.is_grave]
        if mistakes:
            pytest.fail("\n".join([line for mistake in mistakes for line in mistake.lines()]), pytrace=False)
    return result


def _as_actor(test: Callable[..., Awaitable[Any]], run: Any) -> Callable[..., Awaitable[None]]:
    @functools.wraps(test)
    async def in_virtual_time(**arguments: Any) -> None:
        __tracebackhide__ = True
        await run.live(functools.partial(test, **arguments))

    return in_virtual_time
