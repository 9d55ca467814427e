//! Decides which rank has which part of each tensor, and where.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use hashbrown::HashMap;

use super::kind::FolderKind;
use super::shards::{ShardLayout, lay_out};
use crate::error::{Error, ErrorKind, Result, cannot_store};
use crate::file::RankFolder;
use crate::format::pytorch::write_dcp::{WrittenChunk, WrittenFolder, WrittenItem, check_name, item_frame, metadata};
use crate::model::{PathPart, SavedValues};
use crate::tensor::TensorInfo;
use crate::write::Plan;

/// Items begin at multiples of this in their file, and their payloads in them, so that readers can borrow them.
const ALIGNMENT: u64 = 64;

/// The most ranks, and the most chunks of all tensors.
const MOST_RANKS: usize = 1 << 16;
const MOST_CHUNKS: usize = 1 << 24;

/// The plan of a folder with the files of several ranks.
#[derive(Debug)]
pub(in crate::file) struct RankPlan {
    /// All tensors, without a layout.
    pub(super) all: Plan,
    pub(super) kind: FolderKind,
    ranks: RankFolder,
    /// For each tensor.
    divisions: Vec<Division>,
    /// The offsets of all chunks in the files of their ranks, tensor by tensor.
    offsets: Vec<u64>,
    /// The lengths of the files.
    pub(super) file_bytes: Vec<u64>,
    /// The bytes of the files before their first payloads, if there are any.
    begins: Vec<Vec<u8>>,
    objects: Vec<WrittenItem>,
    saved: SavedValues,
    /// The metadata of the folder; of a folder that has none, a summary of its files. It tells whether two saves are
    /// the same.
    pub(super) metadata: Vec<u8>,
}

/// The chunks of a tensor along a dim.
#[derive(Debug, Clone, Copy)]
pub(super) struct Division {
    pub(super) dim: usize,
    /// The length of all chunks but the last one.
    rows: usize,
    pub(super) count: usize,
    /// The rank of the first chunk. The others are of the next ranks.
    pub(super) rank: usize,
    /// The number of chunks of all tensors before.
    first: usize,
    /// The lengths of the items of the first chunk and of the last one. All but the last are alike.
    item_bytes: [u64; 2],
}

impl Division {
    fn whole(first: usize) -> Self {
        Self { dim: 0, rows: 0, count: 1, rank: 0, first, item_bytes: [0; 2] }
    }

    /// Divides a tensor as `Shard(dim)` of PyTorch does.
    fn of(info: &TensorInfo, name: &str, ranks: &RankFolder, first: usize) -> Result<Self> {
        let bytes = info.payload_bytes().unwrap_or_default();
        if info.shape.rank() == 0 || bytes == 0 || (bytes as u64) < ranks.whole_below || ranks.count() == 1 {
            return Ok(Self::whole(first));
        }
        let dim = ranks.dim_of(name);
        let Some(len) = info.shape.get(dim) else {
            let what = format!("cut {info} along dim {dim}");
            return Err(ErrorKind::Unsupported { what, instead: format!("it has {} dims", info.shape.rank()) }.into());
        };
        // Elements that share a byte stay together.
        let packed = if dim + 1 == info.shape.rank() { info.dtype.block_elements() } else { 1 };
        let rows = (len / packed).div_ceil(ranks.count()) * packed;
        Ok(Self { dim, rows, count: len.div_ceil(rows), ..Self::whole(first) })
    }

    fn item_bytes(&self, number: usize) -> u64 {
        self.item_bytes[usize::from(number + 1 == self.count)]
    }

    /// Returns a chunk: its first element along the dim, and its info.
    pub(super) fn chunk(&self, info: &TensorInfo, number: usize) -> (usize, TensorInfo) {
        if self.count == 1 {
            return (0, TensorInfo::new(info.dtype, info.shape.clone()));
        }
        let start = number * self.rows;
        let mut dims = info.shape.dims().to_vec();
        dims[self.dim] = self.rows.min(dims[self.dim] - start);
        (start, TensorInfo::new(info.dtype, dims))
    }
}

