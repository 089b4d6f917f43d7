"""Results that no run gave, for judges: models of time per volume, and the facts that probes measure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from offloadrt.study.reporting.results import Bytes, Result
from offloadrt.study.scripts import registry
from offloadrt.study.sweep import Point


def result_of(point: Point, **measured: Any) -> Result:
    return Result(
        scenario=registry.split(point.scenario)[1] or point.scenario,
        parameters=dict(point.parameters),
        machine="alex-a100",
        runtime="llvm22",
        seed=0,
        elapsed_s=1.0,
        measured=measured,
        calls={},
        locks={},
        devices={},
        bytes=Bytes(),
        faults={},
        events=0,
        trace_hash=None,
        where_time_went={},
    )


def invented(time: Any) -> Any:
    """Answers in which the time per volume is `time(parameters)`; over one thread's volumes it is longer."""

    def answers(points: Sequence[Point]) -> list[Result]:
        found = []
        for point in points:
            seconds = time(point.parameters)
            threads = point.parameters["threads"]
            assert isinstance(threads, int)
            figures = {"time_per_volume_s": seconds, "time_per_volume_per_thread_s": seconds * threads}
            found.append(result_of(point, **figures))
        return found

    return answers


def serial(parameters: Any) -> float:
    """Map and managed: all threads take turns, a batch costs a start and its patches. Pool: threads do not disturb one
    another.
    """
    per_batch = 0.5 / parameters["batch"] + 0.2
    return per_batch / parameters["threads"] if parameters["memory"] == "pool" else per_batch


def collapsing(parameters: Any) -> float:
    """As `serial`, and map gets dearer with every thread."""
    threads = parameters["threads"]
    return serial(parameters) * (1 + 0.5 * threads if parameters["memory"] == "map" else 1)


def parallel(parameters: Any) -> float:
    """No memory has threads wait for one another."""
    return serial({**parameters, "memory": "pool"})


FACTS: dict[str, dict[str, Any]] = {
    "exahype_counts": dict.fromkeys(
        ("enters", "exits", "regions", "kernels", "entries_made", "entries_removed", "lookups", "allocations", "frees"),
        1,
    )
    | dict.fromkeys(("h2d", "d2h", "pinned", "copies", "batches"), 1)
    | dict.fromkeys(("table_holds", "table_overlaps", "table_uses_without_lock"), 1),
    "neighbours": {
        "kernel_wall_s": 1.0,
        "allocations_and_frees": 1,
        "allocations_and_frees_in_progress": 0,
        "copies": 1,
        "copies_in_progress": 1,
    },
    "crowd_of_kernels": {"most_kernels": 100},
    "unified": {
        "kernels": 2,
        "device_copies": 0,
        "kernels_that_faulted": 2,
        "host_faults": 4,
        "migrations_after_the_last_kernel": 1,
        "overlapped_s": 0.5,
        "copies_s": 1.0,
        "blocks": 2,
        "hits": 2,
        "managed_allocations": 2,
        "ordinary_is_managed": False,
        "ordinary_copies": 1,
    },
    "link_demand": {
        "elapsed_s": 1.0,
        "on_device_s": 1.0,
        "handler_s": 0.6,
        "link_s": 0.3,
        "peak_bytes_per_s": 1.0,
        "bytes": 1,
    },
    "manager": dict.fromkeys(
        (
            "in_use_is_not_handed_out",
            "free_block_is_reused",
            "size_is_part_of_the_key",
            "device_is_part_of_the_key",
        ),
        True,
    )
    | {
        "handed_out_twice": 0,
        "blocks_seen_by_several_threads": 1,
        "device_frees": 0,
        "hand_outs": 8,
        "hand_outs_together": 0,
    },
}


def whatever_is_asked(point: Point) -> Result:
    """A result for `point`, of a probe or a grid: slow frees turn `serial` into `collapsing`."""
    probe = point.scenario.rpartition(":")[2]
    if probe in FACTS:
        return result_of(point, **FACTS[probe])
    slow = point.options.range_end.get("alloc.cudaFree") == "high"
    (found,) = invented(collapsing if slow else serial)([point])
    return attrs.evolve(found, elapsed_s=2.0 if slow else 1.0)
