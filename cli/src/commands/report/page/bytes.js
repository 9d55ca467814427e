// The bytes of a file.

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
