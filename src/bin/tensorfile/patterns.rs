//! Names that differ by numbers only, such as those of layers, as one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use indexmap::IndexMap;
use tensorfile::TensorInfo;

/// Numbers in a name after so many are text, so that no name is long work.
const NUMBERS: usize = 8;

/// Tensors of the same dtype, shape and layout whose names differ by numbers only.
#[derive(Debug, PartialEq, Eq)]
pub struct Pattern {
    /// A name with sets of numbers, as a shell expands them but for the bounds of a run: `layers.{0..5}.weight`.
    pub name: String,
    pub info: TensorInfo,
    /// The number of tensors.
    pub count: usize,
    /// The position of the first one.
    pub first: usize,
}

/// The patterns of the tensors, in the order in which each one begins.
///
/// Every tensor is in one pattern, and a pattern stands for tensors that are there only: where numbers are missing, or
/// shapes differ, there are several.
pub fn patterns<'a>(tensors: impl IntoIterator<Item = (&'a str, &'a TensorInfo)>) -> Vec<Pattern> {
    let mut groups: IndexMap<(Vec<&str>, &TensorInfo), Vec<Numbered>> = IndexMap::new();
    for (first, (name, info)) in tensors.into_iter().enumerate() {
        let (words, numbers) = take_apart(name);
        groups.entry((words, info)).or_default().push(Numbered { numbers, first });
    }

    let mut patterns = Vec::with_capacity(groups.len());
    for ((words, info), numbered) in groups {
        for Product { sets, first } in products(&numbered) {
            let count = sets.iter().map(BTreeSet::len).product();
            patterns.push(Pattern { name: put_together(&words, &sets), info: info.clone(), count, first });
        }
    }
    patterns
}

/// The numbers in the name of a tensor, and its position.
struct Numbered {
    numbers: Vec<u64>,
    first: usize,
}

/// Names that have every combination of numbers from these sets.
struct Product {
    sets: Vec<BTreeSet<u64>>,
    first: usize,
}

/// The text around the numbers that stand by themselves in a name, and those numbers.
///
/// A number stands by itself between characters that are neither letters nor digits, as in `layers.0.weight`,
/// `layers_0` and `0`, but not in `fc1` and `conv1x1`. A number that another text could mean as well, such as `07`, is
/// text.
fn take_apart(name: &str) -> (Vec<&str>, Vec<u64>) {
    let (mut words, mut numbers) = (Vec::new(), Vec::new());
    let (mut start, mut at) = (0, 0);
    for run in name.split_inclusive(|c: char| !c.is_alphanumeric()) {
        let word = run.trim_end_matches(|c: char| !c.is_alphanumeric());
        if let Some(number) = canonical(word).filter(|_| numbers.len() < NUMBERS) {
            words.push(&name[start..at]);
            numbers.push(number);
            start = at + word.len();
        }
        at += run.len();
    }
    words.push(&name[start..]);
    (words, numbers)
}

fn canonical(word: &str) -> Option<u64> {
    let digits = word.bytes().all(|byte| byte.is_ascii_digit()) && (word == "0" || !word.starts_with('0'));
    word.parse().ok().filter(|_| digits)
}

/// The numbers as products of sets, one set for each place.
///
/// Those are put together that go with the same numbers behind them; so `{0..2} × {0, 1}` is one product in whatever
/// order it was listed.
fn products(numbered: &[Numbered]) -> Vec<Product> {
    let places = numbered.first().map_or(0, |numbered| numbered.numbers.len());
    // From the last place to the first: numbers that are not in a set yet, with the product of those behind them.
    let mut parts: Vec<(&[u64], Product)> = numbered
        .iter()
        .map(|Numbered { numbers, first }| (&numbers[..], Product { sets: Vec::new(), first: *first }))
        .collect();
    for _ in 0..places {
        let mut merged: IndexMap<_, (BTreeSet<u64>, usize)> = IndexMap::new();
        for (numbers, Product { sets, first }) in parts {
            let Some((last, before)) = numbers.split_last() else { continue };
            let (set, least) = merged.entry((before, sets)).or_insert_with(|| (BTreeSet::new(), first));
            set.insert(*last);
            *least = first.min(*least);
        }
        let put_before = |((before, mut sets), (set, first)): ((_, Vec<_>), _)| {
            sets.insert(0, set);
            (before, Product { sets, first })
        };
        parts = merged.into_iter().map(put_before).collect();
    }
    parts.into_iter().map(|(_, product)| product).collect()
}

fn put_together(words: &[&str], sets: &[BTreeSet<u64>]) -> String {
    let mut name = String::new();
    for (at, word) in words.iter().enumerate() {
        name.push_str(word);
        if let Some(set) = sets.get(at) {
            write_set(&mut name, set);
        }
    }
    name
}

/// `7`, `{0..5}`, `{0,1}` or `{0..3,7,9..11}`.
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
    written.expect("a string can be written to");
}

#[cfg(test)]
mod tests {
    use tensorfile::Dtype;

    use super::*;

    fn of(tensors: &[(&str, &[usize])]) -> Vec<String> {
        let infos: Vec<_> = tensors.iter().map(|(name, shape)| (*name, TensorInfo::new(Dtype::F32, *shape))).collect();
        let patterns = patterns(infos.iter().map(|(name, info)| (*name, info)));
        assert_eq!(patterns.iter().map(|pattern| pattern.count).sum::<usize>(), tensors.len());
        assert!(patterns.iter().all(|pattern| tensors[pattern.first].1 == pattern.info.shape.dims()));
        patterns.iter().map(|pattern| format!("{} {} ×{}", pattern.name, pattern.info.shape, pattern.count)).collect()
    }

    #[test]
    fn layers_are_one() {
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
    fn a_pattern_stands_for_what_is_there() {
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
    fn numbers_are_those_that_stand_by_themselves() {
        for (name, words, numbers) in [
            ("", &[""][..], &[][..]),
            ("7", &["", ""], &[7]),
            ("h.0.w-1", &["h.", ".w-", ""], &[0, 1]),
            ("fc1.conv1x1.07", &["fc1.conv1x1.07"], &[]),
            ("..0", &["..", ""], &[0]),
            ("ä.18446744073709551616.٣", &["ä.18446744073709551616.٣"], &[]),
        ] {
            assert_eq!(take_apart(name), (words.to_vec(), numbers.to_vec()), "{name}");
        }
    }
}
