// Details of a tensor.

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
    parts.push(el('p', { class: `part${values.part === 'all' ? '' : ' sampled'}`, text: text + (row.quantized ? ' The numbers are the stored integers.' : '') + (row.dtype.startsWith('c') ? ' The numbers are magnitudes.' : '') }));
    const { stats } = values;
    if (stats) {
      const list = el('dl', { class: 'stats' });
      const stat = (term, shown, isBad) => list.append(el('div', {}, el('dt', { text: term }), el('dd', { class: isBad ? 'bad' : '', text: shown })));
      stat('min', figure(stats.min));
      for (const [part, quantile] of stats.quantiles) stat(part === 0.5 ? 'median' : `${part * 100} %`, figure(quantile));
      stat('max', figure(stats.max));
      stat('mean', figure(stats.mean));
      stat('std', figure(stats.std));
      stat('zeros', stats.zeros ? `${count(stats.zeros)} (${share(stats.zeros, values.read)})` : '0');
      stat('NaN', count(stats.nans), stats.nans);
      stat('+Inf', count(stats.positive_infinities), stats.positive_infinities);
      stat('-Inf', count(stats.negative_infinities), stats.negative_infinities);
      parts.push(list);
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
