"""What a check reports: mistakes of the program with who made them and how to mend them, and needless operations."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, Literal

import attrs

Kind = Literal[
    "race", "stale data", "uninitialised data", "use after free", "freed while mapped", "outside of what is mapped",
    "map beyond the array", "write to a constant", "host use of device memory", "missing unmap",
    "surplus unmap", "delete under other users", "missed update", "never awaited", "memory leak", "fatal error",
    "lost update", "possible lost update", "misplaced update",
]  # fmt: skip

ORDER: Final[tuple[str, ...]] = (
    "fatal error", "lost update", "misplaced update", "race", "use after free", "freed while mapped", "stale data",
    "uninitialised data",
    "outside of what is mapped", "map beyond the array", "write to a constant", "host use of device memory",
    "delete under other users", "never awaited", "missed update", "surplus unmap", "missing unmap", "memory leak",
)  # fmt: skip

UNKNOWN: Final = "memory"
"""The name in reports for memory of which only the address is known."""
_OF_NO_VALUES: Final = ("missing unmap", "surplus unmap", "memory leak", "never awaited")
"""Kinds of mistakes that do not make the contents of memory doubtful."""

MOST_PLACES: Final = 3
"""How many places of one kernel are reported for each kind of mistake and array; more only count as `elsewhere`."""


@attrs.frozen
class Story:
    """One line of a report: who did what, at which line of the program, and at which virtual time.

    who: the thread, task or queue. did: what it did, beginning with a verb. time_s: virtual seconds.
    """

    who: str
    did: str
    where: str
    """The line of the program, or ``after LINE`` with the last known line before it; empty if none is known."""
    time_s: float

    def __str__(self) -> str:
        at = "" if self.where.startswith("after ") else "at "
        where = f" {at}{self.where}" if self.where else ""
        return f"{self.who} {self.did}{where} ({self.time_s * 1e6:.3f} us)"


@attrs.frozen
class Mistake:
    """A mistake of the program, as it is reported.

    subject: the bytes or the directive at fault. stories: the report lines on who did what. advice: says how to mend
    it. kind: the name of the mistake, such as ``race``.
    """

    kind: Kind
    subject: str
    stories: tuple[Story, ...]
    advice: str
    times: int = 1
    """How often the program made the mistake at these source lines."""
    elsewhere: int = 0
    """At how many further places the same kernel makes the same mistake with the same data; these are not listed."""

    @property
    def happened(self) -> bool:
        """Tell whether the mistake happened in this run; a "possible lost update" needs another schedule."""
        return self.kind != "possible lost update"

    def lines(self) -> list[str]:
        """Return the mistake as lines of text."""
        often = f" ({self.times} times)" if self.times > 1 else ""
        told = [f"  {number}. {story}" for number, story in enumerate(self.stories, 1)]
        if self.elsewhere:
            told.append(f"  So does this kernel at {self.elsewhere} other place{'s' * (self.elsewhere > 1)}.")
        return [f"{self.kind}: {self.subject}{often}", *told, *([f"  {self.advice}"] if self.advice else [])]


_WORDS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "openacc": (
        (r"map it `to` instead of `tofrom`", "name it in `copyin` instead of `copy`"),
        (r"map (\S+) `to` or `alloc`", r"name \1 in `copyin` or `create`"),
        (r"`target update from\((.*?)\)`", r"`update host(\1)`"),
        (r"`target update to\((.*?)\)`", r"`update device(\1)`"),
        (r"`to\((.*?)\)`", r"`update device(\1)`"),
        (r"map (\S+) `to` or `tofrom`", r"name \1 in `copyin` or `copy`"),
        (r"map (\S+) `from` or `tofrom`", r"name \1 in `copyout` or `copy`"),
        (r"map (it|\S+) `to`( the device)?", r"name \1 in `copyin`"),
        (r"map it `tofrom`", "name it in `copy`"),
        (r"map it `from` or `alloc`", "name it in `copyout` or `create`"),
        (r"`target exit data map\(release: (.*?)\)`, or `from`", r"`exit data delete(\1)`, or `copyout`"),
        (r"`to` or `alloc`", "`copyin` or `create`"),
        (r"`to` instead of `tofrom`", "`copyin` instead of `copy`"),
        (r"mapped around all of it \(`target data`\)", "on the device for all of it (a `data` region)"),
        (r"leave the map( of .+?)? out", r"leave the clause\1 out"),
        (r"`target data`", "a `data` region"),
        (r" \(`omp_target_memcpy`\)", ""),
    ),
    "cuda": (
        (r" \(`omp_target_memcpy`\)", ""),
        (r"map .+? `to` or `tofrom`, `target update to\(.*?\)`", "copy to it"),
        (r"Keep (.+?) mapped around all of it \(`target data`\), and update", r"Keep \1 allocated, and copy"),
        (r"leave the map( of .+?)? out", r"leave the allocation\1 out"),
        (r"map [^`]+ `(?:from|to)` or `alloc`, or ", ""),
        (r"`target data` around both uses keeps it", "keep it between both uses"),
    ),
}
"""By programming model: regular expressions for advice in OpenMP's words, and the words that replace them."""


