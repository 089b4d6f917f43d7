"""Tables in HTML: for notebooks, which show an object by its `_repr_html_`, and for the page of `offloadrt report`."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def html_table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table; what is in its cells is text, not HTML. A table without rows is nothing."""
    if not (lines := list(rows)):
        return ""

    def line(cells: Sequence[str], kind: str) -> str:
        return "<tr>" + "".join(f"<{kind}>{html.escape(cell)}</{kind}>" for cell in cells) + "</tr>"

    caption = f"<caption>{html.escape(title)}</caption>" if title else ""
    body = "".join(line(row, "td") for row in lines)
    return f"<table>{caption}<thead>{line(head, 'th')}</thead><tbody>{body}</tbody></table>"


def html_page(title: str, remark: str, *tables: str) -> str:
    """Write what a notebook shows of one object: what it is, a remark in small print, and its tables."""
    small = f"<p><small>{html.escape(remark)}</small></p>" if remark else ""
    return f"<div><p><b>{html.escape(title)}</b></p>{small}{''.join(tables)}</div>"
