"""Statistics of API calls, always on: what `rocprof --stats` prints about a real run.

The driver adds each call under its real name with the virtual time between its entry and its return, waiting
included, as a profiler that interposes the API would see it.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class CallStatistics:
    """All calls of one driver or runtime function, under its real name; times are virtual seconds."""

    count: int
    total_s: float
    mean_s: float
    min_s: float
    max_s: float

    def joined(self, other: CallStatistics) -> CallStatistics:
        """Add the other calls to these."""
        count, total = self.count + other.count, self.total_s + other.total_s
        return CallStatistics(count, total, total / count, min(self.min_s, other.min_s), max(self.max_s, other.max_s))


@attrs.frozen
class ProfiledCalls(CallStatistics):
    """All calls of one function beside those of the others."""

    percent: float
    """Share of `total_s` in the total of all calls, in percent (0 when no call took time)."""


@attrs.define
class _Tally:
    count: int
    total_s: float
    min_s: float
    max_s: float


class Calls:
    """Counts and times of API calls by name."""

    __slots__ = ("_tallies",)

    def __init__(self) -> None:
        self._tallies: dict[str, _Tally] = {}

    def add(self, api: str, duration_s: float) -> None:
        """Count a call of `api` that took `duration_s` virtual seconds."""
        try:
            tally = self._tallies[api]
        except KeyError:
            self._tallies[api] = _Tally(1, duration_s, duration_s, duration_s)
            return
        tally.count += 1
        tally.total_s += duration_s
        if duration_s < tally.min_s:
            tally.min_s = duration_s
        elif duration_s > tally.max_s:
            tally.max_s = duration_s

    def cut(self) -> Calls:
        """Return the counts so far as `Calls` of their own; counting goes on from zero."""
        earlier = Calls()
        earlier._tallies, self._tallies = self._tallies, {}
        return earlier

    def include(self, other: Calls) -> None:
        """Add the counts of another `Calls`."""
        for api, tally in other._tallies.items():
            mine = self._tallies.get(api)
            if mine is None:
                self._tallies[api] = _Tally(tally.count, tally.total_s, tally.min_s, tally.max_s)
            else:
                mine.count += tally.count
                mine.total_s += tally.total_s
                mine.min_s = min(mine.min_s, tally.min_s)
                mine.max_s = max(mine.max_s, tally.max_s)

    def since(self, earlier: Calls) -> Calls:
        """Return what was counted after `earlier`; the extremes are those of both."""
        later = Calls()
        for api, tally in self._tallies.items():
            before = earlier._tallies.get(api, _Tally(0, 0.0, 0.0, 0.0))
            if tally.count > before.count:
                count, total_s = tally.count - before.count, tally.total_s - before.total_s
                later._tallies[api] = _Tally(count, total_s, tally.min_s, tally.max_s)
        return later

    def times(self, factor: float) -> Calls:
        """Return `factor` times these figures, in whole calls."""
        more = Calls()
        for api, tally in self._tallies.items():
            if count := round(tally.count * factor):
                more._tallies[api] = _Tally(count, tally.total_s * factor, tally.min_s, tally.max_s)
        return more

    def count(self, api: str) -> int:
        """Return how many calls of `api` there were."""
        tally = self._tallies.get(api)
        return 0 if tally is None else tally.count

    def statistics(self) -> dict[str, CallStatistics]:
        """Return the statistics by name: the largest total first, equal totals by name."""
        ordered = sorted(self._tallies.items(), key=lambda item: (-item[1].total_s, item[0]))
        return {
            api: CallStatistics(tally.count, tally.total_s, tally.total_s / tally.count, tally.min_s, tally.max_s)
            for api, tally in ordered
        }

    def table(self) -> dict[str, ProfiledCalls]:
        """Return the statistics as `statistics` does, with the share of each function in the total of all."""
        everything = 0.0
        for tally in self._tallies.values():
            everything += tally.total_s
        percent = {
            api: 100.0 * tally.total_s / everything if everything else 0.0 for api, tally in self._tallies.items()
        }
        return {
            api: ProfiledCalls(**attrs.asdict(calls), percent=percent[api]) for api, calls in self.statistics().items()
        }

    def lines(self) -> list[str]:
        """Format a table in the columns of `rocprof --stats`, times in integer nanoseconds."""
        head = ("Name", "Calls", "TotalDurationNs", "AverageNs", "MinNs", "MaxNs", "Percentage")
        rows = [
            (
                api,
                str(row.count),
                *(str(round(seconds * 1e9)) for seconds in (row.total_s, row.mean_s, row.min_s, row.max_s)),
                f"{row.percent:.2f}",
            )
            for api, row in self.table().items()
        ]
        return aligned(head, rows)


def aligned(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """Format a text table: the first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        ).rstrip()
        for row in (head, *rows)
    ]
