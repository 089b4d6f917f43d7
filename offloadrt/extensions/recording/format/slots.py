"""Reads the recorder's raw files: for each process JSON lines, for each of its threads an array of slots.

A slot is eight words of 64 bits. Word 0 has its kind (bits 0 to 7), `a` (16 to 31) and `b` (32 to 63); a slot of kind 0
is unused, as the last ones are after a crash. `native/slots.h` has the same numbers.
"""

from __future__ import annotations

import ctypes
import enum
import functools
import heapq
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import msgspec
import numpy as np

from offloadrt.extensions.recording.format.recording import NONE, NotARecording, RecordingDamaged, RecordingTooNew

RAW_VERSION: Final = 1
SLOT_WORDS: Final = 8
SLOT_BYTES: Final = 64


class Slot(enum.IntEnum):
    """The kinds of slots (fixed-size rows of the raw files); the recorder writes each event as one or more."""

    THREAD = 1
    """A thread begins to write slots."""
    CALL = 2
    """A call of the offloading runtime begins; its parts follow."""
    KERNEL = 3
    """Part of a call: the kernel that it launches."""
    ITEM = 4
    """Part of a call: a map item."""
    ARG = 5
    """Part of a call: arguments of a routine."""
    RET = 6
    """A call has returned."""
    OUT = 7
    """The device address that a call has returned for ``use_device_ptr`` or ``use_device_addr``."""
    OP = 8
    """An operation of the real runtime on device memory, such as a copy."""
    SUBMIT = 9
    """The real runtime launches a kernel."""
    LAUNCH = 10
    """A launch of a kernel has ended; its parts follow."""
    COUNTS = 11
    """Part of a launch: the counted work."""
    WARP = 12
    """Part of a traced launch: the memory instructions of its warps (32 threads each)."""
    ARRAY = 13
    """Part of a traced launch: an array that it uses."""
    PAGES = 14
    """Part of a traced launch: touched pages of an array."""
    SECTORS = 15
    """Part of a traced launch: how many sectors of 32 B of an array it touched."""
    PARALLEL_BEGIN = 16
    PARALLEL_END = 17
    IMPLICIT = 18
    """A thread begins or ends its part of a parallel region."""
    SYNC = 19
    """A thread begins or ends a wait, such as a barrier."""
    TASK_CREATE = 20
    TASK_SCHEDULE = 21
    """A thread goes on with another task."""
    DEPENDENCE = 22
    """An object in a ``depend`` clause of a task."""
    MUTEX = 23
    """A lock, or what synchronizes like one, is acquired or released."""
    ALLOC = 24
    """Host memory is allocated."""
    FREE = 25
    """The memory of a host array ends."""
    TOUCH = 26
    """The host accesses memory."""
    DIMENSION = 27
    """Part of a call: a dimension of a strided section."""
    RACE = 28
    """Part of a traced launch: two unordered accesses."""
    STRAY = 29
    """Part of a traced launch: an access to memory that it may not use."""
    RANGES = 30
    """Part of a traced launch: bytes of an array that it accessed, exactly."""
    MPI = 31
    """An MPI call begins; its parts follow."""
    MPI_END = 32
    MPI_PART = 33
    PHASE = 34
    """A range that the program names begins or ends."""


CALLS: Final = {
    1: "__tgt_target_data_begin_mapper",
    2: "__tgt_target_data_end_mapper",
    3: "__tgt_target_data_update_mapper",
    4: "__tgt_target_data_begin_nowait_mapper",
    5: "__tgt_target_data_end_nowait_mapper",
    6: "__tgt_target_data_update_nowait_mapper",
    7: "__tgt_target_kernel",
    8: "__tgt_target_kernel_nowait",
    9: "__tgt_push_mapper_component",
    20: "omp_target_alloc",
    21: "omp_target_free",
    22: "omp_target_is_present",
    23: "omp_target_is_accessible",
    24: "omp_get_mapped_ptr",
    25: "omp_target_associate_ptr",
    26: "omp_target_disassociate_ptr",
    27: "omp_target_memcpy",
    28: "omp_target_memcpy_async",
    29: "omp_target_memset",
    30: "omp_target_memcpy_rect",
    31: "omp_target_memcpy_rect_async",
    32: "omp_target_memset_async",
}
"""By number in a slot: the runtime's entry points and OpenMP's routines."""
ALGORITHM: Final = 60
"""The call number of a parallel algorithm of C++'s standard library; its kernels are calls inside it."""
STOP: Final = 61
"""The call number of a place where the barrier of the algorithms before it stays."""
SCRATCH: Final = 5
"""`a` of an ALLOC slot: an algorithm allocates memory for its own use."""
LATE: Final = 6
"""`a` of an ALLOC slot: a small block was allocated before, and is written now that a directive is given it."""
MUTEX_BEGIN: Final = 1 << 62
"""The bit of the flag, in a MUTEX slot, by which a thread begins that the program has made itself."""
MAPPER_COMPONENT: Final = 9
DEFERRED: Final = (28, 31, 32)
"""The call numbers of asynchronous routines: they make a task, which does the copy or the memset."""

