"""The pytest plugin: emulated machines in virtual time, as a fixture for pytest-trio.

    async def test_allocations_queue_at_the_table(offload):
        offload.set("alloc.cudaMalloc_small", "50 ms")

        async def body(t):
            await t.target_enter_data(omp.map(to=t.array("a", 8192)))

        await offload.parallel(body, num_threads=8)
        assert offload.locks["device table"].contended == 7

`offload` is a `Run` (see `offloadrt.study.running.run`) and the clock of the test's `trio.run`: in the test function
and in all tasks that it starts, time is virtual. The test function is the first actor, so it may itself await the
methods of `offload` and of `offload.sim`. `@pytest.mark.offload(machine=..., seed=..., overrides={...}, ...)` says how
the run is made. This mark takes the fields of `RunSpec` (`study/spec.py`); `model`, which is "openmp", "openacc",
"stdpar" or "cuda"; and the options of that model's programs (`OpenMPOptions`, …), where `devices` is short for
`num_devices`. Strategies and the runtime's policies may be your own objects (`runtime/device.py` and
`machine/host_lock/policy.py` say which methods they need). The fixture `offload_options` may return the same options in
a dict, and may be parametrized. The plugin needs pytest-trio.

`@pytest.mark.offload(explore="pct:3", runs=500)` runs the test in the order of scheduling, and then under 500 schedules
of the strategy `pct:3`; `--offload-explore pct:3` and `--offload-runs` do so for all tests with `offload`. A failure
has a note with the shortened schedule and a token; `--offload-replay TOKEN` runs that test under that schedule again.
Each run has a new `offload`; the test's other fixtures are made once, so none of them may depend on `offload` or be
asynchronous. With `check=True` in the mark, a report of `offloadrt check` about one of these runs fails the test. With
`faults="everywhere"` the test is run once for each of its awaits, and that call of the driver fails or that thread
dies: a run that hangs, leaves resources behind, fails an assertion or raises an error without a name is a failure.

A test with `offload` runs under the checker of `offloadrt check`: a race, stale data or a wrong map of its program
fails it with the report. Only with `check=True` does it also report data that the test leaves mapped (a test is part
of a program), and check the runs of an exploration. `@pytest.mark.offload(check=False)` turns the checker off for a
test, `--offload-no-check` or `offload_check = false` in the ini file for all tests whose marks do not ask for it.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs
import pytest

from offloadrt.registry import NotInstalled, Registry

if TYPE_CHECKING:
    from offloadrt.study import Run

_EXPLORING = ("explore", "runs", "check")
_CHECKERS: Final = Registry[Callable[[Any], Callable[[], list[str]]]]("checker", "offloadrt.checkers")
"""A checker is called with a run that has not begun; it returns a function that lists its reports after the run."""
_EXPLORERS: Final = Registry[Any]("way to explore tests", "offloadrt.test_explorers")
"""Modules that run a test under many schedules and read tokens (`extensions/exploring/tested.py`)."""


class _Exploring(NamedTuple):
    """What a test's mark says about further runs: strategy of the schedules, their number, whether to check."""

    strategy: str | None
    runs: int | None
    check: bool | None
    everywhere: bool
    """Whether each await of the test is struck by a fault, one in each run."""


