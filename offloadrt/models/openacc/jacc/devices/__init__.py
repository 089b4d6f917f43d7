"""How several devices share the kernels of a JACC runtime.

`strategies.py` names the ways of sharing. `policy.py` is what is asked before each push, and `adaptive.py` is JACC's
answer, a pure policy. `division.py` divides a kernel among devices, `exchange.py` sends afterwards what each of them
made, and `partial_values.py` has the arrays in which reductions meet.
"""
