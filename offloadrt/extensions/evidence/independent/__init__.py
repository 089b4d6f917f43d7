"""Predicts measurements to which no profile was fitted: `validate --independent`, `validate --leave-out MACHINE`.

    prediction  reads measured values and the runs that predict them (`[[result]]` tables of a TOML file), and makes
                these runs, also at draws in the machine's ranges and without what was measured on the machine
    outcome     each value beside its predictions, how far they are off by kind and machine, and what is printed

An entry names its run itself, in a table `[result.run]`, or says why there is none (`not_predicted`).
"""
