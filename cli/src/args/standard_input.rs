//! Standard input and other streams: read in order, or held.

use std::cell::Cell;
use std::fs;
use std::io::{self, BufRead, Read, Write};
use std::path::Path;

use tensorfile::model::{TensorRecord, TensorSink};
use tensorfile::view::forward;
use tensorfile::{ErrorKind, File, OpenOptions};

use super::opening::{PassOver, display_name};
use crate::exit::{At, Failure, Outcome};
use crate::output::Progress;

/// Returns whether the path is `-`, or another name of standard input.
pub fn is_stdin(path: &Path) -> bool {
    const NAMES: [&str; 4] = ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"];

    NAMES.iter().any(|name| path == Path::new(name))
}

/// Opens standard input, and reads its index. A regular file is read like any other.
pub(super) fn open_stdin(options: &OpenOptions, sink: Option<&mut dyn TensorSink>) -> Outcome<File> {
    let name = display_name(Path::new("-"));
    let mut stdin = io::stdin().lock();
    #[cfg(unix)]
    if is_file_from_start(&stdin) {
        return options.open("/dev/stdin").at(name);
    }
    open_stream(&mut stdin, name, options, sink)
}

/// Returns whether a path leads to a pipe, such as from the shell's `<(command)`, or to a device.
pub fn is_stream(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;

        path.metadata()
            .map(|metadata| metadata.file_type())
            .is_ok_and(|kind| kind.is_fifo() || kind.is_char_device() || kind.is_block_device())
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

/// Reads a stream, and sends its tensors to `sink`. Without a `sink`, or if the tensors are not in order, the stream is
/// held.
pub(super) fn open_stream(
    stream: &mut dyn Read,
    name: &Path,
    options: &OpenOptions,
    sink: Option<&mut dyn TensorSink>,
) -> Outcome<File> {
    let stream: &mut dyn Read = &mut WatchedReader { reader: stream, progress: Progress::stream() };
    let (is_held, is_in_order) = (sink.is_none(), Cell::new(false));
    let mut repeatable = Repeatable { reader: &mut *stream, begin: Held::default(), is_in_order: &is_in_order };
    // What does not begin as a file is refused before much of it is held: it may be endless.
    let mut pass_over = PassOver;
    let mut note = |tensor: &TensorRecord<'_>, next: &mut dyn TensorSink| {
        is_in_order.set(!is_held);
        next.tensor(tensor)
    };
    match options.read_in_order(&mut repeatable, &mut forward(sink.unwrap_or(&mut pass_over), &mut note)) {
        Ok(_) if is_held => repeatable.begin.hold(stream, name, options),
        // The index is at the end, the tensors are not in order, or one reaches to the end of the file.
        Err(error)
            if !is_in_order.get()
                && matches!(error.kind(), ErrorKind::Unsupported { .. } | ErrorKind::UnknownDtype { .. }) =>
        {
            repeatable.begin.hold(stream, name, options)
        }
        opened => opened.at(name),
    }
}

/// Returns whether standard input is a file at its start.
#[cfg(unix)]
fn is_file_from_start(stdin: &io::StdinLock<'_>) -> bool {
    use std::io::Seek;
    use std::os::fd::AsFd;

    // The position is shared by the whole process, and by other processes with the same open file, so it is only
    // queried.
    stdin.as_fd().try_clone_to_owned().map(fs::File::from).is_ok_and(|mut file| {
        file.metadata().is_ok_and(|metadata| metadata.is_file())
            && file.stream_position().is_ok_and(|position| position == 0)
            // This user may not be allowed to open the file again.
            && fs::File::open("/dev/stdin").is_ok()
    })
}

/// A reader that advances a progress bar.
struct WatchedReader<'r> {
    reader: &'r mut dyn Read,
    progress: Progress,
}

impl Read for WatchedReader<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(bytes)?;
        self.progress.advance(read);
        Ok(read)
    }
}

/// A reader that holds its beginning for a second read, until the tensors are known to come in order.
struct Repeatable<'a> {
    reader: &'a mut dyn Read,
    begin: Held,
    is_in_order: &'a Cell<bool>,
}

impl Read for Repeatable<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(bytes)?;
        match self.is_in_order.get() {
            true => self.begin = Held::default(),
            // The error names the folder of the temporary file.
            false => self.begin.write(&bytes[..read]).map_err(io::Error::other)?,
        }
        Ok(read)
    }
}

/// The bytes of a stream: in memory, or in a temporary file without a name if they are many.
#[derive(Default)]
struct Held {
    memory: Vec<u8>,
    file: Option<fs::File>,
}

impl Held {
    /// The maximum bytes held in memory. Where an unnamed file cannot be opened again, there is no other place.
    const IN_MEMORY: usize = if cfg!(unix) { 64 << 20 } else { usize::MAX };

    fn write(&mut self, bytes: &[u8]) -> Outcome<()> {
        if self.file.is_none() && self.memory.len() + bytes.len() <= Self::IN_MEMORY {
            self.memory.extend_from_slice(bytes);
            return Ok(());
        }
        let folder = std::env::temp_dir();
        if self.file.is_none() {
            let mut file = unnamed_file(&folder).at(&folder)?;
            file.write_all(&std::mem::take(&mut self.memory)).at(&folder)?;
            self.file = Some(file);
        }
        self.file.as_mut().expect("it was just made").write_all(bytes).at(&folder)
    }

    /// Holds the rest of a stream, and opens all of it.
    fn hold(mut self, stream: &mut dyn Read, name: &Path, options: &OpenOptions) -> Outcome<File> {
        let mut piece = vec![0; 256 << 10];
        loop {
            match stream.read(&mut piece) {
                Ok(0) => break,
                Ok(len) => self.write(&piece[..len])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).at(name),
            }
        }
        self.open(name, options)
    }

    fn open(self, name: &Path, options: &OpenOptions) -> Outcome<File> {
        #[cfg(unix)]
        if let Some(file) = self.file {
            use std::os::fd::AsRawFd;

            return options.open(format!("/dev/fd/{}", file.as_raw_fd())).at(name);
        }
        options.from_bytes(self.memory).at(name)
    }
}

/// Creates an unnamed file, so that nothing is left of it however the program ends.
fn unnamed_file(folder: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    for attempt in 0_u32.. {
        let path = folder.join(format!(".tensorfile.{}.{attempt}.tmp", std::process::id()));
        match options.open(&path) {
            Ok(file) => return fs::remove_file(&path).map(|()| file),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Calls a function with each line of a file or of standard input, without the line feed. A line of more than 16 MiB is
/// an error: it is not one of a list.
pub fn read_lines(path: &Path, line: &mut dyn FnMut(&[u8]) -> Outcome<()>) -> Outcome<()> {
    const LONGEST: u64 = 16 << 20;

    let name = display_name(path);
    let mut lines: Box<dyn BufRead> = if is_stdin(path) {
        Box::new(io::stdin().lock())
    } else {
        Box::new(io::BufReader::new(fs::File::open(path).at(path)?))
    };
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        (&mut *lines).take(LONGEST).read_until(b'\n', &mut bytes).at(name)?;
        if bytes.is_empty() {
            return Ok(());
        }
        if bytes.len() as u64 == LONGEST {
            return Err(Failure::malformed(name, "a line is longer than 16 MiB"));
        }
        line(bytes.strip_suffix(b"\n").unwrap_or(&bytes))?;
    }
}
