"""One run of a scenario: its emulated machine, what it counts, and its result.

==================  =================================================================================================
``run.py``          `Run`: what a scenario or a test holds; open it first
``building.py``     what a run builds at the first use of its machine; reads its faults
``options.py``      the options of a program, by its model
``statistics.py``   `RunStatistics`: what a run counts
``execution.py``    `execute`: runs a scenario, once or several times, and collects the `Result`; `ClockedRun`
``windows.py``      measured windows, as differences of the figures that ``ledger.py`` reads
``collect.py``      takes the figures of a finished run from the floors that counted them
``profiles.py``     machines as the user names them
``phases.py``       repeated phases of a long program, of which a few instances stand for all
``checked.py``      runs under the checker
``sinks.py``        the files that a run writes while it goes
==================  =================================================================================================
"""
