//! The tensors of the other layout, as moves of elements of the source.

use hashbrown::{HashMap, HashSet};
use indexmap::IndexMap;

use super::layout_map::LayoutMap;
use super::misfits::Misfits;
use super::moves::{
    TensorPlaces, keeps_last_dim, padding_boxes, set_digits, stored_shape, stored_strides, tensor_move, whole_move,
};
use super::names::{AxisValues, UNSET, index, name_of};
use super::parse::{AxisIndex, DimAxes, Equation};
use super::receipt::{LeftElements, MadeElements, Receipt, RuleReceipt};
use super::sizes::{AxisSizes, PartSizes};
use super::solve::{ConfigNumber, Instance, MapSource, Solution, direction, numbers, part_number, part_texts, solve};
use crate::error::{Error, ErrorKind, Result};
use crate::fetch::TensorMove;
use crate::tensor::{Shape, TensorInfo};

/// The most moves of a plan: each pair of tensors of an equation takes one.
const MOST_MOVES: u64 = 1 << 22;

/// The tensors of the other layout.
#[derive(Debug)]
pub(crate) struct MapPlan {
    /// In the order of their first sources.
    pub(crate) tensors: Vec<MappedTensor>,
    pub(crate) receipt: Receipt,
}

#[derive(Debug)]
pub(crate) struct MappedTensor {
    pub(crate) name: String,
    pub(crate) info: TensorInfo,
    pub(crate) elements: MappedElements,
}

#[derive(Debug)]
pub(crate) enum MappedElements {
    /// All of a source, as it is stored.
    Source(usize),
    /// Those of sources, and zeros.
    Moves(SourceMoves),
}

/// The moves of a tensor, which begin at offsets in the payloads of their sources.
#[derive(Debug, Default)]
pub(crate) struct SourceMoves {
    pub(crate) moves: Vec<(usize, TensorMove)>,
    pub(crate) is_padded: bool,
    pub(crate) checks: Vec<SourceCheck>,
}

/// A check of elements of a source that no tensor has.
#[derive(Debug)]
pub(crate) struct SourceCheck {
    /// The element of the tensor whose reading makes the check.
    pub(crate) at: usize,
    pub(crate) source: usize,
    pub(crate) line: usize,
    pub(crate) kind: SourceCheckKind,
}

#[derive(Debug, Clone)]
pub(crate) enum SourceCheckKind {
    /// Padding: an offset in the payload, and axes of elements.
    Zeros { start: u64, axes: Vec<(usize, usize)> },
    /// The source has the same bytes as this one.
    Equals(usize),
}

impl MapPlan {
    /// Compares a map with the headers of a file, and finds where each element goes. The plan has at most `most` tensors.
    pub(crate) fn new(map: &LayoutMap, sources: &[MapSource<'_>], config: ConfigNumber<'_>, most: u64) -> Result<Self> {
        let numbers = numbers(map, config)?;
        let solution = solve(map, &numbers, sources)?;
        let mut receipt = Receipt::default();
        sources.iter().for_each(|source| receipt.source.add(source.info));
        receipt.numbers = numbers.iter().map(|(name, number)| (name.clone(), *number)).collect();
        receipt.numbers.sort_unstable();
        let planner = MapPlanner { map, numbers: &numbers, sources, most, moves: 0, made: Vec::new(), receipt };
        planner.plan(solution)
    }
}

struct MapPlanner<'m> {
    map: &'m LayoutMap,
    numbers: &'m HashMap<String, u64>,
    sources: &'m [MapSource<'m>],
    most: u64,
    moves: u64,
    made: Vec<MadeTensor>,
    receipt: Receipt,
}

/// A tensor of the other layout, or a part of one.
struct MadeTensor {
    name: String,
    line: usize,
    info: TensorInfo,
    elements: MappedElements,
    /// The number of zeros.
    made: u64,
    part: Option<MadePart>,
}

struct MadePart {
    label: usize,
    texts: Vec<String>,
    dim: usize,
    outer: u64,
    inner: u64,
}

