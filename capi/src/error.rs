//! Errors as statuses and objects.

use std::any::Any;
use std::fmt::Write;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tensorfile::{Category, Error, ErrorKind};

use crate::pointers::{self, Shared, Tag};
use crate::{TF_NO_OFFSET, tf_error_info};

/// What a function returns: `TF_OK`, or the category of its error.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum tf_status {
    /// The function did what it says.
    TF_OK = 0,
    /// The file is malformed, or of no known format.
    TF_FILE = 1,
    /// The file does not have what was asked for.
    TF_MISMATCH = 2,
    /// The call is wrong, or asks for something that is not supported.
    TF_CALL = 3,
    /// The file exceeds a limit, or memory ran out.
    TF_LIMIT = 4,
    /// The system, a server or a callback reported an error.
    TF_IO = 5,
    /// A progress callback ended the call.
    TF_CANCELLED = 6,
    /// A mistake of this library. Please report it, with the message.
    TF_INTERNAL = 7,
}

/// An error, which you free with `tf_error_free`.
#[derive(Debug)]
pub struct tf_error(Shared<ErrorObject>);

#[derive(Debug)]
pub struct ErrorObject {
    status: tf_status,
    kind: String,
    message: String,
    tensor: String,
    offset: u64,
    os_error: i32,
}

/// Why a call failed.
#[derive(Debug)]
pub enum Failure {
    Library(Error),
    /// The arguments are wrong.
    Argument(String),
    Panic(String),
}

pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    pub fn argument(message: impl Into<String>) -> Self {
        Self::Argument(message.into())
    }

    fn panic(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        Self::Panic(text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Library(error)
    }
}

impl From<ErrorKind> for Failure {
    fn from(kind: ErrorKind) -> Self {
        Self::Library(kind.into())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Library(error.into())
    }
}

/// Closes or frees a handle. There is nobody to tell that this went wrong.
pub fn release<T: Tag>(handle: *const T) {
    run(std::ptr::null_mut(), || {
        pointers::release(handle);
        Ok(())
    });
}

/// Does the work of a function. No panic goes on to C.
pub fn run(error: *mut *mut tf_error, call: impl FnOnce() -> Result<()>) -> tf_status {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => tf_status::TF_OK,
        Ok(Err(failure)) => fail(error, failure),
        Err(payload) => fail(error, Failure::panic(&*payload)),
    }
}

#[cold]
fn fail(to: *mut *mut tf_error, failure: Failure) -> tf_status {
    let object = ErrorObject::from(failure);
    let status = object.status;
    // Who passes no pointer wants the status only.
    if pointers::expect(to, "").is_ok() {
        let _ = pointers::set(to, pointers::give(tf_error(Shared::new(object))), "");
    }
    status
}

impl From<Failure> for ErrorObject {
    fn from(failure: Failure) -> Self {
        let plain = |status, kind: &str, message| Self {
            status,
            kind: kind.to_owned(),
            message,
            tensor: String::new(),
            offset: TF_NO_OFFSET,
            os_error: 0,
        };
        match failure {
            Failure::Library(error) => Self {
                status: status(&error),
                kind: kind_name(error.kind()),
                message: in_words_of_c(error.to_string()),
                tensor: error.tensor().unwrap_or_default().to_owned(),
                offset: error.offset().unwrap_or(TF_NO_OFFSET),
                os_error: os_error(error.kind()),
            },
            Failure::Argument(message) => plain(tf_status::TF_CALL, "argument", message),
            Failure::Panic(message) => {
                plain(tf_status::TF_INTERNAL, "internal", format!("a mistake of this library: {message}"))
            }
        }
    }
}

