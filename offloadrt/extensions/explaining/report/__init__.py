"""`offloadrt report`: one self-contained HTML page that answers where the time of a run went. Open `page.py` first.

`timeline.py` collects the slices that `offloadrt.trace` draws, and adds up the host threads' time from them. `page.py`
makes the charts and puts everything into `page.html`, with its script and its style. Altair's Vega bundle is a part of
the page, so that it opens from a disk without a network.
"""
