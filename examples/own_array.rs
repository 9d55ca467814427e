//! Maps the matrix type of another crate to a tensor, for use as a field of derived structs.

use ndarray::{Array1, Array2, ArrayView2, ShapeBuilder, array};
use tensorfile::model::{FieldAttrs, FromTensors, Node, Sink, Source, Store};
use tensorfile::{Result, TensorFile, TensorMap, ten};

/// The other crate: a matrix in column-major order.
mod linalg {
    pub struct Matrix {
        /// Rows and columns.
        pub size: (usize, usize),
        pub elements: Vec<f32>,
    }
}

/// A wrapper, as only a type of this crate may implement the traits.
struct Matrix(linalg::Matrix);

impl TensorFile for Matrix {
    const NODE: Node = Array2::<f32>::NODE;
}

impl Store for Matrix {
    fn store(&self, sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()> {
        // An array stores itself as the attributes of its field require, such as `shape`.
        ArrayView2::from_shape(self.0.size.f(), &self.0.elements).expect("rows × columns elements").store(sink, attrs)
    }
}

impl<'de> FromTensors<'de> for Matrix {
    fn load(source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<Self> {
        let array = Array2::<f32>::load(source, attrs)?;
        Ok(Self(linalg::Matrix { size: array.dim(), elements: array.t().iter().copied().collect() }))
    }
}

#[derive(TensorFile)]
struct Linear {
    weight: Matrix,
    bias: Array1<f32>,
}

fn main() -> Result<()> {
    let weight = linalg::Matrix { size: (2, 3), elements: vec![1.0, 4.0, 2.0, 5.0, 3.0, 6.0] };
    let file = ten::to_vec(&Linear { weight: Matrix(weight), bias: array![0.5, -0.5] })?;

    let map: TensorMap = ten::from_slice(&file)?;
    println!("{}", map["weight"].array::<f32>()?);
    assert_eq!(map["weight"].array::<f32>()?, array![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]].into_dyn());

    let linear: Linear = ten::from_slice(&file)?;
    assert_eq!(linear.weight.0.elements, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    Ok(())
}
