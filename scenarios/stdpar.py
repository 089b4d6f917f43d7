"""Applications of the paper on AdaptiveCpp's stdpar, under its runtime and those that it is compared with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from offloadrt import ParameterError, Range, Run, scenario
from offloadrt import stdpar as std
from offloadrt.driver.calls import CALL_NAMES
from offloadrt.extensions.recording.replay import ReplayRefused
from offloadrt.papers.figures import figures_of
from offloadrt.papers.stdpar.programs import RecordedApplication, sizes
from offloadrt.runtime.errors import ArrayOutOfDeviceMemory

FIGURES = figures_of("stdpar")

Switch = Literal["auto", "on", "off"]


Application = Literal["babelstream", "babelstream-data", "minibude", "cloverleaf", "tealeaf", "lulesh"]


@scenario(
    machine="isambard-a100",
    figure=FIGURES["stdpar"],
    sweep={"implementation": ("acpp", "nvcpp", "native")},
    measures=(
        "algorithms",
        "on_host",
        "waits",
        "elided",
        "elided_share",
        *std.KEPT,
        "prefetches",
        "prefetched_gb",
        "to_device_gb",
        "to_host_gb",
        "fault_groups",
        "decisions",
        "changes",
    ),
)
async def stdpar(
    run: Run,
    application: Application = "babelstream",
    implementation: Literal["acpp", "nvcpp", "rocstdpar", "icpx", "sycl", "native", "host"] = "acpp",
    pool: Switch = "auto",
    elision: Switch = "auto",
    prefetch: Literal["auto", "never", "first", "always", "after-sync"] = "auto",
    heuristic: Switch = "auto",
    sampling: Literal["none", "host", "offload"] = "none",
    database: str | None = None,
    xnack: Switch = "auto",
    size: Annotated[int, Range(0, 1 << 31)] = 0,
    steps: Annotated[int, Range(0, 1_000_000)] = 0,
) -> dict[str, float | int]:
    """One application, as its public version was recorded. `time_s` is what its authors time, without setting it up.

    Counts are those of the timed part: algorithms, where they ran, waits, barriers that were elided and the reasons why
    others stayed, prefetches, allocations, bytes that migrated or were copied.

    The offload heuristic decides from what runs before have measured. Two runs sample, the third decides:

        offloadrt run stdpar size=65536 steps=4 sampling=host database=times.json
        offloadrt run stdpar size=65536 steps=4 sampling=offload database=times.json
        offloadrt run stdpar size=65536 steps=4 heuristic=on database=times.json

    Parameters:
        application: what runs
        implementation: whose compiler and runtime; sycl and native have device memory and copies of their own
        pool: the memory pool; auto is as the implementation has it, as of the next three
        elision: synchronization elision
        prefetch: the prefetch mode
        heuristic: the offload heuristic; it needs a database with runtimes of host and device, else it offloads all
        sampling: a run that only measures for the database, with all algorithms on the host or offloaded
        database: file with the runtimes that the heuristic knows, to which each run adds its own at the end; for single
            runs, since those of a sweep have no order
        xnack: of an AMD GPU: do pages of shared memory migrate, or is it host memory? auto as the machine has it
        size: numbers of an array (babelstream), poses (minibude), cells of a row (cloverleaf, tealeaf), elements of a
            row (lulesh), one of those that were recorded; 0 for the largest
        steps: iterations of what is timed, for tealeaf of the solver in one time step; 0 for all that were recorded
    """
    if xnack != "auto":
        if not run.spec.flag("usm.xnack"):
            raise ParameterError("xnack", f"{xnack}, but {run.spec.name} has no XNACK to switch (usm.xnack = false)")
        run.set("usm.shared", "migrates" if xnack == "on" else "host")
    try:
        chosen = std.variant(implementation, pool=pool, elision=elision, prefetch=prefetch, heuristic=heuristic)
    except ValueError as error:
        name, _, reason = str(error).partition(": ")
        raise ParameterError(name, reason) from None
    if sampling != "none" and not chosen.heuristic:
        raise ParameterError("sampling", f"{sampling}, but {implementation} has no heuristic here; it can be none")
    if database is not None:
        if not chosen.heuristic:
            raise ParameterError("database", f"{database}, but {implementation} has no heuristic here to read it")
        if not Path(database).parent.is_dir():
            raise ParameterError("database", f"{database}, but there is no such folder")
    try:
        program = RecordedApplication(application, size or max(sizes(application)), steps)
    except ValueError as error:
        raise ParameterError("size", str(error)) from None
    run.options = std.StdParOptions(
        implementation=chosen,
        heuristic=std.HeuristicRules(sampling=std.Sampling(sampling)),
        heuristic_file=None if database is None else Path(database),
        phantom=True,
    )

    async def body(t: std.HostThread) -> dict[str, float | int]:
        try:
            return await program.run(t, run)
        except ReplayRefused as error:
            raise ParameterError("steps", f"{steps}, but {error}") from None
        except std.CompilationRefused as error:
            raise ParameterError("implementation", str(error)) from None
        except ArrayOutOfDeviceMemory as error:
            raise ParameterError("size", f"{program.size} does not fit into the device's memory: {error}") from None

    own = (await run.parallel(body))[0]
    measured = run.measured
    moved, faults, calls = measured.bytes, measured.faults, run.measured.calls.table()
    counted = std.algorithm_figures(measured.algorithms, measured.barriers)
    prefetched = counted.pop("prefetched_bytes")
    names = {} if run.spec.text("driver.api") == "rocr" else CALL_NAMES[run.spec.text("driver.calls")]
    managed, freed = (calls.get(names.get(call, call)) for call in ("cuMemAllocManaged", "cuMemFree"))
    return {
        "time_s": run.elapsed,
        **counted,
        "prefetched_gb": prefetched / 1e9,
        "to_device_gb": moved.get("h2d", 0.0) / 1e9,
        "to_host_gb": moved.get("d2h", 0.0) / 1e9,
        "fault_batches": int(faults.get("fault_batches", 0)),
        "fault_groups": int(faults.get("gpu_page_fault", 0)),
        "host_faults": int(faults.get("cpu_page_fault_count", 0)),
        "malloc_shared": 0 if managed is None else managed.count,
        "driver_frees": 0 if freed is None else freed.count,
        **own,
    }
