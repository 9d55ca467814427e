//! Walks through the fields of a struct in file order where possible, and decides about optional, flattened and unknown
//! parts.

use smallvec::SmallVec;

use super::{At, Finder, Way};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{EachPart, FieldDef, Mark, Node, StructDef, strip};

/// The fields of a struct.
#[derive(Clone, Copy)]
pub(crate) enum Fields {
    /// Fields of a derived type.
    Def(&'static StructDef),
    /// Fields of a derived type inside another deserializer, which cannot pass metadata on.
    Behind(&'static StructDef),
    /// Field names from serde, and whether they belong to a [`StructDef`]; see `serde::token`.
    Names(&'static [&'static str], bool),
}

/// A field of a plain serde struct that has no default, given by the names of the struct's fields and its own.
///
/// A list or map without tensors leaves no trace in a file, and neither does a struct of absent options. serde asks for
/// the fields that are there, and tells a required one that is not only by an error. So the value is then read again,
/// with an empty value for this field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequiredField {
    pub(crate) fields: &'static [&'static str],
    pub(crate) name: &'static str,
}

impl PartialEq for RequiredField {
    fn eq(&self, other: &Self) -> bool {
        // Two structs can have equal fields, and only one of them a default.
        std::ptr::eq(self.fields, other.fields) && self.name == other.name
    }
}

/// The names of one field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldSpec {
    pub(crate) name: &'static str,
    pub(crate) aliases: Aliases,
    pub(crate) optional: bool,
    pub(crate) flatten: bool,
}

/// The aliases of a field.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Aliases {
    List(&'static [&'static str]),
    /// Notes after the name, each with a NUL before it; aliases begin with `=`.
    Notes(&'static str),
}

impl FieldSpec {
    /// Returns the names of the field in a file, starting with the name for writing.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        let (list, notes) = match self.aliases {
            Aliases::List(list) => (list, ""),
            Aliases::Notes(notes) => (&[][..], notes),
        };
        let notes = notes.split('\0').filter_map(|note| note.strip_prefix('='));
        std::iter::once(self.name).chain(list.iter().copied()).chain(notes)
    }

    /// Returns the longest name of the field equal to `rest` or a prefix of it.
    fn fit(self, rest: &str) -> Option<&'static str> {
        self.names().filter(|name| strip(rest, name).is_some()).max_by_key(|name| name.len())
    }
}

impl Fields {
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Def(def) | Self::Behind(def) => def.fields.len(),
            Self::Names(names, _) => names.len(),
        }
    }

    /// Returns the name under which a field is written.
    #[inline]
    fn name(self, at: usize) -> &'static str {
        match self {
            Self::Def(def) | Self::Behind(def) => def.fields[at].name,
            Self::Names(..) => self.get(at).name,
        }
    }

    fn get(self, at: usize) -> FieldSpec {
        match self {
            Self::Def(def) | Self::Behind(def) => {
                let field = &def.fields[at];
                let aliases = Aliases::List(field.aliases);
                FieldSpec { name: field.name, aliases, optional: field.optional, flatten: field.flatten }
            }
            Self::Names(names, _) => {
                let (name, notes) = names[at].split_at(names[at].find('\0').unwrap_or(names[at].len()));
                let has = |wanted: &str| !notes.is_empty() && notes.split('\0').any(|note| note == wanted);
                let (optional, flatten) = (has("?"), has("*"));
                FieldSpec { name, aliases: Aliases::Notes(notes), optional, flatten }
            }
        }
    }

    /// Returns whether a field is flattened, and whether it is metadata.
    #[inline]
    fn kind(self, at: usize) -> (bool, bool) {
        match self {
            Self::Def(def) => (def.fields[at].flatten, def.fields[at].metadata),
            Self::Behind(def) => (def.fields[at].flatten, false),
            Self::Names(..) => (self.get(at).flatten, false),
        }
    }

    /// Returns the type of a field, if it is known.
    fn node(self, at: usize) -> Option<Node> {
        match self {
            Self::Def(def) | Self::Behind(def) => Some((def.fields[at].node)()),
            Self::Names(..) => None,
        }
    }

    /// Returns whether a field takes the remaining tensors: a flattened map.
    fn takes_rest(self, at: usize) -> bool {
        self.node(at).is_some_and(|node| node.takes_any_name(&mut Vec::new()))
    }

    /// Returns the number of a field, if this is its struct.
    fn position(self, required: &RequiredField) -> Option<usize> {
        match self {
            Self::Names(fields, false) if std::ptr::eq(fields, required.fields) => {
                fields.iter().position(|name| *name == required.name)
            }
            _ => None,
        }
    }

    /// Returns the field of a plain serde struct named by serde's error for a missing one.
    pub(crate) fn required_by(self, error: &Error) -> Option<RequiredField> {
        match (self, error.kind()) {
            (Self::Names(fields, false), ErrorKind::Missing { name, complete: false, .. }) => {
                let name = fields.iter().copied().find(|field| field == name)?;
                Some(RequiredField { fields, name })
            }
            _ => None,
        }
    }

    /// Returns whether unknown tensors are skipped.
    pub(crate) fn allow_unknown(self) -> bool {
        match self {
            Self::Def(def) | Self::Behind(def) => def.allow_unknown,
            Self::Names(..) => false,
        }
    }

    /// Returns whether absent fields are given too.
    fn are_tensors(self) -> bool {
        match self {
            Self::Def(_) | Self::Behind(_) => true,
            Self::Names(_, are_tensors) => are_tensors,
        }
    }
}

