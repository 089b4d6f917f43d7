"""Checking what papers report: claims, judges, and the report of `offloadrt validate`.

    claims    what a paper reports: its `claims.toml`, with relation and limits
    judging   judges: they ask for runs, and say what came out
    paper     what belongs to a paper; the papers themselves are above this package
    validate  judges every claim of a paper and reports the verdicts; start here
    ranges    how verdicts depend on the ranges of a machine's entries
    probing   what small recorded runs read from their recordings, as typed events
    measured  measured figures as numbers and as text

A judge is a generator: it yields the points that it needs and is sent their results, so that equal runs of all judges
are made once, on one executor.
"""
