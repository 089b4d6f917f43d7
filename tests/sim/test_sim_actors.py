"""Actors: spawning, nurseries, identity, contexts, and very many of them."""

import contextvars
import gc
import weakref

import pytest
import structlog

from offloadrt.sim import Lock, Signal, Simulation


def test_children_of_an_actor_await_primitives_and_are_joined(sim):
    lock, log = Lock(sim, "lock"), []

    async def child(i):
        assert sim.current.name == f"child {i}"
        async with lock:
            await sim.sleep(1)
        log.append((i, sim.now))
        return i * i

    async def main():
        async with sim.open_nursery() as nursery:
            children = [nursery.spawn(child, i, name=f"child {i}") for i in range(3)]
            assert sim.current.name == "main"
            await sim.sleep(0.5)
            log.append(("body", sim.now))
        return [actor.value for actor in children]

    assert sim.run(main) == [0, 1, 4]
    assert log == [("body", 0.5), (0, 1.0), (1, 2.0), (2, 3.0)]


def test_grandchildren_and_an_empty_nursery(sim):
    log = []

    async def child(depth):
        async with sim.open_nursery() as nursery:
            if depth:
                nursery.spawn(child, depth - 1)
                nursery.spawn(child, depth - 1)
        await sim.sleep(1)
        log.append((depth, sim.now))

    sim.run(child, 3)
    assert log == [(0, 1.0)] * 8 + [(1, 2.0)] * 4 + [(2, 3.0)] * 2 + [(3, 4.0)]


def test_spawning_from_a_running_actor(sim):
    order = []

    async def tree(depth, path):
        order.append((sim.now, path))
        if depth:
            for branch in "ab":
                sim.spawn(tree, depth - 1, path + branch)
            await sim.sleep(1)
            sim.spawn(tree, 0, path + "c")

    async def main():
        await tree(2, "")

    sim.run(main)
    paths = ["", "a", "b", "aa", "ab", "ba", "bb"]
    assert order == [(0.0, path) for path in paths] + [(1.0, path) for path in ("c", "ac", "bc")]


def test_a_spawned_actor_begins_at_this_instant_after_who_is_ready(sim):
    order = []

    async def note(name):
        order.append((name, sim.now))

    async def waiter(go):
        await go.wait()
        order.append(("waiter", sim.now))

    async def main():
        go = Signal(sim, "go")
        sim.spawn(waiter, go)
        await sim.sleep(1)
        go.set()
        sim.spawn(note, "spawned")
        order.append(("main", sim.now))

    sim.run(main)
    assert order == [("main", 1.0), ("waiter", 1.0), ("spawned", 1.0)]


def test_spawning_into_a_nursery_that_is_closed_is_an_error_and_leaves_nothing(sim):
    async def main():
        async with sim.open_nursery() as nursery:
            pass
        with pytest.raises(RuntimeError, match="closed"):
            nursery.spawn(main)
        await sim.sleep(1)

    sim.run(main)
    assert not sim.actors


def test_actors_have_names_and_indices_in_order_of_spawning(sim):
    async def body():
        pass

    async def main():
        actors = [sim.current, sim.spawn(body), sim.spawn(body, name="host thread 3")]
        return [(actor.index, actor.name, repr(actor)) for actor in actors]

    assert sim.run(main) == [
        (0, "main", "<actor 0 'main'>"),
        (1, "body", "<actor 1 'body'>"),
        (2, "host thread 3", "<actor 2 'host thread 3'>"),
    ]


def test_no_structlog_context_leaks_between_actors(sim):
    seen = {}

    async def host(i):
        await sim.sleep(0.5)
        structlog.contextvars.bind_contextvars(host=i)
        for _ in range(3):
            await sim.sleep(1)
            seen.setdefault(i, []).append(dict(structlog.contextvars.get_contextvars()))

    async def silent():
        for _ in range(4):
            await sim.sleep(1)
            seen.setdefault("silent", []).append(dict(structlog.contextvars.get_contextvars()))

    async def main():
        structlog.contextvars.bind_contextvars(run="this")
        for i in range(3):
            sim.spawn(host, i)
        sim.spawn(silent)
        structlog.contextvars.clear_contextvars()

    sim.run(main)
    assert structlog.contextvars.get_contextvars() == {}
    assert seen == {
        **{i: [{"run": "this", "host": i}] * 3 for i in range(3)},
        "silent": [{"run": "this"}] * 4,
    }


def test_a_context_variable_keeps_its_value_across_attached(sim):
    variable = contextvars.ContextVar("variable", default=0)

    async def host(i):
        variable.set(i)
        await sim.sleep(1)
        async with sim.attached():
            assert variable.get() == i
            variable.set(i + 10)
        await sim.sleep(1)
        assert variable.get() == i + 10

    async def main():
        for i in range(1, 4):
            sim.spawn(host, i)

    sim.run(main)


def test_ten_thousand_actors_run(gear):
    sim, ended = Simulation(gear=gear), []
    lock = Lock(sim, "lock")

    async def host(i):
        await sim.sleep(1 + i % 7)
        async with lock:
            await sim.sleep(1e-3)
        ended.append(i)

    async def main():
        for i in range(10_000):
            sim.spawn(host, i)

    sim.run(main)
    assert sorted(ended) == list(range(10_000))
    assert lock.statistics().acquired == 10_000


def test_thousands_of_sleeping_actors_are_cancelled_in_order(gear):
    sim, ended = Simulation(gear=gear), []

    async def host(i):
        try:
            await sim.sleep(1e3 + i % 7)
        finally:
            ended.append(i)

    async def main():
        async with sim.open_nursery() as nursery:
            for i in range(4_000):
                nursery.spawn(host, i)
            await sim.sleep(1)
            nursery.cancel()

    sim.run(main)
    assert ended == list(range(4_000))


def test_the_generator_of_a_run_depends_on_its_seed_alone():
    assert Simulation(seed=1).rng.random() == Simulation(seed=1, gear="turbo").rng.random()
    assert Simulation(seed=1).rng.random() != Simulation(seed=2).rng.random()


def test_the_task_of_an_ended_actor_is_freed_without_the_garbage_collector(sim):
    tasks = []

    async def child():
        await sim.sleep(1)
        tasks.append(weakref.ref(sim.current.task))

    async def main():
        async with sim.open_nursery() as nursery:
            children = [nursery.spawn(child) for _ in range(3)]
        await sim.sleep(1)
        return children, [task() for task in tasks]

    gc.disable()
    try:
        children, alive = sim.run(main)
    finally:
        gc.enable()
    assert len(children) == 3
    assert alive == [None] * 3
