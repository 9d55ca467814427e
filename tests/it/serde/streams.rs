use super::*;

/// A reader that returns a fixed number of bytes at a time.
struct Steps<'a>(&'a [u8], usize);

impl Read for Steps<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let now = self.1.min(buffer.len());
        self.0.read(&mut buffer[..now])
    }
}

#[test]
fn large_arrays_come_in_pieces() {
    fn check<A: Element + Debug>(element: impl Fn(usize) -> A) {
        // More than the buffer of a stream, and more than is allocated at once.
        let array = Array2::from_shape_fn((450, 1001), |(row, column)| element(row * 1001 + column));
        let values = Arrays((array![1_u8], array, array![2_u8, 3]));
        let file = btf::to_vec(&values).unwrap();
        for step in [1013, 65_536, usize::MAX] {
            assert!(btf::from_reader::<Arrays<_>>(Steps(&file, step)).unwrap() == values, "{} in {step}", A::DTYPE);
        }
        let map: TensorMap = btf::from_slice(&file).unwrap();
        assert!(btf::from_reader::<TensorMap>(Steps(&file, 8191)).unwrap() == map);
        let file = ten::to_vec(&values).unwrap();
        assert!(ten::from_reader::<Arrays<_>>(Steps(&file, 4099)).unwrap() == values);
    }

    check(|at| at as u8);
    check(|at| at as u16);
    check(|at| at as f32);
    check(|at| at as f64);
}

#[test]
fn tensors_are_found_by_name_in_any_order() {
    #[derive(Deserialize, Debug, PartialEq)]
    struct Model {
        #[serde(with = "tensorfile::array")]
        last: Array1<u8>,
        layers: Vec<Linear>,
        #[serde(with = "tensorfile::array")]
        first: Array1<f64>,
    }

    let tensor = |value: f32, shape: &[usize]| Tensor::from_array(&ArrayD::from_elem(IxDyn(shape), value));
    let tensors = [
        ("layers.1.weight", tensor(1.0, &[1, 1])),
        ("first", Tensor::from_slice(&[0.5_f64], [1]).unwrap()),
        ("layers.0.bias", tensor(2.0, &[2])),
        ("last", Tensor::from_slice(&[1_u8, 2], [2]).unwrap()),
        ("layers.0.weight", tensor(3.0, &[2, 2])),
    ];
    let model = Model {
        last: array![1, 2],
        layers: vec![
            Linear { weight: array![[3.0, 3.0], [3.0, 3.0]], bias: Some(array![2.0, 2.0]) },
            Linear { weight: array![[1.0]], bias: None },
        ],
        first: array![0.5],
    };
    for turn in 0..tensors.len() {
        let mut tensors = tensors.clone();
        tensors.rotate_left(turn);
        let map: TensorMap = tensors.into_iter().collect();
        for (what, file) in [("ten", ten_file(&map)), ("BTF", btf_file(&map))] {
            let read = |reader: Dribble<'_>| match what {
                "ten" => ten::from_reader::<Model>(reader),
                _ => btf::from_reader::<Model>(reader),
            };
            assert_eq!(read(Dribble::new(&file)).unwrap(), model, "{what}, turned by {turn}");
        }
    }

    #[derive(Deserialize, Debug, PartialEq)]
    struct Short {
        #[serde(with = "tensorfile::array")]
        c: Array1<u8>,
        #[serde(with = "tensorfile::array")]
        a: Array1<u8>,
        #[serde(with = "tensorfile::array")]
        b: Array1<u8>,
    }

    // With the names in the stream itself.
    for names in [["a", "b", "c"], ["a", "c", "b"], ["b", "a", "c"], ["b", "c", "a"], ["c", "a", "b"], ["c", "b", "a"]]
    {
        let map: TensorMap =
            names.map(|name| (name, Tensor::from_slice(name.as_bytes(), [1]).unwrap())).into_iter().collect();
        let file = ten::to_vec(&map).unwrap();
        let expected = Short { a: array![b'a'], b: array![b'b'], c: array![b'c'] };
        assert_eq!(ten::from_reader::<Short>(Dribble::new(&file)).unwrap(), expected, "{names:?}");
        let expected: BTreeMap<String, Arrays<Array1<u8>>> =
            names.into_iter().map(|name| (name.to_owned(), Arrays(array![name.as_bytes()[0]]))).collect();
        assert_eq!(ten::from_reader::<BTreeMap<_, _>>(Dribble::new(&file)).unwrap(), expected, "{names:?}");
    }
}

#[test]
fn a_reader_that_fails_is_reported() {
    struct Failing<'a>(&'a [u8]);

    impl Read for Failing<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            match self.0.read(buffer)? {
                0 => Err(std::io::Error::other("the disk is on fire")),
                len => Ok(len),
            }
        }
    }

    let file = btf::to_vec(&Arrays((array![1_u8, 2], array![3_u8]))).unwrap();
    for len in 0..file.len() - 7 {
        let error = btf::from_reader::<TensorMap>(Failing(&file[..len])).unwrap_err();
        assert_eq!(error.category(), Category::Io, "cut at {len}");
        assert!(error.to_string().contains("the disk is on fire"), "cut at {len}: {error}");
    }
}

#[test]
fn interruptions_are_no_failures() {
    struct Interrupted<'a>(&'a [u8], bool);

    impl Read for Interrupted<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.1 = !self.1;
            if self.1 { Err(std::io::ErrorKind::Interrupted.into()) } else { self.0.read(buffer) }
        }
    }

    let map: TensorMap = [("a", Tensor::from_slice(&[1_u8], [1]).unwrap())].into_iter().collect();
    let file = ten::to_vec(&map).unwrap();
    assert_eq!(ten::from_reader::<TensorMap>(Interrupted(&file, false)).unwrap(), map);
}
