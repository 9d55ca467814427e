//! The sizes of axes, and the places of their values in dims.

use super::names::{UNSET, index};
use super::parse::{AxisIndex, DimAxes, DimPart, Equation};

/// The size of each axis of an equation: one, or one for each text of the axis on which it depends.
#[derive(Debug, Clone)]
pub(super) struct AxisSizes(Vec<Vec<Option<u64>>>);

/// The parts of a dim: outer indices, and for each of them the inner ones of each part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PartSizes {
    pub(super) dim: usize,
    pub(super) outer: u64,
    pub(super) inner: Vec<u64>,
}

/// The places of the axes of a dim.
#[derive(Debug, Clone)]
pub(super) struct DimPlaces {
    /// The length without padding.
    pub(super) len: u64,
    /// The place of the values in names, and of a part.
    pub(super) base: u64,
    /// The other axes, outermost first, with their lengths and the distance between neighbours.
    pub(super) axes: Vec<(usize, u64, u64)>,
}

/// Why a dim does not fit.
pub(super) enum DimMisfit {
    /// The sizes of these axes are not known.
    Unknown(Vec<usize>),
    /// The dim has another length.
    Length(u64),
    /// It is not a multiple.
    Multiple(u64),
}

impl AxisSizes {
    /// The sizes that are known without a tensor: of lists of texts, and the numbers of the map.
    pub(super) fn known(equation: &Equation, number: &dyn Fn(&str) -> Option<u64>) -> Self {
        let of = |i: usize| {
            let axis = &equation.axes[i];
            match &axis.index {
                AxisIndex::Nothing if axis.texts.is_empty() => vec![number(&axis.name)],
                AxisIndex::Nothing => vec![Some(axis.texts.len() as u64)],
                AxisIndex::Text(text) => vec![number(&format!("{}[{text}]", axis.name))],
                AxisIndex::Axis(on) => {
                    let texts = equation.axes[*on].texts.iter();
                    texts.map(|text| number(&format!("{}[{text}]", axis.name))).collect()
                }
            }
        };
        Self((0..equation.axes.len()).map(of).collect())
    }

    /// Returns the size of an axis, for the values of the axes on which sizes depend.
    pub(super) fn get(&self, equation: &Equation, axis: usize, values: &[u64]) -> Option<u64> {
        *self.0[axis].get(slot(equation, axis, values)?)?
    }

    pub(super) fn set(&mut self, equation: &Equation, axis: usize, values: &[u64], size: u64) {
        if let Some(place) = slot(equation, axis, values).and_then(|slot| self.0[axis].get_mut(slot)) {
            *place = Some(size);
        }
    }

    /// Compares a dim of a tensor with its axes, and finds the size of one of them.
    pub(super) fn solve(
        &mut self,
        equation: &Equation,
        dim: &DimAxes,
        values: &[u64],
        length: u64,
    ) -> Result<(), DimMisfit> {
        // The sizes of axes that depend on another one of this dim are known.
        let inside = |axis: &usize| matches!(equation.axes[*axis].index, AxisIndex::Axis(on) if dim.axes.contains(&on));
        let is_unknown = |axis: &&usize| match equation.axes[**axis].index {
            AxisIndex::Axis(_) if inside(axis) => self.0[**axis].contains(&None),
            _ => self.get(equation, **axis, values).is_none(),
        };
        let unknown: Vec<usize> = dim.axes.iter().filter(is_unknown).copied().collect();
        match unknown[..] {
            [] => {
                let known = self.places(equation, dim, values).map_or(u64::MAX, |places| places.len);
                if known == length { Ok(()) } else { Err(DimMisfit::Length(known)) }
            }
            [axis] if !inside(&axis) => {
                self.set(equation, axis, values, 1);
                let known = self.places(equation, dim, values).map_or(u64::MAX, |places| places.len);
                if known == 0 || !length.is_multiple_of(known) {
                    return Err(DimMisfit::Multiple(known));
                }
                self.set(equation, axis, values, length / known);
                Ok(())
            }
            _ => Err(DimMisfit::Unknown(unknown)),
        }
    }

    /// Returns the places of the axes of a dim. `None` if a size is not known, or the dim is too long.
    pub(super) fn places(&self, equation: &Equation, dim: &DimAxes, values: &[u64]) -> Option<DimPlaces> {
        let (mut unit, mut base, mut axes) = (1_u64, 0_u64, Vec::with_capacity(dim.axes.len()));
        for (k, axis) in dim.axes.iter().enumerate().rev() {
            let inner = &dim.axes[k + 1..];
            if inner.iter().any(|other| equation.axes[*other].index == AxisIndex::Axis(*axis)) {
                let block = |value: u64| {
                    let mut values = values.to_vec();
                    values[*axis] = value;
                    let mut sizes = inner.iter().map(|other| self.get(equation, *other, &values));
                    sizes.try_fold(1_u64, |product, size| product.checked_mul(size?))
                };
                let count = equation.axes[*axis].texts.len() as u64;
                let mut total = 0_u64;
                for value in 0..count {
                    if value == values[*axis] {
                        base = base.checked_add(total)?;
                    }
                    total = total.checked_add(block(value)?)?;
                }
                unit = total;
                continue;
            }
            if let AxisIndex::Axis(on) = equation.axes[*axis].index
                && values[on] == UNSET
                && dim.axes.contains(&on)
            {
                // The axis on which it depends stands for all of its sizes.
                continue;
            }
            let size = self.get(equation, *axis, values)?;
            match values[*axis] {
                UNSET => axes.push((*axis, size, unit)),
                value => base = base.checked_add(value.checked_mul(unit)?)?,
            }
            unit = unit.checked_mul(size)?;
        }
        axes.reverse();
        Some(DimPlaces { len: unit, base, axes })
    }

    /// Returns the number of outer and of inner indices of a part; `None` if they are not known.
    pub(super) fn of_part(
        &self,
        equation: &Equation,
        dim: &DimAxes,
        part: &DimPart,
        values: &[u64],
    ) -> [Option<u64>; 2] {
        let (outer, inner) = dim.axes.split_at(part.outer);
        [outer, inner].map(|axes| {
            let mut sizes = axes.iter().map(|axis| self.get(equation, *axis, values));
            sizes.try_fold(1_u64, |product, size| product.checked_mul(size?))
        })
    }
}

impl PartSizes {
    /// Returns the index in the whole dim of an index in the part, or a distance.
    pub(super) fn widen(&self, part: usize, at: u64) -> u64 {
        let (inner, total) = (self.inner[part].max(1), self.inner.iter().sum::<u64>());
        at / inner * total + at % inner
    }

    /// Returns the first inner index of a part.
    pub(super) fn start(&self, part: usize) -> u64 {
        self.inner[..part].iter().sum()
    }

    /// Converts the places of a part to places in the whole dim.
    pub(super) fn place(&self, part: usize, places: &mut DimPlaces) {
        places.base = self.widen(part, places.base) + self.start(part);
        places.axes.iter_mut().for_each(|(_, _, step)| *step = self.widen(part, *step));
    }
}

/// Returns which of the sizes of an axis counts.
fn slot(equation: &Equation, axis: usize, values: &[u64]) -> Option<usize> {
    match equation.axes[axis].index {
        AxisIndex::Axis(on) => index(values[on]).filter(|_| values[on] != UNSET),
        _ => Some(0),
    }
}
