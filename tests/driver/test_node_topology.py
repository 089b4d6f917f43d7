"""What the topology of a node does to copies: shared links of PCIe switches, NVSwitch, peers over PCIe, sockets."""

from __future__ import annotations

from typing import Any

import pytest
from peer_rig import peer_rig

from offloadrt.driver import CudaDriver
from offloadrt.machine import Machine, load
from offloadrt.runtime.host_array import HostSpan
from offloadrt.sim import Simulation

NBYTES = 10**8
SPEC = load("dgx1-v100")
LATENCY, LINK = SPEC.value("p2p.raw_latency"), SPEC.value("nvlink.link_bw")
LANES = SPEC.value("link.d2h_pinned")
OVER_PCIE: dict[str, object] = {
    "nvlink.topology": "none", "pcie.peers": "all", "pcie.switches": "none", "pcie.sockets": "none"
}  # fmt: skip
SWITCHES: dict[str, object] = {"pcie.switches": "0,1 2,3 4,5 6,7"}


def to_devices(devices: list[int], overrides: dict[str, object], back: int | None = None, gear: Any = "turbo") -> Any:
    """Seconds until each of these devices has a pinned array; device ``back`` returns one meanwhile."""
    sim = Simulation(gear=gear)
    machine = Machine(sim, load("dgx1-v100", overrides), devices=8)
    ends: dict[int, float] = {}

    async def one(number: int) -> None:
        driver = CudaDriver.of(machine, number)
        stream, block = await driver.streams.create(), await driver.memory.alloc(NBYTES, phantom=True)
        host = HostSpan(machine.host_memory.allocate(NBYTES), NBYTES)
        await driver.pinning.register(host.address, NBYTES)
        begin = sim.now
        if number == back:
            await driver.copies.dtoh(host, block, NBYTES, stream)
        else:
            await driver.copies.htod(block, host, NBYTES, stream)
        await driver.streams.synchronize(stream)
        ends[number] = sim.now - begin

    async def main() -> None:
        async with sim.open_nursery() as nursery:
            for number in devices:
                nursery.spawn(one, number, name=f"host thread {number}")

    sim.run(main)
    return ends, machine.statistics()


def test_devices_below_one_switch_share_its_link_to_the_host() -> None:
    alone = to_devices([0], SWITCHES)[0][0]
    apart, _ = to_devices([0, 2], SWITCHES)
    both, statistics = to_devices([0, 1], SWITCHES)
    assert list(apart.values()) == pytest.approx([alone] * 2)
    assert list(both.values()) == pytest.approx([2 * alone] * 2, rel=0.02)
    assert statistics["pcie switch 0 h2d"].bytes == 2 * NBYTES
    assert "pcie switch 1 h2d" not in statistics, "nothing passed it"


def test_a_device_alone_below_its_switch_takes_what_it_takes_without_one() -> None:
    assert to_devices([0], SWITCHES)[0] == pytest.approx(to_devices([0], {})[0])


def test_the_two_directions_of_a_switch_are_independent() -> None:
    both, _ = to_devices([0, 1], SWITCHES, back=1)
    alone, _ = to_devices([0], SWITCHES)
    assert both[0] == pytest.approx(alone[0])


def test_the_history_is_the_same_in_both_gears() -> None:
    assert to_devices([0, 1, 2], SWITCHES, back=1) == to_devices([0, 1, 2], SWITCHES, back=1, gear="native")


@pytest.mark.parametrize(
    ("peers", "reached"),
    [("none", set()), ("switch", {1}), ("socket", {1, 2, 3}), ("all", {1, 2, 3, 4, 5, 6, 7})],
)
def test_which_devices_reach_one_another_over_pcie(peers: str, reached: set[int]) -> None:
    overrides = {**SWITCHES, "nvlink.topology": "none", "pcie.sockets": "0,1,2,3 4,5,6,7", "pcie.peers": peers}
    links = Machine(Simulation(), load("dgx1-v100", overrides), devices=8).peers.links  # type: ignore[union-attr]
    assert {destination for source, destination in links if source == 0} == reached


def test_a_copy_over_pcie_takes_its_latency_and_its_bytes_and_not_the_way_through_the_host() -> None:
    rig = peer_rig(2, OVER_PCIE, nbytes=NBYTES)
    (took,) = rig.together((0, 1))
    assert took == pytest.approx(LATENCY + NBYTES / LANES)
    assert (rig.moved("p2p"), rig.moved("h2d"), rig.moved("d2h")) == (NBYTES, 0, 0)


