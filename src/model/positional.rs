//! Names for the tensors of a file that has none, from the type that they are read into.
//!
//! A type's tensors come in the order of its fields. Two things are not known: which optional ones are there, and how
//! long the lists are. Both follow if the dtypes and ranks leave only one way. The type is compiled to a small automaton
//! over tensors, as a regular expression is over letters. All ways that fit are followed at once, and if two of them lead
//! to the end, the answer is an error and not a guess.

use std::any::TypeId;

use super::path::{Mark, Path};
use super::{Adapt, Node, TensorSpec};
use crate::error::{Error, ErrorKind, Result, Short};
use crate::tensor::TensorInfo;

/// The names of tensors, one after the other.
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

/// Returns the name of each tensor, in file order.
///
/// # Errors
///
/// - [`ErrorKind::WrongSlot`]: the tensors do not fit the type.
/// - [`ErrorKind::Ambiguous`]: they do in more than one way.
/// - [`ErrorKind::Unsupported`]: the type has parts whose number or names nothing but names can tell.
///
/// If `is_item`, the file is a list of values of the type.
pub(crate) fn names<'a>(
    node: Node,
    is_item: bool,
    infos: impl Iterator<Item = &'a TensorInfo>,
) -> Result<NamesByPosition> {
    let mut program = Program::default();
    if is_item {
        program.list(node, &Adapt::NONE)?
    } else {
        program.compile(node, &Adapt::NONE)?
    }
    program.steps.push(Step::End);

    let mut matching = Matching::new(&program);
    for (at, info) in infos.enumerate() {
        if !matching.advance(info) {
            return Err(Error::new(matching.no_way(Some(info))).in_tensor(format!("#{at}")));
        }
        if matching.is_ambiguous() {
            return Err(ErrorKind::Ambiguous.into());
        }
    }
    matching.finish()
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    /// Takes one tensor.
    Tensor(TensorSpec),
    /// Goes on at the next step or at this one.
    Split(usize),
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
    /// The structs that are being compiled, each within the one before.
    structs: Vec<TypeId>,
}

impl Program {
    fn compile(&mut self, node: Node, adapt: &Adapt) -> Result<()> {
        match node {
            Node::Tensor(spec) => self.steps.push(Step::Tensor(spec.adapted(adapt))),
            Node::Newtype(node, own) => self.compile(node(), own)?,
            Node::Option(node) => self.optional(node(), adapt)?,
            Node::List(node) => self.list(node(), adapt)?,
            Node::Array(node, len) => {
                self.steps.push(Step::EnterList);
                for _ in 0..len {
                    self.steps.push(Step::NextItem);
                    self.compile(node(), adapt)?;
                }
                self.steps.push(Step::LeaveList);
            }
            Node::Tuple(parts) => {
                self.steps.push(Step::EnterList);
                for part in parts {
                    self.steps.push(Step::NextItem);
                    self.compile(part(), adapt)?;
                }
                self.steps.push(Step::LeaveList);
            }
            Node::Struct(def) if self.structs.contains(&(def.id)()) => {
                return Err(needs_names("a type that contains itself"));
            }
            Node::Struct(def) => {
                self.structs.push((def.id)());
                for field in def.fields {
                    if !field.flatten {
                        self.steps.push(Step::Push(field.name));
                    }
                    match field.optional {
                        true => self.optional((field.node)(), &field.adapt)?,
                        false => self.compile((field.node)(), &field.adapt)?,
                    }
                    if !field.flatten {
                        self.steps.push(Step::Pop);
                    }
                }
                self.structs.pop();
            }
            Node::Map(_) => return Err(needs_names("a map")),
            Node::Metadata(_) => {}
        }
        Ok(())
    }

    fn list(&mut self, item: Node, adapt: &Adapt) -> Result<()> {
        self.steps.push(Step::EnterList);
        let skip = self.open_split();
        let body = self.steps.len();
        self.steps.push(Step::OpenItem);
        self.compile(item, adapt)?;
        self.steps.push(Step::Repeat(body));
        self.close_split(skip);
        self.steps.push(Step::LeaveList);
        Ok(())
    }

    /// Compiles a part that may be absent. A part that may be empty is not made optional again, or its absence could be
    /// read in two ways.
    fn optional(&mut self, node: Node, adapt: &Adapt) -> Result<()> {
        if is_nullable(node, &mut self.structs.clone()) {
            return self.compile(node, adapt);
        }
        let skip = self.open_split();
        self.compile(node, adapt)?;
        self.close_split(skip);
        Ok(())
    }

    fn open_split(&mut self) -> usize {
        self.steps.push(Step::Split(0));
        self.steps.len() - 1
    }

    fn close_split(&mut self, split: usize) {
        self.steps[split] = Step::Split(self.steps.len());
    }

    /// Returns the tensors, or the end, that may come next from `step` on.
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

    /// Returns the way from `step` to `target` without a tensor in between. There is at most one, because a part that may
    /// be empty is not made optional.
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

