"""Accounting for the calls of a driver library: each is counted and traced under its real name.

Both libraries (``cuda``, ``rocr``) account for their calls here, so that statistics and traces mean the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import TracebackType

from offloadrt.driver.errors import DriverError
from offloadrt.machine import Device, Machine
from offloadrt.trace import events


class CallAccounts:
    """The calls on one device; ``names`` translates CUDA's names of calls and codes into those of another library."""

    def __init__(self, machine: Machine, device: Device, names: Mapping[str, str]) -> None:
        self.sim = machine.sim
        self.device = device.index
        self.names = names
        self.trace = machine.trace
        self.counts = machine.calls

        self.call: Callable[..., DriverCall] = functools.partial(DriverCall, self)
        """Accounts for one call from entry to return: ``with accounts.call("cuMemAlloc") as call``.

        The other arguments are those of `DriverCall`.
        """


class DriverCall:
    """One call of a driver library in progress; ``cause`` is the directive that asks for it.

    queue: the number of the queue that it is about, if it is about one. cause: None for that of the running actor.
    """

    __slots__ = ("_accounts", "_begin", "api", "cause", "queue")

    def __init__(self, accounts: CallAccounts, api: str, queue: int = -1, cause: int | None = None) -> None:
        sim = accounts.sim
        self._accounts = accounts
        self._begin = sim.now
        self.api = accounts.names.get(api, api)
        """The call's name in this library."""
        self.queue = queue
        self.cause: int = (sim.running or sim.current).cause if cause is None else cause

    def __enter__(self) -> DriverCall:
        accounts = self._accounts
        if accounts.trace is not None:
            accounts.trace(events.CallBegin, accounts.device, self.queue, self.cause, self.api)
        return self

    def takes(self, **arguments: int | str) -> None:
        """Tell a picture of the run what the call was given: `bytes`, and the `address` on the device."""
        trace = self._accounts.trace
        if trace is not None and trace.handovers is not None:
            trace.handovers.called_with(self._accounts.sim.current, arguments)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        accounts = self._accounts
        if accounts.counts is not None:
            accounts.counts.add(self.api, accounts.sim.now - self._begin)
        if error is not None and isinstance(error, DriverError):
            error.rename(accounts.names)
            if not error.where:
                error.locate(accounts.sim.current.name, accounts.sim.now, accounts.device)
        if accounts.trace is not None:
            if isinstance(error, DriverError):
                accounts.trace(events.RuntimeError_, accounts.device, self.queue, self.cause, self.api, str(error))
            accounts.trace(events.CallEnd, accounts.device, self.queue, self.cause, self.api)
