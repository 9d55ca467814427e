//! Compares the equations of a map with the tensors of a file: which tensors each equation is about, and the sizes of its
//! axes. Nothing is read but headers.

use hashbrown::{HashMap, HashSet};
use indexmap::IndexMap;

use super::expression::{NoValue, NumberSource};
use super::layout_map::LayoutMap;
use super::misfits::Misfits;
use super::names::{AxisValues, Texts, UNSET, index, name_of, values_of};
use super::parse::{DimPart, Equation, EquationSide, NamePiece};
use super::sizes::{AxisSizes, DimMisfit, PartSizes};
use crate::error::{ErrorKind, Result};
use crate::tensor::TensorInfo;

/// A tensor of the source.
#[derive(Debug, Clone)]
pub(crate) struct MapSource<'s> {
    pub(crate) name: &'s str,
    pub(crate) info: &'s TensorInfo,
    /// Why its elements cannot be moved: the end of a sentence, and a way out.
    pub(crate) refusal: Option<[String; 2]>,
}

/// Returns a number of the configuration under nested keys; `None` if it is absent.
pub(crate) type ConfigNumber<'c> = &'c mut dyn FnMut(&[String]) -> Result<Option<u64>, String>;

/// What becomes of the tensors of the source.
#[derive(Debug)]
pub(super) struct Solution {
    pub(super) texts: Texts,
    pub(super) instances: Vec<Instance>,
    /// The parts of each source of which equations use parts.
    pub(super) parts: HashMap<usize, PartSizes>,
    pub(super) kept: Vec<usize>,
    /// The tensors that are left out, with the lines.
    pub(super) dropped: Vec<(usize, usize)>,
    /// The tensors that equal others, which take their place: both, and the line.
    pub(super) copies: Vec<(usize, usize, usize)>,
    pub(super) misfits: Misfits,
}

/// An equation for one assignment of the axes in both names.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) equation: usize,
    /// The sources, with the values of the axes in their names.
    pub(super) members: Vec<(usize, AxisValues)>,
    pub(super) sizes: AxisSizes,
}

/// Returns the numbers of the side that is read, and of the side that is made.
pub(super) fn direction(map: &LayoutMap) -> [usize; 2] {
    if map.is_inverted() { [1, 0] } else { [0, 1] }
}

/// The numbers of a map.
struct MapNumbers<'c> {
    found: HashMap<String, u64>,
    config: ConfigNumber<'c>,
}

impl NumberSource for MapNumbers<'_> {
    fn earlier(&self, name: &str) -> Option<u64> {
        self.found.get(name).copied()
    }

    fn config(&mut self, keys: &[String]) -> Result<Option<u64>, String> {
        (self.config)(keys)
    }
}

/// Returns the numbers that `let` and `set` give.
pub(super) fn numbers(map: &LayoutMap, config: ConfigNumber<'_>) -> Result<HashMap<String, u64>> {
    let (mut numbers, mut misfits) = (MapNumbers { found: HashMap::new(), config }, Misfits::default());
    numbers.found.extend(map.sets.iter().map(|(name, number)| (name.clone(), *number)));
    for own in &map.lines.lets {
        if numbers.found.contains_key(&own.name) {
            continue;
        }
        let (name, line) = (&own.name, own.line);
        match own.value.value(&mut numbers) {
            Ok(value) => {
                numbers.found.insert(name.clone(), value);
            }
            // The line that it needs is among the misfits.
            Err(NoValue::Absent(what)) if !what.contains("config.") => {}
            Err(NoValue::Absent(what)) => misfits.add("absent", || {
                format!("`let {name}` of line {line} needs {what}, which no configuration has; set `{name}`")
            }),
            Err(NoValue::Other(what)) => misfits.add("number", || format!("`let {name}` of line {line}: {what}")),
        }
    }
    misfits.check()?;
    Ok(numbers.found)
}

