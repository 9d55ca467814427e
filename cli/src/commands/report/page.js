'use strict';
// Texts of the data reach the page as text nodes only. Nothing here parses HTML.

const data = JSON.parse(document.getElementById('data').textContent);
const SVG = 'http://www.w3.org/2000/svg';
const NO_VALUES = {
  empty: 'The tensor has no elements.',
  blob: 'A blob has no elements, only bytes.',
  unknown_dtype: 'The dtype is unknown to this version, so the values are not read.',
  blocks: 'The dtype stores blocks of several elements, which are not decoded.',
  bits: 'The elements are packed or uninterpreted bits, not numbers.',
};

// ---- Elements and texts

function el(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (key === 'class') made.className = value;
    else if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else if (key === 'text') made.textContent = value;
    else if (value !== undefined && value !== false) made.setAttribute(key, value === true ? '' : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function svg(tag, props) {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(props)) made.setAttribute(key, value);
  return made;
}

const CONTROL = /[\p{Cc}\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

/** Makes characters visible that would change the direction of text or take no room, and shortens it in the middle. */
function visible(text, most = 400) {
  if (text.length > most) {
    const half = most >> 1;
    text = `${text.slice(0, half)}…${text.slice(-half)}`;
  }
  return text.replace(CONTROL, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

const grouped = new Intl.NumberFormat('en-US');
/** Numbers that JavaScript may have rounded are marked. */
const count = (number) => (Number.isSafeInteger(number) ? '' : '≈') + grouped.format(number);
const counted = (number, noun) => `${count(number)} ${noun}${number === 1 ? '' : 's'}`;

function size(bytes) {
  if (bytes < 1024) return counted(bytes, 'byte');
  const units = ['KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
  let at = -1;
  do { bytes /= 1024; at += 1; } while (bytes >= 1024 && at + 1 < units.length);
  return `${bytes.toFixed(2)} ${units[at]}`;
}

/** A number of parameters in a few characters. */
function short(number) {
  for (const [unit, letter] of [[1e12, 'T'], [1e9, 'B'], [1e6, 'M'], [1e3, 'K']]) {
    if (number >= unit) return `${Number((number / unit).toPrecision(3))} ${letter}`;
  }
  return count(number);
}

function share(part, whole) {
  if (!whole) return '0 %';
  const percent = (part / whole) * 100;
  // Nothing is called 0 % or 100 % that is not.
  if (percent > 0 && percent < 0.1) return '< 0.1 %';
  if (percent < 100 && percent > 99.9) return '> 99.9 %';
  return `${percent.toFixed(percent > 0 && (percent < 10 || percent > 99) && percent < 100 ? 1 : 0)} %`;
}

/** A number with four digits. */
function digits(number) {
  const rounded = Number(number.toPrecision(4));
  const magnitude = Math.abs(rounded);
  return magnitude >= 1e6 || (magnitude < 1e-3 && magnitude > 0) ? rounded.toExponential() : String(rounded);
}
/** A text of which both ends stay in sight if it does not fit. */
function ends(text, kind = '') {
  const at = Math.max(0, text.length - 14);
  return at < 8 ? [el('span', { class: kind, text })] : [el('span', { class: kind, text: text.slice(0, at) }), el('span', { class: `end ${kind}`, text: text.slice(at) })];
}

const pressed = (button, on) => button.setAttribute('aria-pressed', String(on));
const cssColor = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const swatch = (color) => { const made = el('i', { class: 'swatch' }); made.style.background = color; return made; };

/** Buttons of which one is pressed. */
function choice(label, options, chosen, pick) {
  const group = el('span', { class: 'group', role: 'group', 'aria-label': label });
  for (const [value, text] of options) {
    const button = el('button', { class: 'quiet', type: 'button', text, 'data-value': value, onclick: () => {
      for (const other of group.children) pressed(other, other === button);
      pick(value);
    } });
    pressed(button, value === chosen);
    group.append(button);
  }
  return group;
}

/** Draws on a canvas with the pixels of the screen. */
function painter(canvas, width, height) {
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  const paint = canvas.getContext('2d');
  paint.scale(scale, scale);
  return paint;
}

/** Functions that draw again when the width or the colors of the page change. */
let redraws = [];
let pending = 0;
function redraw() {
  cancelAnimationFrame(pending);
  pending = requestAnimationFrame(() => redraws.forEach((draw) => draw()));
}
window.addEventListener('resize', redraw);

// ---- Models

const MAX_DEPTH = 64;

/** Names as a tree that branches at dots. A branch with a single branch below is joined with it. */
function treeOf(rows) {
  const root = { label: '', path: '', children: new Map(), row: -1, parent: null };
  rows.forEach((row, at) => {
    const segments = row.name.split('.');
    if (segments.length > MAX_DEPTH) segments.splice(MAX_DEPTH - 1, Infinity, segments.slice(MAX_DEPTH - 1).join('.'));
    let node = root;
    for (const segment of segments) {
      let next = node.children.get(segment);
      if (!next) {
        next = { label: segment, children: new Map(), row: -1, parent: node };
        node.children.set(segment, next);
      }
      node = next;
    }
    // A second tensor of the same name has a node of its own.
    if (node.row >= 0) {
      const twin = { label: node.label, children: new Map(), row: at, parent: node.parent };
      node.parent.children.set(Symbol(node.label), twin);
    } else {
      node.row = at;
    }
  });
  const nodes = [];
  (function finish(node, parent, prefix) {
    while (parent && node.row < 0 && node.children.size === 1) {
      const [only] = node.children.values();
      only.label = `${node.label}.${only.label}`;
      node = only;
    }
    node.parent = parent;
    node.path = parent ? prefix + node.label : '';
    node.id = nodes.push(node) - 1;
    const below = parent ? `${node.path}.` : '';
    node.children = Array.from(node.children.values(), (child) => finish(child, node, below));
    const own = rows[node.row];
    Object.assign(node, { tensors: own ? 1 : 0, bytes: own ? own.bytes : 0, parameters: own ? own.parameters : 0 });
    for (const child of node.children) {
      node.tensors += child.tensors;
      node.bytes += child.bytes;
      node.parameters += child.parameters;
    }
    return node;
  })(root, null, '');
  return nodes;
}

function modelOf(file, number) {
  const rows = file.tensors;
  const nodes = treeOf(rows);
  nodes.forEach((node) => { if (node.row >= 0) rows[node.row].node = node; });
  file.values.forEach((values) => { rows[values.tensor].values = values; });
  const dtypes = Object.entries(file.info.dtypes).sort(([, a], [, b]) => b.bytes - a.bytes);
  const hues = new Map(dtypes.map(([dtype], at) => [dtype, Math.min(at, 7)]));
  rows.forEach((row, at) => {
    row.at = at;
    row.key = `${row.name} ${row.dtype} ${row.shape}`.toLowerCase();
  });
  return { file, number, rows, nodes, root: nodes[0], dtypes, hues, picked: -1, listeners: [] };
}

const models = data.files.map(modelOf);

/** The differences of the tensors of each file. Names may repeat, so the offsets tell them apart. */
const changes = [new Map(), new Map()];
for (const change of data.diff ? data.diff.tensors : []) {
  change.offsets.forEach((offset, side) => changes[side].set(`${offset} ${change.name}`, change));
}

/** Chooses a tensor, whose details are shown. */
function pick(model, at) {
  model.picked = at;
  model.listeners.forEach((listener) => listener(model.rows[at]));
}

// ---- Tables of any length: only the rows in sight are elements

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

// ---- Summary of a file

function summaryCard({ file, dtypes, hues }) {
  const { info } = file;
  const facts = el('dl', { class: 'facts' });
  const fact = (term, text, help) => facts.append(el('div', { title: help }, el('dt', { text: term }), el('dd', { text })));
  fact('format', info.format + (info.version ? `, version ${visible(info.version, 40)}` : ''));
  fact('size', size(info.size), counted(info.size, 'byte'));
  fact('tensors', count(info.total.tensors));
  fact('parameters', short(info.total.parameters), count(info.total.parameters));
  if (info.storage.alignment) fact('alignment', counted(info.storage.alignment, 'byte'), 'Payloads start at multiples of this');

  const card = el('section', { class: 'card' }, el('h1', { text: visible(info.file) }), facts);
  const remarks = info.warnings.map((warning) => visible(warning, 1000));
  if (info.misaligned) remarks.push(`${counted(info.misaligned, 'tensor')} cannot be borrowed, because the elements are not aligned`);
  if (remarks.length) {
    const list = el('ul', {}, ...remarks.slice(0, 20).map((text) => el('li', { text })));
    if (remarks.length > 20) list.append(el('li', { text: `and ${count(remarks.length - 20)} more` }));
    card.append(el('div', { class: 'note', role: 'note' }, el('b', { text: counted(remarks.length, 'warning') }), list));
  }

  const total = dtypes.reduce((sum, [, of]) => sum + of.bytes, 0);
  const bar = el('div', { class: 'stack', role: 'img', 'aria-label': 'Bytes by dtype' });
  const legend = el('div', { class: 'legend' });
  dtypes.forEach(([dtype, of], at) => {
    const color = `var(--h${hues.get(dtype)})`;
    const text = `${visible(dtype, 60)}: ${counted(of.tensors, 'tensor')}, ${counted(of.parameters, 'parameter')}, ${size(of.bytes)}`;
    if (of.bytes && at < 200) {
      const part = el('div', { title: text });
      part.style.cssText = `flex: ${of.bytes / total}; background: ${color}`;
      bar.append(part);
    }
    if (at < 12) {
      const name = el('b', { text: visible(dtype, 60) });
      legend.append(el('span', { title: text }, swatch(color), name, `${size(of.bytes)}, ${share(of.bytes, total)}, ${counted(of.tensors, 'tensor')}`));
    }
  });
  if (dtypes.length > 12) legend.append(el('span', { class: 'soft', text: `and ${count(dtypes.length - 12)} more dtypes` }));
  if (dtypes.length) card.append(el('h2', { text: 'Dtypes', class: 'gap' }), bar, legend);
  return card;
}

// ---- The bytes of a file

function bytesCard(model) {
  const { file, rows } = model;
  const { storage, size: whole } = file.info;
  const strips = el('div', { class: `strips${file.coverage.length > 4 ? ' many' : ''}` });
  const hover = el('div', { class: 'hover soft', 'aria-live': 'polite' });
  const hint = 'Point at the map for what the bytes are. The arrow keys step through it.';
  hover.textContent = hint;

  // Rows of each shard, in the order of the file.
  const byShard = file.coverage.map(() => []);
  rows.forEach((row) => { if (row.bytes && byShard[row.shard || 0]) byShard[row.shard || 0].push(row); });
  byShard.forEach((list) => list.sort((a, b) => a.offset - b.offset));

  file.coverage.forEach((part, shard) => {
    const label = part.shard ? visible(part.shard, 120) : 'the file';
    const canvas = el('canvas', { class: 'strip', tabindex: '0', role: 'img', 'aria-label': `Bytes of ${label}` });
    if (part.shard) strips.append(el('div', { class: 'label', text: `${label}, ${size(part.bytes)}` }));
    strips.append(canvas);
    const list = byShard[shard];
    let marks = null;
    let cursor = -1;
    const at = (x) => Math.floor((Math.max(0, Math.min(0.999999, x)) || 0) * part.bytes);

    function draw() {
      const width = canvas.clientWidth || 800;
      const height = canvas.clientHeight || 30;
      const paint = painter(canvas, width, height);
      const x = (byte) => (byte / (part.bytes || 1)) * width;
      const [none, shared, one, two] = ['--none', '--shared', '--payload', '--other-payload'].map(cssColor);
      paint.fillStyle = none;
      paint.fillRect(0, 0, width, height);
      for (const run of part.runs) {
        // The sums of a run of several kinds are in a line.
        const used = run.payload + run.shared;
        if (!used) continue;
        const [from, to] = [x(run.start), x(run.end)];
        const split = from + (to - from) * (run.payload / (run.end - run.start));
        paint.fillStyle = one;
        paint.fillRect(from, 0, split - from, height);
        paint.fillStyle = shared;
        paint.fillRect(split, 0, (to - from) * (run.shared / (run.end - run.start)), height);
      }
      // Tensors that are wide enough have alternating shades.
      paint.fillStyle = two;
      let odd = false;
      let end = 0;
      for (const row of list) {
        const [from, to] = [x(row.offset), x(row.offset + row.bytes)];
        if (to - from >= 3 && row.offset >= end) {
          odd = !odd;
          if (odd) paint.fillRect(from, 0, to - from, height);
        }
        end = Math.max(end, row.offset + row.bytes);
      }
      // Runs that would be invisible have the width of a pixel.
      for (const run of part.exact ? part.runs : []) {
        if (run.payload) continue;
        paint.fillStyle = run.shared ? shared : none;
        const from = x(run.start);
        paint.fillRect(Math.min(from, width - 1), 0, Math.max(1, x(run.end) - from), height);
      }
      if (cursor >= 0) {
        paint.fillStyle = cssColor('--ink');
        paint.fillRect(Math.min(x(cursor), width - 2), 0, 2, height);
      }
    }

    function tensorsAt(byte) {
      const found = [];
      for (const row of list) {
        if (row.offset > byte) break;
        if (byte < row.offset + row.bytes) found.push(row);
      }
      return found;
    }

    function describe(byte) {
      const run = part.runs.find((one) => byte >= one.start && byte < one.end);
      if (!run) { hover.textContent = hint; return; }
      const found = tensorsAt(byte);
      const range = (start, end) => `bytes ${count(start)} to ${count(end)} (${size(end - start)})`;
      let text;
      if (found.length) {
        const names = found.slice(0, 3).map((row) => `${visible(row.name, 80)} ${row.dtype}${row.shape}`);
        const more = found.length > 3 ? ` and ${found.length - 3} more` : '';
        text = `${names.join(', ')}${more}: ${range(found[0].offset, found[0].offset + found[0].bytes)}`;
        if (found.length > 1) text += ', shared';
      } else if (run.payload + run.shared) {
        text = `${range(run.start, run.end)}: payloads${part.exact && !file.left_out.tensors ? '' : ' of tensors that are not listed, or other bytes'}`;
      } else {
        const place = run.start === 0 ? 'before the first payload: header or index' : run.end >= part.bytes ? 'after the last payload' : 'between payloads: padding, record headers or unused';
        text = `${range(run.start, run.end)}: ${place}`;
      }
      hover.textContent = part.shard ? `${label}: ${text}` : text;
    }

    canvas.addEventListener('mousemove', (event) => describe(at(event.offsetX / canvas.clientWidth)));
    canvas.addEventListener('mouseleave', () => { hover.textContent = hint; });
    canvas.addEventListener('click', (event) => {
      const [row] = tensorsAt(at(event.offsetX / canvas.clientWidth));
      if (row) pick(model, row.at);
    });
    canvas.addEventListener('keydown', (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (event.key === 'Enter' && cursor >= 0) {
        const [row] = tensorsAt(cursor);
        if (row) pick(model, row.at);
      }
      if (!step) return;
      event.preventDefault();
      marks = marks || [...new Set([...part.runs.map((run) => run.start), ...list.map((row) => row.offset)])].sort((a, b) => a - b);
      const next = step > 0 ? marks.find((mark) => mark > cursor) : marks.findLast((mark) => mark < cursor);
      if (next === undefined) return;
      cursor = next;
      describe(cursor);
      draw();
    });
    canvas.addEventListener('blur', () => { cursor = -1; draw(); });
    redraws.push(draw);
  });

  const legend = el('div', { class: 'legend' });
  const item = (color, name, text) => legend.append(el('span', {}, swatch(`var(${color})`), el('b', { text: name }), text));
  item('--payload', 'payload', `${size(storage.payload)}, ${share(storage.payload, whole)}`);
  if (storage.shared) item('--shared', 'shared', `${size(storage.shared)} saved by tensors that share their bytes`);
  const other = [];
  if (storage.before) other.push(`${size(storage.before)} before the first payload`);
  if (storage.between) other.push(`${size(storage.between)} in ${counted(storage.gaps, 'gap')} of up to ${size(storage.largest_gap)}`);
  if (storage.after) other.push(`${size(storage.after)} after the last`);
  item('--none', 'other', other.join(', ') || 'none');
  const bounded = file.coverage.some((part) => !part.exact) ? ' The file has so many parts that each stripe is the sum of several.' : '';
  return el('section', { class: 'card' },
    el('div', { class: 'head' }, el('h2', { text: file.coverage.length > 1 ? `Bytes of ${counted(file.coverage.length, 'shard')}` : 'Bytes of the file' }),
      el('span', { class: 'soft small', text: `Neighboring tensors have two shades.${bounded}` })),
    strips, hover, legend);
}

// ---- Treemap

/** Divides a rectangle by sizes into rectangles that are nearly squares. */
function squarify(sizes, x, y, width, height) {
  const total = sizes.reduce((sum, one) => sum + one, 0);
  const placed = [];
  let left = total;
  let at = 0;
  while (at < sizes.length && left > 0 && width > 0 && height > 0) {
    const side = Math.min(width, height);
    const area = (width * height) / left;
    let sum = 0;
    let worst = Infinity;
    let end = at;
    while (end < sizes.length) {
      const next = sum + sizes[end];
      const thick = (next * area) / side;
      const ratio = (one) => { const long = (one * area) / thick; return Math.max(thick / long, long / thick); };
      const worse = Math.max(ratio(sizes[at]), ratio(sizes[end]));
      if (worse > worst) break;
      [worst, sum] = [worse, next];
      end += 1;
    }
    const thick = (sum * area) / side;
    let offset = 0;
    for (; at < end; at += 1) {
      const long = sum ? (sizes[at] / sum) * side : 0;
      placed.push(width >= height ? [x, y + offset, thick, long] : [x + offset, y, long, thick]);
      offset += long;
    }
    if (width >= height) { x += thick; width -= thick; } else { y += thick; height -= thick; }
    left -= sum;
  }
  return placed;
}

function mapCard(model) {
  const { rows, nodes, root, dtypes, hues } = model;
  const board = el('div', { class: 'map' });
  const crumbs = el('nav', { class: 'crumbs grow', 'aria-label': 'Modules' });
  const hover = el('div', { class: 'hover soft' });
  let shown = root;
  // A few bytes of other dtypes would leave all areas with one color.
  let colors = dtypes.length && dtypes[0][1].bytes < root.bytes * 0.95 ? 'dtype' : 'module';
  /** The most tiles, and the least pixels of their sides. */
  const [MOST, LEAST] = [4000, 4];

  const describe = (node) => {
    const row = rows[node.row];
    const kind = row && !node.children.length ? `${visible(row.dtype, 60)}${row.shape}` : counted(node.tensors, 'tensor');
    return `${visible(node.path, 160)}: ${kind}, ${size(node.bytes)}, ${share(node.bytes, root.bytes)} of all`;
  };
  const rest = 'Click a module to zoom in, a tensor for its details. Escape zooms out.';

  function zoom(node) {
    shown = node;
    const path = [];
    for (let at = node; at; at = at.parent) path.unshift(at);
    crumbs.replaceChildren(...path.flatMap((at, depth) => {
      const text = depth ? visible(at.label, 80) : 'all modules';
      const button = el('button', { type: 'button', text, 'aria-current': at === node && 'location', onclick: () => zoom(at) });
      return depth ? [el('span', { class: 'soft', text: '›' }), button] : [button];
    }));
    draw();
  }

  /** Returns a color for each module, of those into which a module with nearly all bytes is divided. */
  function groups() {
    let groups = [...shown.children];
    for (let depth = 0; depth < 8; depth += 1) {
      const large = groups.find((node) => node.bytes > shown.bytes * 0.7 && node.children.length);
      if (!large) break;
      groups = groups.flatMap((node) => (node === large ? node.children : [node]));
    }
    return new Map(groups.map((node, at) => [node, at % 7]));
  }

  function tile(node, left, top, width, height, group, isFirst) {
    const isLeaf = !node.children.length;
    const made = el('div', { class: `tile${isLeaf ? ' leaf' : ''}${node.row >= 0 && node.row === model.picked ? ' picked' : ''}`, 'data-node': node.id });
    // The keyboard reaches those of the first level.
    if (isFirst) for (const [key, value] of [['tabindex', 0], ['role', 'button'], ['aria-label', describe(node)]]) made.setAttribute(key, value);
    const hue = colors === 'module' ? group : isLeaf ? hues.get(rows[node.row].dtype) : null;
    const color = hue === null || hue === undefined ? 'var(--sunk)' : `var(--h${hue})`;
    made.style.cssText = `left:${left}px;top:${top}px;width:${width - 1}px;height:${height - 1}px;background:color-mix(in srgb, ${color}, var(--card) ${isLeaf ? 0 : 50}%)`;
    if (!isLeaf) made.style.color = 'var(--ink)';
    if (width > 30 && height > (isLeaf ? 17 : 44)) made.append(el(isLeaf ? 'span' : 'b', { text: visible(node.label, 100) }));
    if (isLeaf && width > 70 && height > 36) made.append(el('span', { text: size(node.bytes) }));
    return made;
  }

  function draw() {
    const made = [];
    const hueOfGroup = groups();
    let level = [{ node: shown, x: 0, y: 0, width: board.clientWidth || 1000, height: board.clientHeight || 400, hue: null }];
    // Level by level. If there are too many modules for a level, it is left out, and those below it.
    while (level.length && made.length < MOST) {
      const isFirst = !made.length;
      const [tiles, next] = [[], []];
      for (const { node, x, y, width, height, hue: above } of level) {
        const children = node.children.filter((child) => child.bytes > 0).sort((a, b) => b.bytes - a.bytes);
        const rects = squarify(children.map((child) => child.bytes), x, y, width, height);
        for (const [at, child] of children.entries()) {
          const [left, top, wide, high] = rects[at];
          if (wide < LEAST || high < LEAST) continue;
          if (tiles.length > MOST) break;
          const isLeaf = !child.children.length;
          const hue = hueOfGroup.get(child) ?? above;
          tiles.push(tile(child, left, top, wide, high, hue, isFirst));
          if (isLeaf) continue;
          if (wide > 36 && high > 44) next.push({ node: child, hue, x: left + 3, y: top + 19, width: wide - 7, height: high - 23 });
          else if (wide > 8 && high > 8) next.push({ node: child, hue, x: left + 1, y: top + 1, width: wide - 3, height: high - 3 });
        }
      }
      if (!isFirst && made.length + tiles.length > MOST) break;
      made.push(...tiles.slice(0, MOST));
      level = next;
    }
    if (!made.length) made.push(el('div', { class: 'empty', text: 'There are no bytes to draw.' }));
    board.replaceChildren(...made);
    hover.textContent = rest;
  }

  const nodeOf = (event) => { const tile = event.target.closest('[data-node]'); return tile && nodes[tile.dataset.node]; };
  const enter = (node) => {
    if (!node) return;
    if (node.children.length) { zoom(node); return; }
    pick(model, node.row);
  };
  board.addEventListener('click', (event) => enter(nodeOf(event)));
  board.addEventListener('mousemove', (event) => { const node = nodeOf(event); hover.textContent = node ? describe(node) : rest; });
  board.addEventListener('focusin', (event) => { const node = nodeOf(event); if (node) hover.textContent = describe(node); });
  board.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); enter(nodeOf(event)); }
  });
  model.zoomOut = () => {
    if (!shown.parent) return;
    const isInside = board.contains(document.activeElement);
    zoom(shown.parent);
    if (isInside) board.querySelector('[tabindex]').focus();
  };
  model.listeners.push(() => {
    for (const tile of board.querySelectorAll('.picked')) tile.classList.remove('picked');
    const node = model.rows[model.picked].node;
    const tile = board.querySelector(`[data-node="${node.id}"]`);
    if (tile) tile.classList.add('picked');
  });
  redraws.push(draw);
  zoom(root);
  const twice = model.file.info.storage.shared ? ' Tensors that share bytes have an area each.' : '';
  return el('section', { class: 'card' },
    el('div', { class: 'head' }, el('h2', { text: 'Modules by size' }), crumbs,
      el('span', { class: 'soft small', text: `Areas are bytes in the file.${twice}` }),
      choice('Colors', [['module', 'by module'], ['dtype', 'by dtype']], colors, (value) => { colors = value; draw(); })),
    board, hover);
}

// ---- Tree and table of tensors

function listCard(model) {
  const { rows, root, file } = model;
  let mode = 'tree';
  let terms = [];
  let dtype = '';
  let order = null;
  const unfolded = new Set();
  /** The module that the arrow keys reached. */
  let focused = null;
  const largest = rows.reduce((most, row) => Math.max(most, row.bytes), 1);

  const isModule = (item) => item.row === undefined;
  const rowOf = (item) => (isModule(item) ? null : rows[item.row]);
  const stat = (name) => (item) => { const row = rowOf(item); return row && row.values && row.values.stats ? row.values.stats[name] : null; };
  const statColumn = (name, help) => ({
    title: name, width: '90px', num: true, help,
    cell: (item) => { const text = stat(name)(item) ?? ''; return text.length > 8 ? digits(Number(text)) : text; },
    sort: (item) => { const text = stat(name)(item); return text === null ? null : Number(text); },
  });
  const oddities = (item) => {
    const row = rowOf(item);
    const stats = row && row.values && row.values.stats;
    return stats ? stats.nans + stats.positive_infinities + stats.negative_infinities : null;
  };
  const columns = [
    { title: 'name', width: 'minmax(var(--name), 1fr)', sort: (item) => (isModule(item) ? item.node.label : rows[item.row].name),
      fill(item, cell) {
        cell.classList.add('name');
        cell.style.paddingLeft = `${8 + ((item.level || 1) - 1) * 15}px`;
        const full = item.node ? item.node.path : rows[item.row].name;
        cell.title = visible(full, 2000);
        if (item.unfolded !== undefined) {
          cell.append(el('button', { class: 'fold', type: 'button', tabindex: '-1', text: item.unfolded ? '▼' : '▶',
            'aria-label': item.unfolded ? 'Fold' : 'Unfold', onclick: (event) => { event.stopPropagation(); toggle(item); } }));
        } else if (mode === 'tree') {
          cell.append(el('span', { class: 'nofold' }));
        }
        cell.append(...ends(visible(item.node ? item.node.label : full), isModule(item) ? 'module' : ''));
      } },
    { title: 'dtype', width: '62px', cell: (item) => (isModule(item) ? '' : visible(rows[item.row].dtype, 40)), sort: (item) => rowOf(item)?.dtype },
    { title: 'shape', width: '132px', cell: (item) => (isModule(item) ? counted(item.node.tensors, 'tensor') : rows[item.row].shape), sort: (item) => rowOf(item)?.shape },
    { title: 'parameters', width: '100px', num: true, help: 'Stored elements', cell: (item) => { const { parameters } = sums(item); return parameters < 1e8 ? count(parameters) : short(parameters); }, sort: (item) => sums(item).parameters },
    { title: 'size', width: '92px', num: true, help: 'Bytes in the file', sort: (item) => sums(item).bytes,
      fill(item, cell) {
        cell.classList.add('size');
        cell.title = counted(sums(item).bytes, 'byte');
        cell.style.backgroundSize = `${(sums(item).bytes / (isModule(item) ? root.bytes || 1 : largest)) * 100}% 70%`;
        cell.append(size(sums(item).bytes));
      } },
    statColumn('min'), statColumn('max'), statColumn('mean'), statColumn('std', 'Standard deviation'),
    { title: 'NaN, Inf', width: '72px', num: true, help: 'Elements that are NaN or infinite', sort: oddities,
      fill(item, cell) {
        const found = oddities(item);
        if (found) cell.classList.add('bad');
        cell.append(found === null ? '' : count(found));
      } },
    { title: 'offset', width: '120px', num: true, cell: (item) => (isModule(item) ? '' : count(rows[item.row].offset)), sort: (item) => rowOf(item)?.offset },
  ].filter((column) => file.values.length || !['min', 'max', 'mean', 'std', 'NaN, Inf'].includes(column.title));
  const sums = (item) => (isModule(item) ? item.node : rows[item.row]);

  const table = grid({
    label: 'Tensors', columns, empty: 'No tensor matches.',
    onsort(value, down) { order = value && compare(value, down); update(); },
    isPicked: (item) => (isModule(item) ? item.node === focused : !focused && item.row === model.picked),
    onpick(item, byKey) {
      if (!isModule(item)) { pick(model, item.row); return; }
      focused = item.node;
      if (byKey) table.draw(); else toggle(item);
    },
    onkey(key, item) {
      const fold = { ArrowRight: false, ArrowLeft: true }[key];
      if (fold === undefined && key !== 'Enter') return false;
      if (item.unfolded !== undefined && (key === 'Enter' || item.unfolded === fold)) toggle(item);
      return true;
    },
  });

  function toggle(item) {
    if (terms.length || dtype) return;
    if (unfolded.has(item.node)) unfolded.delete(item.node); else unfolded.add(item.node);
    update();
  }

  const matches = (row) => (!dtype || row.dtype === dtype) && terms.every((term) => row.key.includes(term));

  /** The items in sight: of the tree, those below unfolded modules, or all with a match. */
  function items() {
    const found = rows.filter(matches);
    if (mode === 'table') {
      const flat = found.map((row) => ({ row: row.at }));
      return [order ? flat.sort(order) : flat, found.length];
    }
    const searching = terms.length > 0 || dtype !== '';
    let within = null;
    if (searching) {
      within = new Set();
      for (const row of found) for (let node = row.node; node && !within.has(node); node = node.parent) within.add(node);
    }
    const list = [];
    const hits = searching ? new Set(found.map((row) => row.at)) : null;
    (function walk(node, level) {
      let children = node.children.filter((child) => !within || within.has(child)).map((child) => {
        const item = { node: child, level };
        if (child.row >= 0 && (!hits || hits.has(child.row))) item.row = child.row;
        if (child.children.length) item.unfolded = searching || unfolded.has(child);
        return item;
      });
      if (order) children = children.sort(order);
      for (const item of children) {
        list.push(item);
        if (item.unfolded) walk(item.node, level + 1);
      }
    })(root, 1);
    return [list, found.length];
  }

  const status = el('div', { class: 'status', role: 'status' });
  function update() {
    const [list, found] = items();
    table.set(list);
    const total = file.info.total.tensors;
    let text = found === rows.length ? counted(found, 'tensor') : `${count(found)} of ${counted(rows.length, 'tensor')}`;
    if (file.left_out.tensors) {
      text += `; the list has the ${count(rows.length)} largest of ${count(total)}, and leaves out ${counted(file.left_out.tensors, 'tensor')} with ${size(file.left_out.bytes)}`;
    }
    if (data.sample !== null) text += `; values of ${count(file.values.length)} were read`;
    status.textContent = text;
  }

  const search = el('input', { type: 'search', placeholder: 'Search names, dtypes and shapes ( / )', 'aria-label': 'Search', spellcheck: 'false', autocomplete: 'off' });
  search.addEventListener('input', () => {
    terms = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    table.root.scrollTop = 0;
    update();
  });
  search.addEventListener('keydown', (event) => { if (event.key === 'ArrowDown') { event.preventDefault(); table.root.focus(); } });
  const select = el('select', { 'aria-label': 'Dtype' }, el('option', { value: '', text: 'all dtypes' }));
  model.dtypes.slice(0, 500).forEach(([name]) => select.append(el('option', { value: name, text: visible(name, 60) })));
  select.addEventListener('change', () => { dtype = select.value; table.root.scrollTop = 0; update(); });
  const all = (fold) => () => {
    unfolded.clear();
    if (!fold) model.nodes.forEach((node) => { if (node.children.length) unfolded.add(node); });
    update();
  };
  const folds = el('span', { class: 'group' },
    el('button', { class: 'quiet', type: 'button', text: 'Unfold all', onclick: all(false) }),
    el('button', { class: 'quiet', type: 'button', text: 'Fold all', onclick: all(true) }));
  const view = choice('View', [['tree', 'Tree'], ['table', 'Table']], mode, (value) => {
    mode = value;
    folds.hidden = mode !== 'tree';
    // Whole names are longer than labels.
    table.root.classList.toggle('whole', mode === 'table');
    table.root.scrollTop = 0;
    update();
  });

  // A file of few tensors is unfolded. Else the first levels are, as long as few items come in sight.
  let level = [root];
  let inSight = 0;
  while (level.length) {
    const next = level.flatMap((node) => node.children);
    inSight += next.length;
    if (inSight > 60 && level[0] !== root) break;
    level.forEach((node) => unfolded.add(node));
    level = next.filter((node) => node.children.length);
  }
  model.listeners.push((row) => {
    focused = null;
    for (let node = row.node.parent; node; node = node.parent) unfolded.add(node);
    update();
    if (!table.root.contains(document.activeElement)) table.show((item) => item.row === row.at);
  });
  redraws.push(() => table.draw());
  update();
  model.focusSearch = () => { search.focus(); search.select(); };
  return el('section', { class: 'card' },
    el('div', { class: 'head' }, el('h2', { text: 'Tensors' })),
    el('div', { class: 'tools' }, search, select, view, folds), table.root, status);
}

// ---- Details of a tensor

function histogramOf(values) {
  const { low, high, counts } = values.histogram;
  const most = counts.reduce((a, b) => Math.max(a, b), 1);
  const total = counts.reduce((a, b) => a + b, 0);
  // Where one bin has nearly all elements, the others can only be seen with a logarithmic axis.
  let log = most > total * 0.6 && counts.length > 8;
  const drawing = svg('svg', { viewBox: '0 0 600 130', preserveAspectRatio: 'none', role: 'img', 'aria-label': 'Histogram' });
  const hover = el('span', { class: 'soft small grow' });
  const edge = (at) => low * (1 - at / counts.length) + high * (at / counts.length);
  const rest = `${counted(counts.length, 'bin')}, up to ${count(most)} elements`;

  function draw() {
    hover.textContent = rest;
    const height = (number) => (number ? Math.max(1.5, (log ? Math.log1p(number) / Math.log1p(most) : number / most) * 126) : 0);
    const width = 600 / counts.length;
    const parts = [svg('line', { x1: 0, x2: 600, y1: 129.5, y2: 129.5 })];
    if (low < 0 && high > 0) {
      const zero = (-low / (high - low)) * 600;
      parts.push(svg('line', { x1: zero, x2: zero, y1: 0, y2: 130, 'stroke-dasharray': '3 3' }));
    }
    counts.forEach((number, at) => {
      const bar = svg('rect', { class: 'count', x: at * width, width: Math.max(0.5, width - 1), y: 129 - height(number), height: height(number) });
      const hit = svg('rect', { class: 'hit', x: at * width, width, y: 0, height: 130 });
      hit.addEventListener('mouseenter', () => {
        bar.classList.add('on');
        hover.textContent = `${digits(edge(at))} to ${digits(edge(at + 1))}: ${count(number)} (${share(number, total)})`;
      });
      hit.addEventListener('mouseleave', () => { bar.classList.remove('on'); hover.textContent = rest; });
      parts.push(bar, hit);
    });
    drawing.replaceChildren(...parts);
  }
  draw();
  const axis = el('div', { class: 'axis' }, el('span', { text: digits(low) }), el('span', { text: digits(edge(counts.length / 2)) }), el('span', { text: digits(high) }));
  return el('div', { class: 'figure' },
    el('div', { class: 'head' }, el('h3', { text: 'Histogram' }), hover,
      choice('Counts', [['linear', 'linear'], ['log', 'log']], log ? 'log' : 'linear', (value) => { log = value === 'log'; draw(); })),
    drawing, axis);
}

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-';

function heatMapOf({ down, across, layers }) {
  let layer = layers[0];
  const canvas = el('canvas', { role: 'img', 'aria-label': 'Heat map' });
  const ramp = el('div', { class: 'ramp' });
  const [lowText, highText] = [el('span'), el('span')];
  const hover = el('div', { class: 'hover soft' });
  const rgb = (name) => cssColor(name).split(',').map(Number);

  function colors() {
    const [low, mid, high, bad, none] = ['--low', '--mid', '--high', '--bad-cell', '--no-cell'].map(rgb);
    const mix = (from, to, part) => from.map((one, at) => Math.round(one + (to[at] - one) * part));
    const isSigned = layer.low < 0 && layer.high > 0;
    const color = (part) => (layer.low === layer.high ? mid : isSigned ? (part < 0.5 ? mix(low, mid, part * 2) : mix(mid, high, part * 2 - 1)) : layer.high <= 0 && layer.low < 0 ? mix(low, mid, part) : mix(mid, high, part));
    return { color, bad, none };
  }

  function draw() {
    const { color, bad, none } = colors();
    [canvas.width, canvas.height] = [across.cells, down.cells];
    const paint = canvas.getContext('2d');
    const image = paint.createImageData(across.cells, down.cells);
    for (let at = 0; at < layer.cells.length; at += 1) {
      const letter = LETTERS.indexOf(layer.cells[at]);
      const mixed = layer.cells[at] === '!' ? bad : letter < 0 ? none : color(letter / 63);
      image.data.set([...mixed, 255], at * 4);
    }
    paint.putImageData(image, 0, 0);
    // Whole pixels for each cell, as large as there is room for.
    const room = Math.min(390, canvas.parentElement ? canvas.parentElement.clientWidth || 390 : 390);
    const width = Math.max(1, Math.floor(room / across.cells)) * across.cells;
    const height = down.cells === 1 ? 34 : Math.max(16, Math.min(390, (width / across.cells) * down.cells));
    canvas.style.width = `${Math.max(width, Math.min(room, 120))}px`;
    canvas.style.height = `${height}px`;
    const stops = [0, 0.25, 0.5, 0.75, 1].map((part) => `rgb(${color(part).join(',')})`);
    ramp.style.background = `linear-gradient(90deg, ${stops.join(',')})`;
    lowText.textContent = (layer.clipped ? '≤ ' : '') + digits(layer.low);
    highText.textContent = (layer.clipped ? '≥ ' : '') + digits(layer.high);
    hover.textContent = rest();
  }

  const dims = (side) => (side.dims.length ? `${side.dims.length > 1 ? 'dims' : 'dim'} ${side.dims.join(' × ')}` : '');
  function rest() {
    const sides = [down.dims.length ? `${dims(down)} (${count(down.length)}) down` : '', across.dims.length ? `${dims(across)} (${count(across.length)}) across` : ''];
    return sides.filter(Boolean).join(', ') || 'a single element';
  }
  canvas.addEventListener('mouseleave', () => { hover.textContent = rest(); });
  canvas.addEventListener('mousemove', (event) => {
    const x = Math.min(across.cells - 1, Math.floor((event.offsetX / canvas.clientWidth) * across.cells));
    const y = Math.min(down.cells - 1, Math.floor((event.offsetY / canvas.clientHeight) * down.cells));
    const range = (side, at) => {
      const [first, end] = [Math.floor((at * side.length) / side.cells), Math.floor(((at + 1) * side.length) / side.cells)];
      return end - first > 1 ? `${count(first)}–${count(end - 1)}` : count(first);
    };
    const letter = layer.cells[y * across.cells + x];
    const value = letter === '!' ? 'has NaN or infinity' : letter === ' ' ? 'not in the sample' : `about ${digits(layer.low + ((layer.high - layer.low) * LETTERS.indexOf(letter)) / 63)}`;
    hover.textContent = `[${down.dims.length ? `${range(down, Math.max(0, y))}, ` : ''}${range(across, Math.max(0, x))}]: ${value}`;
  });
  const head = el('div', { class: 'head' }, el('h3', { class: 'grow', text: 'Heat map' }));
  if (layers.length > 1) {
    head.append(choice('Cells', layers.map((one, at) => [String(at), one.name.replace('largest absolute values', 'largest |x|')]), '0', (at) => { layer = layers[at]; draw(); }));
  } else {
    head.append(el('span', { class: 'soft small', text: layer.name }));
  }
  const marks = el('div', { class: 'legend' });
  if (layers.some((one) => one.cells.includes('!'))) marks.append(el('span', {}, swatch('rgb(var(--bad-cell))'), 'has NaN or infinity'));
  if (layers[0].cells.includes(' ')) marks.append(el('span', {}, swatch('rgb(var(--no-cell))'), 'not in the sample'));
  const figure = el('div', { class: 'figure' }, head, el('div', {}, canvas), el('div', { class: 'scale' }, lowText, ramp, highText), hover, marks);
  return { figure, draw };
}

function detailCard(model) {
  const card = el('aside', { class: 'card detail', 'aria-label': 'Details' });
  let redrawMap = () => {};

  function show(row) {
    const { values } = row;
    const pairs = el('dl', { class: 'pairs' });
    const pair = (term, text) => pairs.append(el('dt', { text: term }), el('dd', { text }));
    pair('dtype', visible(row.dtype, 200));
    pair('shape', row.shape);
    pair('parameters', count(row.parameters));
    pair('size', `${size(row.bytes)}${row.bytes >= 1024 ? ` (${counted(row.bytes, 'byte')})` : ''}`);
    if (row.decoded !== undefined) pair('decoded', `${size(row.decoded)}; it is compressed in the file`);
    pair('bytes', `${count(row.offset)} to ${count(row.offset + row.bytes)}`);
    const { shard } = model.file.coverage[row.shard || 0];
    if (shard) pair('shard', visible(shard));
    const parts = [el('h2', { class: 'mono', text: visible(row.name, 2000) || '(no name)' }), pairs];

    const change = data.diff && changes[model.number].get(`${row.offset} ${row.name}`);
    if (data.diff && !data.diff.left_out) {
      const text = change ? changeText(change) : data.diff.filtered ? 'no difference was found, if it was compared' : `equal in both files${data.sample === null ? ', apart from the values, which were not compared' : ''}`;
      pair('difference', text);
    }
    if (values) parts.push(...figures(row, values));
    else {
      const text = NO_VALUES[row.no_values] || (data.sample === null ? 'No values were read.' : 'The values were not read: only those of the largest tensors are, or of those that a filter chooses. See --filter and --charts.');
      parts.push(el('p', { class: 'part', text }));
    }
    card.replaceChildren(...parts);
    card.scrollTop = 0;
    redrawMap();
  }

  function figures(row, values) {
    const parts = [];
    const isSparse = row.shape.includes('sparse');
    const elements = isSparse ? 'stored elements' : 'elements';
    const which = { spread: 'in runs that are spread evenly', front: 'the first ones' }[values.part];
    const text = values.part === 'all' ? `All ${count(values.of)} ${elements} were read.`
      : `A sample: ${count(values.read)} of ${count(values.of)} ${elements} (${share(values.read, values.of)}), ${which}. The others may be beyond these numbers.`;
    parts.push(el('p', { class: `part${values.part === 'all' ? '' : ' sampled'}`, text: text + (row.quantized ? ' The numbers are the stored integers.' : '') }));
    const { stats } = values;
    if (stats) {
      const list = el('dl', { class: 'stats' });
      const stat = (term, shown, isBad) => list.append(el('div', {}, el('dt', { text: term }), el('dd', { class: isBad ? 'bad' : '', text: shown })));
      stat('min', stats.min);
      for (const [part, quantile] of stats.quantiles) stat(part === 0.5 ? 'median' : `${part * 100} %`, quantile);
      stat('max', stats.max);
      stat('mean', stats.mean);
      stat('std', stats.std);
      stat('zeros', stats.zeros ? `${count(stats.zeros)} (${share(stats.zeros, values.read)})` : '0');
      stat('NaN', count(stats.nans), stats.nans);
      stat('+Inf', count(stats.positive_infinities), stats.positive_infinities);
      stat('-Inf', count(stats.negative_infinities), stats.negative_infinities);
      parts.push(list);
    } else {
      parts.push(el('p', { class: 'part', text: 'There are no statistics of complex numbers. The map shows absolute values.' }));
    }
    if (values.histogram) parts.push(histogramOf(values));
    else if (stats) parts.push(el('p', { class: 'part', text: 'No element is a finite number, so there is no histogram.' }));
    redrawMap = () => {};
    if (values.heat_map) {
      const map = heatMapOf(values.heat_map);
      parts.push(map.figure);
      redrawMap = map.draw;
    } else if (isSparse) {
      parts.push(el('p', { class: 'part', text: 'Sparse tensors have no heat map.' }));
    }
    return parts;
  }

  model.listeners.push(show);
  redraws.push(() => redrawMap());
  return card;
}

// ---- Metadata

function metadataCard({ file }) {
  const entries = Object.entries(file.info.metadata);
  if (!entries.length) return null;
  const table = el('table', { class: 'entries' }, el('tbody', {}, ...entries.map(([key, value]) => el('tr', {}, el('th', { text: visible(key) }), el('td', { class: 'mono', text: visible(value, 1000) })))));
  const more = file.metadata_left_out ? el('p', { class: 'soft', text: `and ${count(file.metadata_left_out)} more entries` }) : null;
  return el('section', { class: 'card' }, el('details', { open: entries.length <= 6 }, el('summary', { text: `Metadata: ${counted(entries.length + file.metadata_left_out, 'entry').replace('entrys', 'entries')}` }), table, more));
}

// ---- Differences

const KINDS = { only_in_a: 'only in A', only_in_b: 'only in B', dtype: 'dtype', shape: 'shape', kind: 'kind', values: 'values' };

function valuesText(change) {
  if (change.what.includes('only_in_a')) return 'only in A';
  if (change.what.includes('only_in_b')) return 'only in B';
  if (!change.values) return 'values not compared';
  return change.part === 0 ? 'equal values' : visible(change.values, 1000);
}

function changeText(change) {
  const isChanged = change.a !== null && change.b !== null && change.a !== change.b;
  return (isChanged ? `${visible(change.a)} → ${visible(change.b)}; ` : '') + valuesText(change);
}

function diffView() {
  const { diff } = data;
  let chosen = null;
  let terms = [];
  let order = null;
  let picked = null;
  const marks = (change) => (change.what[0] === 'only_in_a' ? ['−', 'minus'] : change.what[0] === 'only_in_b' ? ['+', 'plus'] : ['~', 'tilde']);
  const columns = [
    { title: 'name', width: 'minmax(var(--name), 1.2fr)', sort: (change) => change.name, fill(change, cell) {
      const [mark, kind] = marks(change);
      cell.classList.add('name');
      cell.title = visible(change.name, 2000);
      cell.append(el('span', { class: `mark ${kind}`, text: mark }), ...ends(visible(change.name)));
    } },
    { title: 'A', width: '150px', cell: (change) => visible(change.a ?? ''), sort: (change) => change.a },
    { title: 'B', width: '150px', cell: (change) => visible(change.b ?? ''), sort: (change) => change.b },
    { title: 'differ', width: '92px', num: true, help: 'The part of the elements that differ', cell: (change) => (change.part === null ? '' : share(change.part, 1)), sort: (change) => change.part },
    { title: 'max abs', width: '104px', num: true, help: 'The largest difference between finite numbers', cell: (change) => (change.max_abs === null ? '' : digits(change.max_abs)), sort: (change) => change.max_abs },
    { title: 'difference', width: 'minmax(260px, 2fr)', least: 260, fill(change, cell) { cell.textContent = valuesText(change); cell.title = changeText(change); }, sort: valuesText },
  ];
  const table = grid({
    label: 'Differences', columns, empty: diff.tensors.length ? 'No difference matches.' : 'The tensors are equal.',
    onsort(value, down) { order = value && compare(value, down); update(); },
    isPicked: (change) => change === picked,
    onpick(change) { picked = change; table.draw(); detail.textContent = `${visible(change.name, 400)}: ${changeText(change)}`; },
    onkey(key, change) { if (key === 'Enter') open(change); return key === 'Enter'; },
  });
  const open = (change) => {
    const number = change.what.includes('only_in_b') ? 1 : 0;
    const row = models[number].rows.find((one) => one.name === change.name && one.offset === change.offsets[number]);
    if (row) openTab(number, row.at);
  };
  table.root.addEventListener('dblclick', () => { if (picked) open(picked); });
  const detail = el('div', { class: 'status', role: 'status', text: 'Enter or a double click opens the tensor in its file.' });
  function update() {
    const found = diff.tensors.filter((change) => (!chosen || change.what.includes(chosen)) && terms.every((term) => `${change.name} ${change.a} ${change.b}`.toLowerCase().includes(term)));
    table.set(order ? found.sort(order) : found);
  }
  const counts = Object.keys(KINDS).map((kind) => [kind, diff.tensors.filter((change) => change.what.includes(kind)).length]).filter(([, number]) => number);
  const search = el('input', { type: 'search', placeholder: 'Search names, dtypes and shapes ( / )', 'aria-label': 'Search', spellcheck: 'false', autocomplete: 'off' });
  search.addEventListener('input', () => { terms = search.value.toLowerCase().split(/\s+/).filter(Boolean); table.root.scrollTop = 0; update(); });
  const kinds = choice('Kinds', [[null, `all ${count(diff.tensors.length)}`], ...counts.map(([kind, number]) => [kind, `${KINDS[kind]} ${count(number)}`])], null, (kind) => { chosen = kind; update(); });
  redraws.push(() => table.draw());
  update();

  const notes = [];
  if (diff.filtered) notes.push('Only tensors that --filter chooses were compared.');
  if (data.sample === null) notes.push('Values were not compared, only names, dtypes and shapes.');
  else notes.push('All elements of tensors that have the same shape in both files were compared; only statistics and maps may be of samples.');
  if (diff.left_out) notes.push(`The list leaves out ${counted(diff.left_out, 'more tensor')} that differ.`);
  const cards = [
    el('section', { class: 'card' },
      el('h1', { text: diff.equal ? 'The files are equal' : 'The files differ' }),
      el('dl', { class: 'pairs' }, el('dt', { text: 'A' }), el('dd', { text: visible(diff.a) }), el('dt', { text: 'B' }), el('dd', { text: visible(diff.b) })),
      el('p', { text: visible(diff.summary, 1000) }), el('p', { class: 'soft small', text: notes.join(' ') })),
    el('section', { class: 'card' }, el('div', { class: 'head' }, el('h2', { text: 'Tensors that differ' })), el('div', { class: 'tools' }, search, kinds), table.root, detail),
  ];
  if (diff.metadata.length) {
    const cell = (text) => el('td', { class: text === null ? 'soft' : 'mono', text: text === null ? 'none' : visible(text, 1000) });
    const head = el('tr', {}, ...['metadata', 'A', 'B'].map((text) => el('th', { text })));
    cards.push(el('section', { class: 'card' }, el('h2', { text: 'Metadata that differs' }),
      el('table', { class: 'entries' }, el('tbody', {}, head, ...diff.metadata.map((entry) => el('tr', {}, el('th', { text: visible(entry.key) }), cell(entry.a), cell(entry.b)))))));
  }
  return { cards, focusSearch: () => { search.focus(); search.select(); } };
}

// ---- The page

function fileView(model) {
  model.listeners = [];
  const left = el('div', { class: 'two' }, ...[listCard(model), bytesCard(model), metadataCard(model)].filter(Boolean));
  const cards = [summaryCard(model), mapCard(model), el('div', { class: 'explorer' }, left, detailCard(model))];
  return { cards, focusSearch: () => model.focusSearch(), zoomOut: () => model.zoomOut(), shown() {
    // The largest tensor with values, for a start.
    const first = model.picked >= 0 ? model.picked : model.file.values.length ? model.file.values[0].tensor : model.rows.length ? 0 : -1;
    if (first >= 0) pick(model, first);
  } };
}

const main = el('main', { id: 'view' });
const bar = el('header', { class: 'bar', role: 'tablist' });
let current = null;

/** Shows the differences, or the file with this number, and maybe a tensor of it. */
function openTab(tab, at) {
  redraws = [];
  if (tab !== 'diff' && at !== undefined) models[tab].picked = at;
  current = tab === 'diff' ? diffView() : fileView(models[tab]);
  main.replaceChildren(...current.cards);
  for (const button of bar.querySelectorAll('.tab')) button.setAttribute('aria-selected', String(button.dataset.tab === String(tab)));
  // Drawn once the width is known.
  redraws.forEach((draw) => draw());
  if (current.shown) current.shown();
  window.scrollTo(0, 0);
}

function start() {
  bar.append(el('span', { class: 'brand', text: 'tensorfile' }));
  const tab = (value, text) => bar.append(el('button', { class: 'tab', type: 'button', role: 'tab', 'data-tab': String(value), text, title: text, onclick: () => openTab(value) }));
  if (data.diff) tab('diff', 'Differences');
  if (models.length > 1) models.forEach((model) => tab(model.number, (data.diff ? ['A: ', 'B: '][model.number] : '') + visible(model.file.info.file.split(/[\\/]/).pop(), 60)));
  bar.append(el('span', { class: 'space' }));
  const dark = window.matchMedia('(prefers-color-scheme: dark)');
  const theme = el('button', { class: 'quiet', type: 'button', text: 'Theme', title: 'Light or dark', onclick: () => { set(!document.documentElement.classList.contains('dark')); redraw(); } });
  const set = (on) => { document.documentElement.classList.toggle('dark', on); theme.textContent = on ? 'Light' : 'Dark'; };
  set(dark.matches);
  dark.addEventListener('change', () => { set(dark.matches); redraw(); });
  bar.append(theme);

  const sampled = data.files.some((file) => file.values.some((values) => values.part !== 'all'));
  const sum = (of) => count(data.files.reduce((total, file) => total + of(file), 0));
  const how = sampled ? `of those larger than ${size(data.sample)}, a sample of that size` : 'all of their elements';
  const read = data.sample === null ? 'No values were read.'
    : `The values of ${sum((file) => file.values.length)} of ${sum((file) => file.with_values)} tensors with numbers were read, ${how}.`;
  const footer = el('footer', { text: `${read} Minimum, maximum and other statistics are of the finite elements. Written by ${data.program}.` });
  document.getElementById('app').append(bar, main, footer);
  const names = data.files.map((file) => visible(file.info.file.split(/[\\/]/).pop(), 60));
  document.title = `${names.slice(0, 2).join(' and ')}${names.length > 2 ? ` and ${names.length - 2} more` : ''} – tensorfile report`;

  document.addEventListener('keydown', (event) => {
    const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === '/' && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); current.focusSearch(); }
    if (event.key === 'Escape') {
      if (isTyping) event.target.blur();
      else if (current.zoomOut) current.zoomOut();
    }
  });
  // An address can name a tensor: report.html#tensor=encoder.weight
  const wanted = new URLSearchParams(location.hash.slice(1)).get('tensor');
  const place = wanted === null ? undefined : models.find((model) => model.rows.some((row) => row.name === wanted));
  if (place) openTab(place.number, place.rows.findIndex((row) => row.name === wanted));
  else openTab(data.diff ? 'diff' : 0);
}

start();
