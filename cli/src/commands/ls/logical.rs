//! Quantized weights as `ls --logical` lists them.

use std::io;

use serde::Serialize;
use tensorfile::File;
use tensorfile::quant::{Part, Quantized};

use crate::output::tensors::type_label;
use crate::output::{Column, Stdout, Table};

/// A quantized weight, or what may be one.
#[derive(Debug, Serialize)]
pub struct Weight {
    name: String,
    /// `unknown` if it fits no layout.
    scheme: &'static str,
    details: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    shape: Option<Vec<usize>>,
    parts: Vec<PartRow>,
}

#[derive(Debug, Serialize)]
struct PartRow {
    name: String,
    role: &'static str,
    /// Dtype and shape.
    #[serde(rename = "type")]
    label: String,
}

#[derive(Debug, Serialize)]
pub struct LogicalListing {
    pub file: String,
    pub warnings: Vec<crate::output::warnings::WarningRow>,
    pub weights: Vec<Weight>,
}

/// Returns the weights whose names match, in the order of the file.
pub fn rows(file: &File, quantized: &Quantized, matches: &dyn Fn(&str) -> bool) -> Vec<Weight> {
    let parts = |parts: &[Part]| -> Vec<PartRow> {
        let row = |part: &Part| PartRow {
            name: part.name().to_owned(),
            role: part.role().name(),
            label: file.nth(part.position()).map(|tensor| type_label(tensor.info())).unwrap_or_default(),
        };
        parts.iter().map(row).collect()
    };
    let known = quantized.tensors().iter().map(|weight| Weight {
        name: weight.name().to_owned(),
        scheme: weight.scheme().name(),
        details: weight.details().to_owned(),
        shape: Some(weight.shape().dims().to_vec()),
        parts: parts(weight.parts()),
    });
    let unknown = quantized.unknown().iter().map(|weight| Weight {
        name: weight.name().to_owned(),
        scheme: "unknown",
        details: weight.reason().to_owned(),
        shape: None,
        parts: parts(weight.parts()),
    });
    known.chain(unknown).filter(|weight| matches(&weight.name)).collect()
}

/// Prints a row for each weight, and one for each of its tensors below it.
pub fn print(weights: &[Weight], width: Option<usize>, out: &mut Stdout) -> io::Result<()> {
    let mut table = Table::new([("name", Column::Left), ("scheme", Column::Left), ("shape", Column::Left)]);
    for Weight { name, scheme, details, shape, parts } in weights {
        // A reason is as long as a sentence, and is among the warnings.
        let is_short = !details.is_empty() && shape.is_some();
        let scheme = if is_short { format!("{scheme}, {details}") } else { (*scheme).to_owned() };
        let shape = shape.as_ref().map(|shape| format!("{shape:?}")).unwrap_or_default();
        table.row([name, &scheme, &shape]);
        for PartRow { name, role, label } in parts {
            table.row([&format!("  {name}"), *role, label]);
        }
    }
    if weights.is_empty() {
        return Ok(());
    }
    table.print(width, out)
}
