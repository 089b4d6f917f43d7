"""A recording runs as a program: its operations, its order, its kernels' costs."""

from __future__ import annotations

from pathlib import Path

import pytest
from raw_program import BEGIN, END, FROM, KERNEL, PARAM, TO, RawProgram, only
from replaying import replayed

from offloadrt.extensions.recording.format.recording import EndKind
from offloadrt.extensions.recording.replay import ReplayRefused
from offloadrt.kernels import Kernel
from offloadrt.trace import events

X, Y, DEVICE = 1 << 20, 1 << 22, 1 << 40
SIZE = 1 << 20
SAMPLES = [
    "babelstream_1M", "exahype_nowait_8threads", "hecbench_wyllie_barriers", "overlap_4threads", "saxpy_fortran",
    "usm_touch", "xsbench_event_small",
]  # fmt: skip


def mapped(program: RawProgram, *, tid: int = 0, at: int = X, cost=None) -> None:
    device = DEVICE + at
    ops = [("alloc", at, device, SIZE), ("h2d", at, device, SIZE)]
    program.directive(BEGIN, (at, SIZE, TO | FROM), line=10, tid=tid, ops=ops)
    program.directive(KERNEL, (at, SIZE, PARAM), line=11, tid=tid, cost=cost or {})
    program.directive(
        END, (at, SIZE, FROM), line=12, tid=tid, ops=[("d2h", device, at, SIZE), ("delete", device, 0, 0)]
    )


@pytest.mark.parametrize("name", SAMPLES)
def test_the_samples_do_what_the_real_runtime_did(sample, name: str) -> None:
    recording = sample(name)
    turbo, native = replayed(recording), replayed(recording, gear="native")
    assert turbo.outcome.agrees and turbo.outcome.equal == turbo.outcome.compared == turbo.outcome.directives
    assert turbo.outcome == native.outcome and turbo.hash == native.hash


def test_operations_that_differ_are_reported_with_the_line(tmp_path: Path) -> None:
    program = RawProgram()
    mapped(program)
    program.directive(BEGIN, (Y, 64, TO), line=20, ops=[("alloc", Y, DEVICE, 64)])
    outcome = replayed(program.recorded(tmp_path)).outcome
    assert (outcome.compared, outcome.equal) == (4, 3)
    (difference,) = outcome.differences
    assert str(difference) == "app.c:20 (__tgt_target_data_begin_mapper, 1 directive): only emulated: 1 x h2d of 64 B"


def test_operations_that_another_thread_did_are_no_difference(tmp_path: Path) -> None:
    """Which thread maps a shared array first, and so copies it, is up to the order in which they come."""
    program = RawProgram()
    program.begin_team(5, 2)
    program.member(5, 11, 1, 2, tid=1)
    program.member(5, 10, 0, 2, tid=0)
    program.work(1_000_000, tid=1)
    ops = [("alloc", X, DEVICE, 64), ("h2d", X, DEVICE, 64)]
    program.directive(BEGIN, (X, 64, TO), tid=1, ops=ops)
    program.directive(BEGIN, (X, 64, TO), tid=0)
    for tid in (1, 0):
        program.end_member(10 + tid, tid=tid)
    program.end_team(5)
    outcome = replayed(program.recorded(tmp_path)).outcome
    assert outcome.agrees and (outcome.equal, outcome.moved) == (0, 2)


# kernels


def kernel_seconds(tmp_path: Path, cost, **kernel) -> tuple[float, object]:
    program = RawProgram()
    program.directive(KERNEL, line=1, cost=cost, **kernel)
    compute = replayed(program.recorded(tmp_path)).compute
    return compute.statistics().alone_s, compute.spec


