//! Names of tensors as values of axes, and back.

use hashbrown::HashSet;
use indexmap::IndexSet;

use super::parse::{EquationSide, NamePiece};

/// The value of an axis that has none.
pub(super) const UNSET: u64 = u64::MAX;

/// The value of each axis of an equation: a number, the number of a text in its list, or that of any text in [`Texts`].
pub(super) type AxisValues = Vec<u64>;

/// The texts for which `{x:*}` stands.
pub(super) type Texts = IndexSet<String>;

/// Returns the values of the axes in a name, if it matches the pattern of a side. Early texts of a list, and long numbers
/// and texts, come first.
pub(super) fn values_of(side: &EquationSide, name: &str, axes: usize, texts: &mut Texts) -> Option<AxisValues> {
    let first = match side.name.first() {
        Some(NamePiece::Text(text)) => text.as_str(),
        _ => "",
    };
    let last = match side.name.last() {
        Some(NamePiece::Text(text)) => text.as_str(),
        _ => "",
    };
    if !name.starts_with(first) || !name.ends_with(last) {
        return None;
    }
    let mut values = vec![UNSET; axes];
    let mut matching = NameMatching { values: &mut values, texts, failed: HashSet::new() };
    matching.run(&side.name, name).then_some(values)
}

/// Returns the name of a tensor.
pub(super) fn name_of(side: &EquationSide, values: &[u64], texts: &Texts) -> String {
    let mut name = String::new();
    for piece in &side.name {
        match piece {
            NamePiece::Text(text) => name.push_str(text),
            NamePiece::Number { axis, shift } => {
                name.push_str(&(i128::from(values[*axis]) + i128::from(*shift)).to_string())
            }
            NamePiece::Choice { axis, texts } => {
                name.push_str(index(values[*axis]).and_then(|i| texts.get(i)).map_or("?", |text| text))
            }
            NamePiece::Any { axis } => {
                name.push_str(index(values[*axis]).and_then(|i| texts.get_index(i)).map_or("?", |text| text))
            }
        }
    }
    name
}

/// Converts a size or a value to an index in memory.
pub(super) fn index(number: u64) -> Option<usize> {
    usize::try_from(number).ok()
}

struct NameMatching<'v> {
    values: &'v mut AxisValues,
    texts: &'v mut Texts,
    /// The numbers of pieces and bytes left where nothing matches: without them, several `{x:*}` would take time that
    /// grows with a power of the length.
    failed: HashSet<(usize, usize)>,
}

impl NameMatching<'_> {
    fn run(&mut self, pieces: &[NamePiece], name: &str) -> bool {
        let Some((piece, rest)) = pieces.split_first() else { return name.is_empty() };
        let place = (pieces.len(), name.len());
        if let NamePiece::Text(text) = piece {
            return name.strip_prefix(text.as_str()).is_some_and(|name| self.run(rest, name));
        }
        if self.failed.contains(&place) {
            return false;
        }
        let found = match piece {
            NamePiece::Text(_) => false,
            NamePiece::Number { axis, shift } => {
                let digits = name.bytes().take(10).take_while(u8::is_ascii_digit).count();
                let longest = if name.starts_with('0') { 1 } else { digits };
                (1..=longest).rev().any(|len| {
                    let value = name[..len].parse().ok().and_then(|number: i64| u32::try_from(number - shift).ok());
                    value.is_some_and(|value| self.with(*axis, value.into(), rest, &name[len..]))
                })
            }
            NamePiece::Choice { axis, texts } => texts.iter().zip(0..).any(|(text, value)| {
                name.strip_prefix(text.as_str()).is_some_and(|name| self.with(*axis, value, rest, name))
            }),
            NamePiece::Any { axis } => (0..=name.len()).rev().filter(|len| name.is_char_boundary(*len)).any(|len| {
                if !self.run(rest, &name[len..]) {
                    return false;
                }
                let (value, _) = self.texts.insert_full(name[..len].to_owned());
                self.values[*axis] = value as u64;
                true
            }),
        };
        if !found {
            self.failed.insert(place);
        }
        found
    }

    fn with(&mut self, axis: usize, value: u64, rest: &[NamePiece], name: &str) -> bool {
        let matches = self.run(rest, name);
        if matches {
            self.values[axis] = value;
        }
        matches
    }
}
