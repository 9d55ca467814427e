//! Fields of every container of the standard library, in tensor files and in other serde formats.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use ndarray::{Array2, Ix1, Ix2, IxDyn, array};
use tensorfile::{TensorFile, TensorMap, ten};

use crate::support::{btf_file, message, ten_file};

#[derive(TensorFile, Debug, Clone, PartialEq, Default)]
struct Containers {
    boxed: Box<[f32]>,
    shared: Arc<[u8]>,
    counted: Rc<[i64]>,
    arrays: Box<[Array2<f32>]>,
    cow: Cow<'static, Array2<f32>>,
    queue: VecDeque<u16>,
    queue_of_arrays: VecDeque<Array2<f32>>,
    size: usize,
    offset: isize,
    sizes: Vec<usize>,
    fixed: [isize; 2],
    size_queue: VecDeque<usize>,
    nothing: (),
    marker: PhantomData<String>,
    last: Option<Array2<f32>>,
}

/// A queue whose items are in two places.
fn wrapped<T: Clone>(items: [T; 3]) -> VecDeque<T> {
    let mut queue = VecDeque::with_capacity(3);
    let [one, two, three] = items;
    queue.push_back(two);
    queue.push_back(three);
    queue.push_front(one);
    assert!(!queue.as_slices().1.is_empty(), "the queue is in two places");
    queue
}

fn containers() -> Containers {
    Containers {
        boxed: [0.5, -1.0].into(),
        shared: [1, 2, 3].into(),
        counted: [-1, 1 << 40].into(),
        arrays: [array![[1.0, 2.0]], array![[3.0], [4.0]]].into(),
        cow: Cow::Owned(array![[7.0]]),
        queue: wrapped([1, 2, 3]),
        queue_of_arrays: wrapped([array![[1.0]], array![[2.0]], array![[3.0]]]),
        size: usize::MAX,
        offset: isize::MIN,
        sizes: vec![0, 1, usize::MAX],
        fixed: [-1, 1],
        size_queue: wrapped([4, 5, 6]),
        nothing: (),
        marker: PhantomData,
        last: Some(array![[8.0]]),
    }
}

#[test]
fn containers_are_stored_as_what_they_hold() {
    let map: TensorMap = ten::from_slice(&ten_file(&containers())).unwrap();
    let found: Vec<String> = map.infos().map(|(name, info)| format!("{name}: {info}")).collect();
    let expected = [
        "boxed: f32[2]",
        "shared: u8[3]",
        "counted: i64[2]",
        "arrays.0: f32[1, 2]",
        "arrays.1: f32[2, 1]",
        "cow: f32[1, 1]",
        "queue: u16[3]",
        "queue_of_arrays.0: f32[1, 1]",
        "queue_of_arrays.1: f32[1, 1]",
        "queue_of_arrays.2: f32[1, 1]",
        "size: u64[]",
        "offset: i64[]",
        "sizes: u64[3]",
        "fixed: i64[2]",
        "size_queue: u64[3]",
        "last: f32[1, 1]",
    ];
    assert_eq!(found, expected);
    assert_eq!(map["queue"].to_array::<u16>().unwrap(), array![1, 2, 3].into_dyn());
    let schema = Containers::schema().to_string();
    assert!(schema.contains("sizes: u64[_]\nfixed: i64[2]\n") && !schema.contains("nothing"), "{schema}");
}

#[test]
fn containers_are_read_from_every_kind_of_file() {
    let value = containers();
    let files = [ten_file(&value), btf_file(&value)];
    assert_eq!(ten::from_slice::<Containers>(&files[0]).unwrap(), value);
    assert_eq!(ten::from_reader::<Containers>(&files[0][..]).unwrap(), value);
    assert_eq!(tensorfile::btf::from_slice::<Containers>(&files[1]).unwrap(), value);
    let json = serde_json::to_string(&value).unwrap();
    assert_eq!(serde_json::from_str::<Containers>(&json).unwrap(), value, "{json}");
    let postcard = postcard::to_stdvec(&value).unwrap();
    assert_eq!(postcard::from_bytes::<Containers>(&postcard).unwrap(), value);
    #[cfg(feature = "ptd")]
    assert_eq!(
        tensorfile::ptd::Options::new()
            .to_io_slices(&value)
            .unwrap()
            .as_slices()
            .iter()
            .map(|slice| slice.to_vec())
            .collect::<Vec<_>>()
            .concat(),
        tensorfile::ptd::to_vec(&value).unwrap()
    );
}

