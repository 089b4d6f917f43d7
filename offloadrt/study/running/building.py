"""What a run builds at the first use of its machine: the hardware, its drivers, and the program's runtime library."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from offloadrt.machine import MachineSpec
from offloadrt.study.errors import UserError
from offloadrt.study.running import profiles

if TYPE_CHECKING:
    from offloadrt.driver import Driver, Rocr
    from offloadrt.machine import Machine
    from offloadrt.models.openacc import OpenACC
    from offloadrt.models.openmp import OpenMP
    from offloadrt.models.stdpar import StdPar
    from offloadrt.runtime.configurations import MemoryConfiguration
    from offloadrt.study.running.run import Run
    from offloadrt.trace import Calls

    Configuration = str | MemoryConfiguration


MODELS = ("openmp", "openacc", "stdpar")


@attrs.frozen
class Built:
    """The parts of a run's machine, and the profile that it has with the program's environment."""

    spec: MachineSpec
    machine: Machine
    drivers: list[Driver | Rocr]
    program: OpenMP | OpenACC | StdPar


def build(run: Run, calls: Calls) -> Built:
    """Machine, drivers and program as the fields of `run` say; API calls are counted in `calls`. Raises UserError for
    fields that do not go together, or that the machine has no hardware for.
    """
    from offloadrt.driver import open_driver
    from offloadrt.kernels.whole import is_whole
    from offloadrt.machine import Machine

    if run.model not in MODELS:
        raise UserError(f"run.model {run.model!r}: it can be {', '.join(MODELS)}")
    if not is_whole(run.num_devices) or run.num_devices < 1:
        raise UserError(f"run.num_devices is {run.num_devices!r}, but must be a whole number from 1")
    spec = _with_environment(run)
    configuration = _configuration(run, spec)
    try:
        devices = run.num_devices
        if run.model == "stdpar" and spec.text("usm.shared") == "no_device":
            devices = 0
        machine = Machine(run.sim, spec, trace=run.trace, calls=calls, devices=devices)
        drivers = [open_driver(machine, number) for number in range(devices)]
        return Built(spec, machine, drivers, _program(run, machine, drivers, configuration))
    except ValueError as error:
        raise UserError(str(error)) from None


def check(run: Run) -> None:
    """What a run can be told before its machine is built: that its model, the names of policies and the number of
    devices exist. Raises UserError.
    """
    from offloadrt.machine.host_lock import lock_policy
    from offloadrt.runtime.allocators import allocator
    from offloadrt.runtime.configurations import configuration

    if run.model not in MODELS:
        raise UserError(f"run.model {run.model!r}: it can be {', '.join(MODELS)}")
    try:
        if run.configuration != "environment":
            configuration(run.configuration)
        allocator(run.allocator)
        if run.table_policy is not None:
            lock_policy(run.table_policy)
        if run.model == "openacc":
            from offloadrt.models.openacc.compilers import compiler_model

            compiler_model(run.compiler)
        if run.model == "stdpar" and isinstance(run.implementation, str):
            from offloadrt.models.stdpar.implementations import implementation

            implementation(run.implementation)
    except ValueError as error:
        raise UserError(str(error)) from None
    most = run.spec.count("gpu.devices") if "gpu.devices" in run.spec.entries else run.num_devices
    if not 1 <= run.num_devices <= most:
        raise UserError(f"{run.num_devices} devices: {run.spec.name} has {most} (gpu.devices)")


def _with_environment(run: Run) -> MachineSpec:
    """The machine's profile with those entries that the program's environment sets."""
    from offloadrt.runtime.environment import CHOOSING, ENTRIES, is_on

    spec = run.spec
    for name, value in run.environment.items():
        key = ENTRIES.get(name)
        if key is None and name not in CHOOSING:
            raise UserError(f"--env {name}: there are {', '.join([*ENTRIES, *CHOOSING])}")
        on = False
        if key is None or key == "gpu.xnack":
            try:
                on = is_on(run.environment, name)
            except ValueError as error:
                raise UserError(f"--env {error}") from None
        if key is not None and key in spec.entries:
            spec = profiles.override(spec, key, on if key == "gpu.xnack" else value, said=f"--env {name}, entry")
    return spec


def _configuration(run: Run, spec: MachineSpec) -> Configuration:
    """The memory configuration; the runtime chooses it if the run says `environment`."""
    from offloadrt.runtime.environment import is_on, select_configuration

    if run.configuration != "environment":
        return run.configuration
    apu = spec.flag("machine.apu")
    xnack = spec.flag("gpu.xnack") if "gpu.xnack" in spec.entries else is_on(run.environment, "HSA_XNACK")
    unified = spec.flag("gpu.unified_memory")
    try:
        return select_configuration(run.requires_unified_shared_memory, apu, xnack, unified, run.environment)
    except ValueError as error:
        raise UserError(str(error)) from None


def _program(
    run: Run, machine: Machine, drivers: list[Driver | Rocr], configuration: Configuration
) -> OpenMP | OpenACC | StdPar:
    if run.model == "openacc":
        return _openacc(run, machine, drivers, configuration)
    if run.model == "stdpar":
        return _stdpar(run, machine, drivers, configuration)
    from offloadrt.models.openmp import OpenMP

    return OpenMP(
        machine,
        drivers,
        trace=run.trace,
        configuration=configuration,
        allocator=run.allocator,
        phantom=run.phantom,
        host_program=run.host_program,
        table_policy=run.table_policy,
    )


def _openacc(run: Run, machine: Machine, drivers: list[Driver | Rocr], configuration: Configuration) -> OpenACC:
    from offloadrt.models.openacc import OpenACC

    if configuration != "copy" or run.allocator != "llvm" or run.table_policy is not None:
        raise UserError(
            "an OpenACC program has run.configuration copy, the run.allocator of its compiler and no run.table_policy"
        )
    return OpenACC(
        machine,
        drivers,
        trace=run.trace,
        compiler=run.compiler,
        pools=run.pools,
        phantom=run.phantom,
    )


def _stdpar(run: Run, machine: Machine, drivers: list[Driver | Rocr], configuration: Configuration) -> StdPar:
    from offloadrt.models.stdpar import StdPar

    if configuration != "copy" or run.allocator != "llvm" or run.num_devices != 1 or run.table_policy is not None:
        raise UserError(
            "a stdpar program has one device, run.configuration copy, no run.allocator and no run.table_policy"
        )
    return StdPar(
        machine,
        drivers,
        trace=run.trace,
        implementation=run.implementation,
        pool_gb=run.pool_gb,
        system_usm=run.system_usm,
        heuristic=run.heuristic,
        database=run.heuristic_file,
        phantom=run.phantom,
    )