impl RankPlan {
    /// Plans a folder, given all tensors without a layout.
    pub(in crate::file) fn new(kind: FolderKind, all: Plan, ranks: RankFolder, saved: SavedValues) -> Result<Self> {
        check_count(&ranks)?;
        let mut divisions = Vec::with_capacity(all.len());
        let mut chunks = 0_usize;
        for i in 0..all.len() {
            let division = Division::of(all.info(i), all.name(i), &ranks, chunks);
            let division = division.map_err(|error| error.in_tensor(all.name(i)))?;
            if all.name(i).is_empty() {
                let refused = cannot_store("a tensor without a name", "a state dict has names");
                return Err(Error::new(refused).in_tensor(all.name(i)));
            }
            chunks += division.count;
            divisions.push(division);
        }
        if chunks > MOST_CHUNKS {
            return Err(
                ErrorKind::Limit { what: "number of chunks", found: chunks as u64, limit: MOST_CHUNKS as u64 }.into()
            );
        }
        let used = divisions.iter().map(|division| division.count).max().unwrap_or(0).max(chunks.min(ranks.count()));
        if ranks.whole_below > 0 && used < ranks.count() && divisions.iter().all(|division| division.count == 1) {
            let what = format!("divide {chunks} whole tensors among {} ranks", ranks.count());
            let instead = format!("all have fewer than {} bytes; take fewer ranks", ranks.whole_below);
            return Err(ErrorKind::Unsupported { what, instead }.into());
        }
        let mut plan = Self {
            all,
            kind,
            file_bytes: vec![0; ranks.count()],
            begins: Vec::new(),
            ranks,
            divisions,
            offsets: Vec::with_capacity(chunks),
            objects: Vec::new(),
            saved,
            metadata: Vec::new(),
        };
        plan.place_whole();
        match kind {
            FolderKind::Dcp => {
                for i in 0..plan.all.len() {
                    check_name(&plan.name(i).0).map_err(|error| Error::new(error).in_tensor(plan.all.name(i)))?;
                }
                plan.place()?;
                plan.metadata = metadata(&plan, plan.ranks.count());
            }
            FolderKind::Shards => {
                plan.offsets = vec![0; chunks];
                let layout = lay_out(&plan, plan.ranks.count(), plan.all.encode())?;
                let metadata = layout.summary();
                let ShardLayout { begins, file_bytes, offsets } = layout;
                plan = Self { begins, file_bytes, offsets, metadata, ..plan };
            }
        }
        Ok(plan)
    }

    /// Gives tensors in one chunk to the ranks with the fewest bytes.
    fn place_whole(&mut self) {
        let mut bytes = vec![0; self.ranks.count()];
        for (i, division) in self.divisions.iter().enumerate().filter(|(_, division)| division.count > 1) {
            for (number, bytes) in bytes.iter_mut().enumerate().take(division.count) {
                let (_, info) = division.chunk(self.all.info(i), number);
                *bytes += info.payload_bytes().unwrap_or_default() as u64;
            }
        }
        let mut heap: BinaryHeap<_> = bytes.into_iter().zip(0..).map(Reverse).collect();
        for (i, division) in self.divisions.iter_mut().enumerate().filter(|(_, division)| division.count == 1) {
            let Some(Reverse((bytes, rank))) = heap.pop() else { return };
            division.rank = rank;
            heap.push(Reverse((bytes + self.all.payload_bytes(i) as u64, rank)));
        }
    }

    /// Lays out the items in the files.
    fn place(&mut self) -> Result<()> {
        let mut known: HashMap<TensorInfo, u64> = HashMap::new();
        for (i, division) in self.divisions.iter_mut().enumerate() {
            for (end, number) in [0, division.count - 1].into_iter().enumerate() {
                let (_, info) = division.chunk(self.all.info(i), number);
                division.item_bytes[end] = match known.get(&info) {
                    Some(bytes) => *bytes,
                    None => {
                        let bytes = measured(&info).map_err(|error| error.in_tensor(self.all.name(i)))?;
                        *known.entry(info).insert(bytes).get()
                    }
                };
            }
            for number in 0..division.count {
                let end = &mut self.file_bytes[division.rank + number];
                let offset = end.next_multiple_of(ALIGNMENT);
                *end = offset + division.item_bytes(number);
                self.offsets.push(offset);
            }
        }
        for bytes in self.saved.objects.values() {
            let end = &mut self.file_bytes[0];
            let offset = end.next_multiple_of(ALIGNMENT);
            *end = offset + bytes.len() as u64;
            self.objects.push(WrittenItem { rank: 0, offset, bytes: bytes.len() as u64 });
        }
        Ok(())
    }

    pub(super) fn division(&self, tensor: usize) -> Division {
        self.divisions[tensor]
    }

    /// Returns the place of a chunk.
    pub(super) fn offset(&self, division: Division, number: usize) -> u64 {
        self.offsets[division.first + number]
    }

    /// Returns the bytes of a file before its first payload.
    pub(super) fn begin(&self, rank: usize) -> &[u8] {
        self.begins.get(rank).map_or(&[], Vec::as_slice)
    }

