//! Errors of reading: kind, category, tensor and offset, in addition to the message.

use std::error::Error as _;

use ndarray::{Array1, Array2, array};
use tensorfile::report::InvalidTensor;
use tensorfile::{Arrays, Category, Error, ErrorKind, Limits, TensorMap, btf, ten};

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

    // Serde's own containers have no schema, so the first thing that does not fit is the error.
    let dtype = btf::from_slice::<(Arrays<Array1<f32>>,)>(&file()).unwrap_err();
    assert!(matches!(dtype.kind(), ErrorKind::WrongDtype { expected: tensorfile::Dtype::F32, .. }));
    assert_eq!((dtype.category(), dtype.tensor()), (Category::Mismatch, Some("#0")));

    let shape = btf::from_slice::<(Arrays<Array2<u8>>,)>(&file()).unwrap_err();
    assert!(matches!(shape.kind(), ErrorKind::WrongShape { expected, .. } if expected == "rank 2"));
    assert_eq!((shape.category(), shape.tensor()), (Category::Mismatch, Some("#0")));

    let all = btf::from_slice::<Arrays<Array2<u8>>>(&file()).unwrap_err();
    assert!(matches!(all.kind(), ErrorKind::Load(report) if report.wrong_shape[0].name == "#0"));
    assert_eq!((all.category(), all.tensor(), all.format()), (Category::Mismatch, None, Some("btf")));

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

#[cfg(feature = "safetensors")]
mod long_names {
    use std::collections::BTreeMap;

    use ndarray::Array2;
    use tensorfile::model::{TensorRecord, TensorSink};
    use tensorfile::view::SaveReport;
    use tensorfile::{
        Arrays, Category, ErrorKind, FORMATS, OpenOptions, Tensor, TensorFile, TensorMap, Tensors, WriteOptions,
        safetensors,
    };

    /// A name that is longer than messages should be.
    fn long_name() -> String {
        format!("first{}last", "ä".repeat(1 << 20))
    }

    /// The text in messages.
    fn shown() -> String {
        format!("first{}[… 1048361 characters …]{}last", "ä".repeat(107), "ä".repeat(108))
    }

    #[test]
    fn long_names_are_shortened_in_messages_only() {
        let (name, shown) = (long_name(), shown());
        let one = Tensor::from_slice(&[1_u8], [1]).unwrap();
        let file = safetensors::to_vec(&TensorMap::from_iter([(name.clone(), one.clone())])).unwrap();

        let error = safetensors::from_slice::<BTreeMap<String, Arrays<Array2<u8>>>>(&file).unwrap_err();
        assert_eq!(error.tensor(), Some(&*name));
        assert_eq!(
            error.to_string(),
            format!(
                "safetensors: tensor `{shown}`: the file has u8[1], but expected rank 2 (at byte {})",
                file.len() - 1
            )
        );

        let error = safetensors::from_slice::<Empty>(&file).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Load(report) if report.unexpected[0].name == name));
        assert!(error.to_string().contains(&format!("unexpected:\n  `{shown}`")), "{error}");

        let opened = OpenOptions::new().from_bytes(file).unwrap();
        let error = opened.get("weight").unwrap_err();
        assert_eq!(error.to_string(), format!("safetensors: missing tensor `weight`; the file has `{shown}`"));
        let report = opened.report::<Empty>();
        assert_eq!(report.unexpected[0].name, name);
        assert!(report.to_string().len() < 1000, "{report}");
        for format in FORMATS {
            let problems = SaveReport::new(&opened, format).unwrap().problems();
            assert!(problems.iter().all(|problem| problem.len() < 1000), "{problems:?}");
        }

        let repeated: Vec<(&str, &Tensor)> = vec![(&name, &one), (&name, &one)];
        let error = safetensors::FORMAT.to_vec(&Pairs(repeated), &WriteOptions::new()).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::RepeatedName { name: found } if *found == name));
        assert_eq!(error.to_string(), format!("safetensors: two tensors are named `{shown}`"));
    }

    #[test]
    fn long_texts_of_a_header_are_shortened() {
        let text = long_name();
        for header in [
            format!(r#"{{"a":{{"dtype":"U8","shape":"{text}","data_offsets":[0,1]}}}}"#),
            format!(r#"{{"a":"{text}"}}"#),
            format!(r#"{{"__metadata__":{{"{text}":"1","{text}":"2"}}}}"#),
            format!(r#"{{"{text}":{{"dtype":"U8","shape":[2],"data_offsets":[0,1]}}}}"#),
        ] {
            let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[1]].concat();
            let error = safetensors::from_slice::<TensorMap>(&file).unwrap_err();
            assert_eq!(error.category(), Category::File);
            assert!(error.to_string().len() < 1000, "{} bytes: {error}", error.to_string().len());
        }
    }

    #[test]
    fn long_dtypes_are_shortened_in_messages() {
        let header = format!(r#"{{"a":{{"dtype":"{}","shape":[1],"data_offsets":[0,1]}}}}"#, long_name());
        let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[1]].concat();
        let map = safetensors::from_slice::<TensorMap>(&file).unwrap();
        let error = map["a"].array::<u8>().unwrap_err().to_string();
        assert!(error.len() < 1000 && format!("{map:?}").len() < 1000, "{} bytes: {error}", error.len());
    }

    /// A type without tensors.
    #[derive(Debug, TensorFile)]
    struct Empty {}

    /// Tensors whose names may repeat.
    struct Pairs<'a>(Vec<(&'a str, &'a Tensor)>);

    impl Tensors for Pairs<'_> {
        fn send(&self, sink: &mut dyn TensorSink) -> tensorfile::Result<()> {
            self.0.iter().try_for_each(|(name, tensor)| {
                sink.tensor(&TensorRecord { name, info: tensor.info(), data: &tensor.as_bytes(), tied: None })
            })
        }
    }
}
