"""Profiles: what they hold, what can be overridden, and what errors say."""

import pickle
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Annotated

import attrs
import pytest

from offloadrt.machine import ProfileError, UnknownEntry, available, load

HARDWARE = Path(__file__).parents[3] / "shared/papers/hardware.toml"

HEAD = '[machine]\nname = "mine"\n[sources]\nme = "measured here"\n'
ENTRY = '[entry."alloc.cudaFree"]\nsource = "me"\nsource_type = "measured"\n'


def own(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_machines_that_come_along_load():
    assert "alex-a100" in available()
    for name in available():
        spec = load(name)
        assert spec.name == name and all(entry.source in spec.sources for entry in spec.entries.values())


def test_units_become_si():
    spec = load("alex-a100")
    assert spec.value("mem.size") == 80e9
    assert spec.value("link.h2d_pinned") == pytest.approx(25.7e9)
    assert spec.value("gpu.fp64") == pytest.approx(9.7e12)
    assert spec.value("staging.chunk") == 1 << 20
    assert spec.value("pin.huge_page") == pytest.approx((5 * 70) ** 0.5 * 1e-6)
    assert spec.count("gpu.sms") == 108


def test_a_range_runs_at_its_geometric_mean_or_at_an_end():
    assert load("alex-a100").value("alloc.cudaFree") == pytest.approx((5e-6 * 52e-6) ** 0.5)
    assert load("alex-a100", range_end="high").value("alloc.cudaFree") == pytest.approx(52e-6)
    one = load("alex-a100", range_end={"alloc.cudaFree": "low"})
    assert one.value("alloc.cudaFree") == pytest.approx(5e-6)
    assert one.value("sync.latency") == load("alex-a100").value("sync.latency")
    with pytest.raises(ProfileError, match=r"gpu\.sms: has no range"):
        load("alex-a100", range_end={"gpu.sms": "low"})


def test_a_range_runs_at_a_place_between_its_ends():
    low, high = (load("alex-a100", range_end=end).value("alloc.cudaFree") for end in ("low", "high"))
    for place in (0.0, 0.25, 0.5, 1.0):
        found = load("alex-a100", range_end={"alloc.cudaFree": place}).value("alloc.cudaFree")
        assert found == pytest.approx(low * (high / low) ** place)


@pytest.mark.parametrize("place", [0.1, 0.37, 0.83])
def test_bytes_are_whole_at_every_place(place):
    spec = load("alex-a100", range_end={"staging.chunk": place})
    assert spec.count("staging.chunk") == pytest.approx(2 ** (18 + 4 * place), abs=1)


@pytest.mark.parametrize(
    ("key", "given", "value"),
    [
        ("alloc.cudaFree", "20us", 2e-5),
        ("alloc.cudaFree", "20 µs", 2e-5),
        ("alloc.cudaFree", 30, 3e-5),
        ("alloc.cudaFree", "low", 5e-6),
        ("driver.launch", 4, 4e-6),
        ("link.h2d_pinned", "25 GB/s", 25e9),
        ("mem.size", "2 MiB", 2 * 2**20),
        ("gpu.max_connections", "32", 32),
        ("driver.halt", "suspend", "suspend"),
        ("core.uncontended", "true", True),
    ],
)
def test_overrides_take_units(key, given, value):
    entry = load("alex-a100", {key: given}).entries[key]
    assert entry.value == (pytest.approx(value) if isinstance(value, float) else value)
    assert entry.overridden


@pytest.mark.parametrize(
    ("key", "given", "reason"),
    [
        ("alloc.cudaFree", "20 GB", "quantity of data"),
        ("alloc.cudaFree", "20 parsecs", "one number and one unit of time"),
        ("alloc.cudaFree", "-1us", "not negative"),
        ("alloc.cudaFree", "soon", "one number and one unit of time"),
        ("alloc.cudaFree", True, "no number"),
        ("link.h2d_pinned", 0, "must be positive"),
        ("gpu.sms", 1.5, "whole number"),
        ("gpu.sms", 10**400, "finite"),
        ("gpu.copy_engines", 100000, "at most 1024"),
        ("staging.chunk", 1e-7, "whole number of bytes"),
        ("alloc.segment", "0.5B", "whole number of bytes"),
        ("alloc.cudaFree", "9**9**9us", "one number and one unit"),
        ("alloc.cudaFree", "1us+1us", "one number and one unit"),
        ("driver.halt", "never", "none of none, drain_on_free"),
        ("core.uncontended", "maybe", "neither true nor false"),
        ("link.latency", "20us", "only there to compare with"),
    ],
)
def test_a_bad_override_names_file_key_and_reason(key, given, reason):
    with pytest.raises(ProfileError, match=reason) as caught:
        load("alex-a100", {key: given})
    assert str(caught.value).startswith(f"alex-a100.toml: {key}: ")


def test_an_unknown_key_comes_with_near_matches():
    with pytest.raises(UnknownEntry, match=r"did you mean alloc\.cudaFree") as caught:
        load("alex-a100", {"alloc.cudafree": "20us"})
    assert pickle.loads(pickle.dumps(caught.value)).near == caught.value.near
    with pytest.raises(ProfileError, match=r"did you mean alex-a100"):
        load("alex-a10")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nonsense", "not valid TOML"),
        ('[machine]\ntitle = "x"\n', "name"),
        (HEAD + "surprise = 1\n", "surprise|str"),
        (HEAD + ENTRY, "alloc.cudaFree: needs exactly one of `value` and `range`"),
        (HEAD + ENTRY + "value = 1\n", "alloc.cudaFree: is a number without a unit"),
        (HEAD + ENTRY + 'value = 1\nunit = "furlong"\n', "alloc.cudaFree: bad unit"),
        (HEAD + ENTRY + 'range = [2, 1]\nunit = "s"\n', "alloc.cudaFree: range .* ascending"),
        (HEAD + ENTRY + 'range = [1, 2]\nvalue = 1\nunit = "s"\n', "alloc.cudaFree: needs exactly one"),
        (HEAD + ENTRY + 'value = "a"\n', "alloc.cudaFree: is a text without `choices`"),
        (HEAD + ENTRY + 'value = "a"\nchoices = ["b"]\n', "alloc.cudaFree: 'a' is none of b"),
        (HEAD + ENTRY + 'value = 1\nunit = "s"\nvalu = 2\n', "alloc.cudaFree: .*valu"),
        (HEAD + ENTRY.replace('"me"', '"you"') + 'value = 1\nunit = "s"\n', "source 'you' is not in"),
        (HEAD + ENTRY.replace("measured", "rumour", 1) + 'value = 1\nunit = "s"\n', "alloc.cudaFree: .*rumour"),
        ('[machine]\nname = "mine"\nbase = "alex-a100"\n[entry."alloc.cudaFre"]\n', "did you mean alloc.cudaFree"),
        ('base = "alex-a100"\n[machine]\nname = "mine"\n', r"field `base`; it belongs below \[machine\]"),
        ('[machine]\nname = "mine"\nunits = "s"\n', r"`units` \(machine\); \[machine\] has name, title, base, "),
        ('[machine]\nname = "mine"\n[alloc]\ncudaFree = 1\n', r'`alloc`; a file has .* and \[entry."NAME"\]'),
    ],
)
def test_a_bad_file_names_file_key_and_reason(tmp_path, text, reason):
    path = own(tmp_path, text)
    with pytest.raises(ProfileError, match=reason) as caught:
        load(path)
    assert str(caught.value).startswith(path)


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(ProfileError, match=r"absent\.toml: cannot be read"):
        load(tmp_path / "absent.toml")


