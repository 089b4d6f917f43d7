"""Judges of how AdaptiveCpp's stdpar works: its memory, its queues and waits, its prefetches, its offload heuristic."""

from __future__ import annotations

from offloadrt.papers.stdpar.judges import probes
from offloadrt.papers.stdpar.judges.figures import MACHINE, MI100, ApplicationGrid, bench, facts, runs
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.validation.judging import Hearing, Reading, number, unless

PAGE, SWEPT = 64 << 10, 64 << 20
"""Bytes of one page that is brought by a fault, and of an array."""


# memory


@bench.judge("acpp.mech.interpose")
def interposition(grid: ApplicationGrid) -> Hearing:
    acpp, host = yield from facts(grid, probes.memory, [{}, {"implementation": "host"}])
    emulated = f"new: {acpp['heap']}, aligned_alloc: {acpp['aligned']}, another unit's malloc: {acpp['foreign']}"
    kept = {host[name] for name in ("heap", "aligned", "own", "foreign")}
    return unless(
        emulated,
        {
            "the heap is not shared": (acpp["heap"], acpp["aligned"]) != ("shared", "shared"),
            "malloc of another translation unit is": acpp["foreign"] != "heap",
            "so it is without offloading": kept != {"heap"},
        },
    )


@bench.judge("acpp.mech.heap_only")
def heap_only(grid: ApplicationGrid) -> Hearing:
    (fact,) = yield from facts(grid, probes.memory)
    without, with_system = yield from facts(grid, probes.host_pointer, [{}, {"system_usm": True}])
    emulated = f"{fact['stack']}; offloaded: {without['offloaded']}, with system USM {with_system['offloaded']}"
    return unless(
        emulated,
        {
            "the stack is shared": fact["stack"] != "stack",
            "it is offloaded": without["offloaded"] != 0,
            "it is not with system USM": with_system["offloaded"] != 1,
        },
    )


@bench.judge("acpp.mech.alloc_local_free_global")
def frees(grid: ApplicationGrid) -> Hearing:
    acpp, roc = yield from facts(grid, probes.frees, [{}, {"implementation": "rocstdpar"}])
    emulated = f"acpp: {acpp['freed']} of 3 freed; roc-stdpar: {roc['freed']}, then a crash at {roc['failed']!r}"
    return unless(
        emulated,
        {
            "acpp does not free all": (acpp["freed"], acpp["failed"], acpp["left"]) != (3, None, 0),
            "roc-stdpar does not crash": roc["failed"] != "ours",
        },
    )


@bench.judge("acpp.mech.no_interpose_recursion")
def not_interposed(grid: ApplicationGrid) -> Hearing:
    (fact,) = yield from facts(grid, probes.memory)
    emulated = f"the runtime's own: {fact['own']}; after shutdown: {fact['late']}"
    return unless(emulated, {"it is shared": {fact["own"], fact["late"]} != {"heap"}})


@bench.judge("acpp.mech.alloc_map")
def allocation_map(grid: ApplicationGrid) -> Hearing:
    (fact,) = yield from facts(grid, probes.memory)
    results = [name for name in ("interior", "first", "beyond", "of_libc", "freed") if fact[name]]
    return unless(f"known: {', '.join(results)}", {"others are": results != ["interior", "first"]})


@bench.judge("acpp.mech.system_usm")
def system_usm(grid: ApplicationGrid) -> Hearing:
    (fact,) = yield from facts(grid, probes.memory, [{"system_usm": True}])
    (pointer,) = yield from facts(grid, probes.host_pointer, [{"system_usm": True}])
    emulated = (
        f"{fact['interposed']} taken over, {fact['prefetches']} prefetches, algorithm with a stack pointer offloaded: "
        f"{pointer['offloaded']}"
    )
    return unless(
        emulated,
        {
            "memory is taken over": fact["interposed"] != 0 or fact["heap"] != "heap",
            "there are prefetches": fact["prefetches"] != 0,
            "pointers are validated": pointer["offloaded"] != 1 or pointer["host_pointers"] != 0,
            "the result is wrong": not pointer["right"],
        },
    )


@bench.judge("acpp.mech.ptr_validation")
def pointer_validation(grid: ApplicationGrid) -> Hearing:
    ways: list[dict[str, Value]] = [{"memory": "stack"}, {"memory": "foreign"}, {"memory": "heap"}]
    *of_host, of_heap = yield from facts(grid, probes.host_pointer, ways)
    emulated = ", ".join(
        f"{way['memory']}: {'host' if fact['on_host'] else 'device'}, {fact['waits']} waits"
        for way, fact in zip(ways, [*of_host, of_heap], strict=True)
    )
    expected = (0, 1, 1, "well", True)
    keys = ("offloaded", "on_host", "waits", "ended", "right")
    return unless(
        emulated,
        {
            "host pointers do otherwise": any(tuple(fact[key] for key in keys) != expected for fact in of_host),
            "memory of the heap does not run on the device": of_heap["offloaded"] != 1 or not of_heap["right"],
        },
    )


