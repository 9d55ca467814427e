//! The table of formats itself.

use std::collections::HashSet;

use tensorfile::view::SaveReport;
use tensorfile::{FORMATS, TensorMap, WriteOptions};

use crate::support::{tensor, written_formats};

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

#[test]
fn a_name_is_stored_if_the_row_says_so() {
    let (long, longest_npz) = ("n".repeat(65_532), "n".repeat(65_531));
    let names = ["weight", "a b", "", "a\0b", "\0a", "a\0", "__metadata__", "ä.b", "123456789", &long, &longest_npz];
    for format in written_formats() {
        for name in names {
            let map: TensorMap = [(name, tensor(format.dtypes[0], &[2]))].into_iter().collect();
            let written = format.to_vec(&map, &WriteOptions::new());
            let is_kept = written.as_ref().is_ok_and(|file| format.from_slice(file).unwrap() == map);
            let what = format!("{} {:?}", format.name, name.get(..20).unwrap_or(name));
            assert_eq!(format.stores_name(name), is_kept, "{what}");
            let report = SaveReport::new(&map, format).unwrap();
            assert_eq!(report.is_ok() && report.unstored_names == 0, is_kept, "{what}: {report}");
        }
    }
}
