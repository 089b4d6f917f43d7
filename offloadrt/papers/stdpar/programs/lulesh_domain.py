"""The domain of LULESH: a cube of hexahedra around one corner of a Sedov blast, its fields, its regions.

The domain is an object of the heap that the host and most kernels use: they find the fields behind pointers in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.extensions import stdpar as std
from offloadrt.papers.stdpar.programs.frame import loads, stores
from offloadrt.papers.stdpar.programs.lulesh_kernels import corners, volumes

REGIONS: Final = 11
DOMAIN_BYTES: Final = 2048
"""The size of the object itself: some fifty vectors of three pointers, and its parameters."""
BLAST: Final = 3.948746e7
"""The energy for 45 elements along a side (public source)."""
LENGTH: Final = 1.125
LAST_TIME: Final = 1e-2

NODAL: Final = ("x", "y", "z", "xd", "yd", "zd", "xdd", "ydd", "zdd", "fx", "fy", "fz", "nodalMass")
ELEMENTAL: Final = (*("e", "p", "q", "ql", "qq", "v", "volo", "delv", "vdov", "arealg", "ss", "elemMass", "vnew"),)
NEIGHBOURS: Final = ("lxim", "lxip", "letam", "letap", "lzetam", "lzetap")
SYMMETRIC, FREE = 1, 2
"""Kinds of a face of the mesh, in the bits of `elemBC`: two bits for each of six neighbours, ordered as `NEIGHBOURS`.
"""


@attrs.frozen
class Mesh:
    """`nx` elements along each side of the cube."""

    nx: int

    @property
    def elements(self) -> int:
        return self.nx**3

    @property
    def nodes(self) -> int:
        return (self.nx + 1) ** 3

    def region_sizes(self) -> list[int]:
        """Draw the number of elements of each region: the r-th has a chance of r, as in the public source."""
        shares = np.cumsum(np.arange(1, REGIONS + 1)) / (REGIONS * (REGIONS + 1) / 2)
        ends = np.rint(shares * self.elements).astype(int)
        return [int(size) for size in np.diff(ends, prepend=0)]

    def regions(self, seed: int) -> list[NDArray[np.int32]]:
        """Draw which elements are in each region, in order: runs that are mostly short."""
        rng = np.random.default_rng(seed)
        ends = np.cumsum(np.arange(1, REGIONS + 1)) / (REGIONS * (REGIONS + 1) / 2)
        of = np.empty(self.elements, np.int32)
        begin = 0
        while begin < self.elements:
            length = int(rng.integers(1, 16))
            of[begin : begin + length] = np.searchsorted(ends, rng.random(), side="right")
            begin += length
        return [np.flatnonzero(of == region).astype(np.int32) for region in range(REGIONS)]

    def values(self) -> dict[str, NDArray[Any]]:
        """Return what the host initialises fields with; fields that are not here start with zeros."""
        nx, side = self.nx, self.nx + 1
        node = np.arange(self.nodes)
        at = LENGTH * np.arange(side) / nx
        x, y, z = at[node % side], at[node // side % side], at[node // side**2]
        k, j, i = np.unravel_index(np.arange(self.elements), (nx, nx, nx))
        first = (k * side + j) * side + i
        plane = side * side
        nodelist = np.stack(
            [
                *(first, first + 1, first + side + 1, first + side),
                *(first + plane, first + plane + 1, first + plane + side + 1, first + plane + side),
            ],
            axis=1,
        ).astype(np.int32)
        volume = volumes(corners(x, y, z, nodelist))
        energy = np.zeros(self.elements)
        energy[0] = BLAST * (nx / 45.0) ** 3
        element = np.arange(self.elements)
        bits = np.zeros(self.elements, np.int32)
        for axis, along in enumerate((i, j, k)):
            bits[along == 0] |= SYMMETRIC << 4 * axis
            bits[along == nx - 1] |= FREE << 4 * axis + 2
        corner_of = np.argsort(nodelist, axis=None, kind="stable").astype(np.int32)
        starts = np.concatenate([[0], np.cumsum(np.bincount(nodelist.ravel(), minlength=self.nodes))])
        neighbours = {
            name: np.clip(element + (1 if name.endswith("p") else -1) * step, 0, self.elements - 1).astype(np.int32)
            for name, step in zip(NEIGHBOURS, (1, 1, nx, nx, nx * nx, nx * nx), strict=True)
        }
        face = np.arange(side * side, dtype=np.int32)
        return {
            "x": x, "y": y, "z": z, "nodelist": nodelist.ravel(), "e": energy, "v": np.ones(self.elements),
            "volo": volume, "elemMass": volume, "nodalMass": np.bincount(
                nodelist.ravel(), np.repeat(volume / 8.0, 8), self.nodes
            ),
            "elemBC": bits, "nodeElemStart": starts.astype(np.int32), "nodeElemCornerList": corner_of,
            "symmX": (face * side).astype(np.int32), "symmY": (face // side * plane + face % side).astype(np.int32),
            "symmZ": face, **neighbours,
        }  # fmt: skip

    def first_time_step(self) -> float:
        """Return half of the time that a sound wave needs to cross the first element."""
        energy = BLAST * (self.nx / 45.0) ** 3
        return 0.5 * (LENGTH / self.nx) / math.sqrt(2.0 * energy)


@attrs.define
class Domain:
    """The object and its fields. `time`, `dt`, `dtcourant` and `dthydro` belong to the host."""

    mesh: Mesh
    phantom: bool
    itself: std.UsmArray
    fields: Mapping[str, std.UsmArray]
    region_lists: list[std.UsmArray]
    dt: float
    time: float = 0.0
    dtcourant: float = 1e20
    dthydro: float = 1e20
    kept: dict[tuple[str, int], std.UsmArray] = attrs.field(factory=dict)
    """Temporary arrays of a program with device memory of its own, which it does not free."""

    @classmethod
    async def create(cls, t: std.HostThread, mesh: Mesh, phantom: bool, seed: int) -> Domain:
        """Construct the domain: the host allocates and writes everything."""
        values = {} if phantom else mesh.values()
        lists = None if phantom else mesh.regions(seed)
        side = (mesh.nx + 1) ** 2
        itself = await t.new_array("domain", DOMAIN_BYTES, np.int8, phantom=phantom)
        await stores(t, itself)
        shapes: dict[str, tuple[int, type]] = {
            **dict.fromkeys(NODAL, (mesh.nodes, np.float64)),
            **dict.fromkeys(ELEMENTAL, (mesh.elements, np.float64)),
            "nodelist": (8 * mesh.elements, np.int32),
            **dict.fromkeys((*NEIGHBOURS, "elemBC"), (mesh.elements, np.int32)),
            "nodeElemStart": (mesh.nodes + 1, np.int32),
            "nodeElemCornerList": (8 * mesh.elements, np.int32),
            **dict.fromkeys(("symmX", "symmY", "symmZ"), (side, np.int32)),
        }
        fields = {}
        for name, (length, dtype) in shapes.items():
            fields[name] = await t.new_array(name, length, dtype, phantom=phantom)
            await t.write(fields[name], values.get(name, 0))
        sizes = mesh.region_sizes() if lists is None else [len(elements) for elements in lists]
        region_lists = []
        for region, size in enumerate(sizes):
            region_lists.append(await t.new_array(f"region {region}", size, np.int32, phantom=phantom))
            await t.write(region_lists[-1], None if lists is None else lists[region])
        return cls(mesh, phantom, itself, fields, region_lists, mesh.first_time_step())

    def __getitem__(self, name: str) -> std.UsmArray:
        return self.fields[name]

    def behind(self, *names: str) -> list[std.Indirect]:
        """Return fields as a kernel gets them that has a pointer to the domain."""
        return [std.indirect(self.fields[name]) for name in names]

    async def load(self, t: std.HostThread) -> None:
        """Let the host load a member of the object: a size, a parameter, or a pointer to a field."""
        await loads(t, self.itself)

    async def store(self, t: std.HostThread) -> None:
        """Let the host store to a member."""
        await stores(t, self.itself)

    async def take(self, t: std.HostThread, n: int, *names: str) -> list[std.UsmArray]:
        """Allocate temporary arrays of `n` numbers."""
        if not t.runtime.is_explicit:
            return [await t.new_array(name, n, phantom=self.phantom) for name in names]
        for name in names:
            if (name, n) not in self.kept:
                self.kept[name, n] = await t.new_array(name, n, phantom=self.phantom)
        return [self.kept[name, n] for name in names]

    async def give(self, t: std.HostThread, *arrays: std.UsmArray) -> None:
        """Free temporary arrays, in this order."""
        if not t.runtime.is_explicit:
            for array in arrays:
                await t.delete(array)

    async def release(self, t: std.HostThread) -> None:
        """Destroy the domain."""
        for array in (*self.kept.values(), *self.fields.values(), *self.region_lists, self.itself):
            await t.delete(array)
