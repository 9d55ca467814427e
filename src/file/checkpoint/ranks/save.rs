//! Writes the files of all ranks in one pass over the tensors, and then the metadata.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use flate2::Crc;
use hashbrown::HashSet;

use super::plan::{Division, RankPlan};
use crate::error::Result;
use crate::file::checkpoint::directory::{METADATA, UNFINISHED_METADATA as UNFINISHED, file_names};
use crate::format::pytorch::write_dcp::{item_frame, rank_file};
use crate::model::{TensorData, Tensors};
use crate::storage::{Durability, Listener, ProgressCount, Turn, allocate};
use crate::tensor::TensorInfo;
use crate::write::zip::CACHED;
use crate::write::{FileWriter, Output};

/// Saves tensors to a new folder. If that fails, nothing of it is left.
pub(in crate::file) fn save(
    folder: &Path,
    plan: &RankPlan,
    tensors: &dyn Tensors,
    durability: Durability,
    progress: Option<&Listener>,
) -> Result<()> {
    let mut new = NewFolder { folder, plan, created: Vec::new(), is_begun: false, is_finished: false };
    new.create_parents()?;
    let _turn = Turn::wait(folder)?;
    new.begin()?;
    let mut count = progress.map(|listener| listener.count(plan.total_bytes()));
    let mut files = RankWriters::new(folder, plan, count.as_mut());
    plan.all.write_with(tensors, Box::new(RankWriter { plan, files: &mut files }))?;
    for (object, item) in plan.stored_objects() {
        files.write_at(item.rank, item.offset, object)?;
    }
    files.finish(durability)?;
    count.map_or(Ok(()), ProgressCount::finish)?;
    new.finish(durability)?;
    Ok(())
}

/// A folder under construction. Dropping it before it is finished removes what was made.
struct NewFolder<'a> {
    folder: &'a Path,
    plan: &'a RankPlan,
    /// The folders that were made, the outermost first.
    created: Vec<PathBuf>,
    is_begun: bool,
    is_finished: bool,
}

impl NewFolder<'_> {
    fn create_parents(&mut self) -> io::Result<()> {
        let parents = self.folder.ancestors().skip(1).take_while(|parent| !parent.as_os_str().is_empty());
        let missing: Vec<&Path> = parents.take_while(|parent| !parent.exists()).collect();
        missing.into_iter().rev().try_for_each(|parent| self.create(parent).map(drop))
    }

    /// Creates a folder. Returns whether it is new.
    fn create(&mut self, folder: &Path) -> io::Result<bool> {
        match fs::create_dir(folder) {
            Ok(()) => {
                self.created.push(folder.to_owned());
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Creates the folder, or takes one that is empty, or that a killed process left with the same metadata.
    fn begin(&mut self) -> Result<()> {
        if !self.create(self.folder)? {
            check_left(self.folder, self.plan)?;
        }
        self.is_begun = true;
        Ok(fs::write(self.folder.join(UNFINISHED), &self.plan.metadata)?)
    }

    /// Gives the metadata its name.
    fn finish(&mut self, durability: Durability) -> io::Result<()> {
        let [unfinished, metadata] = [UNFINISHED, METADATA].map(|name| self.folder.join(name));
        let file = OpenOptions::new().write(true).open(&unfinished)?;
        durability.flush(&file)?;
        // The metadata must not reach the disk before the names of the files.
        durability.flush_folder(&metadata)?;
        fs::rename(unfinished, &metadata)?;
        self.is_finished = true;
        durability.flush_folder(&metadata)?;
        durability.flush_folder(self.folder)
    }
}

impl Drop for NewFolder<'_> {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        // The error of saving matters more than one of these.
        if self.is_begun {
            for rank in (0..self.plan.file_bytes.len()).filter(|rank| self.plan.file_bytes[*rank] > 0) {
                let _ = fs::remove_file(self.folder.join(rank_file(rank)));
            }
            let _ = fs::remove_file(self.folder.join(UNFINISHED));
        }
        self.created.iter().rev().for_each(|folder| drop(fs::remove_dir(folder)));
    }
}

