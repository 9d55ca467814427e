//! Matches the tensors of a file without names with the parts of a type, by position.
//!
//! A type's tensors come in field order. Two things are unknown: which optional tensors are present, and the lengths of
//! lists. Both follow if the dtypes and ranks leave only one way. The type is compiled to a small automaton over
//! tensors, like a regular expression over letters. All matching ways are followed at once, and two ways to the end are
//! an error, not a guess.

use std::any::TypeId;

use super::path::{Mark, Path};
use super::{FieldAttrs, Node, TensorSpec};
use crate::error::{Error, ErrorKind, Result, Short};
use crate::tensor::TensorInfo;

/// The names of tensors, concatenated.
#[derive(Debug, Default)]
pub(crate) struct NamesByPosition {
    text: String,
    /// The end of each name in `text`.
    ends: Vec<usize>,
}

impl NamesByPosition {
    fn push(&mut self, name: &str) {
        self.text.push_str(name);
        self.ends.push(self.text.len());
    }

    fn last(&self) -> &str {
        self.iter().last().unwrap_or_default()
    }

    /// Returns the number of bytes of all names.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        let mut start = 0;
        self.ends.iter().map(move |&end| &self.text[std::mem::replace(&mut start, end)..end])
    }
}

/// The steps of a type through the tensors of a file.
pub(crate) struct Matched {
    program: Program,
    /// The step for each tensor, in file order.
    taken: Vec<u32>,
}

impl Matched {
    /// Returns a step of the type.
    #[inline]
    pub(crate) fn step(&self, i: usize) -> Option<&Step> {
        self.program.steps.get(i)
    }

    /// Returns the step for a tensor, or the number of steps after the last tensor.
    #[inline]
    pub(crate) fn taken_by(&self, tensor: usize) -> usize {
        self.taken.get(tensor).map_or(self.program.steps.len(), |step| *step as usize)
    }

    /// Returns whether the tensors can be identified only by name.
    pub(crate) fn needs_names(&self) -> bool {
        self.program.needs_names
    }

    /// Returns whether the type has lists that are missing instead of empty if nothing is found for them.
    pub(crate) fn has_lists_to_find(&self) -> bool {
        self.program.has_lists_to_find
    }

    /// Returns the name of each tensor, in file order.
    pub(crate) fn names(&self) -> NamesByPosition {
        self.program.names(self.taken.iter().map(|step| *step as usize))
    }

    /// Returns whether the tensors have exactly these names, in file order.
    pub(crate) fn has_names(&self, names: &mut dyn Iterator<Item = &str>) -> bool {
        let taken = self.taken.iter().map(|step| *step as usize);
        self.program.name_each(taken, &mut |name| names.next() == Some(name)) && names.next().is_none()
    }

    /// Returns the name of a tensor.
    pub(crate) fn name(&self, tensor: usize) -> String {
        self.names().iter().nth(tensor).unwrap_or_default().to_owned()
    }
}

/// Finds the place of each tensor in the type.
///
/// # Errors
///
/// - [`ErrorKind::WrongPosition`]: the tensors do not fit the type.
/// - [`ErrorKind::Ambiguous`]: they do in more than one way.
/// - [`ErrorKind::Unsupported`]: the type has parts identifiable only by name.
///
/// If `is_item`, the file is a list of values of the type.
pub(crate) fn match_by_position<'a>(
    node: Node,
    is_item: bool,
    infos: impl Iterator<Item = &'a TensorInfo>,
) -> Result<Matched> {
    let mut program = Program::default();
    if is_item {
        program.list(node, &FieldAttrs::NONE)?
    } else {
        program.compile(node, &FieldAttrs::NONE)?
    }
    program.steps.push(Step::End);

    let mut matching = Matching::new(&program);
    matching.moved.reserve(infos.size_hint().0);
    for (i, info) in infos.enumerate() {
        if !matching.advance(info) {
            return Err(Error::new(matching.no_way(Some(info))).in_tensor(format!("#{i}")));
        }
        if matching.is_ambiguous() {
            return Err(ErrorKind::Ambiguous.into());
        }
    }
    let taken = matching.finish()?;
    Ok(Matched { program, taken })
}

/// A step between tensors, or one for a tensor.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Takes one tensor.
    Tensor(TensorSpec),
    /// Continues at the next step, with an optional part, or at this one, after it.
    Split(usize),
    /// Continues at the next step, with a possibly empty part, and at this one after the part.
    Nullable(usize),
    /// Goes on at the next step, or repeats from this one.
    Repeat(usize),
    Push(&'static str),
    Pop,
    EnterList,
    /// The next item of an array.
    NextItem,
    /// The next item of a list. It must hold a tensor, or the length of the list would be arbitrary.
    OpenItem,
    LeaveList,
    End,
}