@bench.judge("acpp.mech.pool")
def pool(grid: ApplicationGrid, much_less: float) -> Hearing:
    pooled, single = yield from facts(grid, probes.churn, [{"pool": True}, {"pool": False}])
    each, alone = number(pooled["each_s"]), number(single["each_s"])
    emulated = (
        f"{pooled['driver']} driver allocations with the pool, {single['driver']} without; a malloc takes "
        f"{each * 1e6:.2g} and {alone * 1e6:.2g} us"
    )
    return unless(
        emulated,
        {
            "the pool asks the driver more often": pooled["driver"] != 1,
            "a malloc takes nearly as long": each > much_less * alone,
        },
    )


@bench.judge("acpp.mech.prefetch_rationale")
def one_transfer(grid: ApplicationGrid) -> Hearing:
    ways: list[dict[str, Value]] = [
        {"prefetch": "first", "nbytes": SWEPT},
        {"prefetch": "never", "nbytes": SWEPT},
        {"prefetch": "never", "nbytes": PAGE},
    ]
    at_once, on_demand, one_page = yield from facts(grid, probes.one_transfer, ways)
    prefetched, demand, fault = (number(fact["moving_s"]) for fact in (at_once, on_demand, one_page))
    emulated = (
        f"{prefetched * 1e3:.3g} ms; a fault {fault * 1e6:.3g} us, "
        f"times {SWEPT // PAGE} {fault * SWEPT / PAGE * 1e3:.3g} "
        f"ms; on demand {demand * 1e3:.3g} ms ({on_demand['faults']} batches)"
    )
    return unless(
        emulated,
        {
            "faults take less": prefetched >= fault * SWEPT / PAGE,
            "so they do in batches": prefetched >= demand,
            "a prefetched array faults": at_once["faults"] != 0,
        },
    )


@bench.judge("acpp.mech.no_xnack_usm")
def over_the_link(grid: ApplicationGrid) -> Hearing:
    babelstream = grid.of("babelstream", "rocstdpar")
    off, on = yield from runs(grid, [(MI100, {**babelstream, "xnack": way}) for way in ("off", "on")])
    rate, migrated = number(off.measured["dot_gbs"]), number(on.measured["dot_gbs"])
    entry = grid.entry(MI100, "link.h2d_pinned") / 1e9
    emulated = f"{rate:.3g} GB/s, the link has {entry:.3g}; with XNACK on, when all has migrated, {migrated:.3g}"
    return Reading(emulated, rate / entry, "kernels reach memory faster than the link is")


# order and waits


@bench.judge("acpp.mech.queue")
def queues(grid: ApplicationGrid) -> Hearing:
    alone, both = yield from facts(grid, probes.order, [{"threads": 1}, {"threads": 2}])
    emulated = (
        f"one thread: {alone['queues']} queue, {alone['kernels']} kernels, {alone['overlaps_within']} overlaps; two: "
        f"{both['queues']} queues, {both['overlaps_within']} overlaps within one, "
        f"{both['overlaps_between']} between them"
    )
    return unless(
        emulated,
        {
            "kernels of a thread overlap": bool(alone["overlaps_within"]) or bool(both["overlaps_within"]),
            "threads share a queue": both["queues"] != 2,
            "threads do not overlap": not both["overlaps_between"],
            "results are wrong": not (alone["right"] and both["right"]),
        },
    )


@bench.judge("acpp.mech.wait_each")
def wait_each(grid: ApplicationGrid) -> Hearing:
    (fact,) = yield from facts(grid, probes.loop, [{"elision": False}])
    places = [
        (MACHINE, grid.of("babelstream", "acpp", elision="off")),
        (MACHINE, grid.of("babelstream", "nvcpp")),
    ]
    results = yield from runs(grid, places)
    counts = [(fact["waits"], fact["calls"])]
    counts += [(result.measured["waits"], result.measured["algorithms"]) for result in results]
    emulated = ", ".join(f"{waits} of {calls}" for waits, calls in counts)
    return unless(emulated, {"waits are not as many": any(waits != calls for waits, calls in counts)})


@bench.judge("acpp.mech.elision")
def elision(grid: ApplicationGrid) -> Hearing:
    inside, stack = yield from facts(grid, probes.loop, [{"body": "inside"}, {"body": "stack"}])
    emulated = f"{inside['calls']} algorithms, {inside['waits']} wait; with stores to the stack {stack['waits']}"
    return unless(
        emulated,
        {
            "there are more waits": (inside["waits"], stack["waits"]) != (1, 1),
            "the results are wrong": not (inside["right"] and stack["right"]),
        },
    )


