"""Messages between nodes: alone they take what the profile says; ranks share a card, switches share their links."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from rank_runs import finished, run_of

from offloadrt.extensions import mpi
from offloadrt.study import execute, find_scenario

US = 1e-6
EXACT = {
    "mpi__send": "1 us", "mpi__receive": "2 us", "mpi__rendezvous": "5 us", "mpi__eager_limit": "4096 B",
    "mpi__inject_limit": "64 B", "mpi__copy_bw": "10 GB/s", "nic__count": 1, "nic__bw": "20 GB/s",
    "nic__message_gap": "0.5 us", "nic__fetch": "0.7 us", "net__latency": "3 us",
}  # fmt: skip


def one_way(nbytes: int, gear: str = "turbo", delay: float = 0.0, **entries: object) -> list[float]:
    """When the sender's and the receiver's call returns, between two nodes."""

    async def main(process: Any) -> float:
        a = process.program.host_thread(0).array("a", nbytes, np.uint8, fill=process.rank + 1)
        if process.rank == 0:
            await process.world.Send(a, 1)
        else:
            await process.program.machine.cores.compute(delay)
            await process.world.Recv(a, 0)
            assert (a.data == 1).all()
        return float(process.program.sim.now)

    run = run_of(2, gear, **EXACT, **entries)
    run.configure(num_nodes=2)
    return finished(run, main)


def test_8_bytes_take_what_the_profile_says() -> None:
    sent, received = one_way(8)
    assert sent == pytest.approx(1 * US)
    assert received == pytest.approx((1 + 0.5 + 3 + 2) * US + 8 / 20e9)


def test_an_eager_message_is_copied_at_both_sides_and_fetched_by_the_card() -> None:
    copy, wire = 4096 / 10e9, 4096 / 20e9
    sent, received = one_way(4096)
    assert sent == pytest.approx(1 * US + copy)
    assert received == pytest.approx((1 + 0.5 + 0.7 + 3 + 2) * US + 2 * copy + wire)


def test_4_mib_take_what_the_profile_says() -> None:
    """Announced, asked for, sent: three ways over the network; a fourth tells the sender."""
    wire = (4 << 20) / 20e9
    sent, received = one_way(4 << 20)
    announced, asked = (1 + 0.5 + 3) * US, (5 + 0.5 + 3) * US
    assert received == pytest.approx(announced + asked + (0.5 + 0.7 + 3 + 2) * US + wire)
    assert sent == pytest.approx(received + (0.5 + 3) * US)


@pytest.mark.parametrize("nbytes", [8, 4096, 1 << 20])
def test_both_gears_are_equal(nbytes: int) -> None:
    assert one_way(nbytes, "native") == one_way(nbytes)


def test_a_receiver_that_computes_takes_an_announced_message_in_only_in_its_calls() -> None:
    """With matching in the card it has come meanwhile."""

    def waits(progress: str) -> float:
        async def main(process: Any) -> float:
            a, world = process.program.host_thread(0).array("a", 1 << 20, np.uint8), process.world
            if process.rank == 0:
                await world.Send(a, 1)
                return 0.0
            request = await world.Irecv(a, 0)
            await process.program.machine.cores.compute(1e-3)
            begin = process.program.sim.now
            await request.Wait()
            return float(process.program.sim.now - begin)

        run = run_of(2, **EXACT, mpi__progress=progress)
        run.configure(num_nodes=2)
        return finished(run, main)[1]

    assert waits("hardware") == pytest.approx(2 * US)
    assert waits("calls") == pytest.approx((5 + 0.5 + 3 + 0.5 + 0.7 + 3 + 2) * US + (1 << 20) / 20e9)


def rate(per_node: int, nbytes: int, messages: int = 8, **entries: object) -> float:
    """Bytes per second of each of several pairs between two nodes."""

    async def main(process: Any) -> float:
        world = process.world
        peer = (world.rank + per_node) % world.size
        begin = process.program.sim.now
        buffer = mpi.Buffer(nbytes)
        if world.rank < per_node:
            requests = [await world.Isend(buffer, peer) for _ in range(messages)]
        else:
            requests = [await world.Irecv(buffer, peer) for _ in range(messages)]
        await mpi.Request.Waitall(requests)
        return float(messages * nbytes / (process.program.sim.now - begin))

    run = run_of(2 * per_node, **{**EXACT, **entries})
    run.configure(num_nodes=2)
    return min(finished(run, main)[per_node:])


@pytest.mark.parametrize("per_node", [1, 2, 4])
def test_ranks_of_a_node_share_its_card(per_node: int) -> None:
    """What each gets is its part of the bandwidth: nothing divides by the number of ranks but the sharing itself."""
    assert rate(per_node, 64 << 20) == pytest.approx(20e9 / per_node, rel=0.01)


@pytest.mark.parametrize("per_node", [1, 2, 4])
def test_with_a_card_for_each_rank_none_waits(per_node: int) -> None:
    assert rate(per_node, 64 << 20, nic__count=per_node) == pytest.approx(20e9, rel=0.01)
    assert rate(per_node, 64 << 20, nic__uncontended=True) == pytest.approx(rate(1, 64 << 20, nic__uncontended=True))


def test_a_card_sends_so_many_messages_a_second() -> None:
    """Four ranks send 8 bytes each as fast as they can: the card's queue is what holds them up."""
    assert 4 * rate(4, 8, messages=400, mpi__send="0.1 us", mpi__receive="0.1 us") / 8 == pytest.approx(2e6, rel=0.02)
    assert rate(1, 8, messages=400, mpi__receive="0.1 us") / 8 == pytest.approx(1e6, rel=0.02)  # the core's rate


