"""Why a run took as long as it did, and what would make it faster. Open `critical_path.py` first.

critical_path  what every actor did when, and the chain of work and waits that ends at the end of the run
sentence       a run that is recorded for all this, how its resources were used, and what limits it in one sentence
what_if        what could be changed, and the changes tried, each by a run of its own
explain        all of it, for the command `why`, and whether the sentence holds in the machine's ranges
drawing        tracks, slices, arrows and counters of a run's rows, for any canvas
perfetto       makes them a file for ui.perfetto.dev
tracks         what is drawn of a run, as slices and counters, and the kinds of work with their colours
lines          a run by line of its source, its kernels under the roofline, and where its regions belong
report         makes it an HTML page, from the files in `page/`
timeline       draws a still picture of the tracks
kernels        what the compilers know of a program's kernels and objects
"""
