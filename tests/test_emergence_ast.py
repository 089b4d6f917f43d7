"""No duration in the package is computed from how many threads, waiters, transfers or kernels there are.

The one exception is ``machine/share.py``.  The check follows names, attributes and returned values through the sources:
what is computed from a count of users must not reach a call that lets time pass.
"""

import ast
import re
from pathlib import Path

import pytest

import offloadrt

PACKAGE = Path(offloadrt.__file__).parent
EXEMPT = {"machine/share.py"}

PASSES_TIME = {
    "sleep", "compute", "serve", "work", "locked_work", "enter", "locked", "begin", "submit", "get_until",
    "move_on_after", "fail_after", "jitter", "pay", "join", "carry",
}  # fmt: skip
"""Calls whose arguments are durations (``submit`` has one among its arguments)."""

USERS = re.compile(
    r"waiters|tasks_waiting|getters|in_service|in_flight|contended|num_threads|n_threads|thread_count|queue_length|backlog"
    r"|_?resident$|_?launching$|_?waiting$|_?draining$|^users$|concurrent|occupants|pending|neighbours|actors"
    r"|_?stalled$|_?faults$|^messages$|^items$|^needed$|^served$"
)
"""Names of things that contend, or of how many there are."""

ARITHMETIC = {"abs", "ceil", "float", "floor", "fsum", "int", "log", "max", "min", "pow", "round", "sqrt", "sum"}
"""Functions whose value is a count when their argument is; other calls make something else of it (an error, a row)."""


PER_ENTRY = {"fetch_entry", "preprocess_entry", "service_entry", "flush_entry"}
"""Unit costs of an entry of the fault buffer, which the driver handles one after the other: the entries of a batch are
its size, as the bytes of a copy are, and such a cost times their number is what the loop over them takes."""


COUNTS = {"tasks_waiting", "num_threads", "n_threads"}
"""Names that are a number of users wherever they stand."""


def name_of(node):
    return getattr(node, "attr", None) or getattr(node, "id", None)


def handles_entries(node):
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and name_of(node.left) in PER_ENTRY


def walk(node):
    """All parts of an expression but the handling of entries."""
    if not handles_entries(node):
        yield node
        for part in ast.iter_child_nodes(node):
            yield from walk(part)


def mentions_users(node):
    name = name_of(node)
    return name is not None and USERS.search(name) is not None


class Flow(ast.NodeVisitor):
    """Which expressions of one function are computed from a count of users."""

    def __init__(self, tainted):
        self.tainted = tainted  # names of functions and attributes that hold such counts, package-wide
        self.names = set()  # local variables that do
        self.found = []  # (line, call) of durations that do
        self.returns = False
        self.attributes = set()

    def follow(self, function):
        self.found.clear()
        for statement in function.body:
            self.visit(statement)

    def counts(self, node):
        """Whether the value of an expression is computed from a count of users."""
        if isinstance(node, ast.Name):
            return node.id in self.names or node.id in COUNTS
        if isinstance(node, ast.Attribute):
            return node.attr in self.tainted or node.attr in COUNTS
        if isinstance(node, ast.Call):
            called = name_of(node.func)
            if called == "how_many":  # faulted pages
                return True
            if called == "len":
                return any(mentions_users(inner) for argument in node.args for inner in ast.walk(argument))
            return called in self.tainted or (called in ARITHMETIC and any(map(self.counts, node.args)))
        if handles_entries(node):
            return False
        if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Compare, ast.BoolOp, ast.NamedExpr, ast.Await)):
            return any(map(self.counts, ast.iter_child_nodes(node)))
        return False

    def assign(self, target, counted):
        if isinstance(target, ast.Name):
            (self.names.add if counted else self.names.discard)(target.id)
        elif isinstance(target, ast.Attribute) and counted:
            self.attributes.add(target.attr)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for part in target.elts:
                self.assign(part, counted)
        elif isinstance(target, (ast.Starred, ast.Subscript)) and counted:
            self.assign(target.value, counted)

    def visit_Assign(self, node):
        self.generic_visit(node)
        for target in node.targets:
            self.assign(target, self.counts(node.value))

    def visit_AugAssign(self, node):
        self.generic_visit(node)
        if self.counts(node.value):
            self.assign(node.target, True)

    def visit_AnnAssign(self, node):
        self.generic_visit(node)
        self.assign(node.target, self.counts(node.value))

    def visit_NamedExpr(self, node):
        self.generic_visit(node)
        self.assign(node.target, self.counts(node.value))

    def visit_Return(self, node):
        self.generic_visit(node)
        self.returns |= self.counts(node.value)

    def visit_Call(self, node):
        self.generic_visit(node)
        if name_of(node.func) in PASSES_TIME:
            arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
            if any(self.counts(part) for argument in arguments for part in walk(argument)):
                self.found.append((node.lineno, ast.unparse(node)))

    def visit_FunctionDef(self, node):
        pass  # every function is followed by itself

    visit_AsyncFunctionDef = visit_Lambda = visit_ClassDef = visit_FunctionDef


