#[cfg(feature = "safetensors")]
use tensorfile::safetensors;
use tensorfile::{File, TensorFile, WriteOptions, gguf};

/// Returns the type and the bytes of an entry.
pub fn stored<'f>(file: &'f [u8], key: &str) -> &'f [u8] {
    let mut name = (key.len() as u64).to_le_bytes().to_vec();
    name.extend_from_slice(key.as_bytes());
    let at = file.windows(name.len()).position(|window| window == name).unwrap();
    &file[at + name.len()..]
}

#[test]
fn fields_have_their_types() {
    #[derive(TensorFile)]
    struct Typed {
        #[tensor(metadata)]
        bool: bool,
        #[tensor(metadata)]
        i8: i8,
        #[tensor(metadata)]
        u16: Option<u16>,
        #[tensor(metadata)]
        u32: u32,
        #[tensor(metadata)]
        i64: i64,
        #[tensor(metadata)]
        f32: f32,
        #[tensor(metadata)]
        f64: f64,
        #[tensor(metadata)]
        text: String,
        #[tensor(metadata)]
        i128: i128,
    }
    let typed = Typed {
        bool: true,
        i8: -1,
        u16: Some(2),
        u32: 3,
        i64: -4,
        f32: 0.5,
        f64: 0.25,
        text: "é".to_owned(),
        i128: -5,
    };
    let file = gguf::to_vec(&typed).unwrap();
    for (key, kind, bytes) in [
        ("bool", 7_u32, vec![1]),
        ("i8", 1, vec![0xFF]),
        ("u16", 2, vec![2, 0]),
        ("u32", 4, vec![3, 0, 0, 0]),
        ("i64", 11, (-4_i64).to_le_bytes().to_vec()),
        ("f32", 6, 0.5_f32.to_le_bytes().to_vec()),
        ("f64", 12, 0.25_f64.to_le_bytes().to_vec()),
        ("text", 8, [&2_u64.to_le_bytes()[..], "é".as_bytes()].concat()),
        ("i128", 8, [&2_u64.to_le_bytes()[..], b"-5"].concat()),
    ] {
        let expected = [&kind.to_le_bytes()[..], &bytes].concat();
        assert!(stored(&file, key).starts_with(&expected), "{key}");
    }
}

/// A file with an entry of each type, arrays included, and an alignment.
pub fn of_every_type() -> Vec<u8> {
    let array = |kind: u32, count: u64, items: &[u8]| [&kind.to_le_bytes()[..], &count.to_le_bytes(), items].concat();
    let string = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let long: Vec<u8> = (0..100_u32).flat_map(u32::to_le_bytes).collect();
    let nested = array(9, 1, &array(0, 2, &[1, 2]));
    let entries: &[(&str, u32, Vec<u8>)] = &[
        ("general.architecture", 8, string("llama")),
        ("general.alignment", 4, 64_u32.to_le_bytes().to_vec()),
        ("u8", 0, vec![1]),
        ("i8", 1, vec![0xFF]),
        ("u16", 2, vec![1, 2]),
        ("i16", 3, vec![1, 2]),
        ("u32", 4, vec![1, 2, 3, 4]),
        ("i32", 5, vec![1, 2, 3, 4]),
        ("f32", 6, 0.1_f32.to_le_bytes().to_vec()),
        ("bool", 7, vec![1]),
        ("long", 9, array(4, 100, &long)),
        ("words", 9, array(8, 2, &[string("a"), string("b")].concat())),
        ("nested", 9, nested),
        ("u64", 10, 7_u64.to_le_bytes().to_vec()),
        ("i64", 11, 7_u64.to_le_bytes().to_vec()),
        ("f64", 12, 0.1_f64.to_le_bytes().to_vec()),
        ("not utf-8", 8, [&1_u64.to_le_bytes()[..], &[0xFF]].concat()),
    ];
    let mut file = b"GGUF".to_vec();
    file.extend_from_slice(&3_u32.to_le_bytes());
    file.extend_from_slice(&0_u64.to_le_bytes());
    file.extend_from_slice(&(entries.len() as u64).to_le_bytes());
    for (key, kind, value) in entries {
        file.extend_from_slice(&string(key));
        file.extend_from_slice(&kind.to_le_bytes());
        file.extend_from_slice(value);
    }
    file.resize(file.len().next_multiple_of(64), 0);
    file
}

#[test]
fn entries_of_another_file_keep_their_types() {
    let old = of_every_type();
    let file = File::from_bytes(old.clone()).unwrap();
    let metadata = file.metadata().unwrap();
    let options = WriteOptions::new().keep_metadata(&metadata);
    let new = gguf::FORMAT.to_vec(&file, &options).unwrap();
    for (key, len) in [("u8", 5), ("long", 4 + 12 + 400), ("words", 4 + 12 + 18), ("nested", 30), ("not utf-8", 13)] {
        assert_eq!(stored(&new, key)[..len], stored(&old, key)[..len], "{key}");
    }
    let again = File::from_bytes(new).unwrap().metadata().unwrap();
    assert_eq!(again.entries.len(), metadata.entries.len());
    assert!(again.entries.iter().all(|(key, value)| metadata.entries[key] == *value));

    // A changed entry is text, and a field of the value has its own type.
    let mut changed = options.clone();
    changed.metadata["u8"] = "2".to_owned();
    let new = gguf::FORMAT.to_vec(&super::epochs(), &changed).unwrap();
    assert!(stored(&new, "u8").starts_with(&[8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, b'2']));
    assert!(stored(&new, "i8").starts_with(&[1, 0, 0, 0, 0xFF]));
    assert!(stored(&new, "epochs").starts_with(&[4, 0, 0, 0, 3, 0, 0, 0]));

    // A format without types has text.
    #[cfg(feature = "safetensors")]
    assert_eq!(
        safetensors::metadata(&safetensors::FORMAT.to_vec(&file, &options).unwrap()).unwrap()["words"],
        "[\"a\", \"b\"]"
    );
}
