//! Reads dense tensors on a thread that stays a few pieces ahead, or one by one without threads.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, Scope};

use tensorfile::file::FileTensor;
use tensorfile::{Error, ErrorKind};

use crate::exit::{At, Outcome};
use crate::pieces::Pieces;

/// The length of a chunk in bytes. It may hold many small tensors.
const CHUNK: usize = 1 << 20;

/// The number of chunks to read ahead.
const AHEAD: usize = 2;

/// The elements of tensors in sequence, in row-major order.
pub struct ElementStream<'f> {
    chunks: Chunks<'f>,
    chunk: Vec<u8>,
    /// The number of bytes of `chunk` already returned.
    done: usize,
    /// A piece spanning several chunks.
    joined: Vec<u8>,
}

/// The place where chunks come from.
enum Chunks<'f> {
    /// A thread.
    Ahead(Receiver<Outcome<Vec<u8>>>),
    /// The tensors from a position on, each as a chunk.
    OneByOne { path: &'f Path, tensors: Arc<Vec<FileTensor<'f>>>, next: usize },
}

impl Chunks<'_> {
    /// Returns the next chunk; `None` at the end.
    fn next(&mut self) -> Option<Outcome<Vec<u8>>> {
        match self {
            Self::Ahead(chunks) => chunks.recv().ok(),
            Self::OneByOne { path, tensors, next } => {
                let tensor = tensors.get(*next)?;
                *next += 1;
                let mut bytes = Vec::new();
                let written = tensor.write_row_major_to(&mut bytes);
                Some(written.map(|()| bytes).map_err(Error::from).at(path))
            }
        }
    }
}

impl ElementStream<'_> {
    /// Returns the next bytes, fewer than `len` only at the end.
    pub fn next(&mut self, len: usize) -> Outcome<&[u8]> {
        let start = self.done;
        if self.chunk.len() - start >= len {
            self.done += len;
            return Ok(&self.chunk[start..self.done]);
        }
        self.joined.clear();
        loop {
            let left = &self.chunk[self.done..];
            let now = left.len().min(len - self.joined.len());
            self.joined.extend_from_slice(&left[..now]);
            self.done += now;
            if self.joined.len() == len {
                return Ok(&self.joined);
            }
            let Some(chunk) = self.chunks.next() else { return Ok(&self.joined) };
            (self.chunk, self.done) = (chunk?, 0);
        }
    }
}

/// Starts to read tensors of the file at `path`. The thread ends when the pieces are dropped.
pub fn read_ahead<'scope>(
    scope: &'scope Scope<'scope, '_>,
    path: &'scope Path,
    tensors: impl Iterator<Item = FileTensor<'scope>>,
) -> ElementStream<'scope> {
    let (sender, chunks) = sync_channel(AHEAD);
    let tensors = Arc::new(tensors.collect::<Vec<_>>());
    let to_read = Arc::clone(&tensors);
    let read = move || {
        let mut chunk = Vec::new();
        for &tensor in &*to_read {
            if let Err(failure) = send(tensor, &mut chunk, &sender).at(path) {
                // If the receiver was dropped, nobody needs the failure either.
                let _ = sender.send(Ok(chunk)).and_then(|()| sender.send(Err(failure)));
                return;
            }
        }
        let _ = sender.send(Ok(chunk));
    };
    let chunks = match thread::Builder::new().spawn_scoped(scope, read) {
        Ok(_) => Chunks::Ahead(chunks),
        Err(_) => Chunks::OneByOne { path, tensors, next: 0 },
    };
    ElementStream { chunks, chunk: Vec::new(), done: 0, joined: Vec::new() }
}

/// Adds a tensor to a chunk, which is sent when it is full and more comes. If the tensor cannot be read, its last bytes
/// are left out of the chunk, so that the failure comes in their place.
fn send(tensor: FileTensor<'_>, chunk: &mut Vec<u8>, sender: &SyncSender<Outcome<Vec<u8>>>) -> tensorfile::Result<()> {
    let dropped = |_| Error::from(ErrorKind::Message("the receiver was dropped".to_owned()));
    let mut start = chunk.len();
    let mut pieces = Pieces(|mut bytes: &[u8]| {
        while !bytes.is_empty() {
            if chunk.len() == CHUNK {
                let full = std::mem::replace(chunk, Vec::with_capacity(CHUNK));
                sender.send(Ok(full)).map_err(dropped)?;
                start = 0;
            }
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK - chunk.len()));
            chunk.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    });
    let written = tensor.write_row_major_to(&mut pieces);
    if written.is_err() {
        chunk.truncate(start);
    }
    Ok(written?)
}