/// Replaces functions of Rust that a message advises to call.
pub fn in_words_of_c(message: String) -> String {
    const WORDS: [(&str, &str); 5] = [
        ("`Limits::memory`", "`max_memory`"),
        ("`Limits::shared`", "`max_shared`"),
        ("`OpenOptions::dequantize`", "`dequantize` of the options"),
        ("`CastView::as_stored` casts the stored numbers", "`TF_DTYPE_STORED` reads the stored numbers"),
        ("`#[tensor(cast)]` converts", "`tf_read` converts"),
    ];
    WORDS.iter().fold(message, |message, (rust, c)| message.replace(rust, c))
}

fn status(error: &Error) -> tf_status {
    if matches!(error.kind(), ErrorKind::Cancelled) {
        return tf_status::TF_CANCELLED;
    }
    match error.category() {
        Category::File => tf_status::TF_FILE,
        Category::Mismatch => tf_status::TF_MISMATCH,
        Category::Limit => tf_status::TF_LIMIT,
        Category::Io => tf_status::TF_IO,
        _ => tf_status::TF_CALL,
    }
}

/// Returns the name of the variant, in lower case with hyphens.
fn kind_name(kind: &ErrorKind) -> String {
    /// Keeps the first word, and ends the formatting after it.
    struct Word(String);

    impl Write for Word {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            for letter in text.chars() {
                match letter {
                    'A'..='Z' if !self.0.is_empty() => self.0.extend(['-', letter.to_ascii_lowercase()]),
                    'a'..='z' | 'A'..='Z' => self.0.push(letter.to_ascii_lowercase()),
                    _ => return Err(std::fmt::Error),
                }
            }
            Ok(())
        }
    }

    let mut word = Word(String::new());
    // An error is the end of the word.
    let _ = write!(word, "{kind:?}");
    word.0
}

fn os_error(kind: &ErrorKind) -> i32 {
    let ErrorKind::Io(error) = kind else { return 0 };
    error.raw_os_error().or_else(|| usual_number(error.kind())).unwrap_or_default()
}

/// Returns the number of an error that lost it when the library added the file's name. These are the same on all
/// systems.
fn usual_number(kind: io::ErrorKind) -> Option<i32> {
    Some(match kind {
        io::ErrorKind::NotFound => 2,
        io::ErrorKind::PermissionDenied => 13,
        io::ErrorKind::AlreadyExists => 17,
        io::ErrorKind::NotADirectory => 20,
        io::ErrorKind::IsADirectory => 21,
        io::ErrorKind::StorageFull => 28,
        _ => return None,
    })
}

impl ErrorObject {
    pub fn info(&self) -> tf_error_info {
        tf_error_info {
            size: size_of::<tf_error_info>(),
            status: self.status as i32,
            kind: self.kind.as_str().into(),
            message: self.message.as_str().into(),
            tensor: self.tensor.as_str().into(),
            offset: self.offset,
            os_error: self.os_error,
        }
    }
}

impl Tag for tf_error {
    type Object = ErrorObject;
    const TAG: u64 = u64::from_le_bytes(*b"tf_error");
    const NAME: &str = "error";

    fn shared(&self) -> &Shared<ErrorObject> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_words() {
        let truncated = ErrorKind::Truncated { needed: 1, left: 0 };
        assert_eq!(kind_name(&truncated), "truncated");
        assert_eq!(kind_name(&ErrorKind::DuplicateName { name: String::new() }), "duplicate-name");
        assert_eq!(kind_name(&ErrorKind::Ambiguous), "ambiguous");
        assert_eq!(kind_name(&ErrorKind::Io(io::ErrorKind::NotFound.into())), "io");
    }

    #[test]
    fn a_panic_is_a_status() {
        let mut error = std::ptr::null_mut();
        let status = run(&raw mut error, || panic!("no such thing"));
        assert_eq!(status, tf_status::TF_INTERNAL);
        let info = pointers::borrow(error).unwrap().shared().object.info();
        assert_eq!(info.message.to_str().unwrap(), "a mistake of this library: no such thing");
        pointers::release(error);
        assert_eq!(run(std::ptr::null_mut(), || Err(Failure::argument("x"))), tf_status::TF_CALL);
    }
}
