"""Kernels: what a target region computes and what it costs in flops and bytes (no seconds; those are the machine's).

A kernel is a Python body over NumPy views plus its costs per iteration (``Kernel``, made by the decorator
``kernel``), and a ``Launch`` is one execution of it with teams, threads and iterations.
"""

from __future__ import annotations

from offloadrt.kernels.kernel import Kernel, KernelError, Launch, kernel

__all__ = ["Kernel", "KernelError", "Launch", "kernel"]
