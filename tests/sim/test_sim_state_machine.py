"""Random use of every primitive, with cancellation: against a reference model, and gear against gear."""

import queue
import threading
from collections import deque

import pytest
import trio
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from offloadrt.sim import TIMED_OUT, Lock, Mailbox, Random, RWLock, Semaphore, Signal, Simulation, Station

WORKERS = 4
UNITS = 2
QUIET = settings(
    derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck), print_blob=False
)


class Reference:
    """What FIFO primitives must do, one atomic operation after the other."""

    def __init__(self):
        self.lock = None
        self.writer, self.readers = None, set()
        self.free, self.units = UNITS, [0] * WORKERS
        self.items = deque()
        self.queues = {name: deque() for name in ("lock", "tables", "units", "box", "signal")}
        self.signal = False
        self.waits = [None] * WORKERS
        self.outcomes = []

    def begin(self, worker, operation):
        where = {"read": "tables", "write": "tables"}.get(operation, operation)
        self.waits[worker] = operation
        self.queues[where].append(worker)
        self.grant(where)

    def grant(self, where):
        """Serve the head of a queue as long as that is possible."""
        waiting = self.queues[where]
        while waiting and (result := self.served(waiting[0])) is not None:
            worker = waiting.popleft()
            self.outcomes.append((worker, self.waits[worker], result))
            self.waits[worker] = None

    def served(self, worker):
        operation = self.waits[worker]
        if operation == "lock" and self.lock is None:
            self.lock = worker
        elif operation == "write" and self.writer is None and not self.readers:
            self.writer = worker
        elif operation == "read" and self.writer is None:
            self.readers.add(worker)
        elif operation == "units" and self.free:
            self.free -= 1
            self.units[worker] += 1
        elif operation == "box" and self.items:
            return self.items.popleft()
        elif operation == "signal" and self.signal:
            pass
        else:
            return None
        return "done"

    def act(self, worker, action):
        """What a worker does without waiting; nothing if it may not."""
        match action:
            case "release", "lock" if self.lock == worker:
                self.lock = None
                self.grant("lock")
            case "release", "tables" if self.writer == worker or worker in self.readers:
                self.writer = None if self.writer == worker else self.writer
                self.readers.discard(worker)
                self.grant("tables")
            case "downgrade", _ if self.writer == worker:
                self.writer = None
                self.readers.add(worker)
                self.grant("tables")
            case "release", "units" if self.units[worker]:
                self.units[worker] -= 1
                self.free += 1
                self.grant("units")
            case "put", item:
                self.items.append(item)
                self.grant("box")
            case "set", _ if not self.signal:
                self.signal = True
                self.grant("signal")
            case "cancel", victim if victim != worker:
                self.give_up(victim, "cancelled")

    def give_up(self, worker, why):
        if (operation := self.waits[worker]) is None:
            return
        where = {"read": "tables", "write": "tables"}.get(operation, operation)
        self.queues[where].remove(worker)
        self.waits[worker] = None
        self.outcomes.append((worker, operation, why))
        self.grant(where)


class Emulated:
    """The same primitives in a run that goes on in a thread and takes one command at a time."""

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
        answer = self.answers.get(timeout=20)
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
        assert list(reference.queues["tables"]) == [names[actor] for actor, _ in tables.waiters]
        assert list(reference.queues["units"]) == [names[actor] for actor in units.waiters]
        assert list(reference.queues["box"]) == [names[actor] for actor in box.getters]
        assert list(reference.queues["signal"]) == [names[actor] for actor in emulated.signal.waiters]

    def teardown(self):
        self.emulated.commands.put(None)
        answer = self.emulated.answers.get(timeout=20)
        self.emulated.thread.join()
        assert answer == "ended"


def test_primitives_agree_with_the_reference_model(gear):
    machine = type("Primitives", (Primitives,), {"gear": gear})
    run_state_machine_as_test(machine, settings=settings(QUIET, max_examples=60, stateful_step_count=40))


WHAT = [
    *("sleep", "lock", "barging", "read", "write", "units", "serve", "put", "get", "get_until", "call", "wait", "set"),
    *("cancel", "raw", "children", "spin"),
]
steps = st.lists(
    st.tuples(
        st.sampled_from(WHAT),
        st.sampled_from([0.0, 0.5, 1.0]),
        st.sampled_from([None, None, 0.0, 0.5, 1.0]),
    ),
    max_size=8,
)


