//! Where files go, and what they are called.

use std::path::{Path, PathBuf};

use tensorfile::{FORMATS, Format};

use crate::failure::{Failure, Outcome};

/// Where a file goes.
#[derive(Debug)]
pub struct Target {
    /// `-` is standard output.
    pub path: PathBuf,
    pub format: &'static Format,
    /// The most that a shard holds, where the file may be in shards.
    pub max_shard: Option<u64>,
}

impl Target {
    /// A file of that format, or else of that which the extension tells.
    pub fn new(path: &Path, format: Option<&'static Format>) -> Outcome<Self> {
        let extension = path.extension().unwrap_or_default();
        let has_extension = |format: &&Format| format.extensions.iter().any(|own| extension.eq_ignore_ascii_case(own));
        let format = format.or_else(|| FORMATS.iter().copied().find(has_extension)).ok_or_else(|| {
            let extensions: Vec<&str> = FORMATS.iter().flat_map(|format| format.extensions).copied().collect();
            let extensions = extensions.join(", .");
            Failure::usage(format_args!(
                "{}: the extension tells no format; give --to, or one of .{extensions}",
                path.display()
            ))
        })?;
        Ok(Self { path: path.to_owned(), format, max_shard: None })
    }

    pub fn in_shards(self, max_shard: Option<u64>) -> Self {
        Self { max_shard, ..self }
    }

    pub fn is_stdout(&self) -> bool {
        self.path == Path::new("-")
    }
}

/// `5GB`, `512MiB`, `1000`: a number of bytes.
pub fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1000,
        "mb" => 1000_u64.pow(2),
        "gb" => 1000_u64.pow(3),
        "tb" => 1000_u64.pow(4),
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        _ => return Err("expected a number of bytes, such as 5GB, 512MiB or 1000".to_owned()),
    };
    let number = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    number.filter(|bytes| *bytes > 0).ok_or_else(|| "expected a number of bytes from 1 on, such as 5GB".to_owned())
}

/// The path with something between its name and its extension.
pub fn beside(path: &Path, part: &str) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{part}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, expected) in
            [("1", 1), ("5GB", 5_000_000_000), ("5 gb", 5_000_000_000), ("2MiB", 2 << 20), ("7B", 7)]
        {
            assert_eq!(bytes(text), Ok(expected));
        }
        for wrong in ["", "0", "-1", "GB", "1.5GB", "5XB", "99999999TB"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_part_goes_before_the_extension() {
        assert_eq!(beside(Path::new("a/model.v1.ptd"), "encoder"), Path::new("a/model.v1-encoder.ptd"));
        assert_eq!(beside(Path::new("model"), "encoder"), Path::new("model-encoder"));
    }
}
