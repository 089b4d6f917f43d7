"""Entries that come from another machine are scaled by the part that they depend on, and say so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offloadrt.extensions.evidence.independent.left_out import left_out
from offloadrt.machine import MachineSpec, ProfileError, available, load
from offloadrt.machine.profile.scaling import PARTS, is_scalable, part_of

PARTS_HERE = """
[machine]
name = "{name}"
base = "{base}"
[sources]
me = "mine"
[entry."{key}"]
range = [{low}, {high}]
unit = "{unit}"
source = "me"
source_type = "measured"
reference = true
"""


def machine(
    folder: Path, name: str, low: float, high: float, *, base: object = "alex-a100", key: str = "cpu.single_thread"
) -> Path:
    """Write a machine that differs from its base in how fast one part is."""
    path = folder / f"{name}.toml"
    unit = {"cpu.single_thread": "points", "gpu.cycle": "ns"}.get(key, "GB/s")
    path.write_text(PARTS_HERE.format(name=name, base=base, key=key, unit=unit, low=low, high=high))
    return path


@given(middle=st.integers(500, 8000), spread=st.integers(0, 250))
def test_a_time_of_host_software_is_inverse_to_the_points_of_a_thread(
    tmp_path_factory: pytest.TempPathFactory, middle: int, spread: int
) -> None:
    """T4's costs of a fault take as many times longer as there are fewer points; both ranges and the rule widen it."""
    here = load(machine(tmp_path_factory.mktemp("m"), "mine", middle - spread, middle + spread))
    there = load("t4")
    scaled, measured = (spec.entries["fault.interrupt"] for spec in (here, there))
    low, high = there.entries["cpu.single_thread"].low, there.entries["cpu.single_thread"].high
    assert low and high and measured.low and measured.high and scaled.low and scaled.high
    assert (scaled.source_type, scaled.scaled_from, measured.source_type) == ("scaled", "t4", "engineering estimate")
    least, most = middle - spread, middle + spread
    assert scaled.value == pytest.approx(measured.value * (low * high / (least * most)) ** 0.5)
    assert scaled.low == pytest.approx(measured.low * low / most / 1.2)
    assert scaled.high == pytest.approx(measured.high * high / least * 1.2)


@pytest.mark.parametrize(
    ("key", "factor", "entry", "expected"),
    [
        ("cpu.single_thread", 2, "alloc.cudaMalloc_small", 1 / 2),
        ("cpu.single_thread", 2, "table.handover", 1 / 2),  # a cost of the runtime
        ("cpu.single_thread", 2, "host.memcpy_1t", 1),
        ("cpu.single_thread", 2, "launch.latency", 1),
        ("cpu.mem_peak", 2, "host.memcpy_max", 2),
        ("gpu.cycle", 2, "mem.latency", 2),  # a cycle twice as long
        ("gpu.cycle", 2, "launch.latency", 2),
        ("gpu.cycle", 2, "sm.bandwidth", 1 / 2),
        ("mem.bw_peak", 2, "mem.bw", 2),
        ("link.rate", 2, "remote.access_bw", 2),
        ("link.rate", 2, "sync.latency", 1),
    ],
)
def test_an_entry_changes_with_its_part_alone(
    tmp_path: Path, key: str, factor: int, entry: str, expected: float
) -> None:
    slower, faster = (load(machine(tmp_path, f"x{speed}", speed, speed, key=key)) for speed in (1000, 1000 * factor))
    assert faster.value(entry) == pytest.approx(slower.value(entry) * expected)


def test_a_machine_with_the_parts_of_its_base_has_its_entries_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[machine]\nname = "mine"\nbase = "t4"\n')
    assert load(path).entries == load("t4").entries


def test_times_are_scaled_once_however_many_bases_lie_between(tmp_path: Path) -> None:
    between = machine(tmp_path, "between", 4000, 4000)
    top = machine(tmp_path, "top", 1000, 1000, base=between)
    alone = machine(tmp_path, "alone", 1000, 1000)
    assert load(top).value("fault.fetch") == load(alone).value("fault.fetch")
    assert load(top).value("alloc.cudaFree") == load(alone).value("alloc.cudaFree")


def test_what_was_measured_here_is_not_scaled() -> None:
    assert load("t4").entries["fault.per_vablock"].source_type == "engineering estimate"
    assert load("rtx-5090").entries["fault.per_vablock"].scaled_from == "t4"


def test_only_times_and_rates_are_measured_on_a_machine(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    entry = 'value = 16\nunit = "SM"\nsource = "me"\nsource_type = "measured"\nmeasured_on = "t4"\n'
    path.write_text(f'[machine]\nname = "mine"\n[sources]\nme = "mine"\n[entry."gpu.sms"]\n{entry}')
    with pytest.raises(ProfileError, match=r"gpu\.sms: has `measured_on`, but is neither a time nor a rate \(SM\)"):
        load(path)


def test_a_host_of_which_the_part_is_not_known_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        '[machine]\nname = "mine"\nbase = "alex-a100"\n[sources]\nme = "mine"\n[hosts.other]\nwhat = "a host"\n'
        '[entry."alloc.cudaFree"]\nvalue = 1\nunit = "us"\nsource = "me"\nsource_type = "measured"\n'
        'measured_on = "other"\n'
    )
    with pytest.raises(ProfileError, match=r"alloc\.cudaFree: is of other, which has no cpu\.single_thread"):
        load(path)
    path.write_text(path.read_text().replace("hosts.other", "hosts.another"))
    with pytest.raises(ProfileError, match=r"mine\.toml: alloc\.cudaFree\.measured_on: 'other' is neither a machine"):
        load(path)


