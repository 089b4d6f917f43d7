"""JACC's runtime: OpenACC kernels generated at run time, ordered by their data, divided among devices.

====================  ===============================================================================================
``routines.py``       `Jacc`: the routines that a program calls, and how a pushed kernel is launched, whole or divided;
                      open it first
``generation.py``     the source that a pushed kernel is compiled from, by its arguments' descriptors as JACC's
                      translator builds them, and the cache of what was compiled
``dependences.py``    on which queue an operation goes, and behind which others
``division.py``       several devices: whether a kernel is divided (what is asked before each push is a pure policy),
                      how, what they send one another, where reductions meet
====================  ===============================================================================================

Source: Matsumura, Garcia De Gonzalo, Peña, "JACC: An OpenACC Runtime Framework with Kernel-Level and Multi-GPU
Parallelization".
"""
