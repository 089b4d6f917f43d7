"""Recordings of our own C, C++ and Fortran programs (`store.py` made them) replay as the real runtime ran them."""

from __future__ import annotations

from pathlib import Path

import pytest
from replaying import Replayed, replayed

from offloadrt.extensions.recording.format import Recording, RecordingFile, summary
from offloadrt.extensions.recording.replay import check_configuration

STORED = Path(__file__).parent / "stored"


def runs_of(name: str) -> list[Recording]:
    file = RecordingFile.read(STORED / f"{name}.rec")
    return [file.load(run) for run in file.runs]


ALL = sorted(path.stem for path in STORED.glob("*.rec") if path.stem != "calls_of_mpi")  # which has no directive


@pytest.mark.parametrize("allocator", ["malloc", "llvm"])
@pytest.mark.parametrize("name", ALL)
def test_every_directive_does_what_the_real_runtime_did(name: str, allocator: str) -> None:
    for recording in runs_of(name):
        turbo = replayed(recording, allocator=allocator)
        native = replayed(recording, gear="native", allocator=allocator)
        assert [str(difference) for difference in turbo.outcome.differences] == []
        assert turbo.outcome.compared == turbo.outcome.directives == recording.directives > 0
        assert turbo.outcome == native.outcome and turbo.hash == native.hash


@pytest.mark.parametrize(
    ("machine", "configuration"),
    [("alex-a100", "managed"), ("mi300a", "copy"), ("mi300a", "implicit_zero_copy"), ("mi300a", "eager_maps")],
)
@pytest.mark.parametrize("name", [name for name in ALL if name != "devices"])  # managed memory is of one device
def test_other_configurations_give_the_same_events_in_both_gears(name: str, machine: str, configuration: str) -> None:
    for recording in runs_of(name):
        check_configuration(recording, configuration)
        turbo, native = (
            replayed(recording, machine=machine, gear=gear, configuration=configuration) for gear in ("turbo", "native")
        )
        assert turbo.outcome.directives == recording.directives and turbo.hash == native.hash


def test_runs_with_other_threads_have_the_same_directives() -> None:
    runs = runs_of("patches")
    assert [run.meta.threads for run in runs] == [1, 2, 4]
    assert list(summary.differences_of(runs)) == []


def test_more_threads_share_out_the_patches() -> None:
    one, two, four = (replayed(recording).run.elapsed for recording in runs_of("patches"))
    assert four < two < one


def test_the_hidden_helpers_are_none_of_the_programs_threads() -> None:
    (recording,) = runs_of("order")
    assert recording.meta.threads == 4


N = 1024
STREAMING = {"main_l12": (16, 0), "main_l15": (16, 1), "main_l18": (24, 1), "main_l21": (24, 2)}
"""Bytes and operations of an element: copy, multiply, add, triad."""


def test_streaming_kernels_cost_what_their_source_says() -> None:
    (recording,) = runs_of("five_kernels")
    found = {kernel.name.partition("_main")[2]: kernel for kernel in summary.kernels_of(recording)}
    for line, (nbytes, flops) in STREAMING.items():
        kernel = found[line.removeprefix("main")]
        assert (kernel.moved, kernel.flops) == (nbytes * N, flops * N)


def test_a_stencil_touches_what_it_loads_three_times_once() -> None:
    (recording,) = runs_of("stencil")
    (kernel,) = summary.kernels_of(recording)
    assert (kernel.launches, kernel.flops) == (2, 2 * 5 * 4094)
    assert kernel.loaded >= 2 * 3 * 8 * 4094
    assert kernel.moved == pytest.approx(2 * 2 * 8 * 4096, rel=0.01)


def managed_bytes(done: Replayed) -> tuple[int, int]:
    usage = done.run.measured.managed.values()
    return sum(round(one.bytes_htod) for one in usage), sum(round(one.bytes_dtoh) for one in usage)


def test_what_the_host_sets_between_steps_migrates_back() -> None:
    """The arrays are on the device in the first step; then the host touches the one that was written."""
    (recording,) = runs_of("stencil")
    to_device, to_host = managed_bytes(replayed(recording, configuration="managed"))
    recording.columns["record.touches"][:] = -1
    without = managed_bytes(replayed(recording, configuration="managed"))
    assert to_device > 0 and to_host > 0
    assert without[1] == 0
