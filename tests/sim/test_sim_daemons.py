"""Daemons with and without a Trio task: nothing in a run's history tells which they are."""

import pytest
from error_leaves import leaves

from offloadrt.sim import Deadlock, Mailbox, Signal, Simulation


class History:
    """What an observer is told of actors, with times."""

    def __init__(self):
        self.told, self.sim = [], None

    def actor_spawned(self, actor):
        self.told.append((self.sim.now, "spawned", actor.index, actor.name))

    def actor_finished(self, actor):
        self.told.append((self.sim.now, "finished", actor.index, actor.name))

    def lock_waited(self, lock, actor): ...
    def lock_acquired(self, lock, actor): ...
    def lock_released(self, lock, actor): ...


def history(gear, kinds, messages, fails=None):
    """Servers of some kinds, each with a mailbox; of those in `messages` each gets one, one second after the other."""
    observer = History()
    sim = observer.sim = Simulation(gear=gear, observer=observer)

    async def serve(box, number):
        while True:
            message = await box.get()
            observer.told.append((sim.now, "got", number, message))
            if number == fails:
                raise ValueError("it breaks")
            await sim.sleep(10)

    async def main():
        boxes = [Mailbox(sim, f"box {number}") for number in range(len(kinds))]
        for number, (kind, box) in enumerate(zip(kinds, boxes, strict=True)):
            if kind == "service":
                sim.spawn_service(serve, box, number, name=f"server {number}")
            else:
                serves = box if kind == "dormant" else None
                sim.spawn(serve, box, number, name=f"server {number}", daemon=True, serves=serves)
        for number in messages:
            await sim.sleep(1)
            boxes[number].put("hello")
        await sim.sleep(1)

    try:
        sim.run(main)
    except ValueError as error:
        observer.told.append((sim.now, str(error), *error.__notes__))
    return observer.told


PLAIN = ("task",) * 6
MIXED = ("service", "dormant", "task", "dormant", "service", "dormant")


@pytest.mark.parametrize("kinds", [("service",) * 6, ("dormant",) * 6, MIXED])
@pytest.mark.parametrize(("messages", "fails"), [((), None), ((5, 1, 4), None), ((0, 3, 1), 1), ((2, 4, 3), 4)])
@pytest.mark.parametrize("gear", ["native", "turbo"])
def test_daemons_without_a_task_make_the_same_history(gear, kinds, messages, fails):
    assert history(gear, kinds, messages, fails) == history("native", PLAIN, messages, fails)


@pytest.mark.parametrize("kind", ["service", "dormant"])
def test_a_message_that_is_there_first_is_served_first(gear, kind):
    sim = Simulation(gear=gear)
    got = []

    async def serve(box):
        while True:
            got.append(await box.get())

    async def main():
        box = Mailbox(sim, "box")
        if kind == "service":
            sim.spawn_service(serve, box, name="server")
        else:
            sim.spawn(serve, box, daemon=True, serves=box)
        for number in range(3):
            box.put(number)
        await sim.sleep(1)
        box.put(3)
        await sim.sleep(1)

    sim.run(main)
    assert got == [0, 1, 2, 3]


def test_an_actor_that_waits_for_a_service_for_ever_is_a_deadlock(sim):
    async def serve(box):
        await box.get()

    async def main():
        sim.spawn_service(serve, Mailbox(sim, "box"), name="server")
        await Signal(sim, "never").wait()

    with pytest.raises(Deadlock, match="main waits on never"):
        sim.run(main)


def test_daemons_that_never_had_a_turn_end_too(sim):
    async def serve(box):
        await box.get()

    async def main():
        box = Mailbox(sim, "box")
        sim.spawn_service(serve, box, name="server")
        sim.spawn(serve, box, daemon=True, serves=box)

    sim.run(main)
    assert not sim.actors


def test_a_service_may_be_any_callable_object(sim):
    box, got = Mailbox(sim, "box"), []

    class Server:
        async def __call__(self, name):
            while True:
                got.append((name, await box.get(), sim.now))

    async def main():
        sim.spawn_service(Server(), "of it", name="server")
        await sim.sleep(1)
        box.put("letter")
        await sim.sleep(1)

    sim.run(main)
    assert got == [("of it", "letter", 1.0)]


def test_an_error_in_the_clean_up_of_a_service_hides_no_earlier_one(sim):
    box = Mailbox(sim, "box")

    async def first():
        await box.get()
        raise ValueError("first")

    async def second():
        try:
            await Mailbox(sim, "never").get()
        finally:
            raise KeyError("second")

    async def main():
        sim.spawn_service(second, name="second")
        sim.spawn_service(first, name="first")
        await sim.sleep(1)
        box.put("letter")
        await sim.sleep(1)

    with pytest.raises((ValueError, BaseExceptionGroup)) as caught:
        sim.run(main)
    assert any(str(error) == "first" for error in leaves(caught.value))