    /// Returns the number of the job that saves its ranks, and the number of all jobs, if there are several.
    pub(super) fn job(&self) -> Option<(usize, usize)> {
        self.ranks.own_job()
    }

    /// Returns the ranks with a file to write.
    pub(super) fn own_files(&self) -> impl Iterator<Item = usize> {
        self.ranks.own_ranks().filter(|rank| self.file_bytes[*rank] > 0)
    }

    /// Returns the paths of the files to write, before the folder is complete.
    pub(in crate::file) fn own_paths(&self, folder: &Path) -> Vec<PathBuf> {
        self.own_files().map(|rank| folder.join(self.kind.unfinished_file(rank))).collect()
    }

    /// Returns the numbers of the chunks to write.
    pub(super) fn own_chunks(&self, division: Division) -> Range<usize> {
        let ranks = self.ranks.own_ranks();
        let number = |rank: usize| rank.saturating_sub(division.rank).min(division.count);
        number(ranks.start)..number(ranks.end)
    }

    /// Returns the values to write that are not tensors, with their places.
    pub(super) fn own_objects(&self) -> impl Iterator<Item = (&[u8], WrittenItem)> {
        let stored = self.saved.objects.values().map(Vec::as_slice).zip(self.objects.iter().copied());
        stored.filter(|(_, item)| self.ranks.own_ranks().contains(&item.rank))
    }

    /// Returns the number of files to write, without the metadata.
    pub(in crate::file) fn files(&self) -> usize {
        self.own_files().count()
    }

    /// Returns the size of all files to write in bytes.
    pub(in crate::file) fn total_bytes(&self) -> u64 {
        let metadata = if self.kind == FolderKind::Dcp { self.metadata.len() as u64 } else { 0 };
        self.own_files().fold(metadata, |sum, rank| sum.saturating_add(self.file_bytes[rank]))
    }
}

impl WrittenFolder for RankPlan {
    fn tensors(&self) -> usize {
        self.all.len()
    }

    fn info(&self, tensor: usize) -> &TensorInfo {
        self.all.info(tensor)
    }

    fn chunks(&self, tensor: usize, take: &mut dyn FnMut(&WrittenChunk)) {
        let division = self.division(tensor);
        for number in 0..division.count {
            let (start, info) = division.chunk(self.all.info(tensor), number);
            let mut offsets = vec![0; info.shape.rank()];
            if let Some(offset) = offsets.get_mut(division.dim) {
                *offset = start;
            }
            let (offset, bytes) = (self.offset(division, number), division.item_bytes(number));
            let item = WrittenItem { rank: division.rank + number, offset, bytes };
            take(&WrittenChunk { offsets, info, item });
        }
    }

    fn objects(&self) -> &[WrittenItem] {
        &self.objects
    }

    fn name(&self, i: usize) -> (String, Vec<PathPart>) {
        let name = match i.checked_sub(self.all.len()) {
            None => self.all.name(i),
            Some(object) => self.saved.objects.get_index(object).map_or("", |(name, _)| name.as_str()),
        };
        let own = self.saved.paths.get(name);
        let mut path = own.cloned().unwrap_or_else(|| vec![PathPart::Key(name.to_owned())]);
        let Some(prefix) = &self.ranks.prefix else { return (name.to_owned(), path) };
        path.insert(0, PathPart::Key(prefix.clone()));
        (format!("{prefix}.{name}"), path)
    }
}

fn check_count(folder: &RankFolder) -> Result<()> {
    let ranks = folder.count();
    match folder.own_job() {
        Some((number, of)) if number == 0 || number > of || of > ranks => {
            let instead = format!("jobs are numbered from 1, and {ranks} ranks are enough for {ranks} jobs");
            return Err(
                ErrorKind::Unsupported { what: format!("save the ranks of job {number} of {of}"), instead }.into()
            );
        }
        _ => {}
    }
    match ranks {
        0 => {
            let (what, instead) = ("save for 0 ranks".to_owned(), "expected 1 or more".to_owned());
            Err(ErrorKind::Unsupported { what, instead }.into())
        }
        1..=MOST_RANKS => Ok(()),
        _ => Err(ErrorKind::Limit { what: "number of ranks", found: ranks as u64, limit: MOST_RANKS as u64 }.into()),
    }
}

/// Returns the length of the item of a tensor.
fn measured(info: &TensorInfo) -> Result<u64> {
    let frame = item_frame(info, 0)?;
    Ok((frame.before.len() + frame.after.len() + info.payload_bytes().unwrap_or_default()) as u64)
}
