"""Runs one program under many schedules, to find those that fail, why, and how to replay them. See `explore.py` first.

``explore.py``    runs a program under many schedules, or with a fault at each of its awaits, counts what comes out,
                  and makes a failing schedule smaller
``schedules.py``  the strategy as the user names it, the case of each run, and the token of a failing one
``strategies``    strategies, which choose the actor that goes on; the core has further ones
``program.py``    the program, one run of it, its outcome, its story, and the way to a token and back
``invariants.py`` what must hold of the runtime's state while no directive is in progress
``tested.py``     a test of the pytest plugin as a program to explore
``command.py``    the commands `explore` and `replay`
"""
