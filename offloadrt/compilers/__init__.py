"""Compilers' passes: what is made of kernels, and what is known about a host function, before a program runs.

Open `host/host_walk.py` first.

``multi_device/``  makes of one kernel the kernels that several devices run (JACC, MACC)
``host/``          reads a host function: what its names stand for, and the flow of control through it
``stdpar/``        C++ standard parallelism: AdaptiveCpp's elision of barriers, and what icpx refuses
"""
