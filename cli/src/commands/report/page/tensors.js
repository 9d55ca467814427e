// Tree and table of tensors.

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
