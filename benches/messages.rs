//! The time to encode and decode messages of one `f32` array, such as programs exchange over a stream.
//!
//! ```sh
//! cargo bench -p tensorfile-benches --bench messages --all-features             # everything: takes a minute
//! cargo bench -p tensorfile-benches --bench messages --all-features -- decode   # only rows that begin with this
//! ```
//!
//! Each cell is the lowest time of all rounds, and its multiple of the first row of the group. The rows of a group are
//! measured in turns, because times on a busy machine wander. `BENCH_SHRINK` divides the number of rounds.

use std::hint::black_box;
use std::io::{self, Read};
use std::time::{Duration, Instant};

use comfy_table::{CellAlignment, Table, presets};
use ndarray::Array1;
use tensorfile::{Arrays, Result, ten};

/// The numbers of elements in the benchmarks of the Go package `ten`.
const ELEMENTS: [usize; 4] = [100, 500, 1000, 10_000];

/// The messages of a long stream.
const MESSAGES: usize = 1000;

fn main() -> Result<()> {
    // `cargo bench` adds an option of its own.
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with("--")).unwrap_or_default();
    let shrink = std::env::var("BENCH_SHRINK").ok().and_then(|shrink| shrink.parse().ok()).unwrap_or(1_usize);
    let rounds = (400 / shrink.max(1)).max(1);
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header(["one array of f32".to_owned()].into_iter().chain(ELEMENTS.map(|elements| elements.to_string())));
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    for group in ["encode", "decode"] {
        if !group.starts_with(&wanted) && !wanted.starts_with(group) {
            continue;
        }
        let mut columns = Vec::new();
        for elements in ELEMENTS {
            eprintln!("{group}, {elements}");
            columns.push(measure(&mut rows(group, elements)?, rounds));
        }
        for row in 0..columns[0].len() {
            let cells = columns.iter().map(|column| {
                let (time, first) = (column[row].1.as_secs_f64(), column[0].1.as_secs_f64());
                format!("{:.0} ns; {:.2}", time * 1e9, time / first)
            });
            table.add_row([format!("{group}, {}", columns[0][row].0)].into_iter().chain(cells));
        }
    }
    println!("{table}");
    Ok(())
}

/// Work to measure, and the number of messages in one call.
struct Row {
    what: &'static str,
    messages: usize,
    work: Box<dyn FnMut()>,
}

fn row(what: &'static str, messages: usize, work: impl FnMut() + 'static) -> Row {
    Row { what, messages, work: Box::new(work) }
}

/// Returns the lowest time of each row.
fn measure(rows: &mut [Row], rounds: usize) -> Vec<(&'static str, Duration)> {
    let mut lowest: Vec<_> = rows.iter().map(|row| (row.what, Duration::MAX)).collect();
    for _ in 0..rounds {
        for (row, (_, lowest)) in rows.iter_mut().zip(&mut lowest) {
            let calls = (200 / row.messages).max(1);
            let start = Instant::now();
            (0..calls).for_each(|_| (row.work)());
            *lowest = (*lowest).min(start.elapsed() / u32::try_from(calls * row.messages).expect("they are few"));
        }
    }
    lowest
}

/// A stream that repeats one message. Reading memory for the first time would take longer than everything else.
struct Repeated<'a> {
    message: &'a [u8],
    rest: &'a [u8],
    left: usize,
}

impl Read for Repeated<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < bytes.len() {
            if self.rest.is_empty() {
                if self.left == 0 {
                    break;
                }
                (self.rest, self.left) = (self.message, self.left - 1);
            }
            filled += self.rest.read(&mut bytes[filled..])?;
        }
        Ok(filled)
    }
}

/// Reads a message of known lengths without looking at it: the least any decoder of streams must do. `Read` fills only
/// initialized memory, so the memory of large messages is written twice.
fn read_exactly(stream: &mut impl Read, message: usize, elements: usize) -> Option<Vec<f32>> {
    const HEADER: usize = 96;
    let mut around = [0; HEADER];
    stream.read_exact(&mut around).ok()?;
    let mut numbers = vec![0.0_f32; elements];
    let payload = bytemuck::cast_slice_mut(&mut numbers);
    stream.read_exact(payload).ok()?;
    let padding = message - HEADER - payload.len();
    stream.read_exact(&mut around[..padding]).ok()?;
    Some(numbers)
}

fn rows(group: &str, elements: usize) -> Result<Vec<Row>> {
    let array = Array1::from_elem(elements, 1.5_f32);
    let mut rows = Vec::new();
    match group {
        "encode" => {
            {
                let (array, mut copy) = (array.clone(), Vec::new());
                rows.push(row("memcpy", 1, move || {
                    copy.clear();
                    copy.extend_from_slice(black_box(array.as_slice().expect("it is contiguous")));
                    black_box(copy.as_ptr());
                }));
            }
            let (value, mut file) = (Arrays(array.clone()), Vec::new());
            rows.push(row("by ten::to_vec_into", 1, move || {
                ten::Options::new().to_vec_into(&mut file, &value).expect("f32 can be stored");
                black_box(file.as_ptr());
            }));
            let mut encoder = ten::Encoder::new(io::Cursor::new(Vec::new()));
            rows.push(row("by ten::Encoder", 1, move || {
                encoder.get_mut().set_position(0);
                encoder.encode("x", &array).expect("f32 can be stored");
                black_box(encoder.get_ref().get_ref().as_ptr());
            }));
        }
        _ => {
            let mut message = ten::Encoder::new(Vec::new());
            message.encode("x", &array)?;
            let message = message.into_inner();
            let (file, repeated, plain) = (message.clone(), message.clone(), message.clone());
            rows.push(row("from a slice", 1, move || {
                drop(black_box(ten::from_slice::<Arrays<Array1<f32>>>(black_box(&file)).expect("it is whole")));
            }));
            rows.push(row("one message by ten::Decoder", 1, move || {
                let mut decoder = ten::Decoder::new(black_box(&message[..]));
                drop(black_box(decoder.decode::<Array1<f32>>().expect("it is whole")));
            }));
            rows.push(row("many messages by ten::Decoder", MESSAGES, move || {
                let stream = Repeated { message: &repeated, rest: &[], left: MESSAGES };
                let mut decoder = ten::Decoder::new(black_box(stream));
                while let Some(tensor) = decoder.decode::<Array1<f32>>().expect("it is whole") {
                    drop(black_box(tensor));
                }
            }));
            rows.push(row("many messages by Read::read_exact", MESSAGES, move || {
                let mut stream = black_box(Repeated { message: &plain, rest: &[], left: MESSAGES });
                while let Some(numbers) = read_exactly(&mut stream, plain.len(), elements) {
                    drop(black_box(numbers));
                }
            }));
        }
    }
    Ok(rows)
}
