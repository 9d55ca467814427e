//! Saves and loads matrices of nalgebra, whose elements are in column-major order, as fields of derived structs.

use nalgebra::{DMatrix, Scalar};
use ndarray::{Array2, ArrayView2, ShapeBuilder};
use tensorfile::model::{FieldAttrs, FromTensors, Node, Sink, Source, Store};
use tensorfile::{Element, Result, TensorFile, TensorMap, safetensors};

/// A matrix. It is a type of this crate, as only such a type may implement the traits.
#[derive(Debug, Clone, PartialEq)]
struct Matrix<A>(DMatrix<A>);

impl<A: Element + Scalar> TensorFile for Matrix<A> {
    const NODE: Node = Array2::<A>::NODE;
}

impl<A: Element + Scalar> Store for Matrix<A> {
    fn store(&self, sink: &mut dyn Sink, attrs: &FieldAttrs) -> Result<()> {
        // Nothing is copied: the file is written from this view, in row-major order.
        let elements = self.0.as_slice();
        ArrayView2::from_shape(self.0.shape().f(), elements).expect("rows × columns elements").store(sink, attrs)
    }
}

impl<'de, A: Element + Scalar> FromTensors<'de> for Matrix<A> {
    fn load(source: &mut dyn Source<'de>, attrs: &FieldAttrs) -> Result<Self> {
        let array = Array2::<A>::load(source, attrs)?;
        let (rows, columns) = array.dim();
        Ok(Self(DMatrix::from_iterator(rows, columns, array.t().iter().cloned())))
    }
}

#[derive(TensorFile, Debug, PartialEq)]
struct Filter {
    transition: Matrix<f64>,
    observation: Option<Matrix<f32>>,
}

fn main() -> Result<()> {
    let transition = Matrix(DMatrix::from_row_slice(2, 3, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    let filter = Filter { transition, observation: None };
    let file = safetensors::to_vec(&filter)?;
    assert_eq!(safetensors::from_slice::<Filter>(&file)?, filter);

    // Other software reads the same rows.
    let map: TensorMap = safetensors::from_slice(&file)?;
    println!("{}", map["transition"].array::<f64>()?);
    assert_eq!(map["transition"].array::<f64>()?, ndarray::array![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]].into_dyn());
    Ok(())
}

#[test]
fn runs() {
    main().unwrap();
}

#[test]
fn matrices_of_every_size_round_trip() {
    for (rows, columns) in [(0, 0), (0, 3), (1, 4), (3, 1), (5, 2)] {
        let observation = Matrix(DMatrix::from_fn(rows, columns, |row, column| (10 * row + column) as f32));
        let filter = Filter { transition: Matrix(DMatrix::zeros(columns, rows)), observation: Some(observation) };
        let file = safetensors::to_vec(&filter).unwrap();
        assert_eq!(safetensors::from_slice::<Filter>(&file).unwrap(), filter);
        assert_eq!(safetensors::from_reader::<Filter>(&file[..]).unwrap(), filter);
        let array =
            safetensors::from_slice::<TensorMap>(&file).unwrap()["observation"].array::<f32>().unwrap().to_owned();
        assert_eq!(
            array,
            Array2::from_shape_fn((rows, columns), |(row, column)| (10 * row + column) as f32).into_dyn()
        );
    }
}