#[test]
fn slices_are_borrowed_where_they_can_be() {
    #[derive(TensorFile, Debug)]
    struct Borrowing<'a> {
        numbers: Cow<'a, [f32]>,
        bytes: Cow<'a, [u8]>,
    }

    let value = Borrowing { numbers: vec![1.0, 2.0].into(), bytes: vec![3].into() };
    let file = ten_file(&value);
    let read: Borrowing<'_> = ten::from_slice(&file).unwrap();
    assert!(matches!((&read.numbers, &read.bytes), (Cow::Borrowed([1.0, 2.0]), Cow::Borrowed([3]))), "{read:?}");

    // One byte further the floats are not aligned.
    let mut shifted = vec![0; file.len() + 8];
    let at = (0..8).find(|at| !(shifted.as_ptr().addr() + at).is_multiple_of(4)).unwrap();
    shifted[at..at + file.len()].copy_from_slice(&file);
    let read: Borrowing<'_> = ten::from_slice(&shifted[at..at + file.len()]).unwrap();
    assert!(matches!(read.numbers, Cow::Owned(_)) && matches!(read.bytes, Cow::Borrowed(_)));
    assert!(message(ten::from_slice::<Vec<Cow<'_, [f32]>>>(&ten_file(&vec![array![1_i32]]))).contains("i32"));
}

#[test]
fn a_map_gives_arrays_by_name() {
    let map = TensorMap::from_iter([("weight", array![[1.0_f32, 2.0]]), ("other", array![[3.0]])]);
    assert_eq!(map.keys().collect::<Vec<_>>(), ["weight", "other"]);
    assert_eq!(map.get_array::<f32, Ix2>("weight").unwrap(), array![[1.0, 2.0]]);
    assert_eq!(map.get_array::<f32, IxDyn>("weight").unwrap().shape(), [1, 2]);
    let errors = [
        message(map.get_array::<f32, Ix2>("weigth")),
        message(map.get_array::<f64, Ix2>("weight")),
        message(map.get_array::<f32, Ix1>("weight")),
    ];
    let expected = [
        "missing tensor `weigth`; the file has `weight`, `other`",
        "tensor `weight`: the file has f32[1, 2], but expected f64; `#[tensor(cast)]` converts it",
        "tensor `weight`: the file has f32[1, 2], but expected rank 1",
    ];
    assert_eq!(errors, expected);
}

#[cfg(feature = "ptd")]
#[test]
fn arrays_that_share_bytes_in_a_file_share_memory() {
    use ndarray::ArcArray2;
    use tensorfile::file::Backend;
    use tensorfile::{Arrays, OpenOptions, ptd};

    #[derive(TensorFile, Debug, PartialEq)]
    struct Tied {
        embed: ArcArray2<f32>,
        #[tensor(tied = "embed")]
        head: ArcArray2<f32>,
        #[tensor(tied = "embed", transpose)]
        transposed: ArcArray2<f32>,
        other: ArcArray2<f32>,
    }

    let embed = array![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]].into_shared();
    let tied = Tied {
        head: embed.clone(),
        transposed: embed.clone().reversed_axes(),
        other: (&embed + 1.0).into_shared(),
        embed,
    };
    let file = ptd::to_vec(&tied).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tied.ptd");
    tensorfile::save(&path, &tied).unwrap();
    let positioned = OpenOptions::new().backend(Backend::Positioned).open(&path).unwrap();
    for read in [
        ptd::from_slice::<Tied>(&file).unwrap(),
        ptd::from_reader(&file[..]).unwrap(),
        tensorfile::load(&path).unwrap(),
        positioned.load().unwrap(),
        positioned.deserialize().unwrap(),
    ] {
        assert_eq!(read, tied);
        assert_eq!(read.embed.as_ptr(), read.head.as_ptr());
        assert_eq!(read.embed.as_ptr(), read.transposed.as_ptr());
        assert_ne!(read.embed.as_ptr(), read.other.as_ptr());
    }

    // The format stores both, so both are read.
    let list = Arrays(vec![tied.embed.clone(), tied.embed]);
    let Arrays(read): Arrays<Vec<ArcArray2<f32>>> = ten::from_slice(&ten_file(&list)).unwrap();
    assert_ne!(read[0].as_ptr(), read[1].as_ptr());
}
