"""Four queueing models, the same for every engine: what threads of an offloading program do to virtual time.

==  ===========================================================================  =====================
M1  N threads and one FIFO lock                                                  4 events an iteration
M2  N clients call one server through its mailbox                                4
M3  N threads, N queue actors, a copy engine of 2 and a compute unit of 4        7
M4  N threads that only sleep                                                    1
==  ===========================================================================  =====================

``run_simpy``, ``run_trio`` (plain Trio with its MockClock), ``run_native`` and ``run_turbo`` take (model, threads,
iterations) and return the virtual time of the end, which is the same for all.  ``SimGrid`` runs them in C++.
"""

from __future__ import annotations

import functools
import math
import random
import shutil
import subprocess
from array import array
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import simpy
import trio
from trio.testing import MockClock

from offloadrt.sim import Gear, Lock, Mailbox, Semaphore, Signal, Simulation

EVENTS = {"M1": 4, "M2": 4, "M3": 7, "M4": 1}
"""Events of one iteration of one thread."""

Delays = tuple[float, ...]


@functools.cache
def delays(count: int, seed: int, scale: float = 1.0) -> Delays:
    """``count`` virtual durations in seconds, the same ones for every engine."""
    source = random.Random(seed)
    return tuple(source.random() * scale + 1e-3 for _ in range(count))


class Toolkit:
    """What a model is built from: one engine's sleep, lock, semaphore, mailbox, completion and spawn."""

    def __init__(
        self, sleep: Any, lock: Any, semaphore: Any, mailbox: Any, completion: Any, spawn: Callable[..., Any]
    ) -> None:
        self.sleep = sleep
        self.lock = lock
        self.semaphore = semaphore
        self.mailbox = mailbox
        self.completion = completion
        self.spawn = spawn


def build(model: str, threads: int, iterations: int, kit: Toolkit) -> None:
    """Start the actors of a model; the same code on plain Trio, in the native and in the turbo gear."""
    sleep, completion = kit.sleep, kit.completion

    async def lock_user(lock: Any, before: Delays, inside: Delays, after: Delays) -> None:
        for i in range(iterations):
            await sleep(before[i])
            await lock.acquire()
            await sleep(inside[i])
            lock.release()
            await sleep(after[i])

    async def server(box: Any, service: Delays) -> None:
        for dt in service:
            done = await box.get()
            await sleep(dt)
            done.set()

    async def client(box: Any, think: Delays) -> None:
        for dt in think:
            await sleep(dt)
            done = completion()
            box.put(done)
            await done.wait()

    async def queue(box: Any, copy: Any, compute: Any, copies: Delays, kernels: Delays) -> None:
        for i in range(iterations):
            done = await box.get()
            await copy.acquire()
            await sleep(copies[i])
            copy.release()
            await compute.acquire()
            await sleep(kernels[i])
            compute.release()
            done.set()

    async def sleeper(pauses: Delays) -> None:
        for dt in pauses:
            await sleep(dt)

    if model == "M1":
        lock = kit.lock()
        for i in range(threads):
            before, after = delays(iterations, 3 * i), delays(iterations, 3 * i + 2)
            kit.spawn(lock_user, lock, before, delays(iterations, 3 * i + 1, 1 / threads), after)
    elif model == "M2":
        box = kit.mailbox()
        kit.spawn(server, box, delays(threads * iterations, 999, 1 / threads))
        for i in range(threads):
            kit.spawn(client, box, delays(iterations, i))
    elif model == "M3":
        copy, compute = kit.semaphore(2), kit.semaphore(4)
        for i in range(threads):
            box = kit.mailbox()
            kit.spawn(queue, box, copy, compute, delays(iterations, 3 * i), delays(iterations, 3 * i + 1, 2.0))
            kit.spawn(client, box, delays(iterations, 3 * i + 2, 0.3))
    else:
        for i in range(threads):
            kit.spawn(sleeper, delays(iterations, i))


def run_offloadrt(gear: Gear, model: str, threads: int, iterations: int) -> float:
    sim = Simulation(gear=gear)

    async def main() -> None:
        build(
            model,
            threads,
            iterations,
            Toolkit(
                sim.sleep,
                functools.partial(Lock, sim, "lock"),
                lambda units: Semaphore(sim, units, "units"),
                functools.partial(Mailbox, sim, "box"),
                functools.partial(Signal, sim),
                sim.spawn,
            ),
        )

    sim.run(main)
    return sim.now


