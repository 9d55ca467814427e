//! Bytes that are stored once for several tensors.
//!
//! Planning finds the candidates: tensors whose bytes lie at the same address, tensors of the same length where that is
//! asked for, and tensors that the type ties to another. An address tells nothing for sure, as memory is used again, so
//! the bytes of the candidates, and of no others, are then compared by their digests, in one more pass over the value.
//! Writing makes the digests again: a value that has changed in between is an error, never a corrupt file.

use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, Hasher, RandomState};

use serde::Serialize;

use super::pour::changed;
use super::{Encode, Plan, Sharing};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Memory, Payload, Serializer, TensorSink};
use crate::tensor::TensorInfo;

/// 128 bits that differ where bytes differ: two hashes with keys that nobody knows beforehand.
pub(super) type Digest = [u64; 2];

/// Makes a [`Digest`]; how the bytes are cut into pieces makes no difference.
#[derive(Debug, Clone)]
pub(super) struct Digester([DefaultHasher; 2]);

impl Digester {
    pub(super) fn write(&mut self, piece: &[u8]) {
        self.0.iter_mut().for_each(|hasher| hasher.write(piece));
    }

    pub(super) fn digest(&self) -> Digest {
        [self.0[0].finish(), self.0[1].finish()]
    }
}

/// The tensors of a plan that share bytes.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// For each of them, the first with its bytes, and their digest.
    tensors: HashMap<usize, (usize, Digest)>,
    keys: Option<[RandomState; 2]>,
}

impl Shared {
    pub(super) fn owner(&self, at: usize) -> usize {
        if self.tensors.is_empty() { at } else { self.tensors.get(&at).map_or(at, |(owner, _)| *owner) }
    }

    pub(super) fn digest(&self, at: usize) -> Option<(Digest, Digester)> {
        let keys = self.keys.as_ref()?;
        let (_, digest) = self.tensors.get(&at)?;
        Some((*digest, digester(keys)))
    }
}

fn digester(keys: &[RandomState; 2]) -> Digester {
    Digester(keys.each_ref().map(BuildHasher::build_hasher))
}

/// The tensors that may share bytes.
#[derive(Debug)]
pub(super) struct Candidates {
    sharing: Sharing,
    by_memory: HashMap<Memory, usize>,
    by_length: HashMap<usize, usize>,
    /// Those to compare.
    found: BTreeSet<usize>,
    /// Those that the type ties to the tensor of a name.
    tied: Vec<(usize, &'static str)>,
}

impl Candidates {
    pub(super) fn new(sharing: Sharing) -> Self {
        Self { sharing, by_memory: HashMap::new(), by_length: HashMap::new(), found: BTreeSet::new(), tied: Vec::new() }
    }

    /// Takes notice of the tensor that is the next in its plan.
    pub(super) fn add<P: Serialize + ?Sized>(&mut self, at: usize, len: usize, payload: &Payload<'_, P>) {
        if let Some(name) = payload.tied_to() {
            self.tied.push((at, name));
        }
        if len == 0 {
            return;
        }
        let other = match self.sharing {
            Sharing::Never => return,
            Sharing::SameMemory => match payload.memory() {
                Some(memory) => before(self.by_memory.entry(memory), at),
                None => None,
            },
            Sharing::EqualBytes => before(self.by_length.entry(len), at),
        };
        if let Some(other) = other {
            self.found.extend([other, at]);
        }
    }

    /// Looks at the bytes of the candidates.
    pub(super) fn compare<T: Serialize + ?Sized, E: Encode>(
        mut self,
        plan: &Plan<E>,
        name: &str,
        value: &T,
    ) -> Result<Shared> {
        let tied = self.find_targets(plan)?;
        self.found.extend(tied.iter().flat_map(|&(at, target)| [at, target]));
        if self.found.is_empty() {
            return Ok(Shared::default());
        }
        let keys = [RandomState::new(), RandomState::new()];
        let digests = Digests { plan, wanted: &self.found, keys: &keys, at: 0, made: BTreeMap::new() };
        let mut serializer = Serializer::under(name, digests);
        value.serialize(&mut serializer)?;
        let digests = serializer.into_sink()?.finish()?;
        for (at, target) in tied {
            check_tied(plan, at, target, digests[&at] == digests[&target])?;
        }
        Ok(Shared { tensors: group(plan, &digests), keys: Some(keys) })
    }

