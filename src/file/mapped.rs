//! Files whose tensors are read in another layout.

use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashMap;

use super::File;
use crate::error::{Error, ErrorKind, Result};
use crate::fetch::{MoveCheck, MoveCheckKind, Moves, SharedBlocks, TensorMove};
use crate::map::{LayoutMap, MapPlan, MapSource, MappedElements, MappedTensor, Receipt, SourceCheckKind, SourceMoves};
use crate::quant::{Json, Quantized, Scheme, Verdict};
use crate::read::{Entry, Index};
use crate::storage::{FileStorage, JoinedFiles};
use crate::tensor::{Dtype, Layout, TensorInfo};

impl File {
    /// Returns what became of each element, if the file was opened with a [map](super::OpenOptions::map).
    ///
    /// ```
    /// use tensorfile::{LayoutMap, OpenOptions, TensorMap, safetensors};
    /// use ndarray::array;
    ///
    /// let map: LayoutMap = "{t:gate|up}.weight [i h] = gate_up.weight [(t i) h]".parse()?;
    /// let apart = TensorMap::from_iter([("gate.weight", array![[1.0_f32, 2.0]]), ("up.weight", array![[3.0, 4.0]])]);
    /// let file = OpenOptions::new().map(&map).from_bytes(safetensors::to_vec(&apart)?)?;
    /// let receipt = file.receipt().expect("the file is mapped");
    /// assert_eq!((receipt.source.elements, receipt.target.elements), (4, 4));
    /// # Ok::<(), tensorfile::Error>(())
    /// ```
    #[must_use]
    pub fn receipt(&self) -> Option<&Receipt> {
        self.receipt.as_deref()
    }

    /// Returns the file with its tensors in another layout. Nothing is read but the configuration, if the map asks for it.
    pub(super) fn mapped(&self, map: &LayoutMap) -> Result<Self> {
        map.check()?;
        let MapPlan { tensors, receipt } = self.map_plan(map).map_err(|error| self.place(error))?;
        let (quantized, stored) = (self.quantized()?, &self.index);
        let mut built = MappedStorage {
            joined: JoinedFiles::over(&self.storage).ok_or_else(too_long)?,
            storage: &self.storage,
            blocks: Arc::default(),
        };
        let (mut index, mut positions) = (Index::default(), vec![None; stored.len()]);
        for MappedTensor { name, info, elements } in tensors {
            match elements {
                MappedElements::Source(source) => {
                    let entry = stored.entry(source);
                    positions[source].get_or_insert(index.pushed());
                    index.push_named(&name, info, entry.range(), entry.any_codec().cloned())?;
                }
                MappedElements::Moves(moves) => {
                    let range = built.place(&info, moves, stored)?;
                    index.push_named(&name, info, range, None)?;
                }
            }
        }
        index.complete()?;
        // The dtype says what blocks of ggml are, under any name.
        let known =
            quantized.tensors().iter().any(|weight| weight.scheme() != Scheme::Ggml) || !quantized.unknown().is_empty();
        let recognized = known.then(|| {
            let mut left = quantized.moved(&|position| positions[position]);
            let pairs = positions.iter().enumerate().filter_map(|(old, new)| Some(((*new)?, old)));
            let old: HashMap<usize, &str> = pairs.map(|(new, old)| (new, stored.name(old))).collect();
            let new = |position: usize| index.name(position).to_owned();
            let is_own = |position: usize, name: &str| old.get(&position) == Some(&name);
            left.rename(&new, &|position, name| is_own(position, name).then(|| new(position)));
            left
        });
        let file = self.with_tensors(built.joined, index, recognized);
        Ok(Self { receipt: Some(Arc::new(receipt)), ..file })
    }

    fn map_plan(&self, map: &LayoutMap) -> Result<MapPlan> {
        let quantized = self.quantized()?;
        let source = |i: usize| {
            let (name, entry) = (self.index.name(i), self.index.entry(i));
            MapSource { name, info: entry.info(), refusal: refusal(&entry, quantized, i) }
        };
        let sources: Vec<MapSource<'_>> = (0..self.len()).map(source).collect();
        let config = if map.uses_config() { self.config_json() } else { Ok(None) };
        let mut number = |keys: &[String]| config_number(config.as_ref().map_err(Clone::clone)?.as_ref(), keys);
        MapPlan::new(map, &sources, &mut number, self.limits.tensors)
    }
}

