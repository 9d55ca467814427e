//! The names of the structs.

use indexmap::IndexSet;

use super::names::{TYPES, Taken, camel, is_type_name, singular, words};
use super::structs::{Field, Struct, Structs, Type};
use super::tree::{Kind, index};

/// Returns the indices of the structs in the order of the code, outer ones first, with their names.
pub fn struct_names(structs: &Structs, root: &str) -> Vec<(usize, String)> {
    let mut uses = vec![IndexSet::new(); structs.structs.len()];
    for field in structs.structs.iter().flat_map(|known| &known.fields) {
        if let (Some(i), Some(name)) = (field.ty.struct_index(), name_from_field(field)) {
            uses[i].insert(name);
        }
    }
    let mut taken = Taken::default();
    TYPES.iter().for_each(|name| _ = taken.take((*name).to_owned(), ""));
    let is_named = vec![false; structs.structs.len()];
    let mut namer = Namer { structs, uses, taken, names: Vec::new(), is_named };
    namer.assign(structs.structs.len() - 1, root.to_owned());
    namer.names
}

/// Converts the name of a field to the name of a struct, unless it is a number.
fn name_from_field(field: &Field) -> Option<String> {
    let segment = field.name.as_deref()?.rsplit('.').next().filter(|segment| index(segment).is_none())?;
    let name = camel(segment);
    Some(if field.ty.is_collection() { singular(&name).to_owned() } else { name })
}

struct Namer<'a> {
    structs: &'a Structs,
    /// The names from the fields of each struct.
    uses: Vec<IndexSet<String>>,
    taken: Taken,
    names: Vec<(usize, String)>,
    is_named: Vec<bool>,
}

impl Namer<'_> {
    /// Assigns a name to a struct, and then to the structs of its fields.
    fn assign(&mut self, i: usize, name: String) {
        let name = self.taken.take(name, "");
        self.names.push((i, name.clone()));
        self.is_named[i] = true;
        let structs = self.structs;
        for inner in structs.structs[i].fields.iter().filter_map(|field| field.ty.struct_index()) {
            if !self.is_named[inner] {
                let inner_name = self.name(inner, &name);
                self.assign(inner, inner_name);
            }
        }
    }

    /// Returns the name of a struct used in the struct `outer`.
    fn name(&self, i: usize, outer: &str) -> String {
        let uses = &self.uses[i];
        let name = match uses.len() {
            0 => Some(singular(outer).to_owned()).filter(|name| name != outer && outer != self.names[0].1),
            1 => uses.first().cloned(),
            _ => {
                let known = &self.structs.structs[i];
                common_suffix(uses)
                    .or_else(|| usual_name(known))
                    .or_else(|| name_from_only_field(known))
                    .or_else(|| uses.first().cloned())
            }
        };
        let name = name.unwrap_or_else(|| "Item".to_owned());
        if is_type_name(&name) && !self.taken.has(&name) { name } else { format!("{outer}{name}") }
    }
}

/// Returns the words at the end of all names, without numbers.
fn common_suffix(names: &IndexSet<String>) -> Option<String> {
    let endings =
        names.iter().map(|name| words(name.trim_end_matches(|c: char| c.is_ascii_digit())).collect::<Vec<_>>());
    let common = endings.reduce(|common, other| {
        let same = common.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
        common[common.len() - same..].to_vec()
    });
    let common = common?.concat();
    (common.len() > 1).then(|| singular(&common).to_owned())
}

/// Returns the usual name of a struct with a weight and a bias.
fn usual_name(known: &Struct) -> Option<String> {
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

/// Returns the name from the only field of a struct, if the field holds another struct.
fn name_from_only_field(known: &Struct) -> Option<String> {
    match known.fields.as_slice() {
        [field] => field.ty.struct_index().and_then(|_| name_from_field(field)),
        _ => None,
    }
}