    /// The tied tensors, each with the one that it is tied to.
    fn find_targets<E: Encode>(&self, plan: &Plan<E>) -> Result<Vec<(usize, usize)>> {
        if self.tied.is_empty() {
            return Ok(Vec::new());
        }
        let by_name: HashMap<&str, usize> = (0..plan.len()).map(|at| (plan.name(at), at)).collect();
        let find = |&(at, name): &(usize, &str)| match by_name.get(name) {
            Some(&target) => Ok((at, target)),
            None => Err(cannot_tie(plan, at, name, "the value has no tensor of that name".to_owned())),
        };
        self.tied.iter().map(find).collect()
    }
}

/// The first tensor of its kind, if there was one before.
fn before<K>(entry: Entry<'_, K, usize>, at: usize) -> Option<usize> {
    match entry {
        Entry::Occupied(first) => Some(*first.get()),
        Entry::Vacant(vacant) => {
            vacant.insert(at);
            None
        }
    }
}

fn check_tied<E: Encode>(plan: &Plan<E>, at: usize, target: usize, is_equal: bool) -> Result<()> {
    let (bytes, expected) = (plan.payload_bytes(at), plan.payload_bytes(target));
    let why = if bytes != expected {
        format!("it takes {bytes} bytes, and that one {expected}")
    } else if !is_equal {
        "their bytes are not the same".to_owned()
    } else {
        return Ok(());
    };
    Err(cannot_tie(plan, at, plan.name(target), why))
}

fn cannot_tie<E: Encode>(plan: &Plan<E>, at: usize, target: &str, why: String) -> Error {
    let kind = ErrorKind::Unsupported { what: format!("tie it to `{target}`"), instead: why };
    Error::new(kind).in_tensor(plan.name(at))
}

/// The tensors whose bytes another one has too, each with the first of them.
fn group<E: Encode>(plan: &Plan<E>, digests: &BTreeMap<usize, Digest>) -> HashMap<usize, (usize, Digest)> {
    let mut groups: HashMap<(usize, Digest), Vec<usize>> = HashMap::new();
    for (&at, digest) in digests {
        groups.entry((plan.payload_bytes(at), *digest)).or_default().push(at);
    }
    let shared = groups.into_iter().filter(|((bytes, _), tensors)| *bytes > 0 && tensors.len() > 1);
    shared
        .flat_map(|((_, digest), tensors)| {
            let owner = tensors[0];
            tensors.into_iter().map(move |at| (at, (owner, digest)))
        })
        .collect()
}

/// Makes the digests of some tensors of a value.
struct Digests<'a, E> {
    plan: &'a Plan<E>,
    wanted: &'a BTreeSet<usize>,
    keys: &'a [RandomState; 2],
    /// The tensor that comes next.
    at: usize,
    made: BTreeMap<usize, Digest>,
}

impl<E: Encode> Digests<'_, E> {
    fn finish(self) -> Result<BTreeMap<usize, Digest>> {
        match self.at == self.plan.len() {
            true => Ok(self.made),
            false => Err(changed(format!("`{}` did not come again", self.plan.name(self.at)))),
        }
    }
}

impl<E: Encode> TensorSink for Digests<'_, E> {
    fn keeps_dim_order(&self) -> bool {
        self.plan.encode().keeps_dim_order()
    }

    fn tensor<P: Serialize + ?Sized>(&mut self, name: &str, info: TensorInfo, payload: Payload<'_, P>) -> Result<()> {
        let at = self.at;
        if at >= self.plan.len() || name != self.plan.name(at) || info != *self.plan.info(at) {
            return Err(changed(format!("`{name}`, {info}, was not there before")));
        }
        if self.wanted.contains(&at) {
            let mut digester = digester(self.keys);
            payload.pour(|piece| {
                digester.write(piece);
                Ok(())
            })?;
            self.made.insert(at, digester.digest());
        }
        self.at += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_no_difference() {
        let keys = [RandomState::new(), RandomState::new()];
        let bytes: Vec<u8> = (0..=255).collect();
        let mut whole = digester(&keys);
        whole.write(&bytes);
        for len in [1, 3, 7, 8, 9, 100] {
            let mut pieces = digester(&keys);
            bytes.chunks(len).for_each(|piece| pieces.write(piece));
            assert_eq!(pieces.digest(), whole.digest(), "pieces of {len} bytes");
        }
    }
}
