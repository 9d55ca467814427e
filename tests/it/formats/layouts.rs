//! Mistakes in formats defined outside of the crate are errors before anything is written.

use std::sync::Arc;

use tensorfile::format::{
    Encode, FileLayout, Format, FormatSpec, Index, IndexReader, NamePolicy, PlannedTensors, ReadAt, Sharing,
};
use tensorfile::{Category, Dtype, Limits, Result, Tensor, TensorMap, WriteOptions};

use crate::support::Messages;

/// Lays out headers of 4 bytes and payloads at multiples of 8, then makes a mistake.
#[derive(Debug)]
struct Toy(fn(&mut Vec<u64>, &mut FileLayout));

static TOY: Format = toy(|_| Ok(Arc::new(Toy(|_, _| ()))));

const fn toy(encode: fn(&WriteOptions) -> Result<Arc<dyn Encode>>) -> Format {
    Format::new(FormatSpec::new("toy", &[Dtype::U8]), || Box::new(Unread), encode)
}

struct Unread;

impl IndexReader for Unread {
    fn read_on(&mut self, _: &mut dyn ReadAt, _: &Limits, _: &mut Index) -> Result<bool> {
        Ok(false)
    }
}

impl Encode for Toy {
    fn spec(&self) -> &'static FormatSpec {
        TOY.spec()
    }

    fn names(&self) -> NamePolicy {
        NamePolicy::Stored
    }

    fn sharing(&self) -> Sharing {
        Sharing::EqualBytes
    }

    fn lay_out(&self, _: &PlannedTensors) -> Result<FileLayout> {
        let mut layout = FileLayout::default();
        (layout.begin, layout.end_offset, layout.end) = (b"TOY!".to_vec(), 24, b"end".to_vec());
        let mut payloads = vec![8, 16, 8];
        (self.0)(&mut payloads, &mut layout);
        for (header, payload) in ["hd 0", "hd 1", ""].into_iter().zip(payloads) {
            layout.push(header.as_bytes(), payload);
        }
        Ok(layout)
    }
}

/// Two tensors of 3 bytes, and one that shares the bytes of the first.
fn map() -> TensorMap {
    let tensor = |first: u8| Tensor::from_slice(&[first, 2, 3], [3]).unwrap();
    [("a", tensor(1)), ("b", tensor(7)), ("c", tensor(1))].into_iter().collect()
}

#[test]
fn writes_layouts_of_other_formats() {
    let file = TOY.to_vec(&map(), &WriteOptions::new()).unwrap();
    assert_eq!(file, b"TOY!hd 0\x01\x02\x03\0hd 1\x07\x02\x03\0\0\0\0\0end");
}

#[test]
fn refuses_layouts_that_cannot_be_written() {
    macro_rules! cases {
        ($($mistake:expr => $expected:literal;)*) => {
            [$((toy(|_| Ok(Arc::new(Toy($mistake)))), $expected)),*]
        };
    }
    let cases = cases! {
        |payloads, _| payloads[0] = 7 =>
            "toy: tensor `a`: cannot lay out a payload at byte 7; the bytes before it, with its header, end at byte 8";
        |payloads, _| payloads[1] = 14 =>
            "toy: tensor `b`: cannot lay out a payload at byte 14; the bytes before it, with its header, end at byte 15";
        |payloads, _| payloads[1] = 0 =>
            "toy: tensor `b`: cannot lay out a payload at byte 0; the bytes before it, with its header, end at byte 15";
        |payloads, _| payloads[1] = u64::MAX - 1 =>
            "toy: tensor `b`: cannot lay out a payload at byte 18446744073709551614; it ends past 2^64";
        |payloads, _| payloads[2] = 24 =>
            "toy: tensor `c`: cannot lay out a payload at byte 24; it shares its bytes with `a`, at byte 8";
        |payloads, _| payloads.truncate(1) => "toy: cannot lay out 1 payloads; there are 3 tensors";
        |_, layout| layout.end_offset = 18 =>
            "toy: cannot lay out the end at byte 18; the payloads before it end at byte 19";
        |_, layout| layout.end_offset = u64::MAX =>
            "toy: cannot lay out the end at byte 18446744073709551615; it ends past 2^64";
    };
    let mut messages = Messages::default();
    for (format, expected) in cases {
        let mut file = Vec::new();
        let result = format.to_writer(&mut file, &map(), &WriteOptions::new());
        assert!(result.as_ref().is_err_and(|error| error.category() == Category::Call), "{expected}");
        messages.compare("layout", result, expected);
        assert!(file.is_empty(), "nothing is written");
    }
    messages.end();
}
