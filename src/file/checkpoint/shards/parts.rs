//! Models of several numbered files without an index: `m-00001-of-00002.gguf`.

use std::path::{Path, PathBuf};

use crate::error::{Result, Warning, WarningKind};
use crate::file::File;
use crate::file::checkpoint::index_of;
use crate::model::FilePart;

use super::index::malformed;

/// The number of a file and the number of files, as its name states them.
struct NumberedName {
    /// The name before the numbers.
    stem: String,
    /// The dot and the extension.
    end: String,
    /// From 1 on.
    number: u64,
    count: u64,
}

impl NumberedName {
    /// Parses `stem-00001-of-00002.end`.
    fn parse(path: &Path) -> Option<Self> {
        let (stem, extension) = (path.file_stem()?.to_str()?, path.extension()?.to_str()?);
        let (rest, count) = stem.rsplit_once("-of-")?;
        let (stem, number) = rest.rsplit_once('-')?;
        let parse = |text: &str| text.parse().ok().filter(|_| text.len() >= 5 && !text.starts_with('+'));
        let (number, count): (u64, u64) = (parse(number)?, parse(count)?);
        (1..=count).contains(&number).then(|| Self {
            stem: stem.to_owned(),
            end: format!(".{extension}"),
            number,
            count,
        })
    }

    fn name(&self, number: u64) -> String {
        let Self { stem, end, count, .. } = self;
        format!("{stem}-{number:05}-of-{count:05}{end}")
    }
}

/// Returns the paths of all files of a model, given one of them. `None` if its name is not numbered, or if files are
/// missing.
pub(in crate::file) fn all_parts(path: &Path, part: &FilePart) -> Option<Vec<PathBuf>> {
    let numbered = NumberedName::parse(path)?;
    if numbered.count != part.count || numbered.number.checked_sub(1) != Some(part.index) {
        return None;
    }
    // This file exists. The first missing one ends the search, so the stated number of files is never trusted.
    let path_of = |number| Some(path.with_file_name(numbered.name(number))).filter(|path| path.is_file());
    (1..=part.count).map(path_of).collect()
}

/// Returns the names of all files of a remote model, given the location of one of them. `None` if its name is not numbered.
pub(in crate::file) fn part_names(location: &Path, part: &FilePart) -> Option<Vec<String>> {
    /// Each costs a request before it is known whether the file is there.
    const MOST: u64 = 1000;

    let numbered = NumberedName::parse(location)?;
    if numbered.count != part.count || numbered.number.checked_sub(1) != Some(part.index) || part.count > MOST {
        return None;
    }
    Some((1..=part.count).map(|number| numbered.name(number)).collect())
}

/// Checks that a file is the part stated in its name.
pub(in crate::file) fn check_part(file: &File, number: u64, count: u64) -> Result<()> {
    let expected = number + 1;
    let found = match file.part {
        Some(part) if (part.index, part.count) == (number, count) => return Ok(()),
        Some(part) => format!("states that it is part {} of {}", part.index.saturating_add(1), part.count),
        None => "does not state that it is a part".to_owned(),
    };
    Err(malformed(format!("it {found}, but expected part {expected} of {count}")))
}

/// Returns a warning about parts whose total number of tensors differs from the stated one.
pub(super) fn count_warning(files: &[File]) -> Option<Warning> {
    let stated = files.iter().find_map(|file| file.part?.tensors)?;
    let found = files.iter().map(|file| file.len() as u64).fold(0, u64::saturating_add);
    let text = || format!("the parts state that they have {stated} tensors, but there are {found}");
    (found != stated).then(|| Warning::new(WarningKind::Part, text()))
}

/// Returns a warning about a single file with the name of a shard.
pub(in crate::file) fn part_warning(path: &Path) -> Option<Warning> {
    let numbered = NumberedName::parse(path).filter(|numbered| numbered.count > 1)?;
    let NumberedName { stem, end, number, count } = numbered;
    let index = index_of(&path.with_file_name(format!("{stem}{end}")));
    let text = if index.is_file() {
        let name = index.file_name().unwrap_or_default().display();
        format!("the file is shard {number} of {count}; `{name}` next to it opens all of them")
    } else {
        format!("the file is part {number} of {count}, by its name; the others are not opened with it")
    };
    Some(Warning::new(WarningKind::Part, text))
}
