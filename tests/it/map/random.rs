//! Maps drawn at random, and files for them. The evaluator lists all elements of both sides of each equation.

use std::collections::BTreeMap;
use std::ops::Range;

use proptest::prelude::*;
use tensorfile::model::TensorData as _;
use tensorfile::{Dtype, ErrorKind, File, LayoutMap, OpenOptions, Tensor, TensorInfo, TensorMap, safetensors};

/// Numbers that look random, by xorshift.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// Returns a number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.below(i + 1));
        }
    }
}

/// An axis, and the number of its values. A ragged one has a size for each value of axis 0.
#[derive(Debug, Clone)]
struct Axis {
    name: &'static str,
    sizes: Vec<usize>,
    is_choice: bool,
}

/// A side: axes in the name, and in each dim with its padding. `part` is the first dim's part.
#[derive(Debug, Clone)]
struct Side {
    stem: String,
    in_name: Vec<usize>,
    dims: Vec<(Vec<usize>, usize)>,
}

#[derive(Debug, Clone)]
struct Rule {
    axes: Vec<Axis>,
    sides: [Side; 2],
}

/// Element numbers by name: the shape, and the number of the element at each place; 0 is padding.
type Numbered = BTreeMap<String, (Vec<usize>, Vec<u32>)>;

/// Lists the values of axes, in order. The size of a ragged axis depends on the value of axis 0 that is fixed or comes before.
fn tuples(axes: &[usize], rule: &Rule, fixed: &BTreeMap<usize, usize>) -> Vec<BTreeMap<usize, usize>> {
    let mut found = vec![fixed.clone()];
    for axis in axes {
        let mut next = Vec::new();
        for values in found {
            let sizes = &rule.axes[*axis].sizes;
            let size = if sizes.len() > 1 { sizes[values[&0]] } else { sizes[0] };
            for value in 0..size {
                let mut values = values.clone();
                values.insert(*axis, value);
                next.push(values);
            }
        }
        found = next;
    }
    found
}

impl Rule {
    fn draw(random: &mut Random, number: usize) -> Self {
        let mut axes = Vec::new();
        let is_ragged = random.below(3) == 0;
        let texts = 2 + random.below(2);
        if is_ragged {
            axes.push(Axis { name: "p", sizes: vec![texts], is_choice: true });
            let sizes = (0..texts).map(|_| 1 + random.below(4)).collect();
            axes.push(Axis { name: "r", sizes, is_choice: false });
        }
        for name in ["a", "b", "c", "d"].into_iter().take(1 + random.below(4)) {
            let is_choice = random.below(4) == 0;
            axes.push(Axis { name, sizes: vec![if is_choice { 2 } else { 1 + random.below(4) }], is_choice });
        }
        let sides = [0, 1].map(|side| Side::draw(random, &axes, format!("s{side}r{number}"), is_ragged));
        let mut rule = Self { axes, sides };
        // A choice stands in a name on one side at least.
        for (i, axis) in rule.axes.iter_mut().enumerate() {
            axis.is_choice &= rule.sides.iter().any(|side| side.in_name.contains(&i));
        }
        // Ragged axes follow the axis on which they depend.
        if is_ragged {
            for side in &mut rule.sides {
                if !side.in_name.contains(&0) {
                    let with = side.dims.iter().position(|(axes, _)| axes.contains(&1)).unwrap();
                    side.dims.iter_mut().for_each(|(axes, _)| axes.retain(|axis| *axis != 0));
                    let place = side.dims[with].0.iter().position(|axis| *axis == 1).unwrap();
                    let before = random.below(place + 1);
                    side.dims[with].0.insert(before, 0);
                }
            }
            if !rule.sides.iter().any(|side| side.in_name.contains(&0)) {
                let side = &mut rule.sides[random.below(2)];
                side.dims.iter_mut().for_each(|(axes, _)| axes.retain(|axis| *axis != 0));
                side.in_name.push(0);
                rule.axes[0].is_choice = true;
            }
        }
        rule
    }

