use std::fmt;
use std::io::Write;

use serde::Serialize;

use super::{Encode, Frame, Names, Plan, Take};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Payload, Serializer, TensorSink};
use crate::tensor::TensorInfo;

/// Writes a file by its plan.
pub struct Pour<W: Write, E: Encode> {
    frame: E::Frame<W>,
    plan: Plan<E>,
    /// The number of tensors written.
    done: usize,
}

impl<W: Write, E: Encode> Pour<W, E> {
    pub(crate) fn new(writer: W, plan: Plan<E>) -> Self {
        Self { frame: E::Frame::new(writer), plan, done: 0 }
    }

    fn write<P: Serialize + ?Sized>(&mut self, name: &str, payload: Payload<'_, P>) -> Result<()> {
        let (at, plan) = (self.done, &self.plan);
        let implied = plan.encode().names() != Names::Stored || plan.implies_name(at);
        let (digest, mut digester) = plan.digest(at).unzip();
        let planned = plan.payload_bytes(at);
        let mut left = planned;
        let mut pour = |take: Take<'_>| {
            payload.pour(|piece| {
                left = left.checked_sub(piece.len()).ok_or_else(|| changed(format!("more than {planned} bytes")))?;
                if let Some(digester) = &mut digester {
                    digester.write(piece);
                }
                take(piece)
            })?;
            match left {
                0 => Ok(()),
                left => Err(changed(format!("{} bytes instead of {planned}", planned - left))),
            }
        };
        match plan.owner(at) == at {
            true => self.frame.tensor(plan, at, if implied { "" } else { name }, pour)?,
            false => pour(&mut |_| Ok(()))?,
        }
        if digest != digester.map(|digester| digester.digest()) {
            return Err(changed("its bytes, which several tensors share, are others".to_owned()));
        }
        self.done += 1;
        Ok(())
    }

    /// Writes what comes after the last payload.
    pub(crate) fn finish(mut self) -> Result<W> {
        let tensors = self.plan.len() - usize::from(self.plan.embedded().is_some());
        if self.done < tensors {
            let name = self.plan.name(self.done).to_owned();
            return Err(changed(format!("`{name}` did not come again")));
        }
        if let Some(names) = self.plan.embedded() {
            let names = names.to_vec();
            self.write("", Payload::new(serde_bytes::Bytes::new(&names)))?;
        }
        self.frame.finish(&self.plan)
    }
}

impl<W: Write, E: Encode + fmt::Debug> fmt::Debug for Pour<W, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pour").field("plan", &self.plan).field("done", &self.done).finish_non_exhaustive()
    }
}

/// A file that is its layout: heads and payloads where that says, and zeros between them.
#[derive(Debug)]
pub struct Flat<W> {
    writer: W,
    /// The number of bytes written.
    position: u64,
    /// The bytes before a payload, made here to be written at once.
    head: Vec<u8>,
}

/// Enough for the head of most tensors and the zeros before it.
const HEAD: usize = 256;

impl<W: Write> Flat<W> {
    fn begin(&mut self, begin: &[u8]) -> Result<()> {
        self.writer.write_all(begin)?;
        self.position += begin.len() as u64;
        Ok(())
    }
}

impl<W: Write, E: Encode> Frame<W, E> for Flat<W> {
    fn new(writer: W) -> Self {
        Self { writer, position: 0, head: Vec::with_capacity(HEAD) }
    }

    fn tensor(
        &mut self,
        plan: &Plan<E>,
        at: usize,
        name: &str,
        pour: impl FnOnce(Take<'_>) -> Result<()>,
    ) -> Result<()> {
        if at == 0 {
            self.begin(&plan.layout().begin)?;
        }
        self.head.clear();
        plan.encode().head(name, plan.info(at), &mut self.head);
        let offset = plan.layout().payloads[at];
        pad(&mut self.writer, offset - self.head.len() as u64 - self.position)?;
        self.writer.write_all(&self.head)?;
        pour(&mut |piece| Ok(self.writer.write_all(piece)?))?;
        self.position = offset + plan.payload_bytes(at) as u64;
        Ok(())
    }

    fn finish(mut self, plan: &Plan<E>) -> Result<W> {
        let layout = plan.layout();
        if plan.is_empty() {
            self.begin(&layout.begin)?;
        }
        pad(&mut self.writer, layout.end_offset - self.position)?;
        self.writer.write_all(&layout.end)?;
        Ok(self.writer)
    }
}

/// Writes zeros.
fn pad(writer: &mut impl Write, len: u64) -> Result<()> {
    const ZEROS: [u8; 128] = [0; 128];
    let mut left = len;
    while left > 0 {
        let now = usize::try_from(left).unwrap_or(usize::MAX).min(ZEROS.len());
        writer.write_all(&ZEROS[..now])?;
        left -= now as u64;
    }
    Ok(())
}

impl<W: Write, E: Encode> TensorSink for Pour<W, E> {
    fn keeps_dim_order(&self) -> bool {
        self.plan.encode().keeps_dim_order()
    }

    fn tensor<P: Serialize + ?Sized>(&mut self, name: &str, info: TensorInfo, payload: Payload<'_, P>) -> Result<()> {
        if self.done + usize::from(self.plan.embedded().is_some()) >= self.plan.len() {
            return Err(changed(format!("`{name}` was not there before")));
        }
        let (planned, before) = (self.plan.name(self.done), self.plan.info(self.done));
        if name != planned || info != *before {
            return Err(changed(format!("`{planned}` was {before}, then came `{name}`, {info}")));
        }
        self.write(name, payload)
    }
}

impl<W: Write, E: Encode> Serializer<Pour<W, E>> {
    /// A serializer that writes the file that was planned: the value is to be serialized once more, the same as it was.
    pub fn new(writer: W, plan: Plan<E>) -> Self {
        Self::over(Pour::new(writer, plan))
    }

    /// Ends the file and flushes the writer.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Changed`]: the value did not give all the tensors that were planned.
    /// - [`ErrorKind::Io`]: writing failed.
    pub fn end(self) -> Result<W> {
        let ended = self.into_sink().and_then(Pour::finish).and_then(|mut writer| {
            writer.flush()?;
            Ok(writer)
        });
        ended.map_err(|error| error.in_format(E::FORMAT))
    }
}

pub(super) fn changed(what: String) -> Error {
    ErrorKind::Changed { what }.into()
}
