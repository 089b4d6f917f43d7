"""A host function as a graph of the paths through it: operations, branches, loops and inlined calls.

`Node` and its successors are the graph. The same nodes are also in nested pieces, in the order of the source: a
`HostLoop` holds those of its rounds, an `InlinedCall` those of the function called. `FlowBuilder` builds both.

`frequencies` computes how often each node is executed in one run of the function.

It works like LLVM's BlockFrequencyInfo. A mass of 1 enters a function or a loop and is spread over its nodes in the
order of the source. The nodes of a loop are then multiplied by the number of its rounds. An inlined call is assumed to
return, whatever is raised in it.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar

import attrs

from offloadrt.kernels.accesses import BRANCH, UNKNOWN_LOOP
from offloadrt.kernels.source import FunctionTree, Source, literal, range_of

Op = TypeVar("Op")
"""The operations of a pass: what a call or an access is to it."""


@attrs.frozen(eq=False)
class HostBranch:
    """Says how control chooses among the successors of a node: by a condition, or only by probabilities."""

    test: ast.expr | None = None
    """Where this condition holds, control goes to the first of two successors. None for a ``match`` and for the
    handlers of exceptions.
    """
    is_weighted: bool = True
    """Whether the weights of the sides decide how likely they are. All handlers of exceptions are equally likely."""


@attrs.define(eq=False)
class Node(Generic[Op]):
    """A point of a function's control flow, with the operation that is executed there.

    A node where paths only part or meet has no operation. next: the nodes to which control goes from here. branch: how
    control chooses among several of these; None if there is one.
    """

    operation: Op | None = None
    branch: HostBranch | None = None
    raises: bool = False
    """Whether the node is a ``raise``. Its successors are the handlers of its exception, if there are any."""
    origin: tuple[int, ...] = ()
    """A key that all copies of one place share: a ``finally`` is copied for each way out of its ``try``."""
    next: list[Node[Op]] = attrs.field(factory=list, repr=False)


@attrs.define(eq=False)
class HostLoop(Generic[Op]):
    """A loop of a host function, in the function's control-flow graph. A round is one iteration.

    Control goes from `start` through the head to `turn`, and from there to the body or to what follows the loop. After
    the body, control goes back to `start`. So the head is executed once more than the body, unless a jump ends the
    loop.
    """

    test: ast.expr | None
    """The test of a ``while``; None for other loops."""
    count: int | None
    """The number of rounds, where the source gives it; else None."""
    start: Node[Op] = attrs.field(factory=Node)
    """The node at which a round begins."""
    turn: Node[Op] = attrs.field(factory=Node)
    """The node from which control goes to the body or, unless the loop is endless, to what follows the loop.

    It has no successors in code that is never reached."""
    head: list[Piece[Op]] = attrs.field(factory=list)
    """The nodes, in nested pieces, of what decides whether there is another round: the test, or the next element."""
    body: list[Piece[Op]] = attrs.field(factory=list)
    """The nodes of the loop's body, in nested pieces."""


@attrs.define(eq=False)
class InlinedCall(Generic[Op]):
    """A function's body, which stands in the control-flow graph in place of a call of the function."""

    start: Node[Op] = attrs.field(factory=Node)
    """The node at which the function begins."""
    after: Node[Op] = attrs.field(factory=Node)
    """The node to which the function returns."""
    body: list[Piece[Op]] = attrs.field(factory=list)
    """The nodes of the function, in nested pieces."""


Piece: TypeAlias = Node[Op] | HostLoop[Op] | InlinedCall[Op]


def nodes_of(pieces: Iterable[Piece[Op]]) -> Iterator[Node[Op]]:
    """Yield all nodes of a control-flow graph, also those in loops and inlined calls, in the order of the source.

    pieces: the graph.
    """
    for piece in pieces:
        if isinstance(piece, Node):
            yield piece
        else:
            yield from nodes_of([*piece.head, *piece.body] if isinstance(piece, HostLoop) else piece.body)


