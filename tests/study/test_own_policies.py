"""Policies of one's own are objects, given to a run, a scenario or the mark; what is none is refused at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from offloadrt import Run, scenario
from offloadrt import openacc as acc
from offloadrt import openmp as omp
from offloadrt.kernels import Kernel
from offloadrt.runtime.allocators import Direct
from offloadrt.runtime.configurations import MapRequest, Placement, UnifiedSharedMemory
from offloadrt.sim import Actor
from offloadrt.study import ScriptFailed, UserError, execute
from offloadrt.study.running.building import check, options_for

pytest_plugins = ["pytester"]


class EverythingOnHost(UnifiedSharedMemory):
    """No map is a storage operation."""

    def place(self, request: MapRequest) -> Placement:
        return Placement.HOST_POINTER


class Counted(Direct):
    """Counts the blocks that are asked for."""

    asked = 0

    def allocate(self, nbytes: int, phantom: bool) -> Any:
        type(self).asked += 1
        return super().allocate(nbytes, phantom)


@attrs.define
class LastFirst:
    """Whoever came last runs first."""

    name: str = "last first"
    seen: int = 0

    def choose(self, ready: Sequence[Actor]) -> int:
        self.seen += 1
        return len(ready) - 1


@scenario
async def mapping(run: Run, own: str = "") -> None:
    """Two threads map an array each."""
    if own == "configuration":
        run.configuration = EverythingOnHost()
    if own == "allocator":
        run.allocator = Counted

    async def body(t: omp.HostThread) -> None:
        async with t.target_data(omp.map(tofrom=t.array("a", 1 << 20, fill=1.0))):
            pass

    await run.parallel(body, num_threads=2)


def test_a_memory_configuration() -> None:
    mapped, in_place = (execute(mapping, {"own": own}, machine="mi300a").bytes.h2d for own in ("", "configuration"))
    assert mapped - in_place == 2 * 8 << 20
    with pytest.raises(UserError, match=r"usm' on alex-a100: only the kernels of an APU .* take 'managed'"):
        execute(mapping, {"own": "configuration"})


def test_an_allocator() -> None:
    execute(mapping, {"own": "allocator"})
    assert Counted.asked == 2


def test_a_strategy() -> None:
    mine = LastFirst()
    result = execute(mapping, strategy=mine)
    assert mine.seen > 0 and result.options == {"strategy": "last first"}


class Undecided(UnifiedSharedMemory):
    """Forgets to answer."""

    def place(self, request: MapRequest) -> Placement:
        return None  # type: ignore[return-value]  # what is tested


def test_a_memory_configuration_that_does_not_answer() -> None:
    @scenario
    async def mapping(run: Run) -> None:
        run.configuration = Undecided()
        await run.parallel(lambda t: t.target_enter_data(omp.map(to=t.array("a", 8))))

    with pytest.raises(ScriptFailed, match=r"memory configuration 'usm' \(class Undecided\): place returns None"):
        execute(mapping, machine="mi300a")


@attrs.define
class Lost:
    """Chooses what it was made with."""

    chosen: Any
    name: str = "lost"

    def choose(self, ready: Sequence[Actor]) -> int:
        return self.chosen() if callable(self.chosen) else self.chosen  # type: ignore[no-any-return]


@pytest.mark.parametrize("gear", ["turbo", "native"])
@pytest.mark.parametrize(
    ("chosen", "said"),
    [(99, "returned 99"), (-1, "returned -1"), (None, "raised TypeError"), ([].pop, "raised IndexError")],
)
def test_a_strategy_that_chooses_nobody(chosen: Any, said: str, gear: str) -> None:
    with pytest.raises(ScriptFailed, match=f"'lost': choose {said}.* at t=0, with 3 actors ready; .*from 0 to 2"):
        execute(mapping, strategy=Lost(chosen), gear=gear)


class Unfinished:
    name = "unfinished"

    def place(self, request: MapRequest) -> Placement:
        return Placement.HOST_POINTER


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        ("configuration", Unfinished(), "Unfinished is no memory configuration: it lacks host_access, "),
        ("configuration", EverythingOnHost, "EverythingOnHost is no memory configuration: it is a class"),
        ("configuration", "zerocopy", "no memory configuration 'zerocopy'; there are: copy"),
        ("allocator", 3, "3 makes no allocator"),
        ("allocator", Kernel("scale"), "scale makes no allocator"),
        ("allocator", "best_fit", "no allocator 'best_fit'; there are: direct"),
        ("num_devices", 99, "99 devices: alex-a100 has"),
    ],
)
def test_what_is_none_is_refused(attribute: str, value: Any, message: str) -> None:
    run = Run()
    run.configure(**{attribute: value})
    with pytest.raises(UserError, match=message):
        check(run.spec, run.options)


def test_an_option_of_another_model_is_refused() -> None:
    run = Run()
    with pytest.raises(UserError, match=r"a program of openmp has no option 'compiler'; there are: phantom, "):
        run.configure(compiler="gcc")
    run.options = acc.OpenACCOptions()
    with pytest.raises(UserError, match="a program of openacc has no option 'configuration'"):
        run.configuration = "managed"
    with pytest.raises(UserError, match="'gcc' are no options of a program"):
        run.options = "gcc"  # type: ignore[assignment]  # on purpose
    with pytest.raises(UserError, match="model 'opencl': it can be cuda, openacc, openmp, stdpar"):
        options_for("opencl")


@pytest.mark.parametrize("change", [lambda run: run.configure(phantom=True), lambda run: setattr(run, "phantom", True)])
def test_options_are_fixed_once_the_machine_is_built(change: Callable[[Run], None]) -> None:
    run = Run()
    assert run.machine.devices
    with pytest.raises(UserError, match=r"run\.options: the machine runs already"):
        change(run)


def test_a_strategy_that_chooses_nothing_is_refused() -> None:
    with pytest.raises(UserError, match="strategy Unfinished: is no object with `name` and `choose"):
        Run(strategy=Unfinished())  # type: ignore[arg-type]  # on purpose


def test_the_mark_is_checked_before_the_machine_is_used(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    options = ("devices=99", "configuration='zerocopy'", "allocator='x'", "gear='fast'", "strategy='lifo'")
    pytester.makepyfile(
        "import pytest\n"
        + "".join(
            f"@pytest.mark.offload({option})\nasync def test_{number}(offload): pass\n"
            for number, option in enumerate(options)
        )
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(errors=len(options))
    result.stdout.fnmatch_lines(["*mark offload: 99 devices*", "*mark offload: gear fast: it can be*"])