def history(programs, gear, **options):
    """Run one program an actor; durations are so few that most events are exact ties."""
    sim, log = Simulation(gear=gear, **options), []
    lock, barging = Lock(sim, "lock"), Lock(sim, "barging", handoff="barging")
    tables, units, engine = RWLock(sim, "tables"), Semaphore(sim, 1, "units"), Station(sim, 1, "engine")
    box, asked, signals = Mailbox(sim, "box"), Mailbox(sim, "asked"), [Signal(sim, f"signal {i}") for i in range(9)]
    nurseries = {}

    async def step(me, k, what, dt):
        match what:
            case "sleep":
                await sim.sleep(dt)
            case "lock" | "barging":
                async with lock if what == "lock" else barging:
                    await sim.sleep(dt)
            case "read" | "write":
                await (tables.acquire_read() if what == "read" else tables.acquire_write())
                try:
                    await sim.sleep(dt)
                    if what == "write" and dt:
                        tables.downgrade()
                        await sim.sleep(dt)
                finally:
                    tables.release()
            case "units":
                async with units:
                    await sim.sleep(dt)
            case "serve":
                await engine.serve(dt)
            case "put":
                box.put((me, k))
            case "get":
                log.append((sim.now, me, await box.get()))
            case "get_until":
                got = await box.get_until(sim.now + dt)
                log.append((sim.now, me, "nothing" if got is TIMED_OUT else got))
            case "call":
                log.append((sim.now, me, await asked.call((me, dt))))
            case "wait":
                await signals[me].wait()
            case "set":
                if not signals[k].is_set:
                    signals[k].set()
            case "cancel":
                if (me + 1 + k) % len(programs) in nurseries:
                    nurseries[(me + 1 + k) % len(programs)].cancel()
            case "raw":
                async with sim.attached():
                    await trio.sleep(dt + (1 + me) / 64 + k / 1024)
                    await sim.sleep(dt)
            case "children":
                async with sim.open_nursery() as nursery:
                    nursery.spawn(step, me, k, "lock", dt)
                    nursery.spawn(step, me, k, "units", dt)
            case "spin":
                for _ in range(5):
                    async with lock:
                        pass

    async def body(me, program):
        async with sim.open_nursery() as nursery:
            nurseries[me] = nursery
            for k, (what, dt, timeout) in enumerate(program):
                try:
                    with sim.move_on_after(1e9 if timeout is None else timeout) as scope:
                        await step(me, k, what, dt)
                    log.append((sim.now, me, k, what, scope.timed_out))
                except trio.Cancelled:
                    log.append((sim.now, me, k, what, "cancelled"))
                    raise
        del nurseries[me]
        log.append((sim.now, me, "ends"))

    async def server():
        while True:
            call = await asked.get()
            await sim.sleep(call.message[1])
            log.append((sim.now, "replies", call.message, call.reply(sim.now)))

    async def main():
        sim.spawn(server, daemon=True)
        with sim.move_on_after(40):
            async with sim.open_nursery() as nursery:
                for me, program in enumerate(programs):
                    nursery.spawn(body, me, program)
        statistics = [p.statistics() for p in (lock, barging, tables, units, engine, box)]
        assert all(s.tasks_waiting == 0 for s in statistics)
        assert lock.owner is barging.owner is tables.writer is None and not tables.readers
        assert units.value == 1 and engine.statistics().in_service == 0
        log.append(repr(statistics))

    sim.run(main)
    return log


@given(st.lists(steps, min_size=1, max_size=6))
@settings(QUIET, max_examples=150)
def test_random_programs_have_one_history_in_both_gears(programs):
    expected = history(programs, "native")
    assert history(programs, "turbo") == expected
    assert history(programs, "turbo", slice=1) == expected
    assert history(programs, "turbo", slice=3) == expected


@given(st.lists(steps, min_size=1, max_size=6), st.integers(0, 99))
@settings(QUIET, max_examples=50)
def test_random_programs_in_a_random_order_have_one_history_a_seed(programs, seed):
    expected = history(programs, "native", strategy=Random(seed))
    assert history(programs, "turbo", strategy=Random(seed)) == expected
    assert history(programs, "turbo", strategy=Random(seed), slice=2) == expected


@pytest.mark.parametrize(
    ("primitive", "method"), [(Semaphore, "release"), (Lock, "forget"), (RWLock, "_grant"), (Mailbox, "forget")]
)
def test_the_reference_model_notices_a_fault(monkeypatch, primitive, method):
    """The machine is not blind: a primitive that forgets something is found."""
    monkeypatch.setattr(primitive, method, lambda self, *_: None)
    machine = type("Primitives", (Primitives,), {"gear": "native"})
    unshrunk = settings(QUIET, max_examples=60, stateful_step_count=40, phases=[Phase.generate])
    with pytest.raises((AssertionError, BaseExceptionGroup)):
        run_state_machine_as_test(machine, settings=unshrunk)