def test_an_own_file_may_change_a_machine(tmp_path):
    text = '[machine]\nname = "mine"\nbase = "alex-a100"\n[sources]\nme = "here"\n' + ENTRY + 'value = 7\nunit = "us"\n'
    spec = load(own(tmp_path, text))
    assert spec.name == "mine"
    assert spec.value("alloc.cudaFree") == pytest.approx(7e-6)
    assert spec.value("gpu.fp64") == load("alex-a100").value("gpu.fp64")
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_a_file_and_its_base_may_change_between_two_loads(tmp_path):
    base, mine = tmp_path / "base.toml", own(tmp_path, f'[machine]\nname = "mine"\nbase = "{tmp_path}/base.toml"\n')

    def cores_with(count):
        text = '[machine]\nname = "base"\nbase = "alex-a100"\n[sources]\nx = "x"\n[entry."cpu.cores"]\n'
        base.write_text(text + f'value = {count}\nunit = "cores"\nsource = "x"\nsource_type = "measured"\n')
        return load(mine).count("cpu.cores")

    assert [cores_with(2), cores_with(3), cores_with(2)] == [2, 3, 2]


def test_overrides_stay_with_the_load_that_asked_for_them():
    before = load("alex-a100")
    assert load("alex-a100", {"cpu.cores": 3}, "low").count("cpu.cores") == 3
    assert load("alex-a100") == before


def test_the_same_overrides_give_the_same_profile_and_its_parts_once():
    spec = load("alex-a100")
    assert spec.with_overrides({"cpu.cores": 1}) is spec.with_overrides({"cpu.cores": 1})
    assert spec.with_overrides({"cpu.cores": 1}) is not spec.with_overrides({"cpu.cores": 1}, "low")
    for wrong in (True, "one"):  # True equals 1, which is right
        with pytest.raises(ProfileError):
            spec.with_overrides({"cpu.cores": wrong})


