"""Raw files out of the JSON lines of ../shared's prototype recorder, which has another format than ours."""

import gzip
import json
from pathlib import Path

import numpy as np

from offloadrt.extensions.recording.format.slots import CALLS, COUNTERS, Slot

FUNCTIONS = {name: number for number, name in CALLS.items()}
OPERATIONS = {"alloc": 1, "h2d": 2, "d2h": 3, "delete": 4, "associate": 5, "disassociate": 6}
COUNTED = {
    "f64": "f64", "f32": "f32", "div64": "div64", "div32": "div32", "math": "special64", "int": "integer",
    "ld": "loads", "ldB": "load_bytes", "st": "stores", "stB": "store_bytes", "atomics": "atomics", "local": "stack",
}  # fmt: skip
ARGUMENTS = {
    "omp_target_alloc": ("bytes", "dev"), "omp_target_free": ("ptr", "dev"), "omp_get_mapped_ptr": ("ptr", "dev"),
    "omp_target_is_present": ("ptr", "dev"), "omp_target_is_accessible": ("ptr", "bytes", "dev"),
    "omp_target_associate_ptr": ("ptr", "dptr", "bytes", "off", "dev"), "omp_target_disassociate_ptr": ("ptr", "dev"),
    "omp_target_memcpy": ("dst", "src", "bytes", "doff", "soff", "dev", "sdev"),
    "omp_target_memset": ("ptr", "byte", "bytes", "dev"),
}  # fmt: skip


def number(value):
    if isinstance(value, str):
        return 0 if value == "(nil)" else int(value, 16)
    return int(value) & (1 << 64) - 1