    /// Numbers the elements of both sides, from `first` on.
    fn number(&self, first: &mut u32) -> [Numbered; 2] {
        let mut numbered = [Numbered::new(), Numbered::new()];
        let all: Vec<usize> = (0..self.axes.len()).collect();
        let every = tuples(&all, self, &BTreeMap::new());
        // The place of each tuple of a dim among all of its tuples, in order.
        let index = |axes: &[usize], values: &BTreeMap<usize, usize>, name: &[usize]| {
            let fixed = name.iter().map(|axis| (*axis, values[axis])).collect();
            let wanted: Vec<usize> = axes.iter().map(|axis| values[axis]).collect();
            let all = tuples(axes, self, &fixed);
            let place = all.iter().position(|other| axes.iter().map(|axis| other[axis]).eq(wanted.iter().copied()));
            (place.unwrap(), all.len())
        };
        for values in every {
            *first += 1;
            for (side, numbered) in self.sides.iter().zip(&mut numbered) {
                let name = side.name(&self.axes, &values);
                let (mut shape, mut place) = (Vec::new(), 0);
                for (axes, padding) in &side.dims {
                    let (at, len) = index(axes, &values, &side.in_name);
                    shape.push(len + padding);
                    place = place * (len + padding) + at;
                }
                let count = shape.iter().product();
                let tensor = numbered.entry(name).or_insert_with(|| (shape, vec![0; count]));
                assert_eq!(tensor.1[place], 0, "an element is twice");
                tensor.1[place] = *first;
            }
        }
        numbered
    }

    fn text(&self, lets: &mut Vec<String>, number: usize) -> String {
        let sides = self.sides.each_ref().map(|side| side.text(&self.axes, lets, number));
        if let Some(ragged) = self.axes.iter().find(|axis| axis.sizes.len() > 1) {
            for (text, size) in ragged.sizes.iter().enumerate() {
                lets.push(format!("let r{number}[t{text}] = {size}"));
            }
        }
        for axis in &self.axes {
            // Sizes are known: a dim may have several axes.
            if axis.sizes.len() == 1 && !axis.is_choice {
                lets.push(format!("let {}{number} = {}", axis.name, axis.sizes[0]));
            }
        }
        sides.join(" = ")
    }
}

impl Side {
    fn draw(random: &mut Random, axes: &[Axis], stem: String, is_ragged: bool) -> Self {
        let mut order: Vec<usize> = (0..axes.len()).collect();
        random.shuffle(&mut order);
        let mut side = Self { stem, in_name: Vec::new(), dims: Vec::new() };
        for axis in order {
            let can_be_in_name = !(is_ragged && axis == 1);
            if can_be_in_name && random.below(4) == 0 {
                side.in_name.push(axis);
            } else if !side.dims.is_empty() && random.below(2) == 0 {
                let dim = random.below(side.dims.len());
                side.dims[dim].0.push(axis);
            } else {
                side.dims.push((vec![axis], 0));
            }
        }
        if random.below(8) == 0 {
            let at = random.below(side.dims.len() + 1);
            side.dims.insert(at, (Vec::new(), 0));
        }
        if !side.dims.is_empty() && random.below(5) == 0 {
            let at = random.below(side.dims.len());
            side.dims[at].1 = 1 + random.below(2);
        }
        side
    }

    fn name(&self, axes: &[Axis], values: &BTreeMap<usize, usize>) -> String {
        let mut name = self.stem.clone();
        for axis in &self.in_name {
            let text = if axes[*axis].is_choice { "t" } else { "" };
            name += &format!(".{text}{}", values[axis]);
        }
        name
    }

