"""The two layers that a benchmark runs on: OpenACC's directives as they were written, or JACC's routines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import attrs

from offloadrt.extensions import openacc as acc
from offloadrt.kernels import Kernel

Factors = Mapping[str, float]
"""For each kernel, the time of the compiler's code relative to a code at the machine's limits."""


class Layer(Protocol):
    """What a benchmark asks of its layer."""

    async def create(self, *arrays: acc.HostArray) -> None:
        """Allocate device memory for arrays."""

    async def copyin(self, *arrays: acc.HostArray) -> None:
        """Allocate device memory and copy the host's values to it."""

    async def copyout(self, *arrays: acc.HostArray) -> None:
        """Copy the values to the host and free the device memory."""

    async def delete(self, *arrays: acc.HostArray) -> None:
        """Free the device memory."""

    async def kernel(self, kernel: Kernel, *args: Any, varies: bool = False) -> None:
        """Run a kernel on arrays on the device; with `varies`, a number among the arguments differs each time."""

    async def update_host(self, array: acc.HostArray) -> None:
        """Copy the values to the host."""

    async def update_device(self, array: acc.HostArray) -> None:
        """Copy the values to the device."""

    async def wait(self) -> None:
        """Wait until everything has been done."""


class Directives:
    """OpenACC's directives on one device, each of which the host waits for. `factors` multiply the kernels' times."""

    def __init__(self, thread: acc.HostThread, factors: Factors) -> None:
        self.thread = thread
        self._factors = factors
        self._codes: dict[tuple[Any, ...], tuple[Kernel, Kernel, int | None]] = {}

    async def create(self, *arrays: acc.HostArray) -> None:
        await self.thread.enter_data(acc.create(*arrays))

    async def copyin(self, *arrays: acc.HostArray) -> None:
        await self.thread.enter_data(acc.copyin(*arrays))

    async def copyout(self, *arrays: acc.HostArray) -> None:
        await self.thread.exit_data(acc.copyout(*arrays))

    async def delete(self, *arrays: acc.HostArray) -> None:
        await self.thread.exit_data(acc.delete(*arrays))

    async def kernel(self, kernel: Kernel, *args: Any, varies: bool = False) -> None:
        key = (id(kernel), args)
        if key not in self._codes:
            self._codes[key] = (kernel, *self._compiled(kernel, args))  # kept, so that no other kernel gets its id
        _, code, iterations = self._codes[key]
        await self.thread.parallel(
            code, *args, default="present", num_gangs=_gangs(code, iterations), iterations=iterations
        )

    async def update_host(self, array: acc.HostArray) -> None:
        await self.thread.update(acc.host(array))

    async def update_device(self, array: acc.HostArray) -> None:
        await self.thread.update(acc.device(array))

    async def wait(self) -> None:
        """Return at once: every directive has been waited for."""

    def _compiled(self, kernel: Kernel, args: tuple[Any, ...]) -> tuple[Kernel, int | None]:
        """Return the compiler's code of a kernel: what it does with these arguments, times its factor."""
        factor = self._factors.get(kernel.name, 1.0)
        counted = kernel.with_arguments(*args)
        iterations = None if kernel.analysis is None else kernel.analysis.trip_count(*args)
        # The factor scales flops and bytes alike, because a measured time does not say which of the two the compiler's
        # code does worse. What bounds the kernel stays what it was.
        code = attrs.evolve(
            counted,
            analysis=None,
            flops_per_iteration=counted.flops_per_iteration * factor,
            bytes_per_iteration=counted.bytes_per_iteration * factor,
        )
        return code, iterations


class JaccRoutines:
    """JACC's routines. `flags` say how kernels are specialised; a number that varies never specialises a kernel."""

    def __init__(self, jacc: acc.Jacc, flags: acc.PushFlags) -> None:
        self.jacc = jacc
        self._flags = flags
        self._args: dict[tuple[Any, ...], tuple[Kernel, tuple[acc.Argument, ...]]] = {}

    async def create(self, *arrays: acc.HostArray) -> None:
        await self.jacc.jacc_create(*arrays)

    async def copyin(self, *arrays: acc.HostArray) -> None:
        await self.jacc.jacc_copyin(*arrays)

    async def copyout(self, *arrays: acc.HostArray) -> None:
        await self.jacc.jacc_copyout(*arrays)

    async def delete(self, *arrays: acc.HostArray) -> None:
        await self.jacc.jacc_delete(*arrays)

    async def kernel(self, kernel: Kernel, *args: Any, varies: bool = False) -> None:
        key = (id(kernel), args)
        if key not in self._args:
            self._args[key] = (kernel, acc.jacc_args(kernel, *args))
        flags = self._flags & ~acc.PushFlags.VAR_OPT if varies else self._flags
        await self.jacc.jacc_kernel_push(kernel, self._args[key][1], flags)

    async def update_host(self, array: acc.HostArray) -> None:
        await self.jacc.jacc_update_host(array)

    async def update_device(self, array: acc.HostArray) -> None:
        await self.jacc.jacc_update_device(array)

    async def wait(self) -> None:
        await self.jacc.jacc_wait()


def _gangs(code: Kernel, iterations: int | None) -> int | None:
    return None if iterations is None else max(1, -(-iterations // code.team_threads))
