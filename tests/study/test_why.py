"""Why a run took as long as it did: the path adds up, the sentence names what was planted, a what-if is a run."""

from __future__ import annotations

import itertools
import math
import re
import shlex
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offloadrt.extensions.certainty.draws import Draws
from offloadrt.extensions.explaining import how_sure
from offloadrt.extensions.explaining.charged_in import charged_in, places
from offloadrt.extensions.explaining.command import holder_labels, printed
from offloadrt.extensions.explaining.critical_path import RELAYED, PathPart
from offloadrt.extensions.explaining.deciding import Screening
from offloadrt.extensions.explaining.explain import Interrupted, Page, checked, explain
from offloadrt.extensions.explaining.how_sure import (
    Robustness,
    dependences,
    groups_of,
    order_effects,
    total_order,
    with_rival,
)
from offloadrt.extensions.explaining.questions import reported
from offloadrt.extensions.explaining.sentence import Holder, Limit, Observed, limit_of, observe
from offloadrt.extensions.explaining.what_if import (
    SWITCHES,
    CurvePoint,
    Proposal,
    Trials,
    Tried,
    WhatIf,
    command_of,
    decisions,
    half,
    notes_on_work,
    proposals,
    switches,
)
from offloadrt.machine import available, load
from offloadrt.runtime.environment import CHOOSING, ENTRIES, OFFLOAD
from offloadrt.sim import Lock, Mailbox, Semaphore, Signal, Station
from offloadrt.study import Run, execute, find_scenario, scenario
from offloadrt.study.reporting.results import Interval
from offloadrt.study.reporting.words import percent
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import InProcess, Point

PLANTED = Path(__file__).with_name("planted.py")
EXAHYPE = {"threads": 4, "patches": 8, "batch": 4, "memory": "map"}


def seen(name: str, /, **asked: Any) -> Observed:
    return observe(find_scenario(name), asked, RunSpec())


def observed(program: Any) -> Observed:
    return observe(scenario(program), {}, RunSpec())


# the critical path


@pytest.mark.parametrize("gear", ["native", "turbo"])
@pytest.mark.parametrize("strategy", ["fifo", "random(3)"])
def test_the_parts_of_the_path_add_up_to_the_elapsed_time(gear: str, strategy: str) -> None:
    run = observe(find_scenario("exahype"), EXAHYPE, RunSpec(gear=gear, strategy=strategy))
    assert sum(part.ps for part in run.path) == run.elapsed_ps == round(run.result.elapsed_s * 1e12)
    for before, after in itertools.pairwise(run.path):
        assert before.end_ps == after.begin_ps


def test_both_gears_have_the_same_path() -> None:
    paths = [observe(find_scenario("exahype"), EXAHYPE, RunSpec(gear=gear)).path for gear in ("native", "turbo")]
    assert paths[0] == paths[1]


def test_recording_who_let_whom_go_on_changes_nothing() -> None:
    plain = execute(find_scenario("exahype"), EXAHYPE, hash=True)
    told = observe(find_scenario("exahype"), EXAHYPE, RunSpec(hash=True)).result
    assert told == plain


STEPS = st.lists(
    st.tuples(st.sampled_from(["lock", "units", "station", "compute", "tell", "ask"]), st.integers(1, 9)), max_size=6
)


@settings(max_examples=20)
@given(st.lists(STEPS, min_size=1, max_size=5))
def test_the_path_of_any_program_adds_up(threads: list[list[tuple[str, int]]]) -> None:
    async def program(run: Run) -> None:
        sim = run.sim
        lock, units, station, box = Lock(sim, "l"), Semaphore(sim, 2, "u"), Station(sim, 2, "s"), Mailbox(sim, "b")
        started = Signal(sim, "started")

        async def thread(steps: list[tuple[str, int]]) -> None:
            for what, ms in steps:
                if what == "lock":
                    async with lock:
                        await sim.sleep(ms * 1e-3)
                elif what == "units":
                    async with units:
                        await sim.sleep(ms * 1e-3)
                elif what == "station":
                    await station.serve(ms * 1e-3)
                elif what == "compute":
                    await run.machine.cores.compute(ms * 1e-3)
                elif what == "tell":
                    await sim.sleep(ms * 1e-3)
                    box.put(ms)
                else:
                    await box.get_until(sim.now + ms * 1e-3)
            if not started.is_set:
                started.set()
            await started.wait()

        async with sim.open_nursery() as nursery:
            for steps in threads:
                nursery.spawn(thread, steps)

    run = observed(program)
    assert sum(part.ps for part in run.path) == run.elapsed_ps == round(run.result.elapsed_s * 1e12)
    assert all(part.ps > 0 for part in run.path)


def test_a_thread_alone_waits_for_no_turn() -> None:
    run = seen("exahype", **{**EXAHYPE, "threads": 1})
    assert {part.waited_for for part in run.path} == {""}


