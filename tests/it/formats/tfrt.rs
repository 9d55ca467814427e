//! Files made by TensorFlow Runtime: its test data, in `tests/fixtures/tfrt`.

use ndarray::{Array1, Array2, Array4, ArrayView2, array};
use tensorfile::{Arrays, TensorMap, btf};

use crate::support::{Dribble, root};

fn read(name: &str) -> Vec<u8> {
    std::fs::read(root().join("tests/fixtures/tfrt").join(name)).unwrap()
}

const FILES: [&str; 4] = ["matmul_test_f32.btf", "matmul_test_i32.btf", "max_pool.btf", "test_tensor.btf"];

#[test]
fn reproduces_files_of_tfrt_byte_for_byte() {
    for name in FILES {
        let file = read(name);
        let map: TensorMap = btf::from_slice(&file).unwrap();
        assert_eq!(btf::to_vec(&map).unwrap(), file, "{name}");
        assert_eq!(btf::from_reader::<TensorMap>(&file[..]).unwrap(), map, "{name}");
        assert_eq!(btf::from_reader::<TensorMap>(Dribble::new(&file)).unwrap(), map, "{name}");
    }
}

#[test]
fn every_tensor_has_its_dtype_and_shape() {
    for (name, expected) in [
        ("matmul_test_f32.btf", &["f32[6, 8]", "f32[8, 7]", "f32[6, 7]"][..]),
        ("matmul_test_i32.btf", &["i32[6, 8]", "i32[8, 7]", "i32[6, 7]"]),
        ("max_pool.btf", &["f32[2, 3, 3, 6]", "f32[2, 1, 1, 6]", "f32[2, 5, 5, 6]", "f32[2, 3, 3, 6]"]),
        ("test_tensor.btf", &["i32[2, 2]", "i32[5]", "i32[0]"]),
    ] {
        let file = read(name);
        let map: TensorMap = btf::from_slice(&file).unwrap();
        let found: Vec<String> = map.infos().map(|(_, info)| info.to_string()).collect();
        assert_eq!(found, expected, "{name}");
        assert_eq!(map.names().collect::<Vec<_>>(), ["0", "1", "2", "3"][..expected.len()], "{name}");
    }
}

#[test]
fn the_test_tensors_count_up() {
    let file = read("test_tensor.btf");
    let Arrays((matrix, vector, empty)): Arrays<(Array2<i32>, Array1<i32>, Array1<i32>)> =
        btf::from_slice(&file).unwrap();
    assert_eq!(matrix, array![[1, 2], [3, 4]]);
    assert_eq!(vector, array![0, 1, 2, 3, 4]);
    assert_eq!(empty, Array1::<i32>::zeros(0));
}

#[test]
fn the_products_are_products() {
    let file = read("matmul_test_i32.btf");
    let Arrays((a, b, product)): Arrays<(Array2<i32>, Array2<i32>, Array2<i32>)> = btf::from_slice(&file).unwrap();
    assert_eq!(a.dot(&b), product);

    let file = read("matmul_test_f32.btf");
    let Arrays((a, b, product)): Arrays<(ArrayView2<'_, f32>, ArrayView2<'_, f32>, Array2<f32>)> =
        btf::from_slice(&file).unwrap();
    assert!((a.dot(&b) - product).iter().all(|error| error.abs() < 1e-5));
}

#[test]
fn the_pools_hold_the_largest_of_their_windows() {
    let file = read("max_pool.btf");
    let Arrays(pools): Arrays<Vec<Array4<f32>>> = btf::from_slice(&file).unwrap();
    let largest = pools[0].fold_axis(ndarray::Axis(1), f32::MIN, |a, b| a.max(*b));
    let largest = largest.fold_axis(ndarray::Axis(1), f32::MIN, |a, b| a.max(*b));
    let found = pools[1].index_axis(ndarray::Axis(1), 0).index_axis_move(ndarray::Axis(1), 0).to_owned();
    assert!(found.iter().zip(&largest).all(|(found, largest)| found <= largest));
}
