//! Metadata as entries, the form common to all formats.

use indexmap::IndexMap;

use super::metadata::{MetadataSummary, is_known};
use super::{FORMAT, Operation, Options};
use crate::error::{Error, ErrorKind, Result, Short, Warning, WarningKind};
use crate::limits::Limits;
use crate::model::FileMetadata;
use crate::storage::ReadAt;
use crate::write::WriteOptions;

/// The key of the name of the model.
const MODEL: &str = "model";

/// The key of the operations: one line each, of its id, the number of its kind, the output and the inputs.
const OPERATIONS: &str = "tensorbuffers.operations";

pub(super) fn keeps(key: &str) -> bool {
    [MODEL, OPERATIONS].contains(&key)
}

pub(super) fn options(write: &WriteOptions) -> Result<Options> {
    write.only_metadata(&FORMAT)?;
    let mut options = Options::new();
    if let Some(bytes) = write.alignment {
        options = options.alignment(bytes);
    }
    if let Some(model) = write.metadata.get(MODEL) {
        options = options.model(model);
    }
    if let Some(operations) = write.metadata.get(OPERATIONS) {
        options = options.operations(operations.lines().map(parse).collect::<Result<Vec<_>>>()?);
    }
    Ok(options)
}

/// Sets an entry with a supported key.
pub(super) fn set(
    model: &mut Option<String>,
    operations: &mut Option<Vec<Operation>>,
    key: &str,
    value: &str,
) -> Result<()> {
    match key {
        MODEL => *model = Some(value.to_owned()),
        _ => *operations = Some(value.lines().map(parse).collect::<Result<Vec<_>>>()?),
    }
    Ok(())
}

/// Removes an entry.
pub(super) fn unset(model: &mut Option<String>, operations: &mut Option<Vec<Operation>>, key: &str) {
    match key {
        MODEL => *model = None,
        _ => *operations = None,
    }
}

pub(super) fn file_metadata(file: &mut dyn ReadAt, limits: &Limits) -> Result<FileMetadata> {
    let MetadataSummary { version, model, operations, is_sorted, wrong_ids, first_wrong, first_repeated } =
        MetadataSummary::read(file, limits)?;
    let entries = entries(model, &operations);
    let mut warnings = Vec::new();
    if !is_known(&version) {
        let text = format!("the version is `{}`, but the format is known as 1.x", Short(&version));
        warnings.push(Warning::new(WarningKind::Version, text));
    }
    if let Some(name) = first_repeated {
        let short = Short(&name);
        let text = format!("several tensors have the id of `{short}`; the reference reader finds one of them");
        warnings.push(Warning::new(WarningKind::DuplicateName, text).in_tensor(name));
    }
    if !is_sorted {
        let text = "the tensors are not sorted by id, so the reference reader misses most of them";
        warnings.push(Warning::new(WarningKind::Order, text));
    }
    if let Some(name) = first_wrong {
        let short = Short(&name);
        let text = format!(
            "{wrong_ids} tensors, `{short}` first, have ids that are not those of their names; the reference reader misses them"
        );
        warnings.push(Warning::new(WarningKind::Name, text).in_tensor(name));
    }
    Ok(FileMetadata { version: Some(version), entries, warnings, ..FileMetadata::default() })
}

/// Returns the entries of a file.
pub(super) fn entries(model: Option<String>, operations: &[Operation]) -> IndexMap<String, String> {
    let mut entries = IndexMap::new();
    entries.extend(model.map(|model| (MODEL.to_owned(), model)));
    if !operations.is_empty() {
        let lines: Vec<String> = operations.iter().map(line).collect();
        entries.insert(OPERATIONS.to_owned(), lines.join("\n"));
    }
    entries
}

fn line(operation: &Operation) -> String {
    let Operation { id, operation, output, inputs } = operation;
    let inputs: String = inputs.iter().map(|input| format!(" {input}")).collect();
    format!("{id} {operation} {output}{inputs}")
}

fn parse(line: &str) -> Result<Operation> {
    let mut numbers = line.split(' ');
    let mut operation = || {
        Some(Operation {
            id: numbers.next()?.parse().ok()?,
            operation: numbers.next()?.parse().ok()?,
            output: numbers.next()?.parse().ok()?,
            inputs: numbers.by_ref().map(|number| number.parse().ok()).collect::<Option<_>>()?,
        })
    };
    operation().ok_or_else(|| {
        let instead = "expected numbers: id, operation, output and inputs".to_owned();
        Error::new(ErrorKind::Unsupported { what: format!("write the operation `{}`", Short(line)), instead })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_come_back_from_their_lines() {
        let operation = Operation { id: 7, operation: -15, output: u64::MAX, inputs: vec![1, 0] };
        assert_eq!(line(&operation), "7 -15 18446744073709551615 1 0");
        assert_eq!(parse(&line(&operation)).unwrap(), operation);
        let error = parse("7 1").unwrap_err().to_string();
        assert_eq!(error, "cannot write the operation `7 1`; expected numbers: id, operation, output and inputs");
    }
}
