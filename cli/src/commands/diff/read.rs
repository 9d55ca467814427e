//! Reads dense tensors in pieces, on a thread that stays a few pieces ahead.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Scope;

use tensorfile::{Error, ErrorKind, FileTensor};

use crate::exit::{At, Outcome};
use crate::pieces::Pieces as Writer;

/// The number of elements in a piece, for every dtype.
pub const PIECE: usize = 1 << 17;

/// The number of pieces that are read ahead.
const AHEAD: usize = 2;

/// The elements of tensors, one tensor after the other, in row-major order.
pub type Pieces = Receiver<Outcome<Vec<u8>>>;

/// Starts to read tensors of the file at `path`.
///
/// Each tensor is sent in pieces of [`PIECE`] elements; the last one may be shorter. A tensor without elements has no piece.
/// The thread ends when the receiver is dropped.
pub fn read_ahead<'scope>(
    scope: &'scope Scope<'scope, '_>,
    path: &'scope Path,
    tensors: Vec<FileTensor<'scope>>,
) -> Pieces {
    let (sender, pieces) = sync_channel(AHEAD);
    scope.spawn(move || {
        for tensor in tensors {
            if let Err(failure) = send(tensor, &sender).at(path) {
                // If the receiver was dropped, nobody needs the failure either.
                let _ = sender.send(Err(failure));
                return;
            }
        }
    });
    pieces
}

fn send(tensor: FileTensor<'_>, sender: &SyncSender<Outcome<Vec<u8>>>) -> tensorfile::Result<()> {
    let dropped = |_| ErrorKind::Message("the receiver was dropped".to_owned());
    let size = PIECE * tensor.dtype().block_bytes();
    let mut left = usize::try_from(tensor.payload_bytes()).unwrap_or(usize::MAX);
    let mut piece = Vec::new();
    let mut pieces = Writer(|mut bytes: &[u8]| {
        while !bytes.is_empty() {
            if piece.is_empty() {
                piece.reserve_exact(size.min(left));
            }
            let (now, later) = bytes.split_at(bytes.len().min(size - piece.len()));
            piece.extend_from_slice(now);
            left = left.saturating_sub(now.len());
            if piece.len() == size {
                sender.send(Ok(std::mem::take(&mut piece))).map_err(|error| Error::from(dropped(error)))?;
            }
            bytes = later;
        }
        Ok(())
    });
    tensor.write_row_major_to(&mut pieces)?;
    match piece.is_empty() {
        true => Ok(()),
        false => Ok(sender.send(Ok(piece)).map_err(dropped)?),
    }
}
