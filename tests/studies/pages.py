"""Reads a page's tables, so that tests see what a reader sees."""

from html.parser import HTMLParser

VOID = {"meta", "link", "img", "br"}


class Page(HTMLParser):
    """Tables by the heading before them; addresses; text. An unclosed element is an error."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.addresses, self.tags, self.words = {}, [], set(), ""
        self._open, self._heading, self._row = [], "", None
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.addresses += [value for name, value in attributes if name in ("src", "href")]
        if tag not in VOID:
            self._open.append(tag)
        if tag in ("h2", "h3", "summary"):
            self._heading = ""
        if tag == "tr":
            self._row = []
        if tag in ("td", "th"):
            self._row.append("")

    def handle_endtag(self, tag):
        assert self._open.pop() == tag
        if tag == "tr":
            self.tables.setdefault(self._heading, []).append(self._row)
            self._row = None

    def handle_data(self, data):
        if self._open and self._open[-1] in ("h2", "h3", "summary"):
            self._heading += data.strip()
        if self._open and self._open[-1] not in ("style", "script"):
            self.words += data
        if self._row is not None and self._row:
            self._row[-1] += data.strip()

    def rows(self, heading):
        """{(group, first cell): {head: cell}} of the table below a heading."""
        heads, *rows = self.tables[heading]
        found, group = {}, ""
        for row in rows:
            if len(row) == 1:
                (group,) = row
            else:
                found[group, row[0]] = dict(zip(heads, row, strict=True))
        return found
