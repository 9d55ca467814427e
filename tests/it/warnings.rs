//! Warnings about readable files: when they occur, and how they become errors.

use std::io::Cursor;

use tensorfile::model::{TensorRecord, TensorSink};
use tensorfile::report::WarningKind;
use tensorfile::{Category, Error, ErrorKind, File, OpenOptions, TensorMap, btf, ten};

use crate::support::{format, ten_file_of};

/// A sink that ignores tensors.
struct Ignore;

impl TensorSink for Ignore {
    fn tensor(&mut self, _: &TensorRecord<'_>) -> tensorfile::Result<()> {
        Ok(())
    }
}

/// Returns a safetensors file with this header.
#[cfg(feature = "safetensors")]
fn safetensors(json: &str, payload: &[u8]) -> Vec<u8> {
    [&(json.len() as u64).to_le_bytes(), json.as_bytes(), payload].concat()
}

/// Files with warnings: format, contents, and kind, tensor and text of each.
#[expect(clippy::type_complexity, reason = "a table")]
fn cases() -> Vec<(&'static str, Vec<u8>, Vec<(WarningKind, Option<&'static str>, &'static str)>)> {
    let two = [("0", ndarray::array![1.0_f32, 2.0]), ("1", ndarray::array![3.0])];
    let mut hole = btf::to_vec(&TensorMap::from_iter(two)).unwrap();
    let offset = u64::from_le_bytes(hole[16..24].try_into().unwrap());
    let second = hole.split_off(usize::try_from(offset).unwrap());
    hole.extend_from_slice(&[0; 100_000]);
    hole.extend_from_slice(&second);
    hole[16..24].copy_from_slice(&(offset + 100_000).to_le_bytes());
    let mut longer = btf::to_vec(&TensorMap::new()).unwrap();
    longer.extend_from_slice(b"more");
    vec![
        ("ten", ten_file_of(&["a", "b"]), vec![]),
        (
            "btf",
            longer,
            vec![(WarningKind::TrailingBytes, None, "4 bytes at the end, from byte 8 on, belong to no tensor")],
        ),
        ("btf", hole, vec![(WarningKind::Gap, None, "there is a gap of 100,024 bytes between payloads")]),
        #[cfg(feature = "safetensors")]
        (
            "safetensors",
            safetensors(
                r#"{"a":{"dtype":"F99","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"F98","shape":[],"data_offsets":[3,4]},"c":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}  }"#,
                &[0; 8],
            ),
            vec![
                (
                    WarningKind::UnknownDtype,
                    Some("a"),
                    "2 tensors cannot be read, because of an unknown dtype; the first is `a`, F99[3] of unknown dtype",
                ),
                (
                    WarningKind::Alignment,
                    Some("c"),
                    "1 tensor cannot be borrowed, because the elements are not aligned; the first is `c`",
                ),
            ],
        ),
    ]
}

#[test]
fn metadata_has_the_warnings_of_the_index() {
    for (name, bytes, expected) in cases() {
        let file = OpenOptions::new().format(format(name)).from_bytes(bytes).unwrap();
        let found = file.warnings().unwrap();
        assert_eq!(file.metadata().unwrap().warnings, found, "{name}");
        let found: Vec<_> =
            found.iter().map(|warning| (warning.kind, warning.tensor.as_deref(), warning.text.as_str())).collect();
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn warnings_can_be_denied() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes, expected) in cases() {
        let path = folder.path().join("file").with_extension(name);
        std::fs::write(&path, &bytes).unwrap();
        let allowed: Vec<WarningKind> = WarningKind::ALL
            .iter()
            .copied()
            .filter(|kind| expected.iter().all(|(denied, ..)| kind != denied))
            .collect();
        let open = |options: &OpenOptions| -> Vec<Option<Error>> {
            let options = options.clone().format(format(name));
            vec![
                options.open(&path).err(),
                options.from_bytes(bytes.clone()).err(),
                options.from_reader(Cursor::new(bytes.clone())).err(),
                options.read_in_order(&bytes[..], &mut Ignore).err(),
                options.read_index(&bytes[..]).err(),
            ]
        };
        for opened in open(&OpenOptions::new().deny_warnings(&allowed)) {
            assert!(opened.is_none(), "{name}: {opened:?}");
        }
        for (at, (kind, tensor, text)) in expected.iter().enumerate() {
            for error in open(&OpenOptions::new().deny_warnings(&[*kind])) {
                let error = error.unwrap();
                let tensor_name = tensor.map(|tensor| format!("tensor `{tensor}`: ")).unwrap_or_default();
                let message = format!("{name}: {tensor_name}{text}; warnings of the kind {kind} are denied");
                assert_eq!(error.without_path().to_string(), message);
                assert_eq!((error.category(), error.tensor()), (Category::File, *tensor));
                assert!(matches!(error.kind(), ErrorKind::Warning { warning, others: 0 }
                    if warning.kind == *kind && warning.tensor.as_deref() == *tensor));
            }
            let error = open(&OpenOptions::new().deny_warnings(WarningKind::ALL)).remove(0).unwrap();
            let others = expected.len() - 1;
            assert!(matches!(error.kind(), ErrorKind::Warning { others: found, .. } if *found == others), "{at}");
        }
    }
}

#[test]
fn an_extension_of_another_format_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.btf");
    std::fs::write(&path, ten::to_vec(&TensorMap::from_iter([("a", ndarray::array![1.0_f32])])).unwrap()).unwrap();
    let warnings = File::open(&path).unwrap().warnings().unwrap();
    let found: Vec<_> = warnings.iter().map(|warning| (warning.kind, warning.text.as_str())).collect();
    assert_eq!(found, [(WarningKind::Extension, "the file is ten, but its extension is that of btf")]);
}

#[test]
fn kinds_have_names() {
    for kind in WarningKind::ALL {
        assert_eq!(kind.name().parse(), Ok(*kind));
        assert!(kind.name().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{kind}");
    }
    let error = "no-such".parse::<WarningKind>().unwrap_err().to_string();
    assert!(
        error.starts_with("unknown kind of warning; expected alignment, damaged, duplicate-name, extension, "),
        "{error}"
    );
}
