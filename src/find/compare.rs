//! Compares a type with a file: loads it without making a value, and collects all differences.

use std::borrow::Cow;

use super::findings::{Findings, Like};
use super::{At, Finder, MetadataSource};
use crate::error::{LoadReport, Result};
use crate::limits::Limits;
use crate::model::{FieldAttrs, MetadataOf, Node, Schema, Source, Tensors};
use crate::read::{Index, Reader, ReaderStorage};
use crate::storage::Slice;
use crate::tensor::{Dtype, TensorInfo};

/// A [`LoadReport`], and the tensors of the file with a place in the type, even if they do not fit.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) report: LoadReport,
    pub(crate) taken: Vec<bool>,
    /// The positions of the tensors to load, in the order of reading.
    pub(crate) loaded: Vec<usize>,
}

/// Compares a type with the tensors and the metadata of a file. No payload is read.
pub(crate) fn compare(schema: &Schema, index: &Index, metadata: MetadataSource<'_>) -> Comparison {
    compare_like(schema, index, metadata, None)
}

/// Compares a type, and a value of it, with the tensors and the metadata of a file.
pub(crate) fn compare_like(
    schema: &Schema,
    index: &Index,
    metadata: MetadataSource<'_>,
    value: Option<&dyn Tensors>,
) -> Comparison {
    let mut findings = find(schema, index, metadata, value);
    let (taken, loaded) = (std::mem::take(&mut findings.taken), findings.loaded.clone());
    Comparison { report: findings.report(index.len()), taken, loaded }
}

/// Returns the tensors at fields with the attribute `dequantize`, each with the dtype to decode it to.
pub(super) fn compare_dequantized(schema: &Schema, index: &Index) -> Vec<(usize, Dtype)> {
    find(schema, index, MetadataSource::Unknown, None).dequantized
}

fn find(schema: &Schema, index: &Index, metadata: MetadataSource<'_>, value: Option<&dyn Tensors>) -> Box<Findings> {
    let reader = Reader::with_index(ReaderStorage::Slice(Slice::new(&[])), Cow::Borrowed(index), Limits::default());
    let mut deserializer = Finder::over(reader, "", metadata);
    let mut findings = Findings::new(index.len());
    let sent = value.map_or(Ok(()), |value| {
        let mut like = Box::new(Like::default());
        value.send(&mut *like).map(|()| findings.like = Some(like))
    });
    deserializer.findings = Some(Box::new(findings));
    let compared = sent.and_then(|()| deserializer.compare_value(schema.node()));
    let mut findings = deserializer.findings.take().unwrap_or_default();
    match compared {
        Ok(()) => findings.end_like(),
        Err(error) => findings.refuse(&error),
    }
    findings
}

impl Finder<'_> {
    /// Asks for all parts of a type, and for the tensors left over.
    fn compare_value(&mut self, node: Node) -> Result<()> {
        // A report needs names, so no places are returned.
        self.begin(node)?;
        self.at = At::Here;
        visit(node, &FieldAttrs::NONE, self)?;
        while let Some(left) = self.reader.peek()? {
            if self.is_positional() {
                return Err(self.wrong_count());
            }
            self.unexpected(left)?;
        }
        let has_findings = self.findings.as_ref().is_some_and(|findings| findings.has_any());
        if has_findings { Ok(()) } else { self.check_any_fits() }
    }
}

/// Asks `source` for all parts of a type, without making a value.
fn visit<'de>(node: Node, attrs: &FieldAttrs, source: &mut (dyn Source<'de> + '_)) -> Result<()> {
    match node {
        Node::Tensor(spec) => source.tensor(&spec.with_attrs(attrs)).map(drop),
        Node::Metadata(metadata) => metadata(&mut MetadataOf(source)),
        Node::Newtype(node, own) => visit(node(), own, source),
        Node::Option(node) => source.option(&mut |_, source| visit(node(), attrs, source)),
        Node::List(node) => source.list(&mut |_, source| visit(node(), attrs, source)),
        Node::Array(node, len) => source.tuple(len, &mut |_, source| visit(node(), attrs, source)),
        Node::Tuple(parts) => source.tuple(parts.len(), &mut |at, source| visit(parts[at](), attrs, source)),
        Node::Map(node) => {
            let node = node();
            source.map(node.key_part(), &mut |_, source| visit(node, attrs, source))
        }
        Node::Struct(def) => source.fields(def, &mut |at, source| {
            let field = &def.fields[at];
            visit((field.node)(), &field.attrs, source)
        }),
    }
}

impl LoadReport {
    /// Compares a type with tensors in file order. A tensor has no name if its file has none. Metadata is not compared.
    ///
    /// ```
    /// use ndarray::Array1;
    /// use tensorfile::report::LoadReport;
    /// use tensorfile::{Dtype, TensorFile, TensorInfo};
    ///
    /// #[derive(TensorFile)]
    /// struct Norm {
    ///     scale: Array1<f32>,
    /// }
    ///
    /// // From names and shapes alone, such as those of a model that is not downloaded yet.
    /// let info = TensorInfo::new(Dtype::F32, [64]);
    /// assert!(LoadReport::of(&Norm::schema(), [(Some("scale"), &info)]).is_ok());
    /// ```
    #[must_use]
    pub fn of<'a>(schema: &Schema, tensors: impl IntoIterator<Item = (Option<&'a str>, &'a TensorInfo)>) -> Self {
        let mut index = Index::default();
        let pushed = tensors.into_iter().try_for_each(|(name, info)| index.push_checked(name, info.clone(), 0..0));
        if let Err(error) = pushed.and_then(|()| index.complete()) {
            let mut findings = Findings::new(index.pushed());
            findings.refuse(&error);
            return findings.report(index.pushed());
        }
        compare(schema, &index, MetadataSource::Unknown).report
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TensorFile;
    use crate::tensor::Dtype;
    use ndarray::{Array1, Array2};

    fn compare<T: TensorFile>(file: &[(&str, &[usize])], embedded: bool) -> Comparison {
        let mut index = Index::default();
        for (name, shape) in file {
            let name = (!embedded).then_some(*name);
            index.push_checked(name, TensorInfo::new(Dtype::F32, *shape), 0..0).unwrap();
        }
        index.complete().unwrap();
        if embedded {
            index.embed(&mut file.iter().map(|(name, _)| *name), 0).unwrap();
        }
        super::compare(&T::schema(), &index, MetadataSource::Unknown)
    }

    #[test]
    fn lists_the_tensors_that_the_type_takes() {
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
