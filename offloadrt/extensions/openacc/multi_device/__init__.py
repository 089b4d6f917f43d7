"""One kernel for several devices: the passes of JACC and MACC that divide the work of a loop nest.

``passes.py`` JACC's pass `predicate`: every device runs all iterations, and accesses only what it owns. MACC's pass
`split_loop`: every device runs a part of the iterations. Open it first. ``dependence.py`` which stores each access
feeds; the dimension along which each written array is divided; changed sources in which a device accesses only what it
needs ``divided.py`` `DividedKernel`, the result of both passes: who computes, owns and reads what. `Holders`: which
bytes the devices send to one another. Reductions: a partial value for each device, and the kernel that combines them.
"""

from offloadrt.lazy import lazy

__all__, __dir__, __getattr__ = lazy(__name__)
