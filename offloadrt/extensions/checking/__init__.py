"""Finding the mistakes of an offloading program while it runs: races, stale data, wrong maps.

======================  ===============================================================================================
``checker.py``          `Checker`, the observer of a program: takes its events and asks the others; open it first
``strands.py``          happens-before: vector clocks of host threads and tasks
``memories.py``         the blocks and mappings of the devices, by address
``tasks.py``            deferred tasks that nobody waits for
``accesses.py``         who does what to which bytes, and the directive that it belongs to
``intervals.py``        what is known of each range of addresses
``copies.py``           copies between host and devices: accesses on both sides, which carry versions
``races.py``            accesses that nothing orders
``versions.py``         which copy of the data is the newest: stale and uninitialised data
``lifetimes.py``        arrays of the host that are freed while they are mapped
``mappings.py``         maps and blocks: what is missing, too much, or ended under others
``recorded_faults.py``  races of the threads of a recorded kernel; kernels and maps that leave their arrays
``waste.py``            transfers and allocations that were for nothing
``costs.py``            how long copies, allocations and frees took, from the trace
``mistakes.py``         what is reported, for people and as JSON
``sources.py``          the line of the program that is running
======================  ===============================================================================================

Each of these is a state machine over events (`runtime/events.py`): it waits for nothing, takes no virtual time
and changes nothing of the run. A report rests on synchronization that the program asked for, never on what happened to
come first. It must be certain: where only some bytes of a range are known to be touched, two ranges are said to meet
when one of them is touched wholly and covers the other.
"""