def test_nodes_of_two_switches_share_the_links_between_them() -> None:
    """Four nodes, two on a switch: pairs across the switches share an uplink as wide as one card."""

    def slowest(shift: int, **entries: object) -> float:
        async def main(process: Any) -> float:
            world, buffer = process.world, mpi.Buffer(64 << 20)
            if world.rank < 2 or shift == 1:
                peer = world.rank + 2 if shift == 2 else world.rank ^ 1
            else:
                peer = world.rank - 2
            sends = world.rank < 2 if shift == 2 else world.rank % 2 == 0
            await (world.Send(buffer, peer) if sends else world.Recv(buffer, peer))
            return float(process.program.sim.now)

        run = run_of(4, **{**EXACT, "net__switch_nodes": 2, "net__uplink_bw": "20 GB/s", **entries})
        run.configure(num_nodes=4)
        return max(finished(run, main))

    alone = (64 << 20) / 20e9
    assert slowest(1) == pytest.approx(alone, rel=0.01)
    assert slowest(2) == pytest.approx(2 * alone, rel=0.01)
    assert slowest(2, net__uncontended=True) == pytest.approx(alone, rel=0.01)


def device_message(nbytes: int, machine: str = "alex-a100", **entries: object) -> float:
    """A message from device memory to device memory, between two nodes; its bytes arrive."""

    async def main(process: Any) -> float:
        t, world = process.program.host_thread(0), process.world
        pointer = await t.omp_target_alloc(nbytes)
        buffer = mpi.device_buffer(process, pointer)
        assert buffer.values is not None and buffer.device == 0
        buffer.values[...] = process.rank + 1
        await world.Barrier()
        begin = process.program.sim.now
        if process.rank == 0:
            await world.Send(buffer, 1)
        else:
            await world.Recv(buffer, 0)
            assert (buffer.values == 1).all()
        return float(process.program.sim.now - begin)

    run = run_of(2, machine=machine, **entries)
    run.configure(num_nodes=2)
    return finished(run, main)[1]


