"""One run of a scenario: its emulated machine, what it counts, and its result.

==================  =================================================================================================
``run.py``          `Run`: what a scenario or a test holds; open it first
``building.py``     what a run builds at the first use of its machine; reads its options and its faults
``statistics.py``   `RunStatistics`: what a run counts; the figures of one time; the windows that are measured
``execution.py``    `execute`: runs a scenario, once or several times, and collects the `Result`; `ClockedRun`
``profiles.py``     machines as the user names them
==================  =================================================================================================
"""