impl MapPlanner<'_> {
    fn plan(mut self, mut solution: Solution) -> Result<MapPlan> {
        let mut misfits = std::mem::take(&mut solution.misfits);
        let mut rules: Vec<RuleReceipt> =
            self.map.lines.equations.iter().map(|equation| RuleReceipt::new(equation, direction(self.map))).collect();
        for instance in &solution.instances {
            let first = self.made.len();
            self.make(&solution, instance, &mut misfits)?;
            let rule = &mut rules[instance.equation];
            rule.instances += 1;
            rule.from += instance.members.len() as u64;
            let made = &self.made[first..];
            rule.to += made.len() as u64;
            rule.elements += made.iter().map(|made| elements(&made.info) - made.made).sum::<u64>();
        }
        rules.retain(|rule| rule.instances > 0);
        self.receipt.rules = rules;
        for source in &solution.kept {
            let MapSource { name, info, .. } = &self.sources[*source];
            self.receipt.kept[0] += 1;
            self.receipt.kept[1] += elements(info);
            let elements = MappedElements::Source(*source);
            self.made.push(MadeTensor {
                name: (*name).to_owned(),
                line: 0,
                info: (*info).clone(),
                elements,
                made: 0,
                part: None,
            });
        }
        for (source, line) in &solution.dropped {
            self.receipt.left.push(LeftElements::whole(
                self.sources[*source].name,
                self.sources[*source].info,
                format!("line {line} drops it"),
            ));
        }
        let mut tensors = self.join_parts(&mut misfits)?;
        self.check_copies(&mut tensors, &solution, &mut misfits)?;
        misfits.check()?;
        let first_source = |tensor: &MappedTensor| match &tensor.elements {
            MappedElements::Source(source) => *source,
            MappedElements::Moves(moves) => moves.moves.iter().map(|(source, _)| *source).min().unwrap_or(usize::MAX),
        };
        tensors.sort_by_key(first_source);
        self.copy(&mut tensors);
        let mut receipt = self.receipt;
        tensors.iter().for_each(|tensor| receipt.target.add(&tensor.info));
        Ok(MapPlan { tensors, receipt })
    }

    /// Makes the tensors of an equation for one assignment of the axes in both names.
    fn make(&mut self, solution: &Solution, instance: &Instance, misfits: &mut Misfits) -> Result<()> {
        let Instance { equation: number, members, sizes } = instance;
        let equation = &self.map.lines.equations[*number];
        let [from, to] = direction(self.map);
        let [source, target] = [&equation.sides[from], &equation.sides[to]];
        let line = equation.line;
        let (Some(source_dims), Some(target_dims)) = (&source.dims, &target.dims) else {
            for (i, values) in members {
                let (name, info) = (name_of(target, values, &solution.texts), self.sources[*i].info.clone());
                let elements = MappedElements::Source(*i);
                self.made.push(MadeTensor { name, line, info, elements, made: 0, part: None });
            }
            return Ok(());
        };
        let info = self.sources[members[0].0].info;
        let block = info.dtype.block_elements();
        if block > 1 && !keeps_last_dim(equation, info) {
            let what = format!(
                "move the elements of `{}` by line {line}, which divides its last dim",
                self.sources[members[0].0].name
            );
            let instead = format!("{} has blocks of {block} elements along it; whole rows can be moved", info.dtype);
            return Err(ErrorKind::Unsupported { what, instead }.into());
        }
        // The axes whose values the names of the target show.
        let own: Vec<usize> = source.in_name().collect();
        let theirs: Vec<usize> = target.in_name().filter(|axis| !own.contains(axis)).collect();
        let mut shared = vec![UNSET; equation.axes.len()];
        target.in_name().filter(|axis| own.contains(axis)).for_each(|axis| shared[axis] = members[0].1[axis]);
        let ranges: Vec<u64> =
            theirs.iter().map(|axis| sizes.get(equation, *axis, &shared).unwrap_or_default()).collect();
        let count = ranges.iter().fold(1_u64, |product, size| product.saturating_mul(*size));
        self.moves = self.moves.saturating_add(count.saturating_mul(members.len() as u64));
        for (what, found, limit) in [
            ("number of tensors", count.saturating_add(self.made.len() as u64), self.most),
            ("number of moves", self.moves, MOST_MOVES),
        ] {
            if found > limit {
                return Err(ErrorKind::Limit { what, found, limit }.into());
            }
        }
        // Axes in dims of both sides on which sizes depend: there is a move for each value.
        let is_looped = |axis: &usize| {
            equation.axes.iter().any(|other| other.index == AxisIndex::Axis(*axis))
                && [source, target].iter().all(|side| side.in_dims().any(|other| other == *axis))
        };
        let loops: Vec<usize> = (0..equation.axes.len()).filter(is_looped).collect();
        let loop_ranges: Vec<u64> = loops.iter().map(|axis| equation.axes[*axis].texts.len() as u64).collect();
        let mut used = vec![0_u64; members.len()];
        for number in 0..count {
            let mut values = shared.clone();
            set_digits(&mut values, &theirs, &ranges, number);
            let name = name_of(target, &values, &solution.texts);
            let mut moves = Vec::with_capacity(members.len());
            let mut shape = None;
            for (k, (i, own)) in members.iter().enumerate() {
                for turn in 0..loop_ranges.iter().product() {
                    let mut values: AxisValues =
                        values.iter().zip(own).map(|(one, own)| if *own == UNSET { *one } else { *own }).collect();
                    set_digits(&mut values, &loops, &loop_ranges, turn);
                    let places = |dims: &[DimAxes]| self.places(equation, sizes, dims, &values, block);
                    let (Some(mut here), Some(there)) = (places(source_dims), places(target_dims)) else {
                        return Err(too_large(&name));
                    };
                    if let (Some(parts), Some(part)) = (solution.parts.get(i), &source.part) {
                        let label = part_number(self.map, self.numbers, part).unwrap_or_default();
                        parts.place(label, &mut here.dims[part.dim]);
                    }
                    let moved = tensor_move(self.sources[*i].info, &here, &there).ok_or_else(|| too_large(&name))?;
                    let count = if moved.axes.iter().any(|axis| axis.len == 0) {
                        0
                    } else {
                        moved.elements() as u64 * block as u64
                    };
                    used[k] += count;
                    shape = Some(there);
                    if count > 0 {
                        moves.push((*i, moved));
                    }
                }
            }
            let Some(places) = shape else { continue };
            let moved: u64 = moves.iter().map(|(_, moved)| moved.elements() as u64 * block as u64).sum();
            let mut dims: Vec<usize> = Vec::with_capacity(places.dims.len());
            for (dim, padding) in places.dims.iter().zip(&places.padding) {
                dims.push(index(dim.len.saturating_add(*padding)).ok_or_else(|| too_large(&name))?);
            }
            if let Some(last) = dims.last_mut().filter(|_| block > 1) {
                *last = last.checked_mul(block).ok_or_else(|| too_large(&name))?;
            }
            let info = TensorInfo::new(info.dtype, Shape::from(dims));
            if info.payload_bytes().is_none() {
                return Err(too_large(&name));
            }
            let made = elements(&info) - moved;
            if made > 0 && target.part.is_none() {
                let padded: Vec<[u64; 2]> = places
                    .dims
                    .iter()
                    .zip(&places.padding)
                    .map(|(dim, padding)| [dim.len, dim.len + padding])
                    .collect();
                self.receipt.made.push(MadeElements {
                    name: name.clone(),
                    ranges: padding_boxes(&padded),
                    elements: made,
                    line,
                });
            }
            let part = target.part.as_ref().map(|part| {
                let texts = part_texts(self.map, self.numbers, part);
                let [outer, inner] =
                    sizes.of_part(equation, &target_dims[part.dim], part, &values).map(Option::unwrap_or_default);
                MadePart {
                    label: texts.iter().position(|text| *text == part.text).unwrap_or_default(),
                    texts,
                    dim: part.dim,
                    outer,
                    inner,
                }
            });
            let elements = MappedElements::Moves(SourceMoves { moves, is_padded: made > 0, checks: Vec::new() });
            self.made.push(MadeTensor { name, line, info, elements, made, part });
        }
        for ((i, _), used) in members.iter().zip(used) {
            self.leave_padding(solution, equation, (*i, used), misfits);
        }
        Ok(())
    }

    /// Notes the padding of a source, which is checked when its last element is read.
    fn leave_padding(
        &mut self,
        solution: &Solution,
        equation: &Equation,
        (source, used): (usize, u64),
        misfits: &mut Misfits,
    ) {
        let side = &equation.sides[direction(self.map)[0]];
        let MapSource { name, info, .. } = &self.sources[source];
        let block = info.dtype.block_elements();
        let dims = side.dims.as_deref().unwrap_or_default();
        let mut lens: Vec<u64> = stored_shape(info).iter().map(|len| *len as u64).collect();
        let part = side.part.as_ref().zip(solution.parts.get(&source));
        let label = side.part.as_ref().and_then(|part| part_number(self.map, self.numbers, part)).unwrap_or_default();
        if let Some((part, parts)) = part {
            lens[part.dim] = parts.outer * parts.inner[label];
        }
        let total: u64 = lens.iter().product::<u64>() * block as u64;
        let left = total.saturating_sub(used);
        if left == 0 {
            return;
        }
        let paddings: Vec<u64> = dims.iter().map(|dim| self.padding(dim)).collect();
        if used == 0 || paddings.iter().all(|padding| *padding == 0) {
            misfits.add("balance", || format!("line {} uses {used} of {total} elements of `{name}`", equation.line));
            return;
        }
        let strides = stored_strides(info);
        let lens: Vec<[u64; 2]> = lens.iter().zip(&paddings).map(|(len, padding)| [len - padding, *len]).collect();
        let boxes = padding_boxes(&lens);
        for ranges in &boxes {
            let (mut start, mut axes) = (0_u64, Vec::new());
            for (other, range) in ranges.iter().enumerate() {
                let (mut base, mut steps) = (range.start, vec![(range.end - range.start, 1)]);
                if let Some((_, parts)) = part.filter(|(part, _)| part.dim == other) {
                    base = parts.start(label);
                    steps = vec![(parts.outer, parts.inner.iter().sum()), (parts.inner[label], 1)];
                }
                start += base * strides[other] as u64;
                axes.extend(steps.into_iter().map(|(len, step): (u64, u64)| {
                    (index(len).unwrap_or(0), index(step).unwrap_or(0) * strides[other])
                }));
            }
            if !self.map.is_lossy() {
                let kind = SourceCheckKind::Zeros { start: start * info.dtype.block_bytes() as u64, axes };
                self.check(source, equation.line, kind);
            }
        }
        let why = format!("padding of line {}", equation.line);
        self.receipt.left.push(LeftElements { name: (*name).to_owned(), ranges: boxes, elements: left, why });
    }

    /// Adds a check to a tensor with elements of a source.
    fn check(&mut self, source: usize, line: usize, kind: SourceCheckKind) {
        let made = self.made.iter_mut().rev().find_map(|made| match &mut made.elements {
            MappedElements::Moves(moves) if moves.moves.iter().any(|(i, _)| *i == source) => Some(moves),
            _ => None,
        });
        made.into_iter().for_each(|moves| moves.checks.push(SourceCheck { at: 0, source, line, kind: kind.clone() }));
    }

    fn padding(&self, dim: &DimAxes) -> u64 {
        dim.padding.as_ref().and_then(|name| self.numbers.get(name).copied()).unwrap_or_default()
    }

    fn places(
        &self,
        equation: &Equation,
        sizes: &AxisSizes,
        dims: &[DimAxes],
        values: &[u64],
        block: usize,
    ) -> Option<TensorPlaces> {
        let found: Option<Vec<_>> = dims.iter().map(|dim| sizes.places(equation, dim, values)).collect();
        Some(TensorPlaces::new(found?, dims.iter().map(|dim| self.padding(dim)).collect(), block))
    }

    /// Puts the parts of tensors together. Each tensor is made once.
    fn join_parts(&mut self, misfits: &mut Misfits) -> Result<Vec<MappedTensor>> {
        let mut by_name: IndexMap<String, Vec<MadeTensor>> = IndexMap::with_capacity(self.made.len());
        for made in std::mem::take(&mut self.made) {
            by_name.entry(made.name.clone()).or_default().push(made);
        }
        let mut tensors = Vec::with_capacity(by_name.len());
        for (name, mut made) in by_name {
            if let [MadeTensor { part: None, .. }] = made[..] {
                let MadeTensor { info, elements, .. } = made.remove(0);
                tensors.push(MappedTensor { name, info, elements });
                continue;
            }
            let by =
                |made: &MadeTensor| if made.line == 0 { "`keep`".to_owned() } else { format!("line {}", made.line) };
            if let Some(whole) = made.iter().position(|made| made.part.is_none()) {
                let other = usize::from(whole == 0);
                misfits.add("made twice", || {
                    format!(
                        "`{name}` is made by {} and by {}",
                        by(&made[other.min(whole)]),
                        by(&made[other.max(whole)])
                    )
                });
                continue;
            }
            match join(&name, made)? {
                Ok((tensor, zeros, line)) => {
                    if zeros > 0 {
                        self.receipt.made.push(MadeElements { name, ranges: Vec::new(), elements: zeros, line });
                    }
                    tensors.push(tensor);
                }
                Err(what) => misfits.add("made parts", || what),
            }
        }
        for tensor in &mut tensors {
            settle(tensor);
        }
        Ok(tensors)
    }

    /// On the way back, tensors that equal others go. They are compared when the others are read.
    fn check_copies(&mut self, tensors: &mut [MappedTensor], solution: &Solution, misfits: &mut Misfits) -> Result<()> {
        for (from, copy, line) in &solution.copies {
            let [one, other] = [*from, *copy].map(|i| &self.sources[i]);
            if let Some([why, instead]) = one.refusal.as_ref().or(other.refusal.as_ref()) {
                let what = format!("compare `{}` with its copy: {why}", one.name);
                return Err(ErrorKind::Unsupported { what, instead: instead.clone() }.into());
            }
            if one.info != other.info {
                misfits.add("copy", || {
                    format!(
                        "`{}` is {}, and no copy of `{}`, which is {}: line {line}",
                        other.name, other.info, one.name, one.info
                    )
                });
                continue;
            }
            let holder = tensors.iter_mut().find(|tensor| match &tensor.elements {
                MappedElements::Source(source) => source == from,
                MappedElements::Moves(moves) => moves.moves.iter().any(|(source, _)| source == from),
            });
            if let Some(tensor) = holder {
                if let MappedElements::Source(_) = tensor.elements {
                    tensor.elements = MappedElements::Moves(SourceMoves {
                        moves: vec![(*from, whole_move(&tensor.info))],
                        ..SourceMoves::default()
                    });
                }
                if let MappedElements::Moves(moves) = &mut tensor.elements {
                    let kind = SourceCheckKind::Equals(*from);
                    moves.checks.push(SourceCheck { at: 0, source: *copy, line: *line, kind });
                    place_checks(&tensor.info, moves);
                }
            }
            self.receipt.left.push(LeftElements::whole(
                other.name,
                other.info,
                format!("line {line}: a copy of `{}`", one.name),
            ));
        }
        if !self.map.is_inverted() {
            let names: HashSet<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
            for copy in &self.map.lines.copies {
                let (has_from, has_to) = (names.contains(copy.from.as_str()), names.contains(copy.to.as_str()));
                if !has_from || has_to {
                    let why = if has_to {
                        format!("`{}` is there already", copy.to)
                    } else {
                        format!("there is no `{}`", copy.from)
                    };
                    misfits.add("copy", || {
                        format!("line {} cannot copy `{}` to `{}`: {why}", copy.line, copy.from, copy.to)
                    });
                }
            }
        }
        Ok(())
    }

    /// Adds the copies of `copy` after their originals.
    fn copy(&mut self, tensors: &mut Vec<MappedTensor>) {
        for copy in self.map.lines.copies.iter().filter(|_| !self.map.is_inverted()) {
            let Some(i) = tensors.iter().position(|tensor| tensor.name == copy.from) else { continue };
            let MappedTensor { info, elements: stored, .. } = &tensors[i];
            let stored = match stored {
                MappedElements::Source(source) => MappedElements::Source(*source),
                MappedElements::Moves(moves) => MappedElements::Moves(SourceMoves {
                    moves: moves.moves.clone(),
                    is_padded: moves.is_padded,
                    checks: Vec::new(),
                }),
            };
            self.receipt.copied.push((copy.from.clone(), copy.to.clone(), elements(info)));
            let tensor = MappedTensor { name: copy.to.clone(), info: info.clone(), elements: stored };
            tensors.insert(i + 1, tensor);
        }
    }
}