#[derive(Debug, Default)]
struct Program {
    steps: Vec<Step>,
    /// The structs being compiled, outermost first.
    structs: Vec<TypeId>,
    /// Two tensors could have one name, or metadata is stored under the names.
    needs_names: bool,
    /// The struct around skips unknown tensors.
    skips_unknown: bool,
    /// There are lists in structs that skip unknown tensors.
    has_lists_to_find: bool,
}

impl Program {
    fn compile(&mut self, node: Node, attrs: &FieldAttrs) -> Result<()> {
        match node {
            Node::Tensor(spec) => self.steps.push(Step::Tensor(spec.with_attrs(attrs))),
            Node::Newtype(node, own) => self.compile(node(), own)?,
            Node::Option(node) => self.optional(node(), attrs)?,
            Node::List(node) => self.list(node(), attrs)?,
            Node::Array(node, len) => {
                self.steps.push(Step::EnterList);
                for _ in 0..len {
                    self.steps.push(Step::NextItem);
                    self.compile(node(), attrs)?;
                }
                self.steps.push(Step::LeaveList);
            }
            Node::Tuple(parts) => {
                self.steps.push(Step::EnterList);
                for part in parts {
                    self.steps.push(Step::NextItem);
                    self.compile(part(), attrs)?;
                }
                self.steps.push(Step::LeaveList);
            }
            Node::Struct(def) if self.structs.contains(&(def.id)()) => {
                return Err(needs_names("a type that contains itself"));
            }
            Node::Struct(def) => {
                self.structs.push((def.id)());
                let has_dots = def.fields.len() > 1 && def.fields.iter().any(|field| field.name.contains('.'));
                self.needs_names |= has_dots || def.fields.iter().any(|field| field.flatten || field.metadata);
                let outer = self.skips_unknown;
                self.skips_unknown |= def.allow_unknown;
                for field in def.fields {
                    if !field.flatten {
                        self.steps.push(Step::Push(field.name));
                    }
                    if field.optional {
                        self.optional((field.node)(), &field.attrs)?
                    } else {
                        self.compile((field.node)(), &field.attrs)?
                    }
                    if !field.flatten {
                        self.steps.push(Step::Pop);
                    }
                }
                self.structs.pop();
                self.skips_unknown = outer;
            }
            Node::Map(_) => return Err(needs_names("a map")),
            Node::Metadata(_) => self.needs_names = true,
        }
        Ok(())
    }

    fn list(&mut self, item: Node, attrs: &FieldAttrs) -> Result<()> {
        self.has_lists_to_find |= self.skips_unknown;
        self.steps.push(Step::EnterList);
        let skip = self.open_split();
        let body = self.steps.len();
        self.steps.push(Step::OpenItem);
        self.compile(item, attrs)?;
        self.steps.push(Step::Repeat(body));
        self.close_split(skip);
        self.steps.push(Step::LeaveList);
        Ok(())
    }

    /// Compiles an optional part. If it may be empty, it is not made optional again, because its absence would be
    /// ambiguous.
    fn optional(&mut self, node: Node, attrs: &FieldAttrs) -> Result<()> {
        let is_nullable = is_nullable(node, &mut self.structs.clone());
        let begin = self.open_split();
        self.compile(node, attrs)?;
        if is_nullable {
            self.steps[begin] = Step::Nullable(self.steps.len())
        } else {
            self.close_split(begin)
        }
        Ok(())
    }

    /// Returns the names of the tensors taken by `taken`.
    fn names(&self, taken: impl Iterator<Item = usize>) -> NamesByPosition {
        let mut names = NamesByPosition::default();
        self.name_each(taken, &mut |name| {
            names.push(name);
            true
        });
        names
    }

    /// Calls `each` with the names of the tensors taken by `taken`, until it returns `false`. Returns whether it never
    /// does.
    fn name_each(&self, taken: impl Iterator<Item = usize>, each: &mut dyn FnMut(&str) -> bool) -> bool {
        let mut namer = Namer::default();
        // Most tensors of a list lead to the same step as when the list came there before.
        let mut ways = vec![(usize::MAX, Vec::new()); self.steps.len()];
        let mut from = 0;
        for step in taken {
            let (to, way) = &mut ways[from];
            if *to != step {
                (*to, *way) = (step, self.way(from, step));
            }
            namer.take(way.iter().map(|step| &self.steps[*step]));
            if !each(namer.path.name()) {
                return false;
            }
            from = step + 1;
        }
        true
    }

