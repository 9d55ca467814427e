//! The table itself.

use std::collections::HashSet;

use tensorfile::FORMATS;

#[test]
fn rows_are_told_apart() {
    let mut names = HashSet::new();
    let mut extensions = HashSet::new();
    for format in FORMATS {
        assert!(names.insert(format.name), "two formats are called {}", format.name);
        assert!(!format.extensions.is_empty(), "{}", format.name);
        for extension in format.extensions {
            assert!(extensions.insert(*extension), "two formats have the extension {extension}");
            assert!(
                !extension.starts_with('.') && extension.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
            );
        }
    }
}

#[test]
fn a_row_has_each_dtype_once() {
    for format in FORMATS {
        let dtypes: HashSet<_> = format.dtypes.iter().collect();
        assert_eq!(dtypes.len(), format.dtypes.len(), "{}", format.name);
        assert!(!dtypes.is_empty(), "{}", format.name);
    }
}

#[test]
fn a_file_of_one_format_is_malformed_in_every_other() {
    for format in FORMATS {
        for (map, file) in super::samples(format).into_iter().filter(|(map, _)| !map.is_empty()) {
            for other in FORMATS.iter().filter(|other| other.name != format.name) {
                let error = other.from_slice(&file).unwrap_err();
                assert_eq!(error.category(), tensorfile::Category::File, "{} as {}: {map:?}", format.name, other.name);
                assert!(other.from_reader(&file[..]).is_err(), "{} as {}, from a stream", format.name, other.name);
            }
        }
    }
}
