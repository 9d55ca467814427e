use std::marker::PhantomData;

use serde::de::Visitor;

use super::names;
#[cfg(feature = "npy")]
use super::{Decoder, RangeReader};
use super::{Entry, Index};
use crate::error::{Category, Error, ErrorKind, Result};
use crate::limits::Limits;
use crate::model::TensorSource;
use crate::source::ByteSource;
use crate::tensor::{Dtype, Layout, TensorInfo};

/// Reads the index of a format: one tensor after the other, wherever the bytes come from.
pub trait Walk {
    /// The format, in messages.
    const FORMAT: &'static str;

    /// Whether the walk goes by the places of the payloads, so that none begins before one that came before it.
    const IN_FILE_ORDER: bool = false;

    /// Whether the last tensor may be the list of the names of all others.
    const EMBEDS_NAMES: bool = true;

    /// The next tensor, or `None` at the end of the file.
    fn next<'de, B: ByteSource<'de>>(&mut self, source: &mut B, limits: &Limits) -> Result<Option<Entry>>;
}

/// The walk through a file whose index is known.
#[derive(Debug)]
pub struct Indexed;

impl Walk for Indexed {
    /// Who knows the index knows the format.
    const FORMAT: &'static str = "";

    fn next<'de, B: ByteSource<'de>>(&mut self, _: &mut B, _: &Limits) -> Result<Option<Entry>> {
        Ok(None)
    }
}

/// A file of any format as a source of tensors.
#[derive(Debug)]
pub struct Reader<'de, B, W> {
    source: B,
    walk: W,
    limits: Limits,
    index: Index,
    /// Whether the walk has come to the end of the file.
    drained: bool,
    /// The tensor whose payload comes next in a stream.
    pending: Option<usize>,
    /// A tensor that was walked to before its time.
    ahead: Option<Entry>,
    /// The bytes of all payloads so far.
    payloads: u64,
    /// The memory that the heads of all tensors so far take.
    heads: u64,
    /// Whether a list of names is looked for.
    embeds_names: bool,
    file: PhantomData<&'de [u8]>,
}