def test_arithmetic_takes_its_time_in_each_precision(tmp_path: Path) -> None:
    whole = {"teams": 3200, "threads": 128, "trip": 1 << 24, "gpu_threads": 1 << 24}
    seconds, spec = kernel_seconds(tmp_path, {"f64": 10**10, "f32": 10**10, **whole}, tripcount=1 << 24)
    uneven = -(-whole["teams"] // spec.sms) / (whole["teams"] / spec.sms)  # some SMs have one team more than others
    assert seconds == pytest.approx((1e10 / spec.flops + 1e10 / spec.flops_single) * uneven)


def test_memory_takes_the_time_of_the_sectors_that_were_touched(tmp_path: Path) -> None:
    program = RawProgram()
    size = 1 << 28
    use = {"host": X, "dev": DEVICE, "size": size, "ldB": 3 * size, "stB": 0, "rd": [size // 32, size // 4096, 0]}
    cost = {"teams": 1 << 17, "trip": 1 << 24, "arrays": [{**use, "wr": [0, 0, 0]}]}
    program.directive(KERNEL, (X, size, TO | PARAM), line=1, tripcount=1 << 24, cost=cost)
    compute = replayed(program.recorded(tmp_path)).compute
    assert compute.statistics().alone_s == pytest.approx(size / compute.spec.bandwidth)


def test_teams_that_the_program_chose_stay_and_open_ones_follow_from_the_loop(tmp_path: Path) -> None:
    program = RawProgram()
    program.directive(KERNEL, cost={}, num_teams=7, thread_limit=64)
    program.directive(KERNEL, cost={}, tripcount=1000)
    program.directive(KERNEL, cost={}, tripcount=1000, thread_limit=10_000)  # cut to the 1024 of an A100
    done = replayed(program.recorded(tmp_path))
    assert [event.teams for event in done.run.trace.events if isinstance(event, events.KernelStart)] == [7, 32, 1]


def test_kernels_without_costs_are_asked_for_by_name(tmp_path: Path) -> None:
    program = RawProgram()
    program.directive(KERNEL, (X, SIZE, TO | PARAM), tripcount=1000)
    path = program.recorded(tmp_path)
    with pytest.raises(ReplayRefused, match=r"no costs were recorded of the kernels saxpy"):
        replayed(path)
    assert replayed(path, declared={"saxpy": Kernel("saxpy", None, 2.0, 24.0)}).outcome.directives == 1


# order


def test_the_host_works_between_directives(tmp_path: Path) -> None:
    program = RawProgram()
    program.work(5_000_000)
    mapped(program)
    path = program.recorded(tmp_path)
    assert replayed(path).run.elapsed - replayed(path, host_time=0.0).run.elapsed == pytest.approx(5e-3, rel=1e-3)


def team_of_two(program: RawProgram, body) -> None:
    program.begin_team(5, 2)
    program.member(5, 10, 0, 2, tid=0)
    program.member(5, 11, 1, 2, tid=1)
    body(0)
    body(1)
    program.end_member(11, tid=1)
    program.end_member(10, tid=0)
    program.end_team(5)


def test_threads_of_a_region_run_at_the_same_time_and_join(tmp_path: Path) -> None:
    program = RawProgram()
    team_of_two(program, lambda tid: program.work(4_000_000, tid=tid))
    program.work(1_000_000)
    mapped(program)
    path = program.recorded(tmp_path)
    assert replayed(path).run.elapsed - replayed(path, host_time=0.0).run.elapsed == pytest.approx(5e-3, rel=1e-2)


def test_a_critical_section_lets_one_in_at_a_time(tmp_path: Path) -> None:
    program = RawProgram()

    def body(tid: int) -> None:
        program.mutex(1, 5, 0x77, tid=tid)
        program.mutex(2, 5, 0x77, tid=tid)
        program.work(4_000_000, tid=tid)
        program.mutex(3, 5, 0x77, tid=tid)

    team_of_two(program, body)
    mapped(program)
    path = program.recorded(tmp_path)
    assert replayed(path).run.elapsed - replayed(path, host_time=0.0).run.elapsed == pytest.approx(8e-3, rel=1e-2)


def test_an_ordered_region_keeps_its_turns(tmp_path: Path) -> None:
    """The first turn is of the thread that has more to do before: the other one waits for it."""
    program = RawProgram()

    def body(tid: int) -> None:
        program.work(4_000_000 * (1 - tid), tid=tid)
        program.mutex(1, 7, 0x77, tid=tid)
        program.mutex(2, 7, 0x77, tid=tid)
        program.work(1_000_000, tid=tid)
        program.mutex(3, 7, 0x77, tid=tid)

    team_of_two(program, body)
    mapped(program)
    path = program.recorded(tmp_path)
    assert replayed(path).run.elapsed - replayed(path, host_time=0.0).run.elapsed == pytest.approx(6e-3, rel=1e-2)


def test_a_barrier_waits_for_all(tmp_path: Path) -> None:
    program = RawProgram()

    def body(tid: int) -> None:
        program.work(4_000_000 * tid + 1_000_000, tid=tid)
        program.synchronize(3, "begin", tid=tid)
        program.synchronize(3, "end", tid=tid)
        program.work(2_000_000 * (1 - tid), tid=tid)

    team_of_two(program, body)
    mapped(program)
    path = program.recorded(tmp_path)
    assert replayed(path).run.elapsed - replayed(path, host_time=0.0).run.elapsed == pytest.approx(7e-3, rel=1e-2)


EXPLICIT, TARGET = 0x4, 0x8


def make_tasks(program: RawProgram, kind: int, *dependences: list[tuple[int, int]]) -> None:
    """Tasks of 3 ms each, made by the initial thread and run by another; (address, kind) are what each depends on."""
    for number, depends in enumerate(dependences):
        task = 100 + number
        line = program.at(0)
        program.task_create({**line, "task": task, "parent": 0, "flags": hex(kind), "dep": bool(depends)})
        program.task_deps({**line, "task": task, "deps": depends})
    for number in range(len(dependences)):
        task = 100 + number
        program.task_schedule({**program.at(9), "prior": 0, "status": 7, "next": task})
        program.work(3_000_000, tid=9)
        program.directive(BEGIN, (X + 4096 * number, 8, TO), tid=9, line=50 + number)
        program.task_schedule({**program.at(9), "prior": task, "status": 1, "next": 0})
    program.synchronize(5, "begin")
    program.synchronize(5, "end")


@pytest.mark.parametrize(
    ("kind", "dependences", "milliseconds"),
    [
        (TARGET, ([], []), 3), (TARGET, ([(X, 3)], [(X, 3)]), 6), (TARGET, ([(X, 1)], [(X, 1)]), 3),
        (TARGET, ([(X, 2)], [(X, 1)], [(X, 1)]), 6), (EXPLICIT, ([], []), 6),
    ],
)  # fmt: skip
def test_tasks_follow_those_that_they_depend_on(tmp_path: Path, kind: int, dependences, milliseconds: int) -> None:
    """Target tasks run beside one another on hidden helpers; explicit ones on the only thread of the team."""
    program = RawProgram()
    make_tasks(program, kind, *dependences)
    path = program.recorded(tmp_path)
    assert replayed(path).outcome.directives == len(dependences)
    taken = replayed(path).run.elapsed - replayed(path, host_time=0.0).run.elapsed
    assert taken == pytest.approx(milliseconds * 1e-3, rel=2e-2)


def test_a_recording_that_was_cut_off_replays_what_it_has(tmp_path: Path) -> None:
    """One thread came to a barrier that the other one never reached."""
    program = RawProgram()
    program.begin_team(5, 2)
    program.member(5, 10, 0, 2, tid=0)
    program.member(5, 11, 1, 2, tid=1)
    program.directive(BEGIN, (X, 8, TO), tid=1)
    program.synchronize(3, "begin", tid=0)
    program.rare = [line for line in program.rare if line["k"] != "end"]
    assert replayed(program.recorded(tmp_path)).outcome.directives == 1


# memory


def test_arrays_at_one_address_one_after_the_other(tmp_path: Path) -> None:
    program = RawProgram()
    for nbytes in (8192, 4096):
        program.malloc(X, nbytes)
        program.directive(KERNEL, (X, nbytes, TO | PARAM), cost={}, ops=[
            ("alloc", X, DEVICE, nbytes), ("h2d", X, DEVICE, nbytes), ("delete", DEVICE, 0, 0)
        ])  # fmt: skip
        program.free(X, nbytes)
    assert replayed(program.recorded(tmp_path)).outcome.equal == 2


def test_a_section_of_an_array_that_was_freed_too_early_is_still_unmapped(tmp_path: Path) -> None:
    """The runtime goes by addresses. Between the free and the end of the map, others may get the memory."""
    program = RawProgram()
    program.malloc(X, SIZE)
    program.directive(BEGIN, (X, SIZE, TO), ops=[("alloc", X, DEVICE, SIZE), ("h2d", X, DEVICE, SIZE)])
    program.free(X, SIZE)
    program.malloc(X, SIZE // 2)
    program.free(X, SIZE // 2)
    program.directive(END, (X, SIZE, TO), ops=[("delete", DEVICE, 0, 0)])
    program.malloc(X + SIZE // 4, SIZE // 4)
    outcome = replayed(program.recorded(tmp_path)).outcome
    assert (outcome.equal, outcome.directives, outcome.differences) == (2, 2, ())


def test_routines_find_their_blocks_again(tmp_path: Path) -> None:
    program = RawProgram()
    program.rare += [{"k": "device", "device": 0, "type": "host"}]
    place = {"bytes": 4096}
    program.routine("omp_target_alloc", DEVICE, bytes=8192, ops=[("alloc", 0, DEVICE, 8192)])
    program.directive(BEGIN, (X, 4096, TO), ops=[("alloc", X, DEVICE + 8192, 4096), ("h2d", X, DEVICE + 8192, 4096)])
    program.routine("omp_get_mapped_ptr", DEVICE + 8192, ptr=X)
    copy = {"dst": DEVICE + 4096, "src": X, "doff": 0, "soff": 0, "sdev": 1, **place}
    program.routine("omp_target_memcpy", ops=[("h2d", X, DEVICE + 4096, 4096)], **copy)
    program.routine("omp_target_free", ptr=DEVICE, ops=[("delete", DEVICE, 0, 0)])
    outcome = replayed(program.recorded(tmp_path)).outcome
    assert [str(difference) for difference in outcome.differences] == []
    assert outcome.equal == 5


def test_a_routine_copies_a_variable_whose_scope_begins_again(tmp_path: Path) -> None:
    program = RawProgram()
    program.rare += [{"k": "device", "device": 0, "type": "host"}]
    program.routine("omp_target_alloc", DEVICE, bytes=8192, ops=[("alloc", 0, DEVICE, 8192)])
    for _ in range(2):
        copy = {"dst": DEVICE, "src": X, "bytes": 4096, "doff": 0, "soff": 0, "sdev": 1}
        program.routine("omp_target_memcpy", ops=[("h2d", X, DEVICE, 4096)], **copy)
        program.free(X, 4096, how=EndKind.SCOPE)
    outcome = replayed(program.recorded(tmp_path)).outcome
    assert (outcome.equal, outcome.differences) == (3, ())


def touching(tmp_path: Path, *, host: bool) -> Path:
    """A kernel writes an array four times; in between the host reads all of it, or nothing."""
    program = RawProgram()
    program.malloc(X, SIZE)
    program.touches(X, SIZE, 2)
    use = {"host": X, "dev": DEVICE, "size": SIZE, "ldB": 0, "stB": SIZE, "rd": [0, 0, 0], "wr": [SIZE // 32, 256, 16]}
    for _ in range(4):
        ops = [("alloc", X, DEVICE, SIZE), ("h2d", X, DEVICE, SIZE), ("d2h", DEVICE, X, SIZE), ("delete", DEVICE, 0, 0)]
        program.directive(KERNEL, (X, SIZE, TO | FROM | PARAM), cost={"arrays": [use]}, ops=ops)
        if host:
            program.touches(X, SIZE, 1)
    program.directive(BEGIN, (Y, 8, TO))
    return program.recorded(tmp_path)


def test_what_the_host_touches_comes_back_to_it(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    back = replayed(touching(tmp_path / "a", host=True), configuration="managed").run.measured.managed
    stays = replayed(touching(tmp_path / "b", host=False), configuration="managed").run.measured.managed
    assert [usage.bytes_dtoh for usage in back.values() if usage.bytes_dtoh] == [4 * SIZE]
    assert not any(usage.bytes_dtoh for usage in stays.values())


def test_only_the_pages_that_a_kernel_touched_migrate(tmp_path: Path) -> None:
    program = RawProgram()
    size = 64 << 20
    program.malloc(X, size)
    program.touches(X, size, 2)
    use = {"host": X, "dev": DEVICE, "size": size, "ldB": 1 << 20, "stB": 0, "rd": [1 << 15, 256, 16], "wr": [0, 0, 0]}
    program.directive(KERNEL, (X, size, TO | PARAM), cost={"arrays": [use]})
    recording = only(program.recorded(tmp_path))
    recording.columns["record.operations"][:] = -1
    moved = replayed(recording, configuration="managed").run.measured.managed
    (bytes_htod,) = [usage.bytes_htod for usage in moved.values() if usage.bytes_htod]
    assert 1 << 20 <= bytes_htod <= 4 << 20  # what was touched, and what is prefetched around it in its 2 MiB blocks


def test_a_section_that_no_array_holds_is_refused_with_its_line(tmp_path: Path) -> None:
    program = RawProgram()
    mapped(program)
    recording = only(program.recorded(tmp_path))
    recording.columns["item.size"][:] = 1 << 30
    with pytest.raises(ReplayRefused, match=r"app.c:10: .* array 'a100000' has 1048576 bytes"):
        replayed(recording)


def test_without_offloading_the_kernels_of_a_recording_run_on_the_hosts_cores(tmp_path: Path) -> None:
    program = RawProgram()
    whole = {"teams": 3200, "threads": 128, "trip": 1 << 24, "gpu_threads": 1 << 24}
    program.directive(KERNEL, (X, SIZE, TO | PARAM), cost={"f64": 10**10, "f32": 10**10, **whole}, tripcount=1 << 24)
    done = replayed(program.recorded(tmp_path), target_offload="disabled")
    assert done.run.calls.table() == {}
    workers = done.run.machine.host_workers.spec
    assert done.run.elapsed == pytest.approx(2e10 / (workers.flops * workers.cores) + workers.fork_join)
