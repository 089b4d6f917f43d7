"""Why a run took as long as it did, and what would make it faster. Open `critical_path.py` first.

critical_path  what every actor did when, and the chain of work and waits that ends at the end of the run
sentence       a run that is recorded for all this, how its resources were used, and what limits it in one sentence
what_if        what could be changed, and the changes tried, each by a run of its own
explain        all of it, for the command `why`, and whether the sentence holds in the machine's ranges
report         makes it an HTML page, from the files in `page/`
kernels        what the compilers know of a program's kernels and objects
"""
