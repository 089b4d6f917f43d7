"""Host memory at another socket: transfers and staging pass the link between the sockets, which all share."""

import pytest
from peer_rig import peer_rig

from offloadrt import Run
from offloadrt import openmp as omp
from offloadrt.machine import ProfileError, load
from offloadrt.runtime.host_array import HostSpan

NBYTES = 10**7
N = 4
SOCKETS = {"pcie.sockets": "0,1,2,3 4,5,6,7", "pcie.switches": "none", "numa.socket_bw": "10 GB/s", "copy.latency": 0}
SPEC = load("dgx1-v100")
NEAR = NBYTES / SPEC.value("link.h2d_pinned")
FAR = NBYTES / 10e9


def copies(devices=1, socket=1, pinned=True, direction="h2d", **settings):
    """Devices of socket 0 copy from or to memory of a socket, all at once; the seconds of each, and the link."""
    rig = peer_rig(8, {**SOCKETS, **settings}, access=False, nbytes=NBYTES)
    machine = rig.machine
    took = {}

    async def body(number):
        driver, block = rig.drivers[number], rig.peers[number].block
        here = HostSpan(machine.host_memory.allocate(NBYTES), NBYTES)
        if socket is not None:
            machine.sockets.bind(here.address, NBYTES, socket)
        stream = await driver.streams.create()
        begin = rig.sim.now
        if direction == "h2d":
            await driver.copies.htod(block, here, NBYTES, stream, pinned=pinned)
        else:
            await driver.copies.dtoh(here, block, NBYTES, stream, pinned=pinned)
        await driver.streams.synchronize(stream)
        took[number] = rig.sim.now - begin

    async def main():
        async with rig.sim.open_nursery() as nursery:
            for number in range(devices):
                nursery.spawn(body, number, name=f"host thread {number}")

    rig.run(main)
    way = "1-0" if direction == "h2d" else "0-1"
    return [took[number] for number in range(devices)], machine.statistics().get(f"memory link of sockets {way}")


FREE = {"driver.stream_create": 0}


@pytest.mark.parametrize("socket", [None, 0])
def test_memory_at_the_devices_socket_is_near_whether_bound_or_not(socket):
    (took,), link = copies(socket=socket, **FREE)
    assert took == pytest.approx(NEAR) and link is None


@pytest.mark.parametrize("direction", ["h2d", "d2h"])
def test_far_memory_has_the_bandwidth_of_the_slower_link(direction):
    (took,), link = copies(direction=direction, **FREE)
    assert took == pytest.approx(FAR, rel=1e-6)
    assert link.bytes == NBYTES
    (wide,), _ = copies(direction=direction, **FREE, **{"numa.socket_bw": "100 GB/s"})
    assert wide == pytest.approx(NBYTES / SPEC.value(f"link.{direction}_pinned"))


def test_staging_reads_far_memory_over_the_link():
    slow = {"numa.socket_bw": "1 GB/s"}
    (took,), link = copies(pinned=False, **FREE, **slow)
    assert took == pytest.approx(NBYTES / 1e9, rel=0.1) and link.bytes == NBYTES
    (near,), none = copies(pinned=False, socket=0, **FREE, **slow)
    assert near < 0.3 * took and none is None


def test_the_service_does_not_depend_on_the_number_of_devices_and_the_loss_is_the_waiting():
    ((alone,), one), (together, many) = copies(**FREE), copies(N, **FREE)
    assert max(together) > 1.5 * alone, "this test contends for nothing"
    assert many.busy_s / many.transfers == pytest.approx(one.busy_s / one.transfers)
    assert sum(together) - N * alone == pytest.approx(many.wait_s)


def test_without_contention_everybody_takes_the_time_of_one():
    (alone,), _ = copies(**FREE)
    settings = FREE | {"numa.socket.uncontended": True}
    assert copies(1, **settings)[0] == pytest.approx([alone])
    assert copies(N, **settings)[0] == pytest.approx([alone] * N)


def update(machine="a100-node8", socket=1, **settings):
    run = Run(machine=machine, overrides={"numa.socket_bw": "2 GB/s", **settings})
    run.phantom = True

    async def main():
        async def body(t):
            a = t.array("a", 1 << 20)
            if socket is not None:
                t.mbind(a, socket)
            await t.target_enter_data(omp.map(alloc=a))
            async with run.measure():
                await t.target_update(omp.to(a))

        await run.parallel(body)
        await run.finish()

    run.sim.run(main)
    return run.elapsed


def test_an_openmp_program_binds_an_array():
    near = update(socket=0)
    assert near == update(socket=None) and update() > 1.5 * near


@pytest.mark.parametrize(
    ("machine", "socket", "error", "why"),
    [
        ("alex-a100", 0, ProfileError, "pcie.sockets: is none, so that nothing is known of sockets"),
        ("a100-node8", 2, ValueError, "socket 2 does not exist: pcie.sockets has 2"),
    ],
)
def test_a_socket_that_is_not_described_is_refused(machine, socket, error, why):
    with pytest.raises(error, match=why):
        update(machine, socket)


def test_a_binding_leaves_what_others_have_beside_it():
    """As with mbind: the inner range of three moves, and the other two stay where they were."""
    rig = peer_rig(1, SOCKETS, access=False, nbytes=NBYTES)
    sockets = rig.machine.sockets
    for begin, nbytes, socket in ((0, 100, 1), (40, 20, 0), (90, 30, 1), (100, 5, 0)):
        sockets.bind(1000 + begin, nbytes, socket)
    far = [sockets.link(1000 + place, 0, to_device=True) is not None for place in range(0, 130, 5)]
    assert far == [*[True] * 8, *[False] * 4, *[True] * 8, False, *[True] * 3, *[False] * 2]
