"""JACC's runtime: OpenACC kernels generated at run time, ordered by their data, divided among devices.

====================  ===============================================================================================
``routines.py``       `Jacc`: the routines that a program calls; open it first
``arguments.py``      argument descriptors, as JACC's translator builds them
``generation.py``     the source that a pushed kernel is compiled from; ``code_cache.py`` keeps what was compiled
``dependences.py``    pure: on which queue an operation goes, and behind which others; ``order.py`` carries it out
``pushes.py``         a kernel with its arguments, made ready once; ``launching.py`` runs it, whole or divided
``devices/``          several devices: when a kernel is divided, how, and what the devices exchange
====================  ===============================================================================================

Source: Matsumura, Garcia De Gonzalo, Peña, "JACC: An OpenACC Runtime Framework with Kernel-Level and Multi-GPU
Parallelization".
"""
