"""The order of tasks and threads in recorded programs: what OpenMP orders is no race, and all else is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from recorded_programs import built

from offloadrt.extensions.checking.checked import CheckReport, check
from offloadrt.extensions.recording.format import convert
from offloadrt.extensions.recording.toolchain import RecordOptions, record
from offloadrt.study.scripts import registry
from offloadrt.study.spec import RunSpec

Checked = Callable[..., CheckReport]
UNORDERED = {
    *("read_static", "written_static", "read_heap", "other", "entered", "mapped_heap", "other_depend"),
    *("nowait_wait", "twice", "task_of_task", "always"),
}
UNNAMED = {
    *("looped", "scope", "masked", "sections", "ordered", "nested_lock", "depobj", "inoutset", "affinity", "detach"),
    *("critical", "nowait", "single", "inner", "lock", "untied", "mutexset", "malloc"),
}
"""The arrays of `host_arrays.c` that its function `wrong` leaves unordered, and a block of the heap."""


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    """Return what a check says of a run of a program."""
    folder = tmp_path_factory.mktemp("order")

    def run(source: str, level: str, what: str, threads: int, **environment: str) -> CheckReport:
        place = folder / f"{source}{level}"
        place.mkdir(exist_ok=True)
        program = built(source, place, level)
        raw, file = place / f"{what}{threads}.raw", place / f"{what}{threads}.rec"
        if not file.exists():
            record([str(program), what], raw, [threads], RecordOptions(check=True))
            convert(raw, file)
        scenario = registry.find(str(file))
        return check(scenario, scenario.bind({}), RunSpec(environment=environment))

    return run


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("source", ["tasking.c", "tasking.f90"])
def test_what_is_ordered_is_no_race(checked: Checked, source: str, level: str, threads: int) -> None:
    assert checked(source, level, "right", threads).mistakes == ()


@pytest.mark.slow
@pytest.mark.parametrize("threads", [2, 8])
@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_what_is_not_ordered_is_one(checked: Checked, level: str, threads: int) -> None:
    mistakes = checked("tasking.c", level, "wrong", threads).mistakes
    assert {(one.kind, one.subject.split()[0].removeprefix("wrong.")) for one in mistakes} == {
        ("race", one) for one in UNORDERED
    }


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("source", ["host_arrays.c", "host_arrays.f90"])
def test_arrays_that_no_directive_names_have_the_same_order(
    checked: Checked, monkeypatch: pytest.MonkeyPatch, source: str, level: str, threads: int
) -> None:
    monkeypatch.setenv("OMP_CANCELLATION", "true")
    assert checked(source, level, "right", threads).mistakes == ()


@pytest.mark.slow
@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_host_threads_race_about_arrays_that_no_directive_names(checked: Checked, level: str) -> None:
    mistakes = checked("host_arrays.c", level, "wrong", 4).mistakes
    assert {(one.kind, one.subject.split()[0]) for one in mistakes} == {("race", one) for one in {*UNNAMED, "result"}}
    assert any("host_arrays.c:" in one.subject for one in mistakes)  # the line that allocates a block
    assert all("host_arrays.c:" in story.where for one in mistakes for story in one.stories)
    of_fortran = checked("host_arrays.f90", level, "wrong", 4).mistakes
    assert {(one.kind, one.subject.split()[0]) for one in of_fortran} == {("race", "u"), ("race", "malloc")}


@pytest.mark.slow
@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_tasks_may_use_what_belongs_to_the_thread_that_runs_them(checked: Checked, level: str) -> None:
    assert checked("own_thread.c", level, "right", 4).mistakes == ()
    wrong = checked("own_thread.c", level, "wrong", 4).mistakes
    assert {(one.kind, one.subject.split()[0]) for one in wrong} == {("race", "shared")}


@pytest.mark.slow
@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("what", ["threads", "pool", "openmp"])
def test_objects_that_threads_share_by_atomics_and_mutexes_do_not_race(checked: Checked, what: str, level: str) -> None:
    assert checked("host_objects.cpp", level, what, 4).mistakes == ()


@pytest.mark.slow
def test_without_events_on_mappings_the_maps_of_several_threads_race(checked: Checked) -> None:
    mistakes = checked("tasking.c", "-O0", "right", 2, LIBOMPTARGET_MAP_FORCE_ATOMIC="false").mistakes
    assert {(one.kind, one.subject.split()[0]) for one in mistakes} == {("race", "total")}
    assert all("LIBOMPTARGET_MAP_FORCE_ATOMIC=false" in one.advice for one in mistakes)


@pytest.mark.slow
def test_orders_that_are_left_out_are_said(checked: Checked) -> None:
    few, many = (checked("counted.c", "-O1", rounds, 2) for rounds in ("100", "300000"))
    assert few.mistakes == () and not any("left out" in one or "more often" in one for one in few.not_known)
    assert any("more often than is recorded" in one for one in many.not_known)
