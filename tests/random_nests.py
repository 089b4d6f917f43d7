"""Random small loop nests, for tests of kernels and of the passes over them."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
from hypothesis import strategies as st
from written import function

from offloadrt.kernels import Kernel, kernel

VARIABLES = "ijk"
SIZE = 600


@attrs.frozen
class Nest:
    """A text, and whether all its loops are rectangles that are not empty."""

    text: str
    rectangular: bool

    def kernel(self) -> tuple[Any, Kernel]:
        made = function(self.text)
        return made, kernel(made)


@st.composite
def indices(draw: st.DrawFn, variables: str) -> str:
    """An affine index from 0 to SIZE - 1 of variables from 0 to 9."""
    terms = [f"{draw(st.integers(1, 15))} * {v}" for v in variables if draw(st.booleans())]
    return " + ".join([*terms, str(draw(st.integers(0, 9)))])


@st.composite
def ranges(draw: st.DrawFn, outer: str, rectangular: bool) -> str:
    kinds = ["n", "3", "0, n, 2", "n - 1, -1, -1", "1, 4", "m"]
    if outer and not rectangular:
        kinds += [f"{outer[-1]}, n", f"{outer[0]}", f"{outer[-1]}, {outer[0]} + 4", f"n, {outer[-1]}, -2", "n, m"]
    return draw(st.sampled_from(kinds))


@st.composite
def statements(draw: st.DrawFn, variables: str, values: st.SearchStrategy[str] | None) -> str:
    place = f"{draw(st.sampled_from('ab'))}[{draw(indices(variables))}]"
    if values is None:
        value = f"{draw(st.sampled_from('abc'))}[{draw(indices(variables))}]"
    else:
        value = draw(values).replace("?", f"{draw(st.sampled_from('abc'))}[{draw(indices(variables))}]", 1)
        value = value.replace("?", f"c[{draw(indices(variables))}]")
    return f"{place} {draw(st.sampled_from(['=', '+=', '-=', '*=']))} {value}"


FORMULAS = st.sampled_from(
    [
        "? / (? - 0.5)",
        "math.exp(?) - math.sin(?)",
        "min(?, ?, 0.25) * 3",
        "? ** 3 - ? * 2",
        "1.0 if ? > ? else 1 / 3",
        "math.sqrt(?) + abs(?)",
        "(? + 1e-9) * 0.5 + ? // 0.75",
        "math.pow(abs(?), 1.7) % 1.25",
        "not (? > 0.1 and ? > 0.1)",
    ]
)
CONDITIONS = st.sampled_from(["a[{0}] > 0.0", "i % 2 == 0", "not b[{0}] < c[0] or n > 3"])


@st.composite
def nests(draw: st.DrawFn, rectangular: bool = False, values: st.SearchStrategy[str] | None = None) -> Nest:
    lines = ["def k(a, b, c, n, m):"]
    for depth in range(draw(st.integers(1, 3))):
        outer = VARIABLES[:depth]
        indent = "    " * (depth + 1)
        lines.append(f"{indent}for {VARIABLES[depth]} in range({draw(ranges(outer, rectangular))}):")
        inside = f"{indent}    "
        for _ in range(draw(st.integers(1, 2))):
            if values is not None and draw(st.booleans()):
                condition = draw(CONDITIONS).format(draw(indices(VARIABLES[: depth + 1])))
                lines.append(f"{inside}if {condition}:")
                lines.append(f"{inside}    {draw(statements(VARIABLES[: depth + 1], values))}")
            lines.append(inside + draw(statements(VARIABLES[: depth + 1], values)))
    lines.append("    a[0] = b[n] + c[m]")
    return Nest("\n".join(lines), rectangular)


def arguments(n: int, m: int) -> list[Any]:
    rng = np.random.default_rng(n)
    a, b = rng.normal(size=SIZE), rng.normal(size=SIZE).astype(np.float32)
    return [a, b, rng.normal(size=SIZE), n, m]