/// Refuses a folder that is neither empty nor left by a killed process that was to write the same.
fn check_left(folder: &Path, plan: &RankPlan) -> Result<()> {
    let refuse = |name: &Path, why: &str| -> Result<()> {
        let message = format!("is a folder with `{}`{why}; save to a new folder, or empty it", name.display());
        Err(io::Error::new(io::ErrorKind::AlreadyExists, message).into())
    };
    let names = file_names(folder)?;
    let Some(first) = names.first() else { return Ok(()) };
    let unfinished = Path::new(UNFINISHED);
    if names.iter().all(|name| name != unfinished) {
        return refuse(first, "");
    }
    let own: HashSet<PathBuf> = (0..plan.file_bytes.len()).map(|rank| rank_file(rank).into()).collect();
    let is_own = |name: &&PathBuf| **name == *unfinished || own.contains(*name);
    if let Some(other) = names.iter().find(|name| !is_own(name)) {
        return refuse(other, "");
    }
    if fs::read(folder.join(UNFINISHED))? != plan.metadata {
        return refuse(unfinished, ", which a save with other arguments left");
    }
    Ok(())
}

/// The files of all ranks. Not all of them are open at a time.
struct RankWriters<'a, 'p> {
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
    /// The number of bytes written.
    written: u64,
    /// The bytes after them.
    gathered: Vec<u8>,
}

impl<'a, 'p> RankWriters<'a, 'p> {
    /// The most open files.
    const OPEN: usize = 256;

    /// The most memory for gathered bytes.
    const MEMORY: usize = 16 << 20;

    fn new(folder: &'a Path, plan: &'a RankPlan, count: Option<&'a mut ProgressCount<'p>>) -> Self {
        let ranks = plan.file_bytes.len();
        let states = (0..ranks).map(|_| RankState::default()).collect();
        let most_gathered = (Self::MEMORY / ranks).min(64 << 10);
        Self { folder, plan, states, open: VecDeque::new(), most_gathered, count }
    }

    /// Writes the next bytes of a file, at an offset that is not before the end.
    fn write_at(&mut self, rank: usize, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let state = &mut self.states[rank];
        let end = state.written + state.gathered.len() as u64;
        let gap = usize::try_from(offset - end).expect("items are close to each other");
        state.gathered.resize(state.gathered.len() + gap, 0);
        self.write(rank, bytes)
    }

    /// Writes the next bytes of a file.
    fn write(&mut self, rank: usize, bytes: &[u8]) -> io::Result<()> {
        if let Some(count) = &mut self.count {
            count.add(bytes.len() as u64)?;
        }
        let state = &mut self.states[rank];
        if state.gathered.len() + bytes.len() <= self.most_gathered {
            state.gathered.extend_from_slice(bytes);
            return Ok(());
        }
        let gathered = std::mem::take(&mut state.gathered);
        let file = self.file(rank)?;
        file.write_all(&gathered)?;
        file.write_all(bytes)?;
        let state = &mut self.states[rank];
        state.written += (gathered.len() + bytes.len()) as u64;
        state.gathered = gathered;
        state.gathered.clear();
        Ok(())
    }

    /// Returns the open file of a rank, at its end.
    fn file(&mut self, rank: usize) -> io::Result<&mut File> {
        if let Some(at) = self.open.iter().position(|(open, _)| *open == rank) {
            return Ok(&mut self.open[at].1);
        }
        if self.open.len() == Self::OPEN {
            self.open.pop_front();
        }
        let path = self.folder.join(rank_file(rank));
        let state = &mut self.states[rank];
        let file = if state.is_created {
            let mut file = OpenOptions::new().write(true).open(path)?;
            file.seek(SeekFrom::Start(state.written))?;
            file
        } else {
            // A file of this name is of a killed process that was to write the same.
            let file = File::create(path)?;
            allocate(&file, self.plan.file_bytes[rank])?;
            state.is_created = true;
            file
        };
        self.open.push_back((rank, file));
        Ok(&mut self.open.back_mut().expect("it was pushed").1)
    }

