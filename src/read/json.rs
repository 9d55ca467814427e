//! Messages of serde about JSON, in the words of JSON.

/// Terms of serde, and their JSON counterparts. Longer ones come first.
const WORDS: &[(&str, &str)] = &[
    ("expected usize", "expected a whole number"),
    ("expected u64", "expected a whole number"),
    ("expected i64", "expected a whole number"),
    ("a tuple of size 2", "a list of 2 numbers"),
    ("expected a sequence", "expected a list"),
    ("expected a map", "expected an object"),
    ("invalid type: sequence", "invalid type: list"),
    ("invalid type: map", "invalid type: object"),
    ("invalid type: floating point", "invalid type: number"),
];

/// The length of ` at line … column …`, at the end of a message.
const LONGEST_PLACE: usize = 56;

/// Returns what serde_json says is wrong with JSON, without the names of types and of serde's data model.
pub(crate) fn json_message(message: &str) -> String {
    // Between the words of serde may be a text from the file.
    let mut message = message.to_owned();
    for (word, plain) in WORDS {
        if message.starts_with(word) {
            message.replace_range(..word.len(), plain);
        } else if let Some(index) = message.rfind(word)
            && index + word.len() + LONGEST_PLACE >= message.len()
        {
            message.replace_range(index..index + word.len(), plain);
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_rust_are_called_as_in_json() {
        for (message, expected) in [
            ("invalid type: string \"x\", expected usize", "invalid type: string \"x\", expected a whole number"),
            ("invalid type: sequence, expected an object", "invalid type: list, expected an object"),
            ("invalid type: map, expected a tuple of size 2", "invalid type: object, expected a list of 2 numbers"),
            (
                "invalid type: string \"expected usize\", expected usize",
                "invalid type: string \"expected usize\", expected a whole number",
            ),
        ] {
            assert_eq!(json_message(message), expected);
        }
    }
}
