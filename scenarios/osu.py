"""Messages alone: the OSU Micro-Benchmarks between ranks, on one node or several, in host or in device memory."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import attrs
import numpy as np

from offloadrt import Range, Run, scenario
from offloadrt.extensions import mpi
from offloadrt.models.host.process import Process
from offloadrt.study.errors import ParameterError

Benchmark = Literal[
    "latency", "bw", "bibw", "mbw_mr",
    "allgather", "allreduce", "alltoall", "barrier", "bcast", "gather", "reduce", "reduce_scatter", "scan", "scatter",
]  # fmt: skip
PER_RANK = ("allgather", "alltoall", "gather", "scatter")
"""Collectives of which OSU counts the bytes of a part of one rank."""
REDUCTIONS = ("allreduce", "reduce", "reduce_scatter", "scan")
"""Collectives of which OSU takes numbers of four bytes (MPI_FLOAT, MPI_INT since 7.3), not single bytes."""


@scenario(machine="a100-node4", sweep={"nbytes": tuple(1 << k for k in range(0, 23, 2))})
async def osu(
    run: Run,
    benchmark: Benchmark = "latency",
    nbytes: Annotated[int, Range(0, 1 << 33)] = 8,
    ranks: Annotated[int, Range(2, 4096)] = 2,
    nodes: Annotated[int, Range(1, 4096)] = 2,
    gpus_per_node: Annotated[int, Range(1, 64)] = 1,
    memory: Literal["host", "device"] = "host",
    device_path: Literal["profile", "gpudirect", "staged"] = "profile",
    window: Annotated[int, Range(1, 4096)] = 64,
    iterations: Annotated[int, Range(1, 1_000_000)] = 3,
) -> dict[str, float]:
    """Ranks send messages to one another, or make a collective call again and again.

    Parameters:
        benchmark: osu_latency, osu_bw, osu_bibw and osu_mbw_mr, or a collective
        nbytes: of a message; of a collective what OSU calls its size
        ranks: in order on the nodes; the first half sends to the second (latency, bw, bibw: the first to the last)
        nodes: of the machine
        gpus_per_node: which the ranks of a node take in turn
        memory: in which the buffers lie
        device_path: how messages reach device memory, if not as the profile says
        window: messages under way at a time (bw, bibw, mbw_mr)
        iterations: that are measured, after one that is not
    """
    if device_path != "profile":
        run.set("mpi.device.path", device_path)
    run.configure(phantom=True)

    async def main(process: Process) -> float:
        world, t = process.world, process.program.host_thread(0)
        device = process.rank % gpus_per_node

        element = np.dtype(np.float32) if benchmark in REDUCTIONS and nbytes % 4 == 0 else None

        async def buffer(size: int) -> mpi.Buffer:
            if memory == "host" or not size:
                return attrs.evolve(mpi.buffer_of(t.array("buffer", size, np.uint8)), dtype=element)
            pointer = await t.omp_target_alloc(size, device=device)
            if pointer is None:
                raise ParameterError("nbytes", f"rank {process.rank} finds no room for {size} B on device {device}")
            return attrs.evolve(mpi.device_buffer(process, pointer, size), dtype=element)

        size = nbytes * world.size if benchmark in PER_RANK else nbytes
        one, other = await buffer(size), await buffer(size)
        if benchmark in ("latency", "bw", "bibw", "mbw_mr"):
            return await point_to_point(world, one, other)
        measured = 0.0
        for number in range(iterations + 1):
            await world.Barrier()
            begin = run.sim.now
            await collective(world, one, other)
            measured += run.sim.now - begin if number else 0.0
        return measured / iterations

    async def point_to_point(world: Any, one: mpi.Buffer, other: mpi.Buffer) -> float:
        pairs = world.size // 2 if benchmark == "mbw_mr" else 1
        sends, receives = world.rank < pairs, world.rank >= world.size - pairs
        peer = world.rank + world.size - pairs if sends else world.rank - (world.size - pairs)
        begin = 0.0
        for number in range(iterations + 1):
            if number <= 1:
                await world.Barrier()
                begin = run.sim.now
            if not (sends or receives):
                continue
            if benchmark == "latency":
                for is_turn in (sends, receives):
                    await (world.Send(one, peer) if is_turn else world.Recv(one, peer))
                continue
            incoming = window if receives or benchmark == "bibw" else 0
            outgoing = window if sends or benchmark == "bibw" else 0
            requests = [await world.Irecv(other, peer, tag=1) for _ in range(incoming)]
            requests += [await world.Isend(one, peer, tag=1) for _ in range(outgoing)]
            await mpi.Request.Waitall(requests)
            await (world.Recv(mpi.Buffer(4), peer, tag=2) if sends else world.Send(mpi.Buffer(4), peer, tag=2))
        return (run.sim.now - begin) / iterations

    async def collective(world: Any, one: mpi.Buffer, other: mpi.Buffer) -> None:
        part = one.part(0, nbytes)
        match benchmark:
            case "barrier":
                await world.Barrier()
            case "bcast":
                await world.Bcast(one)
            case "allgather" | "gather":
                await (world.Allgather(part, other) if benchmark == "allgather" else world.Gather(part, other))
            case "scatter":
                await world.Scatter(other, part)
            case "alltoall":
                await world.Alltoall(one, other)
            case "reduce_scatter":
                await world.Reduce_scatter(other, one)
            case "scan":
                await world.Scan(one, other)
            case "reduce":
                await world.Reduce(one, other)
            case _:
                await world.Allreduce(one, other)

    took = await run.mpiexec(main)
    if benchmark == "latency":
        return {"latency_s": took[0] / 2}
    if benchmark in ("bw", "bibw", "mbw_mr"):
        pairs = ranks // 2 if benchmark == "mbw_mr" else 1
        messages = pairs * window * (2 if benchmark == "bibw" else 1) / max(took[:pairs])
        return {"moved_bytes_per_s": messages * nbytes, "messages_per_s": messages}
    return {"latency_s": sum(took) / len(took)}
