//! Tensors through a pipe, one at a time: `.ten` needs neither their number nor their names beforehand.
//!
//! ```sh
//! cargo run --example stream
//! ```

use std::thread;

use ndarray::{Array1, Array2};
use tensorfile::{Result, ten};

fn main() -> Result<()> {
    let (reader, writer) = std::io::pipe()?;

    // A worker that plays games and sends what it sees. What a pipe cannot hold it waits with.
    let worker = thread::spawn(move || -> Result<()> {
        let mut encoder = ten::Encoder::new(writer);
        for game in 0..3_u8 {
            let moves = usize::from(game) + 2;
            encoder.encode("board", &Array2::from_elem((8, 8), game))?;
            encoder.encode("policy", &Array1::<f32>::linspace(0.0, 1.0, moves))?;
            encoder.encode("value", &(f32::from(game) / 2.0))?;
        }
        encoder.flush()
    });

    // The learner holds one tensor at a time. A number is a tensor of rank 0.
    let mut decoder = ten::Decoder::new(reader);
    while let Some((name, board)) = decoder.decode::<Array2<u8>>()? {
        // What comes next can be looked at before it is read, or passed over.
        let policy = match decoder.peek()? {
            Some((_, info)) if info.shape[0] < 4 => decoder.decode::<Array1<f32>>()?,
            _ => {
                decoder.next().transpose()?;
                None
            }
        };
        let Some((_, value)) = decoder.decode::<f32>()? else { break };
        match policy {
            Some((_, policy)) => println!("{name} of {}s: policy {policy}, value {value}", board[[0, 0]]),
            None => println!("{name} of {}s: policy too long and passed over, value {value}", board[[0, 0]]),
        }
    }
    worker.join().expect("the worker does not panic")
}