# ---------------------------------------------------------------------- all profiles
PROFILES = available()


@pytest.mark.parametrize("name", PROFILES)
def test_every_machine_states_how_fast_its_parts_are(name: str) -> None:
    spec = load(name)
    for part in PARTS:
        if any(part_of(key) is part for key in spec.entries):
            assert spec.entries[part.reference].reference, part.reference
    assert spec.value("page.size") in (4096, 65536)


OTHERS = re.compile(
    r"\b(T4|[APV]100|G?H[12]00|MI\d{2,3}[AX]?|gfx\d+|RTX \d+|Titan V|EPYC \w+|Xeon [\w-]+ ?\w*|Knights Landing)\b"
)
OWN = {
    "a100-node4": "A100 EPYC 7713", "a100-node8": "A100 EPYC 7713", "alex-a100": "A100 EPYC 7713",
    "dgx1-v100": "V100 Xeon E5-2698 v4", "e5-2680v4": "Xeon E5-2680 v4", "gh200": "GH200 H100", "h100": "H100",
    "h200": "H200 H100", "h200-vm": "H200", "isambard-a100": "A100 EPYC 7543P", "isambard-mi100": "MI100 EPYC 7543P",
    "isambard-milan": "EPYC 7713", "mi250x": "MI250X EPYC 7A53", "mi300a": "MI300A", "mi300a-hip": "MI300A MI300",
    "mi300x": "MI300X EPYC 9374F", "rtx-5070ti": "RTX 5070", "rtx-5090": "RTX 5090", "summitdev-p100": "P100",
    "t4": "T4", "titan-v": "Titan V EPYC 7551P", "idc-max1550": "Xeon Platinum", "integrated-gpu": "",
}  # fmt: skip
"""What a note may name of the machine itself."""
RANGE_OVER_MACHINES = {
    "numa.socket_bw": "of links of the same generation",
    "mem.bw": "of the same memory: an MI210 is a die of an MI250X, a GH200 has the memory of an H200",
    "mem.latency": "of the same chip in another board",
    "sm.bandwidth": "of the same chip in another board, or of every chip at 64 bytes a cycle",
    "launch.gap": "of the same chip in another board",
    "graph.gap": "from a V100 to an H200, which holds every machine here",
    "mempool.grow": "over several machines that are not named, an H200 among them",
    "mempool.grow_segment": "over several machines that are not named, an H200 among them",
}
"""Entries whose notes name other machines, but whose ranges are not taken from one of them."""


@pytest.mark.parametrize("name", PROFILES)
def test_an_entry_that_names_another_machine_is_scaled_or_measured_here(name: str) -> None:
    spec = load(name)
    borrowed = {
        key: sorted(others)
        for key, entry in spec.entries.items()
        if is_scalable(entry) and not entry.reference and entry.source_type not in ("scaled", "measured")
        if (others := {found for found in OTHERS.findall(entry.note) if found not in OWN[name]})
        if key not in RANGE_OVER_MACHINES
    }
    assert not borrowed


@pytest.mark.parametrize("name", PROFILES)
def test_no_cost_of_a_base_is_taken_over_unscaled(name: str) -> None:
    """An entry of another file is scaled, unless the part on which it depends is the same one."""
    spec = load(name)
    for key, entry in spec.entries.items():
        part = part_of(key)
        taken_over = entry.measured_on not in (None, name) or (entry.measured_on is None and entry.home != spec.path)
        if part is not None and is_scalable(entry) and taken_over and entry.scaled_from is None:
            base = load(entry.measured_on or entry.home.removesuffix(".toml"))
            assert spec.entries[part.reference] == base.entries[part.reference], key


# ---------------------------------------------------------------------- a machine that is left out
def test_a_machine_that_is_left_out_has_nothing_of_its_own_measurements() -> None:
    """T4's fault costs come from a Titan V, its memory's rate from an A100's part of its peak."""
    without = left_out("t4")
    assert not without.only_here
    assert all(entry.scaled_from in ("titan-v", "alex-a100") for entry in without.entries.values())
    measured = {key for key, entry in load("t4").entries.items() if "specasync" in entry.source and is_scalable(entry)}
    assert measured and measured <= without.entries.keys()
    assert without.entries["mem.bw"].value == pytest.approx(load("alex-a100").value("mem.bw") * 320 / 2039, rel=1e-6)


def test_a_machine_without_measurements_of_its_own_loses_nothing() -> None:
    assert left_out("rtx-5070ti").entries == {}


def test_what_a_runtime_has_from_a_machine_is_left_out_with_it() -> None:
    spec: MachineSpec = load("e5-2680v4")
    handover = left_out("e5-2680v4").entries["table.handover"]
    assert spec.entries["table.handover"].source_type == "published measurement"
    assert handover.scaled_from == "h200-vm" and handover.value > spec.value("table.handover")


def test_a_replay_crosses_the_link_and_takes_no_longer_on_a_slower_core(tmp_path: Path) -> None:
    fast, slow = (load(str(machine(tmp_path, name, at, at))) for name, at in (("fast", 5000), ("slow", 1000)))
    assert fast.value("fault.replay") == slow.value("fault.replay")
    assert fast.value("fault.fetch_base") < slow.value("fault.fetch_base")
