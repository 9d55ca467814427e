//! Reads a file through an arbitrary map, both ways.

use tensorfile::{File, LayoutMap, OpenOptions, Tensor, TensorMap, safetensors};

use crate::budget::{bounded, bounded_output, limits};
use crate::input::Input;

/// The largest tensor that is read, in bytes: padding makes much of little.
const MAX_READ: u64 = 1 << 20;

/// The most tensors of a file. One tensor may be divided into many.
const MAX_TENSORS: u64 = 1 << 10;

/// A map, a NUL and a file.
pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let text = String::from_utf8_lossy(input.before_nul()).into_owned();
    let Ok(map) = bounded("parsing", 8 * text.len(), || LayoutMap::parse(&text)) else { return };
    assert!(LayoutMap::parse(map.text()).is_ok());
    for map in [map.clone(), map.inverted()] {
        let options = OpenOptions::new().limits(limits(input.0.len()).tensors(MAX_TENSORS)).map(&map);
        let open = || options.from_bytes(input.0.to_vec());
        let Ok(file) = bounded_output("mapping", 8 * (text.len() + input.0.len()), 4 << 20, open) else { continue };
        check(&file);
    }
}

fn check(file: &File) {
    let receipt = file.receipt().expect("the file is mapped");
    let balance = receipt.source.elements - receipt.left_elements() + receipt.made_elements();
    assert_eq!(balance, receipt.target.elements, "{receipt}");
    assert_eq!(receipt.target.tensors, file.len() as u64);
    for tensor in file.tensors().filter(|tensor| tensor.payload_bytes() <= MAX_READ) {
        let Ok(whole) = tensor.read() else { continue };
        let half: Vec<_> = tensor.shape().iter().map(|dim| dim / 2..*dim).collect();
        let Ok(part) = tensor.slice(&half) else { continue };
        // The last element is that of the whole.
        let element = tensor.dtype().block_bytes();
        let last = |bytes: &[u8]| bytes[bytes.len().saturating_sub(element)..].to_vec();
        assert!(part.as_bytes().is_empty() || last(part.as_bytes()) == last(whole.as_bytes()), "{tensor:?}");
    }
}

/// The name and the shape of a tensor.
type Named = (&'static str, &'static [usize]);

/// A map, and a file that fits it.
pub fn seeds() -> Vec<Vec<u8>> {
    let cases: &[(&str, &[Named])] = &[
        ("e.{e}.{p:gate|up} [i h] = all [e (p i) h]", &[("e.0.gate", &[2, 3]), ("e.0.up", &[2, 3])]),
        ("let two = 2\nq [(n two half) h] = r [(n half two) h]\nkeep *", &[("q", &[8, 2]), ("norm", &[2])]),
        ("let r[q] = 2\nlet r[k] = 1\n{p:q|k} [r[p] h] = qk [(p r[p]) h]", &[("q", &[2, 2]), ("k", &[1, 2])]),
        ("let p = q|k\nw [(p=q a)] = q [a]\nw [(p=k b)] = k [b]\nlet n = 2\ndrop x*", &[("w", &[4]), ("xy", &[1])]),
        ("let pad = 2\na [v h+pad] = b [(v h)]\ncopy b -> c\nmaybe d.{x:*} = e.{x:*}", &[("a", &[2, 3])]),
        ("let n = 2 * (1 + 3) / 4 ?? config.n\na.{l+1} [n x] = b.{l} [x n]", &[("a.1", &[2, 2]), ("a.2", &[2, 2])]),
    ];
    let seed = |(text, tensors): &(&str, &[Named])| {
        let tensor = |(name, shape): &Named| {
            let zeros = vec![0_u16; shape.iter().product()];
            ((*name).to_owned(), Tensor::from_slice(&zeros, shape.to_vec()).expect("the shape fits"))
        };
        let map: TensorMap = tensors.iter().map(tensor).collect();
        [text.as_bytes(), b"\0", &safetensors::to_vec(&map).expect("it can be written")].concat()
    };
    cases.iter().map(seed).collect()
}