    fn open_split(&mut self) -> usize {
        self.steps.push(Step::Split(0));
        self.steps.len() - 1
    }

    fn close_split(&mut self, split: usize) {
        self.steps[split] = Step::Split(self.steps.len());
    }

    /// Returns the tensors, or the end, reachable from `step`.
    fn next_tensors(&self, step: usize) -> Vec<usize> {
        let (mut open, mut found) = (vec![ProgramPosition { step, opened: false }], Vec::new());
        while let Some(place) = open.pop() {
            match &self.steps[place.step] {
                Step::Tensor(_) | Step::End => found.push(place.step),
                _ => open.extend(self.follow(place)),
            }
        }
        found
    }

    /// Returns the way from `step` to `target` without a tensor in between. There is at most one, because a possibly
    /// empty part is never optional too.
    fn way(&self, step: usize, target: usize) -> Vec<usize> {
        let mut open = vec![vec![ProgramPosition { step, opened: false }]];
        while let Some(way) = open.pop() {
            let place = *way.last().expect("a way has its first step");
            if place.step == target {
                return way.into_iter().map(|place| place.step).collect();
            }
            if !matches!(self.steps[place.step], Step::Tensor(_) | Step::End) {
                open.extend(self.follow(place).map(|next| way.iter().copied().chain([next]).collect()));
            }
        }
        Vec::new()
    }

    /// Returns the successors of a step without a tensor. The last one is followed first: continuing comes before
    /// ending.
    fn follow(
        &self,
        ProgramPosition { step, opened }: ProgramPosition,
    ) -> impl Iterator<Item = ProgramPosition> + use<> {
        let next = |step| Some(ProgramPosition { step, opened });
        let places = match &self.steps[step] {
            Step::Split(other) => [next(*other), next(step + 1)],
            // An opened item without tensors does not count.
            Step::Repeat(_) if opened => [None, None],
            Step::Repeat(other) => [next(step + 1), next(*other)],
            Step::OpenItem => [None, Some(ProgramPosition { step: step + 1, opened: true })],
            _ => [None, next(step + 1)],
        };
        places.into_iter().flatten()
    }
}

/// A step, with the information whether an item was opened since the last tensor.
#[derive(Debug, Clone, Copy)]
struct ProgramPosition {
    step: usize,
    opened: bool,
}

/// Returns whether a part may have no tensors. `structs` are the enclosing structs.
fn is_nullable(node: Node, structs: &mut Vec<TypeId>) -> bool {
    match node {
        Node::Tensor(_) => false,
        Node::Newtype(node, _) => is_nullable(node(), structs),
        Node::Option(_) | Node::List(_) | Node::Map(_) | Node::Metadata(_) => true,
        Node::Array(node, len) => len == 0 || is_nullable(node(), structs),
        Node::Tuple(parts) => parts.iter().all(|part| is_nullable(part(), structs)),
        Node::Struct(def) if structs.contains(&(def.id)()) => true,
        Node::Struct(def) => {
            structs.push((def.id)());
            let is_nullable = def.fields.iter().all(|field| field.optional || is_nullable((field.node)(), structs));
            structs.pop();
            is_nullable
        }
    }
}

/// The error for a part identifiable only by name.
pub(crate) fn needs_names(what: &str) -> Error {
    let instead = "write the file with `Options::embed_names`".to_owned();
    ErrorKind::Unsupported { what: format!("read {what} by position"), instead }.into()
}

/// A way through the program: the tensor it expects next.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Thread {
    step: usize,
    /// More than one way leads here.
    is_ambiguous: bool,
}

/// All ways through the program up to some tensor.
#[derive(Debug)]
struct State<'a> {
    threads: Vec<Thread>,
    is_ambiguous: bool,
    /// The last move from here, and the header of its tensor. The tensors of a list repeat the same moves.
    last: Option<(&'a TensorInfo, usize)>,
}

/// The way from a state to the next one, over a tensor.
#[derive(Debug)]
struct Move {
    from: usize,
    to: usize,
    /// For each thread of the next state, its predecessor.
    continued: Vec<usize>,
}

