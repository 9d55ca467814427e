//! Tensors as text, compared with numpy's output.

use tensorfile::view::PrintOptions;
use tensorfile::{Dtype, Element, Tensor, TensorInfo, TensorView};

/// Made by `write.py` next to the file.
const PRINTED: &str = include_str!("../fixtures/numpy/printed.txt");

#[test]
fn prints_as_numpy_does() {
    let mut wrong = Vec::new();
    let cases: Vec<&str> = PRINTED.split("== ").skip(1).collect();
    assert!(cases.len() > 100, "the fixture has cases");
    for case in cases {
        let (head, expected) = case.split_once('\n').unwrap();
        let [dtype, shape, values] = head.split(' ').collect::<Vec<_>>()[..] else { panic!("{head}") };
        let dtype: Dtype = dtype.parse().unwrap();
        let shape: Vec<usize> = match shape {
            "-" => Vec::new(),
            dims => dims.split('x').map(|dim| dim.parse().unwrap()).collect(),
        };
        let bytes = bytes(dtype, shape.iter().product(), values);
        let tensor = TensorView::new(TensorInfo::new(dtype, shape), &bytes).unwrap();
        let found = PrintOptions::new().print(&tensor).unwrap() + "\n";
        if found != expected {
            wrong.push(format!("{head}: numpy prints\n{expected}but we print\n{found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the elements of a case: those in its digits, or numbers that count up.
#[expect(clippy::cast_sign_loss, reason = "numpy casts these numbers in the same way")]
fn bytes(dtype: Dtype, count: usize, values: &str) -> Vec<u8> {
    fn tensor<A: Element>(numbers: &[f64], to: fn(f64) -> A) -> Vec<u8> {
        let numbers: Vec<A> = numbers.iter().map(|number| to(*number)).collect();
        Tensor::from_slice(&numbers, [numbers.len()]).unwrap().as_bytes().to_vec()
    }
    let Some((start, step)) = values.split_once('+') else {
        let digits: Vec<char> = values.chars().filter(|digit| *digit != '-').collect();
        return digits.chunks(2).map(|pair| u8::from_str_radix(&String::from_iter(pair), 16).unwrap()).collect();
    };
    let (start, step): (f64, f64) = (start.parse().unwrap(), step.parse().unwrap());
    let numbers: Vec<f64> = (0..count).map(|at| start + step * at as f64).collect();
    match dtype {
        Dtype::F32 => tensor(&numbers, |number| number as f32),
        Dtype::F64 => tensor(&numbers, |number| number),
        Dtype::I64 => tensor(&numbers, |number| number as i64),
        Dtype::U8 => tensor(&numbers, |number| number as u8),
        _ => panic!("{dtype} does not count"),
    }
}
