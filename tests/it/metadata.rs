//! Fields with `#[tensor(metadata)]`, in every format that keeps metadata.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ndarray::{Array1, array};
use serde::{Deserialize, Serialize};
use tensorfile::{
    Category, Deserializer, ErrorKind, FORMATS, File, Format, MetadataKind, TensorFile, TensorMap, Tensors,
    WriteOptions, btf, ten,
};

use crate::support::written_formats;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Fast,
    Exact,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Seed(u64);

#[derive(TensorFile, Debug, PartialEq)]
#[tensor(rename_all = "camelCase")]
struct Run {
    #[tensor(metadata)]
    model_name: String,
    #[tensor(metadata)]
    epochs: u32,
    weight: Array1<f32>,
    #[tensor(metadata)]
    rate: f64,
    #[tensor(metadata)]
    small: f32,
    #[tensor(metadata, rename = "general.done")]
    done: bool,
    #[tensor(metadata)]
    letter: char,
    #[tensor(metadata)]
    mode: Mode,
    #[tensor(metadata)]
    seed: Seed,
    #[tensor(metadata)]
    best: Option<i16>,
    #[tensor(metadata)]
    worst: Option<i16>,
    #[tensor(metadata)]
    wide: i128,
    #[tensor(metadata)]
    host: IpAddr,
    block: Block,
    blocks: Vec<Block>,
}

#[derive(TensorFile, Debug, PartialEq)]
struct Block {
    #[tensor(metadata)]
    dropout: f32,
    bias: Array1<f32>,
}

fn run() -> Run {
    let block = |dropout| Block { dropout, bias: array![dropout] };
    Run {
        model_name: "a \"model\"\nof é".to_owned(),
        epochs: u32::MAX,
        weight: array![1.0, 2.0],
        rate: 0.1 + 0.2,
        small: 1e-45,
        done: true,
        letter: 'é',
        mode: Mode::Exact,
        seed: Seed(u64::MAX),
        best: Some(-3),
        worst: None,
        wide: i128::MIN,
        host: IpAddr::from([127, 0, 0, 1]),
        block: block(0.5),
        blocks: vec![block(0.25), block(f32::INFINITY)],
    }
}

/// Formats that keep metadata of any key.
fn keepers() -> impl Iterator<Item = &'static Format> {
    written_formats().filter(|format| format.keeps_metadata("epochs"))
}

fn write(format: &Format, value: &dyn Tensors) -> Vec<u8> {
    format.to_vec(value, &WriteOptions::new()).unwrap()
}

fn open(file: Vec<u8>) -> File {
    File::from_bytes(file).unwrap()
}

/// A file of a format with these entries and no tensors.
fn with_entries(format: &Format, entries: &[(&str, &str)]) -> File {
    let entries = entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    open(format.to_vec(&TensorMap::new(), &WriteOptions::new().metadata(entries)).unwrap())
}

#[test]
fn every_format_with_metadata_reads_back_what_it_wrote() {
    let mut tested = 0;
    for format in keepers() {
        let name = format.name;
        let file = write(format, &run());
        let opened = open(file.clone());
        assert!(opened.report::<Run>().is_ok(), "{name}: {}", opened.report::<Run>());
        assert_eq!(opened.load::<Run>().unwrap(), run(), "{name}");
        assert_eq!(opened.deserialize::<Run>().unwrap(), run(), "{name}");

        let mut deserializer = Deserializer::from_slice(format, &file);
        assert_eq!(Run::deserialize(&mut deserializer).unwrap(), run(), "{name}");
        deserializer.end().unwrap();
        let mut deserializer = Deserializer::from_reader(format, &file[..]);
        assert_eq!(Run::deserialize(&mut deserializer).unwrap(), run(), "{name}, from a stream");
        deserializer.end().unwrap();

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("run.{}", format.extensions[0]));
        tensorfile::save(&path, &run()).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), file, "{name}");
        assert_eq!(tensorfile::load::<Run>(&path).unwrap(), run(), "{name}");
        tested += 1;
    }
    assert!(tested > 0 || !cfg!(any(feature = "safetensors", feature = "gguf")));
}

