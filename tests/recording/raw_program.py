"""Small programs as a recorder would have written them, for tests: each method is what a thread does next."""

from __future__ import annotations

import itertools
from pathlib import Path

from prototype_lines import Writer

from offloadrt.extensions.recording.format import Recording, RecordingFile, convert
from offloadrt.extensions.recording.format.slots import Slot

BEGIN, END, UPDATE, KERNEL = (
    f"__tgt_target_{name}" for name in ("data_begin_mapper", "data_end_mapper", "data_update_mapper", "kernel")
)
TO, FROM, PARAM, LITERAL = 0x1, 0x2, 0x20, 0x100
CODE = 0x1000


class RawProgram(Writer):
    """Time and CPU time pass by 1000 ns with every event, unless `worked` says more."""

    def __init__(self) -> None:
        super().__init__([{"k": "entry", "addr": hex(CODE), "name": "saxpy", "size": 0}])
        self.now = itertools.count(1_000_000, 1000).__next__
        self.cpu: dict[int, int] = {}
        self.calls = itertools.count(1).__next__

    def at(self, tid: int) -> dict[str, int]:
        if tid not in self.cpu:
            self.cpu[tid] = 0
            self.put({"tid": tid}, Slot.THREAD, self.now(), 100 + tid, tid, 0, 1, 1)
        return {"t": self.now(), "c": self.cpu[tid], "tid": tid}

    def work(self, nanoseconds: int, tid: int = 0) -> None:
        self.at(tid)
        self.cpu[tid] += nanoseconds

    def directive(self, fn: str, *items, tid: int = 0, line: int = 1, ops=(), cost=None, **kernel) -> None:
        """items: (begin, size, type) or a dictionary; ops: (name, source, destination, bytes[, digest, b])."""
        maps = [
            item if isinstance(item, dict) else {"base": item[0], "begin": item[0], "size": item[1], "type": item[2],
                                                 "name": f";a{item[0]:x};app.c;1;1;;"}
            for item in items
        ]  # fmt: skip
        number = self.calls()
        call = {**self.at(tid), "id": number, "in": 0, "fn": fn, "dev": -1, "loc": f";app.c;main;{line};1;;"}
        if fn == KERNEL:
            call |= {
                "host_ptr": CODE,
                "num_teams": 0,
                "thread_limit": 0,
                "tripcount": 1000,
                "flags": 0,
                "dynmem": 0,
                "ver": 3,
            }
        self.call({**call, **kernel, "maps": maps})
        for name, source, destination, nbytes, *brings in ops:
            op = {**self.at(tid), "in": number, "op": name, "src": source, "dst": destination, "bytes": nbytes}
            op |= dict(zip(("digest", "brings"), brings, strict=False))
            self.op({**op, "at": "begin"})
            self.op({**op, "at": "end"})
        if cost is not None:
            whole = {"in": number, "teams": 8, "threads": 128, "trip": 1000, "gpu_threads": 1000, "barriers": 0}
            self.cost({**self.at(tid), **whole, "trace": int("arrays" in cost), "warp": [0, 0, 0], "otherB": 0, **cost})
        if fn == KERNEL:
            op = {**self.at(tid), "in": number, "op": "submit"}
            self.op({**op, "at": "begin"})
            self.op({**op, "at": "end"})
        self.ret({**self.at(tid), "id": number})

    def routine(self, fn: str, result: int = 0, tid: int = 0, ops=(), **arguments) -> None:
        number = self.calls()
        self.call({**self.at(tid), "id": number, "in": 0, "fn": fn, "dev": 0, **arguments})
        for name, source, destination, nbytes in ops:
            op = {**self.at(tid), "in": number, "op": name, "src": source, "dst": destination, "bytes": nbytes}
            self.op({**op, "at": "begin"})
            self.op({**op, "at": "end"})
        self.ret({**self.at(tid), "id": number, "ptr": result})

    def malloc(self, address: int, nbytes: int, tid: int = 0, realloc: bool = False) -> None:
        self.put(self.at(tid), Slot.ALLOC, self.now(), address, nbytes, a=3 if realloc else 1)

    def free(self, address: int, nbytes: int, tid: int = 0, how: int = 0, where: str = "") -> None:
        self.put(self.at(tid), Slot.FREE, self.now(), address, nbytes, 0, self.text(where), a=how)

    def phase(self, what: str, name: str = "", domain: str = "", number: int = 0, tid: int = 0) -> None:
        """A range of the program's own: push, pop, start or stop."""
        line, texts = self.at(tid), [self.text(one) if one else 0 for one in (name, domain)]
        place = ["push", "pop", "start", "stop"].index(what) + 1
        self.put(line, Slot.PHASE, line["t"], *texts, line["c"], number, a=place)

    def touches(self, address: int, nbytes: int, kind: int, tid: int = 0) -> None:
        self.touch({**self.at(tid), "at": [[address, 0, nbytes, kind]]})

    def begin_team(self, region: int, threads: int, tid: int = 0) -> None:
        self.par_begin({**self.at(tid), "par": region, "req": threads})

    def member(self, region: int, task: int, number: int, size: int, tid: int) -> None:
        self.implicit_task({**self.at(tid), "at": "begin", "par": region, "task": task, "n": size, "i": number})

    def end_member(self, task: int, tid: int) -> None:
        self.implicit_task({**self.at(tid), "at": "end", "par": 0, "task": task, "n": 0, "i": 0})

    def end_team(self, region: int, tid: int = 0) -> None:
        self.par_end({**self.at(tid), "par": region})

    def synchronize(self, kind: int, at: str, task: int = 0, tid: int = 0) -> None:
        self.sync({**self.at(tid), "kind": kind, "at": at, "task": task})

    def mutex(self, phase: int, kind: int, wait: int, tid: int = 0) -> None:
        line = self.at(tid)
        self.put(line, Slot.MUTEX, line["t"], wait, 0, line["c"], a=phase, b=kind)

    def recorded(self, folder: Path) -> Path:
        """Write it, and convert it to a recording."""
        self.write(folder / "raw" / "run-0")
        convert(folder / "raw", folder / "app.rec")
        return folder / "app.rec"


def only(path: Path) -> Recording:
    """Load the only run of a recording."""
    file = RecordingFile.read(path)
    (run,) = file.runs
    return file.load(run)