BRINGS_KNOWN: Final = 1
"""A bit in `b` of the OP slot of a copy: word 1 is a digest of the bytes that it transfers."""
BRINGS_NOTHING: Final = 2
"""A bit in `b` of the OP slot of a copy: the target had the same bytes before."""
REALLOC: Final = 3
"""`a` of an ALLOC slot: the block is the result of realloc."""
LOADS: Final = 1
STORES: Final = 2
SYNC: Final = 8
"""A bit in the kind of an access: it is atomic or volatile."""
ATOMIC_RANGE: Final = 3
"""The kind of a range of bytes to which all accesses were atomic or volatile; others are loads and stores."""
COPIED_RANGE: Final = 4
"""The kind of a range of bytes that a kernel loads only to copy whole objects: some bytes may belong to no member."""
EXACT: Final = 4
"""A bit in the kind of a host touch: every byte of the range was touched."""
MAYBE_STORED: Final = 8
"""A bit in the kind of a host touch: code that is not instrumented got the address, and may have stored there."""
MAYBE_LOADED: Final = MAYBE_STORED | LOADS
"""The kind of a host touch if code that is not instrumented got the address and may load there, then or later."""
UNIFIED_SHARED_MEMORY: Final = 0x8
"""LLVM's flag OMP_REQ_UNIFIED_SHARED_MEMORY of a `requires` directive."""
NEW_BLOCK: Final = MAYBE_STORED | STORES
"""The kind of a host touch that is none: the program has just been given the block, and nobody has stored there."""
ATOMICALLY: Final = 16
"""A bit in the kind of a host touch: all accesses were atomic or volatile."""
UNNAMED: Final = 32
"""A bit in the kind of a host touch: no directive names the array, which is recorded for races of the host only."""
OWN_THREAD: Final = 64
"""A bit in the kind of a host touch: by a task that has asked which thread runs it (`omp_get_thread_num`), or has used
a variable that each thread has for itself. A thread runs such tasks one after the other.
"""

COUNTERS: Final = (
    "f64", "f32", "f16", "div64", "div32", "div16", "special64", "special32", "integer", "loads", "load_bytes",
    "stores", "store_bytes", "atomics", "stack", "branches", "unknown_calls", "atomic_bytes",
)  # fmt: skip
"""The counters of a launch, in the order of the COUNTS slots."""
COUNTERS_A_SLOT: Final = 7

Row = tuple[int, int, int, int, int, int, int, int]


def kind_of(row: Row) -> int:
    """Return which kind of event a slot (fixed-size row) of the raw files has, as a `Slot`."""
    return row[0] & 0xFF


def a_of(row: Row) -> int:
    """Return the field `a` of a slot (fixed-size row of the raw files); its meaning depends on the slot's kind."""
    return row[0] >> 16 & 0xFFFF


def is_fortran(place: str) -> bool:
    """Tell whether a source file, or a line such as ``solver.f90:14``, is Fortran, by the ending of the file's name."""
    return place.partition(":")[0].lower().endswith((".f", ".for", ".f90", ".f95", ".f03", ".f08", ".f18"))


def b_of(row: Row) -> int:
    """Return the integer field `b` of a row of the raw files: of a call or launch, the number of rows of its parts."""
    return row[0] >> 32


def signed(word: int) -> int:
    """Convert an unsigned word to a signed number."""
    return word - (1 << 64) if word >> 63 else word


