"""What tracing costs: `python bench/trace.py [--json] [--check]`.

One scenario (exahype, one A100) is run again and again in one process, the variants taking turns:

    bare    a build of offloadrt whose hooks (`if (trace := self.trace) is not None: …`) are cut out of the source
    off     the real build, no trace wanted
    hash    the trace hash alone
    on      every event recorded in memory
    both    recorded and hashed
    who     every event recorded, and who lets whom go on, as `why` and `report` do

Two estimates of each ratio are printed: the CPU times of the fastest rounds, one to the other, and the median of the
ratios round by round. A slow stretch of a shared machine moves the one or the other, seldom both. "off" is too small
to be seen well and is estimated a third way: the number of tests against None, at least one an event, times what one
such test takes in a loop. `--check` fails when off > 1.02, on > 1.5 or who > 1.5 by every estimate.
"""

import argparse
import ast
import gc
import json
import statistics
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from time import perf_counter, process_time
from types import CodeType, ModuleType, TracebackType
from typing import Any

PARAMETERS = {"threads": 32, "patches": 100, "batch": 4, "memory": "map"}
LIMIT_OFF = 1.02
LIMIT_ON = 1.5


class Unhook(ast.NodeTransformer):
    """Cuts the statements out that run only when there is a trace or an observer; counts them."""

    def __init__(self) -> None:
        self.cut = 0

    def visit_If(self, node: ast.If) -> ast.AST:
        """A hook becomes nothing."""
        self.generic_visit(node)
        if node.orelse or not self._asks_for_a_trace(node.test):
            return node
        self.cut += 1
        return ast.copy_location(ast.Pass(), node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        """A call of a method that does nothing but record becomes nothing."""
        match node.value:
            case ast.Call(ast.Attribute(attr="trace")):
                self.cut += 1
                return ast.copy_location(ast.Pass(), node)
        return node

    @staticmethod
    def _asks_for_a_trace(test: ast.expr) -> bool:
        match test:
            case ast.Compare(left, [ast.IsNot()], [ast.Constant(None)]):
                asked = left.value if isinstance(left, ast.NamedExpr) else left
            case _:
                return False
        name = asked.attr if isinstance(asked, ast.Attribute) else asked.id if isinstance(asked, ast.Name) else ""
        return name in ("trace", "observer", "tell")


class Loader(SourceFileLoader):
    """Compiles from the source, never from a cache; without hooks if asked."""

    cuts = 0
    unhooked = False

    def get_code(self, fullname: str) -> CodeType:
        """The code of the module."""
        path = self.get_filename(fullname)
        tree = ast.parse(self.get_data(path), path)
        if self.unhooked:
            unhook = Unhook()
            tree = ast.fix_missing_locations(unhook.visit(tree))
            type(self).cuts += unhook.cut
        return compile(tree, path, "exec", dont_inherit=True)


class UnhookedLoader(Loader):
    """Compiles without hooks."""

    unhooked = True


class Build(MetaPathFinder):
    """A set of offloadrt's modules of its own; `with build:` makes it the one that imports find."""

    def __init__(self, loader: type[Loader]) -> None:
        self.loader = loader
        self._modules: dict[str, ModuleType] = {}
        self._others: dict[str, ModuleType] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find offloadrt's modules where they are, and load them our way."""
        if not _ours(fullname):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None and spec.origin.endswith(".py"):
            spec.loader = self.loader(fullname, spec.origin)
        return spec

    def __enter__(self) -> None:
        self._others = _take_modules()
        sys.modules.update(self._modules)
        sys.meta_path.insert(0, self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        sys.meta_path.remove(self)
        self._modules = _take_modules()
        sys.modules.update(self._others)

    def run(self, **options: Any) -> tuple[float, Any]:
        """Run the scenario: CPU seconds of the run, and its result."""
        with self:
            from offloadrt.extensions.explaining.causal_log import CausalLog
            from offloadrt.study import execute, find_scenario

            scenario = find_scenario("exahype")
            if options.get("causal_log"):
                options["causal_log"] = CausalLog()
            gc.collect()
            start = process_time()
            result = execute(scenario, PARAMETERS, **options)
            return process_time() - start, result


def _ours(name: str) -> bool:
    return name.split(".")[0] == "offloadrt"


def _take_modules() -> dict[str, ModuleType]:
    return {name: sys.modules.pop(name) for name in list(sys.modules) if _ours(name)}


class Counter:
    """A sink that counts events."""

    def __init__(self) -> None:
        self.events = 0

    def write(self, rows: Sequence[Any], /) -> None:
        """Count some rows."""
        self.events += len(rows)

    def close(self) -> None:
        """Nothing is left to do."""


class _Component:
    """Something with a trace that is None."""

    __slots__ = ("trace",)

    def __init__(self) -> None:
        self.trace: Any = None


def seconds_per_test(times: int = 200_000) -> float:
    """What `if (trace := self.trace) is not None` takes, less the loop around it: the fastest of some tries."""
    component = _Component()
    best = float("inf")
    for _ in range(15):
        start = perf_counter()
        for _ in range(times):
            if (trace := component.trace) is not None:
                trace()
        middle = perf_counter()
        for _ in range(times):
            pass
        best = min(best, (middle - start) - (perf_counter() - middle))
    return max(best, 0.0) / times


def measure(rounds: int) -> dict[str, Any]:
    """The figures that are printed."""
    bare, real = Build(UnhookedLoader), Build(Loader)
    variants: dict[str, tuple[Build, dict[str, Any]]] = {
        "bare": (bare, {}),
        "off": (real, {}),
        "hash": (real, {"hash": True}),
        "on": (real, {"record": True, "hash": False}),
        "both": (real, {"record": True}),
        "who": (real, {"record": True, "hash": False, "causal_log": True}),
    }
    times: dict[str, list[float]] = {name: [] for name in variants}
    virtual: set[float] = set()
    counter = Counter()
    for number in range(rounds + 1):
        names = list(variants)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            build, options = variants[name]
            if number == 0:  # imports, compiles, warms up; counts
                build.run(**options, sinks=[counter] if name == "on" else [])
                continue
            seconds, result = build.run(**options)
            virtual.add(result.elapsed_s)
            times[name].append(seconds)
    events = counter.events
    if len(virtual) != 1:
        raise AssertionError(f"the variants disagree about the virtual time: {sorted(virtual)}")
    fastest = {name: min(seconds) for name, seconds in times.items()}
    test = seconds_per_test()

    def ratio(name: str, to: str) -> dict[str, float]:
        by_round = [a / b for a, b in zip(times[name], times[to], strict=True)]
        return {"fastest": fastest[name] / fastest[to], "median": statistics.median(by_round)}

    return {
        "scenario": {"name": "exahype", **PARAMETERS},
        "rounds": rounds,
        "events": events,
        "hooks": UnhookedLoader.cuts,
        "cpu_s": fastest,
        "off": {**ratio("off", "bare"), "estimated": 1.0 + events * test / fastest["off"], "test_ns": test * 1e9},
        "hash": ratio("hash", "off"),
        "both": ratio("both", "off"),
        "who": ratio("who", "off"),
        "on": {**ratio("on", "off"), "event_ns": (fastest["on"] - fastest["off"]) / max(events, 1) * 1e9},
    }


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--check", action="store_true", help="exit with 1 when tracing costs too much")
    parser.add_argument("--slack", type=float, default=1.0, help="multiply what tracing may add by this (1)")
    parser.add_argument("--rounds", type=int, default=9, help="how many times each variant runs (9)")
    arguments = parser.parse_args()
    figures = measure(arguments.rounds)
    off, on, who = figures["off"], figures["on"], figures["who"]
    if arguments.json:
        print(json.dumps(figures, indent=2))
    else:
        print(f"exahype {PARAMETERS}: {figures['events']} events, {figures['hooks']} hooks in the source")
        for name, to in (("off", "bare"), ("hash", "off"), ("on", "off"), ("both", "off"), ("who", "off")):
            print(f"{name:>4} / {to:<4}  fastest {figures[name]['fastest']:.3f}  median {figures[name]['median']:.3f}")
        print(f"off by the count of its tests {off['estimated']:.4f}; on {on['event_ns']:.0f} ns an event")
    if not arguments.check:
        return 0
    limit_off, limit_on = (1.0 + (limit - 1.0) * arguments.slack for limit in (LIMIT_OFF, LIMIT_ON))
    failed = min(off["fastest"], off["median"], off["estimated"]) > limit_off or any(
        min(one["fastest"], one["median"]) > limit_on for one in (on, who)
    )
    if failed:
        print(f"tracing costs too much: off may be {limit_off:g}, on {limit_on:g} times the run", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
