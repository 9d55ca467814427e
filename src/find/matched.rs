//! Loads a value after its tensors were matched with its type by position.

use super::Finder;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{
    ArraysOf, EachEntry, EachPart, KeyPart, LoadFrom, Loaded, Matched, Payload, Source, Step, StructDef, TensorSpec,
    needs_names,
};

/// Takes the tensors of a file in order, which is the order of the type. Names are made for messages only.
struct MatchedSource<'a, 'de> {
    de: &'a mut Finder<'de>,
    matched: &'a Matched,
    /// The next step of the type.
    step: usize,
    /// The next tensor.
    tensor: usize,
    /// The step that takes the next tensor. It decides optional parts and list lengths: a match is unambiguous, so a
    /// part that can take the tensor does.
    taken_by: usize,
}

impl<'de> Finder<'de> {
    pub(super) fn load_matched(&mut self, matched: &Matched, load: LoadFrom<'_, 'de>) -> Result<()> {
        let taken_by = matched.taken_by(0);
        let loaded = load(&mut MatchedSource { de: self, matched, step: 0, tensor: 0, taken_by });
        // Errors about leftover tensors name them.
        if self.reader.peek()?.is_some() {
            self.name_by(matched)?;
        }
        loaded
    }
}

impl<'de> MatchedSource<'_, 'de> {
    fn next(&self) -> Option<&Step> {
        self.matched.step(self.step)
    }

    /// Advances past the next tensor.
    #[inline]
    fn take(&mut self) {
        (self.step, self.tensor) = (self.step + 1, self.tensor + 1);
        self.taken_by = self.matched.taken_by(self.tensor);
    }

    /// Passes the next step, if it is as expected.
    #[inline]
    fn pass(&mut self, is_expected: bool) -> Result<()> {
        self.step += 1;
        if is_expected { Ok(()) } else { Err(other_type()) }
    }

    /// Enters an optional part. Returns whether it is present, and the step after it.
    fn begin_optional(&mut self) -> Result<(bool, usize)> {
        let Some(&(Step::Split(end) | Step::Nullable(end))) = self.next() else { return Err(other_type()) };
        let is_present = (self.step..end).contains(&self.taken_by);
        self.step = if is_present { self.step + 1 } else { end };
        Ok((is_present, end))
    }

    /// Calls `each` with a part, which ends before step `end` if known.
    fn part(&mut self, number: usize, end: Option<usize>, each: &mut EachPart<'_, 'de>) -> Result<()> {
        self.de.last = None;
        if let Err(error) = each(number, self) {
            return Err(match self.de.last {
                Some(tensor) if error.kind().is_about_one_tensor() => self.about(tensor, error),
                _ => error,
            });
        }
        self.de.last = None;
        if end.is_some_and(|end| self.step != end) { Err(other_type()) } else { Ok(()) }
    }

    #[cold]
    fn about(&self, tensor: usize, error: Error) -> Error {
        self.de.reader.locate(tensor, error.in_tensor(self.matched.name(tensor)))
    }
}

impl<'de> Source<'de> for MatchedSource<'_, 'de> {
    fn tensor(&mut self, spec: &TensorSpec) -> Result<Loaded<'de>> {
        if self.step != self.taken_by {
            return Err(other_type());
        }
        let tensor = self.tensor;
        self.de.last = Some(tensor);
        self.take();
        if let Some((info, bytes)) = self.de.reader.read_plain(tensor, spec) {
            return Ok(Loaded::from_checked(info.clone(), Payload::Borrowed(bytes)));
        }
        self.de.read(tensor, spec).map_err(|error| self.about(tensor, error))
    }

    fn tensor_into(&mut self, spec: &TensorSpec, shape: &[usize], bytes: &mut [u8]) -> Result<bool> {
        let tensor = self.tensor;
        if self.step != self.taken_by {
            return Ok(false);
        }
        let read = self.de.reader.read_into(tensor, spec, shape, bytes).map_err(|error| self.about(tensor, error))?;
        if read {
            self.take();
        }
        Ok(read)
    }

    fn same_bytes(&mut self) -> Option<ArraysOf<'_>> {
        self.de.same_bytes()
    }

    fn fields(&mut self, def: &'static StructDef, mut each: EachPart<'_, 'de>) -> Result<()> {
        for (number, field) in def.fields.iter().enumerate() {
            self.pass(matches!(self.next(), Some(Step::Push(name)) if *name == field.name))?;
            if !field.optional {
                self.part(number, None, &mut each)?;
            } else if let (true, end) = self.begin_optional()? {
                self.part(number, Some(end), &mut each)?;
            }
            self.pass(matches!(self.next(), Some(Step::Pop)))?;
        }
        Ok(())
    }

    fn list(&mut self, mut each: EachPart<'_, 'de>) -> Result<()> {
        self.pass(matches!(self.next(), Some(Step::EnterList)))?;
        let Some(&Step::Split(end)) = self.next() else { return Err(other_type()) };
        let body = self.step + 1;
        let mut number = 0;
        while (body..end).contains(&self.taken_by) {
            let before = self.tensor;
            self.step = body;
            self.pass(matches!(self.next(), Some(Step::OpenItem)))?;
            // The step before the end goes back to the next item.
            self.part(number, Some(end - 1), &mut each)?;
            if self.tensor == before {
                return Err(other_type());
            }
            number += 1;
        }
        self.step = end;
        self.pass(matches!(self.next(), Some(Step::LeaveList)))
    }

    fn tuple(&mut self, len: usize, mut each: EachPart<'_, 'de>) -> Result<()> {
        self.pass(matches!(self.next(), Some(Step::EnterList)))?;
        for number in 0..len {
            self.pass(matches!(self.next(), Some(Step::NextItem)))?;
            self.part(number, None, &mut each)?;
        }
        self.pass(matches!(self.next(), Some(Step::LeaveList)))
    }

    fn map(&mut self, _: KeyPart, _: EachEntry<'_, 'de>) -> Result<()> {
        Err(needs_names("a map"))
    }

    fn option(&mut self, some: EachPart<'_, 'de>) -> Result<()> {
        let (is_present, end) = self.begin_optional()?;
        if is_present {
            some(0, self)?;
        }
        if self.step != end { Err(other_type()) } else { Ok(()) }
    }
}

/// The error for a type that does not load as its node describes.
#[cold]
fn other_type() -> Error {
    ErrorKind::Message("the type asks for something other than its `NODE`".to_owned()).into()
}
