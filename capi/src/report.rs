//! Comparisons of a file with expected tensors.

use std::collections::HashSet;
use std::io::{self, Write};

use tensorfile::model::{Entries, FieldAttrs, Node, Sink, Store, TensorData, TensorFile};
use tensorfile::{ErrorKind, File, TensorInfo, TensorMap};

use crate::error::in_words_of_c;
use crate::pointers::{self, Shared, Tag};
use crate::{Failure, Result, dtype, tf_expected, tf_report_info};

/// A comparison of a file with the tensors that you expect. Free it with `tf_report_free`.
#[derive(Debug)]
pub struct tf_report(Shared<ReportObject>);

#[derive(Debug)]
pub struct ReportObject {
    differences: usize,
    text: String,
    json: String,
}

impl tf_report {
    pub(crate) fn new(file: &File, expected: &[tf_expected]) -> Result<Self> {
        let report = file.report_like(&Expected::new(expected)?);
        let json = serde_json::to_string(&report).map_err(|error| Failure::argument(error.to_string()))?;
        let differences = report.count();
        Ok(Self(Shared::new(ReportObject { differences, text: in_words_of_c(report.to_string()), json })))
    }
}

impl ReportObject {
    pub fn info(&self) -> tf_report_info {
        tf_report_info {
            size: size_of::<tf_report_info>(),
            differences: self.differences,
            text: self.text.as_str().into(),
            json: self.json.as_str().into(),
        }
    }
}

/// Tensors without elements, as a value to compare a file with.
struct Expected(Vec<(String, Header)>);

struct Header(TensorInfo);

impl Expected {
    fn new(tensors: &[tf_expected]) -> Result<Self> {
        let tensor = |tensor: &tf_expected| {
            let dims = pointers::array(tensor.dims, tensor.rank, "the dims of an expected tensor")?;
            Ok((tensor.name.to_str()?.to_owned(), Header(TensorInfo::new(dtype::expect(tensor.dtype)?, dims))))
        };
        let expected = Self(tensors.iter().map(tensor).collect::<Result<_>>()?);
        let mut names = HashSet::new();
        match expected.0.iter().find(|(name, _)| !names.insert(name)) {
            None => Ok(expected),
            Some((name, _)) => Err(Failure::argument(format!("tensor `{name}` is expected twice"))),
        }
    }
}

impl TensorFile for Expected {
    const NODE: Node = TensorMap::NODE;
}

impl Store for Expected {
    fn store(&self, sink: &mut dyn Sink, attrs: &FieldAttrs) -> tensorfile::Result<()> {
        sink.map(self, attrs)
    }
}

impl Entries for Expected {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn for_each(&self, visit: &mut dyn FnMut(&str, &dyn Store) -> tensorfile::Result<()>) -> tensorfile::Result<()> {
        self.0.iter().try_for_each(|(name, header)| visit(name, header))
    }
}

impl Store for Header {
    fn store(&self, sink: &mut dyn Sink, _: &FieldAttrs) -> tensorfile::Result<()> {
        sink.tensor(&self.0, self)
    }
}

impl TensorData for Header {
    fn write_to(&self, _: &mut dyn Write) -> io::Result<()> {
        let (what, instead) = ("read an expected tensor".to_owned(), "it has a dtype and a shape only".to_owned());
        Err(tensorfile::Error::from(ErrorKind::Unsupported { what, instead }).into())
    }
}

impl Tag for tf_report {
    type Object = ReportObject;
    const TAG: u64 = u64::from_le_bytes(*b"tf_repor");
    const NAME: &str = "report";

    fn shared(&self) -> &Shared<ReportObject> {
        &self.0
    }
}
