"""Mean waiting times against theory: M/D/1 (Pollaczek and Khinchine) and M/M/c (Erlang C), within 2 percent."""

import math

import pytest

from offloadrt.sim import Lock, Mailbox, Semaphore, Simulation, Station

CUSTOMERS = 150_000
ACTORS = 64
"""Far more than are ever in the system at the loads below, so that nobody is turned away."""


def mean_wait(capacity, load, service_times, make_server, waited):
    """Poisson arrivals at ``load * capacity`` a second, mean service of one second; seconds a customer waits."""
    sim = Simulation(gear="turbo", seed=11)
    arrivals = sim.rng.exponential(1 / (load * capacity), CUSTOMERS).tolist()
    services = iter(service_times(sim.rng))
    server, door = make_server(sim, capacity), Mailbox(sim, "door")

    async def customer():
        while True:
            await door.get()
            dt = next(services)
            if isinstance(server, Station):
                await server.serve(dt)
            else:
                async with server:
                    await sim.sleep(dt)

    async def source():
        for dt in arrivals:
            await sim.sleep(dt)
            door.put(None)

    async def main():
        for _ in range(ACTORS):
            sim.spawn(customer, daemon=True)
        await source()

    sim.run(main)
    return waited(server.statistics()) / CUSTOMERS


def deterministic(rng):
    return [1.0] * CUSTOMERS


def exponential(rng):
    return rng.exponential(1.0, CUSTOMERS).tolist()


def erlang_c_wait(servers, load):
    """Mean seconds in the queue of M/M/c with a mean service of one second."""
    offered = servers * load
    last = offered**servers / math.factorial(servers) / (1 - load)
    waits = last / (math.fsum(offered**k / math.factorial(k) for k in range(servers)) + last)
    return waits / (servers - offered)


def station(sim, capacity):
    return Station(sim, capacity, "station")


def lock(sim, capacity):
    return Lock(sim, "lock")


def semaphore(sim, capacity):
    return Semaphore(sim, capacity, "units")


@pytest.mark.parametrize("make_server", [station, lock])
def test_m_d_1(make_server):
    load = 0.5
    wait = mean_wait(1, load, deterministic, make_server, lambda statistics: statistics.wait_s)
    assert wait == pytest.approx(load / (2 * (1 - load)), rel=0.02)


@pytest.mark.parametrize(("make_server", "servers"), [(lock, 1), (station, 1), (station, 3), (semaphore, 3)])
def test_m_m_c(make_server, servers):
    wait = mean_wait(servers, 0.5, exponential, make_server, lambda statistics: statistics.wait_s)
    assert wait == pytest.approx(erlang_c_wait(servers, 0.5), rel=0.02)


def test_utilisation_is_the_load():
    busy = mean_wait(2, 0.6, exponential, station, lambda statistics: statistics.busy_s)
    assert busy == pytest.approx(1.0, rel=0.01)
