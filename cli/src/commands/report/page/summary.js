// Summary of a file.

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
  const remarks = info.warnings.map((warning) => visible(warning.text, 1000));
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

function metadataCard({ file }) {
  const entries = Object.entries(file.info.metadata);
  if (!entries.length) return null;
  const table = el('table', { class: 'entries' }, el('tbody', {}, ...entries.map(([key, value]) => el('tr', {}, el('th', { text: visible(key) }), el('td', { class: 'mono', text: visible(value, 1000) })))));
  const more = file.metadata_left_out ? el('p', { class: 'soft', text: `and ${count(file.metadata_left_out)} more entries` }) : null;
  return el('section', { class: 'card' }, el('details', { open: entries.length <= 6 }, el('summary', { text: `Metadata: ${counted(entries.length + file.metadata_left_out, 'entry').replace('entrys', 'entries')}` }), table, more));
}
