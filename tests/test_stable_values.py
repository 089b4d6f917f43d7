"""Stable names that programs meet as values: what clauses, routines and models return, and what it tells."""

from __future__ import annotations

from typing import Any

import pytest

from offloadrt import ParameterError, Run, cuda, execute, kernel, openacc, scenario, stdpar
from offloadrt import openmp as omp
from offloadrt.machine import load


@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def scale(a: Any) -> None:
    a *= 2.0


def in_a_thread(body: Any, options: Any = None) -> Any:
    """Run the body of one host thread; return what it returns."""
    returned: list[Any] = []

    async def one(run: Run) -> None:
        if options is not None:
            run.options = options
        returned.extend(await run.parallel(body, 1))

    execute(scenario(one))
    return returned[0]


def test_clauses_of_openmp_are_values() -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", (4, 6))
        section = omp.section(a, 1, 2)
        assert isinstance(section, omp.Section) and (section.lower, section.length, section.stride) == (1, 2, 1)
        assert [str(extent) for extent in section.extents] == ["[1:2]"]
        assert str(omp.SectionExtent(2, 3, 2)) == "[2:3:2]" and str(omp.SectionExtent(2, 1, is_subscript=True)) == "[2]"
        moved = omp.from_(a, present=True)
        assert isinstance(moved, omp.Motion) and moved.items == (a,)
        by_address, by_pointer = omp.use_device_addr(a), omp.use_device_ptr(a)
        assert isinstance(by_address, omp.UseDevice) and (by_address.address, by_pointer.address) == (True, False)
        assert isinstance(omp.depend(inout=a), omp.Depend)
        assert (a.locate(a.address + 8), a.locate(a.address - 1)) == ("<a+8>", "<addr>")

    in_a_thread(body)


def test_members_of_structs_are_found_by_their_names() -> None:
    async def body(t: omp.HostThread) -> None:
        structs = t.array("s", 3, [("n", "i8"), ("p", "u8")])
        values = t.array("values", 10)
        member = omp.member(structs, "p", 1)
        assert isinstance(member, omp.Member) and member.name == "p"
        assert (member.begin - structs.address, member.nbytes) == (24, 8)
        assert omp.StructPointee(member, omp.section(values, 0, 4)).array is values
        with pytest.raises(ValueError, match="s has no member 'q'"):
            omp.member(structs, "q")

    in_a_thread(body)


def test_a_construct_is_built_once_and_run_often() -> None:
    async def body(t: omp.HostThread) -> float:
        a = t.array("a", 100, fill=1.0)
        construct = t.construct_target(scale, a, maps=omp.map(tofrom=a), teams=1, iterations=100)
        assert isinstance(construct, omp.Construct)
        for _ in range(3):
            await t.run(construct)
        return float(a.data[99])

    assert in_a_thread(body) == 8.0


def test_graphs_and_events_of_cuda_are_values() -> None:
    async def body(t: cuda.HostThread) -> float:
        built = await t.graph_create()
        stream, begun, ended = await t.stream_create(), await t.event_create(), await t.event_create()
        a = await t.malloc(128, "f8")
        await t.stream_begin_capture(stream)
        await t.launch(scale, a, grid=1, block=128, iterations=128, stream=stream)
        captured = await t.stream_end_capture(stream)
        assert isinstance(built, cuda.BuiltGraph) and isinstance(captured, cuda.CapturedGraph)
        assert isinstance(begun, cuda.TimedEvent)
        graph = await t.graph_instantiate(captured)
        await t.event_record(begun, stream)
        await t.graph_launch(graph, stream=stream)
        await t.event_record(ended, stream)
        await t.event_synchronize(ended)
        return await t.event_elapsed_time(begun, ended)

    assert 0.0 < in_a_thread(body, cuda.CUDAOptions()) < 1.0  # milliseconds


def test_a_scenario_binds_one_parameter() -> None:
    async def sized(run: Run, size: int = 1) -> None: ...

    one = scenario(sized)
    assert one.bind_one("size", "8") == 8
    with pytest.raises(ParameterError, match="parameter size: 'x' is not a value: expected int"):
        one.bind_one("size", "x")


def test_a_program_is_known_by_its_model() -> None:
    async def asks(run: Run) -> None:
        assert isinstance(run.program_as(omp.OpenMP), omp.OpenMP)
        with pytest.raises(Exception, match="CUDA"):
            run.program_as(cuda.CUDA)

    execute(scenario(asks))


def test_compilers_of_openacc_have_models() -> None:
    assert {*openacc.COMPILERS} == {"pgi", "gcc"}
    pgi = openacc.compiler_model("pgi")
    assert isinstance(pgi, openacc.CompilerModel) and pgi == openacc.compiler_model("pgi", pools=True)
    assert pgi.one_buffer and not openacc.compiler_model("gcc").one_buffer
    assert openacc.compiler_model("gcc", pools=True).allocator == "pool"
    with pytest.raises(ValueError, match="no compiler 'icc'; there are: gcc, pgi"):
        openacc.compiler_model("icc")


def test_clauses_of_openacc_have_kinds() -> None:
    clauses = [openacc.copy(), openacc.copyin(), openacc.copyout(), openacc.create()]
    assert all(isinstance(clause, openacc.DataClause) for clause in clauses)
    assert [clause.kind for clause in clauses] == ["copy", "copyin", "copyout", "create"]
    assert openacc.UpdateClause("host", ()).kind == "host"


def test_device_strategies_have_names_and_policies() -> None:
    assert openacc.strategy_named("single", 4).devices == 1
    policies: list[openacc.PushPolicy] = [openacc.strategy_named(name, 2).policy for name in ("adaptive", "macc")]
    assert len({type(policy) for policy in policies}) == 2
    with pytest.raises(ValueError, match="no strategy 'nosuch'; there are: single, duplicated, adaptive, always, macc"):
        openacc.strategy_named("nosuch", 2)


def test_algorithms_are_calls_with_figures() -> None:
    counts = {"calls": 4.0, "offloaded": 2.0, "elided": 1.0}
    found = stdpar.algorithm_figures(counts, {})
    assert (found["algorithms"], found["offloaded"], found["elided_share"]) == (4, 2, 0.5)
    assert {found[name] for name in stdpar.KEPT} == {0}
    with pytest.raises(ValueError, match="init is None, but the result begins with it"):
        stdpar.AlgorithmCall("transform_reduce", stdpar.ExecutionPolicy.PAR_UNSEQ, scale, ())
    assert stdpar.StdParOptions().devices_on(load("alex-a100", runtime="llvm22")) == 1
    assert {memory.value for memory in stdpar.DataMemory} == {"shared", "device", "host"}
