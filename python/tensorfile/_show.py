"""Open files as tables in notebooks."""

import html as escaping

COLUMNS = ("name", "dtype", "shape", "bytes", "offset")

# Notebooks take long to show more rows.
MOST_ROWS = 1000


def tensor_html(tensor):
    """Return the name, dtype, shape and place of a tensor as HTML, without reading it."""
    title = f"<{type(tensor).__name__} {tensor.name!r}>"
    facts = {
        "dtype": tensor.dtype,
        "shape": f"[{', '.join(map(str, tensor.shape))}]",
        "bytes": f"{tensor.nbytes:,}",
        "offset": f"{tensor.offset:,}",
        "file": "in memory" if tensor.path is None else str(tensor.path),
    }
    rows = "".join(f"<tr><th>{name}</th><td>{escaping.escape(fact)}</td></tr>" for name, fact in facts.items())
    return f"<table><caption>{escaping.escape(title)}</caption><tbody>{rows}</tbody></table>"


def html(file):
    """Return the table of `ls` as HTML."""
    title = escaping.escape(repr(file))
    if file.closed:
        return f"<p>{title}</p>"

    def row(cells, tag):
        return "<tr>" + "".join(f"<{tag}>{escaping.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    items = file.items()
    rows = [
        row((name, t.dtype, f"[{', '.join(map(str, t.shape))}]", f"{t.nbytes:,}", f"{t.offset:,}"), "td")
        for name, t in items[:MOST_ROWS]
    ]
    if len(items) > MOST_ROWS:
        rows.append(f'<tr><td colspan="5">… {len(items) - MOST_ROWS:,} more</td></tr>')
    sums = escaping.escape(str(file).rpartition("\n")[2])
    return (
        f"<table><caption>{title}</caption><thead>{row(COLUMNS, 'th')}</thead><tbody>{''.join(rows)}</tbody>"
        f'<tfoot><tr><td colspan="5">{sums}</td></tr></tfoot></table>'
    )
