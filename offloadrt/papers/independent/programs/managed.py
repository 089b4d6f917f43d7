"""What programs over managed memory have in common: rules of the driver, the timed part, and figures of fault batches.

Three conventions of time are told apart. *Kernel*: from the first launch to the end of the synchronisation. *Process*:
the whole program in virtual time, allocation and the host's own work included; creating process and context is not
emulated, so that only differences mean something. *Window*: the batches of the fault handler, from the beginning of
fetching to the replay, added up.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Final

import attrs
import numpy as np

from offloadrt.driver import FaultBatch
from offloadrt.models.cuda import CUDAOptions
from offloadrt.study import Run
from offloadrt.study.scripts.parameters import Range, Value

MIB: Final = 1 << 20
BLOCK: Final = 256
"""Threads of a block in most of the programs."""

PHASES: Final = ("fetch", "preprocess", "lock", "service", "replay")
"""Names of a batch's phases (D1, D2, D3, D5 and D6 of the measurements)."""
PERCENTILES: Final = (10, 25, 75, 90)


@attrs.frozen
class FaultRules:
    """Parameters of a scenario: rules of the unified-memory driver that its program is run with.

    None leaves what the machine's profile says.
    """

    batch_limit: Annotated[
        int | None,
        Range(1, 65536),
        "faults that the driver takes from the buffer at a time; none: as the machine's profile says",
    ] = None
    """``uvm_perf_fault_batch_count``."""
    threshold: Annotated[
        int | None,
        Range(0, 100),
        "per cent of a subtree above which the driver prefetches it; none: as the profile says",
    ] = None
    """``uvm_perf_prefetch_threshold``."""
    prefetch: Annotated[bool, "whether the driver prefetches at all"] = True
    """``uvm_perf_prefetch_enable``."""

    def loop(self, run: Run, phantom: bool = True) -> KernelLoop:
        """Set the entries of the machine, for a CUDA program, and make its timed part."""
        run.options = CUDAOptions(phantom=phantom)
        if self.batch_limit is not None:
            run.set("fault.batch_max", self.batch_limit)
        if self.threshold is not None:
            run.set("prefetch.threshold", self.threshold / 100.0)
        if not self.prefetch:
            run.set("prefetch.tree", False)
        return KernelLoop(run)


AS_PROFILED: Final = FaultRules()


@attrs.define
class KernelLoop:
    """The timed part of a program; `figures` says what happened in it."""

    run: Run
    begin: float = 0.0

    @asynccontextmanager
    async def timed(self) -> AsyncIterator[None]:
        """Time the body, which ends with a synchronisation."""
        self.begin = self.run.sim.now
        async with self.run.measure():
            yield

    def figures(self) -> dict[str, Value]:
        """Return times, bytes and faults of the timed part, and statistics over its batches."""
        run, faults = self.run, self.run.measured.faults
        batches = [batch for batch in run.statistics.fault_batches if batch.begin >= self.begin]
        figures: dict[str, Value] = {
            "kernel_s": run.elapsed,
            "process_s": run.sim.now,
            "to_device_bytes": int(faults.get("bytes_transfer_htod", 0)),
            "to_host_bytes": int(faults.get("bytes_transfer_dtoh", 0)),
            "host_faults": int(faults.get("cpu_page_fault_count", 0)),
            "evicted_blocks": int(faults.get("evicted_blocks", 0)),
        }
        return figures | batch_figures(batches)


def batch_figures(batches: Sequence[FaultBatch]) -> dict[str, Value]:
    """Return what batches hold and how long they take.

    ``faults`` are those in the buffer, ``pages`` what is left of them when duplicates are merged. Shares of phases are
    ratios of medians. Statistics are missing where there is no batch, and the line through time over bytes where all
    batches have the same.
    """
    names = ("begin", "fetched", "preprocessed", "locked", "served", "end", "faults", "pages", "blocks", "nbytes")
    columns = [np.array([getattr(batch, name) for batch in batches], float) for name in names]
    begin, fetched, preprocessed, locked, served, end, faults, pages, blocks, nbytes = columns
    figures: dict[str, Value] = {
        "batches": len(batches),
        "faults": int(faults.sum()),
        "pages": int(pages.sum()),
        "duplicates": int((faults - pages).sum()),
        "blocks": int(blocks.sum()),
        "window_s": float((end - begin).sum()),
        "busy_s": float((end - fetched).sum()),
    }
    if not batches:
        return figures
    figures["span_s"] = float(end[-1] - begin[0])
    figures["duplicate_share"] = float((faults - pages).sum() / faults.sum())
    figures["one_fault_share"] = float(np.mean(faults == 1))
    phases = dict(
        zip(PHASES, np.diff(np.stack([begin, fetched, preprocessed, locked, served, end]), axis=0), strict=True)
    )
    for name, values in {
        "faults_per_batch": faults,
        "pages_per_batch": pages,
        "blocks_per_batch": blocks,
        "bytes_per_batch": nbytes,
        "batch_s": end - begin,
        "after_fetch_s": end - fetched,
        **{f"{phase}_s": values for phase, values in phases.items()},
    }.items():
        figures |= _distribution(name, values)
    middle = float(np.median(end - begin))
    figures |= {f"{phase}_share": float(np.median(values)) / middle for phase, values in phases.items() if middle}
    if np.ptp(nbytes) > 0:
        slope, intercept = np.polyfit(nbytes, end - begin, 1)
        figures |= {"fit_intercept_s": float(intercept), "fit_slope_s_per_byte": float(slope)}
    return figures


def _distribution(name: str, values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> dict[str, Value]:
    found: dict[str, Value] = {
        f"{name}_mean": float(np.mean(values)),
        f"{name}_median": float(np.median(values)),
        f"{name}_min": float(np.min(values)),
        f"{name}_max": float(np.max(values)),
    }
    return found | {f"{name}_p{part}": float(np.percentile(values, part)) for part in PERCENTILES}