def test_below_one_switch_a_copy_between_devices_leaves_the_link_to_the_host_alone() -> None:
    rig = peer_rig(4, {**OVER_PCIE, **SWITCHES}, nbytes=NBYTES)
    rig.together((0, 1))
    assert "pcie switch 0 d2h" not in rig.machine.statistics()
    across = peer_rig(4, {**OVER_PCIE, **SWITCHES}, nbytes=NBYTES)
    alone = LATENCY + NBYTES / LANES
    assert across.together((0, 2), (1, 3)) == pytest.approx([LATENCY + 2 * NBYTES / LANES] * 2)
    assert peer_rig(4, {**OVER_PCIE, **SWITCHES}, nbytes=NBYTES).together((0, 1), (2, 3)) == pytest.approx([alone] * 2)


def test_copies_to_one_device_share_its_link() -> None:
    assert peer_rig(3, OVER_PCIE, nbytes=NBYTES).together((0, 2), (1, 2)) == pytest.approx(
        [LATENCY + 2 * NBYTES / LANES] * 2
    )


def test_between_sockets_the_link_between_them_limits() -> None:
    overrides = {**OVER_PCIE, "pcie.sockets": "0,1 2,3", "pcie.socket_bw": "5 GB/s"}
    assert peer_rig(4, overrides, nbytes=NBYTES).together((0, 1)) == pytest.approx([LATENCY + NBYTES / LANES])
    assert peer_rig(4, overrides, nbytes=NBYTES).together((0, 2)) == pytest.approx([LATENCY + NBYTES / 5e9])


def test_through_an_nvswitch_a_device_has_its_links_for_all_peers_together() -> None:
    overrides = {"nvlink.topology": "switch:6", "gpu.copy_engines": 8}
    one = LATENCY + NBYTES / (6 * LINK)
    assert peer_rig(4, overrides, nbytes=NBYTES).together((0, 1)) == pytest.approx([one])
    assert peer_rig(4, overrides, nbytes=NBYTES).together((0, 1), (2, 3), (1, 0)) == pytest.approx([one] * 3)
    shared = LATENCY + 3 * NBYTES / (6 * LINK)
    assert peer_rig(4, overrides, nbytes=NBYTES).together((0, 1), (0, 2), (0, 3)) == pytest.approx([shared] * 3)
    assert peer_rig(4, overrides, nbytes=NBYTES).together((1, 0), (2, 0), (3, 0)) == pytest.approx([shared] * 3)


def test_one_copy_is_not_faster_than_its_engine_but_several_use_the_links() -> None:
    overrides = {"nvlink.topology": "0-1:4", "p2p.engine_bw": LINK / 1e9}
    alone = LATENCY + NBYTES / LINK
    assert peer_rig(2, overrides, nbytes=NBYTES).together((0, 1)) == pytest.approx([alone])
    assert peer_rig(2, overrides, nbytes=NBYTES).together(*[(0, 1)] * 3) == pytest.approx([alone] * 3)


@pytest.mark.parametrize(
    ("overrides", "busiest"),
    [
        ({"nvlink.topology": "switch:6", "gpu.copy_engines": 12, "gpu.copy_engines_p2p": 8}, 7 * NBYTES / (6 * LINK)),
        ({**OVER_PCIE, "gpu.copy_engines_p2p": 8}, 7 * NBYTES / LANES),
        ({**OVER_PCIE, **SWITCHES, "gpu.copy_engines_p2p": 8}, 12 * NBYTES / LANES),
        (
            {**OVER_PCIE, "pcie.sockets": "0,1,2,3 4,5,6,7", "pcie.socket_bw": 5, "gpu.copy_engines_p2p": 8},
            16 * NBYTES / 5e9,
        ),
    ],
)
def test_all_to_all_takes_what_the_busiest_shared_link_needs(overrides: dict[str, object], busiest: float) -> None:
    copies = [(source, destination) for source in range(8) for destination in range(8) if source != destination]
    rig = peer_rig(8, overrides, nbytes=NBYTES)
    assert max(rig.together(*copies)) == pytest.approx(LATENCY + busiest)
    assert rig.moved("p2p") == len(copies) * NBYTES
