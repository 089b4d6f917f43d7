"""QMCPACK's NiO performance test: crowds of walkers, many small kernels on resident data, small copies between them.

Source: Bertolli et al., "Performance Analysis of Runtime Handling of Zero-Copy for OpenMP Programs on MI300A APUs",
which publishes how many calls a run makes; QMCPACK's public source (78340fd6) for what the calls belong to.

`structure` sizes S1 to S128; the target directives of a move and of the non-local pseudopotential; the published
numbers of calls, and the plan of a run that makes them; ranges for what the paper leaves open `experiment` a host
thread's crowd, the whole run, its parameters, and what was assumed
"""

from __future__ import annotations

from offloadrt.papers.zerocopy.qmcpack.experiment import QmcpackExperiment, QmcpackSetup

__all__ = ["QmcpackExperiment", "QmcpackSetup"]
