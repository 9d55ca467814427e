// The page.

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
