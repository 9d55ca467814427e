//! Sparse files of 20 GiB in any format, opened, listed and sliced in little memory.
//!
//! On file systems without sparse files, and on systems other than Linux, the tests print that they are skipped.

use std::fs;
use std::process::Command;

use tensorfile::OpenOptions;
use tensorfile::file::Backend;

use crate::support::{skipped, written_formats};

use crate::support::huge::{GIB, write};
use crate::support::interop::run;

/// The memory that opening, listing and slicing may take.
const BOUND: u64 = 64 << 20;

/// Returns the peak memory of the process in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Returns whether this process runs only the given test. Otherwise runs it in a process of its own, as the memory that
/// [`peak`] counts is that of all tests in the process.
#[track_caller]
fn is_alone(test: &str) -> bool {
    const ALONE: &str = "TENSORFILE_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let printed = run(command.args(["--exact", test, "--nocapture"]).env(ALONE, "1"));
    assert!(printed.contains("1 passed"), "{printed}");
    print!("{printed}");
    false
}

#[test]
fn opens_lists_and_slices_in_bounded_memory() {
    if !is_alone("huge::opens_lists_and_slices_in_bounded_memory") {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for format in written_formats() {
        let path = folder.path().join("huge").with_extension(format.extensions[0]);
        let Some(huge) = write(format, &path) else {
            skipped(
                "this file system has no holes, so no huge files are tried; $CARGO_TARGET_DIR can name a folder on one that has",
            );
            return;
        };
        let before = peak();
        for backend in [Backend::Mapped, Backend::Positioned] {
            let file = OpenOptions::new().backend(backend).open(&path).unwrap();
            let listed: u64 = file.tensors().map(|tensor| tensor.payload_bytes()).sum();
            assert_eq!((file.len(), listed), (huge.0.len(), huge.bytes()));
            let (rows, columns) = (huge.0[0].1.shape[0], huge.0[0].1.shape[1]);
            let corner = file.slice(&huge.0.last().unwrap().0, &[rows - 2..rows, columns - 1..columns]).unwrap();
            assert_eq!(corner.as_view().array::<f32>().unwrap().as_slice(), Some(&[0.0, 1.5][..]), "{}", format.name);
            let row = file.slice(&huge.0[0].0, &[5..6, 0..1 << 14]).unwrap();
            assert_eq!(row.as_bytes().len(), 4 << 14);
        }
        let used = peak() - before;
        assert!(used < BOUND, "{}: took {used} bytes", format.name);
        println!("{}: {} GiB opened, listed and sliced in {} KiB more", format.name, huge.bytes() / GIB, used >> 10);
        fs::remove_file(&path).unwrap();
    }
}

/// FP8 codes in blocks of 128 x 128, made as they are read: matrices of 128 MiB, and their scales after all of them.
#[cfg(feature = "quant")]
struct MadeOfBlocks {
    header: Vec<u8>,
    codes: u64,
    scales: u64,
}

#[cfg(feature = "quant")]
impl MadeOfBlocks {
    const ROWS: usize = 1 << 13;
    const COLUMNS: usize = 1 << 14;
    const BYTES: u64 = (Self::ROWS * Self::COLUMNS) as u64;

    fn new(matrices: u64) -> Self {
        use std::fmt::Write as _;

        let (codes, scales) = (Self::BYTES, (Self::ROWS / 128 * Self::COLUMNS / 128 * size_of::<f32>()) as u64);
        let mut entries = String::new();
        let mut entry = |name: &str, dtype: &str, [rows, columns]: [usize; 2], start: u64, bytes: u64| {
            let comma = if entries.is_empty() { "" } else { "," };
            let range = [start, start + bytes];
            write!(
                entries,
                r#"{comma}"{name}":{{"dtype":"{dtype}","shape":[{rows},{columns}],"data_offsets":{range:?}}}"#
            )
            .unwrap();
        };
        for i in 0..matrices {
            entry(&format!("{i}.weight"), "F8_E4M3", [Self::ROWS, Self::COLUMNS], i * codes, codes);
        }
        for i in 0..matrices {
            let start = matrices * codes + i * scales;
            let grid = [Self::ROWS / 128, Self::COLUMNS / 128];
            entry(&format!("{i}.weight_scale_inv"), "F32", grid, start, scales);
        }
        let json = format!("{{{entries}}}");
        let padded = json.len().next_multiple_of(8);
        let mut header = (padded as u64).to_le_bytes().to_vec();
        header.extend(json.bytes());
        header.resize(8 + padded, b' ');
        Self { header, codes: matrices * codes, scales: matrices * scales }
    }
}

#[cfg(feature = "quant")]
impl tensorfile::file::ReadRanges for MadeOfBlocks {
    fn len(&self) -> std::io::Result<u64> {
        Ok(self.header.len() as u64 + self.codes + self.scales)
    }

    fn name(&self) -> std::borrow::Cow<'_, str> {
        "blocks".into()
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> std::io::Result<()> {
        /// 1.0 in E4M3.
        const CODE: u8 = 0x38;
        let codes = self.header.len() as u64;
        let scales = codes + self.codes;
        let (start, end) = (offset, offset + bytes.len() as u64);
        let place = |at: u64| usize::try_from(at.clamp(start, end) - start).unwrap();
        let (in_header, in_scales) = (place(codes), place(scales));
        if in_header > 0 {
            let from = usize::try_from(start).unwrap();
            bytes[..in_header].copy_from_slice(&self.header[from..from + in_header]);
        }
        bytes[in_header..in_scales].fill(CODE);
        // Each is read as a whole.
        bytes[in_scales..].chunks_exact_mut(4).for_each(|scale| scale.copy_from_slice(&0.5_f32.to_le_bytes()));
        Ok(())
    }
}

/// Counts bytes, and keeps the last two.
#[cfg(feature = "safetensors")]
#[derive(Default)]
struct CountingSink {
    bytes: u64,
    last: [u8; 2],
}

#[cfg(feature = "safetensors")]
impl std::io::Write for CountingSink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.bytes += bytes.len() as u64;
        self.last = bytes.last_chunk().copied().unwrap_or(self.last);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// `TENSORFILE_TEST_GIB=70` makes a model that exceeds any memory.
#[cfg(feature = "quant")]
#[test]
fn decodes_weights_in_bounded_memory() {
    use std::sync::Arc;

    use half::bf16;
    use tensorfile::{Dequantize, Dtype, WriteOptions, safetensors};

    if !is_alone("huge::decodes_weights_in_bounded_memory") {
        return;
    }
    // Two bounds by default, as kernels are slow without all optimizations.
    let matrices =
        std::env::var("TENSORFILE_TEST_GIB").map_or(1, |gib| gib.parse::<u64>().unwrap() * GIB / MadeOfBlocks::BYTES);
    let options = OpenOptions::new().format(&safetensors::FORMAT).dequantize(Dequantize::to(Dtype::Bf16));
    let file = options.open_ranges(Arc::new(MadeOfBlocks::new(matrices))).unwrap();
    let mut sink = CountingSink::default();
    safetensors::FORMAT.to_writer(&mut sink, &file, &WriteOptions::new()).unwrap();
    assert_eq!(sink.last, bf16::from_f32(0.5).to_le_bytes());
    assert!(sink.bytes >= 2 * MadeOfBlocks::BYTES * matrices, "{}", sink.bytes);
    let held = peak();
    assert!(held < BOUND, "{} MiB for {} MiB of codes", held >> 20, (matrices * MadeOfBlocks::BYTES) >> 20);
}

/// `TENSORFILE_TEST_GIB=200` makes a model that exceeds any memory.
#[cfg(feature = "safetensors")]
#[test]
fn moves_elements_in_bounded_memory() {
    use std::fmt::Write as _;

    use tensorfile::{LayoutMap, WriteOptions, safetensors};

    const BOUND: u64 = 256 << 20;
    const HUGE: [usize; 2] = [1 << 15, 1 << 13];
    const EXPERT: [usize; 2] = [1 << 10, 1 << 12];

    if !is_alone("huge::moves_elements_in_bounded_memory") {
        return;
    }
    let gib = std::env::var("TENSORFILE_TEST_GIB").map_or(1, |gib| gib.parse::<u64>().unwrap());
    let (mut header, mut end) = (String::new(), 0_u64);
    let mut add = |name: &str, [rows, columns]: [usize; 2]| {
        let start = end;
        end += 2 * (rows * columns) as u64;
        let comma = if header.is_empty() { "" } else { "," };
        write!(
            header,
            r#"{comma}"{name}":{{"dtype":"BF16","shape":[{rows},{columns}],"data_offsets":[{start},{end}]}}"#
        )
        .unwrap();
        end
    };
    // A block of 512 MiB cannot be held, and the experts of a layer can.
    add("embed.0", HUGE);
    for layer in 0.. {
        let end = (0..64).map(|expert| add(&format!("layers.{layer}.experts.{expert}"), EXPERT)).max();
        if end >= Some(gib * GIB) {
            break;
        }
    }
    header.insert(0, '{');
    header.push('}');
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
    let path = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::write(&path, [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat()).unwrap();
    path.as_file().set_len(8 + header.len() as u64 + end).unwrap();
    for (name, map) in [
        ("stacked", "layers.{l}.experts.{e} [o i] = layers.{l}.experts [e o i]\nkeep *"),
        ("turned", "layers.{l}.experts.{e} [o i] = layers.{l}.experts [e i o]\nembed.{n} [v h] = embed.{n} [h v]"),
    ] {
        let map = LayoutMap::parse(map).unwrap();
        let file = OpenOptions::new().backend(Backend::Positioned).map(&map).open(&path).unwrap();
        let mut sink = CountingSink::default();
        safetensors::FORMAT.to_writer(&mut sink, &file, &WriteOptions::new()).unwrap();
        assert!(sink.bytes > end, "{}", sink.bytes);
        let held = peak();
        assert!(held < BOUND, "{name}: {} MiB for {} MiB", held >> 20, end >> 20);
        println!("{name}: {} MiB for {} GiB", held >> 20, end >> 30);
    }
}