#[test]
fn entries_are_text_that_other_programs_read() {
    for format in keepers() {
        let entries = open(write(format, &run())).metadata().unwrap().entries;
        let entries: Vec<(&str, &str)> = entries.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let mut expected = vec![
            ("modelName", "a \"model\"\nof é"),
            ("epochs", "4294967295"),
            ("rate", "0.30000000000000004"),
            ("small", "1e-45"),
            ("general.done", "true"),
            ("letter", "é"),
            ("mode", "exact"),
            ("seed", "18446744073709551615"),
            ("best", "-3"),
            ("wide", "-170141183460469231731687303715884105728"),
            ("host", "127.0.0.1"),
            ("block.dropout", "0.5"),
            ("blocks.0.dropout", "0.25"),
            ("blocks.1.dropout", "inf"),
        ];
        // The order of safetensors is that of the keys.
        if format.name == "safetensors" {
            expected.sort_unstable();
        }
        assert_eq!(entries, expected, "{}", format.name);
    }
}

#[derive(TensorFile, Debug, PartialEq)]
struct Epochs {
    #[tensor(metadata)]
    epochs: u32,
    bias: Array1<f32>,
}

fn epochs() -> Epochs {
    Epochs { epochs: 3, bias: array![1.0] }
}

#[test]
fn a_format_without_metadata_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let keepers: Vec<&str> = keepers().map(|format| format.name).collect();
    for format in written_formats().filter(|format| !format.keeps_metadata("epochs")) {
        let name = format.name;
        let error = format.to_vec(&epochs(), &WriteOptions::new()).unwrap_err();
        let expected = format!(
            "{name}: cannot store the metadata `epochs`; {name} has no place for it; \
             safetensors keeps any metadata, and gguf any whose key is ASCII"
        );
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.category(), Category::Call);
        // The message names all formats that keep metadata.
        for keeper in &keepers {
            assert!(error.to_string().contains(keeper), "{keeper}");
        }

        let path = folder.path().join(format!("epochs.{}", format.extensions[0]));
        assert_eq!(tensorfile::save(&path, &epochs()).unwrap_err().to_string(), expected);
        assert!(!path.exists());
        let mut written = Vec::new();
        format.to_writer(&mut written, &epochs(), &WriteOptions::new()).unwrap_err();
        assert!(written.is_empty(), "{name}");
    }
}

#[test]
fn absent_metadata_fits_every_format() {
    #[derive(TensorFile, Debug, PartialEq)]
    struct Maybe {
        #[tensor(metadata)]
        epochs: Option<u32>,
        bias: Array1<f32>,
    }
    let maybe = || Maybe { epochs: None, bias: array![1.0] };
    for format in written_formats() {
        let mut options = WriteOptions::new();
        options.embed_names = format.max_name.is_some();
        let Ok(file) = format.to_vec(&maybe(), &options) else {
            assert_eq!(format.name, "npy", "npy has one tensor, whose name it does not store");
            continue;
        };
        assert_eq!(open(file).load::<Maybe>().unwrap(), maybe(), "{}", format.name);
    }
}

#[test]
fn metadata_takes_no_position() {
    // These formats store no names, and the type gives them.
    let bias = TensorMap::from_iter([("bias", array![1.0_f32])]);
    for file in [btf::to_vec(&bias).unwrap(), ten::to_vec(&[array![1.0_f32]]).unwrap()] {
        let error = open(file).load::<Epochs>().unwrap_err();
        let report = "1 missing metadata; 1 of 1 tensor fits\nmissing metadata:\n  `epochs`  a u32";
        assert!(error.to_string().ends_with(report), "{error}");
    }

    #[derive(TensorFile, Debug, PartialEq)]
    struct Default3 {
        #[tensor(metadata, default = "three")]
        epochs: u32,
        bias: Array1<f32>,
    }
    fn three() -> u32 {
        3
    }
    let read: Default3 = btf::from_slice(&btf::to_vec(&bias).unwrap()).unwrap();
    assert_eq!(read, Default3 { epochs: 3, bias: array![1.0] });
}

