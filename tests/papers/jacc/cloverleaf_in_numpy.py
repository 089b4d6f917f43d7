"""CloverLeaf's time step over whole arrays, to compare kernels with."""

from __future__ import annotations

from typing import Any

import numpy as np

H = 2
"""Rings of halo cells."""


def mirrored(a: Any, depth: int, *, x: bool = False, y: bool = False, odd: str = "") -> None:
    """Fill `depth` rings of the halo; x, y: reflected around the first place inside in that direction, as the public
    source does with nodes and, in both directions, with faces; odd: the direction that changes its sign.
    """
    for axis, staggered in ((0, y), (1, x)):
        b = a if axis == 0 else a.T
        sign = -1.0 if odd == "yx"[axis] else 1.0
        last = len(b) - 1 - H
        wide = slice(H - depth, b.shape[1] - H + depth)
        for d in range(1, depth + 1):
            b[H - d, wide] = sign * b[H + d - (0 if staggered else 1), wide]
            b[last + d, wide] = sign * b[last - d + (0 if staggered else 1), wide]


class State:
    """Of a grid of ny rows and nx columns, ten wide and ten high."""

    def __init__(self, nx: int, ny: int) -> None:
        self.dx, self.dy, self.dt = 10.0 / nx, 10.0 / ny, 0.04
        self.cells = (slice(H, ny + H), slice(H, nx + H))
        self.nodes = (slice(H, ny + H + 1), slice(H, nx + H + 1))
        x = (np.arange(nx + 2 * H) - H + 0.5) * self.dx
        y = (np.arange(ny + 2 * H) - H + 0.5) * self.dy
        inside = (x[None, :] < 5.0) & (y[:, None] < 2.0)
        self.density = np.where(inside, 1.0, 0.2)
        self.energy = np.where(inside, 2.5, 1.0)
        self.pressure, self.viscosity, self.sound = (np.zeros_like(self.density) for _ in range(3))
        self.u, self.v = np.zeros((ny + 5, nx + 5)), np.zeros((ny + 5, nx + 5))
        for cell in (self.density, self.energy):
            mirrored(cell, 2)

    @property
    def volume(self) -> float:
        return self.dx * self.dy

    def gas(self, density: Any, energy: Any) -> None:
        at = self.cells
        self.pressure[at] = 0.4 * density[at] * energy[at]
        self.sound[at] = np.sqrt(1.4 * self.pressure[at] / density[at])

    def step(self, order: str) -> None:
        self.gas(self.density, self.energy)
        for cell in (self.pressure, self.density, self.energy):
            mirrored(cell, 1)
        mirrored(self.u, 1, x=True, y=True, odd="x")
        mirrored(self.v, 1, x=True, y=True, odd="y")
        self._viscosity()
        mirrored(self.viscosity, 1)
        self._choose_dt()
        density, energy = self._work(self.u, self.v, 0.5)
        self.gas(density, energy)
        mirrored(self.pressure, 1)
        u, v = self._accelerated()
        density, energy = self._work((self.u + u) / 2.0, (self.v + v) / 2.0, 1.0)
        flux = self._fluxes((self.u + u) / 2.0, (self.v + v) / 2.0)
        for cell in (density, energy):
            mirrored(cell, 2)
        for axis in "xy":
            mirrored(flux[axis], 2, x=True, y=True, odd=axis)
        done = dict.fromkeys("xy", 0.0)
        for axis in order:
            mass = self._advect_cells(axis, density, energy, flux, done)
            done[axis] = 1.0
            for cell in (density, energy):
                mirrored(cell, 2)
            mirrored(u, 2, x=True, y=True, odd="x")
            mirrored(v, 2, x=True, y=True, odd="y")
            mirrored(mass, 2, x=True, y=True, odd=axis)
            self._advect_nodes(axis, density, mass, flux, done, u, v)
        self.density[self.cells], self.energy[self.cells] = density[self.cells], energy[self.cells]
        self.u[self.nodes], self.v[self.nodes] = u[self.nodes], v[self.nodes]

    def _edges(self, u: Any, v: Any) -> tuple[Any, Any, Any, Any]:
        """What flows through the faces of the cells in the halo's first ring and inside, a second, per dt."""
        east = self.dy * 0.5 * (u[:-1, :] + u[1:, :])
        north = self.dx * 0.5 * (v[:, :-1] + v[:, 1:])
        return east[:, :-1], east[:, 1:], north[:-1, :], north[1:, :]

    def _viscosity(self) -> None:
        u, v, p = self.u, self.v, self.pressure
        du = (u[:-1, 1:] + u[1:, 1:] - u[:-1, :-1] - u[1:, :-1])[self.cells]
        dv = (v[1:, :-1] + v[1:, 1:] - v[:-1, :-1] - v[:-1, 1:])[self.cells]
        du_dy = (u[1:, :-1] + u[1:, 1:] - u[:-1, :-1] - u[:-1, 1:])[self.cells]
        dv_dx = (v[:-1, 1:] + v[1:, 1:] - v[:-1, :-1] - v[1:, :-1])[self.cells]
        gx = ((np.roll(p, -1, 1) - np.roll(p, 1, 1)) / (2.0 * self.dx))[self.cells]
        gy = ((np.roll(p, -1, 0) - np.roll(p, 1, 0)) / (2.0 * self.dy))[self.cells]
        strain = 0.5 * du_dy / self.dy + 0.5 * dv_dx / self.dx
        along = 0.5 * du / self.dx * gx**2 + 0.5 * dv / self.dy * gy**2 + strain * gx * gy
        limiter = along / np.maximum(gx**2 + gy**2, 1e-16)
        gx, gy = (np.maximum(1e-16, abs(one)) for one in (gx, gy))
        length = np.minimum(self.dx / gx, self.dy / gy) * np.sqrt(gx**2 + gy**2)
        found = 2.0 * self.density[self.cells] * length**2 * limiter**2
        self.viscosity[self.cells] = np.where((limiter > 0.0) | (self.dx * du + self.dy * dv >= 0.0), 0.0, found)

    def _choose_dt(self) -> None:
        left, right, bottom, top = (2.0 * one[self.cells] for one in self._edges(self.u, self.v))
        sound = np.sqrt(self.sound**2 + 2.0 * self.viscosity / self.density)[self.cells]
        limits = [0.7 * min(self.dx, self.dy) / np.maximum(sound, 1e-16)]
        for a, b in ((left, right), (bottom, top)):
            limits.append(self.volume / np.maximum(np.maximum(abs(a), abs(b)), 1e-16 * self.volume))
        div = (right - left + top - bottom) / (2.0 * self.volume)
        limits.append(np.where(div < -1e-16, 0.7 / np.maximum(-div, 1e-300), 1e21))
        self.dt = min(min(float(one.min()) for one in limits), 1.5 * self.dt, 0.04)

    def _work(self, u: Any, v: Any, part: float) -> tuple[Any, Any]:
        """Density and energy of the cells when they have moved for a part of the step."""
        left, right, bottom, top = self._edges(u, v)
        grown = part * self.dt * (right - left + top - bottom)
        density, energy = self.density.copy(), self.energy.copy()
        pressed = (self.pressure + self.viscosity) / self.density * grown / self.volume
        energy[self.cells] -= pressed[self.cells]
        density[self.cells] *= (self.volume / (self.volume + grown))[self.cells]
        return density, energy

    def _accelerated(self) -> tuple[Any, Any]:
        q = self.pressure + self.viscosity
        mass = self.density * self.volume
        nodal = 0.25 * (mass[:-1, :-1] + mass[:-1, 1:] + mass[1:, :-1] + mass[1:, 1:])
        right = q[1:, 1:] - q[1:, :-1] + q[:-1, 1:] - q[:-1, :-1]
        up = q[1:, 1:] - q[:-1, 1:] + q[1:, :-1] - q[:-1, :-1]
        inner = (slice(H - 1, H - 1 + self.nodes[0].stop - H), slice(H - 1, H - 1 + self.nodes[1].stop - H))
        u, v = self.u.copy(), self.v.copy()
        u[self.nodes] -= (0.5 * self.dt / nodal * self.dy * right)[inner]
        v[self.nodes] -= (0.5 * self.dt / nodal * self.dx * up)[inner]
        return u, v

    def _fluxes(self, u: Any, v: Any) -> dict[str, Any]:
        """Volumes that cross faces in the step, on faces in x and in y; zero in the halo."""
        rows, columns = self.density.shape
        x, y = np.zeros((rows, columns + 1)), np.zeros((rows + 1, columns))
        faces_x = (self.cells[0], self.nodes[1])
        faces_y = (self.nodes[0], self.cells[1])
        x[faces_x] = (self.dt * self.dy * 0.5 * (u[:-1, :] + u[1:, :]))[faces_x]
        y[faces_y] = (self.dt * self.dx * 0.5 * (v[:, :-1] + v[:, 1:]))[faces_y]
        return {"x": x, "y": y}

    def _net(self, flux: dict[str, Any], done: dict[str, float]) -> Any:
        """How much larger cells were, of all that has not been advected yet."""
        x = flux["x"][:, 1:] - flux["x"][:, :-1]
        y = flux["y"][1:, :] - flux["y"][:-1, :]
        return self.volume + (1.0 - done["x"]) * x + (1.0 - done["y"]) * y

    def _advect_cells(self, axis: str, density: Any, energy: Any, flux: dict[str, Any], done: dict[str, float]) -> Any:
        """In place; the mass that crosses the faces."""
        turn = (lambda a: a) if axis == "x" else np.transpose
        d, e, f, pre = turn(density), turn(energy), turn(flux[axis]), turn(self._net(flux, done))
        rows = self.cells[0] if axis == "x" else self.cells[1]
        columns = self.cells[1] if axis == "x" else self.cells[0]
        faces = np.arange(columns.start, columns.stop + 1)
        mass, heat = np.zeros_like(f), np.zeros_like(f)
        through = f[rows][:, faces]
        forward = through > 0.0
        donor, up = np.where(forward, faces - 1, faces), np.where(forward, faces - 2, faces + 1)
        down = np.where(forward, faces, faces - 1)

        def at(a: Any, columns: Any) -> Any:
            return np.take_along_axis(a[rows], columns, axis=1)

        donated = at(pre, donor)
        part = abs(through) / donated
        mass[rows, faces[0] : faces[-1] + 1] = through * (
            at(d, donor) + _limited(at(d, donor) - at(d, up), at(d, down) - at(d, donor), part, part)
        )
        moved = mass[rows][:, faces]
        share = abs(moved) / (at(d, donor) * donated)
        steep = _limited(at(e, donor) - at(e, up), at(e, down) - at(e, donor), part, share)
        heat[rows, faces[0] : faces[-1] + 1] = moved * (at(e, donor) + steep)
        before = d[rows, columns] * pre[rows, columns]
        after = before + (mass[:, :-1] - mass[:, 1:])[rows, columns]
        e[rows, columns] = (e[rows, columns] * before + (heat[:, :-1] - heat[:, 1:])[rows, columns]) / after
        d[rows, columns] = after / (pre + f[:, :-1] - f[:, 1:])[rows, columns]
        return turn(mass)

    def _advect_nodes(
        self, axis: str, density: Any, mass: Any, flux: dict[str, Any], done: dict[str, float], u: Any, v: Any
    ) -> None:
        turn = (lambda a: a) if axis == "x" else np.transpose
        cell_mass = turn(density * self._net(flux, done))
        m = turn(mass)
        node_flux = np.zeros(turn(u).shape)
        node_flux[1:-1, :-1] = 0.25 * (m[:-1, :-1] + m[1:, :-1] + m[:-1, 1:] + m[1:, 1:])
        post = np.full(node_flux.shape, np.nan)
        post[1:-1, 1:-1] = 0.25 * (cell_mass[:-1, :-1] + cell_mass[1:, :-1] + cell_mass[:-1, 1:] + cell_mass[1:, 1:])
        pre = post.copy()
        pre[:, 1:] += node_flux[:, 1:] - node_flux[:, :-1]
        rows = self.nodes[0] if axis == "x" else self.nodes[1]
        columns = self.nodes[1] if axis == "x" else self.nodes[0]
        faces = np.arange(columns.start - 1, columns.stop)
        width = self.dx if axis == "x" else self.dy
        for velocity in (turn(u), turn(v)):
            through = node_flux[rows][:, faces]
            back = through < 0.0
            donor, up = np.where(back, faces + 1, faces), np.where(back, faces + 2, faces - 1)
            down = np.where(back, faces, faces + 1)

            def at(a: Any, columns: Any) -> Any:
                return np.take_along_axis(a[rows], columns, axis=1)

            share = abs(through) / at(pre, donor)
            to_up, to_down = at(velocity, donor) - at(velocity, up), at(velocity, down) - at(velocity, donor)
            third = width * ((2.0 - share) * abs(to_down) / width + (1.0 + share) * abs(to_up) / width) / 6.0
            least = np.sign(to_down) * np.minimum(np.minimum(third, abs(to_up)), abs(to_down))
            carried = through * (at(velocity, donor) + (1.0 - share) * np.where(to_up * to_down > 0.0, least, 0.0))
            kept = velocity[rows, columns] * pre[rows, columns]
            velocity[rows, columns] = (kept + carried[:, :-1] - carried[:, 1:]) / post[rows, columns]


def _limited(up: Any, down: Any, part: Any, share: Any) -> Any:
    """Van Leer's slope, of third order where it is smooth."""
    third = ((1.0 + part) * abs(up) + (2.0 - part) * abs(down)) / 6.0
    least = np.sign(down) * np.minimum(np.minimum(abs(up), abs(down)), third)
    return np.where(up * down > 0.0, (1.0 - share) * least, 0.0)
