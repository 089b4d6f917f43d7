"""JACC's runtime: OpenACC kernels generated at run time, ordered by their data, divided among devices.

====================  ===============================================================================================
``routines.py``       `Jacc`: the routines that a program calls, and how a pushed kernel is launched, whole or divided;
                      open it first
``generation.py``     the source that a pushed kernel is compiled from, by its arguments' descriptors as JACC's
                      translator builds them, and the cache of what was compiled
``dependences.py``    in which queue an operation goes, and after which other queues
``division.py``       several devices: whether a kernel is divided (a pure policy, asked before each push), how it is
                      divided, what the devices send one another, how reductions are combined
====================  ===============================================================================================

Source: Matsumura, Garcia De Gonzalo, Peña, "JACC: An OpenACC Runtime Framework with Kernel-Level and Multi-GPU
Parallelization".
"""
