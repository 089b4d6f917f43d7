"""Judges of the claims of the paper on AdaptiveCpp's stdpar: each asks for the runs that its claim needs.

First come the parameters of the runs. Then come the judges of BabelStream, the mini-apps and LULESH, and those of
memory, order, waits, prefetches and the heuristic, with the small runs of `probes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from offloadrt.extensions.evidence.validation.judging import (
    Asking,
    Bench,
    Extent,
    Hearing,
    Judgement,
    JudgingGrid,
    Paper,
    Program,
    Reading,
    listed,
    longer,
    number,
    unless,
)
from offloadrt.papers.stdpar import probes
from offloadrt.study.reporting.results import Result
from offloadrt.study.running import profiles
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import Point

SCENARIO: Final = "stdpar"
MACHINE: Final = "isambard-a100"
MI100, MAX1550, MILAN = "isambard-mi100", "idc-max1550", "isambard-milan"
VENDORS: Final = {MACHINE: "nvcpp", MI100: "rocstdpar", MAX1550: "icpx"}
"""The vendor's implementation on each machine."""
TITLES: Final = {MACHINE: "A100", MI100: "MI100", MAX1550: "Max 1550"}
APPLICATIONS: Final = ("minibude", "cloverleaf", "tealeaf")
"""The applications in the figure of mini-apps."""
HANDLER: Final = "device 0 page fault handler"
CANDIDATES: dict[str, dict[str, str]] = {}
SENSITIVITY: tuple[dict[str, Value], ...] = (
    {"application": "babelstream", "size": 1 << 22, "steps": 2},
    {"application": "cloverleaf", "size": 960, "steps": 1},
    {"application": "lulesh", "size": 30, "steps": 1},
)
"""Short runs that show whether an entry of the machine's profile has any influence on times."""

bench = Bench.of("offloadrt.papers.stdpar")


@attrs.frozen
class ApplicationGrid(JudgingGrid):
    """The sizes and numbers of steps with which the applications run to judge the stdpar paper's claims."""

    work: Mapping[str, Mapping[str, Value]]
    """The parameters of each application except LULESH."""
    lulesh: tuple[int, ...]
    """The problem sizes of LULESH, in elements along an edge."""
    lulesh_steps: int

    @property
    def described(self) -> str:
        """Describe in words the runs on which the paper's claims are judged."""
        emulated = [
            f"{name} {', '.join(f'{key} {value}' for key, value in parameters.items())}"
            for name, parameters in self.work.items()
        ]
        return f"{'; '.join(emulated)}; lulesh size {', '.join(map(str, self.lulesh))} steps {self.lulesh_steps}"

    def at(
        self, machine: str, parameters: Mapping[str, Value], *, scenario: Program | None = None, record: bool = False
    ) -> Point:
        """Return the description of a run on the machine of this name.

        parameters: those of the scenario. scenario: by default the one of the grid. record: whether to keep the run's
        events.
        """
        point = self.point(parameters, scenario=scenario, record=record)
        return point if machine == MACHINE else attrs.evolve(point, options=point.options.elsewhere(machine))

    def entry(self, machine: str, key: str) -> float:
        """Return the value of one entry of a machine's profile in this grid's runs. key: the entry's name."""
        options = self.at(machine, {}).options
        return profiles.load(machine, options.overrides, options.range_end or "mean", options.runtime).value(key)

    def of(self, application: str, implementation: str, **more: Value) -> dict[str, Value]:
        """Return the parameters of a run of an application: its size in this grid, the implementation, `more`."""
        return {"application": application, "implementation": implementation, **self.work[application], **more}

    def of_lulesh(self, size: int, implementation: str, **more: Value) -> dict[str, Value]:
        """Return the parameters of a run of LULESH with this size, an implementation of stdpar, and `more`."""
        given: dict[str, Value] = {"application": "lulesh", "implementation": implementation, "size": size}
        return {**given, "steps": self.lulesh_steps, **more}


def grid(extent: Extent, options: RunSpec) -> ApplicationGrid:
    """Choose the sizes and numbers of steps of the runs that judge the claims.

    extent: `full`, `quick` (smaller problems, fewer steps) or `ends` (even smaller ones). options: the options that all
    runs have in common.
    """
    all_steps: dict[str, dict[str, Value]] = {
        name: {"size": 0, "steps": 0} for name in ("babelstream", "minibude", "cloverleaf", "tealeaf")
    }
    if extent == "full":
        return ApplicationGrid(SCENARIO, all_steps, (15, 30, 45, 60, 90), 10, options=options)
    fewer = all_steps | {"babelstream": {"size": 0, "steps": 3}, "tealeaf": {"size": 0, "steps": 5}}
    if extent == "quick":
        less = fewer | {"cloverleaf": {"size": 0, "steps": 2}}
        return ApplicationGrid(SCENARIO, less, (30, 60), 3, options=options)
    least = fewer | {"minibude": {"size": 0, "steps": 2}, "cloverleaf": {"size": 0, "steps": 1}}
    return ApplicationGrid(SCENARIO, least, (30,), 2, options=options)


