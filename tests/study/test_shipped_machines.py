"""Every machine that comes along runs an OpenMP scenario and a recorded program as it is; what two differ in."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from offloadrt.cli import main
from offloadrt.extensions.calibration.machines import differences
from offloadrt.machine import ProfileError, available, load, load_runtime
from offloadrt.models.host.program import has_devices
from offloadrt.study.running.execution import execute
from offloadrt.study.scripts import registry
from offloadrt.study.scripts.definition import Scenario

ROOT = Path(__file__).parents[2]
LULESH = ROOT / "bench/programs/lulesh-s30.rec"
NEW = ["a100-node4", "a100-node8", "gh200", "h100", "h200", "h200-vm", "mi250x", "mi300x"]
PEERS = [name for name in available() if not load(name).flag("machine.apu") and load(name).topology("nvlink.topology")]


@cache
def scenario(name: str) -> Scenario:
    return registry.find(name)


@pytest.mark.parametrize("machine", [name for name in available() if has_devices(load(name))])
def test_an_openmp_scenario_runs_and_takes_time(machine: str) -> None:
    result = execute(scenario("overlap"), {"threads": 2, "n": 1 << 12}, machine=machine)
    assert result.machine == machine and 0 < result.elapsed_s < 1
    assert result.bytes.d2h == 2 * 8 * (1 << 12), "each thread takes its array back"


@pytest.mark.parametrize("machine", NEW)
def test_a_recording_does_on_it_what_the_real_runtime_did(machine: str) -> None:
    result = execute(scenario(str(LULESH)), machine=machine)
    assert (result.measured["operations_equal"], result.measured["operations_different"]) == (662, 0)


@pytest.mark.parametrize("machine", available())
def test_each_entry_has_a_source_that_says_something_or_a_range(machine: str) -> None:
    spec = load(machine)
    estimates = [
        key
        for key, entry in spec.entries.items()
        if entry.source == "none" and not entry.is_range and entry.unit is not None and not entry.note
    ]
    assert not estimates, "an estimate without a range says what it is taken from"
    assert all(len(spec.sources[entry.source]) > 15 for entry in spec.entries.values())


@pytest.mark.parametrize("machine", NEW)
def test_numbers_of_a_new_machine_that_nobody_published_have_a_range(machine: str) -> None:
    spec, base = load(machine), load("isambard-mi100" if machine.startswith("mi") else "alex-a100")
    own = set(differences(spec, base))
    bare = {key for key in own if spec.entries[key].source_type == "engineering estimate"}
    single = {key for key in bare if not spec.entries[key].is_range and spec.entries[key].unit is not None}
    single -= {key for key in single if spec.value(key) == 0}  # a mechanism that this machine is without
    assert not single


@pytest.mark.parametrize("machine", PEERS)
def test_links_are_no_faster_than_their_peak(machine: str) -> None:
    spec = load(machine, range_end="high")
    peak = spec.entries.get("nvlink.per_link_dir")
    assert peak is None or spec.value("nvlink.link_bw") <= float(peak.value)
    for attained, limit in (("mem.bw", "mem.bw_peak"),):
        assert spec.value(attained) <= spec.value(limit)


def test_what_differs_is_listed_once_and_another_source_is_no_difference() -> None:
    h100, h200 = load("h100"), load("h200")
    assert list(differences(h100, h200)) == ["mem.size", "mem.bw", "mem.bw_peak"]
    assert not differences(h100, h100)
    back = differences(h200, h100)
    assert differences(h100, h200) == {key: (one, other) for key, (other, one) in back.items()}
    apart = differences(load("alex-a100"), load("mi300a")).keys()
    assert {"driver.copy_submit", "dma.bw"} <= apart and "page.size_thp" not in apart


def test_two_machines_are_compared_on_the_screen_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machines", "h100", "h200"]) == 0
    table = capsys.readouterr().out
    assert "143771 MiB" in table and "2910 to" in table and "sm.max_warps" not in table
    assert main(["machines", "h100", "h200", "--json", "--set", "alloc.cudaFree=1us"]) == 0
    found = json.loads(capsys.readouterr().out)
    size = next(entry for entry in found["entries"] if entry["entry"] == "mem.size")
    assert (size["one"]["value"], size["one"]["unit"], size["other"]["kind"]) == (80.0, "GB", "published measurement")
    assert size["other"]["source_text"].startswith("github.com/NVIDIA/cuda-samples")
    assert main(["machines", "h100", "h100"]) == 0
    assert "no entry differs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["machines", "h100", "h20"], "did you mean h200"),
        (["machines", "h100", "h200", "--set", "nvlink.topology=switch:0"], "has no link"),
    ],
)
def test_a_comparison_that_cannot_be_says_why(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert complaint in capsys.readouterr().err


def test_rocms_runtime_is_llvms_with_another_plugin() -> None:
    found = set(differences(load_runtime("llvm22"), load_runtime("rocm")))
    assert found == {"runtime.directive", "stream.sync_copy_back", "teams.per_cu", "teams.least_threads"}
    assert load("mi300a", runtime="rocm").runtime == "rocm"
    with pytest.raises(ProfileError, match="there are clang-ykt, llvm22, nvhpc, rocm"):
        load("mi300a", runtime="hip")