/// Finds the tensors of each equation.
pub(super) fn solve(map: &LayoutMap, numbers: &HashMap<String, u64>, sources: &[MapSource<'_>]) -> Result<Solution> {
    let (texts, misfits) = (Texts::default(), Misfits::default());
    let (instances, parts) = (Vec::new(), HashMap::new());
    let (kept, dropped, copies) = Default::default();
    let solution = Solution { texts, instances, parts, kept, dropped, copies, misfits };
    let mut solver = Solver { map, numbers, sources, from: direction(map)[0], solution, damaged: HashSet::new() };
    let (matches, is_used) = solver.match_names();
    for (number, matches) in matches.into_iter().enumerate() {
        solver.solve_equation(number, matches)?;
    }
    solver.place_others(&is_used);
    Ok(solver.solution)
}

struct Solver<'m> {
    map: &'m LayoutMap,
    numbers: &'m HashMap<String, u64>,
    sources: &'m [MapSource<'m>],
    from: usize,
    solution: Solution,
    /// The equations with tensors that do not fit by their names.
    damaged: HashSet<usize>,
}

/// The sources of an equation, with the values of the axes in their names.
type Matches = Vec<(usize, AxisValues)>;

impl<'m> Solver<'m> {
    fn equation(&self, number: usize) -> &'m Equation {
        &self.map.lines.equations[number]
    }

    /// The side of an equation that is read.
    fn side(&self, number: usize) -> &'m EquationSide {
        &self.equation(number).sides[self.from]
    }

    fn known(&self, equation: &Equation) -> AxisSizes {
        AxisSizes::known(equation, &|name| self.numbers.get(name).copied())
    }

    /// Finds the tensors of each equation by their names. Also returns which tensors any of them uses.
    fn match_names(&mut self) -> (Vec<Matches>, Vec<bool>) {
        let equations = &self.map.lines.equations;
        let mut matches: Vec<Matches> = vec![Vec::new(); equations.len()];
        let (mut is_used, mut names) = (vec![false; self.sources.len()], HashSet::new());
        for (i, source) in self.sources.iter().enumerate() {
            if !names.insert(source.name) {
                self.solution.misfits.add("repeated", || format!("two tensors are named `{}`", source.name));
            }
            let mut own: Vec<(usize, AxisValues)> = Vec::new();
            for (number, equation) in equations.iter().enumerate() {
                let side = self.side(number);
                let values = values_of(side, source.name, equation.axes.len(), &mut self.solution.texts);
                own.extend(values.map(|values| (number, values)));
            }
            is_used[i] = !own.is_empty();
            if let [(first, _), .., (last, _)] = own[..] {
                let is_whole = |(number, _): &(usize, AxisValues)| self.side(*number).part.is_none();
                if own.iter().any(is_whole) {
                    let lines = [first, last].map(|number| self.equation(number).line);
                    self.damaged.extend(own.iter().map(|(number, _)| *number));
                    self.solution.misfits.add("two rules", || {
                        format!("`{}` matches two rules: lines {} and {}", source.name, lines[0], lines[1])
                    });
                    continue;
                }
            }
            if own.iter().any(|(number, _)| self.side(*number).part.is_some()) {
                match self.part_sizes(i, &own) {
                    Ok(sizes) => {
                        self.solution.parts.insert(i, sizes);
                    }
                    Err(what) => {
                        self.solution.misfits.add("parts", || what);
                        self.damaged.extend(own.iter().map(|(number, _)| *number));
                        continue;
                    }
                }
            }
            own.into_iter().for_each(|(number, values)| matches[number].push((i, values)));
        }
        (matches, is_used)
    }

    /// Finds the sizes of the parts of a tensor. The error says what does not fit.
    fn part_sizes(&self, source: usize, own: &[(usize, AxisValues)]) -> Result<PartSizes, String> {
        let MapSource { name, info, .. } = &self.sources[source];
        let part_of = |number: usize| self.side(number).part.as_ref();
        let Some(first) = own.first().and_then(|(number, _)| part_of(*number)) else { return Err(String::new()) };
        let labels = part_texts(self.map, self.numbers, first);
        let (mut sizes, mut lines) = (vec![None; labels.len()], vec![0; labels.len()]);
        for (number, values) in own {
            let (equation, side) = (self.equation(*number), self.side(*number));
            let line = equation.line;
            let part = part_of(*number)
                .filter(|part| (part.dim, part.outer, &part.axis) == (first.dim, first.outer, &first.axis));
            let label = part.and_then(|part| labels.iter().position(|label| *label == part.text));
            let (Some(part), Some(label)) = (part, label) else {
                return Err(format!(
                    "`{name}` has other parts in line {line} than in line {}",
                    self.equation(own[0].0).line
                ));
            };
            if sizes[label].is_some() {
                return Err(format!("lines {} and {line} use part `{}` of `{name}`", lines[label], part.text));
            }
            let dims = side.dims.as_deref().unwrap_or_default();
            if dims.len() != info.shape.rank() {
                return Err(format!("`{name}` is {info}, but line {line} has {} dims", dims.len()));
            }
            sizes[label] = Some(self.known(equation).of_part(equation, &dims[part.dim], part, values));
            lines[label] = line;
        }
        if let Some(missing) = sizes.iter().position(Option::is_none) {
            return Err(format!("no rule uses part `{}` of `{name}`", labels[missing]));
        }
        let length = info.shape[first.dim] as u64;
        let outers: HashSet<u64> = sizes.iter().flatten().filter_map(|[outer, _]| *outer).collect();
        let mut inner: Vec<Option<u64>> = sizes.into_iter().flatten().map(|[_, inner]| inner).collect();
        let known = inner.iter().flatten().try_fold(0_u64, |sum, size| sum.checked_add(*size));
        let unknown: Vec<usize> = (0..inner.len()).filter(|i| inner[*i].is_none()).collect();
        let not_known = || format!("the sizes of the parts of `{name}` are not known");
        let misfit = || format!("`{name}`: dim {} of {length} is not divided by its parts", first.dim);
        let known = known.ok_or_else(misfit)?;
        let outer = match (outers.len(), unknown.len()) {
            (1, 0 | 1) => outers.into_iter().next().unwrap_or(1),
            (0, 0) if known > 0 => length / known,
            _ => return Err(not_known()),
        };
        if let [unknown] = unknown[..] {
            let left = length.checked_div(outer).and_then(|row| row.checked_sub(known));
            inner[unknown] = Some(left.ok_or_else(misfit)?);
        }
        let inner: Vec<u64> = inner.into_iter().flatten().collect();
        let total = inner.iter().try_fold(0_u64, |sum, size| sum.checked_add(*size));
        if total.and_then(|total| total.checked_mul(outer)) != Some(length) {
            return Err(misfit());
        }
        Ok(PartSizes { dim: first.dim, outer, inner })
    }

    /// Groups the tensors of an equation by the axes in both names, and finds the sizes of each group.
    fn solve_equation(&mut self, number: usize, matches: Matches) -> Result<()> {
        let (equation, side) = (self.equation(number), self.side(number));
        let other = &equation.sides[1 - self.from];
        if matches.is_empty() {
            if !equation.is_optional && !self.damaged.contains(&number) {
                let mut texts = Texts::default();
                let has_other = self.sources.iter().any(|source| {
                    other.name.iter().any(|piece| matches!(piece, NamePiece::Text(text) if text.len() > 1))
                        && values_of(other, source.name, equation.axes.len(), &mut texts).is_some()
                });
                let hint = match (has_other, self.map.is_inverted()) {
                    (false, _) => "",
                    (true, false) => "; the file has the right side already, so invert the map",
                    (true, true) => "; the file has the left side already, so do not invert the map",
                };
                let (line, text) = (equation.line, &side.text);
                self.solution.misfits.add("no tensor", || format!("no tensor matches line {line}, `{text}`{hint}"));
            }
            return Ok(());
        }
        if !equation.is_optional && self.has_unseen_texts(number, &matches) {
            return Ok(());
        }
        let of_both: Vec<usize> = side.in_name().filter(|axis| other.in_name().any(|twin| twin == *axis)).collect();
        let of_own: Vec<usize> = side.in_name().filter(|axis| !of_both.contains(axis)).collect();
        let mut groups: IndexMap<AxisValues, Matches> = IndexMap::new();
        for (source, values) in matches {
            let key = of_both.iter().map(|axis| values[*axis]).collect();
            groups.entry(key).or_default().push((source, values));
        }
        self.check_shared(number, &of_both, &of_own, groups.keys());
        for members in groups.into_values() {
            self.solve_group(number, &of_own, members)?;
        }
        Ok(())
    }

    /// Finds texts of a list that no tensor has: a typo would look like success.
    fn has_unseen_texts(&mut self, number: usize, matches: &Matches) -> bool {
        let (equation, side) = (self.equation(number), self.side(number));
        let mut has_any = false;
        for piece in &side.name {
            let NamePiece::Choice { axis, texts } = piece else { continue };
            let seen: HashSet<u64> = matches.iter().map(|(_, values)| values[*axis]).collect();
            for (_, text) in (0..).zip(texts).filter(|(value, _)| !seen.contains(value)) {
                let (line, name) = (equation.line, &equation.axes[*axis].name);
                self.solution.misfits.add("no text", || format!("no tensor has `{text}` for `{name}` of line {line}"));
                has_any = true;
            }
        }
        has_any
    }

    /// Checks that the axes in both names have each value that they should, in all combinations.
    fn check_shared<'k>(
        &mut self,
        number: usize,
        axes: &[usize],
        of_own: &[usize],
        keys: impl Iterator<Item = &'k AxisValues>,
    ) {
        let equation = self.equation(number);
        let sizes = self.known(equation);
        let counted: Vec<usize> = (0..axes.len()).filter(|i| equation.axes[axes[*i]].is_counted).collect();
        let project = |key: &AxisValues| counted.iter().map(|i| key[*i]).collect::<AxisValues>();
        let found: HashSet<AxisValues> = keys.map(project).collect();
        let ranges = counted.iter().enumerate().map(|(i, place)| {
            let axis = axes[*place];
            let size = sizes.get(equation, axis, &vec![UNSET; equation.axes.len()]);
            let is_text = !equation.axes[axis].texts.is_empty();
            match size.filter(|_| !(equation.is_optional && is_text)) {
                Some(size) => ValueSet::Below(size),
                None => {
                    let mut values: Vec<u64> =
                        found.iter().map(|key| key[i]).collect::<HashSet<u64>>().into_iter().collect();
                    values.retain(|value| size.is_none_or(|size| *value < size));
                    values.sort_unstable();
                    ValueSet::List(values)
                }
            }
        });
        let ranges: Vec<ValueSet> = ranges.collect();
        let shared: Vec<usize> = counted.iter().map(|i| axes[*i]).collect();
        self.check_grid(number, [&shared, &[]], &ranges, &found, &mut |values| {
            // The axes that are in one name only begin at 0.
            of_own.iter().for_each(|axis| values[*axis] = 0);
        });
    }

    /// Checks that each combination of values is found, and no other. `complete` sets the values of other axes; those of
    /// `others` are shown. Returns whether it is so.
    fn check_grid(
        &mut self,
        number: usize,
        [axes, others]: [&[usize]; 2],
        ranges: &[ValueSet],
        found: &HashSet<AxisValues>,
        complete: &mut dyn FnMut(&mut AxisValues),
    ) -> bool {
        let (equation, side) = (self.equation(number), self.side(number));
        let line = equation.line;
        let mut values = vec![UNSET; equation.axes.len()];
        complete(&mut values);
        let set = |values: &mut AxisValues, key: &AxisValues| {
            axes.iter().zip(key).for_each(|(axis, value)| values[*axis] = *value)
        };
        let is_inside = |key: &AxisValues| key.iter().zip(ranges).all(|(value, range)| range.has(*value));
        let (inside, outside): (Vec<&AxisValues>, Vec<&AxisValues>) = found.iter().partition(|key| is_inside(key));
        if let Some(key) = outside.iter().min() {
            set(&mut values, key);
            let (name, shown) =
                (name_of(side, &values, &self.solution.texts), shown(equation, [axes, others], &values));
            let what = || format!("{shown} is too many: line {line} has no place for `{name}`");
            self.solution.misfits.add_many("too many", outside.len() as u64, what);
        }
        let total = ranges.iter().fold(1_u64, |product, range| product.saturating_mul(range.len()));
        let missing = total.saturating_sub(inside.len() as u64);
        if missing > 0 {
            let mut key: Vec<u64> = vec![0; ranges.len()];
            let value = |key: &Vec<u64>| key.iter().zip(ranges).map(|(i, range)| range.nth(*i)).collect::<AxisValues>();
            while found.contains(&value(&key)) {
                for (i, range) in key.iter_mut().zip(ranges).rev() {
                    *i += 1;
                    if *i < range.len() {
                        break;
                    }
                    *i = 0;
                }
            }
            let key = value(&key);
            set(&mut values, &key);
            let (name, shown) =
                (name_of(side, &values, &self.solution.texts), shown(equation, [axes, others], &values));
            self.solution
                .misfits
                .add_many("missing", missing, || format!("{shown} is missing: line {line} needs `{name}`"));
        }
        missing == 0 && outside.is_empty()
    }

    /// Finds the sizes of the axes for tensors that belong together.
    fn solve_group(&mut self, number: usize, of_own: &[usize], members: Matches) -> Result<()> {
        let (equation, side) = (self.equation(number), self.side(number));
        let line = equation.line;
        let Some(dims) = &side.dims else {
            let sizes = self.known(equation);
            self.solution.instances.push(Instance { equation: number, members, sizes });
            return Ok(());
        };
        if let Some(refused) = members.iter().find_map(|(i, _)| self.sources[*i].refusal.as_ref().map(|why| (i, why))) {
            let (i, [why, instead]) = refused;
            let what = format!("move the elements of `{}` by line {line}: {why}", self.sources[*i].name);
            return Err(ErrorKind::Unsupported { what, instead: instead.clone() }.into());
        }
        let mut sizes = self.known(equation);
        let first = members[0].1.clone();
        let ranges = of_own.iter().map(|axis| {
            let count = members.iter().map(|(_, values)| values[*axis]).collect::<HashSet<u64>>().len() as u64;
            sizes.get(equation, *axis, &first).unwrap_or(count)
        });
        let ranges: Vec<u64> = ranges.collect();
        of_own.iter().zip(&ranges).for_each(|(axis, size)| sizes.set(equation, *axis, &first, *size));
        let found = members.iter().map(|(_, values)| of_own.iter().map(|axis| values[*axis]).collect()).collect();
        let ranges: Vec<ValueSet> = ranges.into_iter().map(ValueSet::Below).collect();
        let of_both: Vec<usize> = side.in_name().filter(|axis| !of_own.contains(axis)).collect();
        if !self.check_grid(number, [of_own, &of_both], &ranges, &found, &mut |values| first.clone_into(values)) {
            return Ok(());
        }
        for (i, values) in &members {
            let MapSource { name, info, .. } = &self.sources[*i];
            if info.shape.rank() != dims.len() {
                self.solution
                    .misfits
                    .add("rank", || format!("`{name}` is {info}, but line {line} has {} dims", dims.len()));
                return Ok(());
            }
            if info.dtype != self.sources[members[0].0].info.dtype {
                let other = &self.sources[members[0].0];
                let (own, dtype, other) = (info.dtype, other.info.dtype, other.name);
                self.solution
                    .misfits
                    .add("dtype", || format!("line {line} puts {own} of `{name}` and {dtype} of `{other}` together"));
                return Ok(());
            }
            for (d, (dim, length)) in dims.iter().zip(info.shape.iter()).enumerate() {
                let mut length = *length as u64;
                if let (Some(parts), Some(part)) = (self.solution.parts.get(i), &side.part)
                    && part.dim == d
                {
                    let label = part_number(self.map, self.numbers, part);
                    length = parts.outer * label.map_or(0, |label| parts.inner[label]);
                }
                let padding = dim.padding.as_ref().map_or(0, |name| self.numbers.get(name).copied().unwrap_or(0));
                let misfit = match length.checked_sub(padding) {
                    Some(length) => sizes.solve(equation, dim, values, length).err(),
                    None => Some(DimMisfit::Length(padding)),
                };
                let Some(misfit) = misfit else { continue };
                let of = |axis: &usize| format!("`{}`", equation.axes[*axis].name);
                let what = match misfit {
                    DimMisfit::Unknown(axes) => {
                        let names: Vec<String> = axes.iter().map(of).collect();
                        format!(
                            "the sizes of {} are not known: line {line} needs a `let` for all but one",
                            names.join(" and ")
                        )
                    }
                    DimMisfit::Length(known) => {
                        format!("`{name}` is {info}, but dim {d} of line {line} is {}", known.saturating_add(padding))
                    }
                    DimMisfit::Multiple(known) => {
                        format!("`{name}` is {info}, but dim {d} of line {line} is a multiple of {known}")
                    }
                };
                self.solution.misfits.add("shape", || what);
                return Ok(());
            }
        }
        self.solution.instances.push(Instance { equation: number, members, sizes });
        Ok(())
    }

    /// Keeps or drops the tensors that no equation uses.
    fn place_others(&mut self, is_used: &[bool]) {
        let lines = &self.map.lines;
        let positions: HashMap<&str, usize> =
            self.sources.iter().zip(0..).map(|(source, i)| (source.name, i)).collect();
        for (i, MapSource { name, .. }) in self.sources.iter().enumerate().filter(|(i, _)| !is_used[*i]) {
            let copy = lines.copies.iter().find(|copy| copy.to == *name).filter(|_| self.map.is_inverted());
            if let Some(copy) = copy {
                match positions.get(copy.from.as_str()) {
                    Some(from) => self.solution.copies.push((*from, i, copy.line)),
                    None => self.solution.misfits.add("copy", || {
                        format!("`{name}` is a copy of `{}`, which is missing: line {}", copy.from, copy.line)
                    }),
                }
            } else if let Some(drop) = lines.drops.iter().find(|glob| glob.matches(name)) {
                self.solution.dropped.push((i, drop.line));
            } else if lines.keeps.iter().any(|glob| glob.matches(name)) {
                self.solution.kept.push(i);
            } else {
                self.solution.misfits.add("unused", || format!("no rule uses `{name}`"));
            }
        }
    }
}

