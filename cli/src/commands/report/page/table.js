// Tables of any length: only the rows in sight are elements.

const ROW = 27;

/**
 * Columns have `title`, `width`, `cell(item)`, which returns a text, or `fill(item, cell)`, and maybe `num` and `sort(item)`. The
 * first is as wide as CSS says.
 * Returns the element, and functions that set and redraw the items.
 */
function grid({ label, columns, onsort, onpick, onkey, isPicked, empty }) {
  const template = columns.map((column) => column.width).join(' ');
  const least = `calc(var(--name) + ${columns.slice(1).reduce((sum, column) => sum + (column.least || parseInt(column.width, 10)), 0)}px)`;
  const titles = el('div', { class: 'row titles', role: 'row' });
  const body = el('div', { class: 'body', role: 'rowgroup' });
  const root = el('div', { class: 'grid', role: 'treegrid', 'aria-label': label, tabindex: '0' }, titles, body);
  let items = [];
  let sorted = { column: null, down: false };

  for (const part of [titles, body]) part.style.minWidth = least;
  titles.style.gridTemplateColumns = template;
  for (const column of columns) {
    const button = el('button', { type: 'button', text: column.title, title: column.help || column.title });
    const cell = el('div', { class: `cell${column.num ? ' num' : ''}`, role: 'columnheader' }, button);
    button.addEventListener('click', () => {
      // Numbers begin with the largest. The third click brings back the first order.
      const first = Boolean(column.num);
      if (sorted.column !== column) sorted = { column, down: first };
      else if (sorted.down === first) sorted = { column, down: !first };
      else sorted = { column: null, down: false };
      for (const [at, other] of [...titles.children].entries()) {
        const is = columns[at] === sorted.column;
        other.setAttribute('aria-sort', is ? (sorted.down ? 'descending' : 'ascending') : 'none');
        other.firstChild.textContent = columns[at].title + (is ? (sorted.down ? ' ↓' : ' ↑') : '');
      }
      onsort(sorted.column && sorted.column.sort, sorted.down);
    });
    titles.append(cell);
  }

  function draw() {
    body.style.height = `${items.length * ROW}px`;
    const height = root.clientHeight || 600;
    const start = Math.max(0, Math.floor((root.scrollTop - ROW) / ROW) - 4);
    const end = Math.min(items.length, start + Math.ceil(height / ROW) + 9);
    root.setAttribute('aria-rowcount', items.length);
    const rows = [];
    for (let at = start; at < end; at += 1) {
      const item = items[at];
      const is = isPicked(item);
      const row = el('div', { class: `row${is ? ' picked' : ''}`, role: 'row', 'aria-rowindex': at + 1, 'aria-selected': is });
      if (item.level) row.setAttribute('aria-level', item.level);
      if (item.unfolded !== undefined) row.setAttribute('aria-expanded', item.unfolded);
      row.style.top = `${at * ROW}px`;
      row.style.gridTemplateColumns = template;
      for (const column of columns) {
        const cell = el('div', { class: `cell${column.num ? ' num' : ''}`, role: 'gridcell' });
        column.fill ? column.fill(item, cell) : cell.append(column.cell(item));
        row.append(cell);
      }
      row.addEventListener('click', () => onpick(item));
      rows.push(row);
    }
    body.replaceChildren(...rows);
    if (!items.length) body.append(el('div', { class: 'empty', text: empty }));
  }

  function reveal(at) {
    const top = at * ROW;
    if (top < root.scrollTop) root.scrollTop = top;
    if (top + 2 * ROW > root.scrollTop + root.clientHeight) root.scrollTop = top + 2 * ROW - root.clientHeight;
    draw();
  }

  root.addEventListener('scroll', draw, { passive: true });
  root.addEventListener('keydown', (event) => {
    if (event.target !== root) return;
    const at = items.findIndex(isPicked);
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15, Home: -Infinity, End: Infinity }[event.key];
    if (step !== undefined && items.length) {
      event.preventDefault();
      const to = Math.max(0, Math.min(items.length - 1, at + step));
      onpick(items[to], true);
      reveal(to);
    } else if (at >= 0 && onkey && onkey(event.key, items[at])) {
      event.preventDefault();
    }
  });
  return {
    root,
    draw,
    set(next) { items = next; draw(); },
    show(find) { const at = items.findIndex(find); if (at >= 0) reveal(at); },
  };
}

/** Sorts by numbers or texts; what has none comes last. */
function compare(value, down) {
  return (a, b) => {
    const [x, y] = [value(a), value(b)];
    const [noX, noY] = [x, y].map((number) => number === null || number === undefined || Number.isNaN(number));
    if (noX || noY) return noX - noY;
    const order = typeof x === 'string' ? (x < y ? -1 : x > y ? 1 : 0) : x - y;
    return down ? -order : order;
  };
}
