"""What first-in-first-out primitives must do, as plain data; and how the tests that use it are run."""

from collections import deque

from hypothesis import HealthCheck, settings

WORKERS = 4
UNITS = 2
QUIET = settings(
    derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck), print_blob=False
)


class Reference:
    """What FIFO primitives must do, one atomic operation after the other."""

    def __init__(self):
        self.lock = None
        self.writer, self.readers = None, set()
        self.free, self.units = UNITS, [0] * WORKERS
        self.items = deque()
        self.queues = {name: deque() for name in ("lock", "tables", "units", "box", "signal")}
        self.signal = False
        self.waits = [None] * WORKERS
        self.outcomes = []

    def begin(self, worker, operation):
        where = {"read": "tables", "write": "tables"}.get(operation, operation)
        self.waits[worker] = operation
        self.queues[where].append(worker)
        self.grant(where)

    def grant(self, where):
        """Serve the head of a queue as long as that is possible."""
        waiting = self.queues[where]
        while waiting and (result := self.served(waiting[0])) is not None:
            worker = waiting.popleft()
            self.outcomes.append((worker, self.waits[worker], result))
            self.waits[worker] = None

    def served(self, worker):
        operation = self.waits[worker]
        if operation == "lock" and self.lock is None:
            self.lock = worker
        elif operation == "write" and self.writer is None and not self.readers:
            self.writer = worker
        elif operation == "read" and self.writer is None:
            self.readers.add(worker)
        elif operation == "units" and self.free:
            self.free -= 1
            self.units[worker] += 1
        elif operation == "box" and self.items:
            return self.items.popleft()
        elif operation == "signal" and self.signal:
            pass
        else:
            return None
        return "done"

    def act(self, worker, action):
        """What a worker does without waiting; nothing if it may not."""
        match action:
            case "release", "lock" if self.lock == worker:
                self.lock = None
                self.grant("lock")
            case "release", "tables" if self.writer == worker or worker in self.readers:
                self.writer = None if self.writer == worker else self.writer
                self.readers.discard(worker)
                self.grant("tables")
            case "downgrade", _ if self.writer == worker:
                self.writer = None
                self.readers.add(worker)
                self.grant("tables")
            case "release", "units" if self.units[worker]:
                self.units[worker] -= 1
                self.free += 1
                self.grant("units")
            case "put", item:
                self.items.append(item)
                self.grant("box")
            case "set", _ if not self.signal:
                self.signal = True
                self.grant("signal")
            case "cancel", victim if victim != worker:
                self.give_up(victim, "cancelled")

    def give_up(self, worker, why):
        if (operation := self.waits[worker]) is None:
            return
        where = {"read": "tables", "write": "tables"}.get(operation, operation)
        self.queues[where].remove(worker)
        self.waits[worker] = None
        self.outcomes.append((worker, operation, why))
        self.grant(where)
