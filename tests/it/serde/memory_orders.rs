use ndarray::{ArrayBase, Data, Dimension, ShapeBuilder};

use super::*;

/// Checks that an array is written in row-major order, regardless of its order in memory.
#[track_caller]
fn check<A: Element, S: Data<Elem = A>, D: Dimension>(what: &str, array: &ArrayBase<S, D>) {
    let elements: Vec<A> = array.iter().copied().collect();
    let expected = Tensor::from_slice(&elements, array.shape()).unwrap();
    let file = btf::to_vec(&Arrays(array)).unwrap();
    assert_eq!(btf::from_slice::<Tensor>(&file).unwrap(), expected, "{what}");
    let mut written = Vec::new();
    btf::to_writer(&mut written, &Arrays(array)).unwrap();
    assert_eq!(written, file, "{what}");
    assert_eq!(Tensor::from_array(array), expected, "{what}");
    let postcard = postcard::to_stdvec(&Arrays(array)).unwrap();
    assert_eq!(postcard::from_bytes::<Tensor>(&postcard).unwrap(), expected, "{what}, in postcard");
}

/// Sends an array of every kind of memory order through [`check`].
fn check_all<A: Element>(element: impl Fn(usize) -> A) {
    // More elements than are gathered at once, and not a multiple of that number.
    let array = Array3::from_shape_fn((7, 41, 61), |(a, b, c)| element((a * 41 + b) * 61 + c));
    check("row-major", &array);
    check("reversed axes", &array.t());
    check("some axes swapped", &array.view().permuted_axes([1, 0, 2]));
    check("column-major", &Array::from_shape_fn((7, 41).f(), |(a, b)| array[(a, b, 0)]));
    check("first axis backwards", &array.slice(s![..;-1, .., ..]));
    check("last axis backwards", &array.slice(s![.., .., ..;-1]));
    check("all axes backwards", &array.slice(s![..;-1, ..;-1, ..;-1]));
    check("a window", &array.slice(s![1..6, 3..40, 2..59]));
    check("steps", &array.slice(s![..;2, ..;3, ..;5]));
    check("steps backwards", &array.slice(s![..;-2, ..;-3, ..;-5]).t());
    check("a column", &array.slice(s![2, .., 3]));
    check("one element", &array.slice(s![2..3, 3..4, 4..5]));
    check("no elements", &array.slice(s![.., 3..3, ..]));
    check("a scalar", &array.slice(s![2, 3, 4]));
    check("broadcast", &array.slice(s![0, .., ..]).broadcast((9, 41, 61)).unwrap());
    check("broadcast along the last axis", &array.slice(s![0, .., 0..1]).broadcast((5, 41, 300)).unwrap());
    check("one element, many times", &array.slice(s![0, 0, 0]).broadcast((3, 10_000)).unwrap());
    check("inserted axes", &array.view().insert_axis(Axis(0)).insert_axis(Axis(4)));
    check("of dynamic rank", &array.view().into_dyn().reversed_axes());
    check("inverted", &{
        let mut view = array.view();
        view.invert_axis(Axis(1));
        view
    });
}

#[test]
fn arrays_are_written_in_row_major_order() {
    check_all(|at| at as u8);
    check_all(|at| at as u16);
    check_all(|at| at as f32);
    check_all(|at| at as u64);
}

#[test]
fn rows_longer_than_a_piece_are_written_whole() {
    for columns in [8191, 8192, 8193, 16384, 20_000] {
        let array = Array2::from_shape_fn((3, columns + 1), |(row, column)| (row * columns + column) as u32);
        check("rows of one run", &array.slice(s![.., 1..]));
        check("rows of steps", &array.slice(s![.., ..;2]));
    }
}

#[test]
fn every_representation_gives_the_same_bytes() {
    let array = Array2::from_shape_fn((130, 70), |(row, column)| (row * 70 + column) as f64);
    let file = btf::to_vec(&Arrays(&array)).unwrap();
    let turned = array.t().to_owned();
    assert_eq!(btf::to_vec(&Arrays(turned.t())).unwrap(), file);
    assert_eq!(btf::to_vec(&Arrays(array.to_shared())).unwrap(), file);
    assert_eq!(btf::to_vec(&Arrays(CowArray::from(turned.t()))).unwrap(), file);
    assert_eq!(btf::to_vec(&Arrays(array.clone().into_dyn())).unwrap(), file);
    assert_eq!(btf::to_vec(&array).unwrap(), file, "ndarray's own representation");
    assert_eq!(btf::to_vec(&turned.t()).unwrap(), file, "ndarray's own representation");
    assert_eq!(btf::to_vec(&Tensor::from_array(&turned.t())).unwrap(), file);
    assert_eq!(btf::to_vec(&Arrays(Box::new(std::sync::Arc::new(&array)))).unwrap(), file);
}

#[cfg(target_pointer_width = "64")]
#[test]
fn a_view_of_absurd_size_is_an_error() {
    let one = array![1.0_f64];
    // 2⁶² bytes of one number, and 2⁶³.
    for (rows, columns) in [(1 << 29, 1 << 30), (1 << 30, 1 << 30)] {
        let view = one.broadcast((rows, columns)).unwrap();
        let error = btf::to_vec(&Arrays(view)).unwrap_err();
        assert_eq!(error.category(), Category::Io);
        assert_eq!(error.to_string(), "btf: out of memory");
        let error = ten::to_vec(&Arrays(view)).unwrap_err();
        assert_eq!(error.to_string(), "ten: out of memory");
    }
    // Whose bytes are more than 2⁶⁴.
    let view = one.broadcast((1 << 31, 1 << 31)).unwrap();
    let mut file = Vec::new();
    for result in [btf::to_vec(&Arrays(view)).map(drop), btf::to_writer(&mut file, &Arrays(view))] {
        assert_eq!(
            message(result),
            "btf: tensor `0`: cannot store f64[2147483648, 2147483648]; the file would be longer than can be addressed"
        );
    }
    assert!(file.is_empty(), "nothing is written");
    let several = vec![one.broadcast(1 << 60).unwrap(); 3];
    let error = btf::to_vec(&Arrays(&several)).unwrap_err();
    assert_eq!(error.category(), Category::Call, "no file is wrong");
    assert_eq!(
        error.to_string(),
        "btf: tensor `1`: cannot store f64[1152921504606846976]; the file would be longer than can be addressed"
    );
}
