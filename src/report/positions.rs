//! Lists that are read by position, whatever the names are.

use super::walk::Walk;
use crate::error::{ErrorKind, Result};
use crate::model::{Node, needs_names};

impl Walk {
    /// Compares a list that is the whole file with the tensors in their order.
    pub(super) fn by_position(&mut self, list: &Node) {
        let compared = match list {
            Node::List(item) => self.all_next(item),
            list => self.next(list, false),
        };
        let left = self.index.unread_count();
        let compared = compared.and_then(|()| match left {
            0 => Ok(()),
            _ => {
                let found = self.index.len();
                Err(ErrorKind::WrongCount { found: found as u64, expected: (found - left).to_string() }.into())
            }
        });
        if let Err(error) = compared {
            self.found.refuse(&error);
        }
    }

    fn all_next(&mut self, item: &Node) -> Result<()> {
        while self.index.first_unread().is_some() {
            self.next(item, true)?;
        }
        Ok(())
    }

    /// Compares a part of the type with the next tensors. An item of a list of any length is there, or the list would
    /// be shorter.
    fn next(&mut self, node: &Node, is_item: bool) -> Result<()> {
        self.path.check_depth()?;
        let place = self.path.push("");
        match node {
            Node::Tensor(slot) => {
                let found = self.index.len() as u64;
                let too_few = || ErrorKind::WrongCount { found, expected: format!("at least {}", found + 1) };
                let next = self.index.first_unread().ok_or_else(too_few)?;
                self.take(next, slot);
            }
            Node::Optional(inner) if is_item => self.next(inner, true)?,
            Node::Optional(_) => return Err(needs_names("an `Option`")),
            Node::List(_) if self.index.first_unread().is_none() => {}
            // What follows the list could as well be its next item.
            Node::List(_) => return Err(needs_names("a list inside of another value")),
            Node::Array(item, len) => {
                for _ in 0..*len {
                    self.next(item, false)?;
                }
            }
            Node::Tuple(parts) => {
                for part in parts {
                    self.next(part, false)?;
                }
            }
            Node::Map(_) => return Err(needs_names("a map")),
            Node::Again(again) => self.next(&again.node(), false)?,
            Node::Struct { fields, .. } => {
                for field in fields {
                    self.next(&field.node, false)?;
                }
            }
        }
        self.path.back_to(place);
        Ok(())
    }
}
