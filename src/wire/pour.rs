use std::io::Write;

use serde::Serialize;

use super::{Encode, Names, Plan};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Payload, Serializer, TensorSink};
use crate::tensor::TensorInfo;

/// Writes a file by its plan.
#[derive(Debug)]
pub struct Pour<W, E> {
    writer: W,
    plan: Plan<E>,
    /// The number of tensors written.
    done: usize,
    /// The number of bytes written.
    position: u64,
    /// The bytes before a payload, made here to be written at once.
    head: Vec<u8>,
}

/// Enough for the head of most tensors and the zeros before it.
const HEAD: usize = 256;

impl<W: Write, E: Encode> Pour<W, E> {
    pub(crate) fn new(writer: W, plan: Plan<E>) -> Self {
        Self { writer, plan, done: 0, position: 0, head: Vec::with_capacity(HEAD) }
    }

    fn begin(&mut self) -> Result<()> {
        let begin = &self.plan.layout().begin;
        self.writer.write_all(begin)?;
        self.position += begin.len() as u64;
        Ok(())
    }

    fn write<P: Serialize + ?Sized>(&mut self, name: &str, payload: Payload<'_, P>) -> Result<()> {
        let at = self.done;
        if at == 0 {
            self.begin()?;
        }
        let (plan, encode) = (&self.plan, self.plan.encode());
        let implied = encode.names() != Names::Stored || plan.implies_name(at);
        self.head.clear();
        encode.head(if implied { "" } else { name }, plan.info(at), &mut self.head);

        let offset = plan.layout().payloads[at];
        let is_written = plan.owner(at) == at;
        if is_written {
            pad(&mut self.writer, offset - self.head.len() as u64 - self.position)?;
            self.writer.write_all(&self.head)?;
        }
        let (digest, mut digester) = plan.digest(at).unzip();
        let planned = plan.payload_bytes(at);
        let mut left = planned;
        payload.pour(|piece| {
            left = left.checked_sub(piece.len()).ok_or_else(|| changed(format!("more than {planned} bytes")))?;
            if let Some(digester) = &mut digester {
                digester.write(piece);
            }
            if is_written {
                self.writer.write_all(piece)?;
            }
            Ok(())
        })?;
        if left > 0 {
            return Err(changed(format!("{} bytes instead of {planned}", planned - left)));
        }
        if digest != digester.map(|digester| digester.digest()) {
            return Err(changed("its bytes, which several tensors share, are others".to_owned()));
        }
        if is_written {
            self.position = offset + planned as u64;
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
        if self.plan.is_empty() {
            self.begin()?;
        }
        let layout = self.plan.layout();
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
