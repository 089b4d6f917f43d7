"""Which block is evicted and what a fault brings along, by the policies that there are and by one's own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from managed_rig import BLOCK, PAGE, assert_sound, resident_pages, small, sweep

from offloadrt.driver.uvm.eviction import EVICTION_POLICIES, DeviceMemoryInUse
from offloadrt.driver.uvm.prefetch import PREFETCH_POLICIES, PrefetchRules
from offloadrt.machine import ProfileError
from offloadrt.machine.managed.block import RootChunks
from offloadrt.machine.managed.pages import ManagedPages
from offloadrt.machine.managed.sweep import ManagedAccess

RULES = PrefetchRules(32, 4, 0.51)
MINE = """
class LastFirst:
    name = "last_first"
    def order(self, memory):
        return reversed([*memory.by_arrival])

class Nothing:
    name = "nothing"
    def order(self, memory):
        return []

class Wild:
    name = "wild"
    def brings(self, there, faulted, valid, thrashing, rules):
        return (1 << 4000) - 1
"""
BROKEN = """
class Broken:
    name = "broken"
    def order(self, memory):
        return {}
    def brings(self, there, faulted, valid, thrashing, rules):
        return {}
"""


def in_use(seed: int = 1) -> DeviceMemoryInUse:
    """Blocks 7, 3 and 5 came in this order; the last fault was on 7."""
    chunks, pages = RootChunks(), ManagedPages(8, 1)
    for index in (7, 3, 5):
        chunks.add(pages.block(index))
    chunks.faulted(7)
    return DeviceMemoryInUse(chunks.by_last_fault, chunks.by_arrival, 8, np.random.default_rng(seed))


@pytest.mark.parametrize(
    ("name", "order"),
    [("least_recently_faulted", [3, 5, 7]), pytest.param("fifo", [7, 3, 5], marks=pytest.mark.needs_extensions)],
)
def test_the_order_of_victims(name: str, order: list[int]) -> None:
    assert [*EVICTION_POLICIES.find(name).order(in_use())] == order


@pytest.mark.needs_extensions
def test_random_victims_are_all_blocks_in_an_order_that_the_seed_decides() -> None:
    policy = EVICTION_POLICIES.find("random")
    orders = [tuple(policy.order(in_use(seed))) for seed in range(50)]
    assert set(map(frozenset, orders)) == {frozenset((3, 5, 7))} and len(set(orders)) == 6
    assert orders == [tuple(policy.order(in_use(seed))) for seed in range(50)]


@pytest.mark.needs_extensions
@given(st.integers(0, 2**32 - 1), st.integers(1, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_the_tree_brings_at_least_the_big_pages_and_these_the_faulted_pages(there, faulted, thrashing):
    valid = 2**32 - 1
    none, big, tree = (
        PREFETCH_POLICIES.find(name).brings(there & ~faulted, faulted, valid, thrashing, RULES)
        for name in ("none", "big_page", "tree")
    )
    assert none == faulted
    assert not none & ~big and not big & ~tree


def sweeps(uvm, overrides, blocks=2, rounds=2, nbytes=3 * BLOCK):
    """Run kernels that sweep over some blocks, one after the other, on a device that holds fewer of them."""
    rig = uvm(small(blocks) | overrides)

    async def main():
        address = await rig.driver.managed.alloc(nbytes)
        await rig.uvm.host_access(address, nbytes)
        for _ in range(rounds):
            await rig.kernel(sweep(nbytes), ManagedAccess(address, nbytes))
        assert_sound(rig)
        return sorted(index - address // BLOCK for index in rig.uvm.pages.chunks)

    return rig, rig.run(main)


def test_a_policy_of_ones_own_chooses_the_victim(uvm, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    _, oldest = sweeps(uvm, {}, rounds=1)
    _, newest = sweeps(uvm, {"evict.policy": f"{tmp_path / 'mine.py'}:LastFirst"}, rounds=1)
    assert (oldest, newest) == ([1, 2], [0, 2])


def test_a_policy_that_evicts_nothing_leaves_pages_on_the_host(uvm, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    rig, resident = sweeps(uvm, {"evict.policy": f"{tmp_path / 'mine.py'}:Nothing"}, rounds=1)
    assert (rig.counters.evictions, resident) == (0, [0, 1]) and rig.uvm.pages.remote_pages > 0


@pytest.mark.parametrize("answer", ["[1 << 40]", "[-1]", "[1.5]", "[None]", "['x']", "3", "None", "[[1]]"])
def test_an_eviction_policy_that_names_no_block_is_refused_by_name(uvm, tmp_path, answer):
    (tmp_path / "mine.py").write_text(BROKEN.format(answer, 0))
    with pytest.raises(
        RuntimeError, match=r"^eviction policy 'broken' \(class Broken\): (block .* has|order returns)"
    ) as told:
        sweeps(uvm, {"evict.policy": f"{tmp_path / 'mine.py'}:Broken"})
    assert told.value.__notes__[0].startswith("raised in device 0 page fault handler at t=")


@pytest.mark.parametrize(
    "change", ["resident = 0", "valid |= 1", "unmap(1)", "users.clear()", "usage.plus(0)", "__setattr__('remote', 1)"]
)
def test_an_eviction_policy_reads_the_numbers_of_blocks_and_changes_none(uvm, tmp_path, change):
    text = MINE.replace(
        "return reversed", f"memory.by_arrival[min(memory.by_arrival)].{change}\n        return reversed"
    )
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(TypeError, match=r"^a policy reads the numbers of a block, and"):
        sweeps(uvm, {"evict.policy": f"{tmp_path / 'mine.py'}:LastFirst"}, rounds=1)


def test_an_eviction_policy_that_repeats_blocks_for_ever_gets_each_once(uvm, tmp_path):
    (tmp_path / "mine.py").write_text(BROKEN.format("__import__('itertools').cycle(memory.by_arrival)", 0))
    _, resident = sweeps(uvm, {"evict.policy": f"{tmp_path / 'mine.py'}:Broken"}, rounds=1)
    assert resident == [1, 2]


@pytest.mark.parametrize("answer", ["-1", "None", "1.0", "True", "{faulted}", "'x'"])
def test_a_prefetch_policy_that_returns_no_set_of_pages_is_refused_by_name(uvm, tmp_path, answer):
    (tmp_path / "mine.py").write_text(BROKEN.format([], answer))
    with pytest.raises(RuntimeError, match=r"^prefetch policy 'broken' \(class Broken\): brings returns .* no set of"):
        sweeps(uvm, {"prefetch.policy": f"{tmp_path / 'mine.py'}:Broken"})


def test_what_a_prefetch_policy_returns_too_much_is_left_out(uvm, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    nbytes = BLOCK // 2
    rig, _ = sweeps(uvm, {"prefetch.policy": f"{tmp_path / 'mine.py'}:Wild"}, nbytes=nbytes)
    assert rig.counters.bytes_htod == nbytes
    assert resident_pages(rig.uvm.pages) == nbytes // PAGE


@pytest.mark.parametrize(
    ("key", "given", "says"),
    [
        ("evict.policy", "lru", r"no eviction policy 'lru'; there are: fifo, least_recently_faulted, random"),
        ("prefetch.policy", "tre", r"no prefetch policy 'tre'; there are: big_page, none, tree; did you mean tree\?"),
        ("evict.policy", "{}:Wild", r"Wild is no eviction policy: it lacks order"),
        ("evict.policy", "{}:Absent", r"has no Absent"),
    ],
)
def test_a_policy_that_does_not_exist_is_refused_by_the_entrys_name(uvm, tmp_path, key, given, says):
    (tmp_path / "mine.py").write_text(MINE)
    with pytest.raises(ProfileError, match=rf"{key}.*{says}"):
        uvm({key: given.format(tmp_path / "mine.py")})


@pytest.mark.needs_extensions
def test_all_entry_points_are_policies() -> None:
    for registry in (EVICTION_POLICIES, PREFETCH_POLICIES):
        for name in registry.names():
            assert registry.find(name).name == name