def runs(grid: ApplicationGrid, places: Iterable[tuple[str, Mapping[str, Value]]]) -> Asking[list[Result]]:
    """Ask for runs of applications, and return their results in the order of `places`.

    places: for each run, the name of the machine and the parameters of the scenario. A function that judges a claim
    calls this with `yield from`, which hands on its requests for runs.
    """
    answers: list[Result] = yield [grid.at(machine, parameters) for machine, parameters in places]
    return answers


def facts(
    grid: ApplicationGrid, scenario: Program, many: Iterable[Mapping[str, Value]] = ({},), machine: str = MACHINE
) -> Asking[list[dict[str, Value]]]:
    """Run a probe (scenario), recorded, with each of the parameters in `many`; return the facts that it measures.

    machine: the name of the machine. A function that judges a claim calls this with `yield from`.
    """
    answers: list[Result] = yield [grid.at(machine, parameters, scenario=scenario, record=True) for parameters in many]
    return [answer.measured for answer in answers]


def seconds(result: Result) -> float:
    """Return the seconds that the application's authors measure, from the result of a run."""
    return number(result.measured["time_s"])


def handler_share(result: Result) -> float:
    """Return the part of a run's elapsed time (0 to 1) in which the page-fault handler is busy."""
    return result.devices[HANDLER].busy_s / result.elapsed_s


PM: Final = "never"
NOTHING: Final[dict[str, Value]] = {"pool": "off", "elision": "off", "prefetch": "never"}
SINGLE: Final[dict[str, dict[str, Value]]] = {
    "pool": {"pool": "on"},
    "elision": {"elision": "on"},
    "prefetch": {"prefetch": "first"},
}
"""Parameters that switch on each optimization alone. They are compared with a run without any."""


def beside_vendors(grid: ApplicationGrid) -> Asking[dict[str, float]]:
    """Measure LULESH's time(vendor's stdpar) / time(acpp) by machine, at the first of the grid's problem sizes.

    A function that judges a claim calls this with `yield from`, which hands on its requests for runs.
    """
    size, machines = grid.lulesh[0], (MACHINE, MI100)
    places = [
        place
        for machine in machines
        for place in (
            (machine, grid.of_lulesh(size, VENDORS[machine])),
            (machine, grid.of_lulesh(size, "acpp", prefetch=PM)),
        )
    ]
    results = iter((yield from runs(grid, places)))
    return {machine: seconds(next(results)) / seconds(next(results)) for machine in machines}


@bench.judge("acpp.lulesh.a100.mp")
def memory_pool(grid: ApplicationGrid) -> Hearing:
    ways = [NOTHING, *({**NOTHING, **way} for way in SINGLE.values())]
    results = yield from runs(
        grid, [(MACHINE, grid.of_lulesh(size, "acpp", **way)) for size in grid.lulesh for way in ways]
    )
    remaining, emulated, wrong = iter(results), [], []
    for size in grid.lulesh:
        none = seconds(next(remaining))
        gains = {name: none / seconds(next(remaining)) for name in SINGLE}
        emulated.append(f"{size}: {', '.join(f'{name} {gain:.3g}' for name, gain in gains.items())}")
        if not longer(gains["pool"], 1.0) or gains["pool"] < max(gains.values()):
            wrong.append(f"at {size} {max(gains, key=lambda name: gains[name])} gains most")
    return Judgement("; ".join(emulated), not wrong, ", ".join(wrong))


@bench.judge("acpp.lulesh.a100.se")
def over_nvcpp(grid: ApplicationGrid) -> Hearing:
    places = [
        (MACHINE, parameters)
        for size in grid.lulesh
        for parameters in (grid.of_lulesh(size, "nvcpp"), grid.of_lulesh(size, "acpp", prefetch=PM))
    ]
    results = yield from runs(grid, places)
    ratios = {
        size: seconds(nvcpp) / seconds(acpp)
        for size, nvcpp, acpp in zip(grid.lulesh, results[::2], results[1::2], strict=True)
    }
    best = max(ratios, key=ratios.__getitem__)
    nvcpp, acpp = results[2 * grid.lulesh.index(best) :][:2]
    without = [seconds(result) - result.devices[HANDLER].busy_s for result in (nvcpp, acpp)]
    host_faults = number(acpp.measured["host_faults"]) / grid.lulesh_steps
    why = (
        f"at {best} the page-fault handler is busy for {handler_share(nvcpp):.0%} of nvc++'s time and "
        f"{handler_share(acpp):.0%} of acpp's: host and kernels use the domain's object in turn, and its page comes "
        f"back {host_faults:.0f} times a step; without the handler's time the ratio is {without[0] / without[1]:.3g}"
    )
    return Reading(listed(ratios), ratios[best], why)


