"""How much work a run does, apart from its time, so that runs with different parameters can be compared.

With half the threads a program may do all of its work, or half of it if each thread has an array of its own. So the
flops and bytes of kernels, and the bytes of messages, are counted in both runs, and gains are scaled to equal work.
"""

from __future__ import annotations

import math
from typing import Final

import attrs
import msgspec

from offloadrt.extensions.explaining.causal_log import CausalLog
from offloadrt.study.errors import ScriptFailed, UserError
from offloadrt.study.reporting.results import builtins
from offloadrt.study.running.execution import execute
from offloadrt.study.running.run import Run
from offloadrt.study.scripts import registry
from offloadrt.study.sweep import Point
from offloadrt.trace import EVENTS
from offloadrt.trace.events import COMMON, PS_PER_S


@attrs.frozen
class WorkDone:
    """The work that a run does in its measured time: flops and bytes of kernels, bytes of messages and of copies.

    `kernel_bytes` are the bytes that kernels move between the device's memory and its cache, `message_bytes` those of
    MPI messages.
    """

    flops: float = 0.0
    kernel_bytes: float = 0.0
    message_bytes: float = 0.0
    copied_bytes: float = 0.0
    """Compared only if neither run has a kernel or a message, since the memory configuration decides what is copied."""
    is_estimate: bool = False
    """Whether instances of repeated phases were left out, so that the numbers are estimated."""

    def over(self, other: WorkDone) -> float | None:
        """Return the ratio of this work to another run's; None if flops, bytes and messages have different ratios."""
        pairs = [(getattr(self, name), getattr(other, name)) for name in ("flops", "kernel_bytes", "message_bytes")]
        if not any(any(pair) for pair in pairs):
            pairs = [(self.copied_bytes, other.copied_bytes)]
        ratios = [own / others if others else math.inf for own, others in pairs if own or others]
        if not ratios or min(ratios) == 0.0 or max(ratios) > (1.0 + _SAME_KIND) * min(ratios):
            return None
        error = _SAME_KIND if self.is_estimate or other.is_estimate else _ROUNDING
        return 1.0 if abs(ratios[-1] - 1.0) < error else ratios[-1]


NOTHING: Final = WorkDone()
_SAME_KIND = 0.05
"""The largest relative difference between the ratios of flops, bytes and messages of two runs that do the same work;
also the largest relative error of the work of left-out instances.
"""
_ROUNDING = 1e-9
"""A relative difference larger than that of floating-point sums of the same numbers in another order."""


def work_of(run: Run, causal_log: CausalLog) -> WorkDone:
    """Count the work (flops and bytes) of a recorded run in its measured time; causal_log: what was recorded of it.

    An iteration that stands for others of its loop, which were not run, counts for all of them.
    """
    assert run.trace is not None
    spans = [(round(begin * PS_PER_S), round(end * PS_PER_S)) for begin, end, _ in run.windows.spans]
    phases = [
        (round(phase.begin_s * PS_PER_S), round(phase.end_s * PS_PER_S), phase.weight) for phase in run.windows.skipped
    ]

    def weight(time_ps: int) -> float:
        if not any(begin <= time_ps <= end for begin, end in spans):
            return 0.0
        return next((weight for begin, end, weight in phases if begin <= time_ps <= end), 1.0)

    launched = [
        (weight(causal_log.arrivals[kernel][0]), launch)
        for kernel, launch in causal_log.launches.items()
        if kernel in causal_log.arrivals
    ]
    sent = dict.fromkeys(_BYTES, 0.0)
    for row in run.trace.rows:
        if row[0] in sent:
            sent[row[0]] += weight(row[1]) * row[_BYTES[row[0]]]
    return WorkDone(
        math.fsum(share * (launch.flops + launch.single_flops) for share, launch in launched),
        math.fsum(share * launch.bytes for share, launch in launched),
        sent["MessageSent"],
        sent["CopyBegin"],
        is_estimate=bool(phases),
    )


_BYTES: Final = {name: COMMON + EVENTS[name].payload.index("bytes") for name in ("MessageSent", "CopyBegin")}
"""The index of the number of bytes in the rows of these events."""


def run_with_work(point: Point) -> bytes:
    """Run a point (one run) of a sweep; return its result as JSON, with the run's `WorkDone` as `work`."""
    causal_log, runs = CausalLog(history=False), list[Run]()
    options = attrs.evolve(point.options, record=True, hash=bool(point.options.hash))
    try:
        scenario = registry.find(point.scenario)
        result = execute(scenario, point.parameters, spec=options, causal_log=causal_log, before_run=runs.append)
    except (UserError, ScriptFailed) as error:
        return msgspec.json.encode({"error": str(error)})
    return msgspec.json.encode({**builtins(result), "work": attrs.asdict(work_of(runs[-1], causal_log))})
