//! Converts files of any format to all others and back.

use tensorfile::digest::CollectionDigester;
use tensorfile::digest::Digest;
use tensorfile::{Category, FORMATS, File, Format, Result, Tensors, WriteOptions};

use crate::budget::bounded;
use crate::input::Input;
use crate::rows::{choose_any, open};

pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let Some(from) = choose_any(&mut input) else { return };
    let Ok(file) = open(from, input.0.len()).from_bytes(input.0.to_vec()) else { return };
    let digest = bounded("digests", input.0.len(), || digest(&file));
    for to in FORMATS {
        let Some(converted) = convert(&file, to, &digest) else { continue };
        let converted = open(to, converted.len()).from_bytes(converted).unwrap();
        let expected = digest.as_ref().unwrap();
        assert_eq!(digest_of(&converted), *expected, "{} to {}", from.name, to.name);
        let back = convert(&converted, from, &digest);
        if let Some(back) = back {
            let back = open(from, back.len()).from_bytes(back).unwrap();
            assert_eq!(digest_of(&back), *expected, "{} to {} and back", from.name, to.name);
        }
    }
}

/// Converts a file if the format can store its tensors.
fn convert(file: &File, to: &'static Format, digest: &Result<Digest>) -> Option<Vec<u8>> {
    let bytes: u64 = file.tensors().map(|tensor| tensor.payload_bytes() + tensor.name().len() as u64).sum();
    let len = (file.file_bytes() + bytes) as usize;
    let options = WriteOptions::new().embed_names(true).keep_dim_order(file.len().is_multiple_of(2));
    let mut written = Vec::new();
    let converted = bounded("converting", 2 * len, || to.to_writer(&mut written, file as &dyn Tensors, &options));
    match (converted, digest) {
        (Ok(()), Ok(_)) => Some(written),
        (Ok(()), Err(error)) => panic!("{} to {}: {error:?} is not noticed", file.format().name, to.name),
        (Err(error), Ok(_)) => {
            assert_eq!(error.category(), Category::Call, "{} to {}: {error:?}", file.format().name, to.name);
            None
        }
        (Err(_), Err(_)) => None,
    }
}

fn digest_of(file: &File) -> Digest {
    digest(file).unwrap()
}

fn digest(file: &File) -> Result<Digest> {
    let one = |tensor: tensorfile::file::FileTensor<'_>| {
        let read = tensor.read()?;
        Ok((tensor.name().to_owned(), Digest::new(&read.as_view())))
    };
    let all: Result<CollectionDigester> = file.tensors().map(one).collect();
    Ok(all?.finish())
}
