"""Five codes of SPECaccel 2023 as the zero-copy paper describes them: where arrays live, who touches them, what moves.

Source: Bertolli et al., "Performance Analysis of Runtime Handling of Zero-Copy for OpenMP Programs on MI300A APUs",
section V.B. The codes' sources are not public: sizes, run lengths and kernel work are ranges in `inputs`.

`inputs`   the ranges
`base`     what the codes have in common
`stencil`, `lbm`, `ep`   data on the device for the whole run
`solver`   spC and bt: arrays on the stack, mapped in every call
"""

from __future__ import annotations

from offloadrt.papers.zerocopy.specaccel.base import Ends, Forget, SpecCode
from offloadrt.papers.zerocopy.specaccel.ep import Ep
from offloadrt.papers.zerocopy.specaccel.lbm import Lbm
from offloadrt.papers.zerocopy.specaccel.solver import bt, spc
from offloadrt.papers.zerocopy.specaccel.stencil import Stencil

__all__ = ["BENCHMARKS", "Ends", "Forget", "SpecCode", "code"]

BENCHMARKS = ("stencil", "lbm", "ep", "spC", "bt")


def code(name: str, ends: Ends | None = None, forget: Forget | None = None) -> SpecCode:
    """Return the code of that name, with its ranges at `ends`.

    `forget` says what happens to stack arrays at a return; only spC and bt use it. Raises ValueError for an unknown
    name.
    """
    at = ends or Ends()
    if name == "stencil":
        return Stencil.of(at)
    if name == "lbm":
        return Lbm.of(at)
    if name == "ep":
        return Ep.of(at)
    if name == "spC":
        return spc(at, forget)
    if name == "bt":
        return bt(at, forget)
    raise ValueError(f"{name}: there are {', '.join(BENCHMARKS)}")
