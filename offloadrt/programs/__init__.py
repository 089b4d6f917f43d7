"""Application skeletons: programs as their authors describe them, written against `offloadrt.models`.

A program states its sizes, its kernels' work and its sequence of directives; it states no time. `exahype` is the first.
"""