class Scope:
    """Says what each name in a function stands for, at that point of the function's source which is being analysed.

    A subclass for which a name means the same everywhere in a function need not override the methods that follow
    assignments, as they do nothing.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.names: dict[str, Any] = {}
        """What names stand for at the present point of the walk."""

    @property
    def place(self) -> tuple[str, int]:
        """Return the file and the line where the function is defined."""
        return self.source.file, self.source.tree.lineno

    def is_local(self, name: str) -> bool:
        """Tell whether a name belongs to the function, rather than to the module around it."""
        return name in self.names

    def method(self, name: str) -> Any:
        """Return the method for which ``self.name`` stands; None where the source does not tell."""
        return None

    def known(self, node: ast.expr) -> Any:
        """Return the Python object that a dotted name stands for; None where the source does not tell."""
        match node:
            case ast.Name(id=name):
                return None if self.is_local(name) else self.source.names.get(name)
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                return self.method(name)
            case ast.Attribute(value=value, attr=name):
                return getattr(self.known(value), name, None)
        return None

    # following assignments

    @property
    def facts(self) -> int:
        """Return how many names have been found so far that do not stand for one thing in the whole function.

        While a loop is analysed, such a fact may be found that holds from the loop's first iteration on. So if the
        number has grown at the loop's end, the loop is analysed again. A subclass counts them; here there are none.
        """
        return 0

    def define(self, tree: FunctionTree) -> None:
        """Record that a name stands for a function whose definition (`tree`) stands at this point of the source."""

    def assign(self, target: ast.expr, value: ast.expr) -> None:
        """Record that a name, or each of several names on the left of an assignment, stands for a value from here on.

        target, value: the two sides of the assignment, as expressions of the source.
        """

    def unbind(self, names: Iterable[str], why: str) -> None:
        """Record that names stand for different things at different times. why: the reason, for messages."""

    def restore(self, names: Mapping[str, Any]) -> None:
        """Let the names stand again for what they stood for at an earlier point of the source, which `names` says."""
        self.meet([names])

    def meet(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Decide what each name stands for where paths meet. states: by path, what the names stand for at its end."""

    def elements(self, node: ast.expr) -> Sequence[ast.expr]:
        """Return the elements of a loop's iterable if each iteration of the loop is to be analysed by itself.

        Returns none for a loop that is analysed once for all iterations. node: the iterable, as an expression.
        """
        return ()


def parameters(tree: FunctionTree) -> list[str]:
    """Return the names of all parameters of a function (`tree`: its syntax tree)."""
    given = tree.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return [parameter.arg for parameter in every if parameter is not None]


def positional(tree: FunctionTree) -> list[ast.arg]:
    """Return the positional parameters of a function (`tree`: its syntax tree), without ``self``."""
    given = [*tree.args.posonlyargs, *tree.args.args]
    return given[1:] if given and given[0].arg == "self" else given


def own_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function's syntax tree, without those of functions and classes inside it."""
    for child in ast.iter_child_nodes(tree):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            yield from own_nodes(child)


def assigned(nodes: Iterable[ast.AST]) -> list[str]:
    """Return the names to which these nodes assign, except inside nested functions and comprehensions."""
    names: dict[str, None] = {}
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names[node.id] = None
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef | ast.comprehension):
            names.update(dict.fromkeys(assigned(ast.iter_child_nodes(node))))
    return list(names)


def outer_names(tree: FunctionTree) -> list[str]:
    """Return the names that a function assigns to although they belong to a function around it, or to the module.

    tree: the function's syntax tree.
    """
    declared: list[str] = []
    inner: list[str] = []
    rest: list[ast.AST] = [*tree.body]
    while rest:
        node = rest.pop(0)
        if isinstance(node, ast.Nonlocal | ast.Global):
            declared += node.names
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inner += outer_names(node)
        else:
            rest += ast.iter_child_nodes(node)
    own = [*parameters(tree), *assigned(tree.body)]
    return [*declared, *(name for name in inner if name not in own)]


S = TypeVar("S", bound=Scope)

Walk = Callable[[], None]
"""A function that walks through a part of the source."""


@attrs.frozen(eq=False)
class _Round:
    """A round of a loop: the node where the next one begins, and the node to which ``break`` leads."""

    start: Node[Any]
    after: Node[Any]


@attrs.frozen(eq=False)
class _Handlers:
    """A ``try`` with exception handlers. `node` is the branch that chooses among them."""

    node: Node[Any]


K = TypeVar("K", _Round, _Handlers)


