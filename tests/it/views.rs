//! Views of tensors pass on everything sent with them, and add the file to errors of reading.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use ndarray::{Array1, array};
use tensorfile::model::{TensorRecord, TensorSink};
use tensorfile::view::{CastView, FileView, Joined, RenameRules, Renamed, Subset, forward};
use tensorfile::{Dtype, Result, TensorFile, TensorMap, Tensors};

#[derive(TensorFile)]
struct Model {
    weight: Array1<f32>,
    bias: Array1<f32>,
    #[tensor(metadata)]
    epochs: u32,
}

fn model() -> Model {
    Model { weight: array![1.0, 2.0], bias: array![0.5], epochs: 3 }
}

/// Keeps a description of everything it is sent.
#[derive(Default)]
struct Sent(Vec<String>);

impl TensorSink for Sent {
    fn tensor(&mut self, tensor: &TensorRecord<'_>) -> Result<()> {
        self.0.push(format!("{} {}", tensor.name, tensor.info));
        Ok(())
    }

    fn expect(&mut self, tensors: usize) -> Result<()> {
        self.0.push(format!("expect {tensors}"));
        Ok(())
    }

    fn metadata(&mut self, key: &str, value: &tensorfile::model::MetadataValue) -> Result<()> {
        self.0.push(format!("{key}={value}"));
        Ok(())
    }
}

fn sent(tensors: &dyn Tensors) -> Vec<String> {
    let mut sent = Sent::default();
    tensors.send(&mut sent).unwrap();
    sent.0
}

#[test]
fn views_pass_on_metadata() {
    let model = model();
    let plain = sent(&model);
    assert!(plain.contains(&"epochs=3".to_owned()), "{plain:?}");
    assert!(plain.iter().any(|line| line.starts_with("expect ")), "{plain:?}");

    let rules = RenameRules::parse(["*=x.*"]).unwrap();
    let own = Forwarded(&model);
    let renamed = Renamed::new(&own, |_| None);
    let cast = CastView::new(&renamed, |_, info| info.dtype);
    let views: [(&str, &dyn Tensors); 10] = [
        ("subset by name", &Subset::new(&model, |_| true)),
        ("subset by position", &Subset::from_positions(&model, [0, 1])),
        ("renamed", &Renamed::new(&model, |_| None)),
        ("renamed by position", &Renamed::by_position(&model)),
        ("renamed by rules", &Renamed::by_rules(&model, &rules)),
        ("renamed by a list", &Renamed::with_names(&model, vec!["a".to_owned()])),
        ("cast", &CastView::new(&model, |_, _| Dtype::F64)),
        ("joined", &Joined::new(&[&model]).unwrap()),
        ("own", &own),
        ("all at once", &Joined::new(&[&cast]).unwrap()),
    ];
    for (what, view) in views {
        let view = sent(view);
        assert_eq!(view.len(), plain.len(), "{what}: {view:?}");
        let others = |lines: &[String]| lines.iter().filter(|line| !line.contains(' ')).cloned().collect::<Vec<_>>();
        assert_eq!(others(&view), others(&plain), "{what}");
        assert_eq!(
            view.iter().find(|line| line.starts_with("expect ")),
            plain.iter().find(|line| line.starts_with("expect ")),
            "{what}"
        );
    }
}

struct Forwarded<'t>(&'t dyn Tensors);

impl Tensors for Forwarded<'_> {
    fn send(&self, sink: &mut dyn TensorSink) -> Result<()> {
        self.0.send(&mut forward(sink, &mut |tensor, next| next.tensor(tensor)))
    }
}

/// A part that replaces a tensor sends its metadata once, in its turn.
#[test]
fn joined_parts_send_their_metadata_once() {
    let (one, two) = (model(), model());
    let joined = Joined::new(&[&one, &two]).unwrap();
    let metadata = sent(&joined).into_iter().filter(|line| line == "epochs=3").count();
    assert_eq!(metadata, 2);
    assert_eq!(joined.repeated(), Some(("weight", [0, 1])));
}

#[cfg(feature = "safetensors")]
#[test]
fn shards_keep_metadata() {
    use tensorfile::{File, SaveOptions};

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    SaveOptions::new().max_shard_bytes(8).save(&path, &model()).unwrap();
    let file = File::open(&path).unwrap();
    assert_eq!(file.shards().len(), 2);
    assert_eq!(file.metadata().unwrap().entries["epochs"], "3");
}

#[test]
fn errors_of_reading_name_the_file_by_the_path_of_the_view() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.ten");
    let map = TensorMap::from_iter([("a", Array1::<f32>::zeros(100)), ("b", Array1::<f32>::zeros(100))]);
    tensorfile::save(&path, &map).unwrap();
    let file = tensorfile::OpenOptions::new().backend(tensorfile::file::Backend::Positioned).open(&path).unwrap();
    let view = FileView::new(&file, Path::new("the input"));
    assert_eq!(sent(&view), ["a f32[100]", "b f32[100]"]);
    assert_eq!(sent(&view.with_positions(vec![1, 7, 0])), ["b f32[100]", "a f32[100]"]);

    fs::File::options().write(true).open(&path).unwrap().set_len(200).unwrap();
    let error = tensorfile::save(folder.path().join("new.ten"), &view).unwrap_err();
    assert_eq!(error.path(), Some(Path::new("the input")), "{error}");
}

/// Notes the length of the longest write.
#[derive(Default)]
struct Longest(usize);

impl Write for Longest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.max(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is read is still in the processor's caches when it is written. A view that reads long chunks for several
/// threads would take longer.
#[test]
fn views_of_files_are_copied_in_short_chunks() {
    const SHORT: usize = 256 << 10;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.ten");
    tensorfile::save(&path, &TensorMap::from_iter([("a", Array1::<f32>::zeros(3 << 20))])).unwrap();
    let file = tensorfile::OpenOptions::new().backend(tensorfile::file::Backend::Positioned).open(&path).unwrap();
    let longest = |tensors: &dyn Tensors| {
        let mut longest = Longest::default();
        tensorfile::btf::FORMAT.to_writer(&mut longest, tensors, &tensorfile::WriteOptions::new()).unwrap();
        longest.0
    };
    let view = FileView::new(&file, &path);
    let views: [(&str, &dyn Tensors); 7] = [
        ("the file", &file),
        ("with a path", &view),
        ("subset", &Subset::new(&file, |_| true)),
        ("renamed", &Renamed::by_position(&file)),
        ("cast to its own dtype", &CastView::new(&file, |_, info| info.dtype)),
        ("joined", &Joined::new(&[&view]).unwrap()),
        ("own", &Forwarded(&view)),
    ];
    for (what, view) in views {
        assert_eq!(longest(view), SHORT, "{what}");
    }
    assert!(longest(&CastView::new(&file, |_, _| Dtype::F64)) > SHORT, "a cast is divided among threads");
}
