"""A benchmark on a layer: what runs, and what its kernels and exchanges take."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any, Final, Literal

import attrs
import numpy as np
from numpy.typing import DTypeLike

from offloadrt.extensions import openacc as acc
from offloadrt.extensions.openacc import Effects
from offloadrt.machine import load
from offloadrt.machine.compute.residency import ComputeSpec
from offloadrt.models.host.directive import launch_of
from offloadrt.papers.jacc.programs.benchmark import Benchmark, Directives, JaccRoutines, Layer, Values, extent

MACHINE: Final = "dgx1-v100"
"""The machine on which the paper measured."""

FASTER_WITH_RESTRICT: Final = 1.2339
"""The factor of BT and LU with PGI (claim jacc.opt.restrict_up gives the better of the two)."""
SLOWER_WITH_RESTRICT: Final = 1 / (1 - 0.0559)
"""The factor of EP with GCC (claim jacc.opt.restrict_down)."""
SLOWER_WITH_VAR_OPT: Final = 1.05
"""The factor of EP and SP with GCC.

Claim jacc.opt.varopt says that they get slower; by how much is an engineering estimate.
"""
EP_BY_GCC: Final = 1.3831
"""GCC's code for EP relative to PGI's (claim jacc.gcc.ep)."""

RELATIVE: Final = {
    ("BT", "pgi"): Effects(restrict=1 / FASTER_WITH_RESTRICT),
    ("LU", "pgi"): Effects(restrict=1 / FASTER_WITH_RESTRICT),
    ("EP", "gcc"): Effects(generated=EP_BY_GCC, restrict=SLOWER_WITH_RESTRICT, var_opt=SLOWER_WITH_VAR_OPT),
    ("SP", "gcc"): Effects(var_opt=SLOWER_WITH_VAR_OPT),
}
"""Factors of each benchmark and compiler, relative to PGI's code without specializations.

Generated code is taken to be as good as the original program's, because claim jacc.base.change gives no number.
"""


@functools.cache
def factor(benchmark: Benchmark) -> float:
    """Return the time of all kernels on one V100 over the time of their counts at the machine's limits."""
    compute = load(MACHINE).read(ComputeSpec)
    executions = benchmark.program(extent).executions()
    at_limits = math.fsum(
        times * compute.seconds_on_idle_device(launch_of(call.kernel, call.values))
        for call, times in executions.items()
    )
    return benchmark.dup_s / at_limits


def effects(benchmark: Benchmark, compiler: str) -> dict[str, Effects]:
    """Return the factors of each kernel under JACC's runtime, which are the same for all of them."""
    relative = RELATIVE.get((benchmark.name, compiler), Effects())
    of_program = Effects(factor(benchmark) * relative.generated, relative.restrict, relative.var_opt)
    return dict.fromkeys(benchmark.program(extent).launches(), of_program)


LayerName = Literal["original", "jacc"]


@attrs.define
class KernelRow(acc.KernelTimes):
    """What one kernel has done so far; `adapted` says whether it is divided in the end."""

    adapted: bool = False

    def add(self, times: acc.KernelTimes, sign: int = 1) -> None:
        """Add what executions took, or take it away."""
        for name in attrs.fields_dict(acc.KernelTimes):
            setattr(self, name, getattr(self, name) + sign * getattr(times, name))

    def since(self, before: KernelRow) -> KernelRow:
        """Return what has come since an earlier row."""
        row = attrs.evolve(self)
        row.add(before, -1)
        return row

    @property
    def execution_s(self) -> float:
        """Return the mean seconds of an execution."""
        return self.kernel_s / self.executions if self.executions else 0.0


