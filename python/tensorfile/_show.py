"""Open files as tables, for terminals and notebooks."""

import html as escaping

COLUMNS = ("name", "dtype", "shape", "bytes", "offset")


def rows(file):
    return [
        (name, t.dtype, f"[{', '.join(map(str, t.shape))}]", f"{t.nbytes:,}", f"{t.offset:,}")
        for name, t in file.items()
    ]


def table(file):
    """Return a table of names, dtypes, shapes, bytes and offsets, as the program's `ls` prints it."""
    if file.closed:
        return repr(file)
    lines = [COLUMNS, *rows(file)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]

    def aligned(line):
        left = [text.ljust(width) for text, width in zip(line[:3], widths)]
        right = [text.rjust(width) for text, width in zip(line[3:], widths[3:])]
        return "  ".join(left + right).rstrip()

    return "\n".join(map(aligned, lines))


def html(file):
    """Return the table as HTML."""
    title = escaping.escape(repr(file))
    if file.closed:
        return f"<p>{title}</p>"

    def row(cells, tag):
        return "<tr>" + "".join(f"<{tag}>{escaping.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(row(cells, "td") for cells in rows(file))
    return f"<table><caption>{title}</caption><thead>{row(COLUMNS, 'th')}</thead><tbody>{body}</tbody></table>"
