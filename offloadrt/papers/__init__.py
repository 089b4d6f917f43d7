"""Published papers: what each reports, and the programs that its authors ran, written against `offloadrt.models`.

A program states its sizes, its kernels' work and its sequence of directives; it states no time of the device. What its
authors leave open is an `InputRange` with a source, and results report where in it a run was.

Each paper is a package: its programs, `claims.toml` (what it reports) and `judges` (how each report is checked).
`exahype/program`, `zerocopy/qmcpack`, `zerocopy/specaccel`, `otm/rodinia` and `jacc/programs` are applications;
`stdpar/programs` replays recorded ones; `zerocopy/first_touch` and `otm/unified_memory` are synthetic programs. Another
package adds a paper of its own by an entry point of the group `offloadrt.papers`, which gives a `Paper`. `independent/`
has measurements that belong to no paper. Open `zerocopy/first_touch.py`, the smallest program, first.
"""

HOLDS_PROGRAMS = True
"""Whether a directive's place in a log is a line of these files, as of a user's script."""
