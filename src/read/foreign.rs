//! Recognizes common files without tensors by their magic, so that errors say what was saved instead of a model.

use crate::error::{Category, Error, ErrorKind};
use crate::model::FormatSpec;
use crate::storage::ReadAt;

/// The number of bytes inspected.
pub(crate) const BEGIN: usize = 512;

/// The shortest recognizable file.
const SHORTEST: usize = 8;
/// The most bytes of a text file in a message.
const SHOWN: usize = 64;
/// The most bytes of a binary file in a message.
const SHOWN_BINARY: usize = 8;

/// The pointer that Git LFS stores in place of a file.
const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";

/// Kinds of binary files: the offset of their magic, the magic, and what they are.
const BINARIES: &[(usize, &[u8], &str)] = &[
    (0, b"\x1f\x8b", "compressed with gzip, which `gzip -d` undoes"),
    (0, b"\x28\xb5\x2f\xfd", "compressed with Zstandard, which `zstd -d` undoes"),
    (0, b"BZh", "compressed with bzip2, which `bzip2 -d` undoes"),
    (0, b"\xfd7zXZ\0", "compressed with xz, which `xz -d` undoes"),
    (0, b"\x04\x22\x4d\x18", "compressed with LZ4, which `lz4 -d` undoes"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive, which `7z x` unpacks"),
    (0, b"Rar!\x1a\x07", "a RAR archive"),
    (0, b"PK\x03\x04", "a zip archive, which `unzip` unpacks"),
    (0, b"sys_info\0", "a tar archive, as PyTorch before 0.1.10 wrote them; load and save it with a newer one"),
    (257, b"ustar", "a tar archive, which `tar -xf` unpacks"),
    (0, b"%PDF-", "a PDF document"),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras and h5py write"),
    (0, b"PAR1", "a Parquet file"),
    (0, b"ARROW1\0\0", "an Arrow file"),
    (4, b"TFL3", "a TensorFlow Lite model"),
    (0, b"lmgg", "a GGML file of llama.cpp from before GGUF"),
    (0, b"fmgg", "a GGML file of llama.cpp from before GGUF"),
    (0, b"tjgg", "a GGML file of llama.cpp from before GGUF"),
    (0, b"MATLAB 5.0 MAT-file", "a MATLAB file"),
    (0, b"SQLite format 3\0", "an SQLite database"),
    (0, b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (0, b"\xff\xd8\xff", "a JPEG image"),
    (0, b"\x7fELF", "a program or a library for Linux"),
    (0, b"\x80\x02", "a Python pickle, but not one of `torch.save`"),
    (0, b"\x80\x03", "a Python pickle, but not one of `torch.save`"),
    (0, b"\x80\x04\x95", "a Python pickle, but not one of `torch.save`"),
    (0, b"\x80\x05\x95", "a Python pickle, but not one of `torch.save`"),
];

/// Returns the beginning of a file for [`recognize`], and whether it is the whole file.
pub(crate) fn begin_of<'b>(file: &mut dyn ReadAt, begin: &'b mut [u8; BEGIN]) -> Option<(&'b [u8], bool)> {
    // A stream of unknown length counts as long.
    let len = file.file_len().unwrap_or(u64::MAX);
    let begin = &mut begin[..usize::try_from(len).map_or(BEGIN, |len| len.min(BEGIN))];
    file.read_at(0, begin).ok()?;
    Some((begin, begin.len() as u64 == len))
}

const ONNX: &str = "an ONNX model, whose weights Python saves: `m = onnx.load(PATH)`, \
                    `safetensors.numpy.save_file({t.name: onnx.numpy_helper.to_array(t) for t in m.graph.initializer}, OUT)`";

/// Returns whether a file begins as an ONNX model: a message of Protocol Buffers without a magic, with the version of
/// the format in field 1, and then the name of the program that wrote it in field 2, or the graph in field 7 or the
/// operators in field 8.
fn is_onnx(begin: &[u8]) -> bool {
    match *begin {
        [0x08, 1..=32, 0x12, len, ref rest @ ..] => {
            let name = rest.get(..usize::from(len)).filter(|name| !name.is_empty());
            name.is_some_and(|name| name.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' '))
        }
        [0x08, 1..=32, 0x3a | 0x42, ..] => true,
        _ => false,
    }
}

