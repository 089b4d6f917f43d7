"""Compilers' passes over kernels: what is made of a kernel before it is launched.

`multi_device/` makes of one kernel the kernels that several devices run (JACC, MACC).
"""
