"""Finding the mistakes of an offloading program while it runs: races, stale data, wrong maps.

================  =====================================================================================================
``checker.py``    `Checker`, the observer of a program: gets its events and passes them to the other modules; knows
                  the line that is running. Open it first.
``copies.py``     follows copies between host and devices
``strands.py``    happens-before: vector clocks of host threads, tasks and the queues of devices
``accesses.py``   an access: which strand reads or writes which bytes in which directive; device blocks by address
``uses.py``       which bytes kernels and Python code access: from counts, or watched while they run
``races.py``      finds conflicting accesses that nothing orders
``orders.py``     which copies the maps of several threads make in another order
``versions.py``   knows which copy of data is the newest: finds stale and uninitialised data
``lifetimes.py``  finds arrays that are freed while they are mapped; missing and surplus maps, leaked blocks; tasks
                  that nobody waits for
``recorded.py``   events of replays only: races and stray accesses in recorded kernels, ends of mapped memory;
                  ``recorded_faults.py`` reports them
``waste.py``      finds needless transfers and allocations; ``repairs.py`` says what mends them, and what that saves
``mistakes.py``   the reports, as text and as JSON
``checked.py``    runs a program under the checker; ``command.py`` is `offloadrt check`
================  =====================================================================================================

Each of these is a state machine over events (`runtime/events.py`): it waits for nothing, takes no virtual time
and changes nothing of the run. A report rests on synchronization that the program asked for, never on what happened to
come first. It must be certain: where only some bytes of a range are known to be touched, two ranges are said to meet
when one of them is touched wholly and covers the other.
"""
