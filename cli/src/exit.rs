//! The end of a run: exit codes and failures.

use std::fmt;
use std::io;
use std::path::Path;

use tensorfile::{Category, Error, ErrorKind};
use tensorfile_datasets::TAR;

use crate::args::display_name;
use crate::output;

/// The answer of a command that ran to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    /// Files differ, a check failed, or `--fail-on` found a number.
    Fail,
}

impl Verdict {
    pub fn from_pass(passes: bool) -> Self {
        if passes { Self::Pass } else { Self::Fail }
    }
}

/// The result of a command.
pub type Outcome<T = Verdict> = Result<T, Failure>;

/// The reason that a command stopped: an exit code and a message.
#[derive(Debug, Clone)]
pub struct Failure {
    code: u8,
    /// The file at fault.
    file: Option<String>,
    /// `None` if the failure was already reported, or needs no report.
    message: Option<String>,
    /// The JSON output already has it.
    is_listed: bool,
    /// More lines of the message.
    details: Vec<String>,
}

impl Failure {
    /// The exit code of [`Verdict::Fail`], and of a missing tensor.
    pub const FAIL: u8 = 1;
    pub const USAGE: u8 = 2;
    const IO: u8 = 3;
    const MALFORMED: u8 = 4;

    fn new(code: u8, file: Option<String>, message: Option<String>) -> Self {
        Self { code, file, message, is_listed: false, details: Vec::new() }
    }

    /// A tensor of the command line is missing.
    pub fn not_found(message: impl fmt::Display) -> Self {
        Self::new(Self::FAIL, None, Some(message.to_string()))
    }

    /// The command line asks for something impossible.
    pub fn usage(message: impl fmt::Display) -> Self {
        Self::new(Self::USAGE, None, Some(message.to_string()))
    }

    /// The command line asks for something impossible of a file.
    pub fn usage_at(path: &Path, message: impl fmt::Display) -> Self {
        Self::usage(message).or_in(path)
    }

    /// A file exists, and `--no-clobber` protects it.
    pub fn exists(path: &Path) -> Self {
        let message = "exists, and --no-clobber is given".to_owned();
        Self::new(Self::IO, Some(display_name(path).display().to_string()), Some(message))
    }

    /// A file is malformed.
    pub fn malformed(path: &Path, message: impl fmt::Display) -> Self {
        Self::new(Self::MALFORMED, Some(display_name(path).display().to_string()), Some(message.to_string()))
    }

    /// A file is malformed, and the command already printed why.
    pub fn reported_malformed() -> Self {
        Self::new(Self::MALFORMED, None, None)
    }

    /// The reader of standard output closed it, as `head` does.
    fn closed_output() -> Self {
        Self::new(0, None, None)
    }

    /// Returns the message about a malformed file, without the name of the file.
    pub fn malformed_message(&self) -> Option<&str> {
        self.message.as_deref().filter(|_| self.code == Self::MALFORMED)
    }

    /// Returns the file and the message of a failure, for JSON. Returns `None` if the command listed it already, or if
    /// nobody reads the output.
    pub fn unlisted(&self) -> Option<(String, String)> {
        let mut message = self.message.clone().filter(|_| self.code != 0 && !self.is_listed)?;
        self.details.iter().for_each(|line| message = format!("{message}\n{line}"));
        Some((self.file.clone().unwrap_or_default(), message))
    }

    /// Marks the failure as already in the JSON.
    pub fn listed(self) -> Self {
        Self { is_listed: true, ..self }
    }

    /// Names the file, if the message does not.
    pub fn or_in(self, path: &Path) -> Self {
        Self { file: self.file.or_else(|| Some(display_name(path).display().to_string())), ..self }
    }

    /// Returns the exit code.
    pub fn code(&self) -> u8 {
        self.code
    }

    /// Prints the message to standard error. Returns the exit code.
    pub fn report(self) -> u8 {
        if self.message.is_some() {
            output::error(&self);
            self.details.iter().for_each(|line| output::detail(line));
        }
        self.code
    }