/// The values that an axis has.
enum ValueSet {
    Below(u64),
    List(Vec<u64>),
}

impl ValueSet {
    fn has(&self, value: u64) -> bool {
        match self {
            Self::Below(end) => value < *end,
            Self::List(values) => values.binary_search(&value).is_ok(),
        }
    }

    fn len(&self) -> u64 {
        match self {
            Self::Below(end) => *end,
            Self::List(values) => values.len() as u64,
        }
    }

    fn nth(&self, i: u64) -> u64 {
        match self {
            Self::Below(_) => i,
            Self::List(values) => index(i).and_then(|i| values.get(i)).copied().unwrap_or(UNSET),
        }
    }
}

/// Returns values as `e = 17 of l = 3`, the innermost axis first.
fn shown(equation: &Equation, axes: [&[usize]; 2], values: &[u64]) -> String {
    let one = |axis: &usize| {
        let (axis, value) = (&equation.axes[*axis], values[*axis]);
        let text = index(value).and_then(|value| axis.texts.get(value)).cloned();
        format!("{} = {}", axis.name, text.unwrap_or_else(|| value.to_string()))
    };
    let is_counted = |axis: &&usize| equation.axes[**axis].is_counted;
    let shown: Vec<String> = axes.into_iter().flat_map(|axes| axes.iter().rev()).filter(is_counted).map(one).collect();
    if shown.is_empty() { "a tensor".to_owned() } else { shown.join(" of ") }
}

/// Returns the texts of the parts of a dim, in their order.
pub(super) fn part_texts(map: &LayoutMap, numbers: &HashMap<String, u64>, part: &DimPart) -> Vec<String> {
    /// The most parts that are counted by a number.
    const MOST: u64 = 1 << 16;

    match map.lines.list(&part.axis) {
        Some(texts) => texts.to_vec(),
        None => (0..numbers.get(&part.axis).copied().unwrap_or(0).min(MOST)).map(|number| number.to_string()).collect(),
    }
}

/// Returns the number of a part among the parts of its dim.
pub(super) fn part_number(map: &LayoutMap, numbers: &HashMap<String, u64>, part: &DimPart) -> Option<usize> {
    part_texts(map, numbers, part).iter().position(|text| *text == part.text)
}
