"""Finding the mistakes of an offloading program while it runs: races, stale data, wrong maps.

================  =====================================================================================================
``checker.py``    `Checker`, the observer of a program: takes its events and asks the others; follows copies between
                  host and devices, which carry versions; knows the line that is running. Open it first.
``strands.py``    happens-before: vector clocks of host threads, tasks and the queues of devices
``accesses.py``   who does what to which bytes, and the directive that it belongs to; the devices' blocks by address
``uses.py``       what kernels and Python use of arrays: from counts, or watched while they run
``races.py``      accesses that nothing orders
``versions.py``   which copy of the data is the newest: stale and uninitialised data
``lifetimes.py``  arrays that are freed while they are mapped; maps and blocks that are missing, too much, or ended
                  under others; tasks that nobody waits for; mistakes inside of a recorded kernel
``recorded.py``   what a replay tells besides: races and strays in recorded kernels, ends of mapped memory
``waste.py``      transfers and allocations that were for nothing, and how long they took
``mistakes.py``   what is reported, for people and as JSON
``checked.py``    runs a program under the checker; ``command.py`` is `offloadrt check`
================  =====================================================================================================

Each of these is a state machine over events (`runtime/events.py`): it waits for nothing, takes no virtual time
and changes nothing of the run. A report rests on synchronization that the program asked for, never on what happened to
come first. It must be certain: where only some bytes of a range are known to be touched, two ranges are said to meet
when one of them is touched wholly and covers the other.
"""
