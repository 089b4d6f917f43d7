"""The scenarios at tiny parameters, and what they gave: run `python tests/scenarios/pin.py [NAME...]` to pin anew.

`pinned/NAME.json` holds, for each case, what the scenario measured, how often each driver call was made, the number of
events and the trace hash. A change of any prediction shows in the diff of these files: pin anew only when the change is
meant, and say why in the commit.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from offloadrt.study import execute, find_scenario

PINNED = Path(__file__).parent / "pinned"

CASES: dict[str, list[dict[str, Any]]] = {
    "allocations": [
        {"nbytes": 1 << 12, "repeats": 3},
        {"nbytes": 1 << 24, "repeats": 2, "memory": "managed", "threads": 2},
        {"nbytes": 1 << 20, "repeats": 2, "memory": "pinned"},
    ],
    "concepts/one_copy": [{"mib": 1}, {"mib": 1, "memory": "pinned"}],
    "concepts/one_fault": [{}, {"pages": 64}, {"pages": 64, "prefetch": True}],
    "concepts/one_graph": [{}, {"graph": True}],
    "concepts/one_lock": [{"threads": 1}, {"threads": 4}],
    "concepts/one_map": [{}, {"mapped": "once"}],
    "concepts/one_pool": [{"threads": 2}, {"threads": 2, "allocator": "pool"}],
    "concepts/one_stream": [{}, {"streams": 4}],
    "concepts/two_processes": [{}, {"sharing": "mps"}],
    "cufft": [{"n": 1 << 20}],
    "exahype": [
        {"threads": 3, "batch": 2, "patches": 5},
        {"threads": 3, "batch": 2, "patches": 5, "memory": "pool"},
        {"threads": 2, "batch": 2, "patches": 4, "memory": "pool", "gather": "patch", "equations": "euler3d"},
        {"threads": 2, "batch": 3, "patches": 4, "arrival": "enclave", "equations": "ccz4"},
        {"threads": 2, "batch": 2, "patches": 6, "scaling": "strong", "equations": "euler3d", "phantom": False},
        {"threads": 2, "batch": 2, "patches": 4, "devices": 2},
        {"threads": 3, "batch": 2, "patches": 6, "memory": "managed"},
        {"threads": 2, "batch": 2, "patches": 4, "memory": "managed+prefetch", "temporaries": "device"},
    ],
    "exahype_fig1": [{"threads": 2, "batch": 2, "patches": 4}],
    "exahype_fig2": [{"threads": 2, "batch": 2, "patches": 8, "case": "euler3d-9"}],
    "exahype_fig3": [{"threads": 2, "batch": 2, "patches": 8, "case": "ccz4-5"}],
    "exahype_fig4": [{"threads": 2, "batch": 2, "patches": 8, "case": "euler3d-5"}],
    "fig2_zerocopy": [
        {"n": 64, "iterations": 3, "configuration": "copy"},
        {"n": 64, "iterations": 3, "configuration": "usm"},
        {"n": 64, "iterations": 3, "configuration": "implicit_zero_copy"},
        {"n": 64, "iterations": 3, "configuration": "eager_maps"},
    ],
    "far_memory": [
        {"nbytes": 1 << 16, "repeats": 2},
        {"nbytes": 1 << 20, "repeats": 2, "devices": 4, "memory": "pageable"},
    ],
    "first_touch": [
        {"bytes": 1 << 24, "arrays": 2, "remaps": 1, "configuration": "copy"},
        {"bytes": 1 << 24, "arrays": 2, "remaps": 1, "configuration": "implicit_zero_copy"},
        {"bytes": 1 << 24, "arrays": 2, "remaps": 1, "configuration": "eager_maps"},
    ],
    "graph_launches": [
        {"nodes": 5, "steps": 3},
        {"nodes": 5, "steps": 3, "launches": "graph"},
        {"nodes": 5, "steps": 2, "launches": "graph", "threads": 3},
        {"nodes": 5, "steps": 2, "launches": "built"},
    ],
    "halo": [
        {"rows": 6, "columns": 8, "phantom": False},
        {"rows": 6, "columns": 8, "phantom": False, "buffers": "host", "nodes": 1, "gpus_per_node": 4},
    ],
    "jacc": [
        {"benchmark": "Himeno", "size": "test", "gpus": 2, "phantom": False},
        {"benchmark": "Himeno", "size": "test", "gpus": 4, "strategy": "macc", "communication": "needed"},
        {"benchmark": "CG", "size": "test", "gpus": 2, "strategy": "always", "restrict": True, "compiled": False},
        {"benchmark": "EP", "size": "test", "layer": "original", "strategy": "single", "compiler": "gcc"},
        {"benchmark": "MG", "size": "test", "gpus": 4, "compiler": "gcc", "pools": True, "execution": "overlap"},
    ],
    "jacc_gpus": [{"benchmark": "EP", "gpus": 2, "what": "kernel_and_exchange", "fraction": 0.015}],
    "jacc_himeno": [{"size": "M", "gpus": 2, "what": "kernel_and_exchange", "fraction": 0.002}],
    "jacc_kernels": [{"benchmark": "EP", "gpus": 2, "what": "kernel_and_exchange", "fraction": 0.004}],
    "jacc_pools": [{"benchmark": "EP", "library": "gcc_pools", "fraction": 0.004}],
    "jacc_steps": [
        {"benchmark": "EP", "step": "original", "compiler": "gcc", "fraction": 0.004},
        {"benchmark": "EP", "step": "var_opt", "compiler": "gcc", "fraction": 0.004},
    ],
    "jacc_strategies": [{"benchmark": "Himeno", "strategy": "macc", "gpus": 2, "fraction": 0.002}],
    "launches": [{"repeats": 5}, {"repeats": 5, "threads": 3, "elements": 100_000}],
    "lost_update": [{"gap_us": 10.0}, {"gap_us": 100.0}],
    "link_copies": [
        {"nbytes": 1 << 20, "repeats": 2},
        {"nbytes": 1 << 22, "repeats": 2, "direction": "d2h", "memory": "pageable", "threads": 2},
    ],
    "pinned_in_place": [
        {"nbytes": 1 << 16, "uses": 2, "phantom": False},
        {"nbytes": 1 << 16, "uses": 2, "how": "copied"},
        {"nbytes": 1 << 18, "threads": 2},
    ],
    "mutex": [{"sharing": 1, "milliseconds": 0.02}, {"sharing": 8, "milliseconds": 0.1}],
    "one_warp": [{}, {"prefetch": True}],
    "offloaded_patches": [
        {"threads": 3, "batch": 2, "patches": 4, "memory": memory} for memory in ("map", "pool", "managed")
    ],
    "osu": [
        {"nbytes": 8},
        {"nbytes": 1 << 22, "memory": "device", "benchmark": "bw", "window": 4},
        {"nbytes": 1 << 16, "benchmark": "allreduce", "ranks": 6, "nodes": 3},
        {"nbytes": 1 << 10, "benchmark": "alltoall", "ranks": 4, "nodes": 1},
    ],
    "otm_fig1": [{"size_gb": 0.05, "benchmark": "srad"}],
    "otm_fig2": [{"size_gb": 0.05, "benchmark": "cfd", "direction": "d2h"}],
    "otm_fig3": [{"size_gb": 0.05, "benchmark": "bfs", "placement": "explicit"}],
    "oversubscription": [
        {"gib": 0.5, "warm_up": 0, "launches": 2},
        {"gib": 0.5, "warm_up": 0, "launches": 1, "order": "anywhere", "advised": "prefer_host"},
        {"gib": 0.5, "warm_up": 0, "launches": 1, "order": "random"},
        {"gib": 16.0, "warm_up": 1, "launches": 1, "advised": "prefetch"},
    ],
    "system_memory": [{"memory": memory, "sweeps": 4, "nbytes": 1 << 24} for memory in ("copy", "usm", "managed")]
    + [{"sweeps": 2, "nbytes": 1 << 22, "written": False}],
    "managed_peers": [
        {"nbytes": 1 << 21, "reads": 2, "rounds": 1},
        {"nbytes": 1 << 21, "reads": 2, "rounds": 1, "given": "read_mostly", "devices": 3},
        {"nbytes": 1 << 21, "reads": 2, "rounds": 1, "given": "prefer_device"},
        {"nbytes": 1 << 21, "reads": 2, "rounds": 1, "given": "prefetch"},
    ],
    "overlap": [
        {"threads": 2, "n": 256, "configuration": "copy"},
        {"threads": 2, "n": 256, "configuration": "managed"},
        {"threads": 2, "n": 1 << 20, "phantom": True},
    ],
    "peer_copies": [
        {"pattern": "pair", "nbytes": 1 << 24, "repeats": 2},
        {"pattern": "one_to_all", "nbytes": 1 << 24, "repeats": 2},
        {"pattern": "ring", "nbytes": 1 << 24, "repeats": 2, "devices": 3},
    ],
    "questions/acc_async": [{"kernels": 10}, {"kernels": 10, "asynchronous": False}],
    "questions/acc_threads": [{"threads": 1, "regions": 4}, {"threads": 3, "regions": 6, "kib": 8}],
    "questions/deferred": [{"regions": 20}],
    "questions/first_region": [{"start": "warm"}, {"start": "loaded"}, {"start": "cold"}],
    "questions/launch_and_wait": [{"launches": 5}, {"launches": 5, "threads": 3}],
    "questions/mapped_elements": [{"elements": 10}, {"elements": 10, "how": "block"}],
    "questions/mapped_scalar": [
        {"kernels": 5, "how": how} for how in ("present", "mapped", "always", "update", "firstprivate")
    ],
    "questions/pageable_updates": [{"updates": 5}, {"updates": 5, "kib": 2048.0, "threads": 2}],
    "questions/peer_access": [{"nbytes": 1 << 24}, {"nbytes": 1 << 24, "enabled": False}],
    "questions/pipeline": [{"mib": 1}, {"mib": 1, "copy_out": False}, {"mib": 1, "asynchronous": False}],
    "questions/queue_pool": [{"launches": 20}, {"launches": 40, "queues": 40, "host_us": 50.0}],
    "questions/solver_steps": [
        {"mib": 8.0, "steps": 2, "configuration": how} for how in ("copy", "usm", "implicit_zero_copy", "eager_maps")
    ],
    "questions/stream_pipeline": [
        {"mib": 1, "chunks": 4},
        {"mib": 1, "chunks": 4, "memory": "pageable"},
        {"mib": 1, "what": "in_kernel"},
    ],
    "questions/streams": [{"streams": 12, "kernels": 2}, {"streams": 12, "kernels": 2, "every": 2, "order": "in_turn"}],
    "questions/structs": [
        {"launches": 3, "how": how} for how in ("present", "implicit", "attached", "struct", "members")
    ],
    "questions/temporaries": [{"uses": 3}, {"uses": 3, "threads": 4, "launch": False}],
    "qmcpack": [
        {"threads": 2, "fraction": 0.001, "configuration": "copy"},
        {"threads": 2, "fraction": 0.001, "configuration": "usm"},
        {"threads": 2, "fraction": 0.001, "configuration": "implicit_zero_copy"},
        {"threads": 2, "fraction": 0.001, "configuration": "eager_maps"},
        {"threads": 1, "fraction": 0.0005, "size": "S24"},
    ],
    "ranks": [
        {"processes": 2, "threads": 2, "steps": 2},
        {"processes": 3, "threads": 1, "steps": 2, "sharing": "mps"},
        {"processes": 3, "threads": 1, "steps": 2, "sharing": "mig"},
    ],
    "rmat_bfs": [{"scale": 10}, {"scale": 19, "prefetch": False}],
    "rodinia": [
        {"benchmark": "bfs", "size_gb": 0.1},
        {"benchmark": "bfs", "size_gb": 1e-5, "phantom": False},
        {"benchmark": "cfd", "size_gb": 0.1, "placement": "explicit"},
        {"benchmark": "cfd", "size_gb": 0.1, "mesh": "random", "structure": "plain"},
        {"benchmark": "srad", "size_gb": 0.1},
        {"benchmark": "srad", "size_gb": 1e-5, "phantom": False, "placement": "explicit"},
    ],
    "sgemm": [{"n": 512}],
    "sparse_pages": [{"gib": 0.0625, "per_block": 8, "passes": 2}, {"gib": 0.0625, "per_block": 2, "prefetch": False}],
    "specaccel": [
        {"benchmark": "stencil", "fraction": 0.001, "configuration": "copy"},
        {"benchmark": "lbm", "fraction": 0.01, "configuration": "usm"},
        {"benchmark": "ep", "fraction": 0.01, "configuration": "implicit_zero_copy"},
        {"benchmark": "spC", "fraction": 0.01, "configuration": "eager_maps"},
        {"benchmark": "bt", "fraction": 0.01, "configuration": "copy"},
        {"benchmark": "bt", "fraction": 0.01, "configuration": "implicit_zero_copy", "lose_translation": True},
    ],
    "stencil": [
        {"n": 1000, "iterations": 4},
        {"n": 1000, "iterations": 2, "threshold": 10, "batch_limit": 64},
        {"n": 8000, "iterations": 2, "occupied_mib": 14500},
    ],
    "stream_ordered": [
        {"memory": "malloc", "steps": 3, "threads": 2},
        {"memory": "pool", "steps": 3},
        {"memory": "kept_pool", "steps": 3, "threads": 2},
    ],
    "stdpar": [
        {"application": "babelstream", "size": 1 << 16, "steps": 3},
        {"application": "babelstream", "size": 1 << 16, "steps": 2, "implementation": "native"},
        {"application": "minibude", "size": 1024, "steps": 2, "implementation": "nvcpp"},
        {"application": "cloverleaf", "size": 96, "steps": 2},
        {"application": "tealeaf", "size": 500, "steps": 3, "implementation": "sycl"},
        {"application": "lulesh", "size": 15, "steps": 1},
        {"application": "lulesh", "size": 15, "steps": 1, "pool": "off", "prefetch": "after-sync"},
    ],
    "stdpar_babelstream": [{"kernel": "dot", "implementation": "vendor", "steps": 2}],
    "stdpar_lulesh": [{"size": 15, "variant": "mp+se+pm", "steps": 1}],
    "stdpar_lulesh_mi100": [{"size": 15, "variant": "mp+se+xnack", "steps": 1}],
    "stdpar_miniapps": [{"application": "minibude", "implementation": "native", "steps": 1}],
    "stream": [{"elements": 1 << 20}, {"elements": 1 << 20, "prefetch": False}],
    "task_graphs": [
        {"arrays": 2, "length": 3, "steps": 2},
        {"arrays": 2, "length": 3, "steps": 2, "tasks": "deferred", "threads": 2},
        {"arrays": 2, "length": 3, "steps": 2, "threads": 2, "phantom": False, "n": 64},
    ],
    "touch_pages": [{"nbytes": 1 << 22, "prefetch": False}],
    "unified_memory": [
        {"size_gb": 0.2, "reuse": 2, "read_back": 1 << 22},
        {"size_gb": 0.2, "placement": "prefetch"},
        {"size_gb": 0.2, "placement": "hybrid", "density": 0.1},
        {"size_gb": 17.0, "reuse": 1, "placement": "host"},
        {"size_gb": 0.2, "placement": "explicit", "read_back": 1 << 22},
    ],
    "zerocopy_fig3": [{"threads": 2, "fraction": 0.001, "configuration": "eager_maps"}],
    "zerocopy_fig4": [{"size": "S4", "threads": 2, "fraction": 0.0005}],
    "zerocopy_table1": [{"threads": 1, "fraction": 0.001}],
    "zerocopy_table2": [{"benchmark": "ep", "fraction": 0.01}],
    "zerocopy_table3": [{"benchmark": "stencil", "fraction": 0.001, "configuration": "usm"}],
}


def outcome(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """What is pinned of one run."""
    result = execute(find_scenario(name), parameters, seed=0, gear="turbo", hash=True)
    return {
        "parameters": parameters,
        "measured": dict(result.measured),
        "calls": {api: figures.count for api, figures in sorted(result.calls.items())},
        "events": result.events,
        "trace_hash": result.trace_hash,
    }


def main(names: list[str]) -> None:
    """Write the files of `names`, or of all scenarios."""
    for name in names or CASES:
        (PINNED / name).parent.mkdir(parents=True, exist_ok=True)
        outcomes = [outcome(name, parameters) for parameters in CASES[name]]
        (PINNED / f"{name}.json").write_text(json.dumps(outcomes, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
