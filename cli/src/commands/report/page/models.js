// Models.

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