    fn text(&self, axes: &[Axis], lets: &mut Vec<String>, number: usize) -> String {
        let mut text = self.stem.clone();
        for axis in &self.in_name {
            let Axis { name, sizes, is_choice } = &axes[*axis];
            let texts: Vec<String> = (0..sizes[0]).map(|text| format!("t{text}")).collect();
            text += &if *is_choice {
                format!(".{{{name}{number}:{}}}", texts.join("|"))
            } else {
                format!(".{{{name}{number}}}")
            };
        }
        let dim = |(of_dim, padding): &(Vec<usize>, usize)| {
            let axis = |axis: &usize| match &axes[*axis] {
                Axis { name, sizes, .. } if sizes.len() > 1 => format!("{name}{number}[p{number}]"),
                Axis { name, .. } => format!("{name}{number}"),
            };
            let list: Vec<String> = of_dim.iter().map(axis).collect();
            let list = if list.len() == 1 { list[0].clone() } else { format!("({})", list.join(" ")) };
            if *padding > 0 {
                let pad = format!("pad{}", lets.len());
                lets.push(format!("let {pad} = {padding}"));
                return format!("{list}+{pad}");
            }
            list
        };
        let dims: Vec<String> = self.dims.iter().map(dim).collect();
        format!("{text} [{}]", dims.join(" "))
    }
}

/// Returns a file of numbered elements. An element is its number in little-endian bytes, as far as the dtype has them.
fn file(numbered: &Numbered, dtype: Dtype) -> TensorMap {
    let tensor = |(shape, numbers): &(Vec<usize>, Vec<u32>)| {
        let bytes = numbers.iter().flat_map(|number| {
            let mut element = u128::from(*number).to_le_bytes();
            // Each byte of a wide element depends on the number.
            if *number > 0 {
                (4..16).for_each(|at| element[at] = element[at % 4] ^ at as u8);
            }
            element.into_iter().take(dtype.block_bytes())
        });
        Tensor::new(TensorInfo::new(dtype, shape.clone()), &bytes.collect::<Vec<u8>>()).unwrap()
    };
    numbered.iter().map(|(name, numbers)| (name.clone(), tensor(numbers))).collect()
}

/// Compares a mapped file with what it should be: whole tensors, slices, and windows of bytes.
fn compare(file: &File, expected: &TensorMap, random: &mut Random, text: &str) {
    let names: std::collections::BTreeSet<&str> = file.tensors().map(|tensor| tensor.name()).collect();
    assert_eq!(names, expected.names().collect(), "{text}");
    for tensor in file.tensors() {
        let (name, expected) = (tensor.name(), &expected[tensor.name()]);
        assert_eq!(
            (tensor.info(), tensor.read().unwrap().as_bytes()),
            (expected.info(), expected.as_bytes()),
            "{name} of\n{text}"
        );
        let mut written = Vec::new();
        tensor.write_to(&mut written).unwrap();
        assert_eq!(written, expected.as_bytes(), "{name} is written");
        let len = expected.as_bytes().len();
        for _ in 0..3 {
            let start = random.below(len.max(1));
            let mut window = vec![7; random.below((len - start).clamp(1, 4096))];
            match tensor.read_at(start as u64, &mut window) {
                Ok(()) => {
                    assert_eq!(window, expected.as_bytes()[start..start + window.len()], "{name} at {start} of\n{text}")
                }
                // Kept tensors of npz have checksums.
                Err(error) => assert!(matches!(error.kind(), ErrorKind::Unsupported { .. }), "{error}"),
            }
        }
        let ranges: Vec<Range<usize>> = tensor
            .shape()
            .iter()
            .map(|dim| {
                let start = random.below(*dim + 1);
                start..start + random.below(*dim + 1 - start)
            })
            .collect();
        let found = file.slice(name, &ranges).unwrap();
        let element = expected.info().dtype.block_bytes();
        let mut slice = Vec::new();
        let mut index: Vec<usize> = ranges.iter().map(|range| range.start).collect();
        while ranges.iter().all(|range| !range.is_empty()) {
            let place = index.iter().zip(tensor.shape().iter()).fold(0, |place, (i, dim)| place * dim + i);
            slice.extend_from_slice(&expected.as_bytes()[place * element..][..element]);
            let Some(dim) = (0..ranges.len()).rev().find(|dim| index[*dim] + 1 < ranges[*dim].end) else { break };
            index[dim] += 1;
            (dim + 1..ranges.len()).for_each(|dim| index[dim] = ranges[dim].start);
        }
        assert_eq!(found.as_bytes(), slice, "{name} at {ranges:?} of\n{text}");
    }
}

