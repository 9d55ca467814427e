//! Sends tensors through a pipe one at a time, without knowing how many there will be.

use std::thread;

use ndarray::{Array1, Array2};
use tensorfile::{Result, ten};

fn main() -> Result<()> {
    let (reader, writer) = std::io::pipe()?;

    // A worker plays games and sends them. It waits when the pipe is full.
    let worker = thread::spawn(move || -> Result<()> {
        let mut encoder = ten::Encoder::new(writer);
        for game in 0..3_u8 {
            encoder.encode("board", &Array2::from_elem((8, 8), game))?;
            encoder.encode("policy", &Array1::<f32>::linspace(0.0, 1.0, usize::from(game) + 2))?;
        }
        encoder.flush()
    });

    // The learner holds one tensor at a time.
    let mut decoder = ten::Decoder::new(reader);
    let mut games = 0;
    while let Some((name, board)) = decoder.decode::<Array2<u8>>()? {
        assert_eq!((name.as_str(), board[[0, 0]]), ("board", games));
        games += 1;
        // The header of the next tensor can be read before its payload, which can be skipped.
        if decoder.peek()?.is_some_and(|(_, info)| info.shape[0] > 3) {
            decoder.next().transpose()?;
            println!("skipped");
        } else if let Some((name, policy)) = decoder.decode::<Array1<f32>>()? {
            println!("{name}: {policy}");
        }
    }
    assert_eq!(games, 3);
    worker.join().expect("the worker does not panic")
}
