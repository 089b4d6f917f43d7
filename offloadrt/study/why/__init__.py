"""Why a run took as long as it did, and what would make it faster. Open `critical_path.py` first.

history        what every actor did when, and who let it go on, from the events and the resumptions of a run
critical_path  the chain of work and waits that ends at the end of the run
resources      how long each lock was held, by which calls, and how many waited for it
sentence       what limits the run, in one sentence
observed       a run that is recorded for all this
proposals      what could be changed, the most promising first
what_if        the changes tried, each by a run of its own
robustness     in how many places of the machine's ranges the sentence holds
sobol_indices  on which entries with a range the sentence's figure depends
"""
