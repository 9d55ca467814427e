use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::index::{EXTENSION, ShardIndex, TOTAL};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{TensorRecord, TensorSink, Tensors};
use crate::record::{Encode, Names, Output, Plan};
use crate::storage::Staged;

/// The plan of all tensors, and the shard of each.
#[derive(Debug)]
pub(in crate::file) struct Split {
    plan: Plan,
    shard_of: Vec<usize>,
    shards: usize,
    /// The bytes of all tensors. Shared bytes count once.
    bytes: u64,
}

/// Splits tensors into shards; `None` if one file is enough.
pub(in crate::file) fn split(tensors: &dyn Tensors, encode: Arc<dyn Encode>, max_bytes: u64) -> Result<Option<Split>> {
    let format = encode.format();
    let stores_names = encode.names() != Names::Omitted;
    let plan = Plan::without_layout(tensors, encode).map_err(|error| error.in_format(format.name))?;
    let payloads = (0..plan.len()).map(|at| (plan.payload_bytes(at) as u64, plan.owner(at)));
    let (shard_of, bytes) = assign(payloads, max_bytes);
    let shards = shard_of.iter().max().map_or(1, |last| last + 1);
    if shards > 1 && !stores_names {
        let (what, instead) = (format!("save in shards as {}", format.name), "without names none could be found again");
        let instead = format!("{instead}; `WriteOptions::embed_names` writes names");
        return Err(ErrorKind::Unsupported { what, instead }.into());
    }
    Ok((shards > 1).then_some(Split { plan, shard_of, shards, bytes }))
}

/// Returns the shard of each tensor, given by its length and the first tensor with the same bytes, and the bytes of all.
fn assign(payloads: impl Iterator<Item = (u64, usize)>, max_bytes: u64) -> (Vec<usize>, u64) {
    let (mut shard_of, mut shard, mut filled, mut all) = (Vec::new(), 0, 0_u64, 0_u64);
    for (at, (bytes, owner)) in payloads.enumerate() {
        if owner < at {
            shard_of.push(shard_of[owner]);
            continue;
        }
        let fits = filled.checked_add(bytes).is_some_and(|sum| sum <= max_bytes);
        if !fits && filled > 0 && bytes > 0 {
            shard += 1;
            filled = 0;
        }
        filled = filled.saturating_add(bytes);
        all = all.saturating_add(bytes);
        shard_of.push(shard);
    }
    (shard_of, all)
}

/// The tensors of one shard.
struct Shard<'a> {
    tensors: &'a dyn Tensors,
    shard_of: &'a [usize],
    shard: usize,
}

impl Tensors for Shard<'_> {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        self.tensors.send(&mut Filter { sink, shard: self, next: 0 })
    }
}

struct Filter<'a> {
    sink: &'a mut dyn TensorSink,
    shard: &'a Shard<'a>,
    next: usize,
}

impl TensorSink for Filter<'_> {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        let at = self.next;
        self.next += 1;
        // A tensor that was not planned goes to every shard, whose writer refuses it.
        match self.shard.shard_of.get(at) {
            Some(shard) if *shard != self.shard.shard => Ok(()),
            _ => self.sink.tensor(tensor),
        }
    }
}

/// Saves tensors to the shards next to `path`, and the index of them.
pub(in crate::file) fn save(path: &Path, split: &Split, tensors: &dyn Tensors) -> Result<()> {
    let names = (0..split.shards).map(|shard| shard_name(path, shard, split.shards)).collect::<Result<Vec<_>>>()?;
    let in_format = |error: Error| error.in_format(split.plan.encode().format().name);
    let plan = |shard: usize| {
        let positions: Vec<usize> = (0..split.plan.len()).filter(|at| split.shard_of[*at] == shard).collect();
        split.plan.subset(&positions).map_err(in_format)
    };
    let plans = (0..split.shards).map(plan).collect::<Result<Vec<_>>>()?;
    let mut staged = Vec::with_capacity(names.len());
    for (shard, (name, plan)) in names.iter().zip(&plans).enumerate() {
        let own = Shard { tensors, shard_of: &split.shard_of, shard };
        let fill = |file: &mut std::fs::File| plan.write(&own, Output::stream(file)).map(drop);
        staged.push(Staged::new(&path.with_file_name(name), fill)?);
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
    let entry = |(at, &shard): (usize, &usize)| (split.plan.name(at).to_owned(), names[shard].clone());
    let weight_map = split.shard_of.iter().enumerate().map(entry).collect();
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

    /// Assigns tensors, given by their length or by the earlier tensor whose bytes they share.
    fn shards(tensors: &[Result<u64, usize>], max_bytes: u64) -> (Vec<usize>, u64) {
        let payload = |(at, tensor): (usize, &Result<u64, usize>)| {
            tensor.map_or_else(|owner| (tensors[owner].unwrap(), owner), |bytes| (bytes, at))
        };
        assign(tensors.iter().enumerate().map(payload), max_bytes)
    }

    #[test]
    fn a_shard_ends_before_the_tensor_that_exceeds_it() {
        assert_eq!(shards(&[Ok(4), Ok(4), Ok(1), Ok(0)], 8), (vec![0, 0, 1, 1], 9));
        assert_eq!(shards(&[Ok(0), Ok(20), Ok(0), Ok(1), Ok(20), Ok(20)], 8), (vec![0, 0, 0, 1, 2, 3], 61));
        assert_eq!(shards(&[Ok(4), Ok(8), Err(0), Ok(1)], 8), (vec![0, 1, 0, 2], 13));
        assert_eq!(shards(&[Ok(u64::MAX), Ok(1)], u64::MAX), (vec![0, 1], u64::MAX));
        assert_eq!(shards(&[], 1), (vec![], 0));
    }
}
