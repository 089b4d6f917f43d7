"""A block of managed memory: legal transitions keep its invariants, illegal ones raise an error with the story."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from offloadrt.machine.managed.block import IllegalTransition, ManagedBlock, ManagedUsage, RootChunks
from offloadrt.machine.managed.pages import LOCAL, REMOTE, UNMAPPED, ManagedPages

PAGES = 8
SETS = st.integers(0, (1 << PAGES) - 1)


class AnyTransitions(RuleBasedStateMachine):
    """Calls any transition with any pages: it is carried out, or raises and changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.pages = ManagedPages(PAGES, 1, story=lambda: "device 3 at 0.5 s, in 'handler'")
        self.block = self.pages.block(0)

    @initialize(pages=SETS)
    def an_allocation(self, pages: int) -> None:
        self.block.enter(0x1000, pages, ManagedUsage())

    def state(self) -> list[object]:
        names = [name for name in ManagedBlock.__slots__ if name not in ("__weakref__", "counts", "_last", "_before")]
        return [str(getattr(self.block, name)) for name in names]

    def expect(self, illegal: bool, *change: object) -> None:
        """Make a change, which is legal or not."""
        before = self.state()
        call, *arguments = change
        if illegal:
            with pytest.raises(IllegalTransition, match=r"device 3 at 0\.5 s, in 'handler': block 0x0: pages"):
                call(*arguments)  # type: ignore[operator]
            assert self.state() == before
        else:
            call(*arguments)  # type: ignore[operator]

    @rule(address=st.integers(0, 3), pages=SETS)
    def enter(self, address: int, pages: int) -> None:
        self.block.enter(address, pages, ManagedUsage())

    @rule(address=st.integers(0, 3))
    def leave(self, address: int) -> None:
        users = self.block.users
        if address not in users:
            self.expect(True, self.block.leave, address, 0)
        else:
            gone = self.block.leave(address, users[address][0])
            assert not any(gone & held for held, _ in users.values())

    @rule(pages=SETS)
    def release(self, pages: int) -> None:
        held = sum(pages & own for own, _ in self.block.users.values())
        illegal = bool(held or (self.block.resident | self.block.remote) & pages)
        self.expect(illegal, self.block.release, pages)
        if not illegal:
            for name in ("valid", "populated", "host_mapped", "dma_mapped", "host_copy", "elsewhere", "accessed_by"):
                assert not getattr(self.block, name) & pages

    @rule(pages=SETS)
    def arrive(self, pages: int) -> None:
        self.expect(bool(pages & self.block.resident), self.pages.set_state, self.block, pages, LOCAL)

    @rule(pages=SETS)
    def reach_over_the_link(self, pages: int) -> None:
        self.expect(bool(pages & self.block.resident), self.block.map_remote, pages)
        self.pages.set_state(self.block, pages, REMOTE)

    @rule(pages=SETS, device=st.integers(0, 2))
    def reach_at_a_peer(self, pages: int, device: int) -> None:
        self.expect(bool(pages & ~self.block.remote), self.block.map_at_peer, pages, device)
        self.block.unmap(pages)
        self.pages.set_at_peer(self.block, pages, device)

    @rule(pages=SETS)
    def unmap(self, pages: int) -> None:
        self.pages.set_state(self.block, pages, UNMAPPED)
        assert not (self.block.resident | self.block.remote) & pages

    @rule(pages=SETS)
    def protect(self, pages: int) -> None:
        self.expect(bool(pages & ~self.block.resident), self.block.protect, pages)

    @rule(
        name=st.sampled_from(
            [
                "allow_stores", "admit", "touched_by_host", "map_on_host", "unmap_on_host", "map_for_copies",
                "use_in_place", "arrived_elsewhere", "left_elsewhere",
            ]
        ),
        pages=SETS,
    )  # fmt: skip
    def what_is_always_legal(self, name: str, pages: int) -> None:
        getattr(self.block, name)(pages)

    @rule(name=st.sampled_from(["set_accessed_by", "set_read_mostly"]), pages=SETS, advised=st.booleans())
    def advise(self, name: str, pages: int, advised: bool) -> None:
        getattr(self.block, name)(pages, advised)

    @rule(where=st.sampled_from(["host", "here", "elsewhere", "nowhere"]), pages=SETS)
    def prefer(self, where: str, pages: int) -> None:
        self.block.prefer(where, pages)  # type: ignore[arg-type]

    @rule(pages=SETS, valid=st.booleans())
    def host_copy(self, pages: int, valid: bool) -> None:
        self.block.set_host_copy(pages, valid=valid)

    @invariant()
    def the_invariants_hold(self) -> None:
        assert self.block.broken() == []


TestAnyTransitions = AnyTransitions.TestCase


def test_the_table_of_bytes_follows_the_states_of_a_block() -> None:
    pages = ManagedPages(PAGES, 1)
    block = pages.block(0)
    pages.set_state(block, 0b0111, LOCAL)
    pages.set_state(block, 0b0010, UNMAPPED)
    pages.set_state(block, 0b1100, REMOTE)
    assert bytes(block.table[:PAGES]) == bytes([LOCAL, UNMAPPED, REMOTE, REMOTE, *[UNMAPPED] * 4])
    assert (block.resident, block.remote, pages.remote_pages) == (0b1, 0b1100, 2)


def test_an_illegal_transition_tells_the_story() -> None:
    pages = ManagedPages(PAGES, 1, story=lambda: "device 1 at 0.25 s")
    block = pages.block(5)
    pages.set_state(block, 0b0111, LOCAL)
    pages.set_state(block, 0b0100, UNMAPPED)
    with pytest.raises(IllegalTransition) as raised:
        pages.set_state(block, 0b0111, LOCAL)
    assert str(raised.value) == (
        "device 1 at 0.25 s: block 0x5: pages 0-1 cannot arrive on the GPU: it has them already.\n"
        "State: valid none; populated 0-2; resident 0-1; remote none; elsewhere none; read_only none; host_copy none.\n"
        "Before that: map_local of 0-2, then unmap of 2."
    )


def test_broken_invariants_are_found() -> None:
    block = ManagedPages(PAGES, 1).block(0)
    block.resident = block.remote = 1
    assert block.broken() == [
        "a page is translated to one place",
        "the GPU translates only pages that somebody has touched",
    ]


def test_root_chunks_keep_two_orders() -> None:
    chunks, pages = RootChunks(), ManagedPages(PAGES, 1)
    for index in (7, 3, 5):
        chunks.add(pages.block(index))
    chunks.faulted(7)
    chunks.faulted(99)
    assert ([*chunks.by_last_fault], [*chunks.by_arrival]) == ([3, 5, 7], [7, 3, 5])
    assert chunks.remove(pages.block(3)) and not chunks.remove(pages.block(3))
    assert ([*chunks], len(chunks), 3 in chunks) == ([5, 7], 2, False)
    with pytest.raises(TypeError):
        chunks.by_arrival[1] = pages.block(1)  # type: ignore[index]
