//! Arguments that are lists of strings.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// Return the strings of an argument. One string becomes a list with one item, not a list of its letters.
///
/// Every argument with a list of strings is checked here.
#[pyfunction]
#[pyo3(name = "strings", signature = (name, value, /))]
pub fn list_of_strings(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    strings(name, value)
}

pub fn strings(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    if value.is_instance_of::<PyString>() {
        return Ok(vec![value.extract()?]);
    }
    let kind = |value: &Bound<'_, PyAny>| -> PyResult<String> { Ok(value.get_type().name()?.to_string()) };
    let items = match value.try_iter() {
        Ok(items) if !value.is_instance_of::<PyBytes>() => items,
        _ => {
            let kind = kind(value)?;
            return Err(PyTypeError::new_err(format!("`{name}` is a string or a list of strings, not a {kind}")));
        }
    };
    let string = |item: PyResult<Bound<'_, PyAny>>| -> PyResult<String> {
        let item = item?;
        match item.extract::<String>() {
            Ok(string) => Ok(string),
            Err(_) => Err(PyTypeError::new_err(format!("`{name}` is a list of strings, but has a {}", kind(&item)?))),
        }
    };
    items.map(string).collect()
}
