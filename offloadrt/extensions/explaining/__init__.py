"""Why a run took as long as it did, and what would make it faster. Open `critical_path.py` first.

causal_log     which actor resumed which other one in a run, recorded beside its events
critical_path  what every actor did when, and the chain of work and waits that ends at the end of the run
sentence       runs a program and records it, how its resources were used, and what limits it in one sentence
what_if        proposes changes of a run, and tries each by a run of its own
explain        all of this, for the command `why`
how_sure       whether the sentence also holds in draws of the machine's uncertain entries
drawing        tracks, slices, arrows and counters of a run's events, for any canvas
perfetto       writes them to a file for ui.perfetto.dev
tracks         keeps them as slices and counters, and gives kinds of work their colours
lines          a run by source line, its kernels under the roofline, and whether its regions belong on the device
report         an HTML page of all this, from the files in `page/`
timeline       a still picture of the tracks
kernels        what the compilers know of a program's kernels and objects
"""
