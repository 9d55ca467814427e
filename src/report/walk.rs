use super::Comparison;
use super::findings::Findings;
use crate::error::{Error, ErrorKind};
use crate::model::{Node, Path, Slot, first_segment, is_index, names_by_position};
use crate::tensor::TensorInfo;
use crate::wire::{Entry, Index};

/// Goes through a file by a type's schema, as the deserializer does by the type.
pub(super) struct Walk {
    /// What was taken or passed over is *read*; the searches see only the rest.
    pub(super) index: Index,
    pub(super) path: Path,
    /// The numbers of the fields and items above, which put findings into the order of the type.
    pub(super) trail: Vec<usize>,
    pub(super) found: Findings,
    taken: Vec<bool>,
    /// How many nodes the walk is in.
    level: usize,
}

/// What is known of a place in the type; see the deserializer's enum of that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    /// Something has the name of the path, or lies under it.
    Here,
    /// Nothing has.
    Absent,
    /// The place of the struct around, whose tensors a flattened field shares.
    Shared,
    /// An entry of a map, of which this is the first tensor.
    Entry(usize),
}

impl Walk {
    pub(super) fn over<'a>(tensors: impl IntoIterator<Item = (Option<&'a str>, &'a TensorInfo)>) -> Self {
        let (mut index, mut found) = (Index::default(), Findings::default());
        for (name, info) in tensors {
            let pushed = index.push(Entry::new(name.map(str::to_owned), info.clone(), 0..0));
            if let Err(error) = pushed {
                found.refuse(&error);
            }
        }
        let taken = vec![false; index.len()];
        Self { index, path: Path::default(), trail: Vec::new(), found, taken, level: 0 }
    }

    /// Settles, as the deserializer's root does, whether tensors are found by name or by position.
    pub(super) fn root(&mut self, node: &Node, embedded: bool) {
        let is_list = matches!(inner(node), Node::List(_) | Node::Array(..) | Node::Tuple(_));
        let by_position = match self.index.first_unread() {
            None => false,
            Some(_) if !is_list => false,
            Some(first) if self.index.entry(first).has_name() && !embedded => {
                !is_index(first_segment(self.index.name(first))) && !begins_with_struct(node)
            }
            Some(_) => is_plain_list(node),
        };
        if by_position {
            return self.by_position(inner(node));
        }
        let is_named = self.index.len() == 0 || self.index.has_names();
        if !is_named
            && (is_list || matches!(inner(node), Node::Struct { .. }))
            && let Err(error) = self.name_by(node)
        {
            return self.found.refuse(&error);
        }
        self.node(node, At::Here);
        while !self.found.is_refused()
            && let Some(left) = self.index.first_unread()
        {
            self.unexpected(left);
        }
    }

    fn name_by(&mut self, node: &Node) -> Result<(), Error> {
        let infos = (0..self.index.len()).map(|at| self.index.entry(at).info());
        let names = names_by_position(node, infos)?;
        self.index.rename(names)
    }

    pub(super) fn end(self) -> Comparison {
        Comparison { report: self.found.report(self.index.len()), taken: self.taken }
    }

    /// Compares a part of the type with what lies at the path.
    pub(super) fn node(&mut self, node: &Node, at: At) {
        let has_parts = !matches!(node, Node::Tensor(_) | Node::Optional(_) | Node::Again(_));
        if self.found.is_refused() || (has_parts && !self.is_shallow()) {
            return;
        }
        self.level += 1;
        match node {
            Node::Tensor(slot) => self.tensor(slot, at),
            Node::Optional(inner) if self.is_some(at) => self.node(inner, at),
            Node::Optional(inner) => self.absent(inner),
            Node::Again(again) => self.node(&again.node(), at),
            Node::List(item) => self.list(item, at),
            Node::Array(item, len) => self.items(at, &vec![&**item; *len]),
            Node::Tuple(parts) => self.items(at, &parts.iter().collect::<Vec<_>>()),
            Node::Map(value) => self.map(value, at),
            Node::Struct { fields, allow_unknown } => self.fields(fields, *allow_unknown, at),
        }
        self.level -= 1;
    }

    fn is_some(&mut self, at: At) -> bool {
        match at {
            At::Absent => false,
            At::Entry(_) => true,
            At::Here | At::Shared if self.path.is_root() => self.index.first_unread().is_some(),
            At::Here => true,
            At::Shared => self.next_under().is_some(),
        }
    }

    fn tensor(&mut self, slot: &Slot, at: At) {
        let found = match at {
            At::Absent => None,
            At::Entry(entry) => {
                self.enter_entry(entry, |rest| rest);
                Some(entry)
            }
            At::Here | At::Shared => {
                let next = self.index.first_unread();
                let is_next = |at: &usize| self.path.is_root() || self.path.is(self.index.name(*at));
                next.filter(is_next).or_else(|| self.index.find(self.path.name()))
            }
        };
        match found {
            Some(found) => self.take(found, slot),
            None => self.found.missing(self.path.name(), slot, &self.trail),
        }
    }

    /// Notes a tensor that a file may do without, and does: what is unexpected may be meant for it.
    pub(super) fn absent(&mut self, node: &Node) {
        if let Node::Tensor(slot) = inner(node)
            && !self.path.is_root()
        {
            self.found.absent(self.path.name(), slot);
        }
    }

    /// Takes a tensor for a place of the type.
    pub(super) fn take(&mut self, at: usize, slot: &Slot) {
        let checked = slot.check(self.index.entry(at).info());
        self.taken[at] = true;
        self.index.mark_read(at);
        match checked {
            Ok(()) => self.found.fits(self.index.entry(at).info()),
            Err(kind) => self.found.misfit(at, self.index.label(at), kind),
        }
    }

    /// Takes a tensor where the type has something else.
    pub(super) fn take_instead(&mut self, at: usize, expected: &'static str) {
        let found = self.index.entry(at).info().clone();
        self.taken[at] = true;
        self.index.mark_read(at);
        self.found.misfit(at, self.index.label(at), ErrorKind::WrongLayout { found, expected });
    }

    /// Passes over a tensor that the type does not want.
    pub(super) fn unexpected(&mut self, at: usize) {
        self.index.mark_read(at);
        self.found.unexpected(at, self.index.label(at), self.index.entry(at).info());
    }

    /// Takes the tensor that has the very name under which parts are wanted, if there is one.
    pub(super) fn take_no_parts(&mut self, at: At, expected: &'static str) {
        if at != At::Here || self.path.is_root() {
            return;
        }
        if let Some(found) = self.index.find(self.path.name()) {
            self.take_instead(found, expected);
        }
    }

    /// The next tensor under the path: in file order while that lasts.
    pub(super) fn next_under(&mut self) -> Option<usize> {
        let next = self.index.first_unread()?;
        if self.path.strip(self.index.name(next)).is_some() {
            return Some(next);
        }
        self.index.first_under(self.path.prefix())
    }

    /// Goes down to the value of a map's entry, whose first tensor is `at`, by as much of the name as `key` takes.
    pub(super) fn enter_entry(&mut self, at: usize, key: impl Fn(&str) -> &str) {
        let name = self.index.name(at);
        let rest = self.path.strip(name).unwrap_or(name);
        self.path.push(key(rest));
    }

    /// Whether the walk can go on down, which a type that contains itself would do without end.
    fn is_shallow(&mut self) -> bool {
        // Flattened into itself, a type needs no longer names to go down.
        const LIMIT: usize = 512;
        let limit = ErrorKind::Limit { what: "depth of a type", found: self.level as u64, limit: LIMIT as u64 };
        let checked = self.path.check_depth().and(if self.level < LIMIT { Ok(()) } else { Err(limit.into()) });
        if let Err(error) = &checked {
            self.found.refuse(error);
        }
        checked.is_ok()
    }
}

/// What an option is at the root, where it is absent only if there is nothing at all.
fn inner(mut node: &Node) -> &Node {
    while let Node::Optional(inner) = node {
        node = inner;
    }
    node
}

/// Whether a list holds tensors only, any number of them.
fn is_plain_list(node: &Node) -> bool {
    matches!(node, Node::List(item) if matches!(**item, Node::Tensor(_)))
}

/// Whether the first item of a list is a struct, which makes the list one that is read by name.
fn begins_with_struct(list: &Node) -> bool {
    let first = match inner(list) {
        Node::List(item) => Some(&**item),
        Node::Array(item, len) => (*len > 0).then_some(&**item),
        Node::Tuple(parts) => parts.first(),
        _ => None,
    };
    first.is_some_and(|first| matches!(inner(first), Node::Struct { .. }))
}
