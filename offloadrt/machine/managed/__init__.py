"""Managed memory of a discrete device, as its hardware and its kernels see it.

``pages.py`` (open it first) says who owns each page: the GPU, the CPU or nobody; ``translations.py`` which pages the
GPU can reach.  ``access.py`` describes what a kernel does with an array, ``sweep.py`` in which order it meets pages,
``random_hits.py`` when it meets one at random, and ``kernels.py`` how it runs from one fault to the next.
``tree_prefetch.py`` is the prefetcher's rule, a pure function.  There are no actors here: kernels run in the compute
units' actor, which sends ``ManagedFault`` and receives ``ReplayFaults``; faults are served, and pages migrated, by
``driver/uvm``.  ``access_counters.py`` counts how often kernels reach memory of the host that they use in place.
"""