class FlowBuilder(Generic[Op, S]):
    """Builds the control-flow graph of a function, piece by piece in the order of the source.

    It has a present path, to which the next node is appended. scope: what the names stand for. Where paths meet, the
    builder asks the scope what the names stand for from there on. After a jump there is no present path. Code there
    gets nodes without a predecessor, and what its names stand for is not taken into account where paths meet.
    """

    def __init__(self, scope: S) -> None:
        self.scope = scope
        """The scope of the function that the walk is in."""
        self.entry, self.exit = Node[Op](), Node[Op]()
        """The nodes at which the function that the walk is in begins, and to which it returns."""
        self.pieces: list[Piece[Op]] = [self.entry]
        self._end: Node[Op] | None = self.entry
        """The node whose successor comes next; None where there is no path."""
        self._arrivals: dict[Node[Op], list[dict[str, Any]]] = {}
        """For each node that the walk has not reached, what the names stand for on each path that has jumped to it."""
        self._passed: list[_Round | _Handlers | Walk] = []
        """What a jump passes on its way out of the function, the innermost last: loops, handlers, and the code of
        ``finally`` and of the ends of ``with``.
        """
        self._context: list[int] = []
        """The inlined calls that the walk is in, and the rounds of unrolled loops."""

    # nodes

    def jump(self, node: Node[Op]) -> None:
        """End the present path of control with an edge to `node`; later code needs another path that leads to it."""
        if self._end is not None:
            self._end.next.append(node)
            self._arrivals.setdefault(node, []).append(dict(self.scope.names))
            self._end = None

    def reach(self, node: Node[Op]) -> None:
        """Add `node` to the control-flow graph, as the next node of the present path."""
        self.pieces.append(node)
        self._resume(node)

    def _resume(self, node: Node[Op]) -> None:
        """Continue at a node that is already in a piece, and join the names of all paths that lead to it."""
        states = self._arrivals.pop(node, [])
        if self._end is not None:
            self._end.next.append(node)
            states = [dict(self.scope.names), *states] if states else []
        elif not states:
            return
        if states:
            self.scope.meet(states)
        self._end = node

    def emit(self, operation: Op, origin: int) -> None:
        """Append a node with an operation to the present path of the control-flow graph.

        operation: what is executed there. origin: a key for its place in the source: copies of one place have equal
        keys.
        """
        self.reach(Node(operation, origin=(origin, *self._context)))

    # what leaves a piece of the source

    def leave_function(self, last: Walk) -> None:
        """Add a ``return`` to the control-flow graph: the path goes through ``finally`` blocks and `last` to the exit.

        last: a function that adds what is executed just before the function is left.
        """
        self._pass_to(None)
        last()
        self.jump(self.exit)

    def leave_round(self, is_break: bool) -> None:
        """Add a ``break`` or ``continue`` to the control-flow graph, which leaves an iteration of the innermost loop.

        is_break: whether the path goes to what follows the loop, rather than to the next iteration.
        """
        if (left := self._pass_to(_Round)) is not None:
            self.jump(left.after if is_break else left.start)

    def leave_by_exception(self, operation: Op | None) -> None:
        """Add a ``raise`` to the control-flow graph: the path goes to the innermost handlers, or ends without any.

        operation: what stands for the ``raise`` in the graph; None for nothing.
        """
        handlers = self._pass_to(_Handlers)
        self.reach(Node(operation, raises=True))
        if handlers is not None:
            self.jump(handlers.node)
        self._end = None

    def _pass_to(self, kind: type[K] | None) -> K | None:
        """Run the code that a jump passes on its way to the innermost loop or handlers, or out of the function.

        Passed code sees only what lies outside of it: a ``break`` in a ``finally`` leaves the loop around the `try`.
        """
        passed, target = self._passed, None
        while self._passed and target is None:
            *self._passed, innermost = self._passed
            if kind is not None and isinstance(innermost, kind):
                target = innermost
            elif self._end is not None and not isinstance(innermost, _Round | _Handlers):
                innermost()
        self._passed = passed
        return target

    # pieces of the source

    def alternatives(self, branch: HostBranch, *sides: Walk) -> None:
        """Add a branch to the control-flow graph: paths that part here and meet again afterwards.

        branch: the condition and the weights. sides: for each path, a function that adds its code to the graph.
        """
        fork = Node[Op](branch=branch)
        self.reach(fork)
        join = Node[Op]()
        self._part(join, *sides)
        self.reach(join)

    def _part(self, join: Node[Op], *sides: Walk) -> None:
        """Walk through paths that part here and all jump to `join`."""
        end, before = self._end, dict(self.scope.names)
        for side in sides:
            self._end = end
            self.scope.restore(before)
            side()
            self.jump(join)

    def cleaned_up(self, body: Walk, cleanup: Walk) -> None:
        """Add `body` to the control-flow graph, and `cleanup` to every path that leaves it, as ``try … finally`` does.

        body, cleanup: functions that add these parts of the source.
        """
        self._passed.append(cleanup)
        body()
        self._passed.pop()
        cleanup()

    def guarded(self, body: Walk, otherwise: Walk, *handlers: Walk) -> None:
        """Add a ``try`` to the control-flow graph: exceptions in `body` lead to `handlers`, other paths to `otherwise`.

        body, otherwise, handlers: functions that add these parts of the source; `otherwise` is the ``else``.
        """
        if not handlers:
            body()
            otherwise()
            return
        before, choice, join = dict(self.scope.names), Node[Op](branch=HostBranch(is_weighted=False)), Node[Op]()
        self._passed.append(_Handlers(choice))
        body()
        self._passed.pop()
        inside = dict(self.scope.names)
        otherwise()
        self.jump(join)
        # Calls raise exceptions too, anywhere in the body. These are not followed, but the names may be as they leave
        # them.
        raised = self._arrivals.pop(choice, [])
        self.scope.meet([before, inside, *raised])
        self.pieces.append(choice)
        self._end = choice if raised else None
        self._part(join, *handlers)
        self.reach(join)

    def loop(self, loop: HostLoop[Op], head: Walk, body: Walk, otherwise: Walk, endless: bool = False) -> None:
        """Add a loop to the control-flow graph, once for all its iterations.

        loop: the loop, to be filled with what is built. head, body, otherwise: functions that add these parts of the
        source: what is executed before each iteration, in it, and when no iteration is left (``else``). endless:
        whether the loop ends only by a jump (``while True``).

        If facts about the whole function are found in it (`Scope.facts`), the loop is built a second time with these.
        """
        self._resume(loop.start)
        start, before = self._end, dict(self.scope.names)
        facts, outside, after = self.scope.facts, self.pieces, Node[Op]()
        self.pieces = loop.head
        self.pieces.append(loop.start)
        head()
        self._resume(loop.turn)
        turn = self._end
        self.pieces = loop.body
        self._passed.append(_Round(loop.start, after))
        body()
        self._passed.pop()
        self.jump(loop.start)
        self.pieces = outside
        again = self._arrivals.pop(loop.start, [])
        if self.scope.facts > facts:
            # What was built of this round is dropped: its nodes are in no piece, and nothing leads to them any more.
            loop.start.next.clear()
            self.scope.restore(before)
            if start is not None:
                self._arrivals[loop.start] = [before]
            self.loop(HostLoop(loop.test, loop.count, loop.start), head, body, otherwise, endless)
            return
        self.pieces.append(loop)
        self.scope.meet([before, *again])
        self._end = None if endless else turn
        otherwise()
        self.reach(after)

    def unrolled(self, rounds: Sequence[Walk], otherwise: Walk) -> None:
        """Add each iteration of a loop to the control-flow graph separately, one after the other.

        rounds: for each iteration, a function that adds its code. otherwise: a function that adds what is executed when
        no iteration is left (``else``).
        """
        after = Node[Op]()
        for number, body in enumerate(rounds):
            following = Node[Op]()
            self._context.append(number)
            self._passed.append(_Round(following, after))
            body()
            self._passed.pop()
            self._context.pop()
            self.reach(following)
        otherwise()
        self.jump(after)  # behind the breaks, which come first: a message names objects in this order
        self.reach(after)

    def inlined(self, scope: S, body: Walk, origin: int) -> None:
        """Add the body of a called function to the control-flow graph, in place of the call, which always returns.

        scope: the names in the called function. body: adds its code. origin: a key of where the call stands in the
        source.
        """
        call = InlinedCall[Op]()
        self._resume(call.start)
        end = self._end
        outside = self.scope, self.exit, self.pieces, self._passed
        self.scope, self.exit, self.pieces, self._passed = scope, call.after, call.body, []
        self._context.append(origin)
        self.pieces.append(call.start)
        body()
        self.jump(call.after)
        self._context.pop()
        self.scope, self.exit, self.pieces, self._passed = outside
        self._arrivals.pop(call.after, None)  # names of the function, which is left
        self.pieces += [call, call.after]
        self._end = None if end is None else call.after


