//! Errors of reading: kind, category, tensor and offset, in addition to the message.

use std::error::Error as _;

use ndarray::{Array1, Array2, array};
use tensorfile::{Arrays, Category, Error, ErrorKind, InvalidTensor, Limits, TensorMap, btf, ten};

use crate::support::u64s;

/// A BTF file of one vector of `u8`.
fn file() -> Vec<u8> {
    let mut file = u64s(&[1, 16, 1, 6, 3]);
    file.extend([1, 2, 3]);
    file
}

#[test]
fn errors_have_a_category_and_an_offset() {
    let cut = btf::from_slice::<TensorMap>(&file()[..42]).unwrap_err();
    assert!(matches!(cut.kind(), ErrorKind::Truncated { needed: 3, left: 2 }));
    assert_eq!((cut.category(), cut.tensor(), cut.offset()), (Category::File, Some("#0"), Some(40)));

    let dtype = btf::from_slice::<Arrays<Array1<f32>>>(&file()).unwrap_err();
    assert!(matches!(dtype.kind(), ErrorKind::WrongDtype { expected: tensorfile::Dtype::F32, .. }));
    assert_eq!((dtype.category(), dtype.tensor()), (Category::Mismatch, Some("#0")));

    let shape = btf::from_slice::<Arrays<Array2<u8>>>(&file()).unwrap_err();
    assert!(matches!(shape.kind(), ErrorKind::WrongShape { expected, .. } if expected == "rank 2"));
    assert_eq!((shape.category(), shape.tensor()), (Category::Mismatch, Some("#0")));

    let limit = btf::Options::new().limits(Limits::new().rank(0)).from_slice::<TensorMap>(&file()).unwrap_err();
    assert!(matches!(limit.kind(), ErrorKind::Limit { what: "rank", found: 1, limit: 0 }));
    assert_eq!((limit.category(), limit.tensor(), limit.offset()), (Category::Limit, Some("#0"), Some(16)));

    let value = btf::to_vec(&Arrays(array![half::bf16::ONE])).unwrap_err();
    assert!(matches!(value.kind(), ErrorKind::Unsupported { .. }));
    assert_eq!((value.category(), value.tensor(), value.offset()), (Category::Call, Some("0"), None));

    let text = ten::to_vec("text").unwrap_err();
    assert!(matches!(text.kind(), ErrorKind::NotATensor { found: "a string", .. }));
    assert_eq!((text.category(), text.tensor(), text.offset()), (Category::Call, Some("0"), None));
}

#[test]
fn a_wrapped_error_is_told_once() {
    struct Failing;

    impl std::io::Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the disk is on fire"))
        }
    }

    let io = ten::from_reader::<TensorMap>(Failing).unwrap_err();
    assert!(matches!(io.kind(), ErrorKind::Io(error) if error.to_string() == "the disk is on fire"));
    assert_eq!(io.category(), Category::Io);
    assert!(io.source().is_none_or(|source| !io.to_string().contains(&source.to_string())));

    let invalid = Error::from(InvalidTensor::CoordinateCount { coordinates: 1, values: 2 });
    assert_eq!(invalid.to_string(), "1 coordinates, but 2 values");
    assert!(invalid.source().is_none());
}

#[test]
fn errors_can_go_anywhere() {
    fn check<T: Send + Sync + 'static>() {}

    check::<Error>();
    let boxed: Box<dyn std::error::Error + Send + Sync> = btf::from_slice::<TensorMap>(&[]).unwrap_err().into();
    assert_eq!(boxed.to_string(), "btf: needs 8 more bytes, but the file has 0 left (at byte 0)");
    assert!(size_of::<Error>() <= size_of::<usize>(), "a result is no larger for it");
}