def in_words_of(model: str, advice: str) -> str:
    """Return advice in the words of a programming model; in OpenMP's where the model has none of its own.

    >>> in_words_of("openacc", "The device's copy is newer: `target update from(a)` before the read.")
    "The device's copy is newer: `update host(a)` before the read."
    """
    for pattern, words in _WORDS.get(model, ()):
        advice = re.sub(pattern, words, advice)
    return advice


WasteKind = Literal["duplicate transfer", "round trip", "unread transfer", "unused allocation", "repeated allocation"]

ADVICE: Final[dict[WasteKind, str]] = {
    "duplicate transfer": "The same bytes were there already: leave the copy out.",
    "round trip": "The same bytes went back to where they had come from: leave the copy out.",
    "unread transfer": "Nobody reads what it brings: map it `from` or `alloc`, or leave the copy out.",
    "unused allocation": "No kernel used the block: leave the map out.",
    "repeated allocation": "It was freed and allocated again: `target data` around both uses keeps it.",
}


@attrs.frozen
class WastePart:
    """The needless operations of one kind that one change of the program avoids.

    times, nbytes: how many operations these are, and their bytes together.
    """

    kind: WasteKind
    times: int
    nbytes: int


@attrs.frozen
class Waste:
    """All needless operations that one change of the program avoids, as they are reported.

    kind, story, times: the first kind of these operations, the report line of the first operation of that kind, and how
    many operations of that kind there are. nbytes: the bytes of all kinds together. subject: the data, in words.
    advice: the change of the program, in words. parts: the operations of each kind, if they are of several.
    """

    kind: WasteKind
    subject: str
    device: int
    story: Story
    nbytes: int
    time_s: float
    """The virtual seconds that the repair saves, measured by a run in which these operations take no time. If `is_sum`,
    it is the sum of the operations' times on copy engines and in driver calls instead; the time that others wait for
    them is not in it.
    """
    times: int = 1
    advice: str = ""
    parts: tuple[WastePart, ...] = ()
    uncertain: str = ""
    """Why the operations may be needed after all; empty if they are certainly needless."""
    is_sum: bool = True
    """Whether `time_s` is only a sum of durations, because no run has measured the saving."""

    @property
    def is_of_pool(self) -> bool:
        """Tell whether these are only allocations that a pool of the runtime served without calling the driver."""
        return self.is_sum and not self.time_s and all(part.kind == "repeated allocation" for part in self.parts)


@attrs.define
class Mistakes:
    """The mistakes of a run; equal mistakes at the same source lines are counted as one."""

    data: set[str] = attrs.field(factory=set)
    """Names of the data of all mistakes that make its contents doubtful: a waste of such data is uncertain."""
    _found: dict[tuple[object, ...], Mistake] = attrs.field(factory=dict)
    _of_group: dict[tuple[object, ...], list[tuple[object, ...]]] = attrs.field(factory=dict)
    """By group (a kernel and its data): keys of its mistakes. The first `MOST_PLACES` are listed, the others count as
    `elsewhere`.
    """

    def add(
        self,
        kind: Kind,
        subject: str,
        stories: Iterable[Story],
        advice: str,
        key: object = "",
        group: object | None = None,
        data: str = "",
    ) -> None:
        """Add a mistake to the report; if the same source lines made it before, only count it.

        kind: the name of the mistake, such as ``race``. subject: the bytes or the directive at fault. stories: the
        report lines on who did what. advice: says how to mend it. key: keeps mistakes at the same lines apart if they
        have different keys. group: a kernel and its data, of which only a few lines are listed: a kernel with one wrong
        index may have hundreds of lines that use it. data: the name of the data, if `subject` says more than that.
        """
        if kind not in _OF_NO_VALUES:
            self.data.add(data or subject)
        told = tuple(stories)
        place = (kind, frozenset([(story.did, story.where) for story in told]), key)
        known = self._found.get(place)
        if known is not None:
            self._found[place] = attrs.evolve(known, times=known.times + 1)
            return
        if group is not None:
            places = self._of_group.setdefault((kind, group), [])
            if place not in places:
                places.append(place)
            if len(places) > MOST_PLACES:
                last = places[MOST_PLACES - 1]
                self._found[last] = attrs.evolve(self._found[last], elsewhere=len(places) - MOST_PLACES)
                return
        self._found[place] = Mistake(kind, subject, told, advice)

    def has(self, kind: Kind) -> bool:
        """Tell whether a mistake of this kind was found."""
        return any(mistake.kind == kind for mistake in self._found.values())

    def all(self, model: str = "openmp") -> list[Mistake]:
        """Return the mistakes, gravest kinds first, then in the order in which they were found.

        The advice is in the words of the programming model `model`.
        """
        found = _joined(_without_consequences(list(self._found.values())))
        said = [attrs.evolve(one, advice=in_words_of(model, one.advice)) for one in found]
        return sorted(said, key=lambda mistake: ORDER.index(mistake.kind))


