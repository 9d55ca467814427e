//! Reads files larger than the buffers of streams, in large pieces. A few bytes of input describe such a file.

use std::io::Read;

use tensorfile::{FORMATS, Tensor, TensorMap, WriteOptions};

use crate::budget::bounded_stream;
use crate::input::Input;
use crate::read::{index_of_stream, read_map};
use crate::rows::{choose, number, of_reader, open};

/// The approximate maximum length of a file.
const MOST: usize = 3 << 20;

/// A reader that returns pieces of given sizes.
struct Pieces<'a> {
    bytes: &'a [u8],
    sizes: [usize; 3],
    reads: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let now = self.sizes[self.reads % self.sizes.len()].min(buffer.len());
        self.reads += 1;
        self.bytes.read(&mut buffer[..now])
    }
}

pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let Some(format) = choose(&mut input) else { return };
    let options = WriteOptions::new().embed_names(input.byte().is_multiple_of(2));
    let mut sizes = || 1 + usize::from(input.byte()) * 1031 + usize::from(input.byte());
    let sizes = [sizes(), sizes(), sizes()];
    // Many small tensors, with a large one now and then.
    let (small, large, every) = (input.below(200), usize::from(input.byte()) << 12, 1 + usize::from(input.byte()));
    let first = usize::from(input.byte()) * 3;
    let count = format.max_tensors.unwrap_or(1 + usize::from(input.byte()) * 32);
    let mut left = MOST;
    let mut map = TensorMap::new();
    for at in 0..count {
        let len = match at {
            0 => first + large,
            at if at % every == 0 => large,
            at => at % (small + 1),
        };
        let len = len.min(left);
        left -= len;
        let name = if format.max_tensors.is_some() { at.to_string() } else { format!("t{at}") };
        map.insert(name, Tensor::from_slice(&vec![at as u8; len], [len]).unwrap());
    }
    let Ok(file) = format.to_vec(&map, &options) else { return };
    index_of_stream(format, &file, &open(format, file.len()).from_bytes(file.clone()));
    let stream = Pieces { bytes: &file, sizes, reads: 0 };
    let read = bounded_stream("a large stream", file.len(), || read_map(of_reader(format, stream, file.len())));
    // Without names, tensors are called by their positions.
    let same = |read: &TensorMap| read.iter().map(|(_, tensor)| tensor).eq(map.iter().map(|(_, tensor)| tensor));
    assert!(same(&read.unwrap_or_else(|error| panic!("{}: {error:?}", format.name))), "{}", format.name);
    // A file that is cut somewhere is an error, or has the first tensors.
    let cut = &file[..file.len() - file.len() * input.below(256) / 1024];
    index_of_stream(format, cut, &open(format, cut.len()).from_bytes(cut.to_vec()));
    let stream = Pieces { bytes: cut, sizes, reads: 0 };
    if let Ok(read) = read_map(of_reader(format, stream, cut.len())) {
        assert!(read.len() <= map.len());
        for ((_, read), (_, whole)) in read.iter().zip(&map) {
            assert!(read == whole, "{}: cut at {}", format.name, cut.len());
        }
    }
}

/// A row, options, the sizes of pieces, the sizes of tensors, their number, and the place of a cut.
pub fn seeds() -> Vec<Vec<u8>> {
    let shapes = [[97, 0, 255, 80, 200, 3], [190, 80, 30, 0, 20, 200], [0, 255, 2, 1, 4, 255]];
    let seed = |row: u8, shape: [u8; 6]| [&[row, 0, 255, 255, 3, 0, 0, 200][..], &shape].concat();
    FORMATS.iter().flat_map(|format| shapes.map(|shape| seed(number(format), shape))).collect()
}
