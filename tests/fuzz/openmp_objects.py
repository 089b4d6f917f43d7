"""The objects of a random OpenMP program: how C declares their types, and how clauses and loops name them."""

from __future__ import annotations

import attrs

HEADER = """\
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { int n; double x[16]; double *p; int y[8]; } Pair;
typedef struct { int n; double *d; } Vector;
#pragma omp declare mapper(Vector v) map(v, v.d[0:v.n])
#pragma omp declare mapper(only_data : Vector v) map(to: v.n) map(tofrom: v.d[0:v.n])

static _Thread_local double sum;
static volatile int on = 1;
"""


@attrs.define
class Storage:
    """An object, how it is written in a clause, and what of it is present."""

    name: str
    kind: str
    """heap, stack, static, declared (declare target), matrix, pair, vector"""
    size: int
    lo: int = 0
    """Where what is present begins, and how long it is."""
    length: int = 0
    count: float = 0
    """References to it; 0: it is not present."""
    regions: int = 0
    """How many `target data` regions around here map it."""
    elements: int = 0
    """How many a vector has."""
    frozen: bool = False
    """Whether it was deleted within a region that maps it: nothing maps it until the region has ended."""

    @property
    def by_elements(self) -> bool:
        """Tell whether sections of it can be mapped."""
        return self.kind in ("heap", "stack", "static")

    def section(self, lo: int, length: int) -> str:
        """Return a section as a clause has it."""
        match self.kind:
            case "matrix":
                return f"{self.name}[{lo}:{length}][0:8]"
            case "pair" | "vector":
                return self.name
        return f"{self.name}[{lo}:{length}]"

    def work(self, lo: int, length: int, by: int) -> str:
        """Return statements that change what a section has."""
        match self.kind:
            case "matrix":
                return f"for (int i = {lo}; i < {lo + length}; i++) {self.name}[i][i % 8] += {by};"
            case "pair":
                return f"for (int i = 0; i < 8; i++) {{ {self.name}.x[i] += {by}; {self.name}.y[i] -= {by}; }}"
            case "vector":
                return f"for (int i = 0; i < {self.elements}; i++) {self.name}.d[i] += {by};"
        return f"for (int i = {lo}; i < {lo + length}; i++) {self.name}[i] += {by};"