def test_device_memory_goes_directly_or_is_staged() -> None:
    direct = device_message(1 << 18, mpi__device__nic_bw="5 GB/s")
    assert direct == pytest.approx((1 << 18) / 5e9, rel=0.2)
    assert device_message(1 << 18, mpi__device__path="staged") > device_message(1 << 18, mpi__device__nic_bw="20 GB/s")


def test_a_staged_message_is_a_pipeline() -> None:
    """Its chunks overlap: it takes less than its copies and its way over the network one after the other."""
    nbytes = 64 << 20
    took = device_message(nbytes, mpi__device__path="staged", mpi__device__staged_chunk="0 us", copy__latency="0 us")
    stages = nbytes / 25.8e9, nbytes / 23.5e9, nbytes / 25.7e9
    assert max(stages) < took < 0.5 * sum(stages)


def test_ranks_of_an_apu_on_two_nodes_compute_and_exchange() -> None:
    assert device_message(1 << 12, machine="mi300a") < device_message(1 << 22, machine="mi300a")


@pytest.mark.parametrize(("path", "link"), [("none", False), ("0-1:4", True)])
def test_devices_of_one_node_exchange_over_their_link(path: str, link: bool) -> None:
    async def main(process: Any) -> float:
        t, world = process.program.host_thread(0), process.world
        pointer = await t.omp_target_alloc(64 << 20, device=process.rank, phantom=True)
        await world.Barrier()
        begin = process.program.sim.now
        buffer = mpi.device_buffer(process, pointer)
        await (world.Send(buffer, 1) if process.rank == 0 else world.Recv(buffer, 0))
        return float(process.program.sim.now - begin)

    run = run_of(2, machine="a100-node4", nvlink__topology=path, gpu__devices=2, mpi__device__ipc="5 us")
    run.configure(num_devices=2)
    took, staged = finished(run, main)[1], 2 * (64 << 20) / 25.7e9
    assert (took < 0.5 * staged) == link


def test_a_halo_exchange_of_device_memory_computes_what_numpy_does() -> None:
    rows, columns, ranks, steps = 6, 8, 4, 5
    parameters = {"rows": rows, "columns": columns, "steps": steps, "phantom": False}
    grids = [np.full((rows, columns), float(rank**2)) for rank in range(ranks)]
    news = [grid.copy() for grid in grids]
    for _ in range(steps):
        for upper, lower in itertools.pairwise(grids):
            upper[-1], lower[0] = lower[1].copy(), upper[-2].copy()
        for old, new in zip(grids, news, strict=True):
            new[1:-1, 1:-1] = 0.25 * (old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:])
        grids, news = news, grids
    expected = sum(float(grid[1:-1].sum()) for grid in grids)
    for buffers in ("device", "host"):
        for nodes in (1, 2, 4):
            given = {**parameters, "buffers": buffers, "nodes": nodes, "gpus_per_node": ranks // nodes}
            assert execute(find_scenario("halo"), given).measured["sum"] == pytest.approx(expected)


def test_a_picture_shows_messages_with_arrows_from_rank_to_rank() -> None:
    rows: list[Any] = []

    class Kept:
        def write(self, given: Any) -> None:
            rows.extend(given)

        def close(self) -> None:
            pass

    execute(find_scenario("osu"), {"nbytes": 64, "iterations": 1}, sinks=[Kept()])
    sent = [row for row in rows if row[0] == "MessageSent"]
    received = {row[6]: row for row in rows if row[0] == "MessageReceived"}
    assert sent and {row[6] for row in sent} == set(received)
    for row in sent:
        _, begin, sender, *_, number, source, destination, _, _ = row
        _, end, receiver, *_ = received[number]
        assert begin < end and sender != receiver and source != destination
    assert {row[7] for row in rows if row[0] == "DirectiveBegin" and row[7].startswith("MPI")} == {
        "MPI_Barrier",
        "MPI_Send",
        "MPI_Recv",
    }
