"""Predicting measurements that nobody fitted to: `offloadrt validate --independent [FILE.toml]`.

    prediction  reads what somebody measured and which run predicts it (`[[result]]` tables of a TOML file), makes the
                runs, also at the ends of the machine's ranges, and compares

An entry names its run itself, in a table `[result.run]`, or says why there is none (`not_predicted`).
"""
