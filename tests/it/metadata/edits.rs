use std::fs;

use ndarray::array;
use tensorfile::file::MetadataEdit;
use tensorfile::{FORMATS, File, Format, TensorMap, WriteOptions};

/// Formats whose metadata can be edited, and a key that each keeps.
fn editable() -> Vec<(&'static Format, &'static str)> {
    let key = |format: &Format| ["epochs", "model"].into_iter().find(|key| format.keeps_metadata(key)).unwrap();
    FORMATS.iter().filter(|format| format.edits_metadata()).map(|format| (*format, key(format))).collect()
}

fn map() -> TensorMap {
    TensorMap::from_iter([("b", array![1.0_f32, 2.0, 3.0]), ("a", array![4.0]), ("none", array![])])
}

fn file(format: &Format, entries: &[(&str, &str)]) -> Vec<u8> {
    let entries = entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    format.to_vec(&map(), &WriteOptions::new().metadata(entries)).unwrap()
}

fn edited(edit: &MetadataEdit, file: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    edit.to_writer(&File::from_bytes(file.to_vec()).unwrap(), &mut out).map_err(|error| error.to_string())?;
    Ok(out)
}

#[test]
fn a_file_is_as_if_it_was_written_with_the_new_entries() {
    for (format, key) in editable() {
        let (name, none, one, long) = (format.name, file(format, &[]), file(format, &[(key, "1")]), "x".repeat(1000));
        let set = |value: &str| MetadataEdit::new().set(key, value);
        assert_eq!(edited(&set("1"), &none).unwrap(), one, "{name}");
        assert_eq!(edited(&MetadataEdit::new().unset(key), &one).unwrap(), none, "{name}");
        assert_eq!(edited(&MetadataEdit::new(), &one).unwrap(), one, "{name}");
        assert_eq!(edited(&set(&long), &one).unwrap(), file(format, &[(key, &long)]), "{name}");
        let odd = "\"quoted\"\n\\ é \0";
        let odd_file = edited(&set(odd), &one).unwrap();
        let odd_file = File::from_bytes(odd_file).unwrap();
        assert_eq!(odd_file.metadata().unwrap().entries[key], odd, "{name}");
        assert_eq!(odd_file.load::<TensorMap>().unwrap(), map(), "{name}");
    }
}

#[test]
fn a_file_is_edited_in_place() {
    for (format, key) in editable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("model.{}", format.extensions[0]));
        fs::write(&path, file(format, &[])).unwrap();
        for backend in [tensorfile::file::Backend::Mapped, tensorfile::file::Backend::Positioned] {
            let opened = tensorfile::OpenOptions::new().backend(backend).open(&path).unwrap();
            let edit = MetadataEdit::new().set(key, "7");
            assert_eq!(edit.entries(&opened).unwrap()[key], "7");
            edit.save(&opened, &path).unwrap();
            assert_eq!(fs::read(&path).unwrap(), file(format, &[(key, "7")]), "{}", format.name);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }
}

#[test]
fn changes_that_cannot_be_made_are_refused() {
    for (format, key) in editable() {
        let (name, old) = (format.name, file(format, &[(key, "")]));
        let refused = |edit: &MetadataEdit| edited(edit, &old).unwrap_err();
        let other = format!("{key}s");
        assert_eq!(
            refused(&MetadataEdit::new().unset(&*other)),
            format!("{name}: cannot remove the metadata `{other}`; the file has no such entry, but `{key}`")
        );
        assert_eq!(
            refused(&MetadataEdit::new().set(key, "1").unset(key)),
            format!("{name}: cannot set the metadata `{key}`; it is removed too")
        );
        if !format.keeps_metadata("schlüssel") {
            let error = refused(&MetadataEdit::new().set("schlüssel", "1"));
            assert!(error.starts_with(&format!("{name}: cannot store the metadata `schlüssel`; ")), "{error}");
        }
    }
    let names: Vec<&str> = editable().iter().map(|(format, _)| format.name).collect();
    let ten = tensorfile::ten::to_vec(&TensorMap::from_iter([("a", array![1.0_f32])])).unwrap();
    let error = edited(&MetadataEdit::new().set("epochs", "1"), &ten).unwrap_err();
    if !names.is_empty() {
        let expected = format!("ten: cannot edit the metadata of a ten file; that of {} can be", names.join(", "));
        assert_eq!(error, expected);
    }
}

#[cfg(feature = "safetensors")]
#[test]
fn headers_of_other_programs_keep_their_order() {
    // The data is not in the order of the header, and one dtype is unknown.
    let json = r#"{ "b":{"shape":[2],"dtype":"F4_NEW","data_offsets":[1,4]},
            "__metadata__":{"z":"1","\u0061":"2"}, "\u00e9":{"dtype":"U8","shape":[1],"data_offsets":[0,1]} }"#;
    let mut old = (json.len() as u64).to_le_bytes().to_vec();
    old.extend_from_slice(json.as_bytes());
    old.extend_from_slice(&[1, 2, 3, 4]);
    let new = edited(&MetadataEdit::new().set("c", "3").set("z", "4"), &old).unwrap();
    let len = u64::from_le_bytes(new[..8].try_into().unwrap()) as usize;
    assert_eq!(
        std::str::from_utf8(&new[8..8 + len]).unwrap().trim_end(),
        r#"{"b":{"shape":[2],"dtype":"F4_NEW","data_offsets":[1,4]},"__metadata__":{"z":"4","a":"2","c":"3"},"é":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#
    );
    assert_eq!(new[8 + len..], [1, 2, 3, 4]);
    assert_eq!(len % 8, 0);
}

