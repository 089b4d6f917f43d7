"""Accounting for the calls of a driver library: each is counted and traced under its real name.

Both libraries (``cuda``, ``rocr``) account for their calls here, so that statistics and traces mean the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

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
        return DriverCall(self, self.names.get(api, api), queue, cause, nbytes)


class DriverCall:
    """One call of a driver library in progress."""

    __slots__ = ("_accounts", "_begin", "_nbytes", "api", "cause", "queue")

    def __init__(self, accounts: CallAccounts, api: str, queue: int, cause: int, nbytes: int) -> None:
        self._accounts = accounts
        self._nbytes = nbytes
        self._begin = accounts.sim.now
        self.api = api
        """The call's name in this library."""
        self.queue = queue
        self.cause = cause

    def __enter__(self) -> DriverCall:
        accounts = self._accounts
        if accounts.trace is not None:
            accounts.trace(events.CallBegin, accounts.device, self.queue, self.cause, self.api)
        if (failing := accounts.failing) is not None:
            error = failing.begin(self.api, self._nbytes, accounts.sim.current.name, accounts.sim.now)
            if error is not None:
                self.__exit__(DriverError, error, None)
                raise error
        return self

    def takes(self, **arguments: int | str) -> None:
        """Tell a picture of the run what the call was given: `bytes`, and the `address` on the device."""
        trace = self._accounts.trace
        if trace is not None and trace.handovers is not None:
            trace.handovers.called_with(self._accounts.sim.current, arguments)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        accounts, failed = self._accounts, None
        if error is None and accounts.failing is not None:
            error = failed = accounts.failing.end(self.api)
        if accounts.counts is not None:
            accounts.counts.add(self.api, accounts.sim.now - self._begin)
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
