"""What must not run for ever does not: spinning actors, and any run on Ctrl-C."""

import gc
import os
import signal
import subprocess
import sys
import time

import pytest
import trio

from offloadrt.sim import Livelock, Lock, Mailbox, RWLock, Semaphore, Signal, Simulation, Station


async def lock_and_unlock(sim):
    lock = Lock(sim, "lock")
    while True:
        await lock.acquire()
        lock.release()


async def async_with(sim):
    lock = Lock(sim, "lock")
    while True:
        async with lock:
            pass


async def read_and_release(sim):
    tables = RWLock(sim, "tables")
    while True:
        await tables.acquire_read()
        tables.release()


async def take_and_give(sim):
    units = Semaphore(sim, 1, "units")
    while True:
        async with units:
            pass


async def put_and_get(sim):
    box = Mailbox(sim, "box")
    while True:
        box.put(1)
        await box.get()


async def look_at_a_signal(sim):
    done = Signal(sim, "done")
    done.set()
    while True:
        await done.wait()


async def sleep_nothing(sim):
    while True:
        await sim.sleep(0)


async def serve_nothing(sim):
    engine = Station(sim, 1, "engine")
    while True:
        await engine.serve(0)


async def time_out_at_once(sim):
    while True:
        with sim.move_on_after(0):
            await Signal(sim, "never").wait()


async def open_nurseries(sim):
    while True:
        async with sim.open_nursery():
            pass


async def checkpoints(sim):
    async with sim.attached():
        while True:
            await trio.lowlevel.checkpoint()


async def two_that_wake_each_other(sim):
    boxes = [Mailbox(sim, "ping"), Mailbox(sim, "pong")]

    async def player(mine, other):
        while True:
            await mine.get()
            other.put("ball")

    sim.spawn(player, *boxes)
    sim.spawn(player, *reversed(boxes))
    boxes[0].put("ball")


SPINNERS = [
    lock_and_unlock,
    async_with,
    read_and_release,
    take_and_give,
    put_and_get,
    look_at_a_signal,
    sleep_nothing,
    serve_nothing,
    time_out_at_once,
    open_nurseries,
    checkpoints,
    two_that_wake_each_other,
]


@pytest.mark.parametrize("spinner", SPINNERS)
def test_who_spins_at_one_instant_is_stopped_as_a_livelock(sim, spinner):
    async def neighbour():
        await sim.sleep(1e9)

    async def main():
        sim.spawn(neighbour, name="neighbour")
        await sim.sleep(1.5)
        await spinner(sim)

    with pytest.raises(Livelock, match=r"t=1\.5: [\d,]+ steps without virtual time advancing(.|\n)*neighbour sleeps"):
        sim.run(main)


def test_many_steps_in_which_time_advances_are_no_livelock(sim):
    async def main():
        lock = Lock(sim, "lock")
        for _ in range(30_000):
            async with lock:
                await sim.sleep(1e-9)

    sim.run(main)
    assert sim.now == pytest.approx(30_000e-9)


def causes(error):
    """The types of an error and of what led to it.

    Ctrl-C may strike between the end of an __aenter__ and the body that it guards (Python's own gap): Trio then
    complains of a nursery that was never closed, because of a KeyboardInterrupt.
    """
    found = []
    while error is not None:
        found.append(type(error))
        error = error.__cause__ or error.__context__
    return found


