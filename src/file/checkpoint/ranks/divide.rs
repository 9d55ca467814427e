//! Divides tensors among the files of ranks, as their bytes pass.

use std::io::{self, Write};
use std::ops::Range;

use flate2::Crc;

use super::kind::FolderKind;
use super::plan::{Division, RankPlan};
use super::rank_files::RankFiles;
use crate::error::Result;
use crate::format::pytorch::write_dcp::{ItemFrame, item_frame};
use crate::model::TensorData;
use crate::tensor::TensorInfo;
use crate::write::zip::CACHED;
use crate::write::{FileWriter, Output};

/// Divides each tensor among the files.
pub(super) struct RankWriter<'a, 'f, 'p> {
    pub(super) plan: &'a RankPlan,
    pub(super) files: &'f mut RankFiles<'a, 'p>,
}

impl<'w> FileWriter<'w> for RankWriter<'_, '_, '_> {
    fn tensor(&mut self, index: usize, data: &dyn TensorData) -> Result<()> {
        let (division, info) = (self.plan.division(index), self.plan.all.info(index));
        let own = self.plan.own_chunks(division);
        if own.is_empty() {
            return Ok(());
        }
        let chunk = |number| OpenChunk::new(self.plan, division, info, number, own.contains(&number));
        let chunks: Vec<OpenChunk> = (0..division.count).map(chunk).collect();
        let is_in_runs = chunks.iter().any(|chunk| chunk.run < chunk.left);
        let (kind, files) = (self.plan.kind, &mut *self.files);
        let mut splitter = Splitter { kind, chunks, current: 0, left: 0, files };
        if is_in_runs || own.len() == division.count {
            splitter.begin_run();
            data.copy_to(&mut splitter)?;
        } else {
            let range = splitter.begin_at(&own);
            data.copy_range_to(range, &mut splitter)?;
        }
        splitter.finish()
    }

    fn finish(self: Box<Self>) -> Result<Output<'w>> {
        Ok(Output::memory(Vec::new()))
    }
}

/// A chunk that is being written.
struct OpenChunk {
    rank: usize,
    offset: u64,
    info: TensorInfo,
    /// The length of its part of a row-major tensor that is in one piece.
    run: usize,
    left: usize,
    crc: Crc,
    has_begun: bool,
    /// Others are of another job.
    is_own: bool,
}

impl OpenChunk {
    fn new(plan: &RankPlan, division: Division, whole: &TensorInfo, number: usize, is_own: bool) -> Self {
        let (_, info) = division.chunk(whole, number);
        let left = info.payload_bytes().unwrap_or_default();
        let outer: usize = info.shape.dims().iter().take(division.dim).product();
        let run = if division.count == 1 { left } else { left / outer };
        let (rank, offset) = (division.rank + number, plan.offset(division, number));
        Self { rank, offset, info, run, left, crc: Crc::new(), has_begun: false, is_own }
    }
}

/// Passes on the bytes of a tensor to the chunks that have them.
struct Splitter<'s, 'a, 'p> {
    kind: FolderKind,
    chunks: Vec<OpenChunk>,
    /// The number of the chunk of the next bytes, and how many of them it takes.
    current: usize,
    left: usize,
    files: &'s mut RankFiles<'a, 'p>,
}

impl Splitter<'_, '_, '_> {
    fn begin_run(&mut self) {
        self.left = self.chunks[self.current].run;
    }

    /// Begins with the first of some chunks that are in one piece. Returns their place in the tensor.
    fn begin_at(&mut self, own: &Range<usize>) -> Range<u64> {
        self.current = own.start;
        self.begin_run();
        let bytes = |chunks: &[OpenChunk]| chunks.iter().map(|chunk| chunk.run as u64).sum::<u64>();
        let start = bytes(&self.chunks[..own.start]);
        start..start + bytes(&self.chunks[own.clone()])
    }

    /// Returns the bytes around the payload of a chunk.
    fn frame(&self, number: usize) -> Result<ItemFrame> {
        let chunk = &self.chunks[number];
        match self.kind {
            FolderKind::Dcp => item_frame(&chunk.info, chunk.crc.sum()),
            FolderKind::Shards => Ok(ItemFrame { before: Vec::new(), after: Vec::new() }),
        }
    }

    fn begin(&mut self, number: usize) -> Result<()> {
        let before = self.frame(number)?.before;
        let chunk = &mut self.chunks[number];
        chunk.has_begun = true;
        Ok(self.files.write_at(chunk.rank, chunk.offset, &before)?)
    }

    /// Writes the end of a chunk.
    fn end(&mut self, number: usize) -> Result<()> {
        let after = self.frame(number)?.after;
        Ok(self.files.write(self.chunks[number].rank, &after)?)
    }

    /// Writes the chunks without bytes.
    fn finish(&mut self) -> Result<()> {
        for number in 0..self.chunks.len() {
            if self.chunks[number].is_own && !self.chunks[number].has_begun {
                self.begin(number)?;
                self.end(number)?;
            }
        }
        Ok(())
    }

    /// Writes the next bytes of a chunk.
    fn write_chunk(&mut self, number: usize, bytes: &[u8]) -> Result<()> {
        if !self.chunks[number].has_begun {
            self.begin(number)?;
        }
        let chunk = &mut self.chunks[number];
        if self.kind == FolderKind::Dcp {
            chunk.crc.update(bytes);
        }
        chunk.left -= bytes.len();
        let is_last = chunk.left == 0;
        self.files.write(chunk.rank, bytes)?;
        if is_last { self.end(number) } else { Ok(()) }
    }
}

impl Write for Splitter<'_, '_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let now = bytes.len().min(self.left).min(CACHED);
        let number = self.current;
        if now > 0 && self.chunks[number].is_own {
            self.write_chunk(number, &bytes[..now]).map_err(io::Error::from)?;
        }
        self.left -= now;
        if self.left == 0 {
            self.current = (number + 1) % self.chunks.len();
            self.begin_run();
        }
        Ok(now)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
