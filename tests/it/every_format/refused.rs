//! Tensors that a format cannot store. The error names the tensor, and nothing is written before it.

use ndarray::{Array1, array};
use tensorfile::{Category, Dtype, ErrorKind, Format, TensorFile, TensorMap, WriteOptions};

use super::sparse;
use crate::support::{tensor, written_formats};

/// Checks that a map is refused for its tensor `name`, with a message that says `found`.
#[track_caller]
fn assert_refused(format: &Format, map: &TensorMap, name: &str, found: &str, with_names: bool) {
    let mut written = Vec::new();
    let result = if with_names {
        format.to_writer(&mut written, map, &WriteOptions::new().embed_names(true))
    } else {
        format.to_writer(&mut written, map, &WriteOptions::new())
    };
    let error = result.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unsupported { .. }), "{}: {error}", format.name);
    assert_eq!(error.category(), Category::Call);
    assert_eq!(error.tensor(), Some(name));
    let start = format!("{}: tensor `{name}`: cannot store {found}; ", format.name);
    assert!(error.to_string().starts_with(&start), "{error}\n{start}");
    assert!(written.is_empty(), "{}: something was written", format.name);
}

#[test]
fn dtypes_that_are_not_in_the_row() {
    for format in written_formats() {
        for &dtype in Dtype::ALL.iter().filter(|dtype| !format.dtypes.contains(dtype)) {
            for shape in [&[][..], &[0], &[2, 3]] {
                let map = [("a", tensor(format.dtypes[0], &[1000])), ("b", tensor(dtype, shape))].into_iter().collect();
                assert_refused(format, &map, "b", dtype.name(), false);
                assert_refused(format, &map, "b", dtype.name(), true);
            }
        }
    }
}

#[test]
fn ranks_above_the_rows() {
    for format in written_formats() {
        let Some(most) = format.max_rank else { continue };
        let map = [("a", tensor(format.dtypes[0], &vec![1; most + 1]))].into_iter().collect();
        assert_refused(format, &map, "a", &format!("rank {}", most + 1), false);
        assert_refused(format, &map, "a", &format!("rank {}", most + 1), true);
    }
}

#[test]
fn names_longer_than_the_rows() {
    for format in written_formats() {
        let Some(most @ 1..) = format.max_name else { continue };
        for name in ["x".repeat(most + 1), "ä".repeat(most / 2 + 1)] {
            let map =
                [("a", tensor(format.dtypes[0], &[1])), (&name, tensor(format.dtypes[0], &[1]))].into_iter().collect();
            assert_refused(format, &map, &name, &format!("a name of {} bytes", name.len()), false);
            // The list of embedded names is a tensor of `u8`.
            if !format.dtypes.contains(&Dtype::U8) {
                assert_refused(format, &map, &name, &format!("a name of {} bytes", name.len()), true);
                continue;
            }
            assert_eq!(
                format.from_slice(&format.to_vec(&map, &WriteOptions::new().embed_names(true)).unwrap()).unwrap(),
                map,
                "{}",
                format.name
            );
        }
    }
}

#[test]
fn sparse_tensors_where_the_row_has_none() {
    for format in written_formats().filter(|format| !format.sparse) {
        let map = [("a", tensor(format.dtypes[0], &[1])), ("b", sparse())].into_iter().collect();
        assert_refused(format, &map, "b", "a sparse tensor", false);
    }
}

#[test]
fn a_tie_to_a_tensor_that_is_not_there() {
    #[derive(TensorFile)]
    struct Tied {
        embed: Array1<f32>,
        #[tensor(tied = "nope")]
        head: Array1<f32>,
    }

    let value = Tied { embed: array![1.0], head: array![1.0] };
    // A format of one tensor refuses the second one.
    for format in written_formats().filter(|format| format.max_tensors.is_none() && format.dtypes.contains(&Dtype::F32))
    {
        let error = format.to_vec(&value, &WriteOptions::new()).unwrap_err();
        let expected = "tensor `head`: cannot tie it to `nope`; the value has no tensor of that name";
        assert_eq!(error.to_string(), format!("{}: {expected}", format.name));
    }
}

#[test]
fn tied_tensors_that_differ_where_they_would_share_bytes() {
    #[derive(TensorFile)]
    struct Tied {
        embed: Array1<f32>,
        #[tensor(tied = "embed")]
        head: Array1<f32>,
    }

    let value = Tied { embed: array![1.0], head: array![2.0] };
    for format in written_formats().filter(|format| format.max_tensors.is_none()) {
        let written = format.to_vec(&value, &WriteOptions::new());
        match format.name {
            "ptd" | "pytorch" => {
                assert!(written.unwrap_err().to_string().contains("cannot tie it to `embed`"), "{}", format.name)
            }
            _ => assert_eq!(format.from_slice(&written.unwrap()).unwrap().len(), 2, "{}", format.name),
        }
    }
}
