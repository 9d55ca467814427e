//! Callbacks of C as the traits of the library.

use std::borrow::Cow;
use std::ffi::{c_int, c_void};
use std::io::{self, Write};
use std::ops::ControlFlow;

use tensorfile::file::ReadRanges;

use crate::pointers::Context;
use crate::{Failure, Result, tf_progress, tf_release, tf_sink, tf_source};

/// Returns a listener that calls a progress callback.
pub fn listener(
    progress: tf_progress,
    context: *mut c_void,
) -> Option<impl Fn(tensorfile::Progress) -> ControlFlow<()> + Send + Sync + 'static> {
    let (call, context) = (progress?, Context(context));
    Some(move |progress: tensorfile::Progress| {
        // All of it is moved, not only the pointer inside.
        let context = &context;
        match call(context.0, progress.bytes, progress.total) {
            0 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    })
}

/// Tells C that it may take back what it lent, when it is dropped.
#[derive(Debug)]
pub struct Release {
    call: tf_release,
    context: Context,
}

impl Release {
    pub fn new(call: tf_release, context: *mut c_void) -> Self {
        Self { call, context: Context(context) }
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        if let Some(call) = self.call {
            call(self.context.0);
        }
    }
}

/// A source of bytes that C reads.
#[derive(Debug)]
pub struct Source {
    name: String,
    len: u64,
    read_at: extern "C" fn(*mut c_void, u64, *mut c_void, usize) -> c_int,
    /// Has the context of both functions.
    release: Release,
}

impl Source {
    /// The source belongs to us from here on: it is released after an error, too.
    pub fn new(source: &tf_source) -> Result<Self> {
        let release = Release::new(source.release, source.context);
        let read_at = source.read_at.ok_or_else(|| Failure::argument("`read_at` of the source is NULL"))?;
        Ok(Self { name: source.name.to_str()?.to_owned(), len: source.len, read_at, release })
    }
}

impl ReadRanges for Source {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        check((self.read_at)(self.release.context.0, offset, bytes.as_mut_ptr().cast(), bytes.len()))
    }

    fn name(&self) -> Cow<'_, str> {
        self.name.as_str().into()
    }
}

/// A writer that passes bytes on to C.
#[derive(Debug)]
pub struct Sink {
    write: extern "C" fn(*mut c_void, *const c_void, usize) -> c_int,
    context: *mut c_void,
}

impl Sink {
    pub fn new(write: tf_sink, context: *mut c_void) -> Result<Self> {
        let write = write.ok_or_else(|| Failure::argument("the function that takes the file is NULL"))?;
        Ok(Self { write, context })
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        check((self.write)(self.context, bytes.as_ptr().cast(), bytes.len())).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn check(errno: c_int) -> io::Result<()> {
    if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(errno)) }
}
