//! What became of each element of a source.

use std::fmt;
use std::ops::Range;

use super::parse::Equation;
use crate::error::{Grouped, counted};
use crate::tensor::TensorInfo;

/// What became of the elements of a file that was read through a [`LayoutMap`](crate::LayoutMap): the elements of the
/// source, without those that are left out and with those that are made, are the elements of the target.
///
/// A receipt shows that no element is lost or used twice. It does not show that the map is the right one.
///
/// ```
/// use tensorfile::{LayoutMap, OpenOptions, TensorMap, safetensors};
/// use ndarray::array;
///
/// let map: LayoutMap = "experts.{e}.weight [h] = experts.weight [e h]".parse()?;
/// let one_by_one = TensorMap::from_iter([("experts.0.weight", array![1.0_f32, 2.0]), ("experts.1.weight", array![3.0, 4.0])]);
/// let file = OpenOptions::new().map(&map).from_bytes(safetensors::to_vec(&one_by_one)?)?;
/// assert_eq!(
///     file.receipt().expect("the file is mapped").to_string(),
///     "line 1  2 tensors -> 1  4 elements  e becomes a dim\n\
///      source 2 tensors, 4 elements = target 1 tensor, 4 elements; 0 made, 0 left"
/// );
/// # Ok::<(), tensorfile::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Receipt {
    /// The numbers of the map, by their names.
    pub numbers: Vec<(String, u64)>,
    /// The tensors that were read.
    pub source: ReceiptTotals,
    /// The tensors of the other layout.
    pub target: ReceiptTotals,
    /// The equations that match tensors, in the order of the map.
    pub rules: Vec<RuleReceipt>,
    /// The tensors that are kept, and their elements.
    pub kept: [u64; 2],
    /// The tensors that are copied: the name of the original, that of the copy, and the elements.
    pub copied: Vec<(String, String, u64)>,
    /// The zeros that are made.
    pub made: Vec<MadeElements>,
    /// The elements that are left out.
    pub left: Vec<LeftElements>,
}

/// The tensors on one side of a [`Receipt`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ReceiptTotals {
    /// The number of tensors.
    pub tensors: u64,
    /// The number of their elements.
    pub elements: u64,
    /// The number of their bytes.
    pub bytes: u64,
}

/// What an equation did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuleReceipt {
    /// The number of the line, from 1.
    pub line: usize,
    /// The number of assignments of the axes in both names, such as the number of layers.
    pub instances: u64,
    /// The number of tensors that were read.
    pub from: u64,
    /// The number of tensors, or of parts, that were made of them.
    pub to: u64,
    /// The number of elements that were moved.
    pub elements: u64,
    /// What became of the axes, such as `e becomes a dim`.
    pub change: String,
}

/// Zeros of a tensor: its padding.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MadeElements {
    /// The tensor of the other layout.
    pub name: String,
    /// Boxes of the elements, each a range of each dim. None if the tensor is made of parts.
    pub ranges: Vec<Vec<Range<u64>>>,
    /// The number of elements.
    pub elements: u64,
    /// The line that makes them.
    pub line: usize,
}

/// Elements of a source that no tensor has.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftElements {
    /// The tensor that was read.
    pub name: String,
    /// Boxes of the elements, each a range of each dim.
    pub ranges: Vec<Vec<Range<u64>>>,
    /// The number of elements.
    pub elements: u64,
    /// The line, and its reason.
    pub why: String,
}

impl Receipt {
    /// Returns the number of elements that are made: zeros, and those of copies.
    #[must_use]
    pub fn made_elements(&self) -> u64 {
        let copied = self.copied.iter().map(|(.., elements)| elements);
        self.made.iter().map(|made| &made.elements).chain(copied).sum()
    }

    /// Returns the number of elements that are left out.
    #[must_use]
    pub fn left_elements(&self) -> u64 {
        self.left.iter().map(|left| left.elements).sum()
    }
}

