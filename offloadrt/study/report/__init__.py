"""`offloadrt report`: one self-contained HTML page that answers where the time of a run went.

`timeline.py` collects the slices that `offloadrt.trace` draws, `threads.py` adds up the host threads' time from them,
`charts.py` has the Vega-Lite charts and `page.py` puts everything into `page.html`, with its script and its style.
Altair's Vega bundle is a part of the page, so that it opens from a disk without a network.
"""