UNAWAITED = pytest.mark.filterwarnings(
    # Ctrl-C may strike between the call of an __aexit__ and its await: Python's own gap
    "ignore:coroutine .* was never awaited:RuntimeWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)


@pytest.fixture(autouse=True)
def ctrl_c_raises():
    """Also where a shell started these tests in the background, which has them ignore it: nothing would stop a loop."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.fixture
def ctrl_c_after():
    """A function that lets Ctrl-C strike after so many real seconds, and again where Python itself lost the first.

    That is long after it: a busy machine takes more than a second to end some programs, which the second would break.
    """
    previous = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    gc.disable()  # a collection would swallow a Ctrl-C that strikes in a callback of a weak reference
    yield lambda delay: signal.setitimer(signal.ITIMER_REAL, delay, 20.0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    gc.enable()
    signal.signal(signal.SIGALRM, previous)


@UNAWAITED
@pytest.mark.parametrize("delay", [1e-3, 3e-3, 0.01, 0.03])
@pytest.mark.parametrize("spinner", SPINNERS)
def test_ctrl_c_stops_whoever_spins(gear, ctrl_c_after, spinner, delay):
    sim = Simulation(gear=gear, livelock_limit=10**9)

    async def main():
        ctrl_c_after(delay)
        await spinner(sim)

    with pytest.raises(BaseException) as caught:  # noqa: PT011
        sim.run(main)
    ctrl_c_after(0)
    assert KeyboardInterrupt in causes(caught.value)


def test_ctrl_c_stops_busy_actors_whose_time_advances(gear):
    sim, cleaned = Simulation(gear=gear), []

    async def busy(i):
        try:
            while True:
                await sim.sleep(1)
                if i == 3 and sim.now == 1000:
                    signal.raise_signal(signal.SIGINT)
        finally:
            cleaned.append(i)

    async def main():
        for i in range(8):
            sim.spawn(busy, i)

    with pytest.raises(KeyboardInterrupt):
        sim.run(main)
    assert sorted(cleaned) == list(range(8))


def test_ctrl_c_stops_a_pure_python_loop(gear):
    sim, cleaned = Simulation(gear=gear), []

    async def neighbour():
        try:
            await sim.sleep(100)
        finally:
            cleaned.append(sim.now)

    async def main():
        sim.spawn(neighbour)
        await sim.sleep(1)
        signal.raise_signal(signal.SIGINT)
        while True:
            pass

    with pytest.raises(KeyboardInterrupt):
        sim.run(main)
    assert cleaned == [1.0]


LOOPS = """
import sys
from offloadrt.sim import Lock, Simulation

sim = Simulation(gear=sys.argv[1])

async def sleeper():
    while True:
        await sim.sleep(1)

async def python():
    await sim.sleep(1)
    print("running", flush=True)
    while True:
        pass

async def locker(lock):
    print("running", flush=True)
    while True:
        async with lock:
            await sim.sleep(1e-3)

async def main():
    lock = Lock(sim, "lock")
    for _ in range(8):
        sim.spawn(sleeper)
    if sys.argv[2] == "python":
        sim.spawn(python)
    for _ in range(8):
        sim.spawn(locker, lock)

sim.run(main)
"""


@pytest.mark.parametrize("loop", ["python", "primitives"])
def test_ctrl_c_from_the_terminal_stops_a_program(gear, loop):
    with subprocess.Popen(
        [sys.executable, "-c", LOOPS, gear, loop],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "running\n"
            time.sleep(0.1)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=10)
        finally:
            process.kill()
    assert "KeyboardInterrupt" in errors and "Internal" not in errors
    assert process.returncode == -signal.SIGINT


@UNAWAITED
def test_ctrl_c_at_any_instruction_leaves_no_internal_error(gear, ctrl_c_after):
    """It strikes wherever it happens to: in the scheduler, in a primitive, in the actors' own code."""
    ended = []

    async def host(sim, lock, box):
        while True:
            async with lock:
                await sim.sleep(0.5)
            box.put(sim.now)
            with sim.move_on_after(0.25):
                await box.get()
                await box.get()

    async def main(sim, delay):
        lock, box = Lock(sim, "lock"), Mailbox(sim, "box")
        for _ in range(4):
            sim.spawn(host, sim, lock, box)
        ctrl_c_after(delay)

    gc.collect()
    gc.freeze()  # what other tests left behind is not looked through each time
    for i in range(40):
        gc.collect()  # it would swallow a Ctrl-C that strikes in a callback of a weak reference
        sim = Simulation(gear=gear)
        try:
            sim.run(main, sim, 1e-3 + i * 37e-6)
        except BaseException as error:
            ended.append(type(error).__name__)
    gc.unfreeze()
    assert ended == ["KeyboardInterrupt"] * 40
