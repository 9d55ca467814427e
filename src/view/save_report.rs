//! A report of everything unsupported by a format, before saving.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result, Short};
use crate::format::Format;
use crate::model::{TensorRecord, TensorSink, Tensors};
use crate::tensor::Dtype;
use crate::write::{Encode, WriteOptions, check_tensor};

/// Reports everything that keeps tensors from being saved in a format, before anything is written.
///
/// Saving stops at the first unsupported tensor; the report lists all of them.
///
/// ```
/// use tensorfile::view::SaveReport;
/// use tensorfile::{Format, Tensor, TensorMap};
///
/// let map: TensorMap = [
///     ("embed.weight", Tensor::from_slice(&[1.0_f32], [1])?),
///     ("mask", Tensor::from_slice(&[true, false], [2])?),
/// ]
/// .into_iter()
/// .collect();
/// let ten = Format::named("ten").expect("every build has it");
/// let report = SaveReport::new(&map, ten)?;
/// assert!(!report.is_ok());
/// assert_eq!(report.tensors[0].0, "mask");
/// assert_eq!(report.problems()[0], "tensor `mask`: cannot store bool; ten stores f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64");
/// assert_eq!(report.unstored_names, 1);
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct SaveReport {
    /// The format.
    pub format: &'static Format,
    /// The unsupported tensors by name, each with the reason.
    pub tensors: Vec<(String, Error)>,
    /// The number of tensors found, if the format requires a different number; see
    /// [`FormatSpec::max_tensors`](crate::format::FormatSpec::max_tensors).
    pub wrong_count: Option<usize>,
    /// The reason why the tensors cannot be stored together, if each could be stored alone.
    pub file: Option<Error>,
    /// The number of unsupported names.
    ///
    /// [`WriteOptions::embed_names`] stores them in an extra tensor, if the format [has room for
    /// it](Self::can_embed_names). Otherwise a format without names drops them, and one with short names, such as gguf,
    /// refuses them: [`file`](Self::file) is then the error.
    pub unstored_names: usize,
}

impl SaveReport {
    /// Checks tensors against a format. No payload is read.
    ///
    /// A name equal to the position of its tensor, such as `2` for the third one, counts as no name.
    ///
    /// # Errors
    ///
    /// As [`Tensors::send`].
    pub fn new(tensors: &dyn Tensors, format: &'static Format) -> Result<Self> {
        let report = Self { format, tensors: Vec::new(), wrong_count: None, file: None, unstored_names: 0 };
        // A read-only format is one problem, not one per tensor.
        let encode = (format.encode)(&WriteOptions::new()).ok();
        let mut sink = ReportSink { report, encode, count: 0 };
        tensors.send(&mut sink)?;
        let ReportSink { mut report, count, .. } = sink;
        report.wrong_count = format.max_tensors.is_some_and(|tensors| tensors != count).then_some(count);
        if report.is_ok() {
            let embed_names = report.unstored_names > 0 && report.can_embed_names();
            report.file = check(format, tensors, embed_names).err();
        }
        Ok(report)
    }

    /// Returns whether the tensors can be saved, if unsupported names are embedded or dropped.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.tensors.is_empty() && self.wrong_count.is_none() && self.file.is_none()
    }

    /// Returns a message for each reason that the tensors cannot be saved.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut problems: Vec<String> =
            self.tensors.iter().map(|(name, error)| format!("tensor `{}`: {}", Short(name), error.kind())).collect();
        if let Some((count, expected)) = self.wrong_count.zip(self.format.max_tensors) {
            let (format, s) = (self.format.name, if expected == 1 { "" } else { "s" });
            problems.push(format!("{format} stores {expected} tensor{s} in a file, not {count}"));
        }
        problems.extend(self.file.as_ref().map(ToString::to_string));
        problems
    }

    /// Returns whether the format has room for an extra tensor with the unsupported names.
    #[must_use]
    pub fn can_embed_names(&self) -> bool {
        self.format.max_tensors.is_none() && self.format.dtypes.contains(&Dtype::U8)
    }
}

impl fmt::Display for SaveReport {
    /// Writes the [problems](Self::problems), a line for each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems().join("\n"))
    }
}

struct ReportSink {
    report: SaveReport,
    encode: Option<Arc<dyn Encode>>,
    count: usize,
}

impl TensorSink for ReportSink {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        let format = self.report.format;
        let is_position = tensor.name == self.count.to_string();
        let has_room = format.has_room_for(tensor.name);
        self.report.unstored_names += usize::from(!is_position && !has_room);
        self.count += 1;
        // An unsupported name is embedded, dropped, or an error of the file.
        let name = if has_room { tensor.name } else { "0" };
        let checked = self.encode.as_ref().map(|encode| check_tensor(&TensorRecord { name, ..*tensor }, &**encode));
        if let Some(Err(error)) = checked {
            let error = error.in_tensor(tensor.name).in_format(format.name);
            self.report.tensors.push((tensor.name.to_owned(), error));
        }
        Ok(())
    }
}

fn check(format: &Format, tensors: &dyn Tensors, embed_names: bool) -> Result<()> {
    let options = WriteOptions::new().embed_names(embed_names);
    format.file_bytes(tensors, &options).map(drop)
}

#[cfg(test)]
mod tests {
    use super::super::support::Stored;
    use super::*;
    use crate::tensor::Dtype;

    fn format(name: &str) -> &'static Format {
        Format::named(name).unwrap()
    }

    #[test]
    fn names_are_not_errors() {
        let tensors = vec![("a.long.name", Stored::new(Dtype::U8, &[1], 0)), ("1", Stored::new(Dtype::U8, &[1], 1))];
        for (name, unstored_names) in [("btf", 1), ("ten", 1)] {
            let report = SaveReport::new(&tensors, format(name)).unwrap();
            assert!(report.is_ok(), "{name}: {report}");
            assert_eq!(report.unstored_names, unstored_names, "{name}");
        }
    }

    #[test]
    fn reports_every_tensor() {
        let bool = |id| Stored::new(Dtype::Bool, &[1], id);
        let tensors = vec![("a", bool(0)), ("b", Stored::new(Dtype::U8, &[1], 1)), ("c", bool(2))];
        let report = SaveReport::new(&tensors, format("btf")).unwrap();
        let expected = "cannot store bool; btf stores i8, i16, i32, i64, f32, f64, u8, u16, u32, u64";
        assert_eq!(report.to_string(), format!("tensor `a`: {expected}\ntensor `c`: {expected}"));
    }

    #[test]
    fn reports_a_wrong_count() {
        let tensors = vec![("0", Stored::new(Dtype::U8, &[1], 0)), ("1", Stored::new(Dtype::U8, &[1], 1))];
        // Only npy has one tensor in a file.
        let Some(npy) = crate::FORMATS.iter().find(|format| format.max_tensors.is_some()) else { return };
        let report = SaveReport::new(&tensors, npy).unwrap();
        assert_eq!(report.problems(), ["npy stores 1 tensor in a file, not 2"]);
    }
}
