//! "Did you mean": finds unexpected tensors likely to be missing ones.
//!
//! Names are compared by their patterns, so a list costs no more than one of its items. With many patterns, only
//! neighbours in the order of their beginnings or ends are compared.

use std::collections::{HashMap, HashSet};
use std::ops::Index;

use indexmap::IndexMap;

use crate::error::{ErrorKind, LoadReport, NameList, Short, fill, pattern};
use crate::model::TensorSpec;
use crate::tensor::{Tensor, TensorMap, sorted};

/// The maximum number of missing patterns to search similar names for.
const MISSING: usize = 1000;
/// Up to this many unexpected patterns, each is compared with each missing one.
const FEW: usize = 64;
/// If there are more, this many are compared before and after the missing one, in each of the two orders.
const NEIGHBOURS: usize = 8;
/// The number of similar names in a message.
const SHOWN: usize = 3;
/// The longest name to compare, in bytes.
const LONGEST: usize = 256;
/// The largest difference of similar names, in thousandths of the longer one.
const FARTHEST: usize = 334;
/// The penalty for a different dtype or shape.
const OTHER_SPEC: usize = 150;
/// The penalty for another beginning if the last two segments are similar.
const OTHER_BEGINNING: usize = 150;

/// Fills in the similar names of a report. `wanted` are its missing tensors and then the absent optional ones.
pub(super) fn find(report: &mut LoadReport, wanted: &[(String, TensorSpec)]) {
    if wanted.is_empty() || report.unexpected.is_empty() {
        return;
    }
    let missing = by_pattern(wanted.iter().map(|(name, _)| name.as_str()));
    let unexpected = by_pattern(report.unexpected.iter().map(|unexpected| unexpected.name.as_str()));
    let places: HashMap<String, usize> =
        report.unexpected.iter().enumerate().map(|(at, unexpected)| (unexpected.name.clone(), at)).collect();
    let neighbours = Neighbours::new(&unexpected);
    for (pattern, members) in missing.iter().take(MISSING) {
        let spec = &wanted[members[0]].1;
        let fits = |group: usize| spec.check(&report.unexpected[unexpected[group][0]].info).is_ok();
        let near: Vec<(usize, usize)> = neighbours
            .of(pattern)
            .filter_map(|group| {
                let other = if fits(group) { 0 } else { OTHER_SPEC };
                Some((difference(pattern, unexpected.get_index(group)?.0)? + other, group))
            })
            .filter(|(difference, _)| *difference <= FARTHEST)
            .collect();
        let mut near = sorted::values(near, &mut |one, other| one.cmp(other));
        if near.is_empty() && unexpected.len() <= FEW {
            near.extend(only((0..unexpected.len()).filter(|group| fits(*group))).map(|group| (0, group)));
        }
        for &member in members {
            for &(_, group) in near.iter().take(SHOWN) {
                let Some((pattern, others)) = unexpected.get_index(group) else { continue };
                let place = match fill(pattern, &wanted[member].0) {
                    Some(name) => places.get(&name).copied(),
                    None => others.first().copied(),
                };
                if let Some(place) = place {
                    if let Some(missing) = report.missing.get_mut(member) {
                        missing.near.push(report.unexpected[place].name.clone());
                    }
                    report.unexpected[place].near.push(wanted[member].0.clone());
                }
            }
        }
    }
    for unexpected in &mut report.unexpected {
        unexpected.near.truncate(SHOWN);
    }
}

/// Returns the keys similar to `key`, the most similar first. `keys` are in that order already.
pub(super) fn similar(key: &str, keys: &[String]) -> Vec<String> {
    let is_similar = |other: &&String| difference(key, other).is_some_and(|difference| difference <= FARTHEST);
    keys.iter().filter(is_similar).take(SHOWN).cloned().collect()
}

// Implemented here and not next to the map, which is below errors and their messages.
impl Index<&str> for TensorMap {
    type Output = Tensor;

