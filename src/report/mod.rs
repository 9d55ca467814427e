//! Finds out what a file and a type have in common, from the file's index and the type's schema.
//!
//! The deserializer stops at the first thing that is wrong. [`Walk`] goes the same way through the same names, but by
//! the schema instead of serde's questions, and writes down what is wrong instead of stopping. The two must agree on
//! what is wrong at all; `tests/report.rs` holds them together.

mod fields;
mod findings;
mod lists;
mod near;
mod positions;
mod walk;

use self::walk::Walk;
use crate::error::LoadReport;
use crate::model::Schema;
use crate::tensor::TensorInfo;

/// A [`LoadReport`], and which of the file's tensors the type takes: those that have a place in it, fit or not.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) report: LoadReport,
    pub(crate) taken: Vec<bool>,
}

/// Compares a type with the tensors of a file in file order.
///
/// `embedded` tells that the names are those of one more tensor, not the format's own: they do not make a list of
/// tensors one that is read by name.
pub(crate) fn compare<'a>(
    schema: &Schema,
    tensors: impl IntoIterator<Item = (Option<&'a str>, &'a TensorInfo)>,
    embedded: bool,
) -> Comparison {
    let mut walk = Walk::over(tensors);
    walk.root(schema.node(), embedded);
    walk.end()
}

impl LoadReport {
    /// Compares a type with the tensors of a file, in file order. A tensor has no name where its file has none.
    #[must_use]
    pub fn of<'a>(schema: &Schema, tensors: impl IntoIterator<Item = (Option<&'a str>, &'a TensorInfo)>) -> Self {
        compare(schema, tensors, false).report
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TensorFile;
    use crate::tensor::Dtype;
    use ndarray::{Array1, Array2};

    fn compare<T: TensorFile>(file: &[(&str, &[usize])], embedded: bool) -> Comparison {
        let infos: Vec<TensorInfo> = file.iter().map(|(_, shape)| TensorInfo::new(Dtype::F32, *shape)).collect();
        let tensors = file.iter().zip(&infos).map(|((name, _), info)| (Some(*name), info));
        super::compare(&T::schema(), tensors, embedded)
    }

    #[test]
    fn tells_which_tensors_the_type_takes() {
        type Parts = (Array1<f32>, Option<Array2<f32>>);
        let comparison = compare::<Parts>(&[("1", &[2]), ("x", &[2]), ("0", &[2])], false);
        assert_eq!(comparison.taken, [true, false, true]);
        let expected = "1 unexpected, 1 wrong shape; 1 of 3 tensors fit\n\
            unexpected:\n  `x`  f32[2]\nwrong shape:\n  `1`  f32[2], but expected rank 2";
        assert_eq!(comparison.report.to_string(), expected);
    }

    #[test]
    fn embedded_names_do_not_make_a_list_one_by_name() {
        let file: &[(&str, &[usize])] = &[("2", &[1]), ("0", &[1])];
        assert!(compare::<Vec<Array1<f32>>>(file, true).report.is_ok());
        let expected = "1 gap in a list; 2 of 2 tensors fit\ngaps in lists:\n  `1`  missing, but `2` is there";
        assert_eq!(compare::<Vec<Array1<f32>>>(file, false).report.to_string(), expected);
    }
}
