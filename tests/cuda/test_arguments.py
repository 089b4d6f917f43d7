"""Arguments that are passed by value: who writes them, and how many bytes a launch takes."""

import pytest
from cuda_rig import SMALL, run_of

from offloadrt.driver import DriverError


def call_s(nbytes, captured=False, machine="alex-a100"):
    async def body(t):
        stream = await t.stream_create(non_blocking=True)
        if captured:
            await t.stream_begin_capture(stream)
        begin = t.sim.now
        await t.launch(SMALL, grid=1, block=32, iterations=32, stream=stream, by_value=nbytes)
        took = t.sim.now - begin
        if captured:
            await t.stream_end_capture(stream)
        return took

    return run_of(body, machine)


def test_a_thread_writes_them_into_the_command():
    (run, none), (_, some) = call_s(0), call_s(4096)
    assert some - none == pytest.approx(4096 / run.spec.value("arguments.rate"))


def test_a_graph_has_them_from_the_beginning():
    assert call_s(4096, captured=True)[1] == call_s(0, captured=True)[1]


@pytest.mark.parametrize(("machine", "limit"), [("alex-a100", 32764), ("summitdev-p100", 4096)])
def test_a_launch_takes_so_many_and_no_more(machine, limit):
    call_s(limit, machine=machine)
    with pytest.raises(DriverError, match=f"{limit + 1} bytes of arguments; a launch takes {limit} at most"):
        call_s(limit + 1, machine=machine)
