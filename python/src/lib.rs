//! The compiled half of the Python package `tensorfile`. Users import the package, never this module.
//!
//! - [`file`]: open files and their tensors.
//! - [`plan`]: read plans.
//! - [`save`]: dicts of arrays on their way to a file.
//! - [`arguments`]: arguments that are lists of strings.
//! - [`arrays`]: Python's arrays as tensors of the library.
//! - [`splits`]: jobs divided into splits.
//! - [`streams`]: Python's file objects as readers and writers.
//! - [`commands`]: the commands of the program.
//! - [`callbacks`]: progress, and Ctrl-C.
//! - [`values`]: values of checkpoints.
//! - [`maps`]: layout maps.
//! - [`errors`]: errors as exceptions.
//! - [`samples`]: samples of WebDataset shards.
//! - [`scalars`]: dtypes in the buffer protocol and in DLPack.
//! - [`memory`]: all `unsafe` code: memory lent to Python, and borrowed from it.

#![expect(missing_debug_implementations, reason = "Python prints these types by their `__repr__`")]

mod arguments;
mod arrays;
mod callbacks;
mod commands;
mod errors;
mod file;
mod maps;
mod memory;
mod plan;
mod samples;
mod save;
mod scalars;
mod splits;
mod streams;
mod values;

use pyo3::prelude::*;

/// The compiled half of `tensorfile`.
#[pymodule(gil_used = false)]
mod _tensorfile {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::arguments::list_of_strings;
    #[pymodule_export]
    use crate::commands::{convert, edit, main, run};
    #[pymodule_export]
    use crate::errors::{FormatError, LimitError, MismatchError};
    #[pymodule_export]
    use crate::file::{PyFile, PyTensor, open, open_bytes, read_tensors};
    #[pymodule_export]
    use crate::maps::{PyLayoutMap, made_map};
    #[pymodule_export]
    use crate::plan::PyPlan;
    #[pymodule_export]
    use crate::samples::{PySamples, locations};
    #[pymodule_export]
    use crate::save::save;
    #[pymodule_export]
    use crate::splits::{PyPartWriter, commit, convert_split, plan_splits, read_split};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        let formats: Vec<_> = tensorfile::FORMATS.iter().map(|format| format.name).collect();
        module.add("FORMATS", formats)?;
        let dtypes: Vec<_> = tensorfile::Dtype::ALL.iter().map(|dtype| dtype.name()).collect();
        module.add("DTYPES", dtypes)
    }
}
