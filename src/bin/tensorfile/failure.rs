//! How a run ends: exit codes and messages.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use tensorfile::{Category, Error, ErrorKind};

use crate::out::note;

/// What a verb that ran to its end has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// All is well.
    Fine,
    /// What was looked for is not so: files differ, a number is NaN, a file does not verify.
    Finding,
}

/// Why a verb did not run to its end.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    /// `None` where nothing is to be said.
    message: Option<String>,
}

/// What a verb returns.
pub type Outcome<T = Verdict> = Result<T, Failure>;

impl Failure {
    pub const FINDING: u8 = 1;
    pub const USAGE: u8 = 2;
    const IO: u8 = 3;
    const MALFORMED: u8 = 4;

    /// What was looked for is not so.
    pub fn finding(message: impl fmt::Display) -> Self {
        Self { code: Self::FINDING, message: Some(message.to_string()) }
    }

    /// The command line asks for what cannot be.
    pub fn usage(message: impl fmt::Display) -> Self {
        Self { code: Self::USAGE, message: Some(message.to_string()) }
    }

    /// A file that the program itself makes sense of, such as a manifest, makes none.
    pub fn malformed(path: &Path, message: impl fmt::Display) -> Self {
        Self { code: Self::MALFORMED, message: Some(format!("{}: {message}", path.display())) }
    }

    /// What is wrong with the file at that path, where that is what failed: not the call, and not reading or writing.
    pub fn about_file(&self, path: &Path) -> Option<&str> {
        let message = self.message.as_deref().filter(|_| self.code == Self::MALFORMED)?;
        let rest = message.strip_prefix(&path.display().to_string()).and_then(|rest| rest.strip_prefix(": "));
        Some(rest.unwrap_or(message))
    }

    /// A malformed file of which all has been said.
    pub fn told_malformed() -> Self {
        Self { code: Self::MALFORMED, message: None }
    }

    /// Tells the failure on standard error.
    pub fn report(self) -> ExitCode {
        if let Some(message) = self.message {
            note(message);
        }
        self.code.into()
    }

    fn of_io(place: impl fmt::Display, error: &io::Error) -> Self {
        match error.kind() {
            // Who reads has had enough, as `head` does. That is no failure.
            io::ErrorKind::BrokenPipe => Self { code: 0, message: None },
            _ => {
                let (place, error) = (place.to_string(), error.to_string());
                // Where a file is opened, the library names it already.
                let message = if error.starts_with(&place) { error } else { format!("{place}: {error}") };
                Self { code: Self::IO, message: Some(message) }
            }
        }
    }
}

impl From<io::Error> for Failure {
    /// Of an error while writing to standard output, which is what verbs write to.
    fn from(error: io::Error) -> Self {
        Self::of_io("standard output", &error)
    }
}

impl Verdict {
    /// The verdict on what is or is not as it should be.
    pub fn of(is_fine: bool) -> Self {
        if is_fine { Self::Fine } else { Self::Finding }
    }
}

/// Runs a verb on each of several files. What fails is told, and does not keep the others from their turn; the run ends
/// as the worst of them did.
pub fn for_each<T>(files: impl IntoIterator<Item = T>, mut run: impl FnMut(T) -> Outcome) -> Outcome {
    let (mut is_fine, mut worst) = (true, 0);
    for file in files {
        match run(file) {
            Ok(verdict) => is_fine &= verdict == Verdict::Fine,
            // The output is closed.
            Err(failure) if failure.code == 0 => return Err(failure),
            Err(failure) => {
                worst = worst.max(failure.code);
                failure.report();
            }
        }
    }
    match worst {
        0 => Ok(Verdict::of(is_fine)),
        code => Err(Failure { code, message: None }),
    }
}

/// Says which file an error is about.
pub trait At<T> {
    fn at(self, path: &Path) -> Outcome<T>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, path: &Path) -> Outcome<T> {
        self.map_err(|error| Failure::of_io(path.display(), &error))
    }
}

impl<T> At<T> for tensorfile::Result<T> {
    fn at(self, path: &Path) -> Outcome<T> {
        self.map_err(|error| of_error(path, &error))
    }
}

fn of_error(path: &Path, error: &Error) -> Failure {
    if let ErrorKind::Io(error) = error.kind() {
        return Failure::of_io(path.display(), error);
    }
    let code = match error.category() {
        Category::File | Category::Limit => Failure::MALFORMED,
        Category::Mismatch => Failure::FINDING,
        Category::Call => Failure::USAGE,
        _ => Failure::IO,
    };
    Failure { code, message: Some(format!("{}: {error}", path.display())) }
}

#[cfg(test)]
mod tests {
    use tensorfile::{FORMATS, TensorMap};

    use super::*;

    #[test]
    fn codes_tell_whose_fault_it_was() {
        let path = Path::new("model.x");
        let code = |kind: ErrorKind| of_error(path, &kind.into()).code;
        assert_eq!(code(ErrorKind::Truncated { needed: 2, left: 1 }), 4);
        assert_eq!(code(ErrorKind::Limit { what: "rank", found: 2, limit: 1 }), 4);
        assert_eq!(code(ErrorKind::Ambiguous), 1);
        assert_eq!(code(ErrorKind::Message(String::new())), 2);
        assert_eq!(code(ErrorKind::Io(io::ErrorKind::PermissionDenied.into())), 3);
        assert_eq!(code(ErrorKind::Io(io::ErrorKind::BrokenPipe.into())), 0);
    }

    #[test]
    fn messages_name_the_file() {
        let error = FORMATS[0].from_slice(&[1]).unwrap_err();
        let expected = format!("model.x: {error}");
        let failure = Err::<TensorMap, _>(error).at(Path::new("model.x")).unwrap_err();
        assert_eq!(failure.message, Some(expected));
    }
}
