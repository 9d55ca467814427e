//! Warnings about files, on standard error and in JSON.

use std::path::Path;

use serde::{Serialize, Serializer};
use tensorfile::report::WarningKind;
use tensorfile::{File, Warning};

use super::messages::warning;
use super::numbers::counted;

/// The warnings of a file that are printed, at most.
const MOST: usize = 10;

/// Returns the warnings of a file. That its metadata cannot be read is one, as its tensors can.
pub fn of_file(file: &File) -> Vec<Warning> {
    file.warnings().unwrap_or_else(|error| {
        let text = format!("the metadata cannot be read: {}", error.without_path());
        vec![Warning::new(WarningKind::Metadata, text)]
    })
}

/// Prints the warnings of a file that say that something of it is missing or different: once, whatever reads it again.
pub fn print(path: &Path, warnings: &[Warning]) {
    let printed: Vec<&Warning> = warnings.iter().filter(|warning| is_printed(warning.kind)).collect();
    for (index, text) in printed.iter().enumerate() {
        if index == MOST {
            let more = counted(printed.len() - MOST, "more warning");
            return warning(path, &format!("{more}; `tensorfile verify` lists all"));
        }
        warning(path, &text.text);
    }
}

/// Returns whether commands other than `verify` and `info` print warnings of this kind. The others are about how the
/// bytes are arranged, and about other software.
fn is_printed(kind: WarningKind) -> bool {
    use WarningKind::{Alignment, Gap, Name, Order, Version};

    !matches!(kind, Alignment | Gap | Name | Order | Version)
}

/// A warning in JSON.
#[derive(Debug, Serialize)]
pub struct WarningRow {
    #[serde(serialize_with = "name")]
    pub kind: WarningKind,
    pub tensor: Option<String>,
    pub offset: Option<u64>,
    pub text: String,
}

impl WarningRow {
    /// Returns the rows of a file.
    pub fn of_file(file: &File) -> Vec<Self> {
        of_file(file).into_iter().map(Self::from).collect()
    }
}

impl From<Warning> for WarningRow {
    fn from(Warning { kind, tensor, offset, text, .. }: Warning) -> Self {
        Self { kind, tensor, offset, text }
    }
}

fn name<S: Serializer>(kind: &WarningKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.name())
}