run_native = functools.partial(run_offloadrt, "native")
run_turbo = functools.partial(run_offloadrt, "turbo")


class TrioMailbox:
    def __init__(self) -> None:
        sender, receiver = trio.open_memory_channel[Any](math.inf)
        self.put, self.get = sender.send_nowait, receiver.receive


def run_trio(model: str, threads: int, iterations: int) -> float:
    async def main() -> float:
        start = trio.current_time()
        async with trio.open_nursery() as nursery:
            kit = Toolkit(trio.sleep, trio.Lock, trio.Semaphore, TrioMailbox, trio.Event, nursery.start_soon)
            build(model, threads, iterations, kit)
        return trio.current_time() - start

    return trio.run(main, clock=MockClock(autojump_threshold=0))


def run_simpy(model: str, threads: int, iterations: int) -> float:
    env = simpy.Environment()
    timeout = env.timeout
    Process = Generator[Any, Any, None]

    def lock_user(lock: Any, before: Delays, inside: Delays, after: Delays) -> Process:
        for i in range(iterations):
            yield timeout(before[i])
            request = lock.request()
            yield request
            yield timeout(inside[i])
            lock.release(request)
            yield timeout(after[i])

    def server(box: Any, service: Delays) -> Process:
        for dt in service:
            done = yield box.get()
            yield timeout(dt)
            done.succeed()

    def client(box: Any, think: Delays) -> Process:
        for dt in think:
            yield timeout(dt)
            done = env.event()
            box.put(done)
            yield done

    def queue(box: Any, copy: Any, compute: Any, copies: Delays, kernels: Delays) -> Process:
        for i in range(iterations):
            done = yield box.get()
            request = copy.request()
            yield request
            yield timeout(copies[i])
            copy.release(request)
            request = compute.request()
            yield request
            yield timeout(kernels[i])
            compute.release(request)
            done.succeed()

    def sleeper(pauses: Delays) -> Process:
        for dt in pauses:
            yield timeout(dt)

    if model == "M1":
        lock = simpy.Resource(env, 1)
        for i in range(threads):
            before, after = delays(iterations, 3 * i), delays(iterations, 3 * i + 2)
            env.process(lock_user(lock, before, delays(iterations, 3 * i + 1, 1 / threads), after))
    elif model == "M2":
        box = simpy.Store(env)
        env.process(server(box, delays(threads * iterations, 999, 1 / threads)))
        for i in range(threads):
            env.process(client(box, delays(iterations, i)))
    elif model == "M3":
        copy, compute = simpy.Resource(env, 2), simpy.Resource(env, 4)
        for i in range(threads):
            box = simpy.Store(env)
            env.process(queue(box, copy, compute, delays(iterations, 3 * i), delays(iterations, 3 * i + 1, 2.0)))
            env.process(client(box, delays(iterations, 3 * i + 2, 0.3)))
    else:
        for i in range(threads):
            env.process(sleeper(delays(iterations, i)))
    env.run()
    return float(env.now)


class SimGrid:
    """The models in SimGrid's S4U (``simgrid.cpp``), built into a folder.

    Raises OSError with the reason where it cannot be built.
    """

    def __init__(self, folder: Path) -> None:
        if (compiler := shutil.which("g++")) is None:
            raise OSError("there is no g++")
        self._program = folder / "simgrid"
        source = Path(__file__).with_name("simgrid.cpp")
        command = [compiler, "-O2", "-std=c++17", str(source), "-o", str(self._program), "-lsimgrid"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise OSError(f"simgrid.cpp cannot be built (libsimgrid-dev?): {done.stderr.strip().splitlines()[0]}")

    def run(self, model: str, threads: int, iterations: int) -> tuple[float, float]:
        """Return the processor seconds of a run, and the virtual time of its end."""
        durations = array("d")

        def spawn(_: Any, *given: Any) -> None:
            durations.extend(seconds for each in given if isinstance(each, tuple) for seconds in each)

        build(model, threads, iterations, Toolkit(None, object, lambda _: object(), object, object, spawn))
        command = [str(self._program), model, str(threads), str(iterations), "--log=root.thres:error"]
        done = subprocess.run(command, input=durations.tobytes(), check=True, capture_output=True)
        seconds, end = map(float, done.stdout.split())
        return seconds, end
