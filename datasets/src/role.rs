//! What the files of a sample are, by their extensions.

use tensorfile::{ErrorKind, FORMATS, Format};

/// What a file is by its extension, and its name in a struct.
#[derive(Debug)]
pub(crate) enum Role<'e> {
    Tensors(&'static Format, &'e str),
    Number(&'e str),
    Text(&'e str),
    Blob(&'e str),
}

impl<'e> Role<'e> {
    pub(crate) fn of(extension: &'e str) -> Self {
        let (name, last) = extension.rsplit_once('.').unwrap_or((extension, extension));
        let kind = match last {
            "tb" | "tenbin" => "ten",
            last => last,
        };
        match kind {
            "cls" | "cls2" | "index" | "inx" | "id" => Self::Number(name),
            "txt" | "text" | "transcript" | "json" | "jsn" => Self::Text(name),
            kind => match FORMATS.iter().find(|format| format.extensions.contains(&kind)) {
                Some(format) => Self::Tensors(format, name),
                None => Self::Blob(extension),
            },
        }
    }

    /// Returns the name of a tensor of a file, which has `count` of them.
    pub(crate) fn tensor_name(format: &Format, name: &str, count: usize, inner: &str) -> String {
        /// Files of these formats mostly have one tensor.
        const SINGLE: &[&str] = &["btf", "npy", "ten"];

        if count == 1 && SINGLE.contains(&format.name) { name.to_owned() } else { format!("{name}.{inner}") }
    }
}

/// Copies text, and checks it.
pub(crate) fn text(name: &str, bytes: &[u8]) -> tensorfile::Result<String> {
    String::from_utf8(bytes.to_vec()).map_err(|error| {
        let what = format!(
            "`{name}` is not UTF-8: it has `{}`",
            error.as_bytes()[..error.as_bytes().len().min(32)].escape_ascii()
        );
        ErrorKind::Malformed { what }.into()
    })
}
