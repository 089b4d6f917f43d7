"""Thrashing of managed memory: found page by page, throttled in turns, pinned to the host, and forgotten."""

import json
from pathlib import Path
from statistics import median

import pytest

from offloadrt import Run, cuda, execute, kernel, scenario
from offloadrt.driver import UvmCounters
from offloadrt.driver.uvm.thrashing import Hint, Thrashing, ThrashingRules
from offloadrt.kernels import Kernel
from offloadrt.machine.managed.sweep import ManagedAccess

PAGE = 64 << 10
LAPSE = NAP = 500e-6
SOON = 100e-6
TOUCH = Kernel("touch").launch(1, 128, 1)


def watching(pin_threshold=10, detects=True):
    counters = UvmCounters()
    rules = ThrashingRules(detects, 3, pin_threshold, lapse=LAPSE, nap=NAP, oversleep=0.5, pin=300 * LAPSE)
    return Thrashing(rules, 32, counters), counters


def ping_pong(watch, times, pages=0b1, period=SOON, index=7, start=0.0):
    """Pages go to and fro, one migration a period; returns when the next one is due."""
    for number in range(times):
        watch.migrated(index, pages, ("device", "host")[number % 2], start + number * period)
    return start + times * period


def test_a_page_thrashes_after_three_migrations_in_a_row_that_are_tracked():
    """The first one is noted for the block, the second makes it tracked, three more count."""
    watch, counters = watching()
    ping_pong(watch, 4)
    assert watch.thrashing(7) == counters.thrashing == 0
    watch, counters = watching()
    ping_pong(watch, 5, pages=0b101)
    assert watch.thrashing(7) == 0b101
    assert watch.thrashing(8) == 0
    assert counters.thrashing == 2


@pytest.mark.parametrize(("detects", "period"), [(True, 2 * LAPSE), (False, SOON)])
def test_slow_turns_and_no_detection_are_no_thrashing(detects, period):
    watch, counters = watching(detects=detects)
    now = ping_pong(watch, 50, period=period)
    assert watch.hint(7, 0, "device", now) is Hint.MIGRATE
    assert counters.thrashing == 0


def test_only_the_pages_that_move_thrash():
    """Two neighbours in a block that have nothing to do with each other: each migrates one way."""
    watch, counters = watching()
    for number in range(20):
        watch.migrated(7, 1 << number, ("device", "host")[number % 2], number * SOON)
    assert counters.thrashing == 0


def test_one_side_is_throttled_for_a_nap_then_the_other():
    watch, counters = watching()
    now = ping_pong(watch, 5)
    assert watch.hint(7, 0, "host", now) is Hint.MIGRATE
    assert watch.hint(7, 0, "device", now + SOON) is Hint.THROTTLE
    assert watch.throttled_until(7, 0) == now + NAP
    assert watch.hint(7, 0, "device", now + 2 * SOON) is Hint.THROTTLE
    assert watch.hint(7, 0, "host", now + 3 * SOON) is Hint.MIGRATE
    assert watch.hint(7, 0, "device", now + NAP + SOON / 2) is Hint.MIGRATE
    assert counters.throttling == 1


def throttled_until_pinned(watch, start=0.0):
    """Both sides keep asking, one migration for each favour; returns (who was pinned out, when)."""
    now = ping_pong(watch, 5, start=start)
    for number in range(1000):
        side = ("host", "device")[number % 2]
        hint = watch.hint(7, 0, side, now)
        if hint is Hint.PIN:
            return side, now
        if hint is Hint.MIGRATE:
            watch.migrated(7, 1, side, now)
        now += SOON
    raise AssertionError("never pinned")


def test_a_page_is_pinned_to_the_host_after_enough_throttling_and_for_a_time():
    watch, counters = watching(pin_threshold=10)
    _, now = throttled_until_pinned(watch)
    assert counters.throttling >= 10
    assert {watch.hint(7, 0, side, now + SOON) for side in ("device", "host")} == {Hint.PIN}
    assert watch.unpinned(now + 100 * LAPSE) == []
    assert watch.unpinned(now + 301 * LAPSE) == [(7, 0)]
    assert watch.thrashing(7) == 0
    assert watch.hint(7, 0, "device", now + 302 * LAPSE) is Hint.MIGRATE


def test_a_pin_that_was_forgotten_does_not_end_a_later_one():
    watch, _ = watching()
    _, first = throttled_until_pinned(watch)
    watch.forget(7, 1)
    _, second = throttled_until_pinned(watch, start=200 * LAPSE)
    assert watch.unpinned(first + 301 * LAPSE) == []
    assert watch.unpinned(second + 301 * LAPSE) == [(7, 0)]


def test_throttling_counts_on_when_a_page_stops_thrashing_for_a_while():
    """As `thrashing_reset_page` leaves it: turns that each begin after a nap would never lead to a pin otherwise."""
    watch, counters = watching(pin_threshold=10)
    now, turns = 0.0, 0
    while True:
        for side in ("device", "host"):
            hint = watch.hint(7, 0, side, now)
            if hint is Hint.THROTTLE:
                now = watch.throttled_until(7, 0) + SOON
                hint = watch.hint(7, 0, side, now)
            if hint is Hint.PIN:
                assert counters.throttling >= 10
                return
            watch.migrated(7, 1, side, now)
            now += SOON
        turns += 1
        assert turns < 100, "never pinned"


def test_more_patience_pins_later():
    ends = [throttled_until_pinned(watching(threshold)[0])[1] for threshold in (0, 5, 20)]
    assert ends == sorted(ends) and len(set(ends)) == 3


