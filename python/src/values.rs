//! Values of checkpoints, for `tensorfile.torch.load` to make them again.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyNotImplementedError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyComplex};
use tensorfile::model::ValueNode;

/// The kind of a value and its content. Inner values are given by their positions.
pub type Made<'py> = (&'static str, Bound<'py, PyAny>);

pub fn to_python<'py>(py: Python<'py>, node: &ValueNode) -> PyResult<Made<'py>> {
    let decode = |bytes: &[u8], errors: &str| PyBytes::new(py, bytes).call_method1("decode", ("utf-8", errors));
    Ok(match node {
        ValueNode::None => ("value", py.None().into_bound(py)),
        ValueNode::Bool(value) => ("value", value.into_bound_py_any(py)?),
        ValueNode::Int(value) => ("value", value.into_bound_py_any(py)?),
        ValueNode::Float(value) => ("value", value.into_bound_py_any(py)?),
        ValueNode::Complex(re, im) => ("value", PyComplex::from_doubles(py, *re, *im).into_any()),
        ValueNode::LongInt(bytes) => ("long", PyBytes::new(py, bytes).into_any()),
        ValueNode::Digits(digits) => ("digits", decode(digits, "strict")?),
        ValueNode::Text(text) => ("value", decode(text, "surrogatepass")?),
        ValueNode::Bytes(bytes, true) => ("value", PyByteArray::new(py, bytes).into_any()),
        ValueNode::Bytes(bytes, false) => ("value", PyBytes::new(py, bytes).into_any()),
        ValueNode::Tuple(values) => ("tuple", values.into_bound_py_any(py)?),
        ValueNode::Size(values) => ("size", values.into_bound_py_any(py)?),
        ValueNode::List(values) => ("list", values.into_bound_py_any(py)?),
        ValueNode::Set(values) => ("set", values.into_bound_py_any(py)?),
        ValueNode::FrozenSet(values) => ("frozenset", values.into_bound_py_any(py)?),
        ValueNode::Dict(pairs, attributes) => ("dict", (pairs, attributes).into_bound_py_any(py)?),
        ValueNode::Torch(name) => ("torch", name.into_bound_py_any(py)?),
        ValueNode::Device(values) => ("device", values.into_bound_py_any(py)?),
        ValueNode::NumpyDtype(name) => ("numpy_dtype", name.into_bound_py_any(py)?),
        ValueNode::NumpyScalar(dtype, bytes) => {
            ("numpy_scalar", (&**dtype, PyBytes::new(py, bytes)).into_bound_py_any(py)?)
        }
        ValueNode::Tensor { position, strides, is_array } => {
            ("tensor", (position, strides, is_array).into_bound_py_any(py)?)
        }
        ValueNode::Object(class, tensors) => ("object", (&**class, tensors).into_bound_py_any(py)?),
        ValueNode::LeftOut(what) => ("left_out", what.into_bound_py_any(py)?),
        _ => return Err(PyNotImplementedError::new_err("a value of a checkpoint is of a new kind")),
    })
}
