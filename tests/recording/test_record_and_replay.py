"""Programs that are compiled, recorded and replayed here: what they print, and what the real runtime did."""

from __future__ import annotations

import pytest
from recorded_programs import built, recorded
from replaying import replayed

from offloadrt.extensions.recording.format import convert


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("programs")


def test_copies_of_boxes_deferred_copies_and_addresses_of_mapped_arrays(folder, capfd):
    program = built("boxes.c", folder)
    run, _ = recorded(program)
    assert capfd.readouterr().out == "right\n"
    convert(program.with_name("boxes.raw"), folder / "boxes.rec")
    outcome = replayed(folder / "boxes.rec").outcome
    assert outcome.agrees and outcome.equal == outcome.directives == run.directives == 12


def test_allocators_and_task_reductions_in_regions_and_loops_of_teams(folder, capfd):
    _, raw = recorded(built("regions.c", folder))
    assert capfd.readouterr().out == "right 24 55 512\n"
    assert [(launch.teams, launch.threads) for launch in raw.launches()] == [(1, 8), (1, 8), (1, 1), (512, 1)]


def test_a_kernel_of_which_the_compiler_leaves_nothing_costs_nothing(folder):
    """No counter tells that it ran. It is not a kernel of unknown costs, which a replay would refuse."""
    program = built("empty.c", folder)
    _, raw = recorded(program)
    assert [(launch.teams, launch.threads, any(launch.counts.values())) for launch in raw.launches()] == [
        (1, 1, False)
    ] * 2
    convert(program.with_name("empty.raw"), folder / "empty.rec")
    outcome = replayed(folder / "empty.rec").outcome
    assert outcome.agrees and outcome.equal == outcome.directives == 2


@pytest.mark.parametrize("samples", [0, 1])
def test_iterations_that_leave_something_to_the_next_one_are_threads_in_counted_launches_too(folder, capfd, samples):
    """A combined loop that is only counted runs as one thread, in which the pointers would lead out of the arrays."""
    run, _ = recorded(built("moving.c", folder), samples=samples)
    assert run.exit == 0 and capfd.readouterr().out == "wrong: 0\n"
