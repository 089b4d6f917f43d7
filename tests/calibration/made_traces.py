"""Small databases as Nsight Systems and rocprofv3 write them, with times that a test chooses."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import ClassVar

US = 1000
THREAD = 0x1000001
"""A thread identifier of Nsight Systems: the process in the upper bits."""
PROCESS = THREAD >> 24 << 24


class MadeNsys:
    """An export whose rows are added one by one; times in nanoseconds. `schema` 2 has no enumerations in the file."""

    def __init__(self, path: Path, schema: int = 3) -> None:
        self.path = path
        self.db = sqlite3.connect(path)
        self.strings: dict[str, int] = {}
        self.number = 0
        stream = (
            "start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER"
        )
        self.db.executescript(
            f"""
            CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER,
                correlationId INTEGER, nameId INTEGER, returnValue INTEGER);
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({stream}, demangledName INTEGER, shortName INTEGER);
            CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY ({stream}, bytes INTEGER, copyKind INTEGER, srcKind INTEGER,
                dstKind INTEGER);
            """
        )
        if schema == 3:
            self.db.executescript(
                """
                CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
                INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.13.2');
                CREATE TABLE TARGET_INFO_GPU (name TEXT, smCount INTEGER);
                INSERT INTO TARGET_INFO_GPU VALUES ('a made GPU', 108);
                CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER, name TEXT, label TEXT);
                INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (1, 'CUDA_MEMCPY_KIND_HTOD', ''),
                    (2, 'CUDA_MEMCPY_KIND_DTOH', '');
                CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER, name TEXT, label TEXT);
                INSERT INTO ENUM_CUDA_MEM_KIND VALUES (0, 'CUDA_MEMOPR_MEMORY_KIND_PAGEABLE', ''),
                    (1, 'CUDA_MEMOPR_MEMORY_KIND_PINNED', ''), (2, 'CUDA_MEMOPR_MEMORY_KIND_DEVICE', '');
                """
            )

    def _string(self, text: str) -> int:
        if text not in self.strings:
            self.strings[text] = len(self.strings)
            self.db.execute("INSERT INTO StringIds VALUES (?, ?)", (self.strings[text], text))
        return self.strings[text]

    def call(self, name: str, start: int, end: int, thread: int = THREAD, returned: int = 0) -> int:
        """Add a call and return its correlation identifier."""
        self.number += 1
        row = (start, end, 0, thread, self.number, self._string(name), returned)
        self.db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        return self.number

    def kernel(self, correlation: int, start: int, end: int, stream: int = 7, name: str = "kernel") -> None:
        text = self._string(name)
        row = (start, end, 0, stream, correlation, PROCESS, text, text)
        self.db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def copy(self, correlation: int, start: int, end: int, nbytes: int, kind: int = 1, host: int = 1) -> None:
        """Add a copy; kind 1: to the device, 2: from it; host 0: pageable, 1: pinned."""
        memories = (host, 2) if kind == 1 else (2, host)
        row = (start, end, 0, 7, correlation, PROCESS, nbytes, kind, *memories)
        self.db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

    def memory(self, correlation: int, start: int, nbytes: int) -> None:
        """Add an event of `--cuda-memory-usage=true`."""
        self.db.execute(
            "CREATE TABLE IF NOT EXISTS CUDA_GPU_MEMORY_USAGE_EVENTS"
            " (start INTEGER, globalPid INTEGER, bytes INTEGER, correlationId INTEGER)"
        )
        row = (start, PROCESS, nbytes, correlation)
        self.db.execute("INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (?, ?, ?, ?)", row)

    def written(self) -> Path:
        self.db.commit()
        self.db.close()
        return self.path


class MadeRocpd:
    """A file of schema 3 in which the tables of one process carry a UUID, with or without the views over them."""

    TABLES: ClassVar = {
        "metadata": "id INTEGER PRIMARY KEY, tag TEXT, value TEXT",
        "string": "id INTEGER PRIMARY KEY, string TEXT",
        "info_agent": "id INTEGER PRIMARY KEY, type TEXT, name TEXT, product_name TEXT",
        "info_kernel_symbol": "id INTEGER PRIMARY KEY, kernel_name TEXT, display_name TEXT",
        "event": "id INTEGER PRIMARY KEY, stack_id INTEGER",
        "region": "id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER, start BIGINT, end BIGINT, name_id INTEGER,"
        " event_id INTEGER",
        "kernel_dispatch": "id INTEGER PRIMARY KEY, pid INTEGER, agent_id INTEGER, kernel_id INTEGER, queue_id INTEGER,"
        " start BIGINT, end BIGINT, event_id INTEGER",
        "memory_copy": "id INTEGER PRIMARY KEY, pid INTEGER, start BIGINT, end BIGINT, dst_agent_id INTEGER,"
        " src_agent_id INTEGER, size INTEGER, queue_id INTEGER, event_id INTEGER",
        "memory_allocate": "id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER, type TEXT, level TEXT, start BIGINT,"
        " end BIGINT, address INTEGER, size INTEGER",
    }

    def __init__(self, path: Path, views: bool = True, schema: str = "3") -> None:
        self.path = path
        self.db = sqlite3.connect(path)
        self.uuid = "_00000a1b_2c3d_7e4f_8a9b_0123456789ab"
        self.strings: dict[str, int] = {}
        for name, columns in self.TABLES.items():
            self.db.execute(f'CREATE TABLE "rocpd_{name}{self.uuid}" ({columns})')
            if views:
                self.db.execute(f'CREATE VIEW "rocpd_{name}" AS SELECT * FROM "rocpd_{name}{self.uuid}"')
        self._add("metadata", tag="schema_version", value=schema)
        self._add("info_agent", id=1, type="CPU", name="cpu", product_name="a made CPU")
        self._add("info_agent", id=2, type="GPU", name="gfx942", product_name="a made APU")
        self._add("info_kernel_symbol", id=1, kernel_name="kernel.kd", display_name="kernel")

    def _add(self, table: str, **values: int | str) -> int:
        names, marks = ", ".join(values), ", ".join("?" * len(values))
        row = self.db.execute(
            f'INSERT INTO "rocpd_{table}{self.uuid}" ({names}) VALUES ({marks})', tuple(values.values())
        )
        return row.lastrowid or 0

    def call(self, name: str, start: int, end: int) -> int:
        """Add a call and return the stack identifier that it shares with what it submits."""
        if name not in self.strings:
            self.strings[name] = self._add("string", string=name)
        stack = self._add("event", stack_id=0) + 1000
        self.db.execute(f'UPDATE "rocpd_event{self.uuid}" SET stack_id = ? WHERE id = ?', (stack, stack - 1000))
        number = self.strings[name]
        self._add("region", pid=1, tid=1, start=start, end=end, name_id=number, event_id=stack - 1000)
        return stack

    def kernel(self, stack: int, start: int, end: int) -> None:
        event = self._add("event", stack_id=stack)
        self._add("kernel_dispatch", pid=1, agent_id=2, kernel_id=1, queue_id=1, start=start, end=end, event_id=event)

    def copy(self, stack: int, start: int, end: int, nbytes: int) -> None:
        event = self._add("event", stack_id=stack)
        agents = {"dst_agent_id": 2, "src_agent_id": 1}
        self._add("memory_copy", pid=1, start=start, end=end, size=nbytes, queue_id=1, event_id=event, **agents)

    def allocate(self, start: int, end: int, address: int, nbytes: int) -> None:
        where = {"address": address, "size": nbytes}
        self._add("memory_allocate", pid=1, tid=1, type="ALLOC", level="REAL", start=start, end=end, **where)

    def free(self, start: int, end: int, address: int) -> None:
        where = {"address": address, "size": 0}
        self._add("memory_allocate", pid=1, tid=1, type="FREE", level="REAL", start=start, end=end, **where)

    def written(self) -> Path:
        self.db.commit()
        self.db.close()
        return self.path