    /// Returns the tensor called `name`. [`get`](TensorMap::get) does not panic.
    ///
    /// # Panics
    ///
    /// If there is no such tensor. The message lists the most similar names.
    #[track_caller]
    fn index(&self, name: &str) -> &Tensor {
        match self.get(name) {
            Some(tensor) => tensor,
            None => {
                let names = ErrorKind::by_similarity(name, self.names().map(str::to_owned).collect());
                panic!("no tensor `{}`{}", Short(name), NameList { lead: "; the map has ", names: &names, others: 0 })
            }
        }
    }
}

/// Groups names by pattern; the values are their positions.
fn by_pattern<'a>(names: impl Iterator<Item = &'a str>) -> IndexMap<String, Vec<usize>> {
    let mut patterns = IndexMap::<String, Vec<usize>>::new();
    for (at, name) in names.enumerate() {
        patterns.entry(pattern(name)).or_default().push(at);
    }
    patterns
}

/// Patterns sorted by beginning, and by end.
struct Neighbours {
    by_beginning: Vec<(String, usize)>,
    by_end: Vec<(String, usize)>,
}

impl Neighbours {
    fn new(patterns: &IndexMap<String, Vec<usize>>) -> Self {
        let sorted = |key: fn(&str) -> String| {
            let keys = patterns.keys().enumerate().map(|(at, pattern)| (key(pattern), at)).collect();
            sorted::values(keys, &mut |(one, _), (other, _)| one.cmp(other))
        };
        Self { by_beginning: sorted(str::to_owned), by_end: sorted(reversed) }
    }

    /// Returns the patterns to compare with one.
    fn of(&self, pattern: &str) -> impl Iterator<Item = usize> + use<> {
        let around = |sorted: &[(String, usize)], key: &str| {
            let place = sorted.partition_point(|(other, _)| other.as_str() < key);
            let (from, to) = match sorted.len() {
                len if len <= FEW => (0, len),
                len => (place.saturating_sub(NEIGHBOURS), len.min(place + NEIGHBOURS)),
            };
            sorted[from..to].iter().map(|(_, at)| *at).collect::<HashSet<usize>>()
        };
        let mut found = around(&self.by_beginning, pattern);
        found.extend(around(&self.by_end, &reversed(pattern)));
        found.into_iter()
    }
}

fn reversed(pattern: &str) -> String {
    pattern.chars().rev().collect()
}

/// Returns the difference of two patterns, in thousandths.
fn difference(one: &str, other: &str) -> Option<usize> {
    if one == other {
        return Some(0);
    }
    if ErrorKind::is_part(one, other) || ErrorKind::is_part(other, one) {
        return Some(1);
    }
    let ends = letters(end(one), end(other)).map(|difference| difference + OTHER_BEGINNING);
    letters(one, other).into_iter().chain(ends).min()
}

/// Returns the number of different letters, in thousandths of the longer name.
fn letters(one: &str, other: &str) -> Option<usize> {
    let (short, long) = (one.len().min(other.len()), one.len().max(other.len()));
    if long > LONGEST || (long - short) * 1000 > long * FARTHEST {
        return None;
    }
    Some(strsim::osa_distance(one, other) * 1000 / long.max(1))
}

/// Returns the last two segments of a name.
fn end(name: &str) -> &str {
    name.rmatch_indices('.').nth(1).map_or(name, |(at, _)| &name[at + 1..])
}

/// Returns the only item of an iterator, if it has exactly one.
fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let first = items.next()?;
    items.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_similar_names() {
        for (one, other, near) in [
            ("bias", "bais", true),
            ("decoder.bias", "encoder.bias", true),
            ("layers.*.norm.weight", "model.layers.*.norm.weight", true),
            ("embedding", "embedding.weight.of.all.tokens", true),
            ("embedding", "embeddings_of_all_tokens.weight", false),
            ("a.long.beginning.norm.weight", "another.norm.weight", true),
            ("head", "tail", false),
            ("bias", "decoder.running_mean", false),
        ] {
            let difference = difference(one, other).filter(|difference| *difference <= FARTHEST);
            assert_eq!(difference.is_some(), near, "{one} and {other}: {difference:?}");
        }
    }
}