    fn from_io(file: impl fmt::Display, error: &io::Error) -> Self {
        let inner = error.get_ref();
        if let Some(failure) = inner.and_then(|inner| inner.downcast_ref::<Self>()) {
            return failure.clone();
        }
        if let Some(error) = inner.and_then(|inner| inner.downcast_ref::<Error>()) {
            return Self::from_error(file, error);
        }
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::closed_output();
        }
        let (file, message) = (file.to_string(), error.to_string());
        // If the library cannot open or replace a file, its message has the name.
        let message = message.strip_prefix(&format!("{file}: ")).map(str::to_owned).unwrap_or(message);
        Self::new(Self::IO, Some(file), Some(message))
    }

    /// Converts an error about a file.
    pub fn from_error(file: impl fmt::Display, error: &Error) -> Self {
        if let ErrorKind::Io(error) = error.kind() {
            return Self::from_io(file, error);
        }
        let code = Self::code_of(error.category());
        let mut message = in_own_words(&format_args!("{:#}", error.without_path()));
        // None was tried for an empty file.
        if let ErrorKind::UnknownFormat { formats, .. } = error.kind()
            && !formats.is_empty()
        {
            // A shard is a file of the program, and of another crate than the library.
            let formats = formats.join(", ");
            message = message.replacen(&formats, &format!("{formats}, {}", TAR.name), 1);
        }
        if error.kind().limits_field().is_some() {
            message += "; --max-memory raises it";
        }
        // The library has escaped the names of the file in these lines.
        let mut details = Vec::new();
        if matches!(error.kind(), ErrorKind::Map { .. } | ErrorKind::Unmapped { .. }) {
            let lines: Vec<String> = message.lines().map(str::to_owned).collect();
            details.extend(lines.iter().skip(1).cloned());
            message = lines.into_iter().next().unwrap_or_default();
        }
        Self { details, ..Self::new(code, Some(file.to_string()), Some(message)) }
    }

    /// An error of a WebDataset shard, or of the folder at a path.
    pub fn from_shards(path: &Path, error: &tensorfile_datasets::Error) -> Self {
        let file = error.shard().map_or_else(|| display_name(path).display().to_string(), str::to_owned);
        if let (ErrorKind::Io(error), None) = (error.kind(), error.key()) {
            return Self::from_io(file, error);
        }
        let message = Some(error.without_shard().to_string());
        Self::new(Self::code_of(error.category()), Some(file), message)
    }

    fn code_of(category: Category) -> u8 {
        match category {
            Category::File | Category::Limit => Self::MALFORMED,
            Category::Mismatch => Self::FAIL,
            Category::Call => Self::USAGE,
            _ => Self::IO,
        }
    }
}

/// Names of the library's API in its messages, each with the argument of the program.
const OWN_WORDS: &[(&str, &str)] = &[
    ("rename the tensor, or embed the names", "--rename shortens a name, --names embed keeps it"),
    ("`Options::embed_names`", "--names embed"),
    ("`WriteOptions::embed_names`", "--names embed"),
    ("`Options::keep_dim_order`", "--keep-dim-order"),
    ("`#[tensor(rename)]`", "--rename"),
    ("`OpenOptions::dequantize` decodes", "--dequantize decodes"),
    ("so invert the map", "so pass --invert"),
    ("so do not invert the map", "so leave out --invert"),
    ("load the tensors, and map them in memory with `view::Mapped`", "convert the file to safetensors first"),
    ("which no configuration has; set `", "which no configuration has; pass --config, or --set `"),
    ("`CastView::as_stored` casts", "--as-stored casts"),
    // `convert` names the cast that helps.
    ("; `view::CastView` casts", ""),
    ("by position, as a list or a tuple, or as `#0`", "by position, as `#0`"),
    ("it is unknown; `Tensor` and `TensorMap` hold the bytes", "it is unknown; `show --format raw` prints the bytes"),
];

