"""The two layers that a benchmark runs on: OpenACC's directives as they were written, or JACC's routines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import attrs

from offloadrt.kernels import Kernel
from offloadrt.models import openacc as acc

Factors = Mapping[str, float]
"""By kernel name: what the compiler's code takes, relative to a code at the machine's limits."""


class Layer(Protocol):
    """What a benchmark asks for."""

    async def create(self, *arrays: acc.HostArray) -> None:
        """Device memory."""
        ...

    async def copyin(self, *arrays: acc.HostArray) -> None:
        """Device memory with the host's values."""
        ...

    async def copyout(self, *arrays: acc.HostArray) -> None:
        """The values to the host, and no device memory any more."""
        ...

    async def delete(self, *arrays: acc.HostArray) -> None:
        """No device memory any more."""
        ...

    async def kernel(self, kernel: Kernel, *args: Any, varies: bool = False) -> None:
        """Run a kernel on arrays that are on the device. varies: is a number among the arguments another each time?"""
        ...

    async def update_host(self, array: acc.HostArray) -> None:
        """The host gets the values."""
        ...

    async def update_device(self, array: acc.HostArray) -> None:
        """The device gets the values."""
        ...

    async def wait(self) -> None:
        """Everything has been done."""
        ...


class Directives:
    """OpenACC's directives on one device, each of which the host waits for. factors: of the kernels' times."""

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
        """Nothing is left to wait for."""

    def _compiled(self, kernel: Kernel, args: tuple[Any, ...]) -> tuple[Kernel, int | None]:
        """The compiler's code: what it does with these arguments, times its factor."""
        factor = self._factors.get(kernel.name, 1.0)
        counted = kernel.with_arguments(*args)
        iterations = None if kernel.analysis is None else kernel.analysis.trip_count(*args)
        code = attrs.evolve(
            counted,
            analysis=None,
            flops_per_iteration=counted.flops_per_iteration * factor,
            bytes_per_iteration=counted.bytes_per_iteration * factor,
        )
        return code, iterations


class Routines:
    """JACC's routines. flags: how kernels are specialised; by the values of numbers only where those stay."""

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
    return None if iterations is None else max(1, -(-iterations // code.threads_per_team))
