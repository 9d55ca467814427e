//! The order of names, and their common beginnings, made when a part of a name is first searched.

use std::hash::BuildHasher;
use std::sync::OnceLock;

use hashbrown::HashTable;

use super::Index;
use crate::read::tree_order::common_bytes;
use crate::tensor::sorted;

/// Tensors with a common beginning of their names, up to a dot.
#[derive(Debug, Clone)]
pub(super) struct Groups {
    table: HashTable<Group>,
    /// The tensors of each group are contiguous in the file, and no group has the name of another tensor.
    pub(super) are_runs: bool,
}

#[derive(Debug, Clone)]
struct Group {
    /// The hash of the common beginning. With it, the table grows without another look at the names.
    hash: u64,
    /// The first tensor.
    first: u32,
    /// The length of the common beginning without the dot.
    len: u32,
}

/// The entries in the order of their names.
#[derive(Debug, Clone)]
pub(super) struct NameOrder {
    pub(super) order: Vec<usize>,
    /// The place of each entry in `order`.
    pub(super) rank: Vec<usize>,
}

/// What is made when a part of a name is first searched.
#[derive(Debug, Clone, Default)]
pub(super) struct NameGroups {
    sorted: OnceLock<NameOrder>,
    /// `None` if the common beginnings are too many.
    groups: OnceLock<Option<Groups>>,
}

/// Finds tensors by the beginnings of their names.
#[derive(Clone, Copy)]
pub(crate) struct NameSearch<'a>(&'a Index);

impl<'a> NameSearch<'a> {
    #[inline]
    pub(super) fn new(index: &'a Index) -> Self {
        Self(index)
    }

    pub(super) fn sorted(self) -> &'a NameOrder {
        let index = self.0;
        index.groups.sorted.get_or_init(|| {
            let order = sorted::positions(index.len(), &mut |a, b| index.name(a).cmp(index.name(b)));
            let mut rank = vec![0; order.len()];
            order.iter().enumerate().for_each(|(place, &i)| rank[i] = place);
            NameOrder { order, rank }
        })
    }

    /// Returns the common beginnings of names. `None` if they are too many.
    pub(super) fn groups(self) -> Option<&'a Groups> {
        self.0.groups.groups.get_or_init(|| self.find_groups()).as_ref()
    }

    fn find_groups(self) -> Option<Groups> {
        let mut groups = Groups { table: HashTable::new(), are_runs: self.0.names.repeated().is_empty() };
        let mut last = "";
        // A name made of dots has long common prefixes.
        let mut left = self.0.names.text_bytes().saturating_mul(16);
        for i in 0..self.0.len() {
            let name = self.0.name(i);
            let common = common_bytes(last.as_bytes(), name.as_bytes());
            for len in dots(&name.as_bytes()[common..]).map(|dot| common + dot) {
                left = left.checked_sub(len)?;
                let beginning = &name[..len];
                let hash = self.0.names.hasher.hash_one(beginning);
                let same = |group: &Group| group.hash == hash && self.beginning(group) == beginning;
                match groups.table.entry(hash, same, |group| group.hash) {
                    hashbrown::hash_table::Entry::Occupied(_) => groups.are_runs = false,
                    hashbrown::hash_table::Entry::Vacant(vacant) => {
                        let first = u32::try_from(i).expect("that many were pushed");
                        vacant.insert(Group { hash, first, len: u32::try_from(len).ok()? });
                        groups.are_runs &= self.0.position(beginning).is_none();
                    }
                }
            }
            last = name;
        }
        Some(groups)
    }

    fn beginning(self, group: &Group) -> &'a str {
        &self.0.name(group.first as usize)[..group.len as usize]
    }

    /// Returns whether every subtree is known to be contiguous in the file, and no tensor name is also a prefix.
    #[inline]
    pub(crate) fn has_runs_only(self) -> bool {
        self.0.names.has_tree_order()
            || self.0.groups.groups.get().and_then(Option::as_ref).is_some_and(|groups| groups.are_runs)
    }

    /// Returns whether there is no tensor below `prefix`. `false` if only a search can decide.
    pub(super) fn has_none_below(self, prefix: &str) -> bool {
        let Some(groups) = self.groups() else { return false };
        let hash = self.0.names.hasher.hash_one(prefix);
        groups.table.find(hash, |group| group.hash == hash && self.beginning(group) == prefix).is_none()
    }

    /// Returns whether `prefix` is a group, and the tensor `first` is the next one after it. `false` if the groups are
    /// not known yet, or are not runs.
    pub(super) fn ends_run(self, prefix: &str, first: usize) -> bool {
        let is_below = |i: usize| self.0.name(i).strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.'));
        self.has_runs_only() && first > 0 && is_below(first - 1) && !is_below(first)
    }
}

fn dots(bytes: &[u8]) -> impl Iterator<Item = usize> {
    bytes.iter().enumerate().filter(|(_, byte)| **byte == b'.').map(|(i, _)| i)
}

#[cfg(test)]
mod tests {
    use super::super::tests::index;

    #[test]
    fn gives_up_on_names_of_dots() {
        assert!(index(&[&".".repeat(1 << 10)]).search().groups().is_none());
        assert!(index(&["a.b.c.d.e.f.g"]).search().groups().is_some());
    }
}
