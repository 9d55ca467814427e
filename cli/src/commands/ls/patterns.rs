//! Combines names that differ only in numbers, such as the names of layers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use indexmap::IndexMap;
use tensorfile::TensorInfo;

/// The maximum number of numbers in a name; further ones are text. It bounds the work for hostile names.
const MAX_NUMBERS: usize = 8;

/// Tensors with the same dtype, shape and layout whose names differ only in numbers.
#[derive(Debug, PartialEq, Eq)]
pub struct Pattern {
    /// A name with sets of numbers in braces, as in a shell: `layers.{0..5}.weight`; `None` if it is the name of the
    /// only tensor.
    pub name: Option<String>,
    /// The number of tensors.
    pub count: usize,
    /// The position of the first tensor.
    pub first: usize,
}

/// Combines tensors to patterns, in the order of the first tensor of each.
///
/// Every tensor is in exactly one pattern, and every name that a pattern expands to exists. If numbers are missing or
/// shapes differ, there are several patterns.
pub fn patterns<'a>(tensors: impl IntoIterator<Item = (&'a str, &'a TensorInfo)>) -> Vec<Pattern> {
    let mut groups: IndexMap<(Box<[&str]>, &TensorInfo), Rows> = IndexMap::new();
    for (first, (name, info)) in tensors.into_iter().enumerate() {
        let (words, numbers) = split_numbers(name);
        let rows = groups.entry((words.into_boxed_slice(), info)).or_default();
        rows.reserve_exact(if rows.is_empty() { numbers.len() + 1 } else { 0 });
        rows.extend(numbers);
        rows.push(first as u64);
    }

    let mut patterns = Vec::with_capacity(groups.len());
    for ((words, _), rows) in groups {
        for Product { sets, first } in products(&rows, words.len() - 1) {
            let count = sets.iter().map(BTreeSet::len).product();
            let name = (count > 1).then(|| join(&words, &sets));
            patterns.push(Pattern { name, count, first });
        }
    }
    patterns
}

/// For each tensor of a group the numbers in its name, then its position. There may be millions of groups or of tensors
/// in one.
type Rows = Vec<u64>;

/// Names with every combination of numbers from these sets.
struct Product {
    sets: Vec<BTreeSet<u64>>,
    first: usize,
}

/// Splits a name into the numbers that are words of it, and the text around them.
///
/// Words are separated by characters that are neither letters nor digits: `layers.0.weight`, `layers_0` and `0` have a
/// number, `fc1` and `conv1x1` have none. A number with leading zeros, such as `07`, is text.
fn split_numbers(name: &str) -> (Vec<&str>, Vec<u64>) {
    let (mut words, mut numbers) = (Vec::new(), Vec::new());
    let (mut start, mut index) = (0, 0);
    for run in name.split_inclusive(|c: char| !c.is_alphanumeric()) {
        let word = run.trim_end_matches(|c: char| !c.is_alphanumeric());
        if let Some(number) = canonical(word).filter(|_| numbers.len() < MAX_NUMBERS) {
            words.push(&name[start..index]);
            numbers.push(number);
            start = index + word.len();
        }
        index += run.len();
    }
    words.push(&name[start..]);
    (words, numbers)
}

fn canonical(word: &str) -> Option<u64> {
    let digits = word.bytes().all(|byte| byte.is_ascii_digit()) && (word == "0" || !word.starts_with('0'));
    word.parse().ok().filter(|_| digits)
}

/// Combines lists of numbers to products of sets, with one set for each place.
///
/// Numbers are combined if the same combinations follow them, so `{0..2} × {0, 1}` is one product in any order of its
/// names.
fn products(rows: &Rows, places: usize) -> Vec<Product> {
    // Works from the last place to the first: `parts` has the numbers of the places before, and the product of those
    // after.
    let mut parts: Vec<(&[u64], Product)> = Vec::with_capacity(rows.len() / (places + 1));
    for row in rows.chunks_exact(places + 1) {
        let (first, numbers) = row.split_last().expect("a row ends with a position");
        let first = usize::try_from(*first).expect("it is that of a tensor");
        parts.push((numbers, Product { sets: Vec::new(), first }));
    }
    for _ in 0..places {
        let mut merged: IndexMap<_, (BTreeSet<u64>, usize)> = IndexMap::new();
        for (numbers, Product { sets, first }) in parts {
            let Some((last, before)) = numbers.split_last() else { continue };
            let (set, least) = merged.entry((before, sets)).or_insert_with(|| (BTreeSet::new(), first));
            set.insert(*last);
            *least = first.min(*least);
        }
        let prepend = |((before, mut sets), (set, first)): ((_, Vec<_>), _)| {
            sets.insert(0, set);
            (before, Product { sets, first })
        };
        parts = merged.into_iter().map(prepend).collect();
    }
    parts.into_iter().map(|(_, product)| product).collect()
}

