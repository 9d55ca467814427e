//! Files in storages implemented outside of the crate.

use std::borrow::Cow;
use std::io;
use std::sync::{Arc, Mutex};

use tensorfile::file::{ReadCost, ReadRanges};
use tensorfile::format::WriteOptions;
use tensorfile::{Category, ErrorKind, File, OpenOptions, Tensor, TensorMap};

use crate::support::multi_tensor_formats;

/// Bytes in memory that record the ranges asked for, and can be lost.
struct Source {
    name: &'static str,
    bytes: Mutex<Vec<u8>>,
    asked: Mutex<Vec<(u64, usize)>>,
    hinted: Mutex<Vec<u64>>,
}

impl Source {
    fn new(name: &'static str, bytes: Vec<u8>) -> Arc<Self> {
        let (asked, hinted) = Default::default();
        Arc::new(Self { name, bytes: Mutex::new(bytes), asked, hinted })
    }
}

impl ReadRanges for Source {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.asked.lock().unwrap().push((offset, bytes.len()));
        let stored = self.bytes.lock().unwrap();
        let start = usize::try_from(offset).unwrap();
        let found = stored.get(start..start + bytes.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        bytes.copy_from_slice(found);
        Ok(())
    }

    fn will_read(&self, offsets: &[u64]) {
        self.hinted.lock().unwrap().extend(offsets);
    }

    fn name(&self) -> Cow<'_, str> {
        self.name.into()
    }
}

fn map() -> TensorMap {
    let table = ndarray::Array2::from_shape_fn((300, 7), |(row, column)| (7 * row + column) as f32);
    let bytes = ndarray::Array1::from_iter(0..5000_i32);
    TensorMap::from_iter([("table", Tensor::from_array(&table)), ("bytes", Tensor::from_array(&bytes))])
}

/// A source with reads that cost little, as of a file on disk.
struct Local(Arc<Source>);

impl ReadRanges for Local {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, bytes)
    }

    fn cost(&self) -> ReadCost {
        ReadCost::Call
    }

    fn name(&self) -> Cow<'_, str> {
        self.0.name()
    }
}

#[test]
fn what_a_read_costs_decides_how_much_is_asked_for() {
    let rows = ndarray::Array2::from_shape_fn((10, 210_000), |(row, column)| (row + column) as f32);
    let bytes = tensorfile::ten::to_vec(&TensorMap::from_iter([("rows", Tensor::from_array(&rows))])).unwrap();
    let part = [0..10, 0..200_000];
    let read = |source: &Arc<Source>, file: File| {
        source.asked.lock().unwrap().clear();
        assert_eq!(file.slice("rows", &part).unwrap().array::<f32>().unwrap()[[3, 5]], 8.0);
        let asked = source.asked.lock().unwrap();
        (asked.len(), asked.iter().map(|(_, len)| len).sum::<usize>())
    };
    let open = |source: Arc<dyn ReadRanges>| OpenOptions::new().open_ranges(source).unwrap();
    let source = Source::new("store/model.ten", bytes.clone());
    let (requests, over_read) = read(&source, open(Arc::clone(&source) as Arc<dyn ReadRanges>));
    let source = Source::new("disk/model.ten", bytes);
    let (calls, exact) = read(&source, open(Arc::new(Local(Arc::clone(&source)))));
    // Gaps of 40 kB are a request's affair.
    assert_eq!((calls, exact), (10, 10 * 200_000 * 4));
    assert!(requests < calls && over_read > exact, "{requests}, {over_read}");
}

#[test]
fn every_format_is_opened_in_a_source_of_ranges() {
    for format in multi_tensor_formats() {
        let bytes = format.to_vec(&map(), &WriteOptions::new().embed_names(true)).unwrap();
        let source = Source::new("store/model", bytes.clone());
        let file = OpenOptions::new().open_ranges(Arc::clone(&source) as Arc<dyn ReadRanges>).unwrap();
        assert_eq!((file.format().name, file.file_bytes()), (format.name, bytes.len() as u64));
        assert_eq!((file.path(), file.location().as_deref()), (None, Some("store/model")));
        assert_eq!(file.load::<TensorMap>().unwrap(), File::from_bytes(bytes).unwrap().load::<TensorMap>().unwrap());

        source.asked.lock().unwrap().clear();
        let part = file.slice("table", &[10..12, 0..7]).unwrap();
        assert_eq!(part.array::<f32>().unwrap()[[1, 6]], 83.0);
        let asked: usize = source.asked.lock().unwrap().iter().map(|(_, len)| len).sum();
        if !file.get("table").unwrap().is_encoded() {
            assert_eq!(asked, 2 * 7 * 4, "{}", format.name);
        }
        let error = file.view("table").unwrap_err();
        assert_eq!(error.category(), Category::Call, "nothing can be borrowed: {error}");
    }
}

#[test]
fn an_index_in_many_places_is_announced() {
    let map: TensorMap = (0..20).map(|i| (i.to_string(), ndarray::Array1::<f32>::zeros(50_000))).collect();
    let source = Source::new("many.btf", tensorfile::btf::to_vec(&map).unwrap());
    OpenOptions::new().open_ranges(Arc::clone(&source) as Arc<dyn ReadRanges>).unwrap();
    let mut hinted = source.hinted.lock().unwrap().clone();
    hinted.dedup();
    assert_eq!(
        hinted.len(),
        18,
        "all headers but the first two, which are read to know that there are more: {hinted:?}"
    );
}

#[test]
fn the_extension_of_the_name_counts() {
    // Without elements, a file of BTF has no content to go by.
    let source = Source::new("folder/empty.ten", Vec::new());
    let file = OpenOptions::new().open_ranges(source).unwrap();
    assert_eq!((file.format().name, file.len()), ("ten", 0));
    let error = OpenOptions::new().open_ranges(Source::new("store/notes", b"Dear diary, ".to_vec())).unwrap_err();
    assert!(error.to_string().starts_with("store/notes: "), "{error}");
}

#[test]
fn errors_of_a_source_name_it() {
    let bytes = tensorfile::ten::to_vec(&map()).unwrap();
    let source = Source::new("cache/17", bytes);
    let file = OpenOptions::new().open_ranges(Arc::clone(&source) as Arc<dyn ReadRanges>).unwrap();
    source.bytes.lock().unwrap().truncate(4000);
    let error = file.tensor("table").unwrap_err();
    assert_eq!(error.to_string(), "cache/17: ten: tensor `table`: unexpected end of file (at byte 96)");

    /// Fails with its own kind of error.
    struct Refuses;
    impl ReadRanges for Refuses {
        fn len(&self) -> io::Result<u64> {
            Err(tensorfile::Error::from(ErrorKind::Cancelled).into())
        }
        fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
            unreachable!("its length is unknown")
        }
        fn name(&self) -> Cow<'_, str> {
            "nothing".into()
        }
    }
    let error = OpenOptions::new().open_ranges(Arc::new(Refuses)).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Cancelled), "{error:?}");
}