/// Goes through the fields of a struct: first the ones in the file, in file order if possible, then the absent ones.
pub(crate) struct FieldsWalk {
    fields: Fields,
    given: FieldSet,
    /// Fields given as absent.
    absent: Vec<usize>,
    /// The place of the struct.
    at: At,
    place: Mark,
    /// Some fields are flattened.
    shares: bool,
    /// Some fields are metadata.
    has_metadata: bool,
    /// The file has tensors or metadata of the next flattened field.
    has_flattened: bool,
    /// Tensors more than one segment below the struct belong to different entries of the enclosing map.
    leaves_deeper: bool,
    stage: Stage,
    /// Some tensors were found in the file's order.
    found_in_order: bool,
    /// The next value.
    value: FieldValue,
}

/// A set of fields.
struct FieldSet {
    words: SmallVec<[u64; 2]>,
    left: usize,
}

impl FieldSet {
    /// An empty set of the fields below `len`.
    fn new(len: usize) -> Self {
        Self { words: SmallVec::from_elem(0, len.div_ceil(64)), left: len }
    }

    fn contains(&self, field: usize) -> bool {
        (self.words[field / 64] >> (field % 64)) & 1 == 1
    }

    fn insert(&mut self, field: usize) {
        self.left -= usize::from(!self.contains(field));
        self.words[field / 64] |= 1 << (field % 64);
    }

    /// Returns whether all fields are in the set.
    fn is_full(&self) -> bool {
        self.left == 0
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Each next tensor of the file identifies its field. The field of this number is likely.
    InOrder(usize),
    /// The fields are searched one by one.
    Remaining(usize),
    /// Flattened fields take the tensors left by named fields.
    Flattened(usize),
    /// Flattened maps take the tensors left by all fields.
    Rest(usize),
    /// The tensors not taken by any field.
    Unknown,
    /// Fields of a plain serde struct without tensors: the absent ones of the file, from this number on.
    Absent(usize),
}

enum FieldValue {
    /// A field under one of its names.
    Named(&'static str, At),
    Flattened,
    /// A name below the struct without a field.
    Unknown(String),
}

/// A field, or a name without a field.
pub(crate) enum FieldKey {
    Field(usize),
    Unknown(String),
}

impl FieldsWalk {
    pub(crate) fn new(de: &Finder<'_>, fields: Fields, at: At) -> Self {
        let mut given = FieldSet::new(fields.len());
        let (mut shares, mut has_metadata) = (false, false);
        for field in 0..fields.len() {
            let (flatten, metadata) = fields.kind(field);
            shares |= flatten;
            // Metadata comes before all tensors.
            if metadata {
                has_metadata = true;
                given.insert(field);
            }
        }
        // A flattened field must not see tensors of its siblings, and an absent struct must not see unclaimed ones.
        let stage = if shares || at == At::Absent { Stage::Remaining(0) } else { Stage::InOrder(0) };
        Self {
            fields,
            given,
            absent: Vec::new(),
            at,
            place: de.path.mark(),
            shares,
            has_metadata,
            has_flattened: false,
            leaves_deeper: false,
            stage,
            found_in_order: false,
            value: FieldValue::Flattened,
        }
    }

    /// Returns the fields of the struct.
    pub(crate) fn fields(&self) -> Fields {
        self.fields
    }

    /// Returns the name of a field.
    pub(crate) fn name(&self, field: usize) -> &'static str {
        self.fields.name(field)
    }

