"""Tables of Markdown from rows of figures."""


def number(value):
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(head, lines):
    """Markdown; the first column is text, the rest are numbers."""
    out = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return out + ["| " + " | ".join(cells) + " |" for cells in lines] + [""]


def rows_of(rows, prefix, columns):
    """One line for each row whose name begins with `prefix`."""
    return [[row] + [number(figures.get(column)) for column in columns]
            for row, figures in rows.items() if row.startswith(prefix)]