def functions(tree):
    return [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def durations_from_counts(sources):
    """(file, line, call) wherever a duration is computed from a count of users.  ``sources`` maps files to texts."""
    parsed = [
        (file, function, {*re.findall(r"\w+", "\n".join(lines[function.lineno - 1 : function.end_lineno]))})
        for file, text in sources.items()
        if (lines := text.splitlines())
        for function in functions(ast.parse(text))
    ]
    tainted, found = set(), {}
    changed = [*range(len(parsed))]  # functions that name something that is newly tainted
    while changed:
        grown = set()
        for place in changed:
            file, function, _ = parsed[place]
            flow = Flow(tainted)
            flow.follow(function)
            if flow.names:  # a second time for what a loop carries around
                flow.follow(function)
            found[place] = [(file, *one) for one in flow.found]
            grown |= flow.attributes
            if flow.returns and not function.name.startswith("__"):
                grown.add(function.name)
        grown -= tainted
        tainted |= grown
        changed = [place for place, (_, _, names) in enumerate(parsed) if names & grown]
    return [one for place in sorted(found) for one in found[place]]


def sources():
    files = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
    return {file: (PACKAGE / file).read_text(encoding="utf-8") for file in files if file not in EXEMPT}


def test_no_duration_is_computed_from_a_number_of_users():
    assert len(sources()) > 30
    assert durations_from_counts(sources()) == []


@pytest.mark.parametrize(
    "body",
    [
        "await self.sim.sleep(self.cost * len(self.lock.waiters))",
        "await cores.compute(cost * lock.statistics().tasks_waiting)",
        "await self.sim.sleep(cost * self.num_threads)",
        "crowd = 1 + len(self.waiters)\n    dt = cost * crowd\n    await self.sim.sleep(dt)",
        "dt = cost\n    dt += len(self.kernels_in_flight) * cost\n    await self.work(dt)",
        "await station.serve(slow if len(self._waiting) > 4 else fast)",
        "await self.sim.sleep(penalty(self))",
        "self.own_delay = cost * len(self.waiters)\n    await self.sim.sleep(self.own_delay)",
        "while True:\n        await sim.sleep(dt)\n        dt = cost * len(waiters)",
        "await uvm.pay(costs.batch * how_many(first.pages))",
        "await uvm.pay(costs.fetch_entry * entries + costs.batch * len(self.waiters))",
        "await uvm.pay(costs.batch * (1 + len(mailbox.items)))",
        "amount = alone * (1 + len(self.stalled))\n    self.share.join(now, amount, demand)",
    ],
)
def test_the_check_finds_what_is_not_allowed(body):
    module = f"def penalty(self):\n    return self.cost * len(self.waiters)\nasync def run(self, dt=0.0):\n    {body}\n"
    assert durations_from_counts({"cheat.py": module})


@pytest.mark.parametrize(
    "body",
    [
        "await self.sim.sleep(self.cost)",
        "for stream in self.streams:\n        await self.sim.sleep(self.cost)",
        "await self.sim.sleep(len(data) / bandwidth)",
        "await uvm.pay(costs.fetch + costs.fetch_entry * how_many(fetched.pages))",
        "self.peak = max(self.peak, len(self.waiters))\n    await self.sim.sleep(self.cost)",
        "dt = self.handover if self.lock.owner is not None else 0.0\n    await self.sim.sleep(dt)",
    ],
)
def test_the_check_allows_what_is_allowed(body):
    assert not durations_from_counts({"fine.py": f"async def run(self):\n    {body}\n"})