@attrs.frozen(eq=False)
class RawProcess:
    """The raw files that the recorder has written about one process: its JSON lines, and its threads' slots.

    A slot is a row of fixed size. strings: texts of the process by their addresses. pid: its process number. lines: the
    JSON lines.
    """

    pid: int
    lines: tuple[dict[str, Any], ...]
    strings: dict[int, str]
    files: tuple[Path, ...]
    """The files with the slots of its threads, by thread number."""
    places: Mapping[str, str] = attrs.field(factory=dict)
    """By ``OFFSET MODULE``: the place in the source, as ``file;function;line;column``."""
    place_of_death: str = ""
    """The innermost line of the program's own code where a signal ended it; empty if not known."""
    name: str = ""
    """The process number; if it has replaced itself by exec, also which of its programs this is."""
    is_replaced: bool = False
    """Whether the process has replaced its program by another one (exec)."""

    def place_of(self, line: Mapping[str, Any]) -> str:
        """Return the source line that a JSON line of the kind `place` refers to; empty if it is not known."""
        return self.places.get(f"{line['offset']} {line['module']}", "")

    def line_at(self, address: int) -> str:
        """Return the source line that the compiler's string at an address names; empty if it names none."""
        file, _, line = (self.strings.get(address, "") + ";;;;").split(";")[1:4]
        return f"{file}:{line}" if line not in ("", "0") else ""

    def line(self, kind: str) -> dict[str, Any]:
        """Return the first JSON line of a kind; an empty dict if there is none."""
        return next((line for line in self.lines if line["k"] == kind), {})

    @property
    def ending(self) -> dict[str, Any]:
        """Return the last line on how the process ended: by exit (`end`) or a signal (`died`); else an empty dict."""
        return next((line for line in reversed(self.lines) if line["k"] in ("end", "died")), {})

    def slots(self) -> Iterator[np.ndarray[Any, np.dtype[np.uint64]]]:
        """Yield the slots (fixed-size rows) of each thread that are in use; an incomplete last one is left out."""
        for file in self.files:
            words = np.fromfile(file, "<u8", count=file.stat().st_size // SLOT_BYTES * SLOT_WORDS)
            rows = words.reshape(-1, SLOT_WORDS)
            yield rows[(rows[:, 0] & 0xFF) != 0]


def processes_of(folder: Path) -> list[RawProcess]:
    """Return a run folder's processes, by number. NotARecording without any, RecordingTooNew for a newer format."""
    found = []
    places = _places(folder / PLACES)
    for file in sorted(folder.glob("*.jsonl"), key=lambda path: (len(path.stem), path.stem)):
        lines = _lines(file)
        version = next((line.get("version", 0) for line in lines if line["k"] == "process"), None)
        if version is None:
            raise NotARecording(f"{file}: no line says which process this is")
        if version > RAW_VERSION:
            raise RecordingTooNew(f"{file}: raw version {version}; this offloadrt reads up to {RAW_VERSION}")
        strings = {int(line["at"]): str(line["text"]) for line in lines if line["k"] == "string"}
        threads = sorted(folder.glob(f"{file.stem}.*.slots"), key=lambda path: int(path.suffixes[0][1:]))
        pid, _, part = file.stem.partition("-")
        is_replaced = file.with_name(f"{pid}-{int(part or 1) + 1}.jsonl").exists()
        known = places, places.get(died_key(file), ""), file.stem, is_replaced
        found.append(RawProcess(int(pid), tuple(lines), strings, tuple(threads), *known))
    if not found:
        raise NotARecording(f"{folder}: holds no raw files of a recorder")
    return found


PLACES: Final = "places.json"
"""The file in a run's folder with the places in the source where its processes call MPI, and where they died."""


def died_key(process: Path) -> str:
    """Return the key, in the run's file of source lines, of the line where a process died.

    process: the file with the JSON lines of the process.
    """
    return f"died {process.stem}"


def _places(file: Path) -> dict[str, str]:
    if not file.is_file():
        return {}
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, str])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecordingDamaged(f"{file}: {error}") from None


def _lines(file: Path) -> list[dict[str, Any]]:
    """Read JSON lines; an incomplete last line is left out."""
    texts = file.read_bytes().split(b"\n")
    lines = []
    for number, text in enumerate(texts, 1):
        if not text.strip():
            continue
        try:
            line = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if number == len(texts):
                continue
            raise RecordingDamaged(f"{file}: line {number}: {error}") from None
        if not isinstance(line, dict) or "k" not in line:
            raise RecordingDamaged(f"{file}: line {number}: is no line of a recorder")
        lines.append(line)
    return lines


_RECT: Final = ("omp_target_memcpy_rect", "omp_target_memcpy_rect_async")
_RECT_ARGUMENTS: Final = 6
_EACH: Final = 5