/// Returns a message of the library with arguments in place of names of the API.
pub fn in_own_words(message: &dyn fmt::Display) -> String {
    let message = message.to_string();
    OWN_WORDS
        .iter()
        .fold(message, |message, (api, own)| if message.contains(api) { message.replace(api, own) } else { message })
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = self.message.as_deref().unwrap_or_default();
        match &self.file {
            Some(file) => write!(f, "{file}: {message}"),
            None => f.write_str(message),
        }
    }
}

/// A failure to read one file can pass through the writer of another.
impl std::error::Error for Failure {}

impl From<io::Error> for Failure {
    /// Converts an error of writing to standard output.
    fn from(error: io::Error) -> Self {
        Self::from_io("standard output", &error)
    }
}

/// Adds the name of the faulty file to an error.
pub trait At<T> {
    fn at(self, path: &Path) -> Outcome<T>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, path: &Path) -> Outcome<T> {
        self.map_err(|error| Failure::from_io(display_name(path).display(), &error))
    }
}

impl<T> At<T> for tensorfile::Result<T> {
    fn at(self, path: &Path) -> Outcome<T> {
        self.map_err(|error| Failure::from_error(display_name(path).display(), &error))
    }
}

/// Runs a command on each of several files.
///
/// A failure is reported and does not stop the others. The run ends with the highest exit code.
pub fn for_each<T>(files: impl IntoIterator<Item = T>, mut run: impl FnMut(T) -> Outcome) -> Outcome {
    let (mut passes, mut worst) = (true, 0);
    for file in files {
        match run(file) {
            Ok(verdict) => passes &= verdict == Verdict::Pass,
            Err(failure) if failure.code == 0 => return Err(failure),
            Err(failure) => {
                worst = worst.max(failure.code);
                failure.report();
            }
        }
    }
    match worst {
        0 => Ok(Verdict::from_pass(passes)),
        code => Err(Failure::new(code, None, None)),
    }
}

#[cfg(test)]
mod tests {
    use tensorfile::{FORMATS, TensorMap};

    use super::*;

    #[test]
    fn exit_codes_follow_the_category_of_an_error() {
        let code = |kind: ErrorKind| Failure::from_error("model.x", &kind.into()).code;
        assert_eq!(code(ErrorKind::Truncated { needed: 2, left: 1 }), 4);
        assert_eq!(code(ErrorKind::Limit { what: "rank", found: 2, limit: 1 }), 4);
        assert_eq!(code(ErrorKind::Ambiguous), 1);
        assert_eq!(code(ErrorKind::Message(String::new())), 2);
        assert_eq!(code(ErrorKind::Io(io::ErrorKind::PermissionDenied.into())), 3);
        assert_eq!(code(ErrorKind::Io(io::ErrorKind::BrokenPipe.into())), 0);
    }

    #[test]
    fn messages_name_arguments() {
        let long = "a".repeat(300);
        let map: TensorMap = [(long, tensorfile::Tensor::from_slice(&[1_u8], [1]).unwrap())].into_iter().collect();
        let ten = FORMATS.iter().find(|format| format.name == "ten").unwrap();
        let error = ten.to_vec(&map, &tensorfile::WriteOptions::new()).unwrap_err();
        let failure = Failure::from_error("a.ten", &error).to_string();
        assert!(failure.ends_with("ten stores up to 8; --rename shortens a name, --names embed keeps it"), "{failure}");
    }

    #[test]
    fn messages_name_the_file() {
        let error = FORMATS[0].from_slice(&[1]).unwrap_err();
        let expected = format!("model.x: {error}");
        let failure = Err::<TensorMap, _>(error).at(Path::new("model.x")).unwrap_err();
        assert_eq!(failure.to_string(), expected);
    }

    #[test]
    fn failures_pass_through_other_errors() {
        let inner = Failure::malformed(Path::new("source.x"), "cut short");
        let outer = Error::from(ErrorKind::Io(io::Error::other(inner)));
        let failure = Failure::from_error("target.x", &outer);
        assert_eq!((failure.code, failure.to_string().as_str()), (4, "source.x: cut short"));
    }
}
