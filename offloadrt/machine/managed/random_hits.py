"""When the accesses at random of a kernel meet pages without translation, and which pages these are."""

from __future__ import annotations

import math

import attrs
import numpy as np

from offloadrt.machine.managed.block import WatchedPages
from offloadrt.machine.managed.page_sets import PageSets, by_block
from offloadrt.machine.managed.pages import ManagedPages
from offloadrt.machine.managed.translations import Translations

_FEW = 4
"""The most missing pages for each draw for which it is cheaper to ask each of them whether it is met."""


@attrs.define(eq=False)
class RandomHits:
    """The accesses at random to one range: equally many in each window of a kernel, independent of one another."""

    per_window: float
    """Accesses of one window."""
    windows: int
    """Windows of the kernel."""
    watch: WatchedPages
    """How many pages of the range are missing."""
    table: Translations
    """What its accesses find: loads, or stores."""
    _next: int = attrs.field(default=-1, init=False)
    """The window in which one next meets a missing page; -1: it has to be drawn."""
    _drawn: int = attrs.field(default=0, init=False)
    """How many pages were missing when that was drawn."""

    def forget(self) -> None:
        """Draw the next hit anew: pages that were there when it was drawn are missing now."""
        self._next = -1

    def next_window(self, window: int, rng: np.random.Generator) -> int:
        """Return the first window from ``window`` on in which an access meets a missing page, drawn if it is not known.

        It is drawn again when pages went. When pages came it stays, so that it may be a little too early.
        """
        if self._next < window or self.watch.missing > self._drawn:
            self._drawn = self.watch.missing
            # Accesses at random are independent, so the windows up to the first hit are distributed geometrically.
            # Drawing the number of windows at once spares a draw for each window, and has the same distribution.
            chance = -math.expm1(-self._mean())
            self._next = window + int(rng.geometric(chance)) - 1 if chance > 0.0 else self.windows
        return self._next

    def met(self, window: int, end: int, pages: ManagedPages, rng: np.random.Generator) -> PageSets:
        """Draw the missing pages that accesses meet in the windows [window, end)."""
        hit = self.next_window(window, rng)
        if hit >= end:
            return ()
        self._next = -1
        mean = self._mean()
        if mean <= 0.0:
            return ()
        # The window of the hit has at least one such access, whose moment is drawn by inversion; behind it they come as
        # a Poisson process again.
        first = -math.log1p(rng.random() * math.expm1(-mean)) / mean
        draws = 1 + int(rng.poisson(mean * (end - hit - min(first, 1.0))))
        watch, translations = self.watch, self.table
        # Many missing pages: draw some of them. Few: ask each whether it is met. Its chance is the same either way.
        if watch.missing > _FEW * draws:
            return translations.draw_unmapped(watch, draws, rng)
        missing = translations.unmapped_numbers(watch.low, watch.high)
        if len(missing) > 1:
            part = -math.expm1(draws * math.log1p(-1.0 / len(missing)))
            drawn = zip(missing, rng.random(len(missing)).tolist(), strict=True)
            missing = [page for page, at in drawn if at < part] or [missing[int(rng.integers(len(missing)))]]
        return by_block(missing, pages.per_block)

    def _mean(self) -> float:
        """Return how many accesses of a window meet a missing page on average; they are Poisson-distributed."""
        watch = self.watch
        return self.per_window * watch.missing / (watch.high - watch.low)