impl<'de, B: ByteSource<'de>, W: Walk> Reader<'de, B, W> {
    pub(crate) fn new(source: B, walk: W, limits: Limits) -> Self {
        Self {
            source,
            walk,
            limits,
            index: Index::default(),
            drained: false,
            pending: None,
            ahead: None,
            payloads: 0,
            heads: 0,
            embeds_names: W::EMBEDS_NAMES,
            file: PhantomData,
        }
    }

    /// A reader of a file whose index is known.
    pub(crate) fn over(source: B, walk: W, limits: Limits, index: Index) -> Self {
        Self { index, drained: true, ..Self::new(source, walk, limits) }
    }

    /// The index of the whole file.
    pub(crate) fn into_index(mut self) -> Result<Index> {
        self.drain()?;
        Ok(self.index)
    }

    /// Takes a list of names for the tensor that it is.
    pub(crate) fn without_embedded_names(mut self) -> Self {
        self.embeds_names = false;
        self
    }

    /// Passes over the tensors known so far and lets go of them; later ones are numbered on.
    pub(crate) fn forget(&mut self) {
        self.pending = None;
        self.index.forget();
    }

    /// Walks on to the next tensor; whether there is one.
    ///
    /// There is no next one after an error: where it would begin is not known.
    fn walk_on(&mut self) -> Result<bool> {
        if self.drained {
            return Ok(false);
        }
        let walked = self.try_walk_on();
        self.drained |= !matches!(walked, Ok(true));
        walked
    }

    fn try_walk_on(&mut self) -> Result<bool> {
        if let Some(pending) = self.pending.take()
            && !self.index.is_read(pending)
        {
            self.source.keep(self.index.entry(pending).range()).map_err(|e| e.in_tensor(self.index.label(pending)))?;
        }
        let entry = match self.ahead.take() {
            Some(entry) => Some(entry),
            None => self.next_entry()?,
        };
        let Some(entry) = entry else {
            self.index.complete()?;
            return Ok(false);
        };
        if self.may_be_names(&entry)? {
            self.source.keep(entry.range())?;
            self.ahead = self.next_entry()?;
            // The list of names is the last tensor. One before it that begins in the same way is what it is.
            if self.ahead.is_none() {
                self.take_names(&entry).map_err(|error| error.at(entry.range().start))?;
                return Ok(false);
            }
        }
        self.pending = Some(self.index.len());
        self.index.push(entry)?;
        Ok(true)
    }

    fn next_entry(&mut self) -> Result<Option<Entry>> {
        let entry = self.walk.next(&mut self.source, &self.limits)?;
        if let Some(entry) = &entry {
            let number = self.index.next_number();
            self.check_limits(entry).map_err(|kind| Error::new(kind).in_tensor(entry.label(number)))?;
        }
        Ok(entry)
    }

    fn check_limits(&mut self, entry: &Entry) -> Result<(), ErrorKind> {
        let (tensors, payload) = (self.index.len() as u64 + 1, entry.payload_bytes());
        let check =
            |what, found, limit| if found > limit { Err(ErrorKind::Limit { what, found, limit }) } else { Ok(()) };
        check("number of tensors", tensors, self.limits.tensors)?;
        self.payloads = self.payloads.saturating_add(payload);
        self.heads = self.heads.saturating_add((size_of::<Entry>() + size_of_val(entry.info().shape.dims())) as u64);
        match self.source.len() {
            // Many small entries can name one large record, and a packed one can grow: each is read into memory of its
            // own, and each has a head.
            Some(len) => {
                let limit = len.saturating_add(self.limits.shared);
                check("sum of payloads in bytes", self.payloads, limit)?;
                check("memory for the heads in bytes", self.heads, limit)
            }
            None => check("payload in bytes", payload, self.limits.payload),
        }
    }

    /// Whether a tensor begins as the list of the names of all tensors before it does.
    fn may_be_names(&mut self, entry: &Entry) -> Result<bool> {
        let range = entry.range();
        let info = entry.info();
        let is_list_of_bytes = info.dtype == Dtype::U8 && info.shape.rank() == 1 && info.layout == Layout::RowMajor;
        let is_long_enough = range.end - range.start >= names::MAGIC.len() as u64;
        let may_be = self.embeds_names && !self.index.has_names() && !entry.has_name();
        if !may_be || !is_list_of_bytes || !is_long_enough {
            return Ok(false);
        }
        let mut magic = [0; names::MAGIC.len()];
        match self.source.peek_at(range.start, &mut magic) {
            Ok(()) => Ok(magic == names::MAGIC),
            // Who reads the payload will say so, and of which tensor.
            Err(error) if matches!(error.kind(), ErrorKind::Truncated { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn take_payload<V: Visitor<'de>>(&mut self, at: usize, visitor: V) -> Result<V::Value> {
        let entry = self.index.entry(at);
        #[cfg(feature = "npy")]
        if let Some(coding) = entry.coding() {
            let range = RangeReader::new(&mut self.source, entry.range());
            return visitor.visit_seq(Decoder::new(range, coding, entry.payload_bytes()));
        }
        self.source.payload(entry.range(), visitor)
    }

    fn take_names(&mut self, entry: &Entry) -> Result<()> {
        let found = entry.payload_bytes();
        if found > names::LONGEST {
            let what = "the length of the list of names";
            return Err(ErrorKind::Limit { what, found, limit: names::LONGEST }.into());
        }
        let bytes = self.source.payload(entry.range(), names::WholeBytes)?;
        self.index.embed(names::parse(&bytes, self.index.len())?)
    }
}

impl<'de, B: ByteSource<'de>, W: Walk> TensorSource<'de> for Reader<'de, B, W> {
    fn peek(&mut self) -> Result<Option<usize>> {
        if let Some(at) = self.index.first_unread() {
            return Ok(Some(at));
        }
        self.walk_on()?;
        // Where all of the file is there, all of its index can be; and what was read can be let go of.
        if self.source.len().is_some() {
            self.drain()?;
        }
        Ok(self.index.first_unread())
    }

    fn drain(&mut self) -> Result<()> {
        while self.walk_on()? {}
        Ok(())
    }

    fn is_drained(&self) -> bool {
        self.drained
    }

    fn len(&self) -> usize {
        self.index.len()
    }

    fn has_name(&self, at: usize) -> bool {
        self.index.entry(at).has_name()
    }

    fn has_embedded_names(&self) -> bool {
        self.index.has_embedded_names()
    }

    fn name(&self, at: usize) -> &str {
        self.index.name(at)
    }

    fn label(&self, at: usize) -> String {
        self.index.label(at)
    }

    fn offset(&self, at: usize) -> u64 {
        self.index.entry(at).range().start
    }

    fn info(&self, at: usize) -> &TensorInfo {
        self.index.entry(at).info()
    }

    fn find(&mut self, name: &str) -> Option<usize> {
        self.index.find(name)
    }

    fn first_under(&mut self, prefix: Option<&str>) -> Option<usize> {
        self.index.first_under(prefix)
    }

    fn names_to_show(&self) -> Vec<String> {
        self.index.names_to_show()
    }

    fn unread_count(&self) -> usize {
        self.index.unread_count()
    }

    fn rename(&mut self, names: Vec<String>) -> Result<()> {
        self.index.rename(names)
    }

    fn payload<V: Visitor<'de>>(&mut self, at: usize, visitor: V) -> Result<V::Value> {
        let range = self.index.entry(at).range();
        self.index.mark_read(at);
        let taken = self.take_payload(at, visitor);
        if W::IN_FILE_ORDER || self.drained && self.index.is_in_file_order() {
            // The tensor that comes next may be in the same place.
            let next = self.index.first_unread().map_or(range.start, |next| self.index.entry(next).range().start);
            self.source.release(next);
        }
        // Where a stream breaks off within a payload, there is nothing to walk on to.
        self.drained |= taken.as_ref().is_err_and(|error| matches!(error.category(), Category::File | Category::Io));
        taken.map_err(|error| error.at(range.start))
    }

    fn skip(&mut self, at: usize) {
        self.index.mark_read(at);
    }
}
