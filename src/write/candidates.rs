//! Finds bytes to store once for several tensors.
//!
//! Planning finds the candidates: tensors with the same storage id, tensors of the same length if equal bytes are
//! shared, and tensors that their type ties to another. Equal ids prove nothing, because memory is reused. One more
//! pass over the tensors therefore compares the digests of the candidates. Writing computes the digests again, so a
//! tensor that changed in between is an error instead of a corrupt file.

use std::hash::RandomState;

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::digest_check::changed;
use super::repeats::may_repeat;
use super::row_major::RowMajor;
use super::sharing::{KeyedDigest, Shared, digester};
use super::{Encode, PlannedTensors, Sharing};
use crate::error::{Error, ErrorKind, Result, Short};
use crate::model::{TensorRecord, TensorSink, Tensors};
use crate::tensor::sorted;

/// Tensors that may share bytes.
pub(super) struct Candidates {
    sharing: Sharing,
    /// The tensors with bytes, each with a key. Only tensors with equal keys can share bytes.
    keys: SmallVec<[(Key, usize); 1]>,
    /// The tensors tied to a named tensor.
    tied: Vec<(usize, String)>,
}

/// The storage id, or 0 if equal bytes are shared, and the length.
type Key = (u64, usize);

impl Candidates {
    pub(super) fn new(sharing: Sharing) -> Self {
        Self { sharing, keys: SmallVec::new(), tied: Vec::new() }
    }

    /// Adds the next tensor of the plan.
    // Inlined into the planner, which calls it for each tensor.
    #[inline(always)]
    pub(super) fn add(&mut self, index: usize, len: usize, tensor: &TensorRecord<'_>) {
        if let Some(name) = tensor.tied {
            self.tied.push((index, name.to_owned()));
        }
        let id = match self.sharing {
            Sharing::Never => None,
            Sharing::SameMemory => tensor.data.storage_id(),
            Sharing::EqualBytes => Some(0),
        };
        if let Some(id) = id.filter(|_| len > 0) {
            self.keys.push(((id, len), index));
        }
    }

    /// Returns the tensors to compare.
    fn find(&self) -> Vec<usize> {
        let keys = self.keys.as_slice();
        // Most often, values lie in memory in the order of their creation.
        if keys.is_sorted_by(|(one, _), (other, _)| one < other) {
            return Vec::new();
        }
        let hashes: Vec<u64> = keys.iter().map(|(key, _)| hash(*key)).collect();
        let found = may_repeat(&hashes);
        let key = |index: usize| keys[found[index]].0;
        let order = sorted::positions(found.len(), &mut |one, other| key(one).cmp(&key(other)));
        let groups = order.chunk_by(|&one, &other| key(one) == key(other));
        groups.filter(|group| group.len() > 1).flatten().map(|&index| keys[found[index]].1).collect()
    }

    /// Compares the bytes of the candidates. Returns the tensors that share bytes, if any.
    pub(super) fn compare(
        &self,
        plan: &PlannedTensors,
        encode: &dyn Encode,
        tensors: &dyn Tensors,
    ) -> Result<Option<Box<Shared>>> {
        if self.tied.is_empty() && self.keys.len() < 2 {
            return Ok(None);
        }
        let tied = self.find_targets(plan)?;
        // Without sharing, equality of bytes does not matter.
        if self.sharing == Sharing::Never {
            return Ok(None);
        }
        let mut found = self.find();
        found.extend(tied.iter().flat_map(|&(index, target)| [index, target]));
        if found.is_empty() {
            return Ok(None);
        }
        let keys = [RandomState::new(), RandomState::new()];
        let mut digests = Digests {
            plan,
            encode,
            keys: &keys,
            index: 0,
            made: vec![None; plan.len()],
            wanted: vec![false; plan.len()],
        };
        found.into_iter().for_each(|index| digests.wanted[index] = true);
        tensors.send(&mut digests)?;
        let digests = digests.finish()?;
        for (index, target) in tied {
            check_tied(plan, index, target, digests[index] == digests[target])?;
        }
        let shared = group(plan, &digests);
        Ok((!shared.is_empty()).then(|| Box::new(Shared::new(shared, keys))))
    }