@bench.judge("acpp.lulesh.a100.elided")
def elided(grid: ApplicationGrid) -> Hearing:
    results = yield from runs(grid, [(MACHINE, grid.of_lulesh(size, "acpp", prefetch=PM)) for size in grid.lulesh])
    shares = [number(result.measured["elided_share"]) for result in results]
    measured = results[0].measured
    listed_shares = ", ".join(f"{share:.3g}" for share in sorted(set(shares)))
    emulated = (
        f"{listed_shares}: of {measured['algorithms']} algorithms {measured['elided']}; "
        f"loads and stores end {measured['kept_access']} windows, allocations {measured['kept_allocation']}, "
        f"{measured['kept_value']} algorithms return a value"
    )
    figures = dict(zip(map(str, grid.lulesh), shares, strict=True))
    return Reading(emulated, figures, "windows end elsewhere than in the paper's build")


@bench.judge("acpp.lulesh.mi100.challenged")
def challenged(grid: ApplicationGrid) -> Hearing:
    ways: list[tuple[str, dict[str, Value]]] = [("host", {}), ("acpp", {"prefetch": PM}), ("rocstdpar", {})]
    results = yield from runs(
        grid, [(MI100, grid.of_lulesh(size, name, **way)) for size in grid.lulesh for name, way in ways]
    )
    remaining, emulated, wrong = iter(results), [], []
    for size in grid.lulesh:
        host, acpp, roc = (seconds(next(remaining)) for _ in ways)
        emulated.append(f"{size}: {acpp / host:.3g} and {roc / host:.3g}")
        if not longer(min(acpp, roc), host):
            wrong.append(f"offloading gains at {size}")
    return unless("t / t(host) " + ", ".join(emulated), wrong)


@bench.judge("acpp.lulesh.mi100.xnack")
def with_xnack(grid: ApplicationGrid) -> Hearing:
    results = yield from runs(
        grid,
        [
            (MI100, grid.of_lulesh(size, "acpp", prefetch=PM, xnack=way))
            for size in grid.lulesh
            for way in ("on", "off")
        ],
    )
    ratios = {
        size: seconds(on) / seconds(off) for size, on, off in zip(grid.lulesh, results[::2], results[1::2], strict=True)
    }
    shares = ", ".join(f"{handler_share(on):.0%}" for on in results[::2])
    reason = (
        f"on is faster at {{outside}}: without XNACK all bytes cross the link each time, with it "
        f"they stay once they have migrated; the page-fault handler is busy for {shares} of the time"
    )
    return Reading(listed(ratios), ratios, reason)


Ratios = dict[str, dict[str, float]]
"""time(vendor's stdpar) / time(acpp) by machine and application."""


@bench.judge("acpp.babel.cpu")
def babelstream_on_the_host(grid: ApplicationGrid) -> Hearing:
    rates = yield from _triads(grid, MILAN, "acpp", "sycl")
    emulated = f"{rates['acpp']:.4g} and {rates['sycl']:.4g} GB/s; both pass SYCL's layers, which wake three threads"
    return Reading(emulated, rates["acpp"] / rates["sycl"], "on a CPU both submit in one way")


@bench.judge("acpp.babel.roc")
def roc_without_xnack(grid: ApplicationGrid, much_less: float) -> Hearing:
    rates = yield from _triads(grid, MI100, "acpp", "rocstdpar")
    link = sum(grid.entry(MI100, f"link.{way}_pinned") for way in ("h2d", "d2h")) / 1e9
    emulated = (
        f"roc-stdpar {rates['rocstdpar']:.3g}, acpp {rates['acpp']:.4g} GB/s; the link {link:.3g} in both directions"
    )
    holds = rates["rocstdpar"] <= min(link, much_less * rates["acpp"])
    return Judgement(emulated, holds, "kernels do not wait for the link")


@bench.judge("acpp.babel.acpp_noxnack")
def acpp_without_xnack(grid: ApplicationGrid) -> Hearing:
    rates = yield from _triads(grid, MI100, "acpp", "sycl")
    (never,) = yield from runs(grid, [(MI100, grid.of("babelstream", "acpp", prefetch="never"))])
    without = number(never.measured["triad_gbs"])
    emulated = (
        f"{rates['acpp']:.4g} and {rates['sycl']:.4g} GB/s, {without:.3g} without prefetches; that a prefetch moves "
        "pages here is an input (usm.prefetch)"
    )
    reason = "a prefetch moves nothing, so that kernels reach memory of the host over the link"
    return Reading(emulated, rates["acpp"] / rates["sycl"], reason)


