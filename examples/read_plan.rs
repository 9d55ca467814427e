//! Reads one process's part of a model into memory that somebody else owns, such as a buffer pinned for a device.

use ndarray::Array2;
use tensorfile::file::{PlanPiece, Slabs};
use tensorfile::{File, Result, TensorMap, save};

/// Two buffers that are lent in turn: while the device copies one of them, the other one is filled.
struct PinnedBuffers {
    buffers: [Vec<u8>; 2],
    next: usize,
}

impl Slabs for PinnedBuffers {
    fn lend(&mut self, bytes: usize) -> Result<&mut [u8]> {
        // Here, wait until the device has copied what was in it.
        self.next = 1 - self.next;
        let buffer = &mut self.buffers[self.next];
        buffer.resize(buffer.len().max(bytes), 0);
        Ok(buffer)
    }

    fn complete(&mut self, pieces: &[PlanPiece<'_>]) -> Result<()> {
        // Here, start the copies to the device.
        let names: Vec<&str> = pieces.iter().map(|piece| piece.name()).collect();
        println!("buffer {} has {}", self.next, names.join(", "));
        Ok(())
    }
}

fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("model.safetensors");
    let weights =
        (0..4).map(|layer| (format!("layers.{layer}.weight"), Array2::<f32>::from_elem((64, 64), layer as f32)));
    save(&path, &TensorMap::from_iter(weights))?;

    // The second of two processes: the lower half of each matrix. Reads the index only.
    let file = File::open(&path)?;
    let mut plan = file.read_plan().align(4096);
    for tensor in file.tensors() {
        plan = plan.slice(tensor.name(), &[32..64, 0..64])?;
    }
    let plan = plan.finish()?;
    println!("{} bytes of the file for {} in memory", plan.bytes_read(), plan.bytes());

    // All at once.
    let mut memory = vec![0; plan.bytes()];
    plan.read_into(&mut memory)?;
    for piece in plan.pieces() {
        let first: &[u8] = &memory[piece.range()][..4];
        println!("{} {} at {}, which begins with {first:?}", piece.name(), piece.info(), piece.range().start);
    }

    // In two small buffers.
    plan.read_to(&mut PinnedBuffers { buffers: [vec![0; 20_000], vec![0; 20_000]], next: 0 })
}
