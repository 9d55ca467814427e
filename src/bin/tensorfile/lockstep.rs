//! Tensors of two files, read side by side: each file by a thread of its own, which stays a few pieces ahead.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Scope;

use tensorfile::{ErrorKind, FileTensor};

use crate::failure::{At, Outcome};

/// The elements in a piece: as many of each file, whatever their dtypes.
pub const PIECE: usize = 1 << 17;

/// How many pieces wait to be taken.
const AHEAD: usize = 2;

/// The elements of dense tensors one after the other, in row-major order.
pub type Pieces = Receiver<Outcome<Vec<u8>>>;

/// Reads tensors of the file at `path`. Each comes in pieces of [`PIECE`] elements, but for its last one; one without
/// elements comes in none. The thread ends when the pieces are dropped.
pub fn read_ahead<'scope>(
    scope: &'scope Scope<'scope, '_>,
    path: &'scope Path,
    tensors: Vec<FileTensor<'scope>>,
) -> Pieces {
    let (sender, pieces) = sync_channel(AHEAD);
    scope.spawn(move || {
        for tensor in tensors {
            if let Err(failure) = send(tensor, &sender).at(path) {
                // Where it failed because the pieces are not wanted, this is not either.
                let _ = sender.send(Err(failure));
                return;
            }
        }
    });
    pieces
}

fn send(tensor: FileTensor<'_>, sender: &SyncSender<Outcome<Vec<u8>>>) -> tensorfile::Result<()> {
    let unwanted = |_| ErrorKind::Message("nobody reads on".to_owned());
    let size = PIECE * tensor.dtype().block_bytes();
    let mut left = usize::try_from(tensor.payload_bytes()).unwrap_or(usize::MAX);
    let mut piece = Vec::new();
    // What comes may be of any size.
    tensor.pour_row_major(&mut |mut bytes| {
        while !bytes.is_empty() {
            if piece.is_empty() {
                piece.reserve_exact(size.min(left));
            }
            let (now, later) = bytes.split_at(bytes.len().min(size - piece.len()));
            piece.extend_from_slice(now);
            left = left.saturating_sub(now.len());
            if piece.len() == size {
                sender.send(Ok(std::mem::take(&mut piece))).map_err(unwanted)?;
            }
            bytes = later;
        }
        Ok(())
    })?;
    match piece.is_empty() {
        true => Ok(()),
        false => Ok(sender.send(Ok(piece)).map_err(unwanted)?),
    }
}
