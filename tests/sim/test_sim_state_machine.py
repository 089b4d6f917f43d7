"""Random use of every primitive, with cancellation: against a reference model."""

import queue
import threading

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from reference_model import QUIET, UNITS, WORKERS, Reference

from offloadrt.sim import Lock, Mailbox, RWLock, Semaphore, Signal, Simulation


class Emulated:
    """The same primitives in a run that goes on in a thread and takes one command at a time."""

    patience_s = 20.0
    """How long an answer may take on a machine with much else to do; a run that waits for ever gives none."""

    def __init__(self, gear):
        self.sim = Simulation(gear=gear)
        self.commands, self.answers = queue.SimpleQueue(), queue.SimpleQueue()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            self.sim.run(self.main)
            self.answers.put("ended")
        except BaseException as error:
            self.answers.put(error)

    def ask(self, command):
        self.commands.put(command)
        answer = self.answers.get(timeout=self.patience_s)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def main(self):
        sim = self.sim
        self.lock, self.tables, self.units = Lock(sim, "lock"), RWLock(sim, "tables"), Semaphore(sim, UNITS, "units")
        self.box, self.signal = Mailbox(sim, "box"), Signal(sim, "signal")
        self.inboxes = [Mailbox(sim, f"inbox {i}") for i in range(WORKERS)]
        self.nurseries = [None] * WORKERS
        self.held = [0] * WORKERS
        self.outcomes = []
        self.actors = [sim.spawn(self.worker, i, daemon=True) for i in range(WORKERS)]
        while (command := self.commands.get()) is not None:
            match command:
                case "cancel", victim:
                    if (nursery := self.nurseries[victim]) is not None:
                        nursery.cancel()
                case worker, *todo:
                    self.inboxes[worker].put(todo)
            await sim.sleep(1)
            self.answers.put(self.outcomes[:])

    async def worker(self, me):
        while True:
            actions, operation, timeout = await self.inboxes[me].get()
            result = "cancelled"
            async with self.sim.open_nursery() as nursery:
                for action in actions:
                    self.act(me, action)
                if operation is not None:
                    self.nurseries[me] = nursery
                    with self.sim.move_on_after(timeout) as scope:
                        result = await self.wait(me, operation)
                    result = "timed out" if scope.timed_out else result
            self.nurseries[me] = None
            if operation is not None:
                self.outcomes.append((me, operation, result))

    async def wait(self, me, operation):
        match operation:
            case "lock":
                await self.lock.acquire()
            case "read":
                await self.tables.acquire_read()
            case "write":
                await self.tables.acquire_write()
            case "units":
                await self.units.acquire()
                self.held[me] += 1
            case "box":
                return await self.box.get()
            case "signal":
                await self.signal.wait()
        return "done"

    def act(self, me, action):
        actor = self.actors[me]
        match action:
            case "release", "lock" if self.lock.owner is actor:
                self.lock.release()
            case "release", "tables" if self.tables.writer is actor or actor in self.tables.readers:
                self.tables.release()
            case "downgrade", _ if self.tables.writer is actor:
                self.tables.downgrade()
            case "release", "units" if self.held[me]:
                self.held[me] -= 1
                self.units.release()
            case "put", item:
                self.box.put(item)
            case "set", _ if not self.signal.is_set:
                self.signal.set()
            case "cancel", victim if victim != me and self.nurseries[victim] is not None:
                self.nurseries[victim].cancel()


workers = st.integers(0, WORKERS - 1)
actions = st.one_of(
    st.tuples(st.just("release"), st.sampled_from(["lock", "tables", "units"])),
    st.tuples(st.just("downgrade"), st.none()),
    st.tuples(st.just("put"), st.integers(0, 99)),
    st.tuples(st.just("cancel"), workers),
    st.tuples(st.just("set"), st.none()),
)
operations = st.sampled_from([None, "lock", "read", "write", "units", "box", "signal"])
timeouts = st.sampled_from([1e9, 1e9, 0.5, 1.5, 2.5])