NEVER: Final = 0
LEAVES: Final = 4
STAYS: Final = 124
"""Weights of the sides of a branch: those that raise, that leave the innermost loop, and that stay in it."""


@attrs.frozen
class Rounds:
    """Says how often the parts of a loop are executed each time that control reaches the loop."""

    body: float
    """The mean number of iterations."""
    tests: float
    """The mean number of times that the test of a ``while`` is evaluated."""
    exhausted: float
    """The probability that the loop ends because no round is left, rather than by a jump."""

    @classmethod
    def written(cls, count: int, again: float) -> Rounds:
        """Compute how often a loop runs that has at most `count` iterations.

        again: the probability that an iteration leads to the next.
        """
        starts = float(count) if again == 1.0 else (1.0 - again**count) / (1.0 - again)
        return cls(starts, starts, again**count)

    @classmethod
    def unknown(cls, again: float, holds: float | None = None) -> Rounds:
        """Estimate how often a loop runs whose number of iterations the source does not give.

        again: the probability that an iteration leads to the next test. holds: the probability that the test of a
        ``while`` holds; None where that is not known either, as for a loop over data.
        """
        if holds is None:
            starts = 1.0 / (1.0 - (1.0 - 1.0 / UNKNOWN_LOOP) * again)
            return cls(starts, starts, starts * again / UNKNOWN_LOOP)
        starts = holds / (1.0 - holds * again) if holds * again < 1.0 else UNKNOWN_LOOP
        tests = 1.0 + starts * again
        return cls(starts, tests, tests * (1.0 - holds))


