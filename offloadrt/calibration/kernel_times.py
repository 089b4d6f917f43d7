"""A trace's kernels, compared with what a recording's counts of the same kernels say.

A compiler names an OpenMP kernel after the file's device and inode, the function and the line. The first two differ
from machine to machine, so kernels are matched by function and line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import attrs
import numpy as np

from offloadrt.calibration.device_trace import DeviceTrace
from offloadrt.kernels import Kernel, Launch
from offloadrt.machine import ComputeSpec, LaunchOutOfResources, MachineSpec
from offloadrt.recording.format import Recording
from offloadrt.recording.format.summary import KernelSummary, kernels_of
from offloadrt.trace.events import plain_kernel


@attrs.frozen
class ComparedKernel:
    """One kernel, in the trace and by its counts."""

    name: str
    launches: int
    """In the trace."""
    median: float
    low: float
    high: float
    """Seconds in the trace: the median, the tenth and the ninetieth percentile."""
    counted: float
    """Seconds that a launch with the recording's average counts takes on the machine, alone."""


def compare(traces: Sequence[DeviceTrace], recording: Recording, machine: MachineSpec) -> list[ComparedKernel]:
    """Return the kernels that both know, those that take longest first."""
    times: dict[str, list[float]] = defaultdict(list)
    for trace in traces:
        for command in trace.commands:
            if command.kind == "kernel":
                times[plain_kernel(command.name)].append(command.seconds)
    compute = machine.read(ComputeSpec)
    found = []
    for kernel in kernels_of(recording):
        seconds = times.get(plain_kernel(kernel.name))
        if seconds and (counted := _counted(kernel, compute)) is not None:
            low, median, high = np.quantile(seconds, [0.1, 0.5, 0.9]).tolist()
            found.append(
                (sum(seconds), ComparedKernel(plain_kernel(kernel.name), len(seconds), median, low, high, counted))
            )
    return [kernel for _, kernel in sorted(found, key=lambda one: -one[0])]


def _counted(kernel: KernelSummary, compute: ComputeSpec) -> float | None:
    """Return what the average launch takes alone; None where nothing was counted, or where it does not fit."""
    iterations = kernel.trip or max(1, kernel.teams * kernel.threads)
    operations = iterations * kernel.launches
    moved = kernel.moved or kernel.loaded + kernel.stored
    if not (kernel.flops + kernel.single_flops + moved and kernel.threads):
        return None
    counts = Kernel(
        kernel.name,
        None,
        kernel.flops / operations,
        moved / operations,
        kernel.threads,
        single_flops_per_iteration=kernel.single_flops / operations,
    )
    try:
        return compute.seconds_on_idle_device(Launch(counts, max(1, kernel.teams), kernel.threads, iterations))
    except LaunchOutOfResources:
        return None
