//! Layout maps, and the receipts of mapped files.

use std::path::Path;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use tensorfile::report::ReceiptTotals;
use tensorfile::{LayoutMap, Receipt};

use crate::errors::to_exception;

/// A layout map: equations between the tensors of two layouts of a model. The guide explains the language.
///
/// Give the name of a map that comes with the package (`"fused"`, `"llama-gguf"` or `"qwen3-moe"`) or the path of a file,
/// such as `"x.map"`. `LayoutMap.parse` takes the text.
///
/// >>> import numpy, tensorfile
/// >>> tensorfile.save("doctest.ptd", {"gate.weight": numpy.ones((1, 2), "f4"), "up.weight": numpy.zeros((1, 2), "f4")})
/// >>> fused = tensorfile.LayoutMap.parse("{p:gate|up}.weight [i h] = gate_up.weight [(p i) h]")
/// >>> tensorfile.open("doctest.ptd", map=fused)["gate_up.weight"].numpy()
/// array([[1., 1.],
///        [0., 0.]], dtype=float32)
#[pyclass(frozen, name = "LayoutMap", module = "tensorfile")]
#[derive(Clone)]
pub struct PyLayoutMap(pub LayoutMap);

#[pymethods]
impl PyLayoutMap {
    #[new]
    fn new(name: &str) -> PyResult<Self> {
        named(name).map(Self)
    }

    /// Return the map of a text of equations.
    #[staticmethod]
    fn parse(text: &str) -> PyResult<Self> {
        LayoutMap::parse(text).map(Self).map_err(|error| to_exception(error, None))
    }

    /// Return the map read from right to left.
    fn inverted(&self) -> Self {
        Self(self.0.clone().inverted())
    }

    /// Return a map that takes padding that is not zero. By default, it is an error.
    fn lossy(&self) -> Self {
        Self(self.0.clone().lossy())
    }

    /// Return the map with numbers set, instead of their `let`.
    #[pyo3(signature = (**numbers))]
    fn set(&self, numbers: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut map = self.0.clone();
        for (name, number) in numbers.into_iter().flatten() {
            map = map.set(name.extract()?, number.extract()?);
        }
        Ok(Self(map))
    }

    /// The text of the equations.
    #[getter]
    fn text(&self) -> &str {
        self.0.text()
    }

    fn __repr__(&self) -> String {
        let name = self.0.name().map_or_else(|| "LayoutMap.parse(…)".to_owned(), |name| format!("LayoutMap({name:?})"));
        format!("{name}{}", if self.0.is_inverted() { ".inverted()" } else { "" })
    }

    /// Return a function and its arguments, with which pickle makes the map.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let sets = self.0.sets().to_vec();
        let arguments = (self.0.text(), sets, self.0.is_inverted(), self.0.is_lossy());
        let made = py.import("tensorfile._tensorfile")?.getattr("made_map")?;
        (made, arguments).into_pyobject(py)
    }
}

/// Makes a map that was pickled.
#[pyfunction]
pub fn made_map(text: &str, sets: Vec<(String, u64)>, inverted: bool, lossy: bool) -> PyResult<PyLayoutMap> {
    let map = LayoutMap::parse(text).map_err(|error| to_exception(error, None))?;
    let map = sets.iter().fold(map, |map, (name, number)| map.set(name, *number));
    let map = if inverted { map.inverted() } else { map };
    Ok(PyLayoutMap(if lossy { map.lossy() } else { map }))
}

/// Returns the map of an argument: a map, the name of one, or the path of a file.
pub fn map_of(map: &Bound<'_, PyAny>) -> PyResult<LayoutMap> {
    if let Ok(map) = map.cast::<PyLayoutMap>() {
        return Ok(map.get().0.clone());
    }
    let wrong = |_| PyTypeError::new_err("a map is a `LayoutMap`, the name of one, or the path of a file");
    named(&map.extract::<String>().map_err(wrong)?)
}

fn named(name: &str) -> PyResult<LayoutMap> {
    let path = Path::new(name);
    match LayoutMap::named(name) {
        Some(map) => Ok(map),
        None if path.extension().is_some() || path.components().count() > 1 || path.is_file() => {
            LayoutMap::open(path).map_err(|error| to_exception(error, Some(path)))
        }
        None => {
            let names: Vec<&str> = LayoutMap::names().collect();
            let names = names.join(", ");
            Err(PyValueError::new_err(format!(
                "there is no map `{name}`; the maps are {names}, and a file is x.map or ./x"
            )))
        }
    }
}

/// Returns a receipt as a dict.
pub fn receipt_dict<'py>(py: Python<'py>, receipt: &Receipt) -> PyResult<Bound<'py, PyDict>> {
    let totals = |totals: &ReceiptTotals| {
        let dict = PyDict::new(py);
        dict.set_item("tensors", totals.tensors)?;
        dict.set_item("elements", totals.elements)?;
        dict.set_item("bytes", totals.bytes)?;
        Ok::<_, PyErr>(dict)
    };
    let rule = |rule: &tensorfile::report::RuleReceipt| {
        let dict = PyDict::new(py);
        dict.set_item("line", rule.line)?;
        dict.set_item("instances", rule.instances)?;
        dict.set_item("from", rule.from)?;
        dict.set_item("to", rule.to)?;
        dict.set_item("elements", rule.elements)?;
        Ok::<_, PyErr>(dict)
    };
    let dict = PyDict::new(py);
    dict.set_item("source", totals(&receipt.source)?)?;
    dict.set_item("target", totals(&receipt.target)?)?;
    dict.set_item("rules", receipt.rules.iter().map(rule).collect::<PyResult<Vec<_>>>()?)?;
    dict.set_item("kept", receipt.kept[0])?;
    dict.set_item("made", receipt.made_elements())?;
    dict.set_item("left", receipt.left_elements())?;
    dict.set_item("text", receipt.to_string())?;
    Ok(dict)
}
