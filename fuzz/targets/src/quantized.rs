//! Recognizes and decodes quantized weights of a file with an arbitrary configuration beside it.

use std::fs;

use tensorfile::{Dequantize, Dtype, File, OpenOptions};

use crate::budget::{bounded, limits};

/// The largest weight that is decoded, in bytes. A few codes may stand for many weights, as those with one scale.
const MAX_DECODED: u64 = 1 << 20;

/// The length of the configuration is in the first two bytes, before it and the file.
pub fn run(input: &[u8]) {
    let Some((len, rest)) = input.split_first_chunk() else { return };
    let (config, file) = rest.split_at(rest.len().min(u16::from_le_bytes(*len).into()));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    fs::write(&path, config).unwrap();
    let options = OpenOptions::new().limits(limits(input.len())).config(&path);
    let Ok(plain) = options.from_bytes(file.to_vec()) else { return };
    let Ok(quantized) = bounded("recognizing", input.len(), || plain.quantized().cloned()) else { return };
    for tensor in quantized.tensors() {
        for part in tensor.parts() {
            assert_eq!(plain.nth(part.position()).unwrap().name(), part.name());
        }
    }
    // Schemes that are only recognized are left out.
    let refused: Vec<String> = quantized
        .tensors()
        .iter()
        .filter(|tensor| !tensor.can_be_decoded())
        .map(|tensor| tensor.name().to_owned())
        .collect();
    let dequantize = Dequantize::to(Dtype::F32).only(move |name| !refused.iter().any(|refused| refused == name));
    let Ok(decoded) = options.dequantize(dequantize).from_bytes(file.to_vec()) else { return };
    decode(&decoded);
}

fn decode(file: &File) {
    for tensor in file.tensors().filter(|tensor| tensor.payload_bytes() <= MAX_DECODED) {
        let Ok(whole) = tensor.read() else { continue };
        let half: Vec<_> = tensor.shape().iter().map(|dim| dim / 2..*dim).collect();
        let Ok(part) = tensor.slice(&half) else { continue };
        // The last element is that of the whole.
        let element = tensor.dtype().block_bytes();
        let last = |bytes: &[u8]| bytes[bytes.len().saturating_sub(element)..].to_vec();
        assert!(part.as_bytes().is_empty() || last(part.as_bytes()) == last(whole.as_bytes()), "{tensor:?}");
    }
}

/// The cases of the tests, as far as they are one file.
pub fn seeds() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/quant");
    let mut folders: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort_unstable();
    let seed = |folder: &std::path::PathBuf| {
        let names = ["model.safetensors", "flux.safetensors", "model.gguf"];
        let file = names.iter().find_map(|name| fs::read(folder.join(name)).ok())?;
        let configs = ["hf_quant_config.json", "config.json"];
        let config = configs.iter().find_map(|name| fs::read(folder.join(name)).ok()).unwrap_or_default();
        let mut seed = u16::try_from(config.len()).unwrap().to_le_bytes().to_vec();
        seed.extend(config);
        seed.extend(file);
        Some(seed)
    };
    folders.iter().filter_map(seed).collect()
}