_MAKES: pytest.StashKey[Callable[..., Any]] = pytest.StashKey()
_EXPLORED: pytest.StashKey[_Exploring] = pytest.StashKey()
_REPORTS: pytest.StashKey[Callable[[], list[str]]] = pytest.StashKey()
_TOKEN: pytest.StashKey[Any] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options that run tests under many schedules, and one that does not look for races and wrong maps in them."""
    group = parser.getgroup("offloadrt")
    group.addoption(
        "--offload-explore", metavar="STRATEGY", help="run tests with `offload` under many schedules: pct:3"
    )
    group.addoption("--offload-runs", metavar="N", type=int, help="how many schedules; by default 100")
    group.addoption("--offload-replay", metavar="TOKEN", help="run the test of a token under the token's schedule")
    group.addoption("--offload-no-check", action="store_true", help="do not check the programs of tests for mistakes")
    parser.addini("offload_check", "check the programs of tests with `offload` for mistakes", type="bool", default=True)


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark `offload`, check the options, and decode the token of `--offload-replay`."""
    try:
        config.getini("offload_check")
    except (ValueError, pytest.UsageError) as error:
        raise pytest.UsageError(f"offload_check of the ini file: {error}") from None
    text, *plan = (config.getoption(f"--offload-{name}", None) for name in ("replay", "explore", "runs"))
    if (text, *plan) != (None, None, None):
        from offloadrt.study.errors import UserError

        explorer = _installed(_EXPLORERS, "schedules", "explore")
        try:
            explorer.check_plan(*plan)
            if text is not None:
                config.stash[_TOKEN] = explorer.Token.decode(text)
        except UserError as error:
            raise pytest.UsageError(f"--offload-{error}") from None
    config.addinivalue_line(
        "markers",
        "offload(machine, seed, strategy, overrides, ..., model, phantom, devices, ..., explore, runs, check): "
        "how the emulated machine of the fixture `offload` is made: fields of RunSpec, options of the model's programs",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let pytest-trio run async tests with the fixture `offload`, even without `trio_mode`.

    With `--offload-replay`, keep only the test that the token names.
    """
    if (token := config.stash.get(_TOKEN, None)) is not None:
        others = [item for item in items if item.nodeid != token.program]
        if len(others) == len(items):
            raise pytest.UsageError(
                f"--offload-replay: the test {token.program} is not among those that were collected"
            )
        items[:] = [item for item in items if item.nodeid == token.program]
        config.hook.pytest_deselected(items=others)
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
    """Return options for the fixture `offload`, as `@pytest.mark.offload` takes them; a module may override this."""
    return {}


@pytest.fixture
def offload(request: pytest.FixtureRequest, offload_options: Mapping[str, Any]) -> Run:
    """Make an emulated machine in virtual time for one test.

    The machine is `alex-a100` and the engine `native`, unless `@pytest.mark.offload` says otherwise.
    """
    from offloadrt.machine.injection import EVERYWHERE
    from offloadrt.study.errors import UserError
    from offloadrt.study.running.building import check, options_for
    from offloadrt.study.running.execution import ClockedRun

    if not request.config.pluginmanager.hasplugin("trio"):
        raise pytest.UsageError("offload: tests in virtual time need pytest-trio: pip install 'offloadrt[testing]'")
    if not isinstance(offload_options, Mapping):
        raise pytest.UsageError(f"offload_options: returns {offload_options!r:.80}, which is no dict of options")
    options: dict[str, Any] = {"gear": "native", **offload_options}
    for mark in reversed(list(request.node.iter_markers("offload"))):
        if mark.args:
            raise pytest.UsageError(f"offload: {mark.args[0]!r:.80} has no name; an option is written machine='t4'")
        options |= mark.kwargs
    if not isinstance(options.get("check"), bool | None):
        raise pytest.UsageError(f"offload: check is {options['check']!r:.80}, but must be True or False")
    of_run, of_program = _divided(options)
    everywhere = options.get("faults") == EVERYWHERE
    by_plan, overrides = () if everywhere else options.get("faults", ()), options.get("overrides", {})
    if not isinstance(by_plan, list | tuple):
        raise pytest.UsageError(f"offload: faults is {by_plan!r:.80}; it takes a list of faults, or {EVERYWHERE!r}")
    if not isinstance(overrides, Mapping) or not all(isinstance(entry, str) for entry in overrides):
        raise pytest.UsageError(f"offload: overrides is {overrides!r:.80}; it takes a dict by names of entries")

    def make(**changes: Any) -> ClockedRun:
        changes["overrides"] = {**overrides, **changes.get("overrides", {})}
        changes["faults"] = (*by_plan, *changes.get("faults", ()))
        run = ClockedRun(**{**of_run, **changes})
        run.options = options_for(options.get("model", "openmp"))()
        run.configure(**of_program)
        check(run.spec, run.options)
        return run

    request.node.stash[_MAKES] = make
    request.node.stash[_EXPLORED] = _Exploring._make((*map(options.get, _EXPLORING), everywhere))
    try:
        run = make()
    except UserError as error:
        raise UserError(f"mark offload: {str(error).removeprefix('--')}") from None
    if options.get("explore") is None and request.config.getoption("--offload-explore") is None:
        _watch(request.node, run, options.get("check"))
    return run


def _divided(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the options of a mark into those of the run and those of the program.

    Raises UsageError for an unknown option.
    """
    from offloadrt.models.host.program import MODELS
    from offloadrt.study.spec import POLICIES, RunSpec

    fields = [*(field.name for field in attrs.fields(RunSpec) if field.name not in POLICIES), "sinks"]
    of_run = {name: value for name, value in options.items() if name in fields}
    rest = [name for name in options if name not in (*fields, "model", *_EXPLORING)]
    of_program = {"num_devices" if name == "devices" else name: options[name] for name in rest}
    models = MODELS.installed() if rest else ()
    of_models = {field.name: None for model in models for field in attrs.fields(model.options)}
    if unknown := [name for name in of_program if name not in of_models]:
        known = (*fields, "model", "devices", *of_models, *_EXPLORING)
        raise pytest.UsageError(f"offload: no option {unknown[0]!r}; there are {', '.join(known)}")
    return of_run, of_program


def _watch(item: pytest.Item, run: Run, asked: bool | None) -> None:
    """Let the checker watch a test's run, unless its mark, the command line or the ini file says otherwise."""
    if asked:
        item.stash[_REPORTS] = _installed(_CHECKERS, "mistakes", "check")(run)
        return
    wanted = asked is None and item.config.getini("offload_check") and not item.config.getoption("--offload-no-check")
    if wanted and "mistakes_in_a_test" in _CHECKERS.points():
        with contextlib.suppress(NotInstalled):
            item.stash[_REPORTS] = _CHECKERS.load("mistakes_in_a_test")(run)


def _installed(parts: Registry[Any], name: str, option: str) -> Any:
    try:
        return parts.load(name)
    except ValueError as error:
        raise pytest.UsageError(f"{option}: {error}") from None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Run the test as the first actor of the emulated run, then under other schedules if `--offload-explore` asks."""
    __tracebackhide__ = True
    if not (isinstance(item, pytest.Function) and "offload" in item.funcargs and inspect.iscoroutinefunction(item.obj)):
        return (yield)
    from offloadrt.study.scripts.tracebacks import unwrapped

    test, token = item.obj, item.config.stash.get(_TOKEN, None)
    item.obj = _as_actor(test, item.funcargs["offload"])
    try:
        result = yield
    except BaseExceptionGroup as group:
        if token is None:
            raise unwrapped(group) from None
    except Exception:
        if token is None:
            raise
    else:
        if token is None and (reports := item.stash.get(_REPORTS, None)) is not None and (found := reports()):
            pytest.fail("\n".join(["offloadrt check reports:", *found]), pytrace=False)
    error = _explored(item, test, token)
    if error is not None:
        raise error
    return None if token is not None else result


def _explored(item: pytest.Function, test: Callable[..., Awaitable[Any]], token: Any | None) -> BaseException | None:
    """Run a test under a token's schedule, or under as many schedules as its mark or the command line says.

    Returns the error of a failed run; None if no run failed.
    """
    asked = item.stash[_EXPLORED]
    strategy = item.config.getoption("--offload-explore") if asked.strategy is None else asked.strategy
    if strategy is None and token is None and not asked.everywhere:
        return None
    explorer = _installed(_EXPLORERS, "schedules", "explore")
    if stale := explorer.made_once(item):
        if asked.strategy is not None or token is not None or asked.everywhere:
            raise pytest.UsageError(
                f"explore: the fixture {stale!r} is made of `offload` or asynchronous, and would be made only once; "
                "make what it gives in the test itself"
            )
        return None
    from offloadrt.study.errors import UserError

    checked = asked.check if token is None else token.options.get(explorer.CHECKED, False)
    checkers = (_installed(_CHECKERS, "mistakes", "check"),) if checked else ()
    explored = explorer.explored_test(item, test, item.stash[_MAKES], checkers)
    error: BaseException | None
    if token is not None:
        error = explorer.replay_test(explored, token)
        return error
    try:
        runs = item.config.getoption("--offload-runs") or asked.runs
        error = explorer.explore_test(explored, strategy, runs, faults=asked.everywhere)
        return error
    except UserError as error:
        raise pytest.UsageError(f"mark offload: {error}") from None


def _as_actor(test: Callable[..., Awaitable[Any]], run: Any) -> Callable[..., Awaitable[None]]:
    @functools.wraps(test)
    async def in_virtual_time(**arguments: Any) -> None:
        __tracebackhide__ = True
        await run.live(functools.partial(test, **arguments))

    return in_virtual_time
