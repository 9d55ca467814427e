use std::collections::HashSet;

use indexmap::IndexMap;

use super::leaf::Leaf;
use super::tree::{Node, index};

/// What lies under a name, as a type can hold it.
#[derive(Debug, Clone)]
pub enum Part {
    Tensor(Leaf),
    Fields(Fields),
}

/// What lies below a place.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    /// By their names, which may have dots.
    pub named: IndexMap<String, Field>,
    pub numbered: Option<Numbered>,
    /// Whether there is more, under names that no field can have.
    pub is_loose: bool,
}

#[derive(Debug, Clone)]
pub struct Field {
    pub part: Part,
    /// Whether it is absent in some items of a list.
    pub is_optional: bool,
}

/// Parts of one type that have numbers for names.
#[derive(Debug, Clone)]
pub struct Numbered {
    pub item: Box<Part>,
    /// Whether the numbers have gaps, so that a map has to hold them.
    pub is_map: bool,
}

impl Fields {
    /// What lies below a node. Where the node is a tensor itself, nothing is numbered: what lies below it will be named from
    /// the place above, as a tensor has no fields.
    pub fn of(node: Node) -> Self {
        let mut fields = Self { is_loose: node.is_loose, ..Self::default() };
        let children = node.below.into_iter().map(|(name, child)| (name, Child::of(child)));
        let mut children: Vec<(String, Child)> = children.collect();
        if node.tensor.is_none() {
            fields.numbered = Numbered::of(&children, node.is_loose);
        }
        if fields.numbered.is_some() {
            children.retain(|(name, _)| index(name).is_none());
        }
        children.into_iter().for_each(|(name, child)| fields.add(name, child));
        fields
    }

    fn add(&mut self, name: String, child: Child) {
        let mut insert = |name, part| self.named.insert(name, Field { part, is_optional: false });
        match child {
            Child::One(part) => _ = insert(name, part),
            Child::Both(leaf, fields) => {
                insert(name.clone(), Part::Tensor(leaf));
                for (below, field) in fields.named {
                    insert(format!("{name}.{below}"), field.part);
                }
                self.is_loose |= fields.is_loose;
            }
        }
    }

    /// The numbered parts, where there is nothing else.
    pub fn only_numbered(&self) -> Option<&Numbered> {
        self.numbered.as_ref().filter(|_| self.named.is_empty() && !self.is_loose)
    }

    fn absorb(&mut self, other: &Self) -> bool {
        if !self.may_lack(other) || !other.may_lack(self) {
            return false;
        }
        for (name, field) in &mut self.named {
            match other.named.get(name) {
                Some(other) if !field.part.absorb(&other.part) => return false,
                Some(other) => field.is_optional |= other.is_optional,
                None => field.is_optional = true,
            }
        }
        for (name, field) in &other.named {
            let optional = || Field { part: field.part.clone(), is_optional: true };
            self.named.entry(name.clone()).or_insert_with(optional);
        }
        if let Some(other) = &other.numbered {
            let numbered = self.numbered.get_or_insert_with(|| other.clone());
            numbered.is_map |= other.is_map;
            if !numbered.item.absorb(&other.item) {
                return false;
            }
        }
        self.is_loose |= other.is_loose;
        // A map takes all that is left.
        !(self.is_loose && self.numbered.as_ref().is_some_and(|numbered| numbered.is_map))
    }

    /// Whether all that `other` has more would be seen to be absent here. What is present is what has the name or lies
    /// under it.
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

    /// Whether both are the same type.
    fn is_like(&self, other: &Self) -> bool {
        let named = |(name, field): (&String, &Field)| {
            other
                .named
                .get(name)
                .is_some_and(|other| field.is_optional == other.is_optional && field.part.is_like(&other.part))
        };
        let numbered = match (&self.numbered, &other.numbered) {
            (Some(numbered), Some(other)) => numbered.is_map == other.is_map && numbered.item.is_like(&other.item),
            (None, None) => true,
            _ => false,
        };
        numbered
            && self.is_loose == other.is_loose
            && self.named.len() == other.named.len()
            && self.named.iter().all(named)
    }
}

/// What lies under a name.
enum Child {
    One(Part),
    /// A tensor and, below its name, more.
    Both(Leaf, Fields),
}

impl Child {
    fn of(node: Node) -> Self {
        match node.tensor.clone() {
            Some(leaf) if node.below.is_empty() && !node.is_loose => Self::One(Part::Tensor(leaf)),
            Some(leaf) => Self::Both(leaf, Fields::of(node)),
            None => Self::One(Part::Fields(Fields::of(node))),
        }
    }
}

impl Numbered {
    /// The children whose names are numbers. Without gaps they are the items of a list, whose type has in `Option`s what
    /// some lack; with gaps, those of a map where they are all alike.
    fn of(children: &[(String, Child)], is_loose: bool) -> Option<Self> {
        let numbers = children.iter().filter_map(|(name, child)| Some((index(name)?, child)));
        let mut items: Vec<(usize, &Child)> = numbers.collect();
        items.sort_unstable_by_key(|(number, _)| *number);
        let is_map = items.last()?.0 >= items.len();
        if is_map && (items.len() == 1 || is_loose) {
            return None;
        }
        let parts = items.iter().map(|(_, child)| match child {
            Child::One(part) => Some(part),
            Child::Both(..) => None,
        });
        let parts: Vec<&Part> = parts.collect::<Option<_>>()?;
        let (first, others) = parts.split_first()?;
        if is_map && !others.iter().all(|other| first.is_like(other)) {
            return None;
        }
        let mut item = (*first).clone();
        others.iter().all(|other| item.absorb(other)).then(|| Self { item: Box::new(item), is_map })
    }
}

impl Part {
    /// Widens the type so that it holds the other part too; whether that can be. Where not, `self` is of no use.
    fn absorb(&mut self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tensor(leaf), Self::Tensor(other)) => {
                leaf.absorb(other);
                true
            }
            (Self::Fields(fields), Self::Fields(other)) => fields.absorb(other),
            _ => false,
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tensor(leaf), Self::Tensor(other)) => leaf.kind == other.kind && leaf.rank() == other.rank(),
            (Self::Fields(fields), Self::Fields(other)) => fields.is_like(other),
            _ => false,
        }
    }
}