struct Matching<'p, 'a> {
    program: &'p Program,
    /// The possible next steps after each step with a tensor.
    next: Vec<Vec<usize>>,
    states: Vec<State<'a>>,
    moves: Vec<Move>,
    /// The moves so far, one for each tensor.
    moved: Vec<usize>,
    /// The state before the next tensor.
    live: usize,
    /// For each step, the newest state whose first thread expects it.
    begun_by: Vec<Option<usize>>,
    /// For each step, the index of the thread expecting it, among the threads found so far. Other indices are stale.
    wanted_by: Vec<usize>,
}

impl<'p, 'a> Matching<'p, 'a> {
    fn new(program: &'p Program) -> Self {
        let next = |(i, step): (usize, &Step)| match step {
            Step::Tensor(_) => program.next_tensors(i + 1),
            _ => Vec::new(),
        };
        let mut matching = Self {
            program,
            next: program.steps.iter().enumerate().map(next).collect(),
            states: Vec::new(),
            moves: Vec::new(),
            moved: Vec::new(),
            live: 0,
            begun_by: vec![None; program.steps.len()],
            wanted_by: vec![0; program.steps.len()],
        };
        let first = program.next_tensors(0).into_iter().map(|step| Thread { step, is_ambiguous: false });
        matching.live = matching.state(first.collect());
        matching
    }

    /// Returns the number of the state with these threads.
    fn state(&mut self, threads: Vec<Thread>) -> usize {
        let new = self.states.len();
        if let Some(first) = threads.first() {
            let begun_by = &mut self.begun_by[first.step];
            match *begun_by {
                Some(state) if self.states[state].threads == threads => return state,
                _ => *begun_by = Some(new),
            }
        }
        let is_ambiguous = threads.iter().all(|thread| thread.is_ambiguous);
        self.states.push(State { threads, is_ambiguous, last: None });
        new
    }

    /// Returns the threads before the next tensor.
    fn live(&self) -> &[Thread] {
        &self.states[self.live].threads
    }

    /// Takes a tensor. Returns whether any thread expected it.
    #[inline]
    fn advance(&mut self, info: &'a TensorInfo) -> bool {
        let known = self.states[self.live].last.filter(|(known, _)| std::ptr::eq(*known, info));
        let Some(taken) = known.map(|(_, taken)| taken).or_else(|| self.find_move(info)) else { return false };
        self.live = self.moves[taken].to;
        self.moved.push(taken);
        true
    }

    /// Returns the move over a tensor, if any thread expects it.
    fn find_move(&mut self, info: &'a TensorInfo) -> Option<usize> {
        let (mut threads, mut continued) = (Vec::<Thread>::new(), Vec::new());
        for (i, thread) in self.states[self.live].threads.iter().enumerate() {
            let Step::Tensor(spec) = &self.program.steps[thread.step] else { continue };
            if !spec.accepts(info) {
                continue;
            }
            for &step in &self.next[thread.step] {
                match threads.get_mut(self.wanted_by[step]).filter(|other| other.step == step) {
                    Some(other) => other.is_ambiguous = true,
                    None => {
                        self.wanted_by[step] = threads.len();
                        threads.push(Thread { step, ..*thread });
                        continued.push(i);
                    }
                }
            }
        }
        if threads.is_empty() {
            return None;
        }
        let to = self.state(threads);
        self.states[self.live].last = Some((info, self.moves.len()));
        self.moves.push(Move { from: self.live, to, continued });
        Some(self.moves.len() - 1)
    }

    /// Returns whether every remaining way is ambiguous.
    #[inline]
    fn is_ambiguous(&self) -> bool {
        self.states[self.live].is_ambiguous
    }

    /// Returns the step of each tensor.
    fn finish(&self) -> Result<Vec<u32>> {
        let end = self.live().iter().position(|thread| self.program.steps[thread.step] == Step::End);
        match end {
            Some(end) if self.live()[end].is_ambiguous => Err(ErrorKind::Ambiguous.into()),
            Some(end) => Ok(self.taken_before(end)),
            None => Err(self.no_way(None).into()),
        }
    }

    /// Returns the steps of all tensors before the one expected by a thread.
    fn taken_before(&self, mut thread: usize) -> Vec<u32> {
        let mut taken = vec![0; self.moved.len()];
        for (step, moved) in taken.iter_mut().zip(&self.moved).rev() {
            let moved = &self.moves[*moved];
            thread = moved.continued[thread];
            *step = u32::try_from(self.states[moved.from].threads[thread].step).expect("a type has fewer steps");
        }
        taken
    }