    /// Returns the next field or unknown name; `None` at the end.
    pub(crate) fn advance(&mut self, de: &mut Finder<'_>) -> Result<Option<FieldKey>> {
        loop {
            match self.stage {
                Stage::InOrder(_) => match self.next_in_order(de)? {
                    Some((field, name, _)) => {
                        self.value = FieldValue::Named(name, At::Here);
                        return Ok(Some(FieldKey::Field(field)));
                    }
                    None => self.stage = Stage::Remaining(0),
                },
                Stage::Remaining(_) if self.given.is_full() && !self.shares => self.stage = Stage::Unknown,
                Stage::Remaining(field) if field < self.fields.len() => {
                    self.stage = Stage::Remaining(field + 1);
                    if let Some(value) = self.search(de, field)? {
                        return Ok(Some(self.give(field, value)));
                    }
                }
                Stage::Remaining(_) if !self.shares => self.stage = Stage::Unknown,
                Stage::Remaining(_) => self.stage = Stage::Flattened(0),
                Stage::Flattened(field) if field < self.fields.len() => {
                    self.stage = Stage::Flattened(field + 1);
                    if self.fields.get(field).flatten && !self.fields.takes_rest(field) {
                        return self.give_flattened(de, field).map(Some);
                    }
                }
                Stage::Flattened(_) => self.stage = Stage::Rest(0),
                Stage::Rest(field) if field < self.fields.len() => {
                    self.stage = Stage::Rest(field + 1);
                    if self.fields.get(field).flatten && self.fields.takes_rest(field) {
                        return self.give_flattened(de, field).map(Some);
                    }
                }
                Stage::Rest(_) => self.stage = Stage::Unknown,
                Stage::Unknown => match self.next_unknown(de)? {
                    Some(unknown) => return Ok(Some(unknown)),
                    None if de.absent.is_empty() => return Ok(None),
                    None => self.stage = Stage::Absent(0),
                },
                Stage::Absent(next) => {
                    let Some(absent) = de.absent.get(next) else { return Ok(None) };
                    self.stage = Stage::Absent(next + 1);
                    if let Some(field) = self.fields.position(absent)
                        && !self.given.contains(field)
                    {
                        let value = FieldValue::Named(absent.name, At::Absent);
                        return Ok(Some(self.give(field, value)));
                    }
                }
            }
        }
    }

    /// Goes to the value of the last returned key.
    pub(crate) fn enter(&self, de: &mut Finder<'_>) {
        match &self.value {
            FieldValue::Named(name, at) => {
                de.path.push(name);
                de.at = *at;
            }
            FieldValue::Unknown(name) => {
                // A tensor with the name of the struct is here and not below.
                if self.place.is_root() || !name.is_empty() {
                    de.path.push(name);
                }
                de.at = At::Here;
            }
            FieldValue::Flattened => {
                de.at = if self.at == At::Absent { At::Absent } else { At::Shared };
                de.scope.has_flattened = self.has_flattened;
            }
        }
    }

    /// Returns to the struct.
    pub(crate) fn leave(&self, de: &mut Finder<'_>) {
        // A value nobody asked for is left unread.
        de.at = At::Here;
        de.path.back_to(self.place);
    }

    fn give(&mut self, field: usize, value: FieldValue) -> FieldKey {
        self.given.insert(field);
        if matches!(value, FieldValue::Named(_, At::Absent)) {
            self.absent.push(field);
        }
        self.value = value;
        FieldKey::Field(field)
    }

    /// Gives a flattened field. It is absent if it is an `Option` and the file has none of its names.
    fn give_flattened(&mut self, de: &mut Finder<'_>, field: usize) -> Result<FieldKey> {
        let node = self.fields.node(field).filter(|_| self.at != At::Absent);
        self.has_flattened = match node.filter(|node| node.is_option()) {
            Some(node) => de.has_entries_of(node, None)? || de.has_tensors_of(node)?,
            None => false,
        };
        Ok(self.give(field, FieldValue::Flattened))
    }

    /// Returns the field of the file's next tensor, its name there, and its place. If two fit, the longer name is
    /// meant.
    fn next_in_order(&mut self, de: &mut Finder<'_>) -> Result<Option<(usize, &'static str, At)>> {
        let Stage::InOrder(likely) = self.stage else { return Ok(None) };
        if self.given.is_full() {
            return Ok(None);
        }
        let Some(next) = de.reader.peek()? else { return Ok(None) };
        let Some(rest) = de.path.strip(de.reader.name(next)) else { return Ok(None) };
        let found = match likely < self.fields.len() && !self.given.contains(likely) {
            true if self.fields.name(likely) == rest => Some((likely, self.fields.name(likely))),
            _ => self.longest_fit(rest),
        };
        let Some((field, name)) = found else { return Ok(None) };
        // A name below the name of a tensor belongs to another tensor.
        let is_tensor = |node: Node| matches!(node.inner(), Node::Tensor(_));
        if name.len() < rest.len() && self.fields.node(field).is_some_and(is_tensor) {
            return Ok(None);
        }
        (self.stage, self.found_in_order) = (Stage::InOrder(field + 1), true);
        self.given.insert(field);
        let at = if name.len() == rest.len() { At::Tensor(next) } else { At::Here };
        Ok(Some((field, name, at)))
    }