@attrs.frozen
class RoutineMemory:
    """Memory that a routine reads or writes: its pointer's index in the arguments, its address, size and device."""

    argument: int
    address: int
    nbytes: int
    device: int


@attrs.frozen
class Box:
    """The block of an array that a call of omp_target_memcpy_rect copies, as its arguments give it, in elements.

    Sequences have the outermost dimension first. element: the bytes of an element. volume: the lengths of the block to
    copy. to_offsets, from_offsets: where the block begins in the target and in the source. to_dimensions,
    from_dimensions: the lengths of these arrays.
    """

    element: int
    volume: tuple[int, ...]
    to_offsets: tuple[int, ...]
    from_offsets: tuple[int, ...]
    to_dimensions: tuple[int, ...]
    from_dimensions: tuple[int, ...]

    @classmethod
    def of(cls, arguments: Sequence[int]) -> Box | None:
        """Read the argument words of an omp_target_memcpy_rect; None if without dimensions, or some are missing."""
        dimensions = arguments[3] if len(arguments) > 3 else 0
        if not 0 < dimensions <= (len(arguments) - _RECT_ARGUMENTS) // _EACH:
            return None
        words = arguments[_RECT_ARGUMENTS : _RECT_ARGUMENTS + _EACH * dimensions]
        return cls(arguments[2], *(tuple(words[place::_EACH]) for place in range(_EACH)))

    def span(self, offsets: Sequence[int], dimensions: Sequence[int]) -> tuple[int, int]:
        """Return (begin, length) of the bytes of an array from the box's first byte to its last one.

        offsets: the index in each dimension at which the box begins. dimensions: the array's lengths, in elements.
        """
        strides = [math.prod(dimensions[axis + 1 :]) for axis in range(len(dimensions))]
        first = sum(offset * stride for offset, stride in zip(offsets, strides, strict=True))
        last = sum((count - 1) * stride for count, stride in zip(self.volume, strides, strict=True))
        return first * self.element, (last + 1) * self.element if all(self.volume) else 0


def memory_of(function: int, arguments: Sequence[int]) -> list[RoutineMemory]:
    """Return the memory that a call of routine `function` (a key of `CALLS`) with these arguments reads or writes."""
    name = CALLS.get(function, "")
    if name in ("omp_target_memcpy", "omp_target_memcpy_async"):
        to, out_of, length, to_offset, from_offset, to_device, from_device = arguments[:7]
        return [
            RoutineMemory(0, to + to_offset, length, to_device),
            RoutineMemory(1, out_of + from_offset, length, from_device),
        ]
    if name in _RECT and (box := Box.of(arguments)) is not None:
        spans = box.span(box.to_offsets, box.to_dimensions), box.span(box.from_offsets, box.from_dimensions)
        places = zip(itertools.count(), arguments[:2], spans, arguments[4:6], strict=False)
        return [RoutineMemory(place, base + first, nbytes, device) for place, base, (first, nbytes), device in places]
    if name in ("omp_target_memset", "omp_target_memset_async"):
        return [RoutineMemory(0, arguments[0], arguments[2], arguments[3])]
    return []


@attrs.frozen
class AlgorithmWords:
    """The words in which the recorder describes a call of a C++ parallel algorithm.

    words: the number of elements, the execution policy, whether it is on the host, the number of pointers, and bits
    that say which of these point to the stack; then the pointers.
    """

    words: Sequence[int]

    @property
    def pointers(self) -> Sequence[int]:
        """Return the words after the first five, which may be pointers into arrays or the stack."""
        return self.words[5 : 5 + self.words[3]]

    def items(self, kernels: int, arrays: Sequence[int]) -> list[tuple[int, int, int, int]]:
        """Make the list of items by which the recording stores the call of a parallel algorithm.

        An item is (base, begin, size, array). First come four whose base is a number: the elements, the policy, whether
        it runs on the host, and `kernels`, how many it launched. Then comes an item for each pointer into an array
        (base and begin: the pointer, size 0) or into the thread's stack (base and begin 0, size 1); other pointers have
        none. arrays: for each pointer the array that it points into, or NONE.
        """
        elements, policy, on_host, _, on_stack = self.words[:5]
        found: dict[tuple[int, int, int, int], None] = {}
        for place, (word, array) in enumerate(zip(self.pointers, arrays, strict=False)):
            if array != NONE:
                found[word, word, 0, array] = None
            elif on_stack >> place & 1:
                found[0, 0, 1, NONE] = None
        return [*((word, 0, 0, NONE) for word in (elements, policy, on_host, kernels)), *found]