/// Returns a number of a configuration.
fn config_number(config: Option<&Json>, keys: &[String]) -> Result<Option<u64>, String> {
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let Some(found) = config.and_then(|config| config.get(&keys)).filter(|found| !found.is_null()) else {
        return Ok(None);
    };
    let number = found.number(&[]).and_then(|number| u64::try_from(number).ok());
    number.map(Some).ok_or_else(|| format!("`config.{}` is not a whole number", keys.join(".")))
}

/// Returns why the elements of a tensor cannot be moved, and what to do instead.
fn refusal(entry: &Entry<'_>, quantized: &Quantized, position: usize) -> Option<[String; 2]> {
    let in_memory = "load the tensors, and map them in memory with `view::Mapped`";
    let is_any_bool = entry.info().dtype == Dtype::Bool && entry.takes_any_bool();
    let what = match &entry.info().layout {
        Layout::Coo { .. } => "it is sparse",
        Layout::Unknown(_) => "its dtype is unknown",
        Layout::Blob => "it is a blob",
        _ if entry.is_compressed() => "it is compressed",
        _ if entry.is_big_endian() => "it is big-endian",
        _ if entry.has_codec() || is_any_bool => "its elements are decoded one by one",
        _ => "",
    };
    if !what.is_empty() {
        return Some([what.to_owned(), in_memory.to_owned()]);
    }
    match quantized.verdict(position) {
        Verdict::Part(weight, _) if weight.parts().len() > 1 => {
            let other = weight.parts().iter().find(|part| part.position() != position)?;
            let what =
                format!("it is a part of the {} weight `{}`, as `{}` is", weight.scheme(), weight.name(), other.name());
            Some([what, "`OpenOptions::dequantize` decodes the weights before they are mapped".to_owned()])
        }
        Verdict::Unknown(unknown) => {
            let what = format!("it may belong to codes, but {}", unknown.reason());
            Some([what, "it can be kept, or get another name".to_owned()])
        }
        _ => None,
    }
}

/// The storage of a file, with gathered tensors.
struct MappedStorage<'f> {
    joined: JoinedFiles,
    storage: &'f FileStorage,
    blocks: Arc<SharedBlocks>,
}

impl MappedStorage<'_> {
    /// Returns the range of a tensor: a part of a source, or of gathered bytes.
    fn place(&mut self, info: &TensorInfo, moves: SourceMoves, stored: &Index) -> Result<Range<u64>> {
        let bytes = info.payload_bytes().ok_or_else(too_long)? as u64;
        let SourceMoves { moves, is_padded, checks } = moves;
        let (element, block) = (info.dtype.block_bytes(), info.dtype.block_elements());
        let mut dims = info.shape.dims().to_vec();
        dims.last_mut().into_iter().for_each(|last| *last /= block);
        let shape: crate::tensor::Shape = dims.into();
        let strides = shape.row_major_strides();
        let placed = |(source, moved): &(usize, TensorMove)| {
            let start = stored.entry(*source).start().saturating_add(moved.start);
            TensorMove { start, ..moved.clone() }
        };
        let moves: Vec<TensorMove> = moves.iter().map(placed).collect();
        match &moves[..] {
            [] if !is_padded => return Ok(0..0),
            [run]
                if !is_padded
                    && checks.is_empty()
                    && run.is_run(&strides)
                    && Some(run.elements()) == shape.elements()
                    && self.storage.gathered(run.start).is_none() =>
            {
                return Ok(run.start..run.start + bytes);
            }
            _ => {}
        }
        let check = |check: crate::map::SourceCheck| {
            let kind = match check.kind {
                SourceCheckKind::Zeros { start, axes } => {
                    MoveCheckKind::Zeros { start: stored.entry(check.source).start().saturating_add(start), axes }
                }
                SourceCheckKind::Equals(other) => {
                    MoveCheckKind::Equal([stored.entry(other).range(), stored.entry(check.source).range()])
                }
            };
            MoveCheck { at: check.at, kind, name: stored.name(check.source).to_owned(), line: check.line }
        };
        let checks = checks.into_iter().map(check).collect();
        let moves = Moves::new(element, shape, moves, bytes).with(is_padded, checks, &self.blocks);
        let start = self.joined.gather(Box::new(moves)).ok_or_else(too_long)?;
        Ok(start..start + bytes)
    }
}

fn too_long() -> Error {
    let (what, instead) = ("map tensors that take more bytes than can be addressed", "map some of them");
    ErrorKind::Unsupported { what: what.to_owned(), instead: instead.to_owned() }.into()
}
