//! Opens files in a storage of your own: here a key-value store that keeps 4 KiB or less under each key.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::Arc;

use ndarray::array;
use tensorfile::file::ReadRanges;
use tensorfile::{OpenOptions, TensorMap, btf};

const BLOCK: usize = 4096;

struct KeyValueFile {
    blocks: HashMap<u64, Vec<u8>>,
    len: u64,
}

impl ReadRanges for KeyValueFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_at(&self, mut offset: u64, mut bytes: &mut [u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let block = self.blocks.get(&(offset / BLOCK as u64)).ok_or(io::ErrorKind::UnexpectedEof)?;
            let mut rest = &block[usize::try_from(offset % BLOCK as u64).expect("it is below the length of a block")..];
            let now = rest.read(bytes)?;
            (offset, bytes) = (offset + now as u64, &mut bytes[now..]);
        }
        Ok(())
    }

    fn name(&self) -> Cow<'_, str> {
        "store:model".into()
    }
}

fn main() -> tensorfile::Result<()> {
    let map = TensorMap::from_iter([("weights", ndarray::Array1::<f32>::ones(10_000)), ("bias", array![0.5, -0.5])]);
    let bytes = btf::Options::new().embed_names(true).to_vec(&map)?;
    let blocks = (0..).zip(bytes.chunks(BLOCK).map(<[u8]>::to_vec)).collect();
    let source = Arc::new(KeyValueFile { blocks, len: bytes.len() as u64 });

    let file = OpenOptions::new().open_ranges(source)?;
    println!("{}: {} tensors in {}", file.location().unwrap_or_default(), file.len(), file.format().name);
    assert_eq!(file.tensor("bias")?, map["bias"]);
    assert_eq!(file.load::<TensorMap>()?, map);
    Ok(())
}
