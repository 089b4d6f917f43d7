"""Contention between copies to other devices emerges: a link and an engine give each copy the same however many there
are, only the waiting differs; without its contention everybody takes the time of one; what is lost is the waiting that
is reported.
"""

import attrs
import pytest
from peer_rig import peer_rig

N = 7
NBYTES = 10**7


@attrs.frozen
class Contended:
    """An object X that copies contend for."""

    key: str
    part: str
    """Its name in the machine's statistics."""
    copies: object
    """n -> so many copies (source, destination) that contend for nothing but X."""
    overrides: dict[str, object]
    """With ``UNLINKED``, devices reach one another over PCIe alone."""


UNLINKED = {
    "nvlink.topology": "none", "pcie.peers": "all", "pcie.switches": "none", "pcie.sockets": "none",
    "gpu.copy_engines_p2p": 1,
}  # fmt: skip
BELOW_SWITCHES = {**UNLINKED, "pcie.switches": "0,1,2,3,4,5,6 7,8,9,10,11,12,13", "gpu.devices": 14}
AT_SOCKETS = {**UNLINKED, "pcie.sockets": "0,1,2,3,4,5,6 7,8,9,10,11,12,13", "gpu.devices": 14, "pcie.socket_bw": 10}

OBJECTS = [
    Contended(
        "peer_link", "peer link 0-1", lambda n: [(0, 1)] * n, {"gpu.copy_engines": 20, "gpu.copy_engines_p2p": 10}
    ),
    Contended(
        "copy_engine",
        "device 0 copy engine p2p",
        lambda n: [(0, 1 + number) for number in range(n)],
        {"gpu.copy_engines_p2p": 1, "nvlink.topology": " ".join(f"0-{peer}" for peer in range(1, N + 1))},
    ),
    Contended(
        "peer_link",
        "device 0 nvlink out",
        lambda n: [(0, 1 + number) for number in range(n)],
        {"gpu.copy_engines": 20, "gpu.copy_engines_p2p": 10, "nvlink.topology": "switch:6"},
    ),
    Contended(
        "pcie_switch", "pcie switch 0 d2h", lambda n: [(number, N + number) for number in range(n)], BELOW_SWITCHES
    ),
    Contended("pcie_switch", "socket link 0-1", lambda n: [(number, N + number) for number in range(n)], AT_SOCKETS),
]


def elapsed(contended, copies, uncontended=False):
    """(virtual seconds that each copy takes, statistics of X)."""
    rig = peer_rig(
        contended.overrides.get("gpu.devices", N + 1),
        {**contended.overrides, **({f"{contended.key}.uncontended": True} if uncontended else {})},
        nbytes=NBYTES,
    )
    return rig.together(*contended.copies(copies)), rig.machine.statistics()[contended.part]


@pytest.mark.parametrize("contended", OBJECTS, ids=lambda one: one.part)
def test_service_does_not_depend_on_the_number_of_copies(contended):
    ((alone,), one), (together, many) = (elapsed(contended, copies) for copies in (1, N))
    assert max(together) > 1.5 * alone, "this test contends for nothing"
    assert many.busy_s / many.transfers == pytest.approx(one.busy_s / one.transfers)
    assert one.wait_s == pytest.approx(0.0)


@pytest.mark.parametrize("contended", OBJECTS, ids=lambda one: one.part)
def test_without_contention_everybody_takes_the_time_of_one(contended):
    (alone,), _ = elapsed(contended, 1)
    assert elapsed(contended, 1, uncontended=True)[0] == pytest.approx([alone])
    assert elapsed(contended, N, uncontended=True)[0] == pytest.approx([alone] * N)


@pytest.mark.parametrize("contended", OBJECTS, ids=lambda one: one.part)
def test_what_is_lost_is_the_waiting(contended):
    ((alone,), _), (together, many) = (elapsed(contended, copies) for copies in (1, N))
    assert sum(together) - N * alone == pytest.approx(many.wait_s)
