"""Runs one program under many schedules: which of them fail, why, and how to have one again. Open `explore.py` first.

``explore.py``    runs a program under many schedules, or with a fault at each of its awaits, counts what comes out,
                  and makes a failing schedule smaller
``schedules.py``  the strategy as the user names it, the case of each run, and the token of a failing one
``strategies``    which actor goes on: those that the core has no use for
``program.py``    the program, one run of it, its outcome, its story, and the way to a token and back
``tested.py``     a test of the pytest plugin as such a program
``command.py``    the commands `explore` and `replay`
"""