impl ReceiptTotals {
    /// Counts a tensor.
    pub(super) fn add(&mut self, info: &TensorInfo) {
        self.tensors += 1;
        self.elements += info.shape.elements().unwrap_or_default() as u64;
        self.bytes += info.payload_bytes().unwrap_or_default() as u64;
    }
}

impl LeftElements {
    /// All elements of a tensor.
    pub(super) fn whole(name: &str, info: &TensorInfo, why: String) -> Self {
        let ranges = vec![info.shape.iter().map(|dim| 0..*dim as u64).collect()];
        Self { name: name.to_owned(), ranges, elements: info.shape.elements().unwrap_or_default() as u64, why }
    }
}

impl RuleReceipt {
    /// The receipt of an equation before any tensor. `from` and `to` are the numbers of its sides.
    pub(super) fn new(equation: &Equation, [from, to]: [usize; 2]) -> Self {
        let [from, to] = [&equation.sides[from], &equation.sides[to]];
        let in_names = |one: &[usize], other: &[usize]| {
            let moved = one.iter().filter(|axis| !other.contains(axis));
            moved.map(|axis| equation.axes[*axis].name.clone()).collect::<Vec<_>>()
        };
        let [of_from, of_to] = [from, to].map(|side| side.in_name().collect::<Vec<_>>());
        let mut changes = Vec::new();
        for (names, what) in [(in_names(&of_from, &of_to), "a dim"), (in_names(&of_to, &of_from), "a name")] {
            match &names[..] {
                [] => {}
                [name] => changes.push(format!("{name} becomes {what}")),
                [first @ .., last] => changes.push(format!("{} and {last} become {}s", first.join(", "), &what[2..])),
            }
        }
        if changes.is_empty() {
            let is_same = from.in_dims().eq(to.in_dims());
            changes.push(if is_same { "names change" } else { "the order of elements changes" }.to_owned());
        }
        Self { line: equation.line, instances: 0, from: 0, to: 0, elements: 0, change: changes.join(", ") }
    }
}

impl fmt::Display for Receipt {
    /// Writes a line for each rule, and the balance.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = |rule: &RuleReceipt| {
            let RuleReceipt { line, from, to, elements, change, .. } = rule;
            receipt_row(format!("line {line}"), *from, &format!(" -> {}", Grouped(*to)), *elements, change)
        };
        let mut rows: Vec<[String; 5]> = self.rules.iter().map(rule).collect();
        let [tensors, elements] = self.kept;
        if tensors > 0 {
            rows.push(receipt_row("kept".to_owned(), tensors, "", elements, ""));
        }
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or_default();
        let widths: Vec<usize> = (0..4).map(width).collect();
        for [what, from, to, elements, change] in &rows {
            let row = format!(
                "{what:<0$}  {from:>1$}{to:<2$}  {elements:>3$}  {change}",
                widths[0], widths[1], widths[2], widths[3]
            );
            writeln!(f, "{}", row.trim_end())?;
        }
        let [source, target] = [self.source, self.target]
            .map(|totals| format!("{}, {} elements", counted(totals.tensors, "tensor"), RoundedCount(totals.elements)));
        let [made, left] = [self.made_elements(), self.left_elements()].map(Grouped);
        write!(f, "source {source} = target {target}; {made} made, {left} left")
    }
}

/// Returns the columns of a line.
fn receipt_row(what: String, from: u64, to: &str, elements: u64, change: &str) -> [String; 5] {
    let elements = format!("{} elements", RoundedCount(elements));
    [what, counted(from, "tensor"), to.to_owned(), elements, change.to_owned()]
}

/// A number with one digit after the point, and a prefix for thousands.
struct RoundedCount(u64);

impl fmt::Display for RoundedCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_000_000_000_000_u64, "T"), (1_000_000_000, "G"), (1_000_000, "M")];
        match units.iter().find(|(unit, _)| self.0 >= *unit) {
            Some((unit, prefix)) => write!(f, "{}.{} {prefix}", self.0 / unit, self.0 % unit / (unit / 10)),
            None => Grouped(self.0).fmt(f),
        }
    }
}
