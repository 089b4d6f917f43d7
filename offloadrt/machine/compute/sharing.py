"""How processes share the compute units of one device: in time slices, at one time, or as clients of MPS.

==================  ================================================================================================
``time_slices``     contexts of different processes do not run at one time; a scheduler switches between them
``concurrent``      they run at one time, as many as ``process.concurrent``; with more, a scheduler switches (AMD)
``mps``             all clients of the MPS server run at one time and divide the SMs, or have a part of them each
``mig``             each process has an instance of the GPU (``machine/mig.py``); those in one take time slices
==================  ================================================================================================
"""

from __future__ import annotations

import math

from offloadrt.machine.compute.compute_spec import ComputeSpec
from offloadrt.machine.compute.gpu_context import GpuContext, GpuContexts
from offloadrt.machine.compute.time_slicer import SliceSpec, TimeSlicer
from offloadrt.machine.profile.machine_spec import MachineSpec, ProfileError
from offloadrt.sim import Simulation
from offloadrt.trace import Trace


class TooManyClients(ValueError):
    """More processes than an MPS server takes (CUDA_ERROR_MPS_MAX_CLIENTS_REACHED)."""


def shared_contexts(
    sim: Simulation, device: int, spec: MachineSpec, processes: int, trace: Trace | None
) -> tuple[GpuContexts, TimeSlicer | None]:
    """Return the contexts of so many processes on a device, and the scheduler that switches between them if any does.

    Raises TooManyClients, and ProfileError when the profile lacks an entry or has one that cannot be.
    """
    compute, how = spec.read(ComputeSpec), spec.text("process.sharing")
    if how == "mps":
        return GpuContexts(_mps_clients(spec, compute, processes)), None
    slots = spec.count("process.concurrent") if how == "concurrent" else 1
    if slots >= processes or spec.flag("process.time_slices.uncontended"):
        # Where contexts would take turns, each finds all places free.
        places = [compute.places()] * processes if how == "concurrent" else [compute.places() for _ in range(processes)]
        return GpuContexts([GpuContext(number, compute, places[number]) for number in range(processes)]), None
    slices = spec.read(SliceSpec)
    if not slices.length > 0.0:
        raise ProfileError(spec.path, "process.time_slice", "is no time: contexts would switch for ever")
    slicer = TimeSlicer(sim, device, slices, slots, processes, trace)
    contexts = [GpuContext(number, compute, compute.places()) for number in range(processes)]
    return GpuContexts(contexts, slicer.mailbox), slicer


def _mps_clients(spec: MachineSpec, compute: ComputeSpec, processes: int) -> list[GpuContext]:
    """Return the contexts of the clients of one MPS server.

    Raises TooManyClients, and ProfileError for a part of the threads that there is not.
    """
    most, part = spec.count("mps.clients"), spec.value("mps.active_thread_percentage")
    if processes > most:
        raise TooManyClients(
            f"CUDA_ERROR_MPS_MAX_CLIENTS_REACHED: {processes} processes, but the MPS server takes {most} (mps.clients)"
        )
    if not 0.0 < part <= 1.0:
        raise ProfileError(
            spec.path, "mps.active_thread_percentage", f"is {100.0 * part:g}, and no part of 100 percent"
        )
    if part == 1.0:
        places = compute.places()
        return [GpuContext(number, compute, places) for number in range(processes)]
    own = compute.part(math.ceil(compute.sms * part))
    return [GpuContext(number, own, own.places()) for number in range(processes)]
