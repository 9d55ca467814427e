//! Heat maps: a tensor as a matrix of colored blocks.

use std::ops::Range;

use serde::Serialize;
use tensorfile::{Layout, Shape};

/// The most cells of a map in each direction, and of a map with a single row.
const CELLS: u64 = 64;
const CELLS_OF_ROW: u64 = 256;

/// The letters of colors, from the lowest to the highest.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";
/// The letter of a cell without elements in the sample.
const NO_ELEMENTS: char = ' ';
/// The letter of a cell with NaN or infinity.
const NOT_FINITE: char = '!';

/// A dense tensor as a matrix, in the order of its memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    rows: u64,
    columns: u64,
    /// The dims of the rows and of the columns.
    dims: [Vec<usize>; 2],
}

impl Matrix {
    /// Returns the matrix of a dense tensor: the first dim down, and all others across. Dims of length 1 have no
    /// direction.
    pub fn of(shape: &Shape, layout: &Layout) -> Option<Self> {
        let order: Vec<usize> = match layout {
            Layout::RowMajor => (0..shape.len()).collect(),
            Layout::DimOrder(order) => order.as_slice().iter().map(|dim| usize::from(*dim)).collect(),
            _ => return None,
        };
        let mut dims = order.into_iter().filter(|dim| shape.get(*dim).is_some_and(|len| *len != 1)).collect::<Vec<_>>();
        let across = dims.split_off(usize::from(dims.len() > 1));
        let len = |dims: &[usize]| dims.iter().map(|dim| shape[*dim] as u64).product();
        Some(Self { rows: len(&dims), columns: len(&across), dims: [dims, across] })
    }

    /// Returns the numbers of rows and columns.
    pub fn size(&self) -> (u64, u64) {
        (self.rows, self.columns)
    }
}

/// A matrix divided into cells, with sums over the elements of each.
#[derive(Debug)]
pub struct Cells {
    columns: u64,
    /// The first row of each row of cells, and the number of rows.
    row_edges: Vec<u64>,
    column_edges: Vec<u64>,
    cells: Vec<Cell>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    count: u64,
    sum: f64,
    /// The element with the largest absolute value.
    largest: f64,
    not_finite: bool,
}

impl Cells {
    /// Divides a matrix with these numbers of rows and columns, each above zero.
    pub fn new((rows, columns): (u64, u64)) -> Self {
        let (down, across) =
            if rows == 1 { (1, columns.min(CELLS_OF_ROW)) } else { (rows.min(CELLS), columns.min(CELLS)) };
        let edges = |len: u64, cells: u64| -> Vec<u64> {
            // The product may be too large for 64 bits; an edge is not.
            let edge = |index| u64::try_from(u128::from(len) * u128::from(index) / u128::from(cells)).unwrap_or(len);
            (0..=cells).map(edge).collect()
        };
        let (row_edges, column_edges) = (edges(rows, down), edges(columns, across));
        let cells = vec![Cell::default(); (row_edges.len() - 1) * (column_edges.len() - 1)];
        Self { columns, row_edges, column_edges, cells }
    }

    /// Chooses runs of at most `most` elements in total: some in each cell, if there are as many.
    pub fn runs(&self, most: u64) -> Vec<Range<u64>> {
        let cells = |edges: &[u64]| edges.len() as u64 - 1;
        // The cells that are left out lie between others.
        let step = |cells: u64, most: u64| cells.div_ceil(most.clamp(1, cells));
        let centered = |within: &[u64], len: u64| {
            let (start, end) = (within[0], within[1]);
            let len = len.clamp(1, end - start);
            let first = start + (end - start - len) / 2;
            first..first + len
        };
        let row_step = step(cells(&self.row_edges), most);
        let per_row = most / cells(&self.row_edges).div_ceil(row_step);
        let column_step = step(cells(&self.column_edges), per_row);
        let per_cell = per_row / cells(&self.column_edges).div_ceil(column_step);
        let stepped = |step: u64| usize::try_from(step).unwrap_or(usize::MAX);
        let mut runs = Vec::new();
        for rows in self.row_edges.windows(2).step_by(stepped(row_step)) {
            if per_row >= self.columns {
                let rows = centered(rows, per_row / self.columns);
                runs.push(rows.start * self.columns..rows.end * self.columns);
                continue;
            }
            let row = centered(rows, 1).start;
            for columns in self.column_edges.windows(2).step_by(stepped(column_step)) {
                let columns = centered(columns, per_cell);
                runs.push(row * self.columns + columns.start..row * self.columns + columns.end);
            }
        }
        runs
    }