class Primitives(RuleBasedStateMachine):
    gear = "native"

    def __init__(self):
        super().__init__()
        self.reference = Reference()
        self.emulated = Emulated(self.gear)
        self.alarms = []
        self.now = 0.0

    @precondition(lambda self: None in self.reference.waits)
    @rule(data=st.data(), todo=st.lists(actions, max_size=4), timeout=timeouts)
    def command(self, data, todo, timeout):
        """One idle worker acts without waiting, up to four times, and then perhaps waits for something."""
        reference = self.reference
        worker = data.draw(st.sampled_from([w for w in range(WORKERS) if reference.waits[w] is None]))
        operation = data.draw(operations)
        for action in todo:
            reference.act(worker, action)
        mine = {"lock": reference.lock == worker, "read": worker in reference.readers or reference.writer == worker}
        if mine.get("read" if operation == "write" else operation):
            operation = None
        if operation is not None:
            reference.begin(worker, operation)
            if reference.waits[worker] is not None:
                self.alarms.append((self.now + timeout, worker, len(reference.outcomes)))
        self.compare((worker, todo, operation, timeout))

    @rule(victim=workers)
    def cancel_from_outside(self, victim):
        self.reference.give_up(victim, "cancelled")
        self.compare(("cancel", victim))

    def compare(self, command):
        outcomes = self.emulated.ask(command)
        self.pass_time()
        assert sorted(map(str, outcomes)) == sorted(map(str, self.reference.outcomes))

    def pass_time(self):
        self.now += 1
        for alarm in sorted(self.alarms, key=lambda alarm: alarm[0]):  # at one instant, in the order they were set
            at, worker, begun = alarm
            if any(outcome[0] == worker for outcome in self.reference.outcomes[begun:]):
                self.alarms.remove(alarm)
            elif at < self.now:
                self.alarms.remove(alarm)
                self.reference.give_up(worker, "timed out")

    @invariant()
    def nobody_waits_for_what_is_free(self):
        reference, emulated = self.reference, self.emulated
        if not hasattr(emulated, "actors"):
            return
        names = {actor: i for i, actor in enumerate(emulated.actors)}
        lock, tables, units, box = emulated.lock, emulated.tables, emulated.units, emulated.box
        assert reference.lock == (None if lock.owner is None else names[lock.owner])
        assert reference.writer == (None if tables.writer is None else names[tables.writer])
        assert reference.readers == {names[actor] for actor in tables.readers}
        assert (reference.free, reference.units) == (units.value, emulated.held)
        assert list(reference.items) == list(box.items)
        assert list(reference.queues["lock"]) == [names[actor] for actor in lock.waiters]
        assert list(reference.queues["tables"]) == [names[actor] for actor in tables.waiters]
        assert list(reference.queues["units"]) == [names[actor] for actor in units.waiters]
        assert list(reference.queues["box"]) == [names[actor] for actor in box.getters]
        assert list(reference.queues["signal"]) == [names[actor] for actor in emulated.signal.waiters]

    def teardown(self):
        self.emulated.commands.put(None)
        answer = self.emulated.answers.get(timeout=self.emulated.patience_s)
        self.emulated.thread.join()
        assert answer == "ended"


def test_primitives_agree_with_the_reference_model(gear):
    machine = type("Primitives", (Primitives,), {"gear": gear})
    run_state_machine_as_test(machine, settings=settings(QUIET, max_examples=60, stateful_step_count=40))


@pytest.mark.parametrize(
    ("primitive", "method"), [(Semaphore, "release"), (Lock, "forget"), (RWLock, "_grant"), (Mailbox, "forget")]
)
def test_the_reference_model_notices_a_fault(monkeypatch, primitive, method):
    """The machine is not blind: a primitive that forgets something is found."""
    monkeypatch.setattr(primitive, method, lambda self, *_: True)
    monkeypatch.setattr(Emulated, "patience_s", 1.0)  # that none comes is a fault noticed, too
    machine = type("Primitives", (Primitives,), {"gear": "native"})
    unshrunk = settings(QUIET, max_examples=200, stateful_step_count=40, phases=[Phase.generate])
    with pytest.raises((AssertionError, BaseExceptionGroup, queue.Empty)):  # Empty: it waits for ever
        run_state_machine_as_test(machine, settings=unshrunk)