/// A map as text, and the elements of both sides.
#[derive(Default)]
struct Drawn {
    lets: Vec<String>,
    lines: Vec<String>,
    /// The number of the last element.
    last: u32,
    sides: [Numbered; 2],
}

impl Drawn {
    fn push(&mut self, side: usize, name: String, shape: &[usize], numbers: Vec<u32>) {
        assert!(self.sides[side].insert(name, (shape.to_vec(), numbers)).is_none());
    }

    fn next(&mut self, count: usize) -> Vec<u32> {
        let first = self.last + 1;
        self.last += count as u32;
        (first..=self.last).collect()
    }

    /// A rule for any axes.
    fn rule(&mut self, random: &mut Random, number: usize) {
        let rule = Rule::draw(random, number);
        let text = rule.text(&mut self.lets, number);
        self.lines.push(text);
        let numbered = rule.number(&mut self.last);
        self.sides.iter_mut().zip(numbered).for_each(|(all, own)| all.extend(own));
    }

    /// A tensor in parts along its first dim. Each is a tensor of the other side, with its rows in another order.
    fn parts(&mut self, random: &mut Random, number: usize) {
        let (count, columns, whole) = (2 + random.below(2), 1 + random.below(3), random.below(2));
        let texts: Vec<String> = (0..count).map(|part| format!("t{part}")).collect();
        self.lets.push(format!("let part{number} = {}", texts.join("|")));
        let mut rows = Vec::new();
        for text in &texts {
            let [outer, inner] = [1 + random.below(3), 1 + random.below(3)];
            let numbers = self.next(outer * inner * columns);
            let axes = [("outer", outer), ("inner", inner)].map(|(name, size)| {
                let name = format!("{name}{number}{text}");
                self.lets.push(format!("let {name} = {size}"));
                name
            });
            let at = |[i, j, k]: [usize; 3]| numbers[(i * inner + j) * columns + k];
            let mut own = Vec::new();
            let (dims, shape) = if random.below(2) == 0 {
                (0..inner).for_each(|j| (0..outer).for_each(|i| own.extend((0..columns).map(|k| at([i, j, k])))));
                (format!("({} {}) h", axes[1], axes[0]), vec![inner * outer, columns])
            } else {
                (0..columns).for_each(|k| (0..outer).for_each(|i| own.extend((0..inner).map(|j| at([i, j, k])))));
                (format!("h {} {}", axes[0], axes[1]), vec![columns, outer, inner])
            };
            let name = format!("part{number}.{text}");
            let ends = [
                format!("whole{number} [(part{number}={text} {} {}) h]", axes[0], axes[1]),
                format!("{name} [{dims}]"),
            ];
            self.lines.push(format!("{} = {}", ends[whole], ends[1 - whole]));
            self.push(1 - whole, name, &shape, own);
            rows.extend(numbers);
        }
        let shape = [rows.len() / columns, columns];
        self.push(whole, format!("whole{number}"), &shape, rows);
    }

