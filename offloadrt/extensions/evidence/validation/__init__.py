"""Checks what papers report: claims, judges, and the report of `offloadrt validate`.

    claims    what a paper reports: its `claims.toml`, with relation and limits
    judging   judges: they ask for runs, and say what came out; what belongs to a paper; how probes read recordings
    validate  judges every claim of a paper, reports the verdicts and the digest of what they rest on, and how verdicts
              depend on the ranges of a machine's entries, at their ends and at drawn places; start here

A judge is a generator: it yields the points of the runs that it needs and is sent their results. So equal runs of all
judges are made once, on one executor. The papers themselves are above this package.
"""
