"""The profile of the DGX-1 holds what was collected about it."""

import tomllib
from pathlib import Path

import pytest

from offloadrt.machine import load

HARDWARE = Path(__file__).parents[3] / "shared/papers/hardware.toml"
ELSEWHERE = {
    "mem.bw": "mem.bw_peak",
    "pcie.h2d": "link.h2d_pinned",
    "alloc.cuMemAlloc": "alloc.cudaMalloc_small",
    "alloc.cuMemFree": "alloc.cudaFree",
}
"""What was collected under another name."""
ELSEWHERE_CHARGED = {"pool.hit", "jit.compile"}
"""Costs of a programming model's own runtime library, which that library brings along."""


RELABELLED = {"p2p.raw_latency"}
"""Measured on another machine, with its NVLink inactive: taken over with a wider range."""


@pytest.mark.skipif(not HARDWARE.exists(), reason="the collection of hardware facts is not part of this checkout")
def test_the_profile_holds_what_was_collected_about_the_machine():
    collected = tomllib.loads(HARDWARE.read_text(encoding="utf-8"))["machine"]["dgx1-v100"]
    spec = load("dgx1-v100")
    for fact in collected:
        if isinstance(fact["value"], str) or fact["name"] in ELSEWHERE_CHARGED:
            continue
        entry = spec.entries[ELSEWHERE.get(fact["name"], fact["name"])]
        if fact["source_type"] == "engineering estimate" and entry.source != fact["source"]:
            assert entry.source in spec.sources, f"{fact['name']}: an estimate gives way to a source only"
            continue
        low, high = fact["value"] if isinstance(fact["value"], list) else (fact["value"], fact["value"])
        scale = 1.0 if fact["unit"] == "s" else entry.unit.factor
        if fact["name"] in RELABELLED:
            assert entry.at("low").value <= low * scale and entry.at("high").value >= high * scale
            assert entry.source_type == "scaled"
            continue
        assert entry.at("low").value == pytest.approx(low * scale), fact
        assert entry.at("high").value == pytest.approx(high * scale), fact
        assert entry.source_type == fact["source_type"] or fact["source"] == "recall", fact


def test_the_results_of_the_paper_are_only_there_to_compare_with():
    spec = load("dgx1-v100")
    assert spec.entries["nvlink.measured_link"].reference and spec.entries["p2p.latency"].reference
    assert 2 * spec.value("nvlink.link_bw") == spec.value("nvlink.measured_2links")
