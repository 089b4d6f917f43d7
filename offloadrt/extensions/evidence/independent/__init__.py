"""Predicting measurements that nobody fitted to: `validate --independent [FILE.toml]`, `validate --leave-out MACHINE`.

    prediction  reads what somebody measured and which run predicts it (`[[result]]` tables of a TOML file), makes the
                runs, also at the ends of the machine's ranges and without what was measured on the machine
    outcome     each value beside its predictions, how far they are off by kind and machine, and what is printed

An entry names its run itself, in a table `[result.run]`, or says why there is none (`not_predicted`).
"""