def case_blocks(node: ast.Match) -> list[list[ast.stmt]]:
    """Return the statements of each case of a ``match``, and an empty block if it is possible that none matches."""
    blocks = [case.body for case in node.cases]
    last = node.cases[-1]
    always = isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None and last.guard is None
    return blocks if always else [*blocks, []]


def shares(weights: Sequence[int]) -> list[float]:
    """Return the probabilities of a branch's sides, in proportion to their weights; they add up to 1."""
    total = sum(weights)
    return [weight / total if total else 1.0 / len(weights) for weight in weights]


def known(test: ast.expr | None) -> float | None:
    """Return the probability that a condition holds, if it is a constant or a call of `expect` states it; else None.

    test: the condition, as an expression of the source.
    """
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            holds = known(operand)
            return None if holds is None else 1.0 - holds
        case ast.Constant(value=value):
            return float(bool(value))
        case ast.Call(func=ast.Name(id="expect"), keywords=[ast.keyword(arg="probability", value=value)]):
            hint = literal(value)
            return None if hint is None else float(hint)
    return None


def probability(test: ast.expr, then: int = STAYS, other: int = STAYS) -> float:
    """Return the probability that a condition holds, computed from the weights of its two sides.

    test: the condition, as an expression of the source. then, other: the weights of the side where it holds and of the
    other side: NEVER if that side raises, LEAVES if it leaves the loop, or STAYS. Each part of ``and`` and ``or``
    counts as a separate branch.
    """
    holds = known(test)
    if holds is not None:
        return holds
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return 1.0 - probability(operand, other, then)
        case ast.BoolOp(op=op, values=[*values, last]):
            conjunction, onward, product = isinstance(op, ast.And), max(then, other), 1.0
            for value in values:
                taken = probability(value, onward, other) if conjunction else probability(value, then, onward)
                product *= taken if conjunction else 1.0 - taken
            taken = probability(last, then, other)
            return product * taken if conjunction else 1.0 - product * (1.0 - taken)
    return BRANCH if then == other else shares((then, other))[0]


def iterations(node: ast.expr) -> int | None:
    """Return how often a loop over this expression (behind ``in``) runs; None where the source does not give it."""
    call = range_of(node)
    if call is not None:
        bounds = [bound for bound in map(literal, call.args) if isinstance(bound, int)]
        return len(range(*bounds)) if len(bounds) == len(call.args) else None
    if isinstance(node, ast.Tuple | ast.List) and not any(isinstance(part, ast.Starred) for part in node.elts):
        return len(node.elts)
    return None