fn elements(info: &TensorInfo) -> u64 {
    info.shape.elements().unwrap_or_default() as u64
}

/// Joins the parts of a tensor. Also returns the number of zeros, and a line that makes a part. The inner error says why the
/// parts do not fit.
fn join(name: &str, mut made: Vec<MadeTensor>) -> Result<Result<(MappedTensor, u64, usize), String>> {
    made.sort_by_key(|made| made.part.as_ref().map_or(0, |part| part.label));
    let parts: Vec<&MadePart> = made.iter().filter_map(|made| made.part.as_ref()).collect();
    let first = parts[0];
    let is_alike = |part: &&MadePart| (part.dim, part.outer, &part.texts) == (first.dim, first.outer, &first.texts);
    if let Some(other) = parts.iter().position(|part| !is_alike(part)) {
        return Ok(Err(format!("lines {} and {} divide `{name}` into other parts", made[0].line, made[other].line)));
    }
    for (label, text) in first.texts.iter().enumerate() {
        let lines: Vec<usize> =
            made.iter().zip(&parts).filter(|(_, part)| part.label == label).map(|(made, _)| made.line).collect();
        match lines[..] {
            [_] => {}
            [] => return Ok(Err(format!("no rule makes part `{text}` of `{name}`"))),
            [one, other, ..] => {
                return Ok(Err(format!("part `{text}` of `{name}` is made by line {one} and by line {other}")));
            }
        }
    }
    let sizes = PartSizes { dim: first.dim, outer: first.outer, inner: parts.iter().map(|part| part.inner).collect() };
    let mut dims = made[0].info.shape.dims().to_vec();
    for other in &made {
        let fits = |(d, dim): (usize, &usize)| d == sizes.dim || other.info.shape[d] == *dim;
        if other.info.dtype != made[0].info.dtype
            || other.info.shape.rank() != dims.len()
            || !dims.iter().enumerate().all(fits)
        {
            let (one, own, line) = (&made[0], &other.info, other.line);
            return Ok(Err(format!(
                "`{name}` has the parts {} of line {} and {own} of line {line}",
                one.info, one.line
            )));
        }
    }
    let total = sizes.inner.iter().try_fold(0_u64, |sum, size| sum.checked_add(*size));
    let total = total.and_then(|total| index(total.checked_mul(sizes.outer)?));
    dims[sizes.dim] = total.ok_or_else(|| too_large(name))?;
    let info = TensorInfo::new(made[0].info.dtype, Shape::from(dims));
    if info.payload_bytes().is_none() {
        return Err(too_large(name));
    }
    let (zeros, line) = (made.iter().map(|made| made.made).sum(), made[0].line);
    let mut joined = SourceMoves { is_padded: zeros > 0, ..SourceMoves::default() };
    for (label, made) in made.into_iter().enumerate() {
        let MappedElements::Moves(SourceMoves { moves, checks, .. }) = made.elements else { continue };
        joined.checks.extend(checks);
        joined.moves.extend(moves.into_iter().map(|(source, mut moved)| {
            let place = |at: usize| index(sizes.widen(label, at as u64)).unwrap_or(usize::MAX);
            let start = index(sizes.start(label)).unwrap_or(usize::MAX);
            moved.offsets[sizes.dim] = place(moved.offsets[sizes.dim]) + start;
            let of_dim = moved.axes.iter_mut().filter(|axis| axis.dim == sizes.dim);
            of_dim.for_each(|axis| axis.target = place(axis.target));
            (source, moved)
        }));
    }
    Ok(Ok((MappedTensor { name: name.to_owned(), info, elements: MappedElements::Moves(joined) }, zeros, line)))
}

/// Joins the axes of the moves of a complete tensor, and finds the places of its checks.
fn settle(tensor: &mut MappedTensor) {
    let MappedElements::Moves(moves) = &mut tensor.elements else { return };
    moves.moves.iter_mut().for_each(|(_, moved)| moved.join());
    place_checks(&tensor.info, moves);
}

/// A check is made when the last element before the ones that it is about is read.
fn place_checks(info: &TensorInfo, moves: &mut SourceMoves) {
    let strides = stored_shape(info).row_major_strides();
    for check in &mut moves.checks {
        let about = match check.kind {
            SourceCheckKind::Zeros { .. } => check.source,
            SourceCheckKind::Equals(other) => other,
        };
        let of_source = moves.moves.iter().filter(|(source, _)| *source == about);
        check.at = of_source.map(|(_, moved)| moved.bounds(&strides).1).max().unwrap_or_default();
    }
}

fn too_large(name: &str) -> Error {
    let instead = "it takes more bytes than can be addressed".to_owned();
    ErrorKind::Unsupported { what: format!("make `{name}`"), instead }.into()
}
