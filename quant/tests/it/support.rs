//! Just enough of safetensors and GGUF to read the files of cases.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use half::{bf16, f16};
use tensorfile_quant::{Block, Float, Float8};

pub struct Tensor {
    /// As in the file: the name in safetensors, ggml's number in GGUF.
    pub dtype: String,
    /// Row-major.
    pub shape: Vec<usize>,
    pub bytes: Vec<u8>,
}

impl Tensor {
    /// Returns the numbers of a dtype of scales.
    pub fn floats(&self) -> Vec<f32> {
        let mut floats = vec![0.0; self.shape.iter().product()];
        match &*self.dtype {
            "F32" | "0" => f32::widen_bytes(&self.bytes, &mut floats),
            "F16" => f16::widen_bytes(&self.bytes, &mut floats),
            "BF16" => bf16::widen_bytes(&self.bytes, &mut floats),
            "F8_E4M3" => Float8::E4m3Fn.widen_bytes(&self.bytes, &mut floats),
            "F8_E8M0" => Float8::E8m0.widen_bytes(&self.bytes, &mut floats),
            dtype => panic!("no scales are {dtype}"),
        }
        floats
    }
}

pub type Tensors = BTreeMap<String, Tensor>;

/// Reads all files of a folder.
pub fn read_folder(folder: &Path) -> Tensors {
    let mut tensors = Tensors::new();
    for entry in fs::read_dir(folder).expect("a folder of a case") {
        let path = entry.expect("an entry").path();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("safetensors") => tensors.extend(read_safetensors(&path)),
            Some("gguf") => tensors.extend(read_gguf(&path)),
            _ => {}
        }
    }
    tensors
}

pub fn read_safetensors(path: &Path) -> Tensors {
    let file = fs::read(path).expect("a file of safetensors");
    let (length, rest) = file.split_first_chunk().expect("a length");
    let (header, data) = rest.split_at(u64::from_le_bytes(*length).try_into().expect("a length in memory"));
    let header: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(header).expect("a header");
    let numbers = |value: &serde_json::Value| -> Vec<usize> {
        let numbers = value.as_array().expect("an array").iter();
        numbers.map(|number| number.as_u64().expect("a number").try_into().expect("a number in memory")).collect()
    };
    let tensors = header.into_iter().filter(|(name, _)| name != "__metadata__");
    tensors
        .map(|(name, info)| {
            let offsets = numbers(&info["data_offsets"]);
            let dtype = info["dtype"].as_str().expect("a dtype").to_owned();
            (name, Tensor { dtype, shape: numbers(&info["shape"]), bytes: data[offsets[0]..offsets[1]].to_vec() })
        })
        .collect()
}

fn read_gguf(path: &Path) -> Tensors {
    const STRING: u32 = 8;
    let file = fs::read(path).expect("a GGUF file");
    let mut reader = Reader(&file[8..]);
    let (tensors, values) = (reader.usize(), reader.usize());
    for _ in 0..values {
        reader.string();
        match reader.u32() {
            STRING => drop(reader.string()),
            4..=6 => drop(reader.u32()),
            kind => panic!("no case has a value of type {kind}"),
        }
    }
    let infos: Vec<_> = (0..tensors)
        .map(|_| {
            let name = reader.string();
            let rank = reader.u32();
            let mut shape: Vec<_> = (0..rank).map(|_| reader.usize()).collect();
            shape.reverse();
            (name, shape, reader.u32(), reader.usize())
        })
        .collect();
    let data = (file.len() - reader.0.len()).next_multiple_of(32);
    let tensors = infos.into_iter().map(|(name, shape, dtype, offset)| {
        let weights: usize = shape.iter().product();
        let length = match dtype {
            0 => 4 * weights,
            dtype => weights / block(dtype).weights() * block(dtype).bytes(),
        };
        let bytes = file[data + offset..][..length].to_vec();
        (name, Tensor { dtype: dtype.to_string(), shape, bytes })
    });
    tensors.collect()
}

/// Returns the block type with a number of ggml.
pub fn block(number: u32) -> Block {
    let name = match number {
        2 => "q4_0",
        3 => "q4_1",
        6 => "q5_0",
        7 => "q5_1",
        8 => "q8_0",
        10 => "q2_k",
        11 => "q3_k",
        12 => "q4_k",
        13 => "q5_k",
        14 => "q6_k",
        16 => "iq2_xxs",
        18 => "iq3_xxs",
        19 => "iq1_s",
        20 => "iq4_nl",
        34 => "tq1_0",
        39 => "mxfp4",
        40 => "nvfp4",
        41 => "q1_0",
        number => panic!("no case has tensors of type {number}"),
    };
    Block::from_name(name).expect("a block type")
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> [u8; N] {
        let (array, rest) = self.0.split_first_chunk().expect("a whole file");
        self.0 = rest;
        *array
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    fn usize(&mut self) -> usize {
        u64::from_le_bytes(self.array()).try_into().expect("a number in memory")
    }

    fn string(&mut self) -> String {
        let length = self.usize();
        let (string, rest) = self.0.split_at(length);
        self.0 = rest;
        String::from_utf8(string.to_vec()).expect("a name")
    }
}

/// Random bytes and scales, the same in each run.
pub struct Random(u64);

impl Random {
    pub fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next().to_be_bytes()[0]).collect()
    }

    /// Returns numbers of weights, and now and then any number: subnormal, huge, infinite or NaN.
    pub fn scales(&mut self, count: usize) -> Vec<f32> {
        let scale = |random: &mut Self| {
            let [.., a, b, c, d, kind] = random.next().to_le_bytes();
            let any = f32::from_le_bytes([a, b, c, d]);
            if kind < 16 { any } else { f32::from_bits(any.to_bits() & 0x8fff_ffff | 0x3800_0000) }
        };
        (0..count).map(|_| scale(self)).collect()
    }
}