    /// Adds elements in a row, the first at this position.
    pub fn add(&mut self, first: u64, mut elements: &[f64]) {
        let mut index = first;
        while !elements.is_empty() {
            let (row, column) = (index / self.columns, index % self.columns);
            let within = |edges: &[u64], index: u64| edges.partition_point(|edge| *edge <= index).saturating_sub(1);
            let (down, across) = (within(&self.row_edges, row), within(&self.column_edges, column));
            let end = self.column_edges.get(across + 1).copied().unwrap_or(self.columns);
            let room = usize::try_from(end - column).unwrap_or(usize::MAX).min(elements.len());
            let (now, later) = elements.split_at(room);
            if let Some(cell) = self.cells.get_mut(down * (self.column_edges.len() - 1) + across) {
                now.iter().for_each(|element| cell.add(*element));
            }
            index += now.len() as u64;
            elements = later;
        }
    }

    /// Draws the cells.
    pub fn draw(&self, matrix: Matrix, is_complex: bool) -> HeatMap {
        let values = |of: fn(&Cell) -> f64| {
            self.cells.iter().map(move |cell| match cell {
                Cell { count: 0, .. } => Value::NoElements,
                Cell { not_finite: true, .. } => Value::NotFinite,
                cell => Value::Number(of(cell)),
            })
        };
        let mean = |cell: &Cell| (cell.sum / cell.count as f64).clamp(f64::MIN, f64::MAX);
        let is_exact = self.cells.iter().all(|cell| cell.count <= 1);
        let layers = match (is_exact, is_complex) {
            (true, false) => vec![Layer::of("values", values(mean))],
            (true, true) => vec![Layer::of("absolute values", values(mean))],
            (false, false) => vec![
                Layer::of("means", values(mean)),
                Layer::of("largest absolute values", values(|cell| cell.largest.abs())),
            ],
            (false, true) => vec![
                Layer::of("means of absolute values", values(mean)),
                Layer::of("largest absolute values", values(|cell| cell.largest.abs())),
            ],
        };
        let Matrix { rows, columns, dims: [down, across] } = matrix;
        HeatMap {
            down: Side { cells: self.row_edges.len() - 1, length: rows, dims: down },
            across: Side { cells: self.column_edges.len() - 1, length: columns, dims: across },
            layers,
        }
    }
}

