"""Predicting measurements that nobody fitted to: `offloadrt validate --independent [FILE.toml]`.

    measured    what somebody measured: `[[result]]` tables of a TOML file; open it first
    rules       how an entry's texts say which run predicts it: a scenario, a machine, parameters, a figure
    quantities  units of reported values and figures
    planning    from an entry to the runs that predict its values, or to the reason why none does
    prediction  makes the runs, also at the ends of the machine's ranges, and compares

An entry may name its run itself, in a table `[result.run]`; otherwise the rules decide. An entry that neither can place
is listed with the reason.
"""