#[test]
fn missing_metadata_is_reported_with_similar_keys() {
    for format in keepers() {
        let file = with_entries(format, &[("author", "me"), ("epoch", "3")]);
        let report = file.report::<Epochs>();
        assert_eq!(
            report.to_string(),
            "1 missing, 1 missing metadata; 0 of 0 tensors fit\nmissing:\n  `bias`  f32[_]\n\
             missing metadata:\n  `epochs`  a u32; did you mean `epoch`?"
        );
        assert_eq!((report.count(), report.missing_metadata[0].near.as_slice()), (2, &["epoch".to_owned()][..]));
        let error = file.load::<Epochs>().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Load(found) if **found == report));

        // Without a report, as from a stream: metadata comes first.
        let file = format.to_vec(&TensorMap::new(), &WriteOptions::new()).unwrap();
        let error = Epochs::deserialize(&mut Deserializer::from_slice(format, &file)).unwrap_err();
        assert_eq!(error.to_string(), "missing metadata `epochs`, which is a u32");
        assert_eq!(error.category(), Category::Mismatch);
    }
}

#[test]
fn missing_metadata_lists_the_keys_of_the_file() {
    for format in keepers() {
        let entries = [("zzz", ""), ("epoch", "3")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let options = WriteOptions::new().metadata(entries.into());
        let file = format.to_vec(&TensorMap::new(), &options).unwrap();
        let error = Epochs::deserialize(&mut Deserializer::from_slice(format, &file)).unwrap_err();
        assert_eq!(error.to_string(), "missing metadata `epochs`, which is a u32; the file has `epoch`, `zzz`");
    }
}

#[derive(TensorFile, Debug)]
struct Checked {
    #[tensor(metadata)]
    _number: u8,
    #[tensor(metadata)]
    _nonzero: std::num::NonZeroU8,
    #[tensor(metadata)]
    _flag: bool,
    #[tensor(metadata)]
    _mode: Mode,
    #[tensor(metadata)]
    _maybe: Option<char>,
    #[tensor(metadata)]
    _host: IpAddr,
}

#[test]
fn invalid_metadata_is_reported_all_at_once() {
    for format in keepers() {
        let entries = [
            ("_number", "256"),
            ("_nonzero", "0"),
            ("_flag", "yes"),
            ("_mode", "slow"),
            ("_maybe", "ab"),
            ("_host", "nowhere"),
        ];
        assert_eq!(
            with_entries(format, &entries).report::<Checked>().to_string(),
            "6 invalid metadata; 0 of 0 tensors fit\ninvalid metadata:\n  \
             `_number`   found `256`, but expected a u8\n  \
             `_nonzero`  found `0`: invalid value: integer `0`, expected a nonzero u8\n  \
             `_flag`     found `yes`, but expected `true` or `false`\n  \
             `_mode`     found `slow`: unknown variant `slow`, expected `fast` or `exact`\n  \
             `_maybe`    found `ab`, but expected one char\n  \
             `_host`     found `nowhere`: invalid IP address syntax"
        );
    }
}

#[test]
fn metadata_and_tensors_have_names_of_their_own() {
    for format in keepers() {
        // The tensor is not the field, and the entry is.
        let map = TensorMap::from_iter([("epochs", array![1.0_f32]), ("bias", array![1.0])]);
        let options = WriteOptions::new().metadata([("epochs".to_owned(), "3".to_owned())].into());
        let file = open(format.to_vec(&map, &options).unwrap());
        let report = file.report::<Epochs>();
        assert_eq!((report.unexpected.len(), report.missing_metadata.len()), (1, 0), "{report}");
        let error = Epochs::deserialize(&mut Deserializer::from_slice(format, &format.to_vec(&map, &options).unwrap()));
        assert!(error.unwrap_err().to_string().contains("unexpected tensor `epochs`"));
    }
}

#[test]
fn aliases_and_prefixes_are_keys_too() {
    #[derive(TensorFile, Debug, PartialEq)]
    #[tensor(prefix = "run")]
    struct Old {
        #[tensor(metadata, alias = "steps", alias = "train.steps")]
        epochs: u32,
    }
    for format in keepers() {
        for key in ["run.epochs", "run.steps", "run.train.steps"] {
            assert_eq!(with_entries(format, &[(key, "3")]).load::<Old>().unwrap(), Old { epochs: 3 }, "{key}");
        }
        assert!(with_entries(format, &[("epochs", "3")]).load::<Old>().is_err());
        let entries = open(write(format, &Old { epochs: 4 })).metadata().unwrap().entries;
        assert_eq!(entries["run.epochs"], "4");
    }
}

#[derive(TensorFile, Debug, PartialEq, Default)]
struct Info {
    #[tensor(metadata)]
    author: String,
    #[tensor(metadata)]
    epochs: Option<u8>,
}

#[derive(TensorFile, Debug, PartialEq)]
struct Described {
    bias: Array1<f32>,
    info: Info,
    maybe: Option<Info>,
    #[tensor(default)]
    or_default: Info,
    nested: Option<Box<Described2>>,
    #[tensor(flatten)]
    flat: Option<Flat>,
}

#[derive(TensorFile, Debug, PartialEq)]
struct Described2 {
    deep: Option<Info>,
}

#[derive(TensorFile, Debug, PartialEq)]
struct Flat {
    #[tensor(metadata)]
    license: String,
}

#[test]
fn structs_of_metadata_alone_are_found() {
    let info = |author: &str| Info { author: author.to_owned(), epochs: None };
    for format in keepers() {
        for there in [true, false] {
            let value = || Described {
                bias: array![1.0],
                info: info("a"),
                maybe: there.then(|| info("b")),
                or_default: if there { info("c") } else { Info::default() },
                nested: there.then(|| Box::new(Described2 { deep: Some(info("d")) })),
                flat: there.then(|| Flat { license: "MIT".to_owned() }),
            };
            let file = write(format, &value());
            assert_eq!(open(file.clone()).load::<Described>().unwrap(), value(), "{}", format.name);
            let mut deserializer = Deserializer::from_reader(format, &file[..]);
            assert_eq!(Described::deserialize(&mut deserializer).unwrap(), value(), "{}", format.name);
        }
    }
}

#[test]
fn items_of_metadata_alone_are_refused() {
    let info = || Info { author: "me".to_owned(), epochs: None };
    let Some(format) = keepers().next() else { return };
    let refused = |value: &dyn Tensors| format.to_vec(value, &WriteOptions::new()).unwrap_err().to_string();
    let instead = "cannot store an item or an entry that holds metadata but no tensor; make it a field";
    let name = format.name;
    assert_eq!(refused(&[info(), info()]), format!("{name}: tensor `0`: {instead}"));
    assert_eq!(refused(&BTreeMap::from([("a", info())])), format!("{name}: tensor `a`: {instead}"));
    let list = "cannot store a list with an item that holds no tensor; its length could not be told";
    assert_eq!(refused(&vec![info()]), format!("{name}: tensor `0`: {list}"));
}

#[test]
fn values_that_are_not_one_are_refused() {
    #[derive(TensorFile)]
    struct Listed {
        #[tensor(metadata)]
        list: Vec<u8>,
    }
    #[derive(TensorFile)]
    struct Twice {
        #[tensor(metadata)]
        twice: Option<Option<u8>>,
    }
    let Some(format) = keepers().next() else { return };
    let refused = |value: &dyn Tensors| format.to_vec(value, &WriteOptions::new()).unwrap_err().to_string();
    let expected = "cannot be metadata; expected a string, char, bool, number or variant without a value, or an `Option` \
        or newtype of one";
    let name = format.name;
    let list = format!("{name}: cannot store the metadata `list`; a list {expected}");
    assert_eq!(refused(&Listed { list: vec![1] }), list);
    let option = format!("{name}: cannot store the metadata `twice`; an `Option` in an `Option` {expected}");
    assert_eq!(refused(&Twice { twice: Some(Some(1)) }), option);
    assert_eq!(refused(&Twice { twice: Some(None) }), option);
    let report = with_entries(format, &[("list", "[1]")]).report::<Listed>().to_string();
    assert!(report.contains("`list`  found `[1]`: a list cannot be metadata"), "{report}");
}

#[test]
fn a_field_replaces_an_entry_of_the_options() {
    for format in keepers() {
        let entries = [("epochs", "7"), ("author", "me")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let options = WriteOptions::new().metadata(entries.into());
        let file = open(format.to_vec(&epochs(), &options).unwrap());
        let entries = file.metadata().unwrap().entries;
        assert_eq!((entries["epochs"].as_str(), entries["author"].as_str(), entries.len()), ("3", "me", 2));
    }
}

#[test]
fn two_fields_of_one_key_are_refused() {
    #[derive(TensorFile)]
    struct Both {
        #[tensor(metadata)]
        author: String,
        #[tensor(flatten)]
        info: Info,
    }
    let Some(format) = keepers().next() else { return };
    let both = Both { author: String::new(), info: Info::default() };
    let error = format.to_vec(&both, &WriteOptions::new()).unwrap_err();
    let expected = format!("{}: cannot store the metadata `author`; two fields have this key", format.name);
    assert_eq!(error.to_string(), expected);
}

#[test]
fn other_serde_formats_see_ordinary_fields() {
    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    struct Plain {
        name: String,
        epochs: u32,
        rate: f32,
        mode: Mode,
        seed: Seed,
        best: Option<i8>,
        letter: char,
        wide: u128,
    }
    #[derive(TensorFile, Debug, PartialEq)]
    struct Derived {
        #[tensor(metadata)]
        name: String,
        #[tensor(metadata)]
        epochs: u32,
        #[tensor(metadata)]
        rate: f32,
        #[tensor(metadata)]
        mode: Mode,
        #[tensor(metadata)]
        seed: Seed,
        #[tensor(metadata)]
        best: Option<i8>,
        #[tensor(metadata)]
        letter: char,
        #[tensor(metadata)]
        wide: u128,
    }
    for best in [None, Some(-1)] {
        let (name, mode, seed) = ("n".to_owned(), Mode::Fast, Seed(5));
        let plain =
            Plain { name: name.clone(), epochs: 3, rate: 0.1, mode, seed: Seed(5), best, letter: 'é', wide: 1 };
        let derived = Derived { name, epochs: 3, rate: 0.1, mode, seed, best, letter: 'é', wide: 1 };
        let json = serde_json::to_string(&plain).unwrap();
        assert_eq!(serde_json::to_string(&derived).unwrap(), json);
        assert_eq!(serde_json::from_str::<Derived>(&json).unwrap(), derived);
        assert_eq!(serde_json::from_value::<Derived>(serde_json::to_value(&plain).unwrap()).unwrap(), derived);

        // A format without names, in which variants are numbers.
        let bytes = postcard::to_stdvec(&derived).unwrap();
        assert_eq!(postcard::from_bytes::<Derived>(&bytes).unwrap(), derived);
    }
    let json = serde_json::to_string(&epochs()).unwrap();
    assert_eq!(serde_json::from_str::<Epochs>(&json).unwrap(), epochs());
    let error = serde_json::from_str::<Epochs>(&json.replace('3', "\"x\"")).unwrap_err().to_string();
    assert!(error.starts_with("invalid type: string \"x\", expected a u32"), "{error}");
    let error = serde_json::from_str::<Epochs>(r#"{"bias":null}"#).unwrap_err().to_string();
    assert!(error.starts_with("invalid type: null"), "{error}");
    let bias = &json[json.find("\"bias\"").unwrap()..];
    let error = serde_json::from_str::<Epochs>(&format!("{{{bias}")).unwrap_err().to_string();
    assert!(error.starts_with("missing field `epochs`"), "{error}");
}

#[test]
fn plain_serde_structs_may_hold_structs_with_metadata() {
    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    struct Outer {
        inner: Epochs,
    }
    for format in keepers() {
        let outer = Outer { inner: epochs() };
        let file = format.to_vec(&tensorfile::SerdeValue(&outer), &WriteOptions::new()).unwrap();
        assert_eq!(open(file.clone()).metadata().unwrap().entries["inner.epochs"], "3");
        assert_eq!(open(file).deserialize::<Outer>().unwrap(), outer);

        #[derive(Serialize)]
        struct Flattened {
            #[serde(flatten)]
            inner: Epochs,
        }
        let error = format.to_vec(&tensorfile::SerdeValue(&Flattened { inner: epochs() }), &WriteOptions::new());
        let error = error.unwrap_err().to_string();
        assert!(error.contains("cannot move metadata through `#[serde(flatten)]`"), "{error}");
    }
}

#[test]
fn generic_and_written_only_structs_have_metadata() {
    #[derive(TensorFile, Debug, PartialEq)]
    struct Tagged<T, A> {
        #[tensor(metadata)]
        tag: T,
        value: A,
    }
    #[derive(TensorFile)]
    #[tensor(write_only)]
    struct Borrowed<'a> {
        #[tensor(metadata)]
        tag: &'a str,
        value: ndarray::ArrayView1<'a, f32>,
    }
    let array = array![1.0_f32];
    for format in keepers() {
        let tagged = Tagged { tag: "x".to_owned(), value: array.clone() };
        let file = write(format, &Borrowed { tag: "x", value: array.view() });
        assert_eq!(file, write(format, &tagged));
        assert_eq!(open(file).load::<Tagged<String, Array1<f32>>>().unwrap(), tagged);
    }
}

#[test]
fn the_schema_lists_metadata() {
    let schema = Run::schema();
    let metadata = schema.metadata();
    let of = |key: &str| metadata.iter().find(|entry| entry.key == key).unwrap();
    assert_eq!((of("epochs").kind, of("epochs").optional), (Some(MetadataKind::U32), false));
    assert_eq!((of("best").kind, of("best").optional), (Some(MetadataKind::I16), true));
    assert!(matches!(of("mode").kind, Some(MetadataKind::Variant { names: &["fast", "exact"], .. })));
    assert_eq!(of("blocks.*.dropout").kind, Some(MetadataKind::F32));
    assert!(schema.to_string().ends_with("block.dropout: metadata\nblocks.*.dropout: metadata\n"), "{schema}");
    assert_eq!(schema.entries().len(), 3);
}

#[test]
fn a_value_that_changes_is_an_error() {
    use std::cell::Cell;
    use tensorfile::{Result, TensorRecord, TensorSink};

    struct Changing(Cell<u32>, Option<u32>);
    impl Tensors for Changing {
        fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
            self.0.set(self.0.get() + 1);
            let value = if self.0.get() == 1 { Some(1) } else { self.1 };
            Forward(sink, value).send_all()
        }
    }
    struct Forward<'a>(&'a mut dyn TensorSink, Option<u32>);
    impl Forward<'_> {
        fn send_all(&mut self) -> Result<()> {
            if let Some(value) = self.1 {
                self.0.metadata("epochs", &tensorfile::MetadataValue::U32(value))?;
            }
            // A value of small tensors only is not sent again.
            let info = tensorfile::TensorInfo::new(tensorfile::Dtype::I8, [70_000]);
            self.0.tensor(&TensorRecord { name: "a", info: &info, data: &&[1_u8; 70_000][..], tied: None })
        }
    }

    for format in keepers() {
        let write = |second| format.to_vec(&Changing(Cell::new(0), second), &WriteOptions::new());
        assert!(write(Some(1)).is_ok());
        let (name, changed) = (format.name, "the value changed between planning and writing");
        let error = write(Some(2)).unwrap_err().to_string();
        assert_eq!(error, format!("{name}: {changed}: metadata was `epochs` = `1`, then came `epochs` = `2`"));
        let error = write(None).unwrap_err().to_string();
        assert_eq!(error, format!("{name}: {changed}: only 0 of 1 entries of metadata came again"));
    }
}

