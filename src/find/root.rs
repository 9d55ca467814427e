//! The type at the root decides how tensors are found: by name or by position.

use super::Deserializer;
use crate::error::Result;
use crate::model::{Node, first_segment, is_index, names_by_position};

/// A part of a value that the root can be, as its first call shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RootKind {
    Tensor,
    Struct,
    List,
    Map,
}

impl Deserializer<'_> {
    /// Prepares for a value of a type, if it is the root.
    pub(super) fn begin(&mut self, node: Node) -> Result<()> {
        let kind = match node.inner() {
            Node::Struct(_) => RootKind::Struct,
            Node::List(_) | Node::Array(..) | Node::Tuple(_) => RootKind::List,
            Node::Map(_) => RootKind::Map,
            _ => RootKind::Tensor,
        };
        self.settle(kind, Some(node))
    }

    /// Decides how tensors are found, if the value is the root. `node` is its type, if that is known.
    ///
    /// - A struct is read by name. If the file has no names, its type gives them, or else its fields are read by position.
    /// - A map is read by name. Tensors without a name are called by their position.
    /// - A list is read by position, unless the names are those of a list's items or its items are structs. Tensors alone
    ///   come one by one, also from a stream. Parts need to know where they end. Embedded names come last, so they do not
    ///   change the order of a list of tensors.
    pub(crate) fn settle(&mut self, kind: RootKind, node: Option<Node>) -> Result<()> {
        if self.settled {
            // The first item of the list that is the whole file: all others have its type.
            if kind == RootKind::Struct && self.positional && self.opens_list && self.path.depth() == 1 {
                return self.by_name_or_position(node, true);
            }
            return Ok(());
        }
        (self.settled, self.root) = (true, node);
        match kind {
            RootKind::Tensor => return Ok(()),
            RootKind::Map => self.has_names().map(drop)?,
            RootKind::Struct => self.by_name_or_position(node, false)?,
            RootKind::List => self.settle_list(node)?,
        }
        if self.positional { Ok(()) } else { self.reader.require_unique_names() }
    }

    fn settle_list(&mut self, node: Option<Node>) -> Result<()> {
        let Some(first) = self.reader.peek()? else { return Ok(()) };
        let begins_with_struct = node.is_some_and(Node::begins_with_struct);
        if self.reader.index().has_name(first) && !self.reader.index().has_embedded_names() {
            self.positional = !is_index(first_segment(self.reader.name(first))) && !begins_with_struct;
            return Ok(());
        }
        match node {
            // Names that repeat cannot tell the parts apart.
            Some(node) if !node.is_tensor_list() && !begins_with_struct => {
                self.positional = self.has_names()? && self.reader.index().has_repeated_names();
                if self.positional { Ok(()) } else { self.by_name_or_position(Some(node), false) }
            }
            Some(node) if !node.is_tensor_list() => self.by_name_or_position(Some(node), false),
            _ => {
                self.positional = true;
                Ok(())
            }
        }
    }

    /// Goes by the names of the file, by those that the type gives, or else by position.
    fn by_name_or_position(&mut self, node: Option<Node>, is_item: bool) -> Result<()> {
        self.positional = false;
        if self.has_names()? {
            return Ok(());
        }
        match node {
            Some(node) => self.name_by(node, is_item),
            None => {
                self.positional = true;
                Ok(())
            }
        }
    }

    /// Returns whether the file has names. Embedded ones come last.
    fn has_names(&mut self) -> Result<bool> {
        let Some(first) = self.reader.peek()? else { return Ok(true) };
        if self.reader.index().has_name(first) {
            return Ok(true);
        }
        self.reader.drain()?;
        Ok(self.reader.index().has_names())
    }

    /// Gives the tensors the names that a type, or a list of it, would have written.
    fn name_by(&mut self, node: Node, is_item: bool) -> Result<()> {
        let index = self.reader.index();
        let infos = (0..index.len()).map(|at| index.entry(at).info());
        let names = names_by_position(node, is_item, infos)?;
        self.reader.rename(&names)
    }
}
