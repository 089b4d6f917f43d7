"""Links between devices: how a profile describes them, and which way a copy takes."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offloadrt.machine import ProfileError, load
from offloadrt.machine.profile.entry import Topology, TopologyError, parse_groups, parse_topology

QUADS = ({0, 1, 2, 3}, {4, 5, 6, 7})
LINKED = load("dgx1-v100").topology("nvlink.topology")


def test_a_text_says_how_many_links_each_two_devices_have():
    topology = parse_topology("0-1  2-0:2")
    assert (topology.links(0, 1), topology.links(1, 0), topology.links(0, 2), topology.links(1, 2)) == (1, 1, 2, 0)
    assert topology.highest == 2
    assert parse_topology("none") == Topology({}) and parse_topology("none").highest == -1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is empty"),
        ("0-1,0-2", "'0-1,0-2' is no pair of devices"),
        ("0:1", "'0:1' is no pair"),
        ("0-1 none", "'none' is no pair"),
        ("3-3", "links device 3 to itself"),
        ("0-1:0", "'0-1:0' has no link"),
        ("0-1 2-3 1-0:2", "devices 0 and 1 come twice"),
    ],
)
def test_a_bad_text_says_which_part_and_why(text, reason):
    with pytest.raises(TopologyError, match=reason):
        parse_topology(text)
    with pytest.raises(ProfileError, match=rf"dgx1-v100\.toml: nvlink\.topology: .*{reason}"):
        load("dgx1-v100", {"nvlink.topology": text})


pairs = st.dictionaries(
    st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda pair: pair[0] < pair[1]), st.integers(1, 4)
)


@given(pairs)
def test_what_is_written_is_read(links):
    text = " ".join(f"{low}-{high}:{number}" for (low, high), number in links.items())
    assert parse_topology(text or "none").pairs == links


@given(pairs, st.integers(0, 9), st.integers(0, 9))
def test_the_neighbour_has_the_widest_way(links, source, destination):
    topology = Topology(links)

    def width(via):
        return min(topology.links(source, via), topology.links(via, destination))

    found = topology.neighbour(source, destination, 10)
    best = max(map(width, range(10)))
    assert found is None if best == 0 else width(found) == best
    assert found is None or all(width(lower) < best for lower in range(found))


def test_a_dgx1_has_two_quads_and_a_link_from_each_device_to_its_like():
    for one in range(8):
        for other in range(8):
            quad = any(one in quad and other in quad for quad in QUADS)
            assert LINKED.links(one, other) == (one != other and (quad or abs(one - other) == 4))


def test_from_one_quad_to_the_other_there_is_a_neighbour_unless_it_is_not_in_use():
    assert [LINKED.neighbour(0, destination, 8) for destination in (5, 6, 7)] == [1, 2, 3]
    assert LINKED.neighbour(4, 1, 8) == 0
    assert LINKED.neighbour(1, 4, 5) == 0
    assert parse_topology("0-2 1-2").neighbour(0, 1, 2) is None


@pytest.mark.parametrize(
    ("overrides", "devices", "key", "reason"),
    [
        ({}, 9, "gpu.devices", "is 8, but the run asks for 9 devices"),
        ({"gpu.devices": 4}, 4, "nvlink.topology", "links device 7, but gpu.devices is 4"),
        ({"gpu.devices": 4}, 4, "nvlink.topology", ".*: set gpu.devices to 8 at least, or leave that device out"),
        ({"gpu.copy_engines": 2}, 2, "gpu.copy_engines", r"leaves no engine .*1 d2h\): set it to 3 at least"),
        ({"pcie.switches": "0,8"}, 2, "pcie.switches", "names device 8, .*: set gpu.devices to 9 at least"),
        ({"pcie.sockets": "0 1 9"}, 2, "pcie.sockets", "names device 9, .*: set gpu.devices to 10 at least"),
        (
            {"pcie.peers": "switch", "pcie.switches": "none"},
            2,
            "pcie.peers",
            "is switch, but pcie.switches is none: set pcie.switches",
        ),
        (
            {"pcie.peers": "socket", "pcie.sockets": "none"},
            2,
            "pcie.peers",
            "is socket, but pcie.sockets is none: set pcie.sockets",
        ),
        ({"pcie.switches": "0,1", "pcie.sockets": "0 1"}, 2, "pcie.switches", "0,1 are below one switch, but not at"),
        (
            {"nvlink.topology": "none", "p2p.without_link": "neighbour"},
            2,
            "p2p.without_link",
            "is neighbour, but nvlink.topology is none: set nvlink.topology",
        ),
    ],
)
def test_a_machine_that_cannot_be_is_refused(rig, overrides, devices, key, reason):
    with pytest.raises(ProfileError, match=rf"dgx1-v100\.toml: {key}: {reason}"):
        rig(overrides, devices=devices, profile="dgx1-v100")


def test_links_to_a_switch_connect_all_devices():
    topology = parse_topology("switch:12")
    assert (topology.links(0, 7), topology.links(7, 0), topology.links(3, 3)) == (12, 12, 0)
    assert topology and topology.highest == -1 and not parse_topology("none")
    for text, reason in [("switch:0", "has no link"), ("0-1 switch:2", "'switch:2' is no pair")]:
        with pytest.raises(TopologyError, match=reason):
            parse_topology(text)


@given(st.lists(st.integers(0, 30), unique=True, min_size=1), st.data())
def test_groups_that_are_written_are_read(devices, data):
    cuts = data.draw(st.sets(st.integers(1, len(devices) - 1))) if len(devices) > 1 else set()
    bounds = [0, *sorted(cuts), len(devices)]
    groups = tuple(tuple(devices[low:high]) for low, high in itertools.pairwise(bounds))
    assert parse_groups(" ".join(",".join(map(str, group)) for group in groups)) == groups


@pytest.mark.parametrize(
    ("text", "reason"),
    [("", "is empty"), ("0-1", "'0-1' is no group"), ("0,1 1,2", "device 1 comes twice"), ("3,3", "3 comes twice")],
)
def test_bad_groups_say_which_part_and_why(text, reason):
    assert parse_groups("none") == ()
    with pytest.raises(ProfileError, match=rf"alex-a100\.toml: pcie\.switches: .*{reason}"):
        load("alex-a100", {"pcie.switches": text})


def test_links_bring_engines_of_their_own_where_a_device_has_none_left(rig):
    def engines(overrides):
        groups = rig(overrides, devices=2).machine.devices[0].engines
        return {direction: group.spec.engines for direction, group in groups.items()}

    assert engines({}) == {"h2d": 1, "d2h": 1, "d2d": 1}
    assert engines({"nvlink.topology": "0-1:12"}) == {"h2d": 1, "d2h": 1, "d2d": 1, "p2p": 1}
    assert engines({"pcie.peers": "all", "gpu.copy_engines": 6}) == {"h2d": 1, "d2h": 1, "d2d": 3, "p2p": 1}


def test_an_entry_has_choices_or_a_format(tmp_path):
    path = tmp_path / "mine.toml"
    entry = '[entry."nvlink.topology"]\nvalue = "0-1"\nsource = "me"\nsource_type = "measured"\n'
    head = '[machine]\nname = "mine"\nbase = "alex-a100"\n[sources]\nme = "here"\n'
    number = '[entry."gpu.sms"]\nvalue = 1\nunit = "SM"\nsource = "me"\nsource_type = "measured"\nformat = "topology"\n'
    for wrong, reason in [
        ('choices = ["0-1"]\nformat = "topology"\n', "or with both"),
        ('format = "graph"\n', "graph"),
        ('format = "topology"\n' + number, "is no text"),
    ]:
        path.write_text(head + entry + wrong, encoding="utf-8")
        with pytest.raises(ProfileError, match=reason):
            load(path)
    path.write_text(head + entry + 'choices = ["0-1"]\n', encoding="utf-8")
    assert load(path).topology("nvlink.topology").pairs == {(0, 1): 1}


def test_a_profile_built_on_another_may_only_add_what_is_there_to_compare_with(tmp_path):
    path = tmp_path / "mine.toml"
    entry = '[entry."mine.own"]\nvalue = 1\nunit = "us"\nsource = "none"\nsource_type = "measured"\n'
    head = '[machine]\nname = "mine"\nbase = "alex-a100"\n'
    path.write_text(head + entry, encoding="utf-8")
    with pytest.raises(ProfileError, match=r"mine\.own: no such entry"):
        load(path)
    path.write_text(head + entry + "reference = true\n", encoding="utf-8")
    assert load(path).value("mine.own") == pytest.approx(1e-6)