/// Returns the error for a file recognized as something else than tensors. `is_whole` is set if `begin` is the whole
/// file.
///
/// Called only after all formats refused the file and no magic matched: by chance, a tensor file may look like another
/// kind.
pub(crate) fn recognize(begin: &[u8], is_whole: bool) -> Option<Error> {
    let begin = &begin[..begin.len().min(BEGIN)];
    // A few bytes may be the beginning of anything.
    if begin.len() < SHORTEST {
        return None;
    }
    if begin.iter().all(|byte| *byte == 0) {
        let what = if is_whole { "all zeros" } else { "not a model: its first 512 bytes are zeros" };
        return (begin.len() == BEGIN || is_whole).then(|| error(what, &[]));
    }
    let is_binary =
        |(offset, magic, _): &&(usize, &[u8], &str)| begin.get(*offset..).is_some_and(|begin| begin.starts_with(magic));
    let what = match BINARIES.iter().find(is_binary) {
        Some((_, _, what)) => *what,
        None if is_onnx(begin) => ONNX,
        None => text_kind(text(begin)?),
    };
    let is_text = text(begin).is_some();
    let shown = &begin[..begin.len().min(if is_text { SHOWN } else { SHOWN_BINARY })];
    // Archives begin with a name.
    let shown = shown.split(|byte| *byte == 0).next().filter(|name| name.len() > 4).unwrap_or(shown);
    Some(error(what, shown))
}

/// Replaces the error for a malformed file in memory by one that names its actual kind, if recognized.
pub(crate) fn or_other(error: Error, spec: &FormatSpec, file: &[u8]) -> Error {
    let is_file = matches!(error.category(), Category::File | Category::Limit);
    let may_be_other = is_file && !spec.has_magic(file);
    let other = may_be_other.then(|| recognize(file, file.len() <= BEGIN)).flatten();
    other.map_or(error, |other| other.in_format(spec.name))
}

fn error(what: &'static str, begin: &[u8]) -> Error {
    Error::new(ErrorKind::NotTensors { what, found: begin.to_vec() }).at(0)
}

/// Returns the beginning as text, if it is text.
fn text(begin: &[u8]) -> Option<&str> {
    let text = match std::str::from_utf8(begin) {
        Ok(text) => text,
        // The last letter may be cut.
        Err(error) if error.error_len().is_none() => std::str::from_utf8(&begin[..error.valid_up_to()]).ok()?,
        Err(_) => return None,
    };
    let is_text = |letter: char| !letter.is_control() || matches!(letter, '\t' | '\n' | '\r' | '\x0c');
    (!text.is_empty() && text.chars().all(is_text)).then_some(text)
}

fn text_kind(text: &str) -> &'static str {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let has_tag = |tag: &str| {
        let text = text.as_bytes();
        text.get(..tag.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(tag.as_bytes()))
    };
    match () {
        () if text.as_bytes().starts_with(LFS_POINTER) => {
            "a pointer of Git LFS, not the file that it stands for, which `git lfs pull` fetches"
        }
        () if has_tag("<!doctype html") || has_tag("<html") || has_tag("<head") => "a web page",
        () if has_tag("<?xml") || has_tag("<error") => "XML, such as the error of a server",
        () if text.starts_with(['{', '[']) => "JSON, such as the error of a server",
        () => "text",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(begin: &[u8]) -> Option<String> {
        recognize(begin, true).map(|error| error.to_string())
    }

    #[test]
    fn files_say_what_they_are_and_how_they_begin() {
        for (begin, expected) in [
            (
                &b"<!DOCTYPE html><html><title>404"[..],
                "the file is a web page; it begins with `<!DOCTYPE html><html><title>404` (at byte 0)",
            ),
            (b"\n <HTML>", r"the file is a web page; it begins with `\n <HTML>` (at byte 0)"),
            (
                b"{\"error\":404}",
                "the file is JSON, such as the error of a server; it begins with `{\"error\":404}` (at byte 0)",
            ),
            (
                b"<?xml version=\"1.0\"?>",
                "the file is XML, such as the error of a server; it begins with `<?xml version=\"1.0\"?>` (at byte 0)",
            ),
            (
                "Zugriff verweigert: größe".as_bytes(),
                "the file is text; it begins with `Zugriff verweigert: größe` (at byte 0)",
            ),
            (
                b"\x1f\x8b\x08\0\0\0\0\0",
                r"the file is compressed with gzip, which `gzip -d` undoes; it begins with `\x1f\x8b\x08\x00\x00\x00\x00\x00` (at byte 0)",
            ),
            (&[0; 100], "the file is all zeros (at byte 0)"),
        ] {
            assert_eq!(message(begin).as_deref(), Some(expected));
        }
        let mut tar = [0; BEGIN];
        tar[..5].copy_from_slice(b"a.txt");
        tar[257..262].copy_from_slice(b"ustar");
        assert!(message(&tar).unwrap().starts_with("the file is a tar archive, which `tar -xf` unpacks; it begins"));
    }

    #[test]
    fn long_text_is_cut_between_letters() {
        let text = "ä".repeat(BEGIN);
        let shown = "ä".repeat(SHOWN / 2);
        for start in 0..2 {
            let text = &text.as_bytes()[2 * start..][..BEGIN - start];
            assert_eq!(message(text).unwrap(), format!("the file is text; it begins with `{shown}` (at byte 0)"));
        }
    }

    #[test]
    fn other_bytes_are_not_guessed_at() {
        for begin in [&b""[..], b"\x02\0\0\0text", b"\xff\xfetext, and more", b"text"] {
            assert_eq!(message(begin), None, "{begin:?}");
        }
    }
}
