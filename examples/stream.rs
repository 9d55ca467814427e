//! Sends structs of arrays through a pipe, without knowing how many there will be.

use std::thread;

use ndarray::{Array1, Array2};
use tensorfile::{Result, TensorFile, ten};

#[derive(TensorFile)]
struct Game {
    board: Array2<u8>,
    policy: Array1<f32>,
}

fn main() -> Result<()> {
    let (reader, writer) = std::io::pipe()?;

    // A worker plays games and sends them. It waits when the pipe is full.
    let worker = thread::spawn(move || -> Result<()> {
        let mut encoder = ten::Encoder::new(writer);
        for game in 0..3_u8 {
            let policy = Array1::linspace(0.0, 1.0, usize::from(game) + 2);
            encoder.encode("", &Game { board: Array2::from_elem((8, 8), game), policy })?;
        }
        encoder.encode("result", &1.0_f32)?;
        encoder.flush()
    });

    // The learner holds one game at a time. The header of the next tensor can be read before its payload, which can be
    // skipped.
    let mut decoder = ten::Decoder::new(reader);
    let mut games = 0;
    while decoder.peek()?.is_some_and(|(name, _)| name == "board") {
        let Some((_, game)) = decoder.decode::<Game>()? else { break };
        assert_eq!((game.board[[0, 0]], game.policy.len()), (games, usize::from(games) + 2));
        println!("game {games}: {}", game.policy);
        games += 1;
    }
    let result = decoder.decode::<f32>()?;
    assert_eq!((games, result), (3, Some(("result".to_owned(), 1.0))));
    worker.join().expect("the worker does not panic")
}