    /// Returns the places after one that takes no tensor. Of two, the last is followed first: going on comes before
    /// ending.
    fn follow(
        &self,
        ProgramPosition { step, opened }: ProgramPosition,
    ) -> impl Iterator<Item = ProgramPosition> + use<> {
        let next = |step| Some(ProgramPosition { step, opened });
        let places = match &self.steps[step] {
            Step::Split(other) => [next(*other), next(step + 1)],
            // An opened item that holds no tensor does not count.
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

/// Returns whether a part may have no tensor. `structs` are those around it.
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

/// The error for a part that only names can identify.
pub(crate) fn needs_names(what: &str) -> Error {
    let instead = "write the file with `Options::embed_names`".to_owned();
    ErrorKind::Unsupported { what: format!("read {what} by position"), instead }.into()
}

/// A way through the program: the tensor that it expects next, and the thread that it continues.
#[derive(Debug, Clone, Copy)]
struct Thread {
    step: usize,
    /// The thread that took the tensor before.
    from: usize,
    /// More than one way leads here.
    is_ambiguous: bool,
}

struct Matching<'p> {
    program: &'p Program,
    /// The steps that may come after each step that takes a tensor.
    next: Vec<Vec<usize>>,
    /// The threads before each tensor, one tensor after the other.
    threads: Vec<Thread>,
    /// The start in `threads` of those before each tensor.
    starts: Vec<usize>,
    /// For each step, the newest thread that expects it. Entries of older threads are stale.
    wanted_by: Vec<usize>,
}

impl<'p> Matching<'p> {
    fn new(program: &'p Program) -> Self {
        let next = |(at, step): (usize, &Step)| match step {
            Step::Tensor(_) => program.next_tensors(at + 1),
            _ => Vec::new(),
        };
        let first = program.next_tensors(0).into_iter().map(|step| Thread { step, from: 0, is_ambiguous: false });
        Self {
            program,
            next: program.steps.iter().enumerate().map(|(at, step)| next((at, step))).collect(),
            threads: first.collect(),
            starts: vec![0],
            wanted_by: vec![0; program.steps.len()],
        }
    }

    /// Returns the threads before the next tensor.
    fn live(&self) -> &[Thread] {
        &self.threads[self.starts[self.starts.len() - 1]..]
    }

    /// Takes a tensor. Returns whether any thread expected it.
    fn advance(&mut self, info: &TensorInfo) -> bool {
        let (first, end) = (self.starts[self.starts.len() - 1], self.threads.len());
        for from in first..end {
            let thread = self.threads[from];
            let Step::Tensor(spec) = &self.program.steps[thread.step] else { continue };
            if !spec.accepts(info) {
                continue;
            }
            for &step in &self.next[thread.step] {
                let wanted_by = self.wanted_by[step];
                match self.threads.get_mut(wanted_by).filter(|thread| wanted_by >= end && thread.step == step) {
                    Some(other) => other.is_ambiguous = true,
                    None => {
                        self.wanted_by[step] = self.threads.len();
                        self.threads.push(Thread { step, from, is_ambiguous: thread.is_ambiguous });
                    }
                }
            }
        }
        let any = self.threads.len() > end;
        if any {
            self.starts.push(end);
        }
        any
    }

    /// Returns whether every way that is left is ambiguous.
    fn is_ambiguous(&self) -> bool {
        self.live().iter().all(|thread| thread.is_ambiguous)
    }

    fn finish(&self) -> Result<NamesByPosition> {
        let end = self.live().iter().find(|thread| self.program.steps[thread.step] == Step::End);
        match end {
            Some(end) if end.is_ambiguous => Err(ErrorKind::Ambiguous.into()),
            Some(end) => Ok(self.names_before(end)),
            None => Err(self.no_way(None).into()),
        }
    }

    /// Returns the names of the tensors that a thread took before the one that it expects.
    fn names_before(&self, thread: &Thread) -> NamesByPosition {
        let mut names = self.names_to(thread);
        names.ends.pop();
        names.text.truncate(names.ends.last().copied().unwrap_or_default());
        names
    }

    /// Returns the names of the tensors that a thread took, and of the one that it expects.
    fn names_to(&self, thread: &Thread) -> NamesByPosition {
        let mut taken = vec![*thread];
        for _ in 1..self.starts.len() {
            taken.push(self.threads[taken[taken.len() - 1].from]);
        }
        let mut namer = Namer::default();
        let mut names = NamesByPosition::default();
        // Most tensors of a list lead to the same step as when the list came there before.
        let mut ways = vec![(usize::MAX, Vec::new()); self.program.steps.len()];
        let mut from = 0;
        for Thread { step, .. } in taken.into_iter().rev() {
            let (to, way) = &mut ways[from];
            if *to != step {
                (*to, *way) = (step, self.program.way(from, step));
            }
            for &step in &*way {
                namer.take(&self.program.steps[step]);
            }
            names.push(namer.path.name());
            from = step + 1;
        }
        names
    }

    /// The error if no thread expected `found`.
    fn no_way(&self, found: Option<&TensorInfo>) -> ErrorKind {
        let expected = self.live().iter().map(|thread| match &self.program.steps[thread.step] {
            Step::Tensor(spec) => {
                let names = self.names_to(thread);
                format!("`{}`: {spec}", Short(names.last()))
            }
            _ => "the end".to_owned(),
        });
        ErrorKind::WrongSlot { found: found.cloned(), expected: expected.collect() }
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
    fn take(&mut self, step: &Step) {
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
                    self.path.back_to(*place);
                    self.path.push_index(*index);
                    *index += 1;
                }
            }
            Step::LeaveList => {
                if let Some((place, _)) = self.lists.pop() {
                    self.path.back_to(place);
                }
            }
            Step::Tensor(_) | Step::Split(_) | Step::Repeat(_) | Step::End => {}
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
        names(T::NODE, false, f32s(shapes).iter()).map(|names| names.iter().collect::<Vec<_>>().join(" "))
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
