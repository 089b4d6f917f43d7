"""A run with hundreds of exact ties, timeouts and cancellations, and the list of what happened in it.

As a script (``python workload_of_ties.py``) it prints one digest a line: native, turbo, turbo with slices of 7 steps.
"""

import hashlib

import trio

from offloadrt.sim import TIMED_OUT, Fifo, Lock, Mailbox, Random, RWLock, Semaphore, Signal, Simulation, Station

SWARM = 12


def history(gear, strategy=None, **options):
    """Every step of every actor: (virtual time, actor, what)."""
    sim = Simulation(gear=gear, strategy=strategy or Fifo(), seed=3, **options)
    log = []

    def note(*what):
        log.append((sim.now, sim.current.name, *what))

    async def main():
        lock, barging = Lock(sim, "lock"), Lock(sim, "barging", handoff="barging")
        tables, units, engine = RWLock(sim, "tables"), Semaphore(sim, 2, "units"), Station(sim, 2, "engine")
        box, late, go = Mailbox(sim, "box"), Mailbox(sim, "late"), Signal(sim, "go")

        async def driver():
            while True:
                call = await box.get()
                note("serves", call.message)
                await sim.sleep(0.125)
                note("replied", call.reply(call.message * 2))

        async def host(i):
            await go.wait()
            for j in range(6):
                await sim.sleep(0.5 if (i + j) % 3 else 1.0)
                async with lock:
                    note("lock")
                    await sim.sleep(0.25)
                with sim.move_on_after(0.375) as scope:
                    note("reply", await box.call(i))
                    await barging.acquire()
                    try:
                        await sim.sleep(0.25)
                    finally:
                        barging.release()
                note("timed out", scope.timed_out)
                with sim.move_on_after(0.5 * (1 + j % 3)) as scope:
                    if (i + j) % 4:
                        await tables.acquire_read()
                    else:
                        await tables.acquire_write()
                    try:
                        await sim.sleep(0.5)
                        if tables.writer is sim.current:
                            tables.downgrade()
                            await sim.sleep(0)
                    finally:
                        tables.release()
                note("tables", scope.timed_out)
                async with units:
                    await engine.serve(0.25 * (i % 2))
                late.put(i)
                got = await late.get_until(sim.now + 0.25)
                note("late", "nothing" if got is TIMED_OUT else got)

        async def victim(i):
            try:
                await sim.sleep(i % 2)
                if i % 3 == 0:
                    async with sim.attached():
                        await trio.sleep(1 + 0.001 * i)
                async with lock, units:
                    await engine.serve(1.0)
                await Signal(sim, "never").wait()
            finally:
                note("cleans up")
                with trio.CancelScope(shield=True):
                    await sim.sleep(0.5)
                note("gone")

        async def canceller(i):
            await sim.sleep(1.0)
            async with sim.open_nursery() as nursery:
                for k in range(3):
                    nursery.spawn(victim, 3 * i + k, name=f"victim {i}.{k}")
                await sim.sleep(1.5 + i % 2)
                note("cancels")
                nursery.cancel()
            note("cancelled all")

        async def raw(i):
            async with sim.attached():
                with trio.move_on_after(1.0 + i / 64) as scope:
                    await sim.sleep(0.5)
                    await lock.acquire()
                    lock.release()
                    await trio.sleep(7)
            note("raw", scope.cancelled_caught)

        sim.spawn(driver, name="driver", daemon=True)
        for i in range(SWARM):
            sim.spawn(host, i, name=f"host {i}")
            sim.spawn(canceller, i, name=f"canceller {i}")
            sim.spawn(raw, i, name=f"raw {i}")
        go.set()
        with sim.move_on_after(12.0):
            await Signal(sim, "never").wait()
        statistics = [p.statistics() for p in (lock, barging, tables, units, engine, box, late)]
        note("statistics", repr(statistics))

    sim.run(main)
    return log


def digest(log):
    return hashlib.sha256(repr(log).encode()).hexdigest()


if __name__ == "__main__":
    for gear, slice in (("native", 2000), ("turbo", 2000), ("turbo", 7)):
        print(digest(history(gear, slice=slice)), digest(history(gear, Random(5), slice=slice)))
