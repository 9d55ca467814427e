// Differences.

const KINDS = { only_in_a: 'only in A', only_in_b: 'only in B', dtype: 'dtype', shape: 'shape', kind: 'kind', values: 'values', unread: 'not compared' };

function valuesText(change) {
  if (change.what.includes('only_in_a')) return 'only in A';
  if (change.what.includes('only_in_b')) return 'only in B';
  if (change.what.includes('unread')) return 'the elements cannot be read';
  if (!change.values) return 'values not compared';
  return change.part === 0 ? 'equal values' : visible(change.values, 1000);
}

function changeText(change) {
  const isChanged = change.a !== null && change.b !== null && change.a !== change.b;
  return (isChanged ? `${visible(change.a)} → ${visible(change.b)}; ` : '') + valuesText(change);
}

// JSON has no infinity.
const isInfinite = (change) => change.max_abs === 'Infinity';

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
    { title: 'max abs', width: '104px', num: true, help: 'The largest difference; infinite if a number became NaN or infinite',
      fill(change, cell) {
        if (isInfinite(change)) cell.classList.add('bad');
        cell.append(isInfinite(change) ? '∞' : change.max_abs === null ? '' : digits(change.max_abs));
      },
      sort: (change) => (isInfinite(change) ? Infinity : change.max_abs) },
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