#[cfg(feature = "shards")]
#[test]
fn every_shard_has_the_metadata() {
    for format in keepers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("run.{}", format.extensions[0]));
        tensorfile::SaveOptions::new().max_shard_bytes(4).save(&path, &run()).unwrap();
        let index = folder.path().join(format!("run.{}.index.json", format.extensions[0]));
        let file = File::open(&index).unwrap();
        assert!(file.shards().len() > 1);
        for shard in file.shards() {
            assert_eq!(File::open(shard).unwrap().metadata().unwrap().entries["epochs"], "4294967295");
        }
        assert_eq!(file.load::<Run>().unwrap(), run());
        assert_eq!(tensorfile::load::<Run>(&index).unwrap(), run());

        // The index counts first.
        let text = std::fs::read_to_string(&index).unwrap();
        assert!(text.contains("\"total_size\""));
        std::fs::write(&index, text.replacen("\"total_size\"", "\"epochs\": 5, \"total_size\"", 1)).unwrap();
        assert_eq!(tensorfile::load::<Run>(&index).unwrap(), Run { epochs: 5, ..run() });
    }
    let folder = tempfile::tempdir().unwrap();
    let error =
        tensorfile::SaveOptions::new().max_shard_bytes(4).save(folder.path().join("run.ten"), &epochs()).unwrap_err();
    assert!(error.to_string().contains("cannot store the metadata `epochs`"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn the_fixed_keys_of_other_formats_are_fields_too() {
    #[derive(TensorFile, Debug, PartialEq)]
    struct Named {
        #[tensor(metadata)]
        model: String,
        a: Array1<f32>,
    }
    #[derive(TensorFile, Debug, PartialEq)]
    #[tensor(prefix = "ptd")]
    struct Llama {
        #[tensor(metadata)]
        model_name: String,
        #[tensor(metadata)]
        version: f32,
        a: Array1<f32>,
    }
    let named = Named { model: "MiniLM".to_owned(), a: array![1.0] };
    let llama = Llama { model_name: "llama".to_owned(), version: 3.2, a: array![1.0] };
    for format in FORMATS.iter().filter(|format| format.keeps_metadata("model")) {
        let file = write(format, &named);
        assert_eq!(open(file.clone()).load::<Named>().unwrap(), named, "{}", format.name);
        let mut deserializer = Deserializer::from_reader(format, &file[..]);
        assert_eq!(Named::deserialize(&mut deserializer).unwrap(), named, "{}", format.name);
        assert_eq!(Named::deserialize(&mut Deserializer::from_slice(format, &file)).unwrap(), named);
    }
    for format in FORMATS.iter().filter(|format| format.keeps_metadata("ptd.model_name")) {
        let file = write(format, &llama);
        assert_eq!(open(file.clone()).load::<Llama>().unwrap(), llama, "{}", format.name);
        let mut deserializer = Deserializer::from_reader(format, &file[..]);
        assert_eq!(Llama::deserialize(&mut deserializer).unwrap(), llama, "{}", format.name);
    }
}

#[cfg(feature = "gguf")]
mod gguf {
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
        let array =
            |kind: u32, count: u64, items: &[u8]| [&kind.to_le_bytes()[..], &count.to_le_bytes(), items].concat();
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
        for (key, len) in [("u8", 5), ("long", 4 + 12 + 400), ("words", 4 + 12 + 18), ("nested", 30), ("not utf-8", 13)]
        {
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
}

mod edits {
    use std::fs;

    use ndarray::array;
    use tensorfile::{FORMATS, File, Format, MetadataEdit, TensorMap, WriteOptions};

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
            let (name, none, one, long) =
                (format.name, file(format, &[]), file(format, &[(key, "1")]), "x".repeat(1000));
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
            for backend in [tensorfile::Backend::Mapped, tensorfile::Backend::Positioned] {
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
            (
                "long",
                "1",
                "cannot set the metadata `long` to `1`; it is an array in the file, which can only be removed",
            ),
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

        // The tag of a dtype that does not exist, in place of that of `u8`.
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

    #[cfg(feature = "shards")]
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
}
