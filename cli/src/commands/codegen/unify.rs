//! Unifies the items of lists: one type for all of them.

use std::collections::HashSet;

use indexmap::IndexMap;

use super::tree::{Leaf, Node, index, is_address};

/// The content of a field.
#[derive(Debug, Clone)]
pub enum Content {
    Tensor(Leaf),
    Fields(Fields),
}

/// The fields of a struct.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    /// Fields by name. A name may contain dots.
    pub named: IndexMap<String, UnifiedField>,
    pub numbered: Option<Numbered>,
    /// Set if there are tensors with names impossible for fields.
    pub has_others: bool,
}

#[derive(Debug, Clone)]
pub struct UnifiedField {
    pub content: Content,
    /// Set if some items of a list lack the field.
    pub is_optional: bool,
}

/// Content of one type, named by numbers.
#[derive(Debug, Clone)]
pub struct Numbered {
    pub item: Box<Content>,
    /// Set if the numbers have gaps, which need a map instead of a list.
    pub is_map: bool,
}

impl Fields {
    /// Returns the fields of a node.
    ///
    /// If the node is a tensor itself, it becomes no struct, even if the tensor is left out: the fields below it are
    /// added to the node above, so they cannot be items of a list.
    pub fn of(node: Node) -> Self {
        let mut fields = Self { has_others: node.has_others, ..Self::default() };
        let children = node.below.into_iter().map(|(name, child)| (name, Child::of(child)));
        let mut children: Vec<(String, Child)> = children.collect();
        if node.tensor.is_none() && !node.has_left_out {
            fields.numbered = Numbered::of(&children, node.has_others);
        }
        if fields.numbered.is_some() {
            children.retain(|(name, _)| index(name).is_none());
        }
        children.into_iter().for_each(|(name, child)| fields.add(name, child));
        fields
    }

    fn add(&mut self, name: String, child: Child) {
        let mut insert = |name, content| self.named.insert(name, UnifiedField { content, is_optional: false });
        match child {
            Child::One(content) => _ = insert(name, content),
            Child::Both(leaf, fields) => {
                if let Some(leaf) = leaf {
                    insert(name.clone(), Content::Tensor(leaf));
                }
                for (below, field) in fields.named {
                    insert(format!("{name}.{below}"), field.content);
                }
                self.has_others |= fields.has_others;
            }
        }
    }

    /// Returns the numbered items, if there are no other fields.
    pub fn only_numbered(&self) -> Option<&Numbered> {
        self.numbered.as_ref().filter(|_| self.named.is_empty() && !self.has_others)
    }

    /// Extends the fields to hold `other` too. Returns whether this is possible; if not, `self` is unusable.
    fn unify(&mut self, other: &Self) -> bool {
        if !self.may_lack(other) || !other.may_lack(self) {
            return false;
        }
        for (name, field) in &mut self.named {
            match other.named.get(name) {
                Some(other) if !field.content.unify(&other.content) => return false,
                Some(other) => field.is_optional |= other.is_optional,
                None => field.is_optional = true,
            }
        }
        for (name, field) in &other.named {
            let optional = || UnifiedField { content: field.content.clone(), is_optional: true };
            self.named.entry(name.clone()).or_insert_with(optional);
        }
        if let Some(other) = &other.numbered {
            let numbered = self.numbered.get_or_insert_with(|| other.clone());
            numbered.is_map |= other.is_map;
            if !numbered.item.unify(&other.item) {
                return false;
            }
        }
        self.has_others |= other.has_others;
        // A map would also take the other tensors.
        !(self.has_others && self.numbered.as_ref().is_some_and(|numbered| numbered.is_map))
    }

    /// Returns whether the additional fields of `other` would be found absent in `self`. A field is present if there is
    /// a tensor with its name, or below it.
    fn may_lack(&self, other: &Self) -> bool {
        let mut prefixes = HashSet::new();
        for name in self.named.keys() {
            prefixes.extend(name.match_indices('.').map(|(dot, _)| &name[..dot]));
        }
        let is_taken = |name: &str| prefixes.contains(name) && !self.named.contains_key(name);
        let has_number = |name: &String| index(name.split('.').next().unwrap_or_default()).is_some();
        let clash = other.numbered.is_some() && self.named.keys().any(has_number);
        !clash && !other.named.keys().any(|name| is_taken(name))
    }

    /// Returns whether both have the same type.
    fn has_type_of(&self, other: &Self) -> bool {
        let named = |(name, field): (&String, &UnifiedField)| {
            other.named.get(name).is_some_and(|other| {
                field.is_optional == other.is_optional && field.content.has_type_of(&other.content)
            })
        };
        let numbered = match (&self.numbered, &other.numbered) {
            (Some(numbered), Some(other)) => numbered.is_map == other.is_map && numbered.item.has_type_of(&other.item),
            (None, None) => true,
            _ => false,
        };
        numbered
            && self.has_others == other.has_others
            && self.named.len() == other.named.len()
            && self.named.iter().all(named)
    }
}

/// A segment of names.
enum Child {
    One(Content),
    /// A tensor, unless it is left out, and tensors below its name.
    Both(Option<Leaf>, Fields),
}

impl Child {
    fn of(node: Node) -> Self {
        match node.tensor.clone() {
            Some(leaf) if node.below.is_empty() && !node.has_others => Self::One(Content::Tensor(leaf)),
            None if !node.is_left_out => Self::One(Content::Fields(Fields::of(node))),
            leaf => Self::Both(leaf, Fields::of(node)),
        }
    }
}

impl Numbered {
    /// Returns the children named by numbers.
    ///
    /// Without gaps, they are the items of a list; fields missing from some items are optional. With gaps, they are the
    /// values of a map, which must all have the same type, unless they are addresses.
    fn of(children: &[(String, Child)], has_others: bool) -> Option<Self> {
        let numbers = children.iter().filter_map(|(name, child)| Some((index(name)?, child)));
        let mut items: Vec<(usize, &Child)> = numbers.collect();
        items.sort_unstable_by_key(|(number, _)| *number);
        let is_map = items.last()?.0 >= items.len();
        let mut names = children.iter().map(|(name, _)| name).filter(|name| index(name).is_some());
        let are_addresses = names.all(|name| is_address(name));
        if is_map && (items.len() == 1 && !are_addresses || has_others) {
            return None;
        }
        let contents = items.iter().map(|(_, child)| match child {
            Child::One(content) => Some(content),
            Child::Both(..) => None,
        });
        let contents: Vec<&Content> = contents.collect::<Option<_>>()?;
        let (first, others) = contents.split_first()?;
        if is_map && !are_addresses && !others.iter().all(|other| first.has_type_of(other)) {
            return None;
        }
        let mut item = (*first).clone();
        others.iter().all(|other| item.unify(other)).then(|| Self { item: Box::new(item), is_map })
    }
}

impl Content {
    /// Extends the type to hold `other` too. Returns whether this is possible; if not, `self` is unusable.
    fn unify(&mut self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tensor(leaf), Self::Tensor(other)) => {
                leaf.unify(other);
                true
            }
            (Self::Fields(fields), Self::Fields(other)) => fields.unify(other),
            _ => false,
        }
    }

    fn has_type_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tensor(leaf), Self::Tensor(other)) => leaf.kind == other.kind && leaf.rank() == other.rank(),
            (Self::Fields(fields), Self::Fields(other)) => fields.has_type_of(other),
            _ => false,
        }
    }
}