Weights = defaultdict[Node[Any], int]
"""For each node, the largest weight among the paths from it. Paths that leave the innermost loop have the default."""


def frequencies(pieces: Sequence[Piece[Any]], entry: Node[Any]) -> dict[Node[Any], float]:
    """Return how often each node of a control-flow graph is executed, on average, in one run of the function.

    pieces: the graph. entry: its first node. Unreachable nodes may be missing.
    """
    sides: dict[Node[Any], list[int]] = {}
    _weigh(pieces, defaultdict(lambda: STAYS), STAYS, sides)
    return _spread(pieces, {entry: 1.0}, 1.0, sides)


def _weigh(pieces: Sequence[Piece[Any]], weights: Weights, returned: int, sides: dict[Node[Any], list[int]]) -> None:
    """Compute the weight of the paths from each node, and so of the sides of each branch.

    returned: the weight of a return. Loops with a written number of rounds do not count as loops: a branch that leaves
    one is like any other branch.
    """
    for piece in reversed(pieces):
        if isinstance(piece, Node):
            paths = [weights[node] for node in piece.next]
            if piece.branch is not None:
                sides[piece] = paths
            weights[piece] = NEVER if piece.raises else max(paths, default=NEVER)
        elif not isinstance(piece, HostLoop):
            _weigh(piece.body, defaultdict(lambda: STAYS), STAYS, sides)
            weights[piece.start] = weights[piece.after]
        elif piece.turn.next:
            first, *out = piece.turn.next
            # Seen from outside, going round leads nowhere, and an endless loop ends as a return does.
            through = weights.copy()
            through[piece.start] = NEVER
            _weigh(piece.body, through, returned, sides)
            ended = returned if known(piece.test) == 1.0 else weights[out[0]]
            weights[piece.start] = max(ended, through[first])
            # Seen from inside, it is what the loop does.
            inner: Weights = weights.copy() if piece.count is not None else defaultdict(lambda: LEAVES)
            if piece.count is None:
                inner[piece.start] = STAYS
            _weigh(piece.body, inner, returned if piece.count is not None else LEAVES, sides)


def _spread(
    pieces: Iterable[Piece[Any]], mass: dict[Node[Any], float], times: float, sides: dict[Node[Any], list[int]]
) -> dict[Node[Any], float]:
    """Spread the mass that has come to some nodes over these pieces; return how often each node is executed.

    times: how often a node with mass 1 is executed. Mass that goes on to nodes outside of these pieces is left in
    `mass`.
    """
    comes: dict[Node[Any], float] = {}

    def move(node: Node[Any], part: float) -> None:
        mass[node] = mass.get(node, 0.0) + part

    for piece in pieces:
        if isinstance(piece, Node):
            here = mass.pop(piece, 0.0)
            comes[piece] = times * here
            for node, taken in zip(piece.next, _probabilities(piece, sides), strict=True):
                move(node, here * taken)
            continue
        here = mass.pop(piece.start, 0.0)
        if not isinstance(piece, HostLoop):
            comes.update(_spread(piece.body, {piece.start: 1.0}, times * here, sides))
            move(piece.after, here)
        elif piece.turn.next:
            first, *out = piece.turn.next
            leaves = {first: 1.0}
            head = _spread(piece.head, {piece.start: 1.0}, times * here, sides)
            body = _spread(piece.body, leaves, times * here, sides)
            again = leaves.pop(piece.start, 0.0)
            rounds = (
                Rounds.unknown(again, known(piece.test)) if piece.count is None else Rounds.written(piece.count, again)
            )
            comes.update({node: often * rounds.tests for node, often in head.items()})
            comes.update({node: often * rounds.body for node, often in body.items()})
            for node, part in leaves.items():
                move(node, here * (part * rounds.body))
            for node in out:
                move(node, here * rounds.exhausted)
    return comes


def _probabilities(node: Node[Any], sides: dict[Node[Any], list[int]]) -> list[float]:
    """Return the probabilities with which control goes on to each successor."""
    branch, number = node.branch, len(node.next)
    if branch is None or not number:
        return [1.0] * number
    weights = sides[node] if node in sides and branch.is_weighted else [STAYS] * number
    if branch.test is None:
        return shares(weights)
    holds = probability(branch.test, *weights)
    return [holds, 1.0 - holds]