impl Cell {
    fn add(&mut self, element: f64) {
        self.count += 1;
        if !element.is_finite() {
            self.not_finite = true;
            return;
        }
        // An infinite sum of huge numbers would look like an infinity in the tensor.
        self.sum = (self.sum + element).clamp(f64::MIN, f64::MAX);
        if element.abs() > self.largest.abs() {
            self.largest = element;
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Value {
    NoElements,
    NotFinite,
    Number(f64),
}

/// A heat map.
#[derive(Debug, Serialize)]
pub struct HeatMap {
    down: Side,
    across: Side,
    layers: Vec<Layer>,
}

/// A direction of a heat map.
#[derive(Debug, Serialize)]
struct Side {
    cells: usize,
    /// The number of rows or columns of the matrix.
    length: u64,
    /// The dims of the tensor, the outermost first.
    dims: Vec<usize>,
}

/// Numbers of all cells.
#[derive(Debug, Serialize)]
struct Layer {
    name: &'static str,
    /// The number with the first color, and with the last one.
    low: f64,
    high: f64,
    /// Some numbers are beyond these.
    clipped: bool,
    /// A letter for each cell, row by row.
    cells: String,
}

impl Layer {
    fn of(name: &'static str, values: impl Iterator<Item = Value> + Clone) -> Self {
        let mut numbers: Vec<f64> = values
            .clone()
            .filter_map(|value| if let Value::Number(number) = value { Some(number) } else { None })
            .collect();
        numbers.sort_unstable_by(f64::total_cmp);
        let range = |numbers: &[f64]| (numbers.first().copied().unwrap_or(0.0), numbers.last().copied().unwrap_or(0.0));
        // Few extreme cells would leave all others with one color, unless all others are equal.
        let cut = numbers.len() / 100;
        let (low, high) = range(&numbers[cut..numbers.len() - cut]);
        let (low, high) = if low == high { range(&numbers) } else { (low, high) };
        let (low, high) = if low < 0.0 && high > 0.0 { (low.min(-high), high.max(-low)) } else { (low, high) };
        let is_clipped = |number: &f64| *number < low || *number > high;
        let last = LETTERS.len() - 1;
        let letter = |number: f64| {
            // Halves do not overflow.
            let part = (number.clamp(low, high) / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0);
            let index = match part.is_finite() {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 0 and 63")]
                true => (part * last as f64).round() as usize,
                false => last / 2,
            };
            char::from(LETTERS[index.min(last)])
        };
        let cells = values.map(|value| match value {
            Value::NoElements => NO_ELEMENTS,
            Value::NotFinite => NOT_FINITE,
            Value::Number(number) => letter(number),
        });
        Self { name, low, high, clipped: numbers.iter().any(is_clipped), cells: cells.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(shape: &[usize]) -> Matrix {
        Matrix::of(&Shape::from(shape), &Layout::RowMajor).unwrap()
    }

    #[test]
    fn dims_of_length_1_have_no_direction() {
        assert_eq!(matrix(&[258, 1, 256]), Matrix { rows: 258, columns: 256, dims: [vec![0], vec![2]] });
        assert_eq!(matrix(&[1, 128, 1]), Matrix { rows: 1, columns: 128, dims: [vec![], vec![1]] });
        assert_eq!(matrix(&[2, 3, 4]), Matrix { rows: 2, columns: 12, dims: [vec![0], vec![1, 2]] });
        assert_eq!(matrix(&[]).size(), (1, 1));
    }

    #[test]
    fn every_element_is_in_a_cell() {
        let (rows, columns) = (150, 90);
        let mut cells = Cells::new((rows, columns));
        // Pieces begin and end anywhere.
        for start in (0..rows * columns).step_by(77) {
            let end = (start + 77).min(rows * columns);
            cells.add(start, &(start..end).map(|index| index as f64).collect::<Vec<_>>());
        }
        assert_eq!(cells.cells.iter().map(|cell| cell.count).sum::<u64>(), rows * columns);
        // The cell has two rows and one column.
        assert_eq!((cells.cells[0].count, cells.cells[0].largest), (2, columns as f64));
        assert_eq!(cells.cells.last().unwrap().largest, (rows * columns - 1) as f64);
    }

    #[test]
    fn runs_reach_every_cell_if_they_may() {
        for (size, most) in [
            ((150, 90), 2000),
            ((10_000, 10_000), 100_000),
            ((1, 100_000), 1000),
            ((3, u64::MAX / 8), 4),
            ((500, 500), 7),
            ((1, 9000), 1),
        ] {
            let mut cells = Cells::new(size);
            let runs = cells.runs(most);
            let read: u64 = runs.iter().map(|run| run.end - run.start).sum();
            assert!(read <= most && read * 3 > most, "{size:?}: {read}");
            for run in runs {
                assert!(run.end <= size.0 * size.1, "{size:?}: {run:?}");
                cells.add(run.start, &run.map(|_| 1.0).collect::<Vec<_>>());
            }
            let is_everywhere = cells.cells.iter().all(|cell| cell.count > 0);
            assert_eq!(is_everywhere, most >= cells.cells.len() as u64, "{size:?}");
        }
    }

    #[test]
    fn colors_are_around_zero_and_leave_out_extremes() {
        let layer = Layer::of("values", [-1.0, 0.5, 1.0].map(Value::Number).into_iter());
        assert_eq!((layer.low, layer.high, layer.cells.as_str()), (-1.0, 1.0, "Av-"));
        let mut many: Vec<Value> = (0..500).map(|index| Value::Number(f64::from(index % 2))).collect();
        many[7] = Value::Number(1e9);
        many[8] = Value::NotFinite;
        many[9] = Value::NoElements;
        let layer = Layer::of("values", many.into_iter());
        assert_eq!((layer.low, layer.high, layer.clipped), (0.0, 1.0, true));
        assert_eq!(&layer.cells[6..12], "A-! A-");
        let one = Layer::of("values", (0..500).map(|index| Value::Number(if index == 7 { 1.0 } else { 0.0 })));
        assert_eq!((&one.cells[6..9], one.clipped), ("A-A", false));
        let huge = Layer::of("values", [f64::MIN, f64::MAX].map(Value::Number).into_iter());
        assert_eq!(huge.cells, "A-");
        assert_eq!(Layer::of("values", std::iter::empty()).cells, "");
    }
}
