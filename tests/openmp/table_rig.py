"""A device table on a machine of its own, and threads that enter it; the rig of the tests of its lock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from offloadrt.machine import Machine, load
from offloadrt.machine.host_lock import HostLock, LockPolicy, lock_policy
from offloadrt.sim import Simulation

HANDOVER = 0.25


def device_table(sim: Simulation, policy: str | LockPolicy = "fifo", cores: int = 64, **overrides: object) -> HostLock:
    """A device table on a machine of its own, with a hand-over of a quarter of a second."""
    machine = Machine(sim, load("alex-a100", {"jitter": 0.0, "cpu.cores": cores, **overrides}))
    return table_on(machine, policy, HANDOVER)


def table_on(machine: Machine, policy: str | LockPolicy, handover: float) -> HostLock:
    """A device table as `OffloadDevice` makes it."""
    return HostLock(
        machine,
        "device table",
        lock_policy(policy),
        handover,
        category="runtime",
        wait_category="table lock",
        uncontended=machine.spec.flag("table.uncontended"),
    )


def together(sim: Simulation, table: HostLock, *bodies: Callable[[], Awaitable[None]]) -> None:
    """Run the bodies as threads that begin at the same instant."""

    async def main() -> None:
        async with sim.open_nursery() as nursery:
            for number, body in enumerate(bodies):
                nursery.spawn(body, name=f"thread {number}")

    sim.run(main)


def contend(sim: Simulation, table: HostLock, threads: int) -> list[tuple[str, float]]:
    """Have each thread enter twice and work there for a second; who has finished its work there, and when."""
    log: list[tuple[str, float]] = []

    async def body() -> None:
        for _ in range(2):
            await table.enter(1.0)
            log.append((sim.current.name, sim.now))
            table.release()

    together(sim, table, *[body] * threads)
    return log
