//! Elements read into memory of the caller: whole or in part, cast, and at strides.

use std::borrow::Cow;
use std::io::Write;
use std::ops::Range;

use tensorfile::cast::Caster;
use tensorfile::file::FileTensor;
use tensorfile::model::{Meaning, TensorData};
use tensorfile::{Dtype, Layout};

use crate::file::{TensorObject, has_elements};
use crate::{Failure, Result, tf_range};

/// The most bytes that are read at once if they are cast or scattered.
const BAND: usize = 8 << 20;

/// Reads a tensor, or a part of it, into `memory`. The elements are in row-major order without gaps, or have the given
/// strides.
pub fn read(
    object: &TensorObject,
    part: Option<&[tf_range]>,
    to: Option<Dtype>,
    memory: &mut [u8],
    strides: Option<&[isize]>,
) -> Result<()> {
    let tensor = object.get();
    let to = to.filter(|to| *to != tensor.dtype());
    let mut caster = to.map(|to| caster(tensor, to)).transpose()?;
    let is_whole = part.is_none() && strides.is_none();
    if is_whole && caster.is_none() && !matches!(tensor.layout(), Layout::DimOrder(_)) {
        return whole(object, memory);
    }
    let ranges = ranges(tensor, part)?;
    let dims: Vec<usize> = ranges.iter().map(ExactSizeIterator::len).collect();
    let dtype = to.unwrap_or(tensor.dtype());
    let elements = dims.iter().try_fold(1, |all: usize, dim| all.checked_mul(*dim));
    let needed = elements.and_then(|elements| dtype.bytes_for(elements)).ok_or_else(|| too_many(tensor))?;
    match strides {
        Some(strides) => {
            let item = dtype.block_bytes();
            if !has_elements(dtype) {
                let what = "has several elements in a block, which have no strides";
                return Err(Failure::argument(format!("{dtype} {what}")));
            }
            check_strides(&dims, strides, item, memory.len())?;
            in_bands(tensor, &ranges, &mut |band, first| {
                scatter(&cast(caster.as_mut(), band), &dims, first, strides, item, memory);
            })
        }
        None => {
            check_len(tensor, needed, memory.len())?;
            match caster {
                None => Ok(tensor.slice_into(&ranges, memory)?),
                // Only this way decodes a compressed tensor once, and casts with several threads.
                Some(mut caster) if is_whole => {
                    let mut left = memory;
                    Ok(tensor.write_row_major_to(&mut caster.writer(&mut left))?)
                }
                Some(mut caster) => {
                    let mut left = memory;
                    let mut writer = caster.writer(&mut left);
                    in_bands(tensor, &ranges, &mut |band, _| {
                        writer.write_all(band).expect("the memory has as many bytes as the elements take");
                    })
                }
            }
        }
    }
}

/// Returns a caster of a tensor's elements. Codes of quantized weights are not cast as if they were numbers.
fn caster(tensor: FileTensor<'_>, to: Dtype) -> Result<Caster> {
    if !matches!(tensor.layout(), Layout::RowMajor | Layout::DimOrder(_)) {
        let (name, info) = (tensor.name(), tensor.info());
        return Err(Failure::argument(format!("tensor `{name}`: {info} is not cast; read it as it is stored")));
    }
    match TensorData::meaning(&tensor)? {
        Meaning::Codes(refusal) => Err(tensor.locate(refusal).into()),
        _ => Ok(Caster::between_kinds(tensor.dtype(), to)?),
    }
}

/// Reads a tensor as it is stored.
fn whole(object: &TensorObject, memory: &mut [u8]) -> Result<()> {
    let tensor = object.get();
    let needed = usize::try_from(tensor.payload_bytes()).map_err(|_| too_many(tensor))?;
    check_len(tensor, needed, memory.len())?;
    let plan = object.file().read_plan().tensors([tensor])?.finish()?;
    Ok(plan.read_into(memory)?)
}

/// Returns a range for each dim.
fn ranges(tensor: FileTensor<'_>, part: Option<&[tf_range]>) -> Result<Vec<Range<usize>>> {
    let (name, dims) = (tensor.name(), tensor.shape().dims());
    let Some(part) = part else { return Ok(dims.iter().map(|dim| 0..*dim).collect()) };
    if part.len() != dims.len() {
        return Err(Failure::argument(format!("tensor `{name}`: {} ranges for {} dims", part.len(), dims.len())));
    }
    let outside = part.iter().zip(dims).position(|(range, dim)| range.start > range.end || range.end > *dim);
    if let Some(dim) = outside {
        let (tf_range { start, end }, len) = (part[dim], dims[dim]);
        return Err(Failure::argument(format!("tensor `{name}`: range {start}..{end} of dim {dim}, which has {len}")));
    }
    Ok(part.iter().map(|range| range.start..range.end).collect())
}

