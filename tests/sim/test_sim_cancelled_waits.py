"""Every wait of every primitive can be cancelled, in every way, and leaves nothing behind. In both gears."""

import pytest
import trio

from offloadrt.sim import (
    TIMED_OUT,
    Lock,
    Mailbox,
    RWLock,
    Semaphore,
    Signal,
    Station,
)

WAITS = {
    "sleep": lambda sim, held: sim.sleep(100),
    "lock": lambda sim, held: held["lock"].acquire(),
    "barging": lambda sim, held: held["barging"].acquire(),
    "reader": lambda sim, held: held["tables"].acquire_read(),
    "writer": lambda sim, held: held["tables"].acquire_write(),
    "semaphore": lambda sim, held: held["units"].acquire(),
    "station queue": lambda sim, held: held["engine"].serve(1),
    "station service": lambda sim, held: held["free engine"].serve(100),
    "mailbox": lambda sim, held: held["box"].get(),
    "mailbox until": lambda sim, held: held["box"].get_until(100),
    "call": lambda sim, held: held["asked"].call("?"),
    "signal": lambda sim, held: held["signal"].wait(),
}


@pytest.mark.parametrize("how", ["timeout", "nursery", "attached scope"])
@pytest.mark.parametrize("wait", list(WAITS))
def test_every_wait_can_be_cancelled_and_leaves_nothing_behind(sim, wait, how):
    held = {
        "lock": Lock(sim, "lock"),
        "barging": Lock(sim, "barging", handoff="barging"),
        "tables": RWLock(sim, "tables"),
        "units": Semaphore(sim, 0, "units"),
        "engine": Station(sim, 1, "engine"),
        "free engine": Station(sim, 1, "free engine"),
        "box": Mailbox(sim, "box"),
        "asked": Mailbox(sim, "asked"),
        "signal": Signal(sim, "signal"),
    }

    async def holder():
        async with held["lock"], held["barging"]:
            await held["tables"].acquire_write()
            await held["engine"].serve(50)
            held["tables"].release()

    async def victim():
        await WAITS[wait](sim, held)
        raise AssertionError("not reached")

    async def main():
        sim.spawn(holder)
        await sim.sleep(1)
        if how == "timeout":
            with sim.move_on_after(2):
                await victim()
        elif how == "nursery":
            async with sim.open_nursery() as nursery:
                nursery.spawn(victim)
                await sim.sleep(2)
                nursery.cancel()
        else:
            async with sim.attached():
                with trio.move_on_after(2):
                    await victim()
        assert sim.now == 3.0
        for primitive in held.values():
            assert primitive.statistics().tasks_waiting == 0
        queue = {"reader": "tables", "writer": "tables", "station queue": "engine"}.get(wait, wait)
        if queue in ("lock", "barging", "tables", "engine"):
            assert held[queue].statistics().wait_s == 2.0
        assert held["units"].statistics().wait_s == (2.0 if wait == "semaphore" else 0.0)
        free = held["free engine"].statistics()
        assert (free.in_service, free.busy_s, free.served) == (0, 2.0 if wait == "station service" else 0.0, 0)
        if wait == "call":
            call = await held["asked"].get()
            assert call.message == "?" and call.reply("!") is False
        await use_all(held)

    async def use_all(held):
        """Everything still works for the next user."""
        async with held["lock"], held["barging"]:
            assert sim.now == 50.0
        await held["tables"].acquire_write()
        held["tables"].downgrade()
        held["tables"].release()
        held["units"].release()
        await held["units"].acquire()
        await held["engine"].serve(1)
        await held["free engine"].serve(1)
        held["box"].put("item")
        assert await held["box"].get() == "item"
        assert await held["box"].get_until(54) is TIMED_OUT
        held["signal"].set("done")
        assert await held["signal"].wait() == "done"

    sim.run(main)
    assert sim.now == 54.0


def test_a_cancelled_writer_lets_the_readers_behind_it_in(sim):
    tables, log = RWLock(sim, "tables"), []

    async def writer():
        with sim.move_on_after(1):
            await tables.acquire_write()

    async def reader():
        await tables.acquire_read()
        log.append(sim.now)
        tables.release()

    async def main():
        await tables.acquire_read()
        sim.spawn(writer)
        sim.spawn(reader)
        await sim.sleep(5)
        tables.release()

    sim.run(main)
    assert log == [1.0]


@pytest.mark.parametrize("kind", ["lock", "reader", "writer", "semaphore", "mailbox", "call", "signal"])
def test_a_cancellation_that_finds_its_actor_served_takes_nothing_back(sim, kind):
    """What it was given at this instant it keeps, and the cancellation strikes where it waits next."""
    lock, tables, units = Lock(sim, "lock"), RWLock(sim, "tables"), Semaphore(sim, 0, "units")
    box, signal, log = Mailbox(sim, "box"), Signal(sim, "signal"), []
    wait, serve = {
        "lock": (lock.acquire, lock.release),
        "reader": (tables.acquire_read, tables.release),
        "writer": (tables.acquire_write, tables.release),
        "semaphore": (units.acquire, units.release),
        "mailbox": (box.get, lambda: box.put("letter")),
        "call": (lambda: box.call("?"), lambda: box.items[0].reply("letter")),
        "signal": (signal.wait, lambda: signal.set("letter")),
    }[kind]

    async def victim():
        log.append(await wait())
        try:
            await sim.sleep(5)
        finally:
            log.append(sim.now)

    async def main():
        await lock.acquire()
        await tables.acquire_write()
        async with sim.open_nursery() as nursery:
            victor = nursery.spawn(victim)
            await sim.sleep(1)
            serve()
            nursery.cancel()
        assert kind != "lock" or lock.owner is victor
        assert kind not in ("reader", "writer") or tables.holders() == [victor]

    sim.run(main)
    assert log == ["letter" if kind in ("mailbox", "call", "signal") else None, 1.0]
    assert all(it.statistics().tasks_waiting == 0 for it in (lock, tables, units, box, signal))


def test_a_service_that_is_cut_short_after_a_wait_leaves_no_timer(sim):
    engine, log = Station(sim, 1, "engine"), []

    async def hasty():
        with sim.move_on_after(3):
            await engine.serve(10)  # waits until t=1, and would be served until t=11
        log.append(sim.now)
        await sim.sleep(20)
        log.append(sim.now)

    async def main():
        sim.spawn(engine.serve, 1)
        sim.spawn(hasty)

    sim.run(main)
    statistics = engine.statistics()
    assert log == [3.0, 23.0]
    assert (statistics.served, statistics.wait_s, statistics.busy_s, statistics.in_service) == (1, 1.0, 3.0, 0)