    /// Writes what is gathered, and flushes all files.
    fn finish(&mut self, durability: Durability) -> io::Result<()> {
        for rank in 0..self.states.len() {
            let gathered = std::mem::take(&mut self.states[rank].gathered);
            if !gathered.is_empty() {
                self.file(rank)?.write_all(&gathered)?;
                self.states[rank].written += gathered.len() as u64;
            }
            if self.states[rank].is_created {
                durability.flush(self.file(rank)?)?;
            }
        }
        Ok(())
    }
}

/// Divides each tensor among the files.
struct RankWriter<'a, 'f, 'p> {
    plan: &'a RankPlan,
    files: &'f mut RankWriters<'a, 'p>,
}

impl<'w> FileWriter<'w> for RankWriter<'_, '_, '_> {
    fn tensor(&mut self, index: usize, data: &dyn TensorData) -> Result<()> {
        let (division, info) = (self.plan.division(index), self.plan.all.info(index));
        let chunks = (0..division.count).map(|number| OpenChunk::new(self.plan, division, info, number)).collect();
        let mut splitter = Splitter { chunks, current: 0, left: 0, files: self.files };
        splitter.begin_run();
        data.copy_to(&mut splitter)?;
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
}

impl OpenChunk {
    fn new(plan: &RankPlan, division: Division, whole: &TensorInfo, number: usize) -> Self {
        let (_, info) = division.chunk(whole, number);
        let left = info.payload_bytes().unwrap_or_default();
        let outer: usize = info.shape.dims().iter().take(division.dim).product();
        let run = if division.count == 1 { left } else { left / outer };
        let (rank, offset) = (division.rank + number, plan.offset(division, number));
        Self { rank, offset, info, run, left, crc: Crc::new(), has_begun: false }
    }
}

/// Passes on the bytes of a tensor to the chunks that have them.
struct Splitter<'s, 'a, 'p> {
    chunks: Vec<OpenChunk>,
    /// The number of the chunk of the next bytes, and how many of them it takes.
    current: usize,
    left: usize,
    files: &'s mut RankWriters<'a, 'p>,
}

impl Splitter<'_, '_, '_> {
    fn begin_run(&mut self) {
        self.left = self.chunks[self.current].run;
    }

    /// Writes the end of a chunk.
    fn end(&mut self, number: usize) -> Result<()> {
        let chunk = &self.chunks[number];
        let frame = item_frame(&chunk.info, chunk.crc.sum())?;
        if !chunk.has_begun {
            self.files.write_at(chunk.rank, chunk.offset, &frame.before)?;
        }
        Ok(self.files.write(chunk.rank, &frame.after)?)
    }

    /// Ends the chunks without bytes.
    fn finish(&mut self) -> Result<()> {
        let is_empty = |chunk: &OpenChunk| !chunk.has_begun;
        let empty: Vec<usize> = (0..self.chunks.len()).filter(|number| is_empty(&self.chunks[*number])).collect();
        empty.into_iter().try_for_each(|number| self.end(number))
    }
}

impl Write for Splitter<'_, '_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let now = bytes.len().min(self.left).min(CACHED);
        let (bytes, number) = (&bytes[..now], self.current);
        let chunk = &mut self.chunks[number];
        if !chunk.has_begun && now > 0 {
            chunk.has_begun = true;
            let frame = item_frame(&chunk.info, 0).map_err(io::Error::other)?;
            self.files.write_at(chunk.rank, chunk.offset, &frame.before)?;
        }
        let chunk = &mut self.chunks[number];
        chunk.crc.update(bytes);
        chunk.left -= now;
        self.left -= now;
        self.files.write(chunk.rank, bytes)?;
        if self.chunks[number].left == 0 && now > 0 {
            self.end(number).map_err(io::Error::other)?;
        }
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