def _without_consequences(found: list[Mistake]) -> list[Mistake]:
    """Leave out mistakes that disappear when another one is mended.

    With a race, these are a use of memory whose free races with it, a read that came too early for a racing copy or for
    the end of a mapping, a read of what a racing copy has overwritten, and a read of what nobody had written, if
    another thread or task of the host writes it without an order and reads nothing of it. With an array that is freed
    while it is mapped, a kernel's use of the host's address: the pointer was not attached, as its next map found the
    old mapping.
    """
    outlived = {one.stories[0] for one in found if one.kind == "freed while mapped"}
    reads = {story.did for one in found if one.kind in ("race", "uninitialised data") for story in one.stories}
    freed: set[tuple[str, str]] = set()
    early: set[tuple[str, str]] = set()
    overwritten: set[tuple[str, str]] = set()
    unwritten: set[tuple[str, str]] = set()
    for race in [one for one in found if one.kind == "race"]:
        first, second = [(story.did, story.where) for story in race.stories]
        of_strands = len({story.who for story in race.stories if not story.who.startswith("thread ")}) == 2
        for one, other in ((first, second), (second, first)):
            if one[0].startswith(("frees ", "moves ")):
                freed.update((one, other))
            if one[0].startswith(("copies ", "unmaps ")):
                early.add(other)
            if one[0].startswith("copies ") and " from the device" in one[0]:
                overwritten.add(other)
            if of_strands and one[0].startswith("writes ") and f"reads{one[0].removeprefix('writes')}" not in reads:
                unwritten.add(other)

    def is_consequence(one: Mistake) -> bool:
        places = [(story.did, story.where) for story in one.stories]
        if one.kind == "outside of what is mapped":
            return len(places) > 1 and one.stories[0] in outlived
        if one.kind == "use after free":
            return places[0] in freed
        if one.kind == "uninitialised data" and places[-1] in unwritten:
            return True
        if one.kind == "stale data" and places[0] in overwritten:
            return True
        return one.kind in ("stale data", "uninitialised data") and places[-1] in early

    return [one for one in found if not is_consequence(one)]


def _joined(found: list[Mistake]) -> list[Mistake]:
    """Make one race of those between the same two places, of which one reads and writes, as `a[i] += 1` does."""
    joined: dict[object, Mistake] = {}
    for one in found:
        acts = [_act_of(story) for story in one.stories]
        key = (one.subject, one.advice, frozenset(place for _, place in acts)) if one.kind == "race" else one
        known = joined.setdefault(key, one)
        if known is one:
            continue
        known_acts = [_act_of(story) for story in known.stories]
        verbs: dict[tuple[str, str], str] = {}
        for verb, place in (*known_acts, *acts):
            verbs[place] = verb if verb == verbs.get(place, verb) else "reads and writes"
        said = [f"{verbs[place]} {place[0]}".lstrip() for _, place in known_acts]
        if len(verbs) == 1:  # two threads at one place: the first one only has to write
            said[0] = known.stories[0].did
        stories = tuple(attrs.evolve(story, did=did) for story, did in zip(known.stories, said, strict=True))
        joined[key] = attrs.evolve(
            known, stories=stories, times=max(known.times, one.times), elsewhere=max(known.elsewhere, one.elsewhere)
        )
    return list(joined.values())


def _act_of(story: Story) -> tuple[str, tuple[str, str]]:
    """Split what a report line says into its verb and a place: the rest of what was done, and its source line."""
    act = re.fullmatch(r"(reads and writes|reads|writes) (.*)", story.did)
    return ("", (story.did, story.where)) if act is None else (act[1], (act[2], story.where))


def builtins(mistakes: Iterable[Mistake]) -> list[dict[str, Any]]:
    """Return mistakes as dictionaries of plain values, for JSON."""
    return [attrs.asdict(mistake) for mistake in mistakes]
