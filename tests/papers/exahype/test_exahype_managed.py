"""ExaHyPE in managed memory: what migrates, what faults, and that nothing else is different."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from offloadrt import ParameterError
from offloadrt.papers.exahype import probes
from offloadrt.papers.exahype.program import Setup
from offloadrt.papers.exahype.program.kernels import block_values
from offloadrt.study import Run, execute, find_scenario
from offloadrt.study.running import profiles

PAGE, BIG_PAGE = 4 << 10, 64 << 10
QUIET = {"thrash.detection": "false"}
APART = {**QUIET, "alloc.managed_alignment": "2 MiB"}
"""Every managed allocation has blocks of its own."""


def setup(**parameters: Any) -> Setup:
    given: dict[str, Any] = {"memory": "managed", "batch": 4, "patches": 16, "threads": 1}
    return Setup(**{**given, **parameters})


def pages(nbytes: int) -> int:
    return -(-nbytes // PAGE)


def test_no_device_copies_and_no_map_table(update: Callable[..., Any]) -> None:
    ran = update(setup())
    calls = ran.run.calls.table()
    assert calls.keys().isdisjoint({"cuMemAlloc", "cuMemFree", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync"})
    assert ran.count("KernelEnd") == 4
    assert ran.count("MapLookup") == ran.count("MapInsert") == 0


def test_every_batch_faults_again_and_comes_back(update: Callable[..., Any]) -> None:
    """The block goes to the device with each batch and back before the next; the temporaries stay."""
    setting = setup(patches=32)
    ran = update(setting, steps=2, overrides=APART)
    size = 8 * block_values(setting.geometry, 4)
    fault_begins = {event.kernel for event in ran.run.trace.events if type(event).__name__ == "PageFaultBegin"}
    assert len(fault_begins) == ran.count("KernelEnd") == 16
    faults = ran.run.statistics.faults
    touched = pages(size) * PAGE
    inputs = 4 * setting.geometry.input_bytes
    assert faults["bytes_transfer_htod"] == 16 * touched  # the host's first fault has populated the whole block
    left = inputs // BIG_PAGE * BIG_PAGE  # inputs far from all results come back when the host writes them again
    assert faults["bytes_transfer_dtoh"] == 16 * touched - left
    assert faults["first_on_gpu"] == pages(4 * setting.geometry.temporary_bytes)


def test_blocks_are_kept_and_shared(update: Callable[..., Any]) -> None:
    ran = update(setup(threads=3, patches=12), steps=2)
    allocated = ran.run.calls.table()["cuMemAllocManaged"].count
    assert ran.updates[1].blocks == allocated <= 2 * 3
    assert ran.updates[1].hits == 2 * ran.updates[1].batches * 2 - allocated


def test_prefetches_leave_no_faults(update: Callable[..., Any]) -> None:
    """To the device before the kernel, back after it: the same bytes, no faults of kernel or host on a block."""
    setting = setup(memory="managed+prefetch", temporaries="device")
    ran = update(setting, overrides=APART)
    faults = ran.run.statistics.faults
    touched = pages(8 * block_values(setting.geometry, 4)) * PAGE
    assert faults["gpu_page_fault"] == 0
    assert faults["cpu_page_fault_count"] == 1, "the host's first touch of the block"
    assert ran.run.calls.table()["cuMemPrefetchAsync"].count == 2 * 4
    assert faults["bytes_transfer_dtoh"] == 4 * touched
    assert faults["bytes_transfer_htod"] + faults["first_on_gpu"] * PAGE == 4 * touched


@pytest.mark.parametrize("memory", ["managed", "managed+prefetch"])
@pytest.mark.parametrize("temporaries", ["managed", "device"])
def test_the_numbers_are_those_of_map_and_pool(memory: str, temporaries: str, update: Callable[..., Any]) -> None:
    real = {"phantom": False, "threads": 2, "patches": 6}
    found = [
        update(setup(**real, memory=way, temporaries=temporaries), steps=2).updates[1].numbers
        for way in ("map", "pool", memory)
    ]
    assert found[0].equal_to_reference
    assert found[0].crc32 == found[1].crc32 == found[2].crc32


@pytest.mark.parametrize("memory", ["managed", "managed+prefetch"])
def test_both_gears_give_the_same_hash(memory: str, update: Callable[..., Any]) -> None:
    runs = [update(setup(memory=memory, threads=3), gear=gear).run for gear in ("native", "turbo")]
    assert runs[0].trace.hash() == runs[1].trace.hash()


def test_faults_of_all_threads_are_served_by_one(update: Callable[..., Any]) -> None:
    """Serving a block takes the same; with a handler for each kernel the threads are faster."""

    def ran(threads: int, **overrides: str) -> Run:
        run: Run = update(setup(threads=threads, patches=8), steps=3, overrides={**APART, **overrides}).run
        return run

    def handler(run: Run) -> Any:
        return run.statistics.engines["device 0 page fault handler"]

    alone, crowd = ran(1), ran(8)
    assert handler(crowd).blocks >= 8 * handler(alone).blocks
    each = [handler(run).block_s / handler(run).blocks for run in (crowd, alone)]
    assert each[0] == pytest.approx(each[1], rel=0.1)  # a crowd's batches have a few more duplicates
    assert handler(crowd).wait_s > 0.0
    assert ran(8, **{"fault_handler.uncontended": "true"}).sim.now < crowd.sim.now


def test_temporaries_in_device_memory_are_no_managed_blocks(update: Callable[..., Any]) -> None:
    ran = update(setup(temporaries="device"))
    calls = ran.run.calls.table()
    assert calls["cuMemAllocManaged"].count == calls["cuMemAlloc"].count == 1


def test_where_nothing_migrates_the_parameter_is_named() -> None:
    with pytest.raises(ParameterError, match=r"parameter memory: managed: .*mi300a.*share one memory"):
        execute(find_scenario("exahype"), {"memory": "managed"}, machine="mi300a")


def test_the_probe_of_link_demand_counts_all_bytes_and_no_more_than_the_link_can() -> None:
    probe = probes.link_demand
    spec = profiles.load("alex-a100")
    setting = setup(memory="pool", equations="euler3d", batch=4, threads=8, patches=4)
    asked = {"memory": "pool", "batch": 4, "batches": 1, "threads": 8}
    fact = execute(probe, asked, record=True).measured
    assert fact["bytes"] == 8 * 4 * (setting.geometry.input_bytes + setting.geometry.output_bytes)
    whole = execute(probe, {**asked, "window_us": 1e9}, record=True).measured
    assert whole["peak_bytes_per_s"] == pytest.approx(fact["bytes"] / 1e3)
    limit = spec.value("link.h2d_pinned") + spec.value("link.d2h_pinned")
    assert whole["peak_bytes_per_s"] < fact["peak_bytes_per_s"] <= limit * (1 + 1e-9)