@attrs.frozen
class BenchmarkOutcome:
    """What a run of a benchmark gave.

    `kernels` has a row for each name. `fraction` is the part of the iterations that was run. `computed_s` are the
    virtual seconds between the transfers of the arrays at the beginning and at the end. `nbytes` is the size of all
    arrays. `results` are the program's arrays, unless it is a phantom.
    """

    devices: int
    kernels: Mapping[str, KernelRow]
    refused: Mapping[str, str]
    iterations: int
    fraction: float
    computed_s: float
    nbytes: int
    results: Mapping[str, Any]

    @property
    def kernel_s(self) -> float:
        """Return the seconds of all kernels."""
        return float(np.sum([row.kernel_s for row in self.kernels.values()]))

    @property
    def communication_s(self) -> float:
        """Return the seconds of all exchanges."""
        return float(np.sum([row.communication_s for row in self.kernels.values()]))

    @property
    def adapted(self) -> int:
        """Return the kernels that are divided in the end."""
        return len([row for row in self.kernels.values() if row.adapted])

    @property
    def write_bytes(self) -> float:
        """Return the mean bytes that a device sends to each other device after an execution (the paper's WriteSize)."""
        pairs = self.devices * (self.devices - 1)
        divided = sum(row.divided for row in self.kernels.values())
        return sum(row.sent_bytes for row in self.kernels.values()) / pairs / divided if pairs and divided else 0.0

    @property
    def bandwidth(self) -> float:
        """Return WriteSize over the time of an exchange, in bytes per second."""
        divided = sum(row.divided for row in self.kernels.values())
        return self.write_bytes * divided / self.communication_s if self.communication_s else 0.0


@attrs.frozen
class BenchmarkExperiment:
    """A part of a benchmark's iterations, at least one of them.

    `warm_up` iterations run before them; neither these nor the setup are measured. `devices` and the fields after it
    are for JACC's routines.
    """

    benchmark: Benchmark
    layer: LayerName = "jacc"
    size: str = ""
    fraction: float = 1.0
    warm_up: int = 0
    devices: int = 1
    strategy: str | acc.DeviceStrategy = "single"
    execution: Literal["sync", "async", "overlap"] = "async"
    communication: Literal["all-to-all", "needed"] = "all-to-all"
    flags: acc.PushFlags = acc.PushFlags.NONE

    async def run(self, t: acc.HostThread) -> BenchmarkOutcome:
        """Run the experiment on one host thread."""

        def array(
            name: str, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64, values: Values | None = None
        ) -> acc.HostArray:
            fill = None if values is None or t.program.phantom else values()
            return t.array(name, shape, dtype, fill)

        program = self.benchmark.program(array, self.size)
        iterations = max(1, round(program.iterations * self.fraction))
        quality = effects(self.benchmark, t.library.compiler.name)
        jacc: acc.Jacc | None = None
        on: Layer
        if self.layer == "original":
            on = Directives(t, {name: effect.generated for name, effect in quality.items()})
        else:
            jacc = acc.Jacc(
                t,
                execution=self.execution,
                devices=self.devices,
                strategy=self.strategy,
                communication=self.communication,
                effects=quality,
            )
            on = JaccRoutines(jacc, self.flags)
        await program.begin(on)
        began = t.sim.now
        before: dict[str, KernelRow] = {}
        await program.start(on, self.warm_up)
        if self.warm_up:
            await on.wait()
            began, before = t.sim.now, _rows(t, jacc)
        await program.compute(on, iterations)
        computed_s = t.sim.now - began
        await program.end(on)
        return BenchmarkOutcome(
            devices=self.devices,
            kernels={name: row.since(before.get(name, KernelRow())) for name, row in _rows(t, jacc).items()},
            refused={} if jacc is None else jacc.refused,
            iterations=iterations,
            fraction=iterations / program.iterations,
            computed_s=computed_s,
            nbytes=program.nbytes,
            results={} if t.program.phantom else {array.name: array.data.copy() for array in program.results},
        )


def _rows(t: acc.HostThread, jacc: acc.Jacc | None) -> dict[str, KernelRow]:
    times = t.library.records.of_constructs if jacc is None else jacc.times
    rows: dict[str, KernelRow] = {}
    for name, kernel_times in times.items():
        # a directive's code is made for its arguments, and reports number codes of one name
        row = rows.setdefault(name.partition(" (")[0], KernelRow())
        row.add(kernel_times)
        if jacc is not None and kernel_times.divided and jacc.policy.before(name) is acc.Mode.DIVIDED:
            row.adapted = True
    return rows
