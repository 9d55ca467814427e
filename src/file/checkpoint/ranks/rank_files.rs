//! The files of ranks while they are written.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use super::kind::FolderKind;
use super::plan::RankPlan;
use crate::storage::{Durability, ProgressCount, allocate};

/// The files of all ranks. Not all of them are open at a time.
pub(super) struct RankFiles<'a, 'p> {
    folder: &'a Path,
    plan: &'a RankPlan,
    states: Vec<RankState>,
    /// The open ones, the oldest first.
    open: VecDeque<(usize, File)>,
    /// The most bytes that are gathered for one of them.
    most_gathered: usize,
    count: Option<&'a mut ProgressCount<'p>>,
}

/// The file of a rank.
#[derive(Default)]
struct RankState {
    is_created: bool,
    /// The offset of the gathered bytes.
    at: u64,
    gathered: Vec<u8>,
}

impl<'a, 'p> RankFiles<'a, 'p> {
    /// The most open files.
    const OPEN: usize = 256;

    /// The most memory for gathered bytes.
    const MEMORY: usize = 16 << 20;

    pub(super) fn new(folder: &'a Path, plan: &'a RankPlan, count: Option<&'a mut ProgressCount<'p>>) -> Self {
        let ranks = plan.file_bytes.len();
        let states = (0..ranks).map(|rank| RankState { at: plan.begin(rank).len() as u64, ..RankState::default() });
        let most_gathered = (Self::MEMORY / ranks).min(64 << 10);
        Self { folder, plan, states: states.collect(), open: VecDeque::new(), most_gathered, count }
    }

    /// Writes bytes at an offset. [`write`](Self::write) goes on after them.
    pub(super) fn write_at(&mut self, rank: usize, offset: u64, bytes: &[u8]) -> io::Result<()> {
        /// Items of archives follow each other with gaps of up to this length, which are filled with zeros.
        const GAP: usize = 64;

        let state = &mut self.states[rank];
        let end = state.at + state.gathered.len() as u64;
        match offset.checked_sub(end).and_then(|gap| usize::try_from(gap).ok()) {
            Some(0) => {}
            Some(gap @ ..=GAP) if self.plan.kind == FolderKind::Dcp => {
                state.gathered.resize(state.gathered.len() + gap, 0);
            }
            // Tensors of safetensors are sorted by dtype, so that there may be others in between.
            _ => {
                self.write_gathered(rank)?;
                self.states[rank].at = offset;
                self.file(rank)?.seek(SeekFrom::Start(offset))?;
            }
        }
        self.write(rank, bytes)
    }

    /// Writes the next bytes of a file.
    pub(super) fn write(&mut self, rank: usize, bytes: &[u8]) -> io::Result<()> {
        if let Some(count) = &mut self.count {
            count.add(bytes.len() as u64)?;
        }
        let state = &mut self.states[rank];
        if state.gathered.len() + bytes.len() <= self.most_gathered {
            state.gathered.extend_from_slice(bytes);
            return Ok(());
        }
        self.write_gathered(rank)?;
        self.file(rank)?.write_all(bytes)?;
        self.states[rank].at += bytes.len() as u64;
        Ok(())
    }

    fn write_gathered(&mut self, rank: usize) -> io::Result<()> {
        let mut gathered = std::mem::take(&mut self.states[rank].gathered);
        if !gathered.is_empty() {
            self.file(rank)?.write_all(&gathered)?;
            self.states[rank].at += gathered.len() as u64;
            gathered.clear();
        }
        self.states[rank].gathered = gathered;
        Ok(())
    }

    /// Returns the open file of a rank, where the next bytes belong.
    fn file(&mut self, rank: usize) -> io::Result<&mut File> {
        if let Some(at) = self.open.iter().position(|(open, _)| *open == rank) {
            return Ok(&mut self.open[at].1);
        }
        if self.open.len() == Self::OPEN {
            self.open.pop_front();
        }
        let path = self.folder.join(self.plan.kind.unfinished_file(rank));
        let state = &mut self.states[rank];
        let file = if state.is_created {
            let mut file = OpenOptions::new().write(true).open(path)?;
            file.seek(SeekFrom::Start(state.at))?;
            file
        } else {
            // A file of this name is of a killed process that was to write the same.
            let mut file = File::create(path)?;
            allocate(&file, self.plan.file_bytes[rank])?;
            let begin = self.plan.begin(rank);
            file.write_all(begin)?;
            if let Some(count) = &mut self.count {
                count.add(begin.len() as u64)?;
            }
            file.seek(SeekFrom::Start(state.at))?;
            state.is_created = true;
            file
        };
        self.open.push_back((rank, file));
        Ok(&mut self.open.back_mut().expect("it was pushed").1)
    }

    /// Writes what is gathered, and flushes all files. Those without a payload are created.
    pub(super) fn finish(&mut self, durability: Durability) -> io::Result<()> {
        for rank in self.plan.own_files() {
            self.write_gathered(rank)?;
            durability.flush(self.file(rank)?)?;
        }
        Ok(())
    }
}