def _triads(grid: ApplicationGrid, machine: str, *names: str) -> Asking[dict[str, float]]:
    results = yield from runs(grid, [(machine, grid.of("babelstream", name)) for name in names])
    return {name: number(result.measured["triad_gbs"]) for name, result in zip(names, results, strict=True)}


# mini-apps


def against_vendors(grid: ApplicationGrid) -> Asking[Ratios]:
    """Measure time(vendor's stdpar) / time(acpp), by machine and then by mini-app, at the grid's sizes.

    The machines and vendors are those of `VENDORS`, the mini-apps `APPLICATIONS`. A function that judges a claim calls
    this with `yield from`, which hands on its requests for runs.
    """
    places = [
        (machine, grid.of(application, name))
        for machine, vendor in VENDORS.items()
        for application in APPLICATIONS
        for name in (vendor, "acpp")
    ]
    results = iter((yield from runs(grid, places)))
    return {
        machine: {application: seconds(next(results)) / seconds(next(results)) for application in APPLICATIONS}
        for machine in VENDORS
    }


def _written(ratios: Ratios) -> str:
    return "; ".join(
        f"{TITLES[machine]}: {', '.join(f'{name} {ratio:.4g}' for name, ratio in each.items())}"
        for machine, each in ratios.items()
    )


def _losses(ratios: Ratios, faster: float) -> str:
    lost = [
        f"{name} on the {TITLES[machine]} ({ratio:.4g})"
        for machine, each in ratios.items()
        for name, ratio in each.items()
        if ratio < faster
    ]
    return (
        f"not faster: {', '.join(lost)}. Kernels are the same under all compilers here, what one does better inside a "
        "kernel is an input of 1; where all barriers stay and all data has moved nothing is left to gain, and looking "
        "up pointers costs a little"
    )


@bench.judge("acpp.apps.two_thirds")
def two_thirds(grid: ApplicationGrid, faster: float) -> Hearing:
    ratios = yield from against_vendors(grid)
    wins = {machine: sum(ratio >= faster for ratio in each.values()) for machine, each in ratios.items()}
    return Reading(_written(ratios), wins, _losses(ratios, faster))


@bench.judge("acpp.apps.order_of_mag")
def order_of_magnitude(grid: ApplicationGrid) -> Hearing:
    ratios = yield from against_vendors(grid)
    best, machine, name = max(
        (ratio, machine, name) for machine, each in ratios.items() for name, ratio in each.items()
    )
    emulated = f"{best:.3g} ({name} on the {TITLES[machine]})"
    return Reading(emulated, best, "no vendor's data stays so far away")


@bench.judge("acpp.apps.icpx")
def icpx(grid: ApplicationGrid, large: float, near: float) -> Hearing:
    places = [(MAX1550, grid.of(application, name)) for application in APPLICATIONS for name in ("icpx", "native")]
    results = iter((yield from runs(grid, places)))
    ratio = {application: seconds(next(results)) / seconds(next(results)) for application in APPLICATIONS}
    holds = ratio["minibude"] <= near and min(ratio["cloverleaf"], ratio["tealeaf"]) >= large
    emulated = ", ".join(f"{name} {value:.3g}" for name, value in ratio.items())
    reason = (
        "a wait behind each algorithm is all that icpx has more here; the paper suspects its memory interposition, but "
        "recordings do not say what the host does with memory that no kernel uses, and shared memory that has moved to "
        "the device costs no more than device memory"
    )
    return Judgement(emulated, holds, reason)


@bench.judge("acpp.concl.majority")
def majority(grid: ApplicationGrid, faster: float) -> Hearing:
    ratios = yield from against_vendors(grid)
    for machine, ratio in (yield from beside_vendors(grid)).items():
        ratios[machine]["lulesh"] = ratio
    holds = all(2 * sum(ratio >= faster for ratio in each.values()) > len(each) for each in ratios.values())
    emulated = f"{_written(ratios)} (LULESH does not run on the Max 1550: an input)"
    return Judgement(emulated, holds, _losses(ratios, faster))


PAGE, SWEPT = 64 << 10, 64 << 20
"""Bytes of one page that a fault migrates, and bytes of an array."""


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
"""How many arrays are prefetched before each of the probe's five algorithms, counted by hand.

The key is the prefetch mode and how the mode `always` is understood (`AlwaysReading`).
"""


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


PAPER = Paper("stdpar", MACHINE, bench, grid, SENSITIVITY, CANDIDATES, other_machines=(MI100, MAX1550, MILAN))
