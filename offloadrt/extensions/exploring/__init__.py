"""Many schedules of one program: which of them fail, why, and how to have one again. Open `explore.py` first.

==================  =================================================================================================
``explore.py``      `explore`: runs a program under many schedules, and counts what comes out
``plan.py``         `SchedulePlan`: the strategy as the user names it, and the `ScheduleCase` of each run
``case.py``         `ScheduleCase`: all that decides a run besides the program; short enough for a token
``costs.py``        draws every cost that has a range
``program.py``      `ScenarioProgram`: a scenario or a recording with its parameters and its machine
``outcome.py``      `RunOutcome`: what came out of a run, and when two are the same
``everywhere.py``   `everywhere`: runs a program once for each of its awaits, in which that await fails
``awaits.py``       where a program waits, and what has to hold when a fault has ended it
``shrink.py``       makes a failing schedule smaller
``story.py``        tells a schedule in a few lines
``token.py``        `Token`: a failing run as a text
==================  =================================================================================================
"""
