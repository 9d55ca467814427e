//! Our error as the error of serde formats.

use std::cell::Cell;
use std::fmt::{self, Display};

use crate::error::{Error, ErrorKind, Short};

thread_local! {
    static HANDED_OVER: Cell<Option<Error>> = const { Cell::new(None) };
}

/// Converts our error to the error of any serde format: unchanged if it is the same type, otherwise as its message.
///
/// serde makes errors from messages only. If `E` is [`Error`], the error waits in a thread-local slot during a single
/// statement, until `E::custom` picks it up; serde offers no other way.
pub(crate) fn to_de<E: serde::de::Error>(error: Error) -> E {
    if is_ours::<E>() {
        HANDED_OVER.set(Some(error));
        return E::custom("");
    }
    match error.kind() {
        ErrorKind::Unexpected { name, expected, .. } => E::custom(UnknownField { name, expected }),
        _ => E::custom(error),
    }
}

/// serde's own message for an unknown field.
struct UnknownField<'a> {
    name: &'a str,
    expected: &'a [String],
}

impl Display for UnknownField<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown field `{}`", Short(self.name))?;
        match self.expected {
            [] => f.write_str(", there are no fields"),
            [only] => write!(f, ", expected `{only}`"),
            [first, second] => write!(f, ", expected `{first}` or `{second}`"),
            all => write!(f, ", expected one of `{}`", all.join("`, `")),
        }
    }
}

/// As [`to_de`], while serializing.
pub(crate) fn to_ser<E: serde::ser::Error>(error: Error) -> E {
    if is_ours::<E>() {
        HANDED_OVER.set(Some(error));
        return E::custom("");
    }
    E::custom(error)
}

/// Returns whether `E` is our error type, so that the serializer or deserializer is ours, or a wrapper around ours.
pub(crate) fn is_ours<E>() -> bool {
    typeid::of::<E>() == typeid::of::<Error>()
}

impl serde::ser::Error for Error {
    fn custom<T: Display>(message: T) -> Self {
        custom(&message)
    }
}

impl serde::de::Error for Error {
    fn custom<T: Display>(message: T) -> Self {
        custom(&message)
    }

    fn missing_field(field: &'static str) -> Self {
        ErrorKind::Missing { name: field.to_owned(), found: Vec::new(), others: 0, complete: false }.into()
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let expected = expected.iter().map(|&name| name.to_owned()).collect();
        ErrorKind::Unexpected { name: field.to_owned(), expected, complete: false }.into()
    }

    fn duplicate_field(field: &'static str) -> Self {
        ErrorKind::DuplicateName { name: field.to_owned() }.into()
    }
}

fn custom(message: &dyn Display) -> Error {
    HANDED_OVER.take().unwrap_or_else(|| ErrorKind::Message(message.to_string()).into())
}
