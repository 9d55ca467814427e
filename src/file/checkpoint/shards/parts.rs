//! Models of several numbered files without an index: `m-00001-of-00002.gguf`.

use std::path::Path;

use super::index::malformed;
use super::join::join_files;
use crate::error::{Result, Warning, WarningKind};
use crate::file::checkpoint::index_of;
use crate::file::place::Siblings;
use crate::file::{File, OpenOptions};
use crate::model::{FileMetadata, FilePart};

/// The number of a file and the number of files, as stated in a file name.
struct NumberedName {
    /// The name before the numbers.
    stem: String,
    /// The dot and the extension.
    end: String,
    /// The number of the file, from 1.
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

/// Returns the names of all files of a model, given one of them. `None` if its name is not numbered, or if a file is
/// missing.
pub(in crate::file::checkpoint) fn part_names(
    path: &Path,
    part: &FilePart,
    siblings: &dyn Siblings,
) -> Option<Vec<String>> {
    /// The most files on a server, because it takes a request to find out whether one exists.
    const MOST: u64 = 1000;

    let numbered = NumberedName::parse(path)?;
    if numbered.count != part.count || numbered.number.checked_sub(1) != Some(part.index) {
        return None;
    }
    // This file exists. The first missing one ends the search, so the stated number of files is never trusted.
    let name_of = |number| {
        let name = numbered.name(number);
        siblings.has(&name).unwrap_or(part.count <= MOST).then_some(name)
    };
    (1..=part.count).map(name_of).collect()
}

impl OpenOptions {
    /// Opens the other numbered files of a model, and joins all of them. If one is missing, returns the file alone.
    pub(in crate::file::checkpoint) fn open_parts(
        &self,
        open: File,
        path: &Path,
        names: &[String],
        siblings: &dyn Siblings,
    ) -> Result<File> {
        let own = open.part.as_ref().map_or(0, |part| part.index);
        let others: Vec<&str> =
            (0..).zip(names).filter(|(number, _)| *number != own).map(|(_, name)| &**name).collect();
        let mut files = match self.open_files(siblings, &others, &|i, error| siblings.cannot_open(others[i], error)) {
            Err(error) if error.is_not_found() => return Ok(open),
            opened => opened?,
        };
        files.insert(usize::try_from(own).unwrap_or(usize::MAX).min(files.len()), open);
        for (number, file) in (0..).zip(&files) {
            let shard = file.location.as_deref().unwrap_or(path);
            let checked = check_part(file, number, names.len() as u64);
            checked.map_err(|error| error.in_format(file.format.name).in_shard(shard, 0))?;
        }
        let metadata =
            FileMetadata { warnings: count_warning(&files).into_iter().collect(), ..FileMetadata::default() };
        join_files(files, metadata, path, &self.limits, &mut |_, _| true)
    }
}

/// Checks that a file is the part stated in its name.
fn check_part(file: &File, number: u64, count: u64) -> Result<()> {
    let expected = number + 1;
    let found = match file.part {
        Some(part) if (part.index, part.count) == (number, count) => return Ok(()),
        Some(part) => format!("states that it is part {} of {}", part.index.saturating_add(1), part.count),
        None => "does not state that it is a part".to_owned(),
    };
    Err(malformed(format!("it {found}, but expected part {expected} of {count}")))
}

/// Returns a warning about parts whose total number of tensors differs from the stated one.
fn count_warning(files: &[File]) -> Option<Warning> {
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
