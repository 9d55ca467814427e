//! The root settles how tensors are found: by name or by position.

use super::Deserializer;
use crate::error::Result;
use crate::model::handoff::take_schema;
use crate::model::path::{first_segment, is_index};
use crate::model::{Node, TensorSource, positional};

impl<'de, S: TensorSource<'de>> Deserializer<S> {
    /// A struct is read by name. Where the file has no names, its schema tells them, or else its fields are read by
    /// position.
    pub(super) fn settle_struct(&mut self) -> Result<()> {
        let schema = take_schema();
        if self.is_unsettled() {
            return self.settle(schema.map(|schema| schema()));
        }
        // The first item of the list that is the whole file: what it is, all are.
        if self.positional && self.opens_list && self.path.depth() == 1 {
            self.settle(schema.map(|schema| Node::List(Box::new(schema()))))?;
        }
        Ok(())
    }

    /// Goes by the names that the file has, by those that the type tells, or else by position.
    fn settle(&mut self, node: Option<Node>) -> Result<()> {
        self.positional = false;
        match node {
            _ if self.has_names()? => Ok(()),
            Some(node) => self.name_by(&node),
            None => {
                self.positional = true;
                Ok(())
            }
        }
    }

    /// A map is read by name; tensors without a name are called by their position.
    pub(super) fn settle_map(&mut self) -> Result<()> {
        take_schema();
        if self.is_unsettled() {
            self.has_names()?;
        }
        Ok(())
    }

    /// A list is read by position, unless the names are those of a list's items.
    ///
    /// Tensors alone come one by one, also from a stream. What has parts needs to be told where they end. Names that
    /// are embedded, and so come last, do not change the order of a list of tensors.
    pub(super) fn settle_list(&mut self) -> Result<()> {
        let schema = take_schema();
        if !self.is_unsettled() {
            return Ok(());
        }
        let Some(first) = self.source.peek()? else { return Ok(()) };
        if self.source.has_name(first) && !self.source.has_embedded_names() {
            self.positional = !is_index(first_segment(self.source.name(first)));
            return Ok(());
        }
        match schema.map(|schema| schema()) {
            Some(node) if !is_plain_list(&node) => self.settle(Some(node)),
            _ => {
                self.positional = true;
                Ok(())
            }
        }
    }

    fn is_unsettled(&mut self) -> bool {
        !std::mem::replace(&mut self.settled, true)
    }

    /// Whether the file has names. Those that are embedded in a file of a format without names come last.
    fn has_names(&mut self) -> Result<bool> {
        let Some(first) = self.source.peek()? else { return Ok(true) };
        if self.source.has_name(first) {
            return Ok(true);
        }
        self.source.drain()?;
        Ok((0..self.source.len()).any(|at| self.source.has_name(at)))
    }

    /// Gives the tensors the names that a type would have written them by.
    fn name_by(&mut self, node: &Node) -> Result<()> {
        let infos = (0..self.source.len()).map(|at| self.source.info(at));
        let names = positional::names(node, infos)?;
        self.source.rename(names)
    }
}

/// Whether a list holds tensors only, any number of them.
fn is_plain_list(node: &Node) -> bool {
    matches!(node, Node::List(item) if matches!(**item, Node::Tensor(_)))
}
