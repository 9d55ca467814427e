//! Fields with `#[tensor(metadata)]`, in every format that keeps metadata.

mod edits;
#[cfg(feature = "gguf")]
mod gguf;

use std::collections::BTreeMap;
use std::net::IpAddr;

use ndarray::{Array1, array};
use serde::{Deserialize, Serialize};
use tensorfile::format::Deserializer;
use tensorfile::model::{MetadataKind, describes_dtypes, describes_layout};
use tensorfile::{Category, ErrorKind, FORMATS, File, Format, TensorFile, TensorMap, Tensors, WriteOptions, btf, ten};

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
        // safetensors sorts entries by their keys.
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
        options.embed_names = Some(format.max_name.is_some());
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
    use tensorfile::Result;
    use tensorfile::model::{TensorRecord, TensorSink};

    /// Metadata with another value in the last pass.
    struct Changing {
        pass: Cell<u32>,
        last: u32,
        value: Option<u32>,
    }
    impl Tensors for Changing {
        fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
            self.pass.set(self.pass.get() + 1);
            let value = if self.pass.get() < self.last { Some(1) } else { self.value };
            Forward(sink, value).send_all()
        }
    }
    struct Forward<'a>(&'a mut dyn TensorSink, Option<u32>);
    impl Forward<'_> {
        fn send_all(&mut self) -> Result<()> {
            if let Some(value) = self.1 {
                self.0.metadata("epochs", &tensorfile::model::MetadataValue::U32(value))?;
            }
            let info = tensorfile::TensorInfo::new(tensorfile::Dtype::I8, [3]);
            self.0.tensor(&TensorRecord { name: "a", info: &info, data: &&[1_u8; 3][..], tied: None })
        }
    }

    for format in keepers() {
        let unchanged = Changing { pass: Cell::new(0), last: 0, value: Some(1) };
        format.to_vec(&unchanged, &WriteOptions::new()).unwrap();
        let last = unchanged.pass.get();
        let write = |value| format.to_vec(&Changing { pass: Cell::new(0), last, value }, &WriteOptions::new());
        let (name, changed) = (format.name, "the value changed between planning and writing");
        let error = write(Some(2)).unwrap_err().to_string();
        assert_eq!(error, format!("{name}: {changed}: metadata was `epochs` = `1`, then came `epochs` = `2`"));
        let error = write(None).unwrap_err().to_string();
        assert_eq!(error, format!("{name}: {changed}: only 0 of 1 entries of metadata came again"));
    }
}

/// The keys of metadata that are true of one file only.
const OF_LAYOUT: [&str; 6] =
    ["DCP_SHARDING_INFO", "DCP_VERSION", "split.no", "split.count", "split.tensors.count", "total_size"];

#[test]
fn what_describes_the_layout_of_a_file_is_not_copied_to_another() {
    assert!(OF_LAYOUT.iter().all(|key| describes_layout(key) && !describes_dtypes(key)));
    assert!(describes_dtypes("general.file_type") && !describes_layout("general.file_type"));
    let entries =
        |value: &str| OF_LAYOUT.iter().chain(&["author"]).map(|key| ((*key).to_owned(), value.to_owned())).collect();
    let map = TensorMap::from_iter([("a", array![1.0_f32])]);
    for from in keepers().filter(|format| OF_LAYOUT.iter().all(|key| format.keeps_metadata(key))) {
        let file = from.to_vec(&map, &WriteOptions::new().metadata(entries("1"))).unwrap();
        let metadata = File::from_bytes(file).unwrap().metadata().unwrap();
        for to in keepers() {
            let written = to.to_vec(&map, &WriteOptions::new().keep_metadata(&metadata)).unwrap();
            let found = File::from_bytes(written).unwrap().metadata().unwrap().entries;
            assert_eq!(found.keys().collect::<Vec<_>>(), ["author"], "{} to {}", from.name, to.name);
        }
    }
    // A shard differs from the next one in it, and says nothing about all of them.
    #[cfg(feature = "safetensors")]
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.safetensors");
        let map = TensorMap::from_iter([("a", array![1.0_f32]), ("b", array![2.0])]);
        tensorfile::SaveOptions::new().max_shard_bytes(4).save(&path, &map).unwrap();
        for (shard, value) in File::open(&path).unwrap().shards().iter().zip(["1", "2"]) {
            let one: TensorMap = tensorfile::load(shard).unwrap();
            let options = WriteOptions::new().metadata(entries(value)).metadata(entries(value));
            std::fs::write(shard, tensorfile::safetensors::FORMAT.to_vec(&one, &options).unwrap()).unwrap();
        }
        let metadata = File::open(&path).unwrap().metadata().unwrap();
        assert_eq!(metadata.entries.into_iter().collect::<Vec<_>>(), [("author".to_owned(), "1".to_owned())]);
        let warnings: Vec<_> = metadata.warnings.into_iter().map(|warning| warning.text).collect();
        assert_eq!(warnings, ["m-00002-of-00002.safetensors: its `author` differs and is ignored"]);
    }
}

/// A folder of `HuggingFaceStorageWriter` of PyTorch 2.15, with an index: nothing is wrong with it.
#[cfg(feature = "safetensors")]
#[test]
fn a_consolidated_folder_of_pytorch_is_as_it_should_be() {
    let folder = crate::support::root().join("tests/fixtures/cases/torch2/dcp-hf-mapped");
    let file = File::open(folder).unwrap();
    let metadata = file.metadata().unwrap();
    assert_eq!((file.len(), metadata.warnings.len()), (27, 0), "{:?}", metadata.warnings);
    assert!(!metadata.entries.keys().any(|key| key.starts_with("DCP")), "{:?}", metadata.entries);
    assert!(
        file.shards()
            .iter()
            .all(|shard| { File::open(shard).unwrap().metadata().unwrap().entries.contains_key("DCP_SHARDING_INFO") })
    );
}

#[cfg(feature = "safetensors")]
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