    fn longest_fit(&self, rest: &str) -> Option<(usize, &'static str)> {
        let open = (0..self.fields.len()).filter(|field| !self.given.contains(*field));
        let fit = open.filter_map(|field| Some((field, self.fields.get(field).fit(rest)?)));
        fit.max_by_key(|(_, name)| name.len())
    }

    /// Searches a field in the file. Returns the value to give for it.
    fn search(&self, de: &mut Finder<'_>, field: usize) -> Result<Option<FieldValue>> {
        if self.given.contains(field) {
            return Ok(None);
        }
        let spec = self.fields.get(field);
        if spec.flatten {
            return Ok(None);
        }
        if self.at != At::Absent {
            for name in spec.names() {
                de.path.push(name);
                let found = self.is_found(de, field);
                de.path.back_to(self.place);
                if found? {
                    return Ok(Some(FieldValue::Named(name, At::Here)));
                }
            }
        }
        if let Some(node) = self.fields.node(field) {
            for name in spec.names() {
                if de.has_entries_of(node, Some(name))? {
                    return Ok(Some(FieldValue::Named(name, At::Here)));
                }
            }
        }
        Ok((self.fields.are_tensors() && !spec.optional).then_some(FieldValue::Named(spec.name, At::Absent)))
    }

    /// Returns whether the file has tensors of a field, named by the path.
    fn is_found(&self, de: &mut Finder<'_>, field: usize) -> Result<bool> {
        if de.next_here()?.is_none() {
            return Ok(false);
        }
        match self.fields.node(field) {
            Some(node) if matches!(node.inner(), Node::Tensor(_)) => de.has_exactly_here(),
            // Tensors below the name may belong to a flattened map.
            Some(node) if self.shares => Ok(de.has_exactly_here()? || de.has_tensors_of(node)?),
            _ => Ok(true),
        }
    }

    /// Returns the name of a tensor below the struct without a field.
    ///
    /// For a flattened struct, the enclosing struct reports the tensors left by both. In a stream, only the next tensor
    /// is inspected: a later one, out of order, is reported by the enclosing struct or at the end.
    fn next_unknown(&mut self, de: &mut Finder<'_>) -> Result<Option<FieldKey>> {
        if self.at != At::Here {
            return Ok(None);
        }
        let next = de.reader.peek()?;
        let is_below = |next: usize| de.path.strip(de.reader.name(next)).is_some();
        // The tensors of the struct, at least one, end here.
        if self.found_in_order && next.is_some_and(|next| !is_below(next)) && de.reader.index().search().has_runs_only()
        {
            return Ok(None);
        }
        let unknown = if de.reader.loader.is_drained() || self.place.is_root() { de.next_here()? } else { next };
        let name = unknown.and_then(|at| de.path.strip(de.reader.name(at)));
        let name = name.filter(|name| !self.leaves_deeper || !name.contains('.'));
        Ok(name.map(|name| {
            self.value = FieldValue::Unknown(name.to_owned());
            FieldKey::Unknown(name.to_owned())
        }))
    }
}

impl<'de> Finder<'de> {
    /// Enters a struct. A struct flattened into itself would recurse until the stack overflows, because its names do
    /// not get longer.
    pub(crate) fn enter_struct(&mut self) -> Result<()> {
        const LIMIT: usize = 128;
        self.path.check_depth()?;
        (self.item.opens_list, self.item.of_any_length) = (false, false);
        self.scope.flattened = if self.at == At::Shared { self.scope.flattened + 1 } else { 0 };
        if self.scope.flattened > LIMIT {
            let (what, found, limit) = ("number of structs flattened into each other", LIMIT as u64 + 1, LIMIT as u64);
            return Err(ErrorKind::Limit { what, found, limit }.into());
        }
        Ok(())
    }

