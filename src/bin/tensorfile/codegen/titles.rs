//! The names of the structs.

use indexmap::IndexSet;

use super::leaf::Kind;
use super::names::{TYPES, Taken, camel, is_type_name, singular, words};
use super::structs::{Field, Struct, Structs, Type};
use super::tree::index;

/// The structs in the order in which they are shown, outer ones first, with their names.
pub fn titles(structs: &Structs, root: &str) -> Vec<(usize, String)> {
    let mut uses = vec![IndexSet::new(); structs.structs.len()];
    for field in structs.structs.iter().flat_map(|known| &known.fields) {
        if let (Some(at), Some(name)) = (field.ty.of_struct(), title(field)) {
            uses[at].insert(name);
        }
    }
    let mut taken = Taken::default();
    TYPES.iter().for_each(|name| _ = taken.take((*name).to_owned(), ""));
    let is_shown = vec![false; structs.structs.len()];
    let mut namer = Namer { structs, uses, taken, titles: Vec::new(), is_shown };
    namer.show(structs.structs.len() - 1, root.to_owned());
    namer.titles
}

/// The name of a field as that of a struct; nothing where it is no more than a number.
fn title(field: &Field) -> Option<String> {
    let segment = field.name.as_deref()?.rsplit('.').next().filter(|segment| index(segment).is_none())?;
    let title = camel(segment);
    Some(if field.ty.is_of_many() { singular(&title).to_owned() } else { title })
}

struct Namer<'a> {
    structs: &'a Structs,
    /// What the fields that hold a struct are called.
    uses: Vec<IndexSet<String>>,
    taken: Taken,
    titles: Vec<(usize, String)>,
    is_shown: Vec<bool>,
}

impl Namer<'_> {
    /// Shows a struct, and then those that it names.
    fn show(&mut self, at: usize, title: String) {
        let title = self.taken.take(title, "");
        self.titles.push((at, title.clone()));
        self.is_shown[at] = true;
        let structs = self.structs;
        for inner in structs.structs[at].fields.iter().filter_map(|field| field.ty.of_struct()) {
            if !self.is_shown[inner] {
                let inner_title = self.title(inner, &title);
                self.show(inner, inner_title);
            }
        }
    }

    /// The name of a struct within another one.
    fn title(&self, at: usize, outer: &str) -> String {
        let uses = &self.uses[at];
        let title = match uses.len() {
            0 => Some(singular(outer).to_owned()).filter(|title| title != outer && outer != self.titles[0].1),
            1 => uses.first().cloned(),
            _ => {
                let known = &self.structs.structs[at];
                in_common(uses)
                    .or_else(|| usual(known))
                    .or_else(|| of_only_field(known))
                    .or_else(|| uses.first().cloned())
            }
        };
        let title = title.unwrap_or_else(|| "Item".to_owned());
        if is_type_name(&title) && !self.taken.has(&title) { title } else { format!("{outer}{title}") }
    }
}

/// The words that all names end with, but for numbers.
fn in_common(names: &IndexSet<String>) -> Option<String> {
    let endings =
        names.iter().map(|name| words(name.trim_end_matches(|c: char| c.is_ascii_digit())).collect::<Vec<_>>());
    let common = endings.reduce(|common, other| {
        let same = common.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
        common[common.len() - same..].to_vec()
    });
    let common = common?.concat();
    (common.len() > 1).then(|| singular(&common).to_owned())
}

/// What a struct of a weight and a bias is usually called.
fn usual(known: &Struct) -> Option<String> {
    let dense_rank = |field: &Field| match (field.name.as_deref(), &field.ty) {
        (Some("weight"), Type::Tensor(Kind::Dense(_), rank)) => *rank,
        _ => None,
    };
    let is_usual = |field: &Field| matches!(field.name.as_deref(), Some("weight" | "bias"));
    let rank = known.fields.iter().find_map(dense_rank)?;
    let name = match rank {
        1 => "Norm",
        2 => "Linear",
        3..=5 => "Conv",
        _ => return None,
    };
    known.fields.iter().all(is_usual).then(|| name.to_owned())
}

/// The name of the struct that is all that a struct holds.
fn of_only_field(known: &Struct) -> Option<String> {
    match known.fields.as_slice() {
        [field] => field.ty.of_struct().and_then(|_| title(field)),
        _ => None,
    }
}
