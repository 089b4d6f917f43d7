"""Mailbox: who gets which message, with and without a time limit, and calls that wait for a reply."""

import trio
from acting import run_all

from offloadrt.sim import (
    TIMED_OUT,
    Mailbox,
    MailboxStatistics,
)


def test_mailbox_keeps_order_and_serves_the_longest_waiting(sim):
    box, log = Mailbox(sim, "box"), []

    def getter():
        async def body():
            log.append((sim.current.name, await box.get(), sim.now))

        return body

    async def putter():
        await sim.sleep(1)
        for item in "xyz":
            box.put(item)
        await sim.sleep(1)
        log.append(("putter", await box.get()))

    run_all(sim, getter(), getter(), putter)
    assert log == [("host 0", "x", 1.0), ("host 1", "y", 1.0), ("putter", "z")]
    assert box.statistics() == MailboxStatistics(3, 3, 0, 0)


def test_get_until_returns_an_item_or_timed_out(sim):
    box, log = Mailbox(sim, "box"), []

    async def getter():
        log.extend([(await box.get_until(until), sim.now) for until in (1, 1, 0.5, 3, 9)])

    async def putter():
        await sim.sleep(2)
        box.put("item")

    run_all(sim, getter, putter)
    assert log == [(TIMED_OUT, 1.0), (TIMED_OUT, 1.0), (TIMED_OUT, 1.0), ("item", 2.0), (TIMED_OUT, 9.0)]
    assert repr(TIMED_OUT) == "TIMED_OUT"


def test_get_until_takes_what_is_there_even_when_its_time_has_passed(sim):
    async def body():
        box = Mailbox(sim, "box")
        box.put("item")
        await sim.sleep(5)
        assert await box.get_until(1) == "item"
        assert sim.now == 5.0

    run_all(sim, body)


def test_an_item_that_comes_at_the_very_instant_is_got_once(sim):
    box, got = Mailbox(sim, "box"), []

    async def getter():
        got.append(await box.get_until(1))
        got.append(await box.get_until(2))

    async def putter():
        await sim.sleep(1)
        box.put("item")

    run_all(sim, putter, getter)
    assert got == ["item", TIMED_OUT]


def test_an_alarm_of_an_earlier_get_until_is_gone(sim):
    async def main():
        box = Mailbox(sim, "box")
        box.put("item")
        assert await box.get_until(1) == "item"
        sim.spawn(put_later, box)
        return await box.get(), sim.now

    async def put_later(box):
        await sim.sleep(3)
        box.put("late")

    assert sim.run(main) == ("late", 3.0)


def test_call_waits_for_the_reply(sim):
    box, log = Mailbox(sim, "box"), []

    async def server():
        for _ in range(2):
            call = await box.get()
            log.append((call.caller.name, call.message))
            await sim.sleep(1)
            assert call.reply(call.message * 2) is True
            assert call.reply("again") is False

    async def client():
        log.append((await box.call(sim.current.index), sim.now))

    run_all(sim, server, client, client)
    assert log == [("host 1", 2), ("host 2", 3), (4, 1.0), (6, 2.0)]


def test_a_caller_that_has_gone_gets_no_reply_and_what_it_waits_for_next_is_not_disturbed(sim):
    box, log = Mailbox(sim, "box"), []

    async def server():
        call = await box.get()
        await sim.sleep(2)
        log.append(call.reply("late"))

    async def client():
        with sim.move_on_after(1) as scope:
            await box.call("?")
        other = Mailbox(sim, "other")
        log.append((scope.timed_out, await other.get_until(5), sim.now))

    run_all(sim, server, client)
    assert log == [False, (True, TIMED_OUT, 5.0)]


def test_a_message_that_is_left_wakes_nobody(sim):
    box, log = Mailbox(sim, "box"), []

    async def owner():
        log.append((await box.get(), sim.now, list(box.items)))
        log.append((await box.get(), sim.now))

    async def sender():
        await sim.sleep(1)
        box.leave("quiet")
        await sim.sleep(1)
        box.put("loud")

    run_all(sim, owner, sender)
    assert log == [("loud", 2.0, ["quiet"]), ("quiet", 2.0)]


def test_who_finds_its_message_taken_while_it_stepped_aside_waits_for_the_next(sim):
    """An actor that Trio has woken takes it during the look at Trio that is due after so many operations."""
    box, got = Mailbox(sim, "box"), []

    async def waker(event):
        async with sim.attached():
            await sim.sleep(1)
            box.put("first")
            event.set()
            sim.operations_left = 0
            got.append(("waker", await box.get(), sim.now))

    async def woken(event):
        async with sim.attached():
            await event.wait()
            got.append(("woken", await box.get(), sim.now))

    async def main():
        event = trio.Event()
        sim.spawn(woken, event)
        sim.spawn(waker, event)
        await sim.sleep(2)
        box.put("second")

    sim.run(main)
    assert got == [("woken", "first", 1.0), ("waker", "second", 2.0)]