_CHUNK: Final = 1 << 15
_TIMES: Final[dict[int, int]] = {Slot.OP: 7, Slot.SUBMIT: 7}
"""By kind of slot: the word with the event's time, if that is not word 1: operations are written when they end."""


@attrs.frozen(eq=False)
class RecordedEvent:
    """An event of a thread: its `Slot` kind, its first slot (`row`), and the slots that follow and belong to it."""

    kind: int
    thread: int
    row: Row
    parts: tuple[Row, ...] = ()


def events_of(process: RawProcess) -> Iterator[RecordedEvent]:
    """Yield the events of all threads in the order of time. Raises RecordingDamaged for an event of unknown kind."""
    threads = [_of_thread(number, rows) for number, rows in enumerate(process.slots())]
    return (event for _, _, _, event in heapq.merge(*threads, key=lambda found: found[:3]))


def _of_thread(thread: int, rows: np.ndarray[Any, Any]) -> Iterator[tuple[int, int, int, RecordedEvent]]:
    """Yield (time, thread, place, event) of one thread; times never decrease.

    A program may be killed while it writes a call or a launch: an event with missing parts is left out.
    """
    now = place = 0
    slots = _rows(rows)
    for row in slots:
        kind = kind_of(row)
        if kind not in _KINDS:
            raise RecordingDamaged(f"thread {thread}: slot {place} is of unknown kind {kind}")
        count = b_of(row) if kind in _WITH_PARTS else 0
        parts = tuple(itertools.islice(slots, count)) if count else ()
        if len(parts) < count:
            return
        if kind != Slot.OUT:
            now = max(now, row[_TIMES.get(kind, 1)])
        yield now, thread, place, RecordedEvent(kind, thread, row, parts)
        place += 1 + count


_KINDS: Final = frozenset(int(kind) for kind in Slot)
_WITH_PARTS: Final = frozenset((Slot.CALL, Slot.LAUNCH, Slot.MPI, Slot.MPI_END))


def _rows(rows: np.ndarray[Any, Any]) -> Iterator[Row]:
    chunks: Iterable[list[Any]] = (rows[at : at + _CHUNK].tolist() for at in range(0, len(rows), _CHUNK))
    return (tuple(row) for chunk in chunks for row in chunk)


_LAMBDA: Final = re.compile(r"\)(?: const)?::(?:\{lambda|\$_)")
_OPENS: Final = {")": "(", ">": "<"}


@functools.cache
def user_of_helper(symbol: str) -> str:
    """Return ` for FUNCTION`: the function that passed a lambda to a template which launches the kernel `symbol`.

    A template (such as CloverLeaf's `par_ranged2`) has one source line for the kernels of many functions, so the line
    alone does not tell them apart. The kernel's symbol has the types of all lambdas around it, which the C++ library
    can demangle. Returns an empty text if there is no such function.
    """
    owners: dict[str, bool] = {}
    text = _demangled(symbol)
    for match in _LAMBDA.finditer(text):
        begin = end = match.start() + 1
        for last in ")>":  # back over the parameters, and the template's arguments
            depth = 0
            while begin and (depth or text[begin - 1] == last):
                begin -= 1
                depth += (text[begin] == last) - (text[begin] == _OPENS[last])
        name = re.search(r"[\w:~]*$", text[:begin])
        assert name is not None
        if not name[0].startswith(("std::", "offload_stdpar::")):
            owners.setdefault(name[0], "lambda" in text[begin:end] or "$_" in text[begin:end])
    users = [name for name, has_other in owners.items() if not has_other]
    return f" for {users[0].rpartition('::')[2]}" if users and len(owners) > 1 else ""


def _demangled(symbol: str) -> str:
    """Return the C++ name in the symbol of a kernel; empty if it has none, or no C++ library can demangle it."""
    mangled = re.search(r"_Z\w[\w$.]*(?=_l\d+$)", symbol)
    try:
        library, status = ctypes.CDLL("libstdc++.so.6"), ctypes.c_int()
    except OSError:
        return ""
    library.__cxa_demangle.restype = ctypes.c_void_p
    text = mangled and library.__cxa_demangle(mangled[0].encode(), None, None, ctypes.byref(status))
    if not text:
        return ""
    name = ctypes.string_at(text).decode(errors="replace")
    ctypes.CDLL(None).free(ctypes.c_void_p(text))
    return name
