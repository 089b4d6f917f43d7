"""Compilers of C++ standard parallelism: which barriers AdaptiveCpp elides, and which captures icpx refuses.

``elision.py``           the rules, and the pass that applies them to the source of a host function; open it first
``translation_unit.py``  what a compiler sees at once, and which calls are algorithms of the standard
"""
