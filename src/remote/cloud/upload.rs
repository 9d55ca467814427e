//! Saving to a store: an object is visible when it is complete, or not at all.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, channel};

use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStoreExt, PutMode, PutOptions, PutPayload};

use super::store::Object;
use super::{explain, runtime};
use crate::error::Result;

/// Longer objects are uploaded in parts.
const SINGLE: u64 = 16 << 20;

/// The length of a part, unless there would be more than [`MOST_PARTS`].
const PART: u64 = 8 << 20;

/// The maximum number of parts of an object in every store.
const MOST_PARTS: u64 = 10_000;

/// The number of parts that are uploaded at the same time.
const IN_FLIGHT: usize = 4;

/// Writes an object of `len` bytes.
///
/// With `no_replace`, an existing object is an error before anything is written, and so is one that appears meanwhile,
/// in the end.
pub(super) fn upload(
    object: &Object,
    len: u64,
    no_replace: bool,
    write: &mut dyn FnMut(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    if no_replace {
        refuse_existing(object)?;
    }
    if len <= SINGLE {
        let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or_default());
        write(&mut bytes)?;
        put(object, bytes, no_replace)?;
    } else if no_replace {
        upload_new(object, len, write)?;
    } else {
        upload_parts(object, len, write)?;
    }
    remove_left(object);
    Ok(())
}

/// Writes an object that must not exist. An upload in parts cannot be told to leave an existing object alone, but a
/// copy can.
fn upload_new(object: &Object, len: u64, write: &mut dyn FnMut(&mut dyn Write) -> Result<()>) -> Result<()> {
    let temporary = object.with_key(&format!("{}.tmp/{}", object.key, unique()))?;
    upload_parts(&temporary, len, write)?;
    let copied = copy_new(&temporary, object);
    // If removing fails too, the error of the copy is the important one.
    let deleted = delete(&temporary);
    copied?;
    Ok(deleted?)
}

/// Removes the temporary objects that killed uploads of this object left. The object is there now, so the copy of an
/// upload that is still alive would fail anyway. Failures are ignored: you can save without the right to list objects.
fn remove_left(object: &Object) {
    let (Ok(store), Ok(folder)) = (object.store(), Path::parse(format!("{}.tmp", object.key))) else { return };
    let _ = runtime::run(async move {
        let Ok(listed) = store.list_with_delimiter(Some(&folder)).await else { return };
        for left in listed.objects {
            if left.location.filename().is_some_and(is_unique) {
                let _ = store.delete(&left.location).await;
            }
        }
    });
}

/// The bits of a [`unique`] number after the time.
const AFTER_TIME: u32 = 48;

/// Returns a number that no other upload has: the time, the process, and a count.
fn unique() -> u128 {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::{SystemTime, UNIX_EPOCH};

    static COUNT: AtomicU32 = AtomicU32::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let count = u128::from(COUNT.fetch_add(1, Ordering::Relaxed));
    now << AFTER_TIME | u128::from(std::process::id() & 0xffff) << 32 | count
}

/// Returns whether a name is a [`unique`] number. A short number may be somebody's object.
fn is_unique(name: &str) -> bool {
    /// The start of 2020, in nanoseconds since 1970.
    const OLDEST: u128 = 1_577_836_800_000_000_000;

    name.parse::<u128>().is_ok_and(|number| number >> AFTER_TIME >= OLDEST && number.to_string() == name)
}

fn refuse_existing(object: &Object) -> io::Result<()> {
    let (store, key) = (object.store()?, object.key.clone());
    match runtime::run(async move { store.head(&key).await })? {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AlreadyExists, "the object exists")),
        Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(explain(object, error)),
    }
}

fn put(object: &Object, bytes: Vec<u8>, no_replace: bool) -> io::Result<()> {
    let (store, key) = (object.store()?, object.key.clone());
    let mode = if no_replace { PutMode::Create } else { PutMode::Overwrite };
    let payload = PutPayload::from(bytes);
    let put = runtime::run(async move { store.put_opts(&key, payload, PutOptions::from(mode)).await })?;
    put.map(|_| ()).map_err(|error| explain(object, error))
}

