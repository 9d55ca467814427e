//! Files of other kinds under the extensions of tensor files: errors say what the files are.

use std::fs;

use tensorfile::model::{TensorRecord, TensorSink};
use tensorfile::{Category, ErrorKind, FORMATS, File, OpenOptions, Result, TensorMap, btf};

/// A page as servers send it, longer than the beginning that is read to find the format of a stream.
fn page() -> Vec<u8> {
    format!("<!DOCTYPE html>\n<html><body>{}</body></html>", "<p>Not found</p>".repeat(1000)).into_bytes()
}

/// Contents, and the message's words for them.
fn contents() -> Vec<(Vec<u8>, &'static str)> {
    let mut tar = b"weights.txt".to_vec();
    tar.resize(257, 0);
    tar.extend(b"ustar\x0000");
    tar.resize(1024, 0);
    vec![
        (page(), "the file is a web page; it begins with `<!DOCTYPE html>"),
        (b"<!doctype html>".to_vec(), "the file is a web page; it begins with `<!doctype html>`"),
        (
            b"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>".to_vec(),
            "the file is XML, such as the error of a server; it begins with `<?xml version=\"1.0\"?><Error><Code>AccessDenied<",
        ),
        (
            b"{\"error\": \"Repository not found\"}".to_vec(),
            "the file is JSON, such as the error of a server; it begins with `{\"error\": \"Repository not found\"}`",
        ),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146".to_vec(),
            "the file is a pointer of Git LFS, not the file that it stands for, which `git lfs pull` fetches; it begins",
        ),
        (b"Access denied".to_vec(), "the file is text; it begins with `Access denied`"),
        (
            b"\x1f\x8b\x08\0\0\0\0\0\0\x03".to_vec(),
            "the file is compressed with gzip, which `gzip -d` undoes; it begins",
        ),
        (b"\x28\xb5\x2f\xfd\x04\0\x99\0".to_vec(), "the file is compressed with Zstandard, which `zstd -d` undoes; it"),
        (tar, "the file is a tar archive, which `tar -xf` unpacks; it begins with `weights.`"),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3".to_vec(), "the file is a PDF document; it begins with `%PDF-1.7`"),
        (b"\x89HDF\r\n\x1a\n\0\0\0".to_vec(), "the file is an HDF5 file, as Keras and h5py write; it begins with"),
        (b"\x80\x04\x95\x0a\0\0\0\0\0\0\0}".to_vec(), "the file is a Python pickle, but not one of `torch.save`; it"),
        (
            b"\x08\x08\x12\x07pytorch\x1a\x052.7.1:\xc0\x01".to_vec(),
            "the file is an ONNX model, whose weights Python saves: `m = onnx.load(PATH)`, `safetensors.numpy.save_file(",
        ),
        (b"\x08\x07:\xc0\x01\n\x0b\n\x01x\n\x01w".to_vec(), "the file is an ONNX model, whose weights Python saves: "),
        (vec![0; 100], "the file is all zeros (at byte 0)"),
        (vec![0; 10_000], "the file is not a model: its first 512 bytes are zeros (at byte 0)"),
    ]
}

fn check(result: Result<impl Sized>, expected: &str, about: &str) {
    let error = result.err().unwrap_or_else(|| panic!("{about}: no error"));
    assert!(matches!(error.kind(), ErrorKind::NotTensors { .. }), "{about}: {error}");
    assert_eq!((error.category(), error.offset()), (Category::File, Some(0)), "{about}");
    let message = error.without_path().to_string();
    assert!(message.starts_with(expected), "{about}: {message}");
}

#[test]
fn every_extension_says_what_a_file_is() {
    let folder = tempfile::tempdir().unwrap();
    let extensions = FORMATS.iter().flat_map(|format| format.extensions).chain(&["bin"]);
    for extension in extensions {
        for (content, expected) in contents() {
            let path = folder.path().join(format!("model.{extension}"));
            fs::write(&path, &content).unwrap();
            check(File::open(&path), expected, extension);
            check(tensorfile::load::<TensorMap>(&path), expected, extension);
            check(tensorfile::file::load_tensor(&path, "a"), expected, extension);
        }
    }
}

#[test]
fn every_way_to_read_says_what_a_file_is() {
    struct Nothing;
    impl TensorSink for Nothing {
        fn tensor(&mut self, _: &TensorRecord<'_>) -> Result<()> {
            Ok(())
        }
    }

    for (content, expected) in contents() {
        check(File::from_bytes(content.clone()), expected, "bytes");
        check(OpenOptions::new().read_index(&content[..]), expected, "stream");
        for format in FORMATS.iter().copied() {
            // Zeros are a BTF file of no tensors, with bytes after it.
            if format.name == "btf" && content[0] == 0 {
                continue;
            }
            let options = OpenOptions::new().format(format);
            check(options.from_bytes(content.clone()), expected, format.name);
            check(options.read_in_order(&content[..], &mut Nothing), expected, format.name);
            check(format.from_slice(&content), &format!("{}: {expected}", format.name), format.name);
        }
    }
}

/// The bytes decide, even if they begin like something else.
#[test]
fn tensor_files_that_begin_like_others_are_read() {
    // A count of tensors whose bytes are the magic of gzip.
    let count = 0x8b1f;
    let map: TensorMap =
        (0..count).map(|at: u32| (at.to_string(), tensorfile::Tensor::from_slice::<u8>(&[], [0]).unwrap())).collect();
    let bytes = btf::to_vec(&map).unwrap();
    assert!(bytes.starts_with(b"\x1f\x8b"));
    assert_eq!(File::from_bytes(bytes).unwrap().len(), count as usize);
}