def test_what_a_waiter_waits_for_is_the_work_of_those_before_it() -> None:
    async def program(run: Run) -> None:
        lock = Lock(run.sim, "the lock")

        async def thread(hold_s: float) -> None:
            async with lock:
                await run.sim.sleep(hold_s)

        async with run.sim.open_nursery() as nursery:
            for number, hold_s in enumerate((2.0, 3.0, 5.0)):
                nursery.spawn(thread, hold_s, name=f"thread {number}")

    parts = [(part.actor, part.ps // 10**12, part.waited_for) for part in observed(program).path]
    assert parts == [("thread 0", 2, "the lock"), ("thread 1", 3, "the lock"), ("thread 2", 5, "")]


def test_a_path_goes_from_a_kernel_to_its_launch_and_over_the_host_thread() -> None:
    path = seen(f"{PLANTED}:underfilled_kernel").path
    resources = [part.resource for part in path]
    assert "launch" in resources and resources[resources.index("launch") + 1] == "kernel"
    assert {part.place.partition(":")[0] for part in path if part.directive} == {"planted.py"}


def test_uses_of_locks_agree_with_the_run_s_own_counts() -> None:
    run = seen("exahype", **EXAHYPE)
    for name in ("driver context", "device table"):
        use = next(use for use in run.resources if use.name == name)
        counted = run.result.locks[name]
        assert use.utilisation == pytest.approx(counted.hold_s / run.result.elapsed_s, rel=1e-6)
        assert use.mean_queue == pytest.approx(counted.wait_s / run.result.elapsed_s, rel=1e-6)


# the sentence

BOTTLENECKS = {
    "slow_free": ("driver context", "cuMemFree"),
    "hot_entry_lock": ("entry locks", "cuMemcpyHtoDAsync"),
    "saturated_copy_engine": ("device 0 copy engine h2d", ""),
    "one_core_too_few": ("core", ""),
    "fault_storm": ("page faults", "their service"),
    "always_map": ("driver", "cuMemcpyHtoDAsync"),
    "underfilled_kernel": ("kernel", "think"),
    "uneven_work": ("program", ""),
    "small_dma_ring": ("device 0 dma ring 0", ""),
    "oversubscribed": ("page faults", "migration h2d"),
    "legacy_default_stream": ("device 0 stream order", "think"),
    "ranks_without_mps": ("device 0 time slices", "think"),
    "openmp_ranks_without_mps": ("device 0 time slices", "think"),
    "one_hardware_queue": ("device 0 hardware queue 0", "think"),
    "pageable_copies": ("driver", "cuMemcpyHtoDAsync"),
    "synchronized_in_a_loop": ("driver", "cuStreamSynchronize"),
    "launched_in_a_loop": ("launch", "scale"),
    "allocated_in_a_loop": ("driver", "cuMemFree"),
    "pinned_at_the_start": ("driver", "cuMemHostRegister"),
    "slow_callback": ("device 0 callback thread", ""),
    "late_sender": ("program", ""),
    "one_nic": ("node 0 nic 1 transfer", ""),
    "faults_of_the_host": ("page faults of the host", "their service"),
    "bound_by_memory": ("kernel", "scale"),
    "first_use": ("driver", "cuDevicePrimaryCtxRetain"),
    "many_tiny_maps": ("driver", "cuMemcpyDtoHAsync"),
    "flag_of_a_loop": ("driver", "cuMemcpyDtoHAsync"),
    "uneven_kernels": ("kernel", "think"),
    "late_rank": ("kernel", "think"),
    "one_busy_device": ("kernel", "think"),
    "one_helper_thread": ("kernel", "think"),
    "mutex_around_target": ("my mutex", "think"),
    "graph_of_tiny_kernels": ("launch", "scale"),
    "pinned_in_a_loop": ("driver", "cuMemAllocHost"),
    "streams_in_a_loop": ("driver context", "cuStreamCreate"),
    "small_messages": ("messages", ""),
    "residual_each_step": ("driver", "cuMemcpyDtoHAsync"),
    "copies_behind_kernels": ("kernel", "think"),
    "ping_pong": ("page faults", "their service"),
    "constants_copied_always": ("driver", "cuMemcpyHtoDAsync"),
    "pool_of_threads": ("driver context", "cuMemAllocFromPoolAsync"),
    "free_behind_a_kernel": ("kernel", "think"),
    "critical_section": ("critical", ""),
    "chained_tasks": ("kernel", "think"),
    "one_stream": ("kernel", "think"),
    "one_thread": ("kernel", "think"),
    "kernel_over_the_link": ("kernel", "over"),
    "peers_through_the_host": (RELAYED, ""),
    "uneven_streams": ("kernel", "think"),
    "behind_a_long_kernel": ("device 0 compute units", "think"),
    "does_not_fit": ("page faults", "their service"),
    "large_allreduce": ("messages", ""),
}
SAID = {
    "many_tiny_maps": "its 192 copies move 64 B each, so their number costs, and not their bytes",
    "flag_of_a_loop": "its 50 copies move 8 B each, so their number costs, and not their bytes",
    "pageable_copies": "the memory of the host is pageable, so that the thread copies all of it to a pinned buffer",
    "uneven_kernels": "threads wait for one another 7\\d % of their time, most of the path is host thread 2",
    "uneven_work": "threads wait for one another 5\\d % of their time, most of the path is host thread 2",
    "late_rank": "ranks wait for one another [67]\\d % of their time, most of the path is host thread 0 of process 3",
    "late_sender": "ranks wait for one another 50 % of their time, most of the path is rank 0",
    "one_busy_device": "device 2 works 99 % of the time, and the others 17 % at most",
    "one_helper_thread": "hidden helper thread 0 does most of it, while the threads of the program wait",
    "mutex_around_target": 'The lock "my mutex" limits this run',
    "slow_free": "The lock of the driver context limits this run",
    "residual_each_step": "its 300 copies move 8 B each, so their number costs, and not their bytes",
    "copies_behind_kernels": r"never run at the same time; near it: the device 0 copy engine h2d \(3\d %\)",
    "ping_pong": "pages thrash between host and device, and the driver puts 9 faults off",
    "constants_copied_always": "in cuMemcpyHtoDAsync, most in target of `coefficients`",
    "free_behind_a_kernel": "cuMemFree waits for them, so that the host does nothing meanwhile",
    "critical_section": 'The lock "critical" limits this run',
    "chained_tasks": "no two of its 8 launches run at a time",
    "one_stream": "those that do not depend on one another overlap only in streams of their own, which the program",
    "one_thread": "those that do not depend on one another overlap only with `nowait`, or from several threads",
    "legacy_default_stream": "streams of the threads' own, which the program has to make, let their work overlap",
    "kernel_over_the_link": "it reaches memory of the host over the link, 160 MiB of `a`",
    "peers_through_the_host": "limit this run: 98 % of .*; each crosses two links, since peer access is not enabled",
    "uneven_streams": "kernels of hardware queue 1 run 99 % of the time, and those of each other queue 10 % at most",
    "behind_a_long_kernel": "The compute units of device 0 limit this run: .* they are busy 100 % of the time",
    "does_not_fit": "48 blocks are evicted, since not all of the managed memory fits",
    "large_allreduce": "The messaging library's own work limits this run: .* in MPI_Allreduce, most at planted.py",
}
"""What else the sentence has to say."""


@pytest.mark.parametrize("name", BOTTLENECKS)
def test_what_was_planted_is_named_first(name: str) -> None:
    limit = limit_of(seen(f"{PLANTED}:{name}"))
    assert (limit.resource, limit.call) == BOTTLENECKS[name], limit.sentence


@pytest.mark.parametrize("name", SAID)
def test_the_sentence_says_what_is_special_about_it(name: str) -> None:
    assert re.search(SAID[name], (sentence := limit_of(seen(f"{PLANTED}:{name}")).sentence)), sentence


def test_more_hidden_helper_threads_are_tried_where_one_works() -> None:
    chosen = find_scenario(f"{PLANTED}:one_helper_thread")
    run = seen(f"{PLANTED}:one_helper_thread")
    (found,) = [
        change
        for change in switches(run.spec, run.path, RunSpec(), run.model, chosen)
        if "LIBOMP_NUM_HIDDEN_HELPER_THREADS" in change.environment
    ]
    assert found.environment["LIBOMP_NUM_HIDDEN_HELPER_THREADS"] == "2"


def test_every_switch_that_is_tried_is_one_that_the_runtime_reads() -> None:
    """With the names and the values as they are documented, in whichever letters."""
    entries = load("alex-a100", runtime="llvm22").entries | load("mi300a", runtime="llvm22").entries
    for switch in SWITCHES:
        assert switch.name in (*ENTRIES, *CHOOSING, OFFLOAD)
        assert ENTRIES.get(switch.name, "") == switch.entry
        for machine in ("alex-a100", "mi300a"):
            for value in switch.values_beside(entries.get(switch.entry)):
                execute(find_scenario(f"{PLANTED}:uneven_work"), {}, machine=machine, environment={switch.name: value})


@pytest.mark.parametrize(
    ("machine", "name", "other"),
    [
        ("alex-a100", "CUDA_DEVICE_MAX_CONNECTIONS=16", "GPU_MAX_HW_QUEUES"),
        ("isambard-mi100", "GPU_MAX_HW_QUEUES=8", "CUDA_DEVICE_MAX_CONNECTIONS"),
    ],
)
def test_more_queues_are_tried_where_streams_share_them(machine: str, name: str, other: str) -> None:
    """By the variable that the machine's driver library reads; the run is that with as many queues in the profile."""
    chosen, options = find_scenario(f"{PLANTED}:more_streams_than_queues"), RunSpec(machine=machine)
    run = observe(chosen, {}, options)
    tried = {change.name: change for change in switches(run.spec, run.path, options, run.model, chosen)}
    change = tried[f"--env {name}"]
    assert change.resource.startswith("device 0 hardware queue") and not any(other in found for found in tried)
    more = execute(chosen, {}, machine=machine, environment=change.environment)
    entry = {"gpu.max_connections": name.partition("=")[2]}
    assert 1.5 * more.elapsed_s < run.result.elapsed_s
    assert more.elapsed_s == execute(chosen, {}, machine=machine, overrides=entry).elapsed_s
    unread = execute(chosen, {}, machine=machine, environment={other: "32"})
    assert unread.elapsed_s == run.result.elapsed_s


@pytest.mark.parametrize(("machine", "read"), [("alex-a100", "cuda"), ("mi300x", "hip"), ("mi300a", "rocr")])
def test_only_what_the_machines_library_and_plugin_read_is_tried(machine: str, read: str) -> None:
    spec = load(machine, runtime="llvm22")
    kernel, call = (PathPart(0, 1, "", part, "", "", "", "", "") for part in ("kernel", "driver"))
    path, chosen = [kernel, attrs.evolve(call, call="cuLaunchKernel")], find_scenario(f"{PLANTED}:uneven_work")
    tried = {name for change in switches(spec, path, RunSpec(), "openmp", chosen) for name in change.environment}
    of_amd = {name for name in tried if "AMDGPU" in name}
    of_cuda = {name for name in tried if name.startswith("CUDA_")}
    assert (bool(of_cuda), bool(of_amd)) == (read == "cuda", read == "rocr") and "OMP_TARGET_OFFLOAD" in tried


def test_more_memory_is_tried_where_managed_memory_does_not_fit() -> None:
    run = seen(f"{PLANTED}:does_not_fit")
    (found,) = [one for one in proposals(run.spec, run.path, {}, evicts=run.evicts) if "mem.size" in one.overrides]
    assert found.overrides == {"mem.size": "0.201GB"} and found.promise > 0.5
    assert not seen(f"{PLANTED}:ping_pong").evicts


def test_what_nothing_makes_cheaper_is_named_by_its_share() -> None:
    run = seen(f"{PLANTED}:uneven_work")
    one = WhatIf(Proposal("cost", overrides={"host.page_fault": "0us"}, resource="program"), 1.0, 1.0, "")
    other = WhatIf(Proposal("cost", overrides={"mem.bw": "2TB/s"}, resource="kernel"), 1.0, 1.3, "")
    found = checked(limit_of(run), run, Tried("elapsed_s", (other, one), {}, 0, best={"program": one, "kernel": other}))
    assert found == limit_of(run)


def test_nothing_special_is_said_where_nothing_is() -> None:
    words = ("uneven", "pageable", "copies move", "the others", "hidden helper", "thrash", "evicted", "over the link",
             "cuMemFree waits", "hardware queue", "same time")  # fmt: skip
    for name in ("pinned_at_the_start", "bound_by_memory", "legacy_default_stream", "saturated_copy_engine"):
        sentence = limit_of(seen(f"{PLANTED}:{name}")).sentence
        assert [word for word in words if word in sentence] == [], sentence


def test_the_sentence_tells_the_call_the_array_and_the_line() -> None:
    line = next(n for n, text in enumerate(PLANTED.read_text().splitlines(), 1) if "maps=omp.map(tofrom=a)" in text)
    sentence = limit_of(seen(f"{PLANTED}:slow_free")).sentence
    assert sentence.startswith("The lock of the driver context limits this run:")
    assert f"behind cuMemFree, most in target of `a` (planted.py:{line})" in sentence


def test_the_sentence_says_who_is_late_and_which_kernel_is_too_small() -> None:
    assert "most of the path is host thread 2" in limit_of(seen(f"{PLANTED}:uneven_work")).sentence
    assert "its 4 teams fill a part of the 108 SMs only" in limit_of(seen(f"{PLANTED}:underfilled_kernel")).sentence


# what if


def page(budget_s: float = 1e6, **asked: Any) -> Page:
    return explain(find_scenario("exahype"), asked, InProcess(), budget_s=budget_s, draws=0)


@pytest.mark.slow
def test_what_would_help_most_comes_first_and_each_what_if_is_a_run() -> None:
    found = page(**{**EXAHYPE, "patches": 4, "threads": 8})
    names = [tried.change.name for tried in found.tried.what_ifs]
    assert names[:2] == ["--env OMP_TARGET_OFFLOAD=disabled", "memory=pool"]  # four patches are too small for a GPU
    assert "--set driver.context.uncontended=true" in names[:6]
    assert found.tried.left == 0
    for tried in found.tried.what_ifs[::9]:
        assert again(tried.command) == tried.elapsed_s


def test_a_command_is_quoted_and_has_every_option_of_the_run() -> None:
    chosen = find_scenario("exahype")
    options = RunSpec(gear="native", overrides={"table.handover": "5 us"}, faults=("slow:h2d:10x@2ms",))
    assert command_of(chosen, chosen.bind(EXAHYPE), options, {"cpu.cores": "4"}) == (
        "offloadrt run exahype batch=4 threads=4 patches=8 --gear native --faults slow:h2d:10x@2ms "
        "--set 'table.handover=5 us' --set cpu.cores=4"
    )


def again(command: str) -> float:
    """Run what a command line says."""
    _, _, name, *words = shlex.split(command)
    said: dict[str, dict[str, str]] = {"": {}, "--set": {}, "--env": {}}
    for before, word in itertools.pairwise(["", *words]):
        if not word.startswith("--"):
            said[before if before.startswith("--") else ""].update([word.split("=", 1)])
    return execute(find_scenario(name), said[""], overrides=said["--set"], environment=said["--env"]).elapsed_s


def test_the_promising_is_tried_before_the_rest() -> None:
    scenario = find_scenario("exahype")
    run = seen("exahype", **EXAHYPE)
    chosen = [change.name for change in decisions(scenario, run.result.parameters)]
    assert chosen == [
        "batch=1", "batch=16", "threads=2", "threads=8", "memory=pool", "memory=managed", "memory=managed+prefetch",
        "allocator=direct",
    ]  # fmt: skip
    first = [change.name for change in proposals(run.spec, run.path, {})[:8]]
    assert "--set driver.context.uncontended=true" in first and "--set alloc.cudaFree=0us" in first


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("slow_free", {"driver.context.uncontended", "alloc.cudaFree"}),
        ("hot_entry_lock", {"entry.uncontended", "driver.copy_submit"}),
        ("saturated_copy_engine", {"copy_engine.uncontended", "gpu.copy_engines_h2d", "link.h2d_pinned"}),
        ("one_core_too_few", {"core.uncontended", "cpu.cores"}),
        ("fault_storm", {"fault_handler.uncontended", "fault.service_2m"}),
        ("underfilled_kernel", {"gpu.team_dispatch", "mem.latency", "gpu.placement"}),
        ("small_dma_ring", {"dma_ring.uncontended", "dma.bw"}),
    ],
)
def test_what_is_charged_where_the_time_goes_is_proposed_first(name: str, first: set[str]) -> None:
    run = seen(f"{PLANTED}:{name}")
    promising = [change for change in proposals(run.spec, run.path, {}) if change.promise > 0.3]
    assert first <= {key for change in promising for key in change.overrides}


