"""Builds what a run needs at the first use of its machine: hardware, drivers and the program's runtime library.

`options_for`, `program_of` and `changed` find and change the options of a program by its programming model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from offloadrt.driver import Driver, open_drivers
from offloadrt.machine import Machine, MachineSpec
from offloadrt.machine.injection import FaultPlan, Injector
from offloadrt.models.host.process import Process, processes_of
from offloadrt.models.host.program import MODELS, OffloadProgram, ProgramOptions
from offloadrt.registry import Registry
from offloadrt.runtime.environment import CHOOSING, ENTRIES, OF_CALLS, OFFLOAD, is_on
from offloadrt.sim import Simulation
from offloadrt.study.errors import UserError, did_you_mean, installed
from offloadrt.study.running import profiles
from offloadrt.trace import Calls, Trace


def options_for(model: object) -> type[ProgramOptions]:
    """Return the options class of a programming model's programs. Raises UserError unless `model` names one."""
    known = MODELS.names()
    if model not in known:
        hint = did_you_mean(model, known) if isinstance(model, str) else ""
        raise UserError(f"model {model!r}: it can be {', '.join(known)}{hint}")
    return MODELS.find(str(model)).options


def program_of(
    options: ProgramOptions, machine: Machine, drivers: Sequence[Driver], trace: Trace | None
) -> OffloadProgram[Any]:
    """Make the program of these options on a process's drivers. Raises ValueError if they do not fit the machine."""
    return MODELS.find(options.model).program(machine, drivers, options, trace)


def changed(options: ProgramOptions, changes: Mapping[str, Any]) -> ProgramOptions:
    """Return the options with the fields in `changes` replaced. Raises UserError for a field that the model lacks."""
    known = [field.name for field in attrs.fields(type(options))]
    for name in changes:
        if name not in known:
            raise UserError(
                f"a program of {options.model} has no option {name!r}{did_you_mean(name, known)}; "
                f"there are: {', '.join(known)}"
            )
    return attrs.evolve(options, **changes)


@attrs.frozen
class Built:
    """Holds what `build` makes for a run: machines, drivers and processes, and the profile with all overrides."""

    spec: MachineSpec
    nodes: Sequence[Machine]
    """The machines of the run: one, or the nodes of a cluster."""
    drivers: Sequence[Sequence[Driver]]
    """The driver libraries of each process."""
    processes: list[Process]
    """The processes that run the program, by rank."""

    @property
    def machine(self) -> Machine:
        """Return the machine; of several nodes, the first one."""
        return self.nodes[0]

    @property
    def programs(self) -> list[OffloadProgram[Any]]:
        """Return the program of each process, with its own runtime library."""
        return [process.program for process in self.processes]


def build(
    sim: Simulation, spec: MachineSpec, options: ProgramOptions, environment: Mapping[str, str], trace: Trace | None,
    calls: Calls, injector: Injector | None = None,
) -> Built:  # fmt: skip
    """Build machine, drivers and program; `calls` counts API calls, `injector` injects faults.

    environment: the program's environment variables. Raises UserError for options that contradict one another, or for
    which the machine lacks hardware.
    """
    spec = _with_environment(spec, environment)
    try:
        options.check()
        devices, processes = options.devices_on(spec), options.num_processes
        nodes: list[Machine] = []
        each, more = divmod(processes, options.num_nodes)
        for number in range(options.num_nodes):
            sharers, beside = each + (number < more), nodes[-1] if nodes else None
            nodes.append(Machine(sim, spec, trace, calls, devices, processes=sharers, injector=injector, beside=beside))
        views = [node.of_process(node.first_process + local) for node in nodes for local in range(node.processes)]
        drivers = open_drivers(views, devices)
        chosen = options.chosen_on(spec, environment)
        programs = [program_of(chosen, view, opened, trace) for view, opened in zip(views, drivers, strict=True)]
        for program in programs[1:]:  # the numbers of directives tell in a trace what caused what, in all processes
            program.next_directive = programs[0].next_directive
        return Built(spec, nodes, drivers, processes_of(programs))
    except ValueError as error:
        raise UserError(str(error)) from None


def check(spec: MachineSpec, options: ProgramOptions) -> None:
    """Check a program's options before its machine is built: names of policies, number of devices. Raises UserError."""
    try:
        options.check()
    except ValueError as error:
        raise UserError(str(error)) from None
    most = spec.count("gpu.devices") if "gpu.devices" in spec.entries else options.num_devices
    if options.num_devices > most:
        raise UserError(f"{options.num_devices} devices: {spec.name} has {most} (gpu.devices)")


def _with_environment(spec: MachineSpec, environment: Mapping[str, str]) -> MachineSpec:
    """Replace those entries of the machine's profile that the program's environment sets. Raises UserError."""
    for name, value in environment.items():
        key = ENTRIES.get(name)
        if key is None and name not in (*CHOOSING, OFFLOAD):
            names = [*ENTRIES, *CHOOSING, OFFLOAD]
            raise UserError(f"--env {name}: nothing reads it{did_you_mean(name, names)}; there are {', '.join(names)}")
        if not isinstance(value, str):
            raise UserError(f"--env {name}={value!r}: the value of an environment variable is a text")
        if name == OFFLOAD:
            continue  # an option of OpenMP programs
        known = key is not None and key in spec.entries
        given: str | float | bool = _plain(value)
        if key is None or key == "gpu.xnack" or (known and isinstance(spec.entries[key].value, bool)):
            try:
                given = is_on(environment, name)
            except ValueError as error:
                raise UserError(f"--env {error}") from None
        # Where the device has memory of its own, XNACK decides whether shared memory migrates or stays on the host.
        if key == "gpu.xnack" and not known and spec.flag("usm.xnack"):
            key, known, given = "usm.shared", True, "migrates" if given else "host"
        if key is not None and known and (name not in OF_CALLS or spec.text("driver.calls") == OF_CALLS[name]):
            spec = profiles.override(spec, key, given, said=f"--env {name}, entry")
    return spec


def _plain(value: str) -> str | float:
    """Return an environment variable's value as a number, if it is one, or as a word in lower case."""
    try:
        return float(value)
    except ValueError:
        return value.lower()


_FAULTS: Final = Registry[Callable[[Sequence[str]], FaultPlan]]("reader of faults", "offloadrt.fault_readers")


def plan_of(faults: Sequence[str]) -> FaultPlan:
    """Parse the texts of `--faults`. UserError for a bad text, and if the extension that injects faults is missing."""
    plan: FaultPlan = installed(_FAULTS, "faults", "--faults: ")(faults)
    return plan
