"""What the programming models share: the host side of an offloading program, before any clause is read.

================  ===================================================================================================
``program.py``    `OffloadProgram`: devices, teams of host threads, arrays, exit; its options, threads and barrier;
                  open it first
``directive.py``  one directive or routine from its begin to its end, launches of kernels, regions
``arrays.py``     arrays, sections and map items; the arenas in which arrays lie; globals of declare target
``process.py``    `Process`: several processes that run one program
================  ===================================================================================================

The models build on it and know nothing of each other.
"""