def test_a_script_without_a_sweep_lets_the_user_decide_its_words_and_the_configuration(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(MINE)
    mine = find_scenario(str(script))
    chosen = {change.name for change in decisions(mine, mine.bind({}), "managed")}
    assert "'mapped=each sweep'" not in chosen and "mapped=once" in chosen
    assert "--configuration copy" in chosen and "--configuration managed" not in chosen
    assert {name for name in chosen if name.startswith("threads")} == {"threads=1", "threads=4"}
    assert not {name for name in chosen if name.startswith("big")}, "flags are the problem's"
    trials = Trials(mine, mine.bind({}), RunSpec(), InProcess(), 1, math.inf)
    base = execute(mine, {})
    tried = trials.finish(base, Run().spec, [Proposal("decision", configuration="managed")])
    (what_if,) = tried.what_ifs
    assert what_if.elapsed_s == execute(mine, {}, configuration="managed").elapsed_s != base.elapsed_s
    assert what_if.command.endswith("mine.py:mine --configuration managed")


SIZED = """
from offloadrt import Run, kernel, openmp as omp, scenario

@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def scale(a):
    a *= 2.0

@kernel(flops_per_iteration=50, bytes_per_iteration=8)
def solve(a):
    a += 1.0

@scenario(machine="alex-a100", sweep={"n": (1024, 2048), "total": (4, 8), "method": ("scale", "solve", "twice")})
async def sized(run: Run, threads: int = 4, n: int = 1024, total: int = 0, method: str = "scale"):
    async def body(t: omp.HostThread):
        a = t.array("a", n, fill=1.0)
        for _ in range(total // threads if total else 1):
            for _ in range(1 + (method == "twice")):
                await t.target(solve if method == "solve" else scale, a, maps=omp.map(tofrom=a), teams=1, iterations=n)

    await run.parallel(body, num_threads=threads)
"""


@pytest.mark.parametrize(
    ("given", "changed", "work"),
    [
        ({}, {"threads": 2}, 0.5),
        ({}, {"threads": 8}, 2.0),
        ({}, {"n": 2048}, 2.0),
        ({}, {"method": "twice"}, 2.0),
        ({}, {"method": "solve"}, None),
        ({"total": 8}, {"threads": 2}, 1.0),
        ({"total": 8}, {"threads": 8}, 1.0),
        ({"total": 8}, {"total": 4}, 0.5),
        ({"total": 8}, {"threads": 3}, 0.75),
    ],
    ids=str,
)
def test_a_run_that_does_more_or_less_is_compared_for_equal_work(
    tmp_path: Path, given: dict[str, Any], changed: dict[str, Any], work: float | None
) -> None:
    script = tmp_path / "sized.py"
    script.write_text(SIZED)
    sized = find_scenario(str(script))
    run = observe(sized, given, RunSpec())
    trials = Trials(sized, sized.bind(given), RunSpec(), InProcess(), 1, math.inf, work=run.work)
    tried = trials.finish(run.result, run.spec, [change := Proposal("decision", changed)])
    if work is None:
        assert tried.other_work == (change.name,) and not tried.what_ifs
        assert notes_on_work(tried, 9) == [f"not compared, since the program then does other work: {change.name}"]
        return
    (one,) = tried.what_ifs
    assert one.elapsed_s == execute(sized, {**given, **changed}).elapsed_s
    assert one.work == work and one.gain == pytest.approx(work * run.result.elapsed_s / one.elapsed_s)
    assert notes_on_work(tried, 9) == (
        [] if work == 1.0 else [f"{change.name} does {work:.3g} times the work; its gain is for equal work"]
    )


def test_threads_with_an_array_each_are_no_gain_when_half_of_them_are_left_out() -> None:
    overlap = find_scenario("overlap")
    run = seen("overlap", phantom=True)
    trials = Trials(overlap, overlap.bind({"phantom": True}), RunSpec(), InProcess(), 1, math.inf, work=run.work)
    changes = [change for change in decisions(overlap, trials.given) if "threads" in change.parameters]
    tried = trials.finish(run.result, run.spec, changes)
    by_name = {one.change.name: one for one in tried.what_ifs}
    assert {name: one.work for name, one in by_name.items()} == {"threads=4": 0.5, "threads=16": 2.0}
    assert by_name["threads=4"].gain < 1.05 < run.result.elapsed_s / by_name["threads=4"].elapsed_s


def test_what_only_several_devices_have_to_do_with_is_tried_last() -> None:
    run = seen("exahype", **EXAHYPE)
    names = [change.name for change in proposals(run.spec, run.path, {})]
    peers = [place for place, name in enumerate(names) if name.startswith(("--set nvlink.", "--set p2p."))]
    assert peers and min(peers) > len(names) // 3


MINE = """
from typing import Literal
from offloadrt import Run, kernel, openmp as omp, scenario

@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def scale(a):
    a *= 2.0

@scenario
async def mine(run: Run, threads: int = 2, big: bool = False, mapped: Literal["each sweep", "once"] = "each sweep"):
    async def body(t):
        a = t.array("a", 4096, fill=1.0)
        await t.target(scale, a, maps=omp.map(tofrom=a), iterations=4096)
    await run.parallel(body, threads)
"""


@pytest.mark.parametrize(
    ("name", "gains"),
    [
        ("legacy_default_stream", {"--env CUDA_API_PER_THREAD_DEFAULT_STREAM=1": 8.0}),
        ("ranks_without_mps", {"--set process.sharing=mps": 4.0}),
        ("one_hardware_queue", {"--set hardware_queue.uncontended=true": 5.0}),
        ("slow_free", {"--allocator malloc": 5.0, "--set driver.context.uncontended=true": 3.0}),
        ("faults_of_the_host", {"--set fault.cpu_managed=0us": 1.3, "--set fault.cpu_map=0us": 1.2}),
        ("ping_pong", {"--set thrash.nap=0s": 1.8}),
        ("peers_through_the_host", {"--set link.d2h_pinned=51.6GB/s --set link.h2d_pinned=51.4GB/s": 1.5}),
        ("pool_of_threads", {"--set driver.context.uncontended=true": 3.0}),
        ("kernel_over_the_link", {"--set remote.access_bw=42.5GB/s": 1.1}),
    ],
)
def test_what_the_sentence_names_gains_when_it_is_cheaper(name: str, gains: dict[str, float]) -> None:
    run, chosen = seen(f"{PLANTED}:{name}"), find_scenario(f"{PLANTED}:{name}")
    of_runtime = switches(run.spec, run.path, RunSpec(), run.model, chosen)
    changes = sorted([*of_runtime, *proposals(run.spec, run.path, {})], key=lambda change: -change.promise)
    found = Trials(chosen, {}, RunSpec(), InProcess(), 1, math.inf).finish(run.result, run.spec, changes[:12])
    tried = {other: one.gain for one in found.what_ifs for other in (one.change.name, *one.same)}
    assert {change: tried.get(change, 0.0) >= least for change, least in gains.items()} == dict.fromkeys(gains, True)
    assert checked(limit_of(run), run, found) == limit_of(run)


def test_a_sentence_that_its_what_ifs_contradict_names_what_gains() -> None:
    run = seen(f"{PLANTED}:synchronized_in_a_loop")
    of_path = limit_of(run)
    launch = WhatIf(Proposal("cost", overrides={"launch.latency": "0us"}, resource="launch"), 1.0, 1.7, "")
    sync = WhatIf(Proposal("cost", overrides={"sync.latency": "0us"}, resource="driver"), 1.0, 1.01, "")
    known = {"launch": launch, "driver": sync}
    found = checked(of_path, run, Tried("elapsed_s", (launch, sync), {}, 0, best=known))
    assert (of_path.resource, found.resource) == ("driver", "launch")
    assert found.sentence.startswith("The latency of launches limits this run: 42 % of the critical path")
    assert "gains 1.01 at most when it is cheaper" in found.sentence
    assert checked(of_path, run, Tried("elapsed_s", (sync,), {}, 0, best={"driver": sync})) == of_path
    untried = Tried("elapsed_s", (launch, sync), {}, 9, best=known, unknown=frozenset([of_path.resource]))
    assert checked(of_path, run, untried) == of_path, "of the driver's costs, most were left for a larger budget"


def test_near_ties_and_the_entries_of_neighbours_are_in_the_sentence() -> None:
    """Each thread has an array of its own, so every entry that it waits for is its neighbour's by address."""
    limit = limit_of(seen(f"{PLANTED}:entries_of_neighbours"))
    assert limit.resource == "entry locks"
    assert "of the waits for them are for a neighbour's entry, which a look-up locks as well" in limit.sentence
    assert "neighbour" not in limit_of(seen(f"{PLANTED}:hot_entry_lock")).sentence
    assert "; near it: kernels (" in limit_of(seen(f"{PLANTED}:two_near_ties")).sentence


def test_values_are_written_as_a_person_does() -> None:
    run = seen("exahype", **EXAHYPE)
    changes = proposals(run.spec, run.path, {})
    halves = [half(change, run.spec, 2.0) for change in changes if change.kind == "cost"]
    texts = [text for change in (*changes, *halves) if change is not None for text in change.overrides.values()]
    written = [text for text in texts if re.match(r"[\d.]+([a-z]*s|[GT]?B/s)$", text)]
    assert len(written) > 100
    assert [text for text in written if not re.match(r"(0|[1-9]\d{0,5}|\d{1,2}\.\d{1,2})[a-zA-Z]", text)] == []


# how sure


def test_a_sentence_holds_where_the_same_thing_limits_the_run() -> None:
    found = explain(find_scenario(f"{PLANTED}:slow_free"), {}, InProcess(), budget_s=0, draws=4).sure
    assert found is not None and (found.holds, found.draws, found.depends_on, found.others) == (4, 4, (), {})
    assert str(found) == "holds in 4 of 4 draws"
    assert found.interval is not None and found.prediction_interval is not None
    assert found.prediction_interval.high == found.interval.high * found.prediction_interval.factor


def test_what_limits_many_draws_is_in_the_sentence() -> None:
    limit = Limit("lock", "free", 0.5, "The lock limits this run.")
    sure = Robustness(9, 16, (), {"driver (free)": 5, "kernel": 2})
    assert with_rival(limit, sure).sentence == "The lock limits this run. In 5 of 16 draws it is driver (free)."
    assert with_rival(limit, Robustness(14, 16, (), {"driver (free)": 2})) == limit


def what_if(gain: float, curve: tuple[float, ...] = (), drawn: tuple[float, ...] = ()) -> Tried:
    change = Proposal("cost", overrides={"alloc.cudaFree": "0us"})
    points = tuple(CurvePoint(part, own) for part, own in zip((0.75, 0.5, 0.25), curve, strict=False))
    interval = Interval.of(gain, drawn, 1) if drawn else None
    return Tried("elapsed_s", (WhatIf(change, 1.0, gain, "", interval, points),), {}, 0)


@pytest.mark.parametrize(
    ("tried", "said"),
    [
        (what_if(1.2, (1.05, 1.1, 1.15), (1.1, 1.3)), None),
        (what_if(1.2, (0.95, 1.1, 1.15)), "with 75.0 % of the step left makes it slower (gain 0.95)"),
        (what_if(1.2, (1.05, 1.3, 1.25)), "does not gain more with each part of the step"),
        (what_if(1.2, (), (1.1, 0.9, 1.3)), "makes it slower in 1 of 3 draws"),
        (what_if(0.8), "makes the run 25.0 % slower, although nothing takes longer by itself"),
    ],
)
def test_a_gain_that_turns_round_is_an_order_effect(tried: Tried, said: str | None) -> None:
    found = order_effects(tried)
    assert not found if said is None else said in found[0]


@pytest.mark.slow
def test_gains_are_those_of_runs_in_the_same_draws() -> None:
    """With a budget `why` draws by itself: the sentence, the best gains, parts of costs, and what decides."""
    found = explain(find_scenario(f"{PLANTED}:slow_free"), {}, InProcess(), budget_s=12.0, draws=4)
    assert found.sure is not None and found.sure.interval is not None and found.sure.draws == 4
    best = found.tried.what_ifs[0]
    assert best.interval is not None and best.interval.draws == 4 and best.interval.low > 1.0
    assert found.sure.deciders and found.sure.deciders[0].factor >= found.sure.deciders[-1].factor >= 1.0


def test_costs_that_have_gained_are_looked_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two draws, chance alone gives an entry that the run does not use a correlation of 1."""
    asked: dict[str, float] = {}
    screened = Screening((1.0,), [], [], ["alloc.cudaFree"])
    monkeypatch.setattr(how_sure, "screen", lambda *of, **how: asked.update(how["likely"]) or screened)
    places = ({"alloc.cudaFree": 0.4, "mpi.copy_bw": 0.1}, {"alloc.cudaFree": 0.4, "mpi.copy_bw": 0.9})
    drawn = how_sure.Drawn(Robustness(2, 2, (), {}), Draws({}, {}), (0, 1), places, (1.0, 1.0), (1.0, 2.0))
    sure = how_sure.deciding(
        drawn, what_if(2.0), Point("x", {}), execute(find_scenario(f"{PLANTED}:slow_free")), InProcess(), 1, 1.0
    )
    assert sorted(asked, key=lambda key: -asked[key]) == ["alloc.cudaFree", "mpi.copy_bw"]
    assert sure.screened == "0 entries matter, 0 do not, 1 were not looked at: --budget gives more time"


def test_an_entry_that_decides_is_named() -> None:
    places = [{"a": number / 15, "b": (number * 7 % 16) / 15} for number in range(16)]
    (only,) = dependences([place["a"] > 0.5 for place in places], places)
    assert only.entry == "a" and only.correlation > 0.8


@pytest.mark.slow
def test_indices_name_the_entry_that_the_share_depends_on() -> None:
    found = explain(find_scenario(f"{PLANTED}:slow_free"), {}, InProcess(), budget_s=0, draws=8, sobol=4).indices
    assert found is not None and found.samples == 4 and found.resource == "driver context"
    assert "total-order Sobol indices, 4 base samples" in str(found)
    assert len(found.of) == 7 and found.of[-1].index <= found.of[0].index
    assert sum(one.entry.startswith("the other") for one in found.of) == 1


def test_an_index_is_that_of_the_closed_form() -> None:
    """y = 3 a + b with a and b even in [0, 1]: nine tenths of its variance are a's."""

    class Line(InProcess):
        def submit(self, run: Any, /, point: Any) -> Any:  # type: ignore[override]
            at = point.options.range_end
            return super().submit(
                lambda: msgspec.json.encode({"shares": {"lock": 3 * at["a"] + at["b"] + 0 * at["c"]}})
            )

    groups = {"a": "a", "b": "b", "c": "the other 1 entries"}
    found = total_order("lock", Point("x", {}), groups, 256, Line(), 1, math.inf)
    of = {one.entry: one.index for one in found.of}
    assert of["a"] == pytest.approx(0.9, abs=0.05) and of["b"] == pytest.approx(0.1, abs=0.02)
    assert of["the other 1 entries"] == 0.0


def test_groups_are_the_entries_with_which_the_figure_goes() -> None:
    places = [
        {name: (number * factor % 17) / 16 for name, factor in (("a", 1), ("b", 5), ("c", 7))} for number in range(17)
    ]
    assert groups_of(places, [place["b"] for place in places], most=1) == {
        "a": "the other 2 entries", "b": "b", "c": "the other 2 entries"
    }  # fmt: skip


def test_draws_and_samples_end_with_the_budget() -> None:
    found = explain(find_scenario(f"{PLANTED}:slow_free"), {}, InProcess(), budget_s=1e-6, draws=64, sobol=64)
    assert (found.sure, found.indices, found.tried.left > 0) == (None, None, True)


def test_holders_that_differ_by_their_arrays_only_are_shown_as_one() -> None:
    free = [Holder("cuMemFree", name, "target", "jacobi.py:38", 0.25) for name in ("a", "b")]
    other = Holder("cuMemAlloc", "a", "target", "jacobi.py:38", 0.4)
    assert holder_labels([other, *free]) == [
        "50 % cuMemFree in target (jacobi.py:38)",
        "40 % cuMemAlloc in target (jacobi.py:38)",
    ]


@pytest.mark.parametrize(("at", "changes"), [("what if", 3), ("draws", 0)])
def test_what_is_known_when_it_is_interrupted_is_not_lost(at: str, changes: int) -> None:
    """Ctrl-C after three changes, and in the draws: the sentence and what was tried are there."""
    told = []

    def stage(name: str, done: int, asked: int) -> None:
        told.append(name)
        if name == at and done >= changes:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as caught:
        explain(find_scenario(f"{PLANTED}:slow_free"), {}, InProcess(), budget_s=4.0, draws=4, stage=stage)
    page = caught.value.page
    assert page.limit.resource == "driver context" and page.tried.count >= max(changes - 1, 1) and page.sure is None
    assert told[-1] == at


def test_a_report_that_is_interrupted_has_what_is_known() -> None:
    def stage(name: str, done: int, asked: int) -> None:
        if name == "what if":
            raise KeyboardInterrupt

    runs = reported(
        find_scenario(f"{PLANTED}:slow_free"), {}, InProcess(), options=RunSpec(), jobs=1, budget_s=4.0, window=None,
        stage=stage,
    )  # fmt: skip
    assert len(runs) == 1 and runs[0].page.limit.resource == "driver context"


# where entries are charged


def test_every_entry_says_where_it_is_charged():
    entries = {key for name in available() for key in load(name).entries}
    references = {key for name in available() for key, entry in load(name).entries.items() if entry.reference}
    assert not {key for key in entries - references if charged_in(key) is None}
    declared = {name for name in places() if not any(fnmatchcase(key, name) for key in entries)}
    assert not declared, "there are no such entries"


def test_an_entry_has_the_place_of_the_longest_name_that_fits():
    assert charged_in("graph.launch") == ("driver: cuGraph*",)
    assert charged_in("graph.node") == ("launch",)
    assert charged_in("abacus.beads") is None


def test_what_all_host_threads_wait_for_stands_beside_the_path() -> None:
    page = explain(find_scenario(f"{PLANTED}:legacy_default_stream"), {}, InProcess(), budget_s=0.0, draws=0)
    run = execute(find_scenario(f"{PLANTED}:legacy_default_stream"))
    assert list(page.host_time.items()) == [(name, part.share) for name, part in run.where_time_went.items()][:3]
    together = ", ".join(f"{name} {percent(share)}" for name, share in page.host_time.items())
    assert any(f"of the time of all host threads together: {together}; " in str(line) for line in printed(page))
