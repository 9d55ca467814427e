//! The type at the root decides how tensors are found: by name or by position.

use super::{Finder, Way};
use crate::error::Result;
use crate::model::{Matched, Node, first_segment, is_index, match_by_position};

/// The kind of value at the root, shown by its first call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RootKind {
    Tensor,
    Struct,
    List,
    /// A list of a fixed length.
    Tuple,
    Map,
}

impl Finder<'_> {
    /// Prepares for a value of a type, if it is the root. Returns the places of the tensors in it, if they have no
    /// names and can be read without, or if they are all of the type's, in its order.
    pub(super) fn begin(&mut self, node: Node) -> Result<Option<Matched>> {
        let kind = match node.inner() {
            Node::Struct(_) => RootKind::Struct,
            Node::List(_) | Node::Array(..) | Node::Tuple(_) => RootKind::List,
            Node::Map(_) => RootKind::Map,
            _ => RootKind::Tensor,
        };
        let is_root = self.way == Way::Open;
        if kind == RootKind::Tensor {
            if is_root {
                (self.way, self.root) = (Way::ByName, Some(node));
            }
            return Ok(None);
        }
        match self.settle_by(kind, Some(node))? {
            None if is_root && !self.is_positional() => Ok(self.match_in_order(node)),
            matched => Ok(matched),
        }
    }

    /// Returns the places of the tensors in a type, if the file has the names written by the type, in order. Taking
    /// tensors in sequence is faster than searching for each by name.
    #[inline(never)]
    fn match_in_order(&self, node: Node) -> Option<Matched> {
        /// Fewer tensors are found sooner than matched.
        const MANY: usize = 16;

        let index = self.reader.index();
        // The names of a list are compared as fast.
        if index.len() < MANY || node.is_tensor_list() || !self.reader.loader.is_drained() || self.findings.is_some() {
            return None;
        }
        let matched = match_by_position(node, false, (0..index.len()).map(|at| index.entry(at).info())).ok()?;
        // An empty list may be a missing one.
        let finds_all = !matched.needs_names() && !matched.has_lists_to_find();
        let is_in_order = finds_all && matched.has_names(&mut (0..index.len()).map(|at| index.name(at)));
        is_in_order.then_some(matched)
    }

    /// Decides how tensors are found, if the value is the root. `node` is its type, if known.
    pub(crate) fn settle(&mut self, kind: RootKind, node: Option<Node>) -> Result<()> {
        match self.settle_by(kind, node)? {
            Some(matched) => self.name_by(&matched),
            None => Ok(()),
        }
    }

    /// Decides how tensors are found, if the value is the root.
    ///
    /// - A struct is read by name. If the file has no names, its type gives them, or else its fields are read by
    ///   position.
    /// - A map is read by name. Tensors without a name are called by their position.
    /// - A list is read by position, unless the names are list indices or its items are structs. Plain tensors come one
    ///   by one, also from a stream. Items with several tensors need to know where they end. Embedded names come last,
    ///   so they do not change the order of a list of tensors.
    fn settle_by(&mut self, kind: RootKind, node: Option<Node>) -> Result<Option<Matched>> {
        if self.way != Way::Open {
            // The first item of a list that is the whole file: all items have its type.
            if kind == RootKind::Struct && self.is_positional() && self.item.opens_list && self.path.depth() == 1 {
                return self.by_name_or_position(node, true);
            }
            return Ok(None);
        }
        (self.way, self.root) = (Way::ByName, node);
        let matched = match kind {
            RootKind::Tensor => return Ok(None),
            RootKind::Map => self.has_names().map(|_| None)?,
            RootKind::Struct => self.by_name_or_position(node, false)?,
            RootKind::List => self.settle_list(node)?,
            RootKind::Tuple => self.settle_tuple(node)?,
        };
        if !self.is_positional() && matched.is_none() {
            self.reader.loader.require_unique_names()?;
        }
        Ok(matched)
    }

    /// A tuple of a plain serde value goes by names that are indices. Parts that store nothing have no position.
    fn settle_tuple(&mut self, node: Option<Node>) -> Result<Option<Matched>> {
        if node.is_none()
            && let Some(first) = self.reader.peek()?
            && self.has_names()?
            && is_index(first_segment(self.reader.name(first)))
            && !self.reader.index().has_repeated_names()
        {
            return Ok(None);
        }
        self.settle_list(node)
    }

    fn settle_list(&mut self, node: Option<Node>) -> Result<Option<Matched>> {
        let Some(first) = self.reader.peek()? else { return Ok(None) };
        let begins_with_struct = node.is_some_and(Node::begins_with_struct);
        if self.reader.index().has_name(first) && !self.reader.index().has_embedded_names {
            if !is_index(first_segment(self.reader.name(first))) && !begins_with_struct {
                self.way = Way::ByPosition;
            }
            return Ok(None);
        }
        match node {
            // Repeated names cannot separate the parts.
            Some(node) if !node.is_tensor_list() && !begins_with_struct => {
                if self.has_names()? && self.reader.index().has_repeated_names() {
                    self.way = Way::ByPosition;
                    return Ok(None);
                }
                self.by_name_or_position(Some(node), false)
            }
            Some(node) if !node.is_tensor_list() => self.by_name_or_position(Some(node), false),
            _ => {
                self.way = Way::ByPosition;
                Ok(None)
            }
        }
    }

    /// Goes by the names of the file, by the places in the type, or else by position.
    fn by_name_or_position(&mut self, node: Option<Node>, is_item: bool) -> Result<Option<Matched>> {
        self.way = Way::ByName;
        if self.has_names()? {
            return Ok(None);
        }
        let Some(node) = node else {
            self.way = Way::ByPosition;
            return Ok(None);
        };
        let index = self.reader.index();
        let infos = (0..index.len()).map(|at| index.entry(at).info());
        let matched = match_by_position(node, is_item, infos)?;
        // The list around the item goes by names then.
        if is_item || matched.needs_names() || self.findings.is_some() {
            self.way = Way::ByNamesOfType;
            return self.name_by(&matched).map(|()| None);
        }
        Ok(Some(matched))
    }

    /// Returns whether the file has names. Embedded names come last in the file.
    fn has_names(&mut self) -> Result<bool> {
        let Some(first) = self.reader.peek()? else { return Ok(true) };
        if self.reader.index().has_name(first) {
            return Ok(true);
        }
        self.reader.drain()?;
        Ok(self.reader.index().has_names())
    }

    /// Names the tensors as their type, or a list of it, would.
    pub(super) fn name_by(&mut self, matched: &Matched) -> Result<()> {
        self.reader.rename(&matched.names())?;
        self.reader.loader.require_unique_names()
    }
}
