"""A device table on a machine of its own, and threads that enter it; the rig of the tests of its lock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from offloadrt.machine import Machine, load
from offloadrt.machine.host_lock import LockPolicy, lock_policy
from offloadrt.runtime.mapping.table_arbiter import TableArbiter
from offloadrt.sim import Simulation

HANDOVER = 0.25


def arbiter(sim: Simulation, policy: str | LockPolicy = "fifo", cores: int = 64, **overrides: object) -> TableArbiter:
    """A device table on a machine of its own, with a hand-over of a quarter of a second."""
    machine = Machine(sim, load("alex-a100", {"jitter": 0.0, "cpu.cores": cores, **overrides}))
    return TableArbiter(machine, "device table", lock_policy(policy), HANDOVER)


def together(sim: Simulation, table: TableArbiter, *bodies: Callable[[], Awaitable[None]]) -> None:
    """Run the bodies as threads that begin at the same instant."""

    async def main() -> None:
        table.start()
        async with sim.open_nursery() as nursery:
            for number, body in enumerate(bodies):
                nursery.spawn(body, name=f"thread {number}")

    sim.run(main)


def contend(sim: Simulation, table: TableArbiter, threads: int) -> list[tuple[str, float]]:
    """Have each thread enter twice and work there for a second; who has finished its work there, and when."""
    log: list[tuple[str, float]] = []

    async def body() -> None:
        for _ in range(2):
            await table.lock.enter(1.0)
            log.append((sim.current.name, sim.now))
            table.lock.release()

    together(sim, table, *[body] * threads)
    return log