    /// Enters a struct with its own setting for unknown tensors. Returns the setting of the enclosing struct.
    ///
    /// Tensors of an absent or flattened struct are unknown to the enclosing struct. In a file without tensors, there
    /// are none to skip.
    pub(crate) fn enter_skipping(&mut self, at: At, allow_unknown: bool) -> Result<bool> {
        let outer = self.scope.skips_unknown;
        if !matches!(at, At::Absent | At::Shared) {
            let skips = allow_unknown && self.way != Way::ByNamesOfType;
            self.scope.skips_unknown = skips && (self.reader.index().len() > 0 || self.reader.peek()?.is_some());
        }
        Ok(outer)
    }

    /// Calls `each` with the fields of a struct.
    pub(super) fn struct_fields(&mut self, def: &'static StructDef, mut each: EachPart<'_, 'de>) -> Result<()> {
        let outer = self.scope.flattened;
        self.enter_struct()?;
        let at = self.take_place();
        if self.is_positional() {
            for (at, _) in def.fields.iter().enumerate().filter(|(_, field)| !field.metadata) {
                let place = self.path.push("");
                self.part(at, &mut each)?;
                self.path.back_to(place);
            }
            return self.metadata_fields(def, &mut each);
        }
        self.check_has_parts(at, "a struct")?;
        let outer_skips = self.enter_skipping(at, def.allow_unknown)?;
        let mut walk = FieldsWalk::new(self, Fields::Def(def), at);
        walk.leaves_deeper = std::mem::take(&mut self.scope.leaves_deeper);
        if walk.has_metadata {
            self.metadata_fields(def, &mut each)?;
        }
        while let Some((field, name, at)) = walk.next_in_order(self)? {
            self.path.push(name);
            self.at = at;
            self.note_alias(name, def.fields[field].name);
            self.part(field, &mut each)?;
            walk.leave(self);
        }
        while let Some(key) = walk.advance(self)? {
            match key {
                FieldKey::Field(field) => {
                    walk.enter(self);
                    if let FieldValue::Named(name, _) = walk.value {
                        self.note_alias(name, def.fields[field].name);
                    }
                    self.part(field, &mut each)?;
                }
                FieldKey::Unknown(rest) => self.unknown(def, &walk, &rest)?,
            }
            walk.leave(self);
        }
        self.note_absent(def, &walk);
        (self.scope.flattened, self.scope.skips_unknown) = (outer, outer_skips);
        Ok(())
    }

    /// Records that a field was found under an alias, if a file is compared with a value.
    fn note_alias(&mut self, found: &str, name: &str) {
        if found != name
            && let Some(findings) = &mut self.findings
            && let Some(like) = &mut findings.like
        {
            like.alias(self.path.name(), found, name);
        }
    }

    /// Skips or refuses a tensor without a field.
    fn unknown(&mut self, def: &'static StructDef, walk: &FieldsWalk, rest: &str) -> Result<()> {
        // A second tensor of a field, under another of its names, is not unknown.
        let is_named = |field: &&FieldDef| field.name == rest || field.aliases.contains(&rest);
        let other = def.fields.iter().filter(|field| !field.metadata).find(is_named);
        walk.enter(self);
        if def.allow_unknown && other.is_none() {
            while let Some(tensor) = self.next_here()? {
                if let Some(findings) = &mut self.findings {
                    findings.skipped(self.reader.index().label(tensor), self.reader.info(tensor));
                }
                self.reader.skip(tensor);
                self.scope.skipped += 1;
            }
            return Ok(());
        }
        if let Some(findings) = &mut self.findings {
            if let Some(tensor) = self.reader.first_under(self.path.prefix()) {
                findings.unexpected(tensor, self.reader.index().label(tensor), self.reader.info(tensor));
                self.reader.skip(tensor);
            }
            return Ok(());
        }
        Err(match other {
            Some(field) => ErrorKind::RepeatedField { name: field.name.to_owned() }.into(),
            None => {
                let expected = def.fields.iter().map(|field| field.name.to_owned()).collect();
                Error::new(ErrorKind::Unexpected { name: self.path.name().to_owned(), expected, complete: true })
            }
        })
    }

    /// Records optional tensors missing from the file: unexpected tensors may be meant for them.
    fn note_absent(&mut self, def: &'static StructDef, walk: &FieldsWalk) {
        if self.findings.is_none() {
            return;
        }
        for (at, field) in def.fields.iter().enumerate() {
            let node = (field.node)();
            let is_absent = !walk.given.contains(at) || walk.absent.contains(&at);
            if is_absent
                && (field.optional || matches!(node, Node::Option(_)))
                && let Node::Tensor(spec) = node.inner()
            {
                let place = self.path.push(field.name);
                if let Some(findings) = &mut self.findings {
                    findings.absent(self.path.name(), spec.with_attrs(&field.attrs));
                }
                self.path.back_to(place);
            }
        }
    }
}
