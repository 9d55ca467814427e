use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use serde::Serialize;
use serde_json::value::RawValue;

use super::index::{EXTENSION, ShardIndex, TOTAL};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Format, WriteOptions};
use crate::model::Part;
use crate::wire::{Outline, Staged};

/// Which tensor goes into which shard.
#[derive(Debug)]
pub(in crate::file) struct Split {
    shards: usize,
    shard_of: HashMap<String, usize>,
    /// The bytes of all tensors, those that are shared counted once.
    bytes: u64,
}

/// Splits a value into shards; `None` where one file is enough.
pub(in crate::file) fn split<T: Serialize + ?Sized>(
    format: &Format,
    value: &T,
    options: &WriteOptions,
    max_bytes: u64,
) -> Result<Option<Split>> {
    let tensors = format.outline(value, options)?;
    let split = Split::of(tensors, max_bytes);
    if split.shards > 1 && !options.stores_names(format) {
        let (what, instead) = (format!("save in shards as {}", format.name), "without names none could be found again");
        let instead = format!("{instead}; `WriteOptions::embed_names` writes names");
        return Err(ErrorKind::Unsupported { what, instead }.into());
    }
    Ok((split.shards > 1).then_some(split))
}

impl Split {
    fn of(tensors: Vec<Outline>, max_bytes: u64) -> Self {
        let mut split = Self { shards: 1, shard_of: HashMap::with_capacity(tensors.len()), bytes: 0 };
        let (mut shards, mut filled) = (Vec::with_capacity(tensors.len()), 0_u64);
        for (at, tensor) in tensors.into_iter().enumerate() {
            let shard = match tensor.owner == at {
                false => shards[tensor.owner],
                true => {
                    let fits = filled.checked_add(tensor.bytes).is_some_and(|sum| sum <= max_bytes);
                    if !fits && filled > 0 && tensor.bytes > 0 {
                        split.shards += 1;
                        filled = 0;
                    }
                    filled = filled.saturating_add(tensor.bytes);
                    split.bytes = split.bytes.saturating_add(tensor.bytes);
                    split.shards - 1
                }
            };
            shards.push(shard);
            split.shard_of.insert(tensor.name, shard);
        }
        split
    }
}

/// Saves the parts of a value to files beside `path`, each written by `write` once `check` has let all of them pass, and
/// the index of them.
pub(in crate::file) fn save<T: Serialize + ?Sized>(
    path: &Path,
    split: &Split,
    check: impl Fn(&Part<'_, T>) -> Result<()>,
    write: impl Fn(&mut fs::File, &Part<'_, T>) -> Result<()>,
    value: &T,
) -> Result<()> {
    let names = (0..split.shards).map(|at| shard_name(path, at, split.shards)).collect::<Result<Vec<_>>>()?;
    let is_in = |at: usize| move |tensor: &str| split.shard_of.get(tensor) == Some(&at);
    (0..split.shards).try_for_each(|at| check(&Part { value, has: &is_in(at) }))?;
    let mut staged = Vec::with_capacity(names.len());
    for (at, name) in names.iter().enumerate() {
        let has = is_in(at);
        staged.push(Staged::new(&path.with_file_name(name), |file| write(file, &Part { value, has: &has }))?);
    }
    let index = index(path, split, &names)?;
    if staged.iter().any(Staged::replaces) {
        index.clear()?;
    }
    for shard in staged {
        shard.put()?;
    }
    index.put()
}

fn index(path: &Path, split: &Split, names: &[String]) -> Result<Staged> {
    let weight_map = split.shard_of.iter().map(|(tensor, &shard)| (tensor.clone(), names[shard].clone())).collect();
    let total = RawValue::from_string(split.bytes.to_string()).expect("a number is JSON");
    let metadata = [(TOTAL.to_owned(), total)].into_iter().collect();
    let json = ShardIndex { metadata, weight_map }.to_json();
    let mut name = path.file_name().map_or_else(OsString::new, OsString::from);
    name.push(EXTENSION);
    Staged::new(&path.with_file_name(name), |file| Ok(std::io::Write::write_all(file, &json)?))
}

/// `model-00001-of-00003.safetensors`.
fn shard_name(path: &Path, at: usize, shards: usize) -> Result<String> {
    let part = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_str().map(str::to_owned);
    let (Some(stem), Some(extension)) = (part(path.file_stem()), part(path.extension())) else {
        let what = format!("save {} in shards", path.display());
        let instead = "the name goes into an index, which takes UTF-8".to_owned();
        return Err(Error::from(ErrorKind::Unsupported { what, instead }));
    };
    let dot = if extension.is_empty() { "" } else { "." };
    Ok(format!("{stem}-{:05}-of-{shards:05}{dot}{extension}", at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shards of tensors that take so many bytes, or share those of an earlier one.
    fn shards(tensors: &[Result<u64, usize>], max_bytes: u64) -> (Vec<usize>, u64) {
        let outline = |(at, tensor): (usize, &Result<u64, usize>)| {
            let (bytes, owner) = tensor.map_or_else(|owner| (tensors[owner].unwrap(), owner), |bytes| (bytes, at));
            Outline { name: at.to_string(), bytes, owner }
        };
        let split = Split::of(tensors.iter().enumerate().map(outline).collect(), max_bytes);
        ((0..tensors.len()).map(|at| split.shard_of[&at.to_string()]).collect(), split.bytes)
    }

    #[test]
    fn a_shard_ends_where_the_next_tensor_is_too_much() {
        assert_eq!(shards(&[Ok(4), Ok(4), Ok(1), Ok(0)], 8), (vec![0, 0, 1, 1], 9));
        assert_eq!(shards(&[Ok(0), Ok(20), Ok(0), Ok(1), Ok(20), Ok(20)], 8), (vec![0, 0, 0, 1, 2, 3], 61));
        assert_eq!(shards(&[Ok(4), Ok(8), Err(0), Ok(1)], 8), (vec![0, 1, 0, 2], 13));
        assert_eq!(shards(&[Ok(u64::MAX), Ok(1)], u64::MAX), (vec![0, 1], u64::MAX));
        assert_eq!(shards(&[], 1), (vec![], 0));
    }
}
