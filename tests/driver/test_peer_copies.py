"""Copies between devices: what one takes alone, over each way, and what several do to one another."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from peer_rig import PeerRig, peer_rig
from property_examples import examples

from offloadrt.driver import CudaDriver, DriverError
from offloadrt.machine import Machine, load
from offloadrt.sim import Simulation
from offloadrt.trace import events

SPEC = load("dgx1-v100")
LATENCY, LINK = SPEC.value("p2p.raw_latency"), SPEC.value("nvlink.link_bw")
STAGED, CHUNK = SPEC.value("p2p.staged_latency"), SPEC.count("p2p.chunk")
TO_HOST = SPEC.value("copy.latency") + CHUNK / SPEC.value("link.d2h_pinned")
OVER_LINK = LATENCY + CHUNK / LINK
NBYTES = 8 * CHUNK


# One copy


@pytest.mark.parametrize("nbytes", [0, 8, NBYTES])
@pytest.mark.parametrize("pull", [False, True])
def test_a_copy_over_a_link_takes_its_latency_and_its_bytes(nbytes, pull):
    rig = peer_rig(2, {"driver.copy_submit": "3 us", "sync.latency": "7 us"}, nbytes=NBYTES)

    async def main():
        stream = await rig.drivers[1 if pull else 0].streams.create()
        begin = rig.sim.now
        await rig.copy(stream, 0, 1, nbytes, pull)
        return rig.sim.now - begin

    assert rig.run(main) == pytest.approx(3e-6 + LATENCY + nbytes / LINK + 7e-6)
    assert (rig.moved("p2p"), rig.moved("h2d"), rig.moved("d2h")) == (nbytes, 0, 0)
    engines = [device.bytes_moved()["p2p"] for device in rig.machine.devices]
    assert engines == ([0, nbytes] if pull else [nbytes, 0])
    assert (rig.link(0, 1).bytes, rig.link(1, 0).bytes) == (nbytes, 0)


def test_two_links_are_twice_as_wide():
    (took,) = peer_rig(2, {"nvlink.topology": "0-1:2"}, nbytes=NBYTES).together((0, 1))
    assert took == pytest.approx(LATENCY + NBYTES / (2 * LINK))


def test_within_a_device_it_is_a_copy_within_it():
    rig = peer_rig(2, nbytes=NBYTES)
    (took,) = rig.together((1, 1))
    assert took == pytest.approx(SPEC.value("copy.latency") + NBYTES / (SPEC.value("mem.bw") / 2))
    assert rig.moved("d2d") == NBYTES and rig.moved("p2p") == 0


def test_the_trace_says_where_the_bytes_go():
    rig = peer_rig(4, nbytes=NBYTES)
    rig.together((3, 1))
    begin = next(event for event in rig.trace.events if isinstance(event, events.CopyBegin))
    assert (begin.device, begin.direction, begin.engine, begin.bytes, begin.memory) == (
        3, "p2p", "copy engine p2p 0", NBYTES, "device 1",
    )  # fmt: skip


# Without a link


@pytest.mark.parametrize(("way", "piece"), [("host", TO_HOST), ("neighbour", OVER_LINK)])
@pytest.mark.parametrize(
    ("buffers", "seconds"),
    [(1, lambda piece: 8 * 2 * piece), (2, lambda piece: 9 * piece), (5, lambda piece: 9 * piece)],
)
def test_a_copy_without_a_link_goes_piece_by_piece_through_buffers(way, piece, buffers, seconds):
    rig = peer_rig(8, {"p2p.without_link": way, "p2p.buffers": buffers}, nbytes=NBYTES)
    (took,) = rig.together((0, 5))
    assert took == pytest.approx(STAGED + seconds(piece))


@pytest.mark.parametrize("slow", ["link.h2d_pinned", "link.d2h_pinned"])
def test_the_slower_side_says_how_long_it_takes(slow):
    rig = peer_rig(8, {slow: "1 GB/s"}, nbytes=NBYTES)
    (took,) = rig.together((0, 5))
    assert took == pytest.approx(STAGED + TO_HOST + 8 * (SPEC.value("copy.latency") + CHUNK / 1e9))


def test_a_chunk_as_large_as_the_copy_is_stored_whole_and_then_forwarded():
    rig = peer_rig(8, {"p2p.without_link": "neighbour", "p2p.chunk": "1 GiB"}, nbytes=NBYTES)
    (took,) = rig.together((0, 5))
    assert took == pytest.approx(STAGED + 2 * (LATENCY + NBYTES / LINK))


@pytest.mark.parametrize("way", ["host", "neighbour"])
def test_halving_the_chunk_moves_results_by_less_than_two_percent(way):
    def seconds(chunk):
        return peer_rig(8, {"p2p.without_link": way, "p2p.chunk": chunk}, nbytes=100 << 20).together((0, 5))[0]

    assert seconds("1 MiB") == pytest.approx(seconds("2 MiB"), rel=0.02)


def test_through_the_host_bytes_go_up_and_down_and_through_a_neighbour_over_two_links():
    host = peer_rig(8, nbytes=NBYTES + 1)
    host.together((6, 3))
    assert (host.moved("d2h"), host.moved("h2d"), host.moved("p2p")) == (NBYTES + 1, NBYTES + 1, 0)
    assert host.machine.devices[6].bytes_moved()["d2h"] == host.machine.devices[3].bytes_moved()["h2d"] == NBYTES + 1
    through = peer_rig(8, {"p2p.without_link": "neighbour"}, nbytes=NBYTES + 1)
    through.together((6, 3))
    assert (through.moved("d2h"), through.moved("h2d"), through.moved("p2p")) == (0, 0, 2 * (NBYTES + 1))
    assert through.link(6, 2).bytes == through.link(2, 3).bytes == NBYTES + 1


def test_without_a_neighbour_in_use_it_goes_through_the_host():
    rig = peer_rig(2, {"nvlink.topology": "0-2 1-2", "p2p.without_link": "neighbour"}, nbytes=NBYTES)
    rig.together((0, 1))
    assert (rig.moved("d2h"), rig.moved("p2p")) == (NBYTES, 0)


def test_without_access_a_link_is_not_used():
    rig = peer_rig(2, {"p2p.without_link": "neighbour"}, nbytes=NBYTES, access=False)
    (took,) = rig.together((0, 1))
    assert took == pytest.approx(STAGED + 9 * TO_HOST)
    assert (rig.moved("d2h"), rig.moved("h2d"), rig.moved("p2p")) == (NBYTES, NBYTES, 0)


def test_a_small_copy_without_access_takes_what_was_measured():
    (took,) = peer_rig(2, nbytes=4, access=False).together((0, 1))
    assert took == pytest.approx(20e-6, rel=0.01)


# Several copies


def test_two_copies_over_one_link_share_it():
    rig = peer_rig(2, nbytes=NBYTES)
    assert rig.together((0, 1), (0, 1)) == pytest.approx([LATENCY + 2 * NBYTES / LINK] * 2)
    assert rig.link(0, 1).wait_s == pytest.approx(2 * NBYTES / LINK)
    assert rig.link(0, 1).busy_s == pytest.approx(2 * NBYTES / LINK)


def test_copies_in_one_stream_come_one_after_the_other():
    rig = peer_rig(3, nbytes=NBYTES)

    async def main():
        stream = await rig.drivers[0].streams.create()
        begin = rig.sim.now
        async with rig.sim.open_nursery() as nursery:
            for destination in (1, 2):
                nursery.spawn(rig.copy, stream, 0, destination)
        return rig.sim.now - begin

    assert rig.run(main) == pytest.approx(2 * (LATENCY + NBYTES / LINK))


@pytest.mark.parametrize("copies", [((0, 1), (1, 0)), ((0, 1), (0, 2), (0, 3)), ((0, 1), (2, 1), (3, 1))])
def test_copies_over_different_links_or_in_opposite_directions_do_not_meet(copies):
    rig = peer_rig(4, nbytes=NBYTES)
    assert rig.together(*copies) == pytest.approx([LATENCY + NBYTES / LINK] * len(copies))


def test_a_device_copies_to_as_many_peers_at_a_time_as_it_has_engines():
    rig = peer_rig(5, nbytes=NBYTES)
    alone = LATENCY + NBYTES / LINK
    assert rig.together((0, 1), (0, 2), (0, 3), (0, 4)) == pytest.approx([alone, alone, alone, 2 * alone])


def test_a_copy_through_a_neighbour_meets_the_neighbours_own():
    def seconds(*copies):
        rig = peer_rig(8, {"p2p.without_link": "neighbour", "gpu.copy_engines": 12}, nbytes=NBYTES)
        return rig.together(*copies)[0]

    assert seconds((0, 5), (1, 5)) > 1.3 * seconds((0, 5))
    assert seconds((0, 5), (5, 1)) == pytest.approx(seconds((0, 5)))


def all_to_all(devices):
    return [
        (source, destination) for source in range(devices) for destination in range(devices) if source != destination
    ]


@pytest.mark.parametrize("devices", [2, 4, 8])
@pytest.mark.parametrize("way", ["host", "neighbour"])
def test_all_to_all_conserves_bytes_and_takes_what_the_busiest_link_needs(devices, way):
    rig = peer_rig(devices, {"p2p.without_link": way}, nbytes=NBYTES)
    copies = all_to_all(devices)
    took = max(rig.together(*copies))
    linked = sum(
        1 for source, destination in copies if source // 4 == destination // 4 or abs(source - destination) == 4
    )
    staged = len(copies) - linked
    assert linked == {2: 2, 4: 12, 8: 32}[devices]
    assert rig.moved("d2h") == rig.moved("h2d") == (staged * NBYTES if way == "host" else 0)
    assert rig.moved("p2p") == (linked + (2 * staged if way == "neighbour" else 0)) * NBYTES
    links = rig.machine.peers.links.values()
    assert sum(link.bytes for link in links) == rig.moved("p2p")
    assert took >= max(link.bytes for link in links) / LINK
    assert took >= max(device.bytes_moved()["d2h"] for device in rig.machine.devices) / SPEC.value("link.d2h_pinned")
    assert all(link.statistics().busy_s >= link.bytes / LINK * (1 - 1e-9) for link in links)


@pytest.mark.parametrize("devices", [2, 4])
def test_all_to_all_among_devices_that_are_linked_each_with_each_takes_the_time_of_one_copy(devices):
    assert peer_rig(devices, nbytes=NBYTES).together(*all_to_all(devices)) == pytest.approx(
        [LATENCY + NBYTES / LINK] * (devices * (devices - 1))
    )


@examples(25)
@given(
    st.lists(
        st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda pair: pair[0] != pair[1]), min_size=1, max_size=9
    ),
    st.sampled_from(["host", "neighbour"]),
    st.integers(1, 3 * CHUNK),
)
def test_no_copy_is_faster_than_alone_and_no_link_faster_than_its_width(copies, way, nbytes):
    rig = peer_rig(8, {"p2p.without_link": way}, nbytes=nbytes)
    took = rig.together(*copies)
    for copy, seconds in zip(copies, took, strict=True):
        (alone,) = peer_rig(8, {"p2p.without_link": way}, nbytes=nbytes).together(copy)
        assert seconds >= alone * (1 - 1e-9)
    assert max(took) >= max(link.bytes for link in rig.machine.peers.links.values()) / LINK
    for name, part in rig.machine.statistics().items():
        if name.startswith("peer link"):
            assert part.busy_s + part.idle_s == pytest.approx(rig.sim.now)


def test_doubling_all_rates_halves_the_time():
    def took(factor):
        scaled = {"p2p.without_link": "neighbour"}
        for key, entry in SPEC.entries.items():
            if not (entry.reference or isinstance(entry.value, (bool, str)) or not entry.value):
                if entry.unit.is_rate:
                    scaled[key] = entry.value * factor / entry.unit.factor
                elif entry.unit.dimension.startswith("time"):
                    scaled[key] = entry.value / factor / entry.unit.factor
        return max(peer_rig(8, scaled, nbytes=NBYTES + 77).together(*all_to_all(8)))

    assert took(2.0) == pytest.approx(took(1.0) / 2)


# Data, determinism, accounting


@pytest.mark.parametrize(
    ("way", "access"), [("host", True), ("neighbour", True), ("host", False)], ids=["host", "neighbour", "no access"]
)
def test_the_bytes_arrive(way, access):
    rig = peer_rig(8, {"p2p.without_link": way}, nbytes=CHUNK + 13, access=access, phantom=False)
    sent = np.random.default_rng(3).integers(0, 256, CHUNK + 13, dtype=np.uint8)

    async def main():
        rig.values(0)[:] = sent
        for source, destination in [(0, 1), (1, 6), (6, 7), (7, 0)]:
            stream = await rig.drivers[source].streams.create()
            await rig.copy(stream, source, destination)
            assert (rig.values(destination) == sent).all()
            rig.values(source)[:] = 0

    rig.run(main)
    assert (rig.values(0) == sent).all() and not rig.values(7).any()


def test_bytes_are_there_when_the_copy_completes_and_not_before():
    rig = peer_rig(8, nbytes=NBYTES, phantom=False)

    async def main():
        rig.values(0)[:] = 1
        stream = await rig.drivers[0].streams.create()
        await rig.drivers[0].peers.copy(stream, None, 5, rig.peers[5].block, 0, rig.peers[0].block, NBYTES)
        await rig.sim.sleep(STAGED + 8 * TO_HOST)
        assert not rig.values(5).any()
        await rig.drivers[0].streams.synchronize(stream)
        assert rig.values(5).all()

    rig.run(main)


@pytest.mark.parametrize("way", ["host", "neighbour"])
def test_both_gears_give_one_trace(way):
    def hash_in(gear):
        rig = peer_rig(
            8, {"p2p.without_link": way, "driver.copy_submit": "2 us", "jitter": 0.05}, nbytes=NBYTES, gear=gear
        )
        rig.together(*all_to_all(8))
        return rig.trace.hash()

    assert hash_in("turbo") == hash_in("native") == hash_in("turbo")


def test_the_time_of_a_copy_is_the_streams():
    rig = peer_rig(8, nbytes=NBYTES)
    rig.together((0, 5), (0, 1))
    assert rig.machine.host_time.seconds["copies"] == pytest.approx(STAGED + 9 * TO_HOST + LATENCY + NBYTES / LINK)
    assert rig.calls.count("cuMemcpyPeerAsync") == 2


def test_enabling_access_costs_once_for_each_peer():
    rig = peer_rig(3, {"p2p.enable_access": "250 us"}, access=False)

    async def main():
        begin = rig.sim.now
        assert await rig.drivers[0].peers.can_access(2)
        assert rig.sim.now == begin
        await rig.drivers[0].peers.enable_access(2)
        return rig.sim.now - begin

    assert rig.run(main) == pytest.approx(250e-6)


# What goes wrong


async def to_a_device_that_is_not_there(rig: PeerRig, stream):
    await rig.drivers[0].peers.copy(stream, None, 8, 0, 0, rig.peers[0].block, 8)


async def in_a_stream_of_neither(rig: PeerRig, stream):
    await rig.drivers[0].peers.copy(stream, None, 1, rig.peers[1].block, 2, rig.peers[2].block, 8)


async def to_memory_of_another(rig: PeerRig, stream):
    await rig.drivers[0].peers.copy(stream, None, 1, rig.peers[0].block, 0, rig.peers[0].block, 8)


async def beyond_a_block(rig: PeerRig, stream):
    await rig.drivers[0].peers.copy(stream, None, 1, rig.peers[1].block, 0, rig.peers[0].block, rig.nbytes + 1)


async def access_without_a_link(rig: PeerRig, stream):
    await rig.drivers[0].peers.enable_access(5)


async def access_to_itself(rig: PeerRig, stream):
    await rig.drivers[0].peers.enable_access(0)


async def access_twice(rig: PeerRig, stream):
    await rig.drivers[0].peers.enable_access(1)


async def access_to_nobody(rig: PeerRig, stream):
    await rig.drivers[0].peers.can_access(-1)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (
            to_a_device_that_is_not_there,
            "cuMemcpyPeerAsync failed with CUDA_ERROR_INVALID_DEVICE: no device 8; .* 0 to 7",
        ),
        (
            in_a_stream_of_neither,
            "cuMemcpyPeerAsync .*INVALID_VALUE: a copy from device 2 to 1 in a stream of device 0",
        ),
        (to_memory_of_another, "cuMemcpyPeerAsync .*INVALID_VALUE: .*0x7f"),
        (beyond_a_block, "cuMemcpyPeerAsync .*INVALID_VALUE: 1000001 bytes at .* beyond their block"),
        (access_without_a_link, "cuCtxEnablePeerAccess .*_PEER_ACCESS_UNSUPPORTED: device 0 has no link to 5"),
        (access_to_itself, "cuCtxEnablePeerAccess .*_PEER_ACCESS_UNSUPPORTED"),
        (access_twice, "cuCtxEnablePeerAccess .*_PEER_ACCESS_ALREADY_ENABLED: device 0 has access to 1"),
        (access_to_nobody, "cuDeviceCanAccessPeer .*INVALID_DEVICE: no device -1"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_bad_call_fails_with_the_drivers_own_error(wrong, text):
    rig = peer_rig(8)

    async def main():
        stream = await rig.drivers[0].streams.create()
        with pytest.raises(DriverError, match=text):
            await wrong(rig, stream)
        await rig.copy(stream, 0, 1)

    rig.run(main)


def test_a_machine_without_links_copies_through_the_host():
    sim = Simulation()
    machine = Machine(sim, load("alex-a100"), devices=2)
    one, other = CudaDriver.of(machine, 0), CudaDriver.of(machine, 1)

    async def main():
        stream = await one.streams.create()
        blocks = await one.memory.alloc(64), await other.memory.alloc(64)
        assert not await one.peers.can_access(1)
        await one.peers.copy(stream, None, 1, blocks[1], 0, blocks[0], 64)
        await one.streams.synchronize(stream)

    sim.run(main)
    assert [device.bytes_moved() for device in machine.devices] == [
        {"h2d": 0, "d2h": 64, "d2d": 0, "p2p": 0},
        {"h2d": 64, "d2h": 0, "d2d": 0, "p2p": 0},
    ]
