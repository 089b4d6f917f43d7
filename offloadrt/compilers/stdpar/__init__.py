"""Compilers of C++ standard parallelism: which barriers AdaptiveCpp elides, and which captures icpx refuses.

`elision.py` states the rules; open it first. `elision_pass.py` applies them to the source of a host function,
which `barrier_walk.py` walks through; `memory_scope.py` says what names and calls are to a C++ compiler.
"""