#[cfg(feature = "gguf")]
#[test]
fn entries_keep_their_types() {
    use tensorfile::gguf;

    let old = super::gguf::of_every_type();
    let edit = |key: &str, value: &str| edited(&MetadataEdit::new().set(key, value), &old);
    let stored = super::gguf::stored;
    assert!(stored(&edit("u16", "3").unwrap(), "u16").starts_with(&[2, 0, 0, 0, 3, 0]));
    assert!(stored(&edit("bool", "false").unwrap(), "bool").starts_with(&[7, 0, 0, 0, 0]));
    assert!(stored(&edit("new", "1").unwrap(), "new").starts_with(&[8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, b'1']));
    for (key, value, message) in [
        ("u8", "256", "cannot set the metadata `u8` to `256`; it is a u8 in the file"),
        ("bool", "1", "cannot set the metadata `bool` to `1`; it is `true` or `false` in the file"),
        ("long", "1", "cannot set the metadata `long` to `1`; it is an array in the file, which can only be removed"),
        (
            "general.alignment",
            "32",
            "cannot change the metadata `general.alignment`; it is the alignment of the tensors, which stay where they are",
        ),
    ] {
        assert_eq!(edit(key, value).unwrap_err(), format!("gguf: {message}"));
    }
    // All other bytes are the same.
    let added = edited(&MetadataEdit::new().set("x", "y"), &old).unwrap();
    assert_eq!(edited(&MetadataEdit::new().unset("x"), &added).unwrap(), old);
    let removed = edited(&MetadataEdit::new().unset("long").unset("words"), &old).unwrap();
    assert_eq!(gguf::metadata(&removed).unwrap().len(), gguf::metadata(&old).unwrap().len() - 2);
}

#[cfg(feature = "gguf")]
#[test]
fn payloads_keep_their_alignment() {
    let options = WriteOptions::new().alignment(256);
    let format = Format::named("gguf").unwrap();
    let old = format.to_vec(&map(), &options).unwrap();
    for len in [1, 100, 200, 300] {
        let new = edited(&MetadataEdit::new().set("key", "x".repeat(len)), &old).unwrap();
        let new = File::from_bytes(new).unwrap();
        assert!(new.tensors().all(|tensor| tensor.range().start % 256 == 0));
        assert_eq!(new.load::<TensorMap>().unwrap(), map());
    }
}

#[cfg(feature = "tensorbuffers")]
#[test]
fn unknown_dtypes_stay_unknown() {
    use tensorfile::tensorbuffers;

    // The tag of a dtype that does not exist, in place of `u8`.
    let map = TensorMap::from_iter([("a", array![7_u8])]);
    let known = tensorbuffers::to_vec(&map).unwrap();
    let other = tensorbuffers::to_vec(&TensorMap::from_iter([("a", array![7_i8])])).unwrap();
    let at = known.iter().zip(&other).position(|(one, two)| one != two).unwrap();
    let mut old = known.clone();
    old[at] = 0x7B;
    let tag = |file: &[u8]| {
        let file = File::from_bytes(file.to_vec()).unwrap();
        file.get("a").unwrap().info().unknown_dtype().map(str::to_owned)
    };
    assert_eq!(tag(&old).as_deref(), Some("123"));
    let new = edited(&MetadataEdit::new().set("model", "m"), &old).unwrap();
    assert_eq!(tag(&new).as_deref(), Some("123"));

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.tbs");
    fs::write(&path, &old).unwrap();
    tensorbuffers::append(&path, &TensorMap::from_iter([("b", array![1_u8])])).unwrap();
    assert_eq!(tag(&fs::read(&path).unwrap()).as_deref(), Some("123"));
    assert_eq!(File::open(&path).unwrap().get("b").unwrap().info().dtype, tensorfile::Dtype::U8);
}

#[cfg(feature = "safetensors")]
#[test]
fn an_index_of_shards_is_refused() {
    for (format, key) in editable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("model.{}", format.extensions[0]));
        tensorfile::SaveOptions::new().max_shard_bytes(4).save(&path, &map()).unwrap();
        let index = folder.path().join(format!("model.{}.index.json", format.extensions[0]));
        let file = File::open(&index).unwrap();
        let error = MetadataEdit::new().set(key, "1").save(&file, &index).unwrap_err().to_string();
        let message =
            "cannot edit the metadata of an index of shards; the files that it lists can be edited one by one";
        assert!(error.ends_with(message), "{error}");
    }
}