    /// Tensors that are kept, renamed or copied, or that a map may not find.
    fn same(&mut self, random: &mut Random) {
        let tensor = |drawn: &mut Self, names: [String; 2]| {
            let numbers = drawn.next(3);
            names.into_iter().enumerate().for_each(|(side, name)| drawn.push(side, name, &[3], numbers.clone()));
        };
        match random.below(4) {
            0 => {
                self.lines.push("keep kept.*".to_owned());
                (0..2).for_each(|i| tensor(self, [format!("kept.{i}"), format!("kept.{i}")]));
            }
            1 => {
                self.lines.push("any.{x:*}.{i} = some.{i+2}.{x:*}".to_owned());
                ["u", "v.w"].iter().for_each(|x| {
                    (0..2).for_each(|i| tensor(self, [format!("any.{x}.{i}"), format!("some.{}.{x}", i + 2)]));
                });
            }
            2 => {
                self.lines.push("one = other\ncopy other -> again".to_owned());
                tensor(self, ["one".to_owned(), "other".to_owned()]);
                let again = self.sides[1]["other"].clone();
                self.sides[1].insert("again".to_owned(), again);
            }
            _ => {
                self.lines.push("maybe none.{z} [a] = nothing [z a]".to_owned());
                self.lines.push("maybe some.{z} [h] = all [z h]".to_owned());
                let numbers = self.next(6);
                self.push(0, "some.0".to_owned(), &[3], numbers[..3].to_vec());
                self.push(0, "some.1".to_owned(), &[3], numbers[3..].to_vec());
                self.push(1, "all".to_owned(), &[2, 3], numbers);
            }
        }
    }
}

/// Draws a map and a file, and compares both directions. Returns the text of the map, and the file.
pub(super) fn check(seed: u64) -> (String, TensorMap) {
    let mut random = Random::new(seed);
    let mut drawn = Drawn::default();
    for number in 0..1 + random.below(3) {
        match random.below(4) {
            0 => drawn.parts(&mut random, number),
            _ => drawn.rule(&mut random, number),
        }
    }
    if random.below(2) == 0 {
        drawn.same(&mut random);
    }
    let is_dropped = random.below(8) == 0;
    if is_dropped {
        drawn.lines.push("drop dropped".to_owned());
        let numbers = drawn.next(2);
        drawn.push(0, "dropped".to_owned(), &[2], numbers);
    }
    let Drawn { lets, lines, last: first, sides } = drawn;
    let text = [lets, lines].concat().join("\n");
    let dtypes = [Dtype::U16, Dtype::F32, Dtype::I64, Dtype::C128, Dtype::U32];
    let dtype = if first < 250 { Dtype::U8 } else { dtypes[random.below(5)] };
    let map = LayoutMap::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let [left, right] = sides.map(|side| file(&side, dtype));
    let write = |map: &TensorMap| tensorfile::npz::to_vec(map).unwrap();
    let write = |map: &TensorMap| if dtype == Dtype::C128 { write(map) } else { safetensors::to_vec(map).unwrap() };
    for (from, to, map) in [(&left, &right, map.clone()), (&right, &left, map.inverted())] {
        if is_dropped && from.get("dropped").is_none() {
            let error = OpenOptions::new().map(&map).from_bytes(write(from)).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Map { .. }), "{error}");
            continue;
        }
        let file = OpenOptions::new().map(&map).from_bytes(write(from));
        let file = file.unwrap_or_else(|error| {
            panic!("{error}\n{text}\n{:?}", from.iter().map(|(name, tensor)| (name, tensor.info())).collect::<Vec<_>>())
        });
        compare(&file, to, &mut random, &text);
        let receipt = file.receipt().unwrap();
        assert_eq!(
            receipt.source.elements - receipt.left_elements() + receipt.made_elements(),
            receipt.target.elements
        );
    }
    (text, left)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn maps_do_what_listing_all_elements_does(seed in any::<u64>()) {
        check(seed);
    }

    #[test]
    fn a_lost_tensor_is_an_error(seed in any::<u64>()) {
        let (text, left) = check(seed);
        let mut random = Random::new(seed);
        let lost = random.below(left.len());
        // Nobody can miss a tensor that `keep`, `drop` or `{x:*}` would take, or the last of those that `maybe` names.
        let name = left.names().nth(lost).unwrap();
        prop_assume!(!["kept.", "dropped", "any.", "some."].iter().any(|free| name.starts_with(free)));
        let others: TensorMap = left.into_iter().enumerate().filter(|(i, _)| *i != lost).map(|(_, tensor)| tensor).collect();
        let map = LayoutMap::parse(&text).unwrap();
        let file = OpenOptions::new().map(&map).from_bytes(tensorfile::npz::to_vec(&others).unwrap());
        prop_assert!(file.is_err(), "{text}");
    }
}
