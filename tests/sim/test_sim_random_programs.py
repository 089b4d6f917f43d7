"""Random programs over every primitive, with cancellation: gear against gear, in every order of ties."""

import trio
from hypothesis import given
from hypothesis import strategies as st
from property_examples import examples
from reference_model import QUIET

from offloadrt.sim import TIMED_OUT, Lock, Mailbox, Random, RWLock, Semaphore, Signal, Simulation, Station

WHAT = [
    *("sleep", "lock", "barging", "read", "write", "units", "serve", "put", "get", "get_until", "call", "wait", "set"),
    *("cancel", "raw", "children", "spin"),
]
steps = st.lists(
    st.tuples(
        st.sampled_from(WHAT),
        st.sampled_from([0.0, 0.5, 1.0]),
        st.sampled_from([None, None, 0.0, 0.5, 1.0]),
    ),
    max_size=8,
)


def history(programs, gear, **options):
    """Run one program an actor; durations are so few that most events are exact ties."""
    sim, log = Simulation(gear=gear, **options), []
    lock, barging = Lock(sim, "lock"), Lock(sim, "barging", handoff="barging")
    tables, units, engine = RWLock(sim, "tables"), Semaphore(sim, 1, "units"), Station(sim, 1, "engine")
    box, asked, signals = Mailbox(sim, "box"), Mailbox(sim, "asked"), [Signal(sim, f"signal {i}") for i in range(9)]
    nurseries = {}

    async def step(me, k, what, dt):
        match what:
            case "sleep":
                await sim.sleep(dt)
            case "lock" | "barging":
                async with lock if what == "lock" else barging:
                    await sim.sleep(dt)
            case "read" | "write":
                await (tables.acquire_read() if what == "read" else tables.acquire_write())
                try:
                    await sim.sleep(dt)
                    if what == "write" and dt:
                        tables.downgrade()
                        await sim.sleep(dt)
                finally:
                    tables.release()
            case "units":
                async with units:
                    await sim.sleep(dt)
            case "serve":
                await engine.serve(dt)
            case "put":
                box.put((me, k))
            case "get":
                log.append((sim.now, me, await box.get()))
            case "get_until":
                got = await box.get_until(sim.now + dt)
                log.append((sim.now, me, "nothing" if got is TIMED_OUT else got))
            case "call":
                log.append((sim.now, me, await asked.call((me, dt))))
            case "wait":
                await signals[me].wait()
            case "set":
                if not signals[k].is_set:
                    signals[k].set()
            case "cancel":
                if (me + 1 + k) % len(programs) in nurseries:
                    nurseries[(me + 1 + k) % len(programs)].cancel()
            case "raw":
                async with sim.attached():
                    await trio.sleep(dt + (1 + me) / 64 + k / 1024)
                    await sim.sleep(dt)
            case "children":
                async with sim.open_nursery() as nursery:
                    nursery.spawn(step, me, k, "lock", dt)
                    nursery.spawn(step, me, k, "units", dt)
            case "spin":
                for _ in range(5):
                    async with lock:
                        pass

    async def body(me, program):
        async with sim.open_nursery() as nursery:
            nurseries[me] = nursery
            for k, (what, dt, timeout) in enumerate(program):
                try:
                    with sim.move_on_after(1e9 if timeout is None else timeout) as scope:
                        await step(me, k, what, dt)
                    log.append((sim.now, me, k, what, scope.timed_out))
                except trio.Cancelled:
                    log.append((sim.now, me, k, what, "cancelled"))
                    raise
        del nurseries[me]
        log.append((sim.now, me, "ends"))

    async def server():
        while True:
            call = await asked.get()
            await sim.sleep(call.message[1])
            log.append((sim.now, "replies", call.message, call.reply(sim.now)))

    async def main():
        sim.spawn(server, daemon=True)
        with sim.move_on_after(40):
            async with sim.open_nursery() as nursery:
                for me, program in enumerate(programs):
                    nursery.spawn(body, me, program)
        statistics = [p.statistics() for p in (lock, barging, tables, units, engine, box)]
        assert all(s.tasks_waiting == 0 for s in statistics)
        assert lock.owner is barging.owner is tables.writer is None and not tables.readers
        assert units.value == 1 and engine.statistics().in_service == 0
        log.append(repr(statistics))

    sim.run(main)
    return log


@given(st.lists(steps, min_size=1, max_size=6))
@examples(150, base=QUIET)
def test_random_programs_have_one_history_in_both_gears(programs):
    expected = history(programs, "native")
    assert history(programs, "turbo") == expected
    assert history(programs, "turbo", slice=1) == expected
    assert history(programs, "turbo", slice=3) == expected


@given(st.lists(steps, min_size=1, max_size=6), st.integers(0, 99))
@examples(50, base=QUIET)
def test_random_programs_in_a_random_order_have_one_history_a_seed(programs, seed):
    expected = history(programs, "native", strategy=Random(seed))
    assert history(programs, "turbo", strategy=Random(seed)) == expected
    assert history(programs, "turbo", strategy=Random(seed), slice=2) == expected
