"""Accounting for the calls of a driver library: each is counted and traced under its real name.

Both libraries (``cuda``, ``rocr``) account for their calls here, so that statistics and traces mean the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

import msgspec

from offloadrt.driver.errors import DriverError
from offloadrt.driver.failing import FailingCalls
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
        self.failing: FailingCalls | None = None
        """Lets calls fail; None in a run without faults."""
        if machine.injector is not None:
            self.failing = FailingCalls(machine.injector, device.index, machine.spec.text("driver.api"))

    def call(self, api: str, queue: int = -1, cause: int | None = None, nbytes: int = 0) -> DriverCall:
        """Account for one call from entry to return: ``with accounts.call("cuMemAlloc") as call``.

        ``cause`` is the directive that asks for it; None: that of the running actor.  ``nbytes``: of an allocation of
        device memory, what it asks for.
        """
        if cause is None:
            cause = (self.sim.running or self.sim.current).cause
        return DriverCall(self, self.names.get(api, api), queue, cause, nbytes, self.sim.now)


class DriverCall(msgspec.Struct, eq=False):
    """One call of a driver library in progress."""

    accounts: CallAccounts
    api: str
    """The call's name in this library."""
    queue: int
    cause: int
    nbytes: int
    begin: float

    def __enter__(self) -> DriverCall:
        accounts = self.accounts
        if accounts.trace is not None:
            accounts.trace(events.CallBegin, accounts.device, self.queue, self.cause, self.api)
        if (failing := accounts.failing) is not None:
            error = failing.begin(self.api, self.nbytes, accounts.sim.current.name, accounts.sim.now)
            if error is not None:
                self.__exit__(DriverError, error, None)
                raise error
        return self

    def takes(self, **arguments: int | str) -> None:
        """Tell a picture of the run what the call was given: `bytes`, and the `address` on the device."""
        trace = self.accounts.trace
        if trace is not None and trace.causal_log is not None:
            trace.causal_log.called_with(self.accounts.sim.current, arguments)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        accounts, failed = self.accounts, None
        if error is None and accounts.failing is not None:
            error = failed = accounts.failing.end(self.api)
        if accounts.counts is not None:
            accounts.counts.add(self.api, accounts.sim.now - self.begin)
        if isinstance(error, DriverError):
            error.rename(accounts.names)
            if not error.where:
                error.locate(accounts.sim.current.name, accounts.sim.now, accounts.device)
        if accounts.trace is not None:
            if isinstance(error, DriverError):
                accounts.trace(events.RuntimeError_, accounts.device, self.queue, self.cause, self.api, str(error))
            accounts.trace(events.CallEnd, accounts.device, self.queue, self.cause, self.api)
        if failed is not None:
            raise failed
