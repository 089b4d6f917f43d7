"""One stream of the AMDGPU plugin: what its operations wait for (LLVM's `AMDGPUStreamTy`).

A stream keeps the signal of its last operation; the next one depends on it unless it is set. A copy of up to
`copy.async_limit` goes through staging memory. To the device, the calling thread fills that itself when the stream is
idle; otherwise ROCr's handler thread does, when the last signal is set. From the device, that thread empties it.
Staging memory and the arguments of kernels are host blocks, which `amdgpu_resources.py` pools.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import numpy as np

from offloadrt.driver import HsaSignal, Rocr, RunHandler, Touching
from offloadrt.kernels import Launch
from offloadrt.machine import Stream
from offloadrt.machine.memory.device_memory import Bytes
from offloadrt.runtime.host_array import HostSpan

DeviceBytes = Callable[[], Bytes]
"""Gives the bytes of a range of the device."""
Move = Callable[[], None]


class PluginBlock(NamedTuple):
    """A block of the host's pool that the device reaches; `pool` is the memory manager that it comes from."""

    pool: str
    nbytes: int


class AmdgpuStream:
    """Operations of one directive at a time. `signals`, `blocks`: what it holds of the plugin's."""

    __slots__ = ("_host_copy", "_rocr", "_sim", "blocks", "signals", "stream")

    def __init__(self, rocr: Rocr, stream: Stream) -> None:
        self._rocr = rocr
        self._sim = rocr.sim
        self._host_copy = rocr.machine.host_memory.copy
        self.stream = stream
        self.signals = 0
        self.blocks: list[PluginBlock] = []

    @property
    def unfinished(self) -> HsaSignal | None:
        """Return the last signal, if it is not set."""
        last = self.stream.last
        return None if last is None or last.is_set or not isinstance(last, HsaSignal) else last

    async def copy_to_device(self, cause: int, source: HostSpan, target: DeviceBytes | None) -> None:
        """`pushMemoryCopyH2DAsync`."""
        nbytes, rocr, depends = source.nbytes, self._rocr, self.unfinished
        upload = None if source.bytes is None or target is None else _Upload(source.bytes, target)
        if depends is None:
            if upload is not None:
                upload.stage()
            await self._host_copy(nbytes)
        else:
            staged = HsaSignal(self._sim, "staging", self)
            stage = None if upload is None else upload.stage
            await rocr.signal_async_handler(depends, RunHandler(nbytes, stage, staged))
            self.stream.note(staged)
            depends = staged
        move = None if upload is None else upload.arrive
        done = HsaSignal(self._sim, "copy to the device", self)
        await rocr.memory_async_copy(self.stream, cause, "h2d", nbytes, move, done, depends)

    async def copy_to_host(self, cause: int, target: HostSpan, source: DeviceBytes | None) -> None:
        """`pushMemoryCopyD2HAsync`."""
        nbytes, rocr = target.nbytes, self._rocr
        download = None if target.bytes is None or source is None else _Download(target.bytes, source)
        there = HsaSignal(self._sim, "copy from the device", self)
        fetch = None if download is None else download.fetch
        await rocr.memory_async_copy(self.stream, cause, "d2h", nbytes, fetch, there, self.unfinished)
        done = HsaSignal(self._sim, "copy out of the staging memory", self)
        finish = None if download is None else download.arrive
        await rocr.signal_async_handler(there, RunHandler(nbytes, finish, done, target.address))
        self.stream.note(done)

    async def copy_within(self, cause: int, nbytes: int, move: Move | None) -> None:
        """`pushMemoryCopyD2DAsync`."""
        done = HsaSignal(self._sim, "copy within the device", self)
        await self._rocr.memory_async_copy(self.stream, cause, "d2d", nbytes, move, done, self.unfinished)

    def launch(self, cause: int, launch: Launch, run: Move | None, touching: Touching) -> Awaitable[None]:
        """`pushKernelLaunch`."""
        done = HsaSignal(self._sim, launch.kernel.name, self)
        return self._rocr.dispatch(self.stream, cause, launch, run, done, touching)

    async def wait_for(self, cause: int, event: HsaSignal) -> None:
        """Let what is pushed from now on start after the event, too (`waitEvent`)."""
        if not event.is_set and event.stream is not self:
            await self._rocr.barrier(self.stream, cause, event, HsaSignal(self._sim, "barrier", self))


class _Upload:
    """Bytes on their way to the device."""

    __slots__ = ("_source", "_staged", "_target")

    def __init__(self, source: Bytes, target: DeviceBytes) -> None:
        self._source = source
        self._target = target
        self._staged: Bytes | None = None

    def stage(self) -> None:
        self._staged = self._source.copy()

    def arrive(self) -> None:
        assert self._staged is not None
        self._target()[:] = self._staged


class _Download:
    """Bytes on their way from the device."""

    __slots__ = ("_source", "_staged", "_target")

    def __init__(self, target: Bytes, source: DeviceBytes) -> None:
        self._source = source
        self._target = target
        self._staged: Bytes | None = None

    def fetch(self) -> None:
        self._staged = np.array(self._source())

    def arrive(self) -> None:
        if self._staged is not None:  # as it is when a fault has broken the device
            self._target[:] = self._staged
