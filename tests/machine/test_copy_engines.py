"""Copy engines against closed forms: latency + bytes / bandwidth, shared links, and the M/D/1 queue."""

import pytest

from offloadrt.machine import load
from offloadrt.machine.messages import CopyPacket
from offloadrt.sim import Signal
from offloadrt.trace import events

SPEC = load("alex-a100")
LATENCY, H2D, D2H = SPEC.value("copy.latency"), SPEC.value("link.h2d_pinned"), SPEC.value("link.d2h_pinned")
MIB = 1 << 20


def copier(rig, direction="h2d"):
    device = rig.machine.devices[0]

    async def copy(nbytes=MIB):
        done = Signal(rig.sim)
        packet = CopyPacket(rig.machine.next_number(), device.open_stream(), 0, direction, nbytes, "pinned", None, done)
        device.engines[direction].submit(packet)
        await done.wait()

    return copy


@pytest.mark.parametrize(("direction", "bandwidth"), [("h2d", H2D), ("d2h", D2H), ("d2d", SPEC.value("mem.bw") / 2)])
@pytest.mark.parametrize("nbytes", [0, 8, MIB])
def test_a_copy_alone_takes_its_latency_and_its_bytes(rig, direction, bandwidth, nbytes):
    hardware = rig()
    hardware.run(lambda: copier(hardware, direction)(nbytes))
    assert hardware.sim.now == pytest.approx(LATENCY + nbytes / bandwidth)
    assert hardware.machine.devices[0].bytes_moved()[direction] == nbytes


def test_one_engine_does_one_copy_after_the_other(rig):
    hardware = rig()
    ends = hardware.together(*[copier(hardware)] * 3)
    assert ends == pytest.approx([n * (LATENCY + MIB / H2D) for n in (1, 2, 3)])


def test_both_directions_go_on_at_once(rig):
    hardware = rig()
    ends = hardware.together(copier(hardware, "h2d"), copier(hardware, "d2h"))
    assert ends == pytest.approx([LATENCY + MIB / H2D, LATENCY + MIB / D2H])


def test_two_engines_of_one_direction_share_its_bandwidth(rig):
    hardware = rig({"gpu.copy_engines": 4, "gpu.copy_engines_h2d": 2})
    ends = hardware.together(*[copier(hardware)] * 2)
    assert ends == pytest.approx([LATENCY + 2 * MIB / H2D] * 2)


def test_time_is_conserved(rig):
    hardware = rig()
    hardware.together(*[copier(hardware)] * 5, *[copier(hardware, "d2h")] * 2)
    statistics = hardware.machine.statistics()
    for name in ("device 0 compute units", "device 0 copy engine h2d", "device 0 copy engine d2h", "host memory"):
        assert statistics[name].busy_s + statistics[name].idle_s == pytest.approx(hardware.sim.now), name
    assert statistics["cores"].idle_s == pytest.approx(128 * hardware.sim.now)
    engine = statistics["device 0 copy engine h2d"]
    assert engine.transfers == 5
    assert engine.busy_s == pytest.approx(5 * (LATENCY + MIB / H2D))
    assert engine.wait_s == pytest.approx((1 + 2 + 3 + 4) * (LATENCY + MIB / H2D))


def test_a_transfer_in_progress_counts_up_to_now(rig):
    hardware = rig()

    async def main():
        hardware.sim.spawn(copier(hardware))
        await hardware.sim.sleep(LATENCY)
        return hardware.machine.statistics()["device 0 copy engine h2d"]

    did = hardware.run(main)
    assert (did.busy_s, did.transfers) == (pytest.approx(LATENCY), 0)


def test_a_copy_engine_takes_nothing_but_copies(rig):
    hardware = rig()

    async def main():
        hardware.machine.devices[0].start()
        hardware.machine.devices[0].engines["h2d"].mailbox.put("a copy")
        await hardware.sim.sleep(1.0)

    with pytest.raises(TypeError, match="a copy engine does not understand 'a copy'"):
        hardware.run(main)


def test_the_wait_for_the_engine_is_that_of_an_m_d_1_queue(rig):
    hardware = rig()
    sim, copy, waits = hardware.sim, copier(hardware), []
    service = LATENCY + MIB / H2D
    load = 0.7

    async def visit():
        begin = sim.now
        await copy()
        waits.append(sim.now - begin - service)

    async def main():
        async with sim.open_nursery() as nursery:
            for _ in range(6000):
                await sim.sleep(float(sim.rng.exponential(service / load)))
                nursery.spawn(visit)

    hardware.run(main)
    assert sum(waits) / len(waits) == pytest.approx(load * service / (2 * (1 - load)), rel=0.1)


def test_copies_are_traced_with_engine_bytes_and_memory(rig):
    hardware = rig()
    hardware.run(copier(hardware))
    begin, end = (e for e in hardware.trace.events if isinstance(e, (events.CopyBegin, events.CopyEnd)))
    assert (begin.copy, begin.direction, begin.engine, begin.bytes, begin.memory) == (
        1, "h2d", "copy engine h2d", MIB, "pinned",
    )  # fmt: skip
    assert end.time_ps - begin.time_ps == round((LATENCY + MIB / H2D) * 1e12)