@bench.judge("acpp.mech.elision_tu")
def elision_ends(grid: ApplicationGrid) -> Hearing:
    ways: list[dict[str, Value]] = [{"body": body} for body in ("external", "allocation", "access")]
    results = yield from facts(grid, probes.loop, ways)
    emulated = ", ".join(f"{way['body']}: {fact['waits']} waits" for way, fact in zip(ways, results, strict=True))
    each = all(number(fact["waits"]) * 2 == fact["calls"] and fact["right"] for fact in results)
    return unless(f"{results[0]['calls']} algorithms; {emulated}", {"not one in each iteration": not each})


@bench.judge("acpp.mech.elision_result")
def elision_of_results(grid: ApplicationGrid) -> Hearing:
    (fact,) = yield from facts(grid, probes.loop, [{"body": "sum"}])
    emulated = f"{fact['calls']} algorithms, half of them reductions, {fact['waits']} waits"
    return unless(emulated, {"reductions do not wait": number(fact["waits"]) * 2 != fact["calls"] or not fact["right"]})


# prefetches

SCRIPT = {
    ("never", "once_per_batch"): "0 0 0 0 0",
    ("first", "once_per_batch"): "1 1 0 0 1",
    ("always", "every"): "1 2 2 2 1",
    ("always", "once_per_batch"): "1 1 2 0 1",
    ("after-sync", "once_per_batch"): "1 0 2 0 1",
}
"""Arrays that each algorithm of the probe has prefetched, by hand, for each mode and reading of `always`."""


@bench.judge("acpp.mech.prefetch_modes")
def prefetch_modes(grid: ApplicationGrid) -> Hearing:
    ways: list[dict[str, Value]] = [{"mode": mode, "always": always} for mode, always in SCRIPT]
    results = yield from facts(grid, probes.prefetches, ways)
    emulated = "; ".join(f"{mode}: {fact['each']}" for (mode, _), fact in zip(SCRIPT, results, strict=True))
    counted = [fact["each"] for fact in results]
    return unless(
        f"{emulated} (always: as the paper words it, then once in a batch, as its public code has it)",
        {
            "not as the modes say": counted != list(SCRIPT.values()),
            "parts of allocations are prefetched": not all(fact["whole"] for fact in results),
        },
    )


# the offload heuristic


@bench.judge("acpp.mech.heuristic")
def heuristic(grid: ApplicationGrid, percent: float) -> Hearing:
    cases = [(1.0, 0.5), (0.0015, 0.001), (0.001, 0.0015), (0.0045, 0.001), (0.0036, 0.001)]
    results = yield from facts(
        grid, probes.transfer, [{"host_s": host_s, "offload_s": offload_s} for host_s, offload_s in cases]
    )
    (fast,) = yield from facts(grid, probes.sampled)
    (slow,) = yield from facts(grid, probes.sampled, [{"prefetch": "never"}], MI100)
    wrong = []
    for (host_s, offload_s), fact in zip(cases, results, strict=True):
        ratio = host_s / (offload_s + number(fact["transfer_s"]))
        if not fact["stayed"] or fact["offload"] is not (ratio > 1 + percent / 100):
            wrong.append(f"{host_s:g} and {offload_s:g} s")
    emulated = (
        f"{len(cases) - len(wrong)} of {len(cases)} known pairs of times; after sampling runs: A100 {_sides(fast)}, "
        f"MI100 without XNACK or prefetches {_sides(slow)}"
    )
    sampled = fast["on_host"] == 0 and slow["offloaded"] == 0
    return unless(emulated, {f"otherwise at {', '.join(wrong)}": bool(wrong), "not as sampled": not sampled})


def _sides(fact: dict[str, Value]) -> str:
    side = "offloads" if fact["offloaded"] else "stays on the host"
    host_s, offload_s = (number(fact[name]) * 1e3 for name in ("host_s", "offload_s"))
    return f"{side} (host {host_s:.2g}, device {offload_s:.2g} ms)"


@bench.judge("acpp.mech.heuristic_hostrun")
def without_host_runs(grid: ApplicationGrid) -> Hearing:
    ways: list[dict[str, Value]] = [{"host": False, "offload": known, "prefetch": "never"} for known in (False, True)]
    results = yield from facts(grid, probes.sampled, ways, MI100)
    (both,) = yield from facts(grid, probes.sampled, [{"prefetch": "never"}], MI100)
    emulated = (
        f"on the host: {', '.join(str(fact['on_host']) for fact in results)}; with host samples {both['on_host']}"
    )
    return unless(
        emulated,
        {
            "something runs on the host": any(fact["on_host"] for fact in results),
            "nothing is offloaded": not all(fact["offloaded"] for fact in results),
            "the host is not faster, so that this shows nothing": not both["on_host"],
        },
    )