    /// The error if no thread expected `found`.
    fn no_way(&self, found: Option<&TensorInfo>) -> ErrorKind {
        let expected = self.live().iter().enumerate().map(|(i, thread)| match &self.program.steps[thread.step] {
            Step::Tensor(spec) => {
                let taken = self.taken_before(i).into_iter().map(|step| step as usize);
                let names = self.program.names(taken.chain([thread.step]));
                format!("`{}`: {spec}", Short(names.last()))
            }
            _ => "the end".to_owned(),
        });
        ErrorKind::WrongPosition { found: found.cloned(), expected: expected.collect() }
    }
}

/// Follows the steps between tensors to find the name of the next one.
#[derive(Default)]
struct Namer {
    path: Path,
    places: Vec<Mark>,
    /// For each list around: its path, and the index of the next item.
    lists: Vec<(Mark, usize)>,
}

impl Namer {
    fn take<'a>(&mut self, steps: impl Iterator<Item = &'a Step>) {
        for step in steps {
            match step {
                Step::Push(segment) => self.places.push(self.path.push(segment)),
                Step::Pop => {
                    if let Some(place) = self.places.pop() {
                        self.path.back_to(place);
                    }
                }
                Step::EnterList => self.lists.push((self.path.mark(), 0)),
                Step::NextItem | Step::OpenItem => {
                    if let Some((place, index)) = self.lists.last_mut() {
                        self.path.go_to_item(*place, *index);
                        *index += 1;
                    }
                }
                Step::LeaveList => {
                    if let Some((place, _)) = self.lists.pop() {
                        self.path.back_to(place);
                    }
                }
                Step::Tensor(_) | Step::Split(_) | Step::Nullable(_) | Step::Repeat(_) | Step::End => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TensorFile;
    use crate::tensor::Dtype;
    use ndarray::{Array1, Array2};

    fn f32s(shapes: &[&[usize]]) -> Vec<TensorInfo> {
        shapes.iter().map(|shape| TensorInfo::new(Dtype::F32, *shape)).collect()
    }

    fn resolve<T: TensorFile>(shapes: &[&[usize]]) -> Result<String> {
        let matched = match_by_position(T::NODE, false, f32s(shapes).iter())?;
        Ok(matched.names().iter().collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn finds_the_lengths_of_lists_and_absent_options() {
        type Layers = (Option<Array1<f32>>, Vec<(Array2<f32>, Option<Array1<f32>>)>, Array2<f32>);
        for (shapes, expected) in [
            (&[&[1, 1][..]][..], "2"),
            (&[&[1], &[1, 1]], "0 2"),
            (&[&[1], &[1, 1], &[1], &[1, 1]], "0 1.0.0 1.0.1 2"),
            (&[&[1, 1], &[1, 1], &[1], &[1, 1]], "1.0.0 1.1.0 1.1.1 2"),
        ] {
            assert_eq!(resolve::<Layers>(shapes).unwrap(), expected);
        }
    }

    #[test]
    fn a_header_that_comes_again_takes_the_same_way_as_a_copy_of_it() {
        type Layers = Vec<(Array2<f32>, Option<Array1<f32>>, Vec<Array1<f32>>)>;
        type Pairs = Vec<(Array2<f32>, Option<Array1<f32>>)>;
        let headers = f32s(&[&[1, 1], &[1], &[1, 1, 1]]);
        for number in 0..3_usize.pow(6) {
            let shared: Vec<&TensorInfo> = (0..6).map(|i| &headers[number / 3_usize.pow(i) % 3]).collect();
            let copies: Vec<TensorInfo> = shared.iter().copied().cloned().collect();
            for node in [Layers::NODE, Pairs::NODE, Vec::<Array2<f32>>::NODE] {
                let one = match_by_position(node, false, shared.iter().copied()).map(|matched| matched.taken);
                let other = match_by_position(node, false, copies.iter()).map(|matched| matched.taken);
                assert_eq!(format!("{one:?}"), format!("{other:?}"), "{shared:?}");
            }
        }
    }

    #[test]
    fn refuses_to_guess() {
        let error = resolve::<(Option<Array1<f32>>, Option<Array1<f32>>)>(&[&[1]]).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Ambiguous));
    }

    #[test]
    fn shows_the_slots_where_nothing_fits() {
        let error = resolve::<(Vec<Array1<f32>>, Array2<f32>)>(&[&[1], &[1], &[1, 1, 1]]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "tensor `#2`: the file has f32[1, 1, 1], but expected `0.2`: f32[_] or `1`: f32[_, _]"
        );
        let error = resolve::<(Array1<f32>, Array2<f32>)>(&[&[1]]).unwrap_err();
        assert_eq!(error.to_string(), "the file ends, but expected `1`: f32[_, _]");
    }
}