fn copy_new(from: &Object, to: &Object) -> io::Result<()> {
    let (store, from, key) = (from.store()?, from.key.clone(), to.key.clone());
    let copied = runtime::run(async move { store.copy_if_not_exists(&from, &key).await })?;
    copied.map_err(|error| explain(to, error))
}

pub(super) fn delete(object: &Object) -> io::Result<()> {
    let (store, key) = (object.store()?, object.key.clone());
    let deleted = runtime::run(async move { store.delete(&key).await })?;
    deleted.map_err(|error| explain(object, error))
}

fn upload_parts(object: &Object, len: u64, write: &mut dyn FnMut(&mut dyn Write) -> Result<()>) -> Result<()> {
    let mut parts = PartUpload::start(object, len)?;
    write(&mut parts)?;
    Ok(parts.complete()?)
}

/// An upload in parts of one length. Dropping it aborts the upload.
struct PartUpload<'o> {
    object: &'o Object,
    upload: Option<Box<dyn MultipartUpload>>,
    part: Vec<u8>,
    part_len: usize,
    in_flight: usize,
    sender: Sender<object_store::Result<()>>,
    receiver: Receiver<object_store::Result<()>>,
}

impl<'o> PartUpload<'o> {
    fn start(object: &'o Object, len: u64) -> io::Result<Self> {
        let part_len = usize::try_from(len.div_ceil(MOST_PARTS).max(PART))
            .map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let (store, key) = (object.store()?, object.key.clone());
        let upload = runtime::run(async move { store.put_multipart(&key).await })?;
        let upload = Some(upload.map_err(|error| explain(object, error))?);
        let (sender, receiver) = channel();
        Ok(Self { object, upload, part: Vec::new(), part_len, in_flight: 0, sender, receiver })
    }

    /// Sends the part, once fewer than the maximum are on their way.
    fn send(&mut self) -> io::Result<()> {
        self.wait_for(IN_FLIGHT - 1)?;
        let upload = self.upload.as_mut().expect("it is taken at the end");
        let sent = upload.put_part(PutPayload::from(std::mem::take(&mut self.part)));
        let sender = self.sender.clone();
        runtime::handle()?.spawn(async move {
            // Nobody waits for it after a failure.
            let _ = sender.send(sent.await);
        });
        self.in_flight += 1;
        Ok(())
    }

    /// Waits until at most `most` parts are being sent.
    fn wait_for(&mut self, most: usize) -> io::Result<()> {
        while self.in_flight > most {
            let sent = self.receiver.recv().map_err(|_| io::Error::other("the upload ended"))?;
            self.in_flight -= 1;
            sent.map_err(|error| explain(self.object, error))?;
        }
        Ok(())
    }

    /// Makes the object visible.
    fn complete(mut self) -> io::Result<()> {
        if !self.part.is_empty() {
            self.send()?;
        }
        self.wait_for(0)?;
        let mut upload = self.upload.take().expect("it is taken here first");
        let (completed, upload) = runtime::run(async move { (upload.complete().await, upload) })?;
        if completed.is_err() {
            self.upload = Some(upload);
        }
        completed.map(|_| ()).map_err(|error| explain(self.object, error))
    }
}

impl Write for PartUpload<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.part.capacity() == 0 {
            self.part.reserve_exact(self.part_len);
        }
        let now = bytes.len().min(self.part_len - self.part.len());
        self.part.extend_from_slice(&bytes[..now]);
        if self.part.len() == self.part_len {
            self.send()?;
        }
        Ok(now)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for PartUpload<'_> {
    fn drop(&mut self) {
        if let Some(mut upload) = self.upload.take() {
            // PartUpload on their way would outlive the end of the upload. The first error is what the caller sees.
            while self.in_flight > 0 && self.receiver.recv().is_ok() {
                self.in_flight -= 1;
            }
            let _ = runtime::run(async move { upload.abort().await });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_others_are_not_temporary() {
        assert!(is_unique(&unique().to_string()));
        for name in [
            "",
            "0",
            "77",
            "20260101",
            "+490000000000000000000000000000000",
            "x",
            "00490000000000000000000000000000000",
        ] {
            assert!(!is_unique(name), "{name}");
        }
    }
}