    /// Returns the tied tensors, each with its target.
    fn find_targets(&self, plan: &PlannedTensors) -> Result<Vec<(usize, usize)>> {
        if self.tied.is_empty() {
            return Ok(Vec::new());
        }
        let by_name: HashMap<&str, usize> = (0..plan.len()).map(|index| (plan.name(index), index)).collect();
        let find = |(index, name): &(usize, String)| match by_name.get(name.as_str()) {
            Some(&target) => Ok((*index, target)),
            None => Err(cannot_tie(plan, *index, name, "the value has no tensor of that name".to_owned())),
        };
        self.tied.iter().map(find).collect()
    }
}

/// Spreads keys over all numbers.
#[inline]
fn hash((id, len): Key) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    (id ^ (len as u64).rotate_left(32)).wrapping_mul(FACTOR)
}

fn check_tied(plan: &PlannedTensors, index: usize, target: usize, is_equal: bool) -> Result<()> {
    let (bytes, expected) = (plan.payload_bytes(index), plan.payload_bytes(target));
    let why = if bytes != expected {
        format!("it takes {bytes} bytes, and that one {expected}")
    } else if !is_equal {
        "their bytes are not the same".to_owned()
    } else {
        return Ok(());
    };
    Err(cannot_tie(plan, index, plan.name(target), why))
}

fn cannot_tie(plan: &PlannedTensors, index: usize, target: &str, why: String) -> Error {
    let kind = ErrorKind::Unsupported { what: format!("tie it to `{}`", Short(target)), instead: why };
    Error::new(kind).in_tensor(plan.name(index))
}

/// Returns the tensors with repeated bytes, each with the first tensor of the same bytes.
fn group(plan: &PlannedTensors, digests: &[Option<KeyedDigest>]) -> HashMap<usize, (usize, KeyedDigest)> {
    let mut groups: HashMap<(usize, KeyedDigest), Vec<usize>> = HashMap::new();
    for (index, digest) in digests.iter().enumerate() {
        if let Some(digest) = digest {
            groups.entry((plan.payload_bytes(index), *digest)).or_default().push(index);
        }
    }
    let shared = groups.into_iter().filter(|((bytes, _), tensors)| *bytes > 0 && tensors.len() > 1);
    shared
        .flat_map(|((_, digest), tensors)| {
            let owner = tensors[0];
            tensors.into_iter().map(move |index| (index, (owner, digest)))
        })
        .collect()
}

/// Computes the digests of some tensors of a plan.
struct Digests<'a> {
    plan: &'a PlannedTensors,
    encode: &'a dyn Encode,
    /// For each tensor, whether its digest is needed.
    wanted: Vec<bool>,
    keys: &'a [RandomState; 2],
    /// The position of the next tensor.
    index: usize,
    made: Vec<Option<KeyedDigest>>,
}

impl Digests<'_> {
    fn finish(self) -> Result<Vec<Option<KeyedDigest>>> {
        if self.index == self.plan.len() {
            Ok(self.made)
        } else {
            Err(changed(format!("`{}` did not come again", Short(self.plan.name(self.index)))))
        }
    }

    fn add(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        let index = self.index;
        let (name, info) = (tensor.name, tensor.info);
        if index >= self.plan.len() || name != self.plan.name(index) || info != self.plan.info(index) {
            return Err(changed(format!("`{}`, {info}, was not there before", Short(name))));
        }
        if self.wanted[index] {
            let mut digester = digester(self.keys);
            tensor.data.write_to(&mut digester)?;
            self.made[index] = Some(digester.digest());
        }
        self.index += 1;
        Ok(())
    }
}

impl TensorSink for Digests<'_> {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        if RowMajor::is_needed(tensor, self.encode) {
            return self.tensor(&RowMajor::new(tensor).record());
        }
        self.add(tensor)
    }
}
