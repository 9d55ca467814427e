// Treemap.

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
      el('span', { class: 'soft small', text: `Areas are bytes in the file; the smallest are left out.${twice}` }),
      choice('Colors', [['module', 'by module'], ['dtype', 'by dtype']], colors, (value) => { colors = value; draw(); })),
    board, hover);
}