/// Calls `each` with parts of a box, in row-major order, and the number of elements before each.
fn in_bands(tensor: FileTensor<'_>, ranges: &[Range<usize>], each: &mut dyn FnMut(&[u8], usize)) -> Result<()> {
    let item = tensor.dtype().block_bytes();
    let lens: Vec<usize> = ranges.iter().map(|range| range.len()).collect();
    // Dims from here on fit into a band.
    let (mut inner, mut bytes) = (ranges.len(), item);
    while inner > 0 && bytes.saturating_mul(lens[inner - 1]) <= BAND {
        inner -= 1;
        bytes *= lens[inner];
    }
    // Each part of a compressed tensor would be decoded from its start.
    if lens.contains(&0) || inner == 0 || tensor.is_encoded() {
        let band = tensor.slice(ranges)?;
        each(band.as_bytes(), 0);
        return Ok(());
    }
    let (split, rows) = (inner - 1, (BAND / bytes.max(1)).max(1));
    let mut part = ranges.to_vec();
    let (mut index, mut done) = (vec![0_usize; split], 0);
    loop {
        for (dim, at) in index.iter().enumerate() {
            let start = ranges[dim].start + at;
            part[dim] = start..start + 1;
        }
        let mut start = ranges[split].start;
        while start < ranges[split].end {
            let end = ranges[split].end.min(start + rows);
            part[split] = start..end;
            let band = tensor.slice(&part)?;
            each(band.as_bytes(), done);
            done += band.as_bytes().len() / item;
            start = end;
        }
        let Some(dim) = (0..split).rev().find(|dim| index[*dim] + 1 < lens[*dim]) else { return Ok(()) };
        index[dim] += 1;
        index[dim + 1..].fill(0);
    }
}

fn cast<'b>(caster: Option<&mut Caster>, band: &'b [u8]) -> Cow<'b, [u8]> {
    match caster {
        None => band.into(),
        Some(caster) => {
            let mut results = Vec::new();
            caster.cast(band, &mut results);
            results.into()
        }
    }
}

/// Copies elements to their places. `first` is the number of elements before them.
fn scatter(elements: &[u8], dims: &[usize], first: usize, strides: &[isize], item: usize, memory: &mut [u8]) {
    // Elements that are neighbours in memory too are copied together.
    let (mut run, mut outer) = (1, dims.len());
    while outer > 0 && (dims[outer - 1] == 1 || strides[outer - 1].unsigned_abs() == run * item) {
        outer -= 1;
        run *= dims[outer];
    }
    let mut at = first;
    let mut left = elements;
    while !left.is_empty() {
        let in_run = at % run;
        let count = (run - in_run).min(left.len() / item);
        let (now, rest) = left.split_at(count * item);
        let mut number = at / run;
        let mut place = in_run * item;
        for dim in (0..outer).rev() {
            place += number % dims[dim] * strides[dim].unsigned_abs();
            number /= dims[dim];
        }
        memory[place..place + now.len()].copy_from_slice(now);
        (left, at) = (rest, at + count);
    }
}

/// Checks that elements at strides lie in the memory, and not one over another.
fn check_strides(dims: &[usize], strides: &[isize], item: usize, len: usize) -> Result<()> {
    if dims.len() != strides.len() {
        return Err(Failure::argument(format!("{} strides for {} dims", strides.len(), dims.len())));
    }
    if dims.contains(&0) {
        return Ok(());
    }
    let mut longer: Vec<(usize, usize)> = Vec::with_capacity(dims.len());
    for (dim, stride) in dims.iter().zip(strides).filter(|(dim, _)| **dim > 1) {
        let stride = usize::try_from(*stride);
        longer.push((stride.map_err(|_| Failure::argument("strides of memory to be filled are not negative"))?, *dim));
    }
    longer.sort_unstable();
    let mut end = item;
    for (stride, dim) in longer {
        if stride < end {
            return Err(Failure::argument(format!(
                "a stride of {stride} bytes puts elements over others, which take {end}"
            )));
        }
        let last = stride.checked_mul(dim - 1).and_then(|last| last.checked_add(end));
        end = last.ok_or_else(|| Failure::argument("the strides exceed memory"))?;
    }
    if end > len {
        return Err(Failure::argument(format!("elements at these strides take {end} bytes, but the memory has {len}")));
    }
    Ok(())
}

fn check_len(tensor: FileTensor<'_>, needed: usize, len: usize) -> Result<()> {
    if needed == len {
        return Ok(());
    }
    Err(Failure::argument(format!("tensor `{}`: the memory has {len} bytes, but needs {needed}", tensor.name())))
}

fn too_many(tensor: FileTensor<'_>) -> Failure {
    Failure::argument(format!("tensor `{}`: its elements take more bytes than memory has", tensor.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_stay_in_memory_and_apart() {
        assert!(check_strides(&[2, 3], &[12, 4], 4, 24).is_ok());
        assert!(check_strides(&[2, 3], &[4, 8], 4, 24).is_ok());
        assert!(check_strides(&[2, 3], &[12, 4], 4, 23).is_err());
        assert!(check_strides(&[2, 3], &[8, 4], 4, 24).is_err());
        assert!(check_strides(&[2, 3], &[-12, 4], 4, 24).is_err());
        assert!(check_strides(&[2, 3], &[isize::MAX, 4], 4, 24).is_err());
        assert!(check_strides(&[1, 3], &[-1, 4], 4, 12).is_ok());
        assert!(check_strides(&[0, 3], &[0, 0], 4, 0).is_ok());
        assert!(check_strides(&[2], &[4, 4], 4, 24).is_err());
    }

    #[test]
    fn scatters_bands() {
        let (dims, strides) = ([2, 3], [1, 2]);
        let mut memory = [0; 6];
        scatter(&[1, 2, 3, 4], &dims, 0, &strides, 1, &mut memory);
        scatter(&[5, 6], &dims, 4, &strides, 1, &mut memory);
        assert_eq!(memory, [1, 4, 2, 5, 3, 6]);
        let mut padded = [0; 8];
        scatter(&[1, 2, 3, 4], &dims, 0, &[5, 1], 1, &mut padded);
        scatter(&[5, 6], &dims, 4, &[5, 1], 1, &mut padded);
        assert_eq!(padded, [1, 2, 3, 0, 0, 4, 5, 6]);
    }
}