def test_what_the_program_moves_or_frees_is_forgotten():
    watch, _ = watching()
    now = ping_pong(watch, 6, pages=0b11)
    watch.forget(7, 0b01)
    assert watch.thrashing(7) == 0b10
    assert watch.hint(7, 0, "device", now) is Hint.MIGRATE


def turns(uvm, overrides, times=40):
    """Kernel and host touch one page in turn."""
    rig = uvm(overrides)
    address = rig.array(PAGE, touched=True)

    async def main():
        for _ in range(times):
            await rig.kernel(TOUCH, ManagedAccess(address, PAGE))
            await rig.uvm.host_access(address, PAGE)

    rig.run(main)
    return rig


def test_without_detection_every_turn_migrates(uvm):
    rig = turns(uvm, {"thrash.detection": False})
    assert rig.counters.bytes_htod == rig.counters.bytes_dtoh == 40 * PAGE
    assert rig.counters.thrashing == rig.counters.remote_maps == 0


def test_pinning_saves_migrations(uvm):
    """With long lapses nothing is forgotten, so that the page ends on the host and the kernel reaches it there."""
    free, throttled = (
        turns(uvm, {"thrash.detection": on, "thrash.lapse": "10 ms", "thrash.pin": "1 s"}) for on in (False, True)
    )
    assert throttled.counters.thrashing == 1
    assert throttled.counters.throttling >= 10
    assert throttled.counters.remote_maps > 0
    assert throttled.counters.bytes_htod < free.counters.bytes_htod


def test_a_throttled_kernel_asks_again_and_keeps_the_handler_busy(uvm):
    """Batches without a page served: replayed until the period is over."""
    free, throttled = (
        turns(uvm, {"thrash.detection": on, "thrash.lapse": "10 ms", "thrash.pin_threshold": 1000})
        for on in (False, True)
    )
    assert throttled.counters.bytes_htod == free.counters.bytes_htod
    assert throttled.counters.batches > free.counters.batches
    assert throttled.sim.now > free.sim.now


def test_a_pin_ends_in_time_though_nobody_faults_meanwhile(uvm):
    """The kernel reaches the pinned page over the link, and the host has it: none of them faults until the pin ends."""
    lasting, ending = (
        turns(uvm, {"thrash.lapse": "10 ms", "thrash.pin_threshold": 1, "thrash.pin": pin}, times=400)
        for pin in ("10 s", "1 ms")
    )
    assert ending.counters.remote_maps > 3 * lasting.counters.remote_maps == 3


def longest_access(uvm, overrides):
    """Return the longest access of the host in few turns, and the shortest that faulted, in seconds."""
    rig, took = uvm(overrides), []
    address = rig.array(PAGE, touched=True)

    async def main():
        for _ in range(5):
            await rig.kernel(TOUCH, ManagedAccess(address, PAGE))
            begin = rig.sim.now
            await rig.uvm.host_access(address, PAGE)
            took.append(rig.sim.now - begin)

    rig.run(main)
    return max(took), min(took)


def test_a_throttled_thread_sleeps_half_as_long_again_as_its_nap(uvm):
    """`usleep_range(nap, nap + nap / 2)`: up to the first nap both runs are the same."""
    (exact, fault), (longer, _) = (longest_access(uvm, {"thrash.oversleep": part}) for part in (0, 0.5))
    nap = 2 * (longer - exact)
    assert 0.5 * NAP < nap <= NAP
    assert exact == pytest.approx(nap + fault)


@kernel(flops_per_iteration=1, bytes_per_iteration=2, reads=("a",), writes=("a",))
def touch(a):
    """Touch one byte of each page, as `touch_together` of `bench/hardware/managed.cu` does."""


@scenario(machine="h200-vm")
async def to_and_fro(run: Run, nbytes: int, times: int) -> dict[str, float]:
    """Kernel and host touch all pages of an array in turn, `times` times each."""

    async def body(t: cuda.HostThread) -> list[float]:
        a, took = await t.malloc_managed("a", nbytes, "u1"), []
        await t.host_access(a)
        for _ in range(times):
            await t.launch(touch, a, grid=64, block=128, iterations=nbytes // 4096)
            await t.device_synchronize()
            begin = run.sim.now
            await t.host_access(a)
            took.append(run.sim.now - begin)
        return took

    run.options = cuda.CUDAOptions(phantom=True)
    return {f"turn {turn}": took for turn, took in enumerate((await run.parallel(body, 1))[0])}


def accesses(nbytes):
    """Return what each access of the host took on an H200, and what it takes here, in seconds."""
    path = Path(__file__).parents[2] / "bench" / "hardware" / "h200" / "benchmarks.jsonl"
    rows = [row for row in map(json.loads, path.read_text().splitlines()) if row.get("size") == nbytes]
    measured = [row["median_s"] for row in rows if row["variant"].startswith("to_host_turn_")]
    return measured, [*execute(to_and_fro, nbytes=nbytes, times=len(measured)).measured.values()]


def test_a_thread_naps_as_long_as_on_an_h200():
    measured, here = (median(took for took in host if took > NAP) for host in accesses(12 << 10))
    assert measured > 1.5 * NAP
    assert here == pytest.approx(measured, rel=0.2)


def test_pages_that_thrash_fault_one_by_one_as_on_an_h200():
    """In the third turn all 512 pages of a block thrash, so that none brings another one along."""
    measured, here = accesses(2 << 20)
    assert measured[2] > 10 * measured[1] and here[2] > 10 * here[1]
    assert here[2] / measured[2] < 1.7