fn join(words: &[&str], sets: &[BTreeSet<u64>]) -> String {
    let mut name = String::new();
    for (index, word) in words.iter().enumerate() {
        name.push_str(word);
        if let Some(set) = sets.get(index) {
            write_set(&mut name, set);
        }
    }
    name
}

/// Writes a set: `7`, `{0..5}`, `{0,1}` or `{0..3,7,9..11}`.
fn write_set(text: &mut String, set: &BTreeSet<u64>) {
    let mut runs: BTreeMap<u64, u64> = BTreeMap::new();
    for &number in set {
        match runs.last_entry() {
            Some(mut run) if run.get().checked_add(1) == Some(number) => *run.get_mut() = number,
            _ => {
                runs.insert(number, number);
            }
        }
    }
    let runs: Vec<String> = runs
        .into_iter()
        .map(|(first, last)| match last - first {
            0 => first.to_string(),
            1 => format!("{first},{last}"),
            _ => format!("{first}..{last}"),
        })
        .collect();
    let written = match set.len() {
        1 => write!(text, "{}", runs.concat()),
        _ => write!(text, "{{{}}}", runs.join(",")),
    };
    written.expect("writing to a `String` does not fail");
}

#[cfg(test)]
mod tests {
    use tensorfile::Dtype;

    use super::*;

    fn of(tensors: &[(&str, &[usize])]) -> Vec<String> {
        let infos: Vec<_> = tensors.iter().map(|(name, shape)| (*name, TensorInfo::new(Dtype::F32, *shape))).collect();
        let patterns = patterns(infos.iter().map(|(name, info)| (*name, info)));
        assert_eq!(patterns.iter().map(|pattern| pattern.count).sum::<usize>(), tensors.len());
        let line = |Pattern { name, count, first }: &Pattern| {
            let (own, shape) = tensors[*first];
            format!("{} {shape:?} ×{count}", name.as_deref().unwrap_or(own))
        };
        patterns.iter().map(line).collect()
    }

    #[test]
    fn combines_layers() {
        let tensors: &[(&str, &[usize])] = &[
            ("embed", &[9]),
            ("layers.0.weight", &[2, 3]),
            ("layers.0.bias", &[3]),
            ("layers.1.weight", &[2, 3]),
            ("layers.1.bias", &[3]),
            ("layers.2.weight", &[2, 3]),
            ("layers.2.bias", &[3]),
            ("layers.10.weight", &[2, 3]),
            ("layers.11.weight", &[2, 4]),
        ];
        let expected = [
            "embed [9] ×1",
            "layers.{0..2,10}.weight [2, 3] ×4",
            "layers.{0..2}.bias [3] ×3",
            "layers.11.weight [2, 4] ×1",
        ];
        assert_eq!(of(tensors), expected);
    }

    #[test]
    fn patterns_expand_to_existing_names() {
        let all: Vec<String> = (0..2).flat_map(|a| (0..3).map(move |b| format!("a.{a}.b_{b}"))).collect();
        let shape: &[usize] = &[];
        let some = |keep: &dyn Fn(&str) -> bool| {
            let tensors: Vec<(&str, &[usize])> =
                all.iter().filter(|name| keep(name)).map(|name| (name.as_str(), shape)).collect();
            of(&tensors)
        };
        assert_eq!(some(&|_| true), ["a.{0,1}.b_{0..2} [] ×6"]);
        assert_eq!(some(&|name| name != "a.1.b_1"), ["a.0.b_{0..2} [] ×3", "a.1.b_{0,2} [] ×2"]);
    }

    #[test]
    fn numbers_are_whole_words() {
        for (name, words, numbers) in [
            ("", &[""][..], &[][..]),
            ("7", &["", ""], &[7]),
            ("h.0.w-1", &["h.", ".w-", ""], &[0, 1]),
            ("fc1.conv1x1.07", &["fc1.conv1x1.07"], &[]),
            ("..0", &["..", ""], &[0]),
            ("ä.18446744073709551616.٣", &["ä.18446744073709551616.٣"], &[]),
        ] {
            assert_eq!(split_numbers(name), (words.to_vec(), numbers.to_vec()), "{name}");
        }
    }
}