def test_a_file_based_on_itself(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(f'[machine]\nname = "mine"\nbase = "{path}"\n', encoding="utf-8")
    with pytest.raises(ProfileError, match="based on itself"):
        load(path)


def test_asking_for_the_wrong_kind_is_an_error():
    spec = load("alex-a100")
    for ask, key in [
        (spec.value, "driver.halt"),
        (spec.text, "gpu.sms"),
        (spec.flag, "gpu.sms"),
        (spec.count, "gpu.x"),
    ]:
        with pytest.raises(ProfileError, match=key):
            ask(key)


def test_every_candidate_without_a_source_is_off():
    spec = load("alex-a100")
    assert [spec.value(key) for key in ("driver.free_visits_streams", "driver.halt_save_restore", "jitter")] == [
        0,
        0,
        0,
    ]
    assert spec.text("driver.halt") == "drain_on_free"
    assert not any(spec.flag(key) for key in spec.entries if key.endswith(".uncontended"))


MEASURED_SINCE = {
    "alloc.cudaFree", "alloc.cudaFree_large", "alloc.cudaMalloc_large", "alloc.cudaMalloc_small",
    "driver.handover", "driver.launch", "host.memcpy_1t", "launch.latency",
    "link.d2h_pinned", "link.h2d_pinned", "mem.bw", "p2p.raw_latency", "sync.latency",
    "cpu.first_touch_4k", "pin.register_per_gib",  # `host.page_fault`, `host.clear_1t`, `pin.page` and others by now
}  # fmt: skip
"""Entries for which better sources were found than those of the collection."""


@pytest.mark.skipif(not HARDWARE.exists(), reason="the collection of hardware facts is not part of this checkout")
def test_the_profile_holds_what_was_collected_about_the_machine():
    collected = tomllib.loads(HARDWARE.read_text(encoding="utf-8"))["machine"]["alex-a100"]
    spec = load("alex-a100", runtime="nvhpc")
    for fact in collected:
        if isinstance(fact["value"], str) or fact["name"] in MEASURED_SINCE:
            continue  # sentences are comments of the profile
        entry = spec.entries[fact["name"]]
        low, high = fact["value"] if isinstance(fact["value"], list) else (fact["value"], fact["value"])
        unit = load("alex-a100").entries[fact["name"]].unit
        scale = 1.0 if fact["unit"] == "s" else unit.factor
        assert entry.at("low").value <= low * scale * 1.001 and entry.at("high").value >= high * scale * 0.999, fact
        assert entry.source_type == fact["source_type"] or fact["source"] == "recall"


ELSEWHERE = {
    "mem.bw_gpu.pool": "mem.bw",
    "gpu.cus": "gpu.sms",
    "gpu.fp64_vector": "gpu.fp64",
    "copy.engine_bw": "dma.bw",
    "copy.small_latency_hsa": "dma.latency",
    "omp.hsa_queues": "hsa.queues",
    "omp.max_async_copy": "copy.async_limit",
    "omp.initial_signals": "signal.initial",
    "omp.memory_manager_threshold": "memory_manager.threshold",
    "rocr.fragment_block": "alloc.segment",
    "fault.gpu_single": "fault.service_2m",
}
"""What was collected about the MI300A under another name."""


@pytest.mark.skipif(not HARDWARE.exists(), reason="the collection of hardware facts is not part of this checkout")
def test_the_profile_of_the_apu_holds_what_was_collected_about_it():
    collected = tomllib.loads(HARDWARE.read_text(encoding="utf-8"))["machine"]["mi300a"]
    spec, found = load("mi300a"), []
    for fact in collected:
        key = ELSEWHERE.get(fact["name"], fact["name"])
        if key == "free.pool_per_gib":
            continue  # collected as an estimate without a source; the driver's source says that nothing is cleared
        if key in spec.entries and isinstance(fact["value"], (int, float)):
            entry = spec.entries[key]
            value = fact["value"] * (1.0 if fact["unit"] in ("s", "B") else entry.unit.factor)
            assert entry.at("low").value <= value * 1.001 and entry.at("high").value >= value * 0.999, fact
            found.append(key)
    assert set(ELSEWHERE.values()) <= set(found) and len(found) >= 23
    facts = {fact["name"]: fact["value"] for fact in collected}
    (low, high), isolated = facts["fault.gpu_2m_first_touch"], facts["fault.gpu_single"]
    populate = spec.entries["fault.populate_2m"]
    assert low < populate.at("low").value + isolated < populate.at("high").value + isolated < high * 1.05


def test_the_costs_of_a_prefault_are_those_of_the_calibration():
    spec = load("mi300a")
    assert 1.3e-6 <= spec.value("prefault.call") + spec.value("prefault.locked") <= 3.3e-6


def test_importing_a_machine_does_not_import_the_registry_of_units():
    code = "import sys, offloadrt.machine; print('pint' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_class_names_the_entries_of_its_fields():
    @attrs.frozen
    class Inner:
        sms: Annotated[int, "gpu.sms"]

    @attrs.frozen
    class Outer:
        inner: Inner
        free: Annotated[float, "alloc.cudaFree"]
        halt: Annotated[str, "driver.halt"]
        alone: Annotated[bool, "link.uncontended"]

    spec = load("alex-a100")
    assert spec.read(Outer) == Outer(Inner(108), spec.value("alloc.cudaFree"), "drain_on_free", False)

    @attrs.frozen
    class Wrong:
        sms: Annotated[int, "gpu.sm"]

    with pytest.raises(UnknownEntry, match=r"gpu\.sms"):
        spec.read(Wrong)