class Writer:
    def __init__(self, lines):
        self.rows = {}
        self.strings = {}
        self.rare = [{"k": "process", "version": 1, "pid": 1, "argv": ["sample"]}, {"k": "end", "how": "exit"}]
        self.begun = {}
        for line in lines:
            getattr(self, line["k"], lambda line: None)(line)

    def put(self, line, kind, *words, a=0, b=0):
        row = [int(kind) | a << 16 | b << 32, *map(number, words)]
        self.rows.setdefault(line["tid"], []).append(row + [0] * (8 - len(row)))

    def text(self, text):
        return self.strings.setdefault(text, len(self.strings) + 1) if text else 0

    def entry(self, line):
        found = {"k": "entry", "at": number(line["addr"]), "name": line["name"], "size": line["size"]}
        self.rare.append({**found, "flags": line.get("flags", 0)})

    def call(self, line):
        function = FUNCTIONS[line["fn"]]
        maps, routine = line.get("maps", []), ARGUMENTS.get(line["fn"])
        kernel = "host_ptr" in line
        words = line["t"], line["id"], line["in"], line["c"], self.text(line.get("loc")), line["dev"]
        self.put(line, Slot.CALL, *words, a=function, b=kernel + len(maps) + bool(routine))
        if kernel:
            words = (line[name] for name in ("host_ptr", "num_teams", "thread_limit", "tripcount", "flags", "dynmem"))
            self.put(line, Slot.KERNEL, *words, a=line["ver"])
        for place, item in enumerate(maps):
            words = item["base"], item["begin"], item["size"], item["type"], self.text(item.get("name"))
            self.put(line, Slot.ITEM, *words, a=place)
        if routine:
            self.put(line, Slot.ARG, *(line[name] for name in routine))

    def ret(self, line):
        result = next((line[name] for name in ("ptr", "mapped", "rc") if name in line), 0)
        self.put(line, Slot.RET, line["t"], line["id"], result, line["c"])

    def op(self, line):
        key = line["tid"], line["op"]
        if line["at"] == "begin":
            self.begun[key] = line
        elif line["op"] == "submit":
            begin = self.begun.pop(key)
            self.put(line, Slot.SUBMIT, begin["t"], line["in"], 0, begin["c"], 0, 0, line["t"])
        else:
            begin = self.begun.pop(key)
            words = line.get("digest", begin["t"]), line["in"], line["src"], line["dst"], line["bytes"], 0, line["t"]
            self.put(line, Slot.OP, *words, a=OPERATIONS[line["op"]], b=line.get("brings", 0))

    def cost(self, line):
        arrays = line.get("arrays", [])
        pages = [(place, kind) for place, use in enumerate(arrays) for kind in (1, 2) if use[("rd", "wr")[kind - 1]][1]]
        parts = 3 + line["trace"] + 2 * len(arrays) + len(pages)
        words = (
            line["t"],
            line["in"],
            line["teams"],
            line["threads"],
            line["trip"],
            line["gpu_threads"],
            line["barriers"],
        )
        self.put(line, Slot.LAUNCH, *words, a=line["trace"], b=parts)
        counts = [0] * 21
        for theirs, ours in COUNTED.items():
            counts[COUNTERS.index(ours)] = line.get(theirs, 0)
        for part in range(3):
            self.put(line, Slot.COUNTS, *counts[part * 7 : part * 7 + 7], a=part)
        if line["trace"]:
            self.put(line, Slot.WARP, *line["warp"], line["otherB"])
        for place, use in enumerate(arrays):
            self.put(line, Slot.ARRAY, use["host"], use["dev"], use["size"], use["ldB"], use["stB"], a=place)
            sectors = use["rd"][0], use["wr"][0]
            self.put(line, Slot.SECTORS, *sectors, *sectors, a=place)
        for place, kind in pages:  # the prototype says how many pages, not which: taken to lie side by side
            count = arrays[place][("rd", "wr")[kind - 1]][1]
            self.put(line, Slot.PAGES, 0, count, 0, line["teams"] - 1, a=kind, b=place)

    def touch(self, line):
        for base, offset, nbytes, kind in line["at"]:
            self.put(line, Slot.TOUCH, line["t"], number(base) + offset, nbytes, a=kind)

    def par_begin(self, line):
        self.put(line, Slot.PARALLEL_BEGIN, line["t"], line["par"], 0, line["c"], b=line["req"])

    def par_end(self, line):
        self.put(line, Slot.PARALLEL_END, line["t"], line["par"], 0, line["c"])

    def implicit_task(self, line):
        initial = line["par"] == 0 and line["at"] == "begin"
        words = line["t"], line["par"], line["task"], line["c"], line["n"], 1 if initial else 2
        self.put(line, Slot.IMPLICIT, *words, a=1 if line["at"] == "begin" else 2, b=0 if initial else line["i"])

    def sync(self, line):
        words = line["t"], 0, line["task"], line["c"]
        self.put(line, Slot.SYNC, *words, a=1 if line["at"] == "begin" else 2, b=line["kind"])

    def task_create(self, line):
        self.put(line, Slot.TASK_CREATE, line["t"], line["task"], line["parent"], line["c"], line["flags"], line["dep"])

    def task_deps(self, line):
        for address, kind in line["deps"]:
            self.put(line, Slot.DEPENDENCE, line["t"], line["task"], address, a=kind)

    def task_schedule(self, line):
        words = line["t"], line["prior"], line["next"], line["c"]
        self.put(line, Slot.TASK_SCHEDULE, *words, a=line["status"])

    def write(self, folder: Path):
        folder.mkdir(parents=True)
        rare = [*self.rare, *({"k": "string", "at": at, "text": text} for text, at in self.strings.items())]
        (folder / "1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in rare))
        for thread, rows in self.rows.items():
            np.array(rows, "<u8").tofile(folder / f"1.{thread}.slots")


def raw_of(lines: Path, folder: Path) -> Path:
    """Write the raw files of a prototype recording, and return their folder."""
    data = lines.read_bytes()
    text = gzip.decompress(data) if lines.suffix == ".gz" else data
    Writer([json.loads(line) for line in text.splitlines()]).write(folder / "run-0")
    return folder
