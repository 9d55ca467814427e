//! The members of an archive, and the tensors in its pickle.

use std::io::Write;

use flate2::Crc;
use rawzip::{DataDescriptorOutput, ZipArchiveWriter, ZipEntryWriter};

use super::header::{self, PADDING, Tag};
use super::write_pickle::PickleWriter;
use crate::error::Result;
use crate::tensor::{Layout, Shape, TensorInfo, sorted};
use crate::write::zip::zip_write_error;

/// Writes the members before the storages.
pub(super) fn begin<W: Write>(archive: &mut ZipArchiveWriter<W>, pickle: &[u8]) -> Result<()> {
    add(archive, header::PICKLE, pickle)?;
    add(archive, header::BYTE_ORDER, b"little")
}

/// Writes the members after the storages, and the directory.
pub(super) fn end<W: Write>(mut archive: ZipArchiveWriter<W>) -> Result<W> {
    add(&mut archive, header::VERSION, b"3\n")?;
    archive.finish().map_err(zip_write_error)
}

fn add<W: Write>(archive: &mut ZipArchiveWriter<W>, name: &str, contents: &[u8]) -> Result<()> {
    let (mut member, _) = archive.new_file(name).start().map_err(zip_write_error)?;
    member.write_all(contents)?;
    let mut crc = Crc::new();
    crc.update(contents);
    member.finish(DataDescriptorOutput::new(crc.sum(), contents.len() as u64)).map(drop).map_err(zip_write_error)
}

/// Begins a storage of a key, at a multiple of 64 bytes.
pub(super) fn start_storage<W: Write>(archive: &mut ZipArchiveWriter<W>, key: usize) -> Result<ZipEntryWriter<'_, W>> {
    let name = format!("{}{key}", header::STORAGES);
    let offset = archive.stream_offset();
    PADDING.start(archive.new_file(&*name), offset, &name)
}

/// The storage of a tensor.
pub(super) struct StoredIn {
    pub(super) key: usize,
    pub(super) bytes: usize,
    /// The type of its elements. Without one, each tensor states its own.
    pub(super) tag: Option<&'static Tag>,
}

/// Puts a tensor on the stack of a pickle, as `torch._utils._rebuild_tensor_v2` or `_rebuild_tensor_v3` makes it.
pub(super) fn put_tensor(pickle: &mut PickleWriter, info: &TensorInfo, tag: &Tag, storage: &StoredIn) {
    let rebuild = if storage.tag.is_some() { "_rebuild_tensor_v2" } else { "_rebuild_tensor_v3" };
    pickle.call(("torch._utils", rebuild), &mut |pickle| {
        pickle.tuple(&mut |pickle| {
            let (class, unit) = match storage.tag {
                Some(tag) => (("torch", tag.storage), tag.bytes),
                None => (("torch.storage", "UntypedStorage"), 1),
            };
            pickle.word("storage");
            pickle.global(class);
            pickle.text(&storage.key.to_string());
            pickle.word("cpu");
            pickle.number(storage.bytes as u64 / unit);
        });
        pickle.refer();
        pickle.number(0);
        let shape = header::stored_dims(info.dtype, &info.shape);
        pickle.numbers(&shape);
        pickle.numbers(&strides(info, &shape));
        // The tensor needs no gradient, and has no hooks.
        pickle.no();
        pickle.call(("collections", "OrderedDict"), &mut |_| {});
        if storage.tag.is_none() {
            pickle.global(("torch", tag.name));
        }
    });
}

/// Returns the distance between neighbours in each dim, in elements. Those of a tensor without elements are as in
/// PyTorch, which counts an empty dim as one of length 1.
fn strides(info: &TensorInfo, shape: &Shape) -> Vec<usize> {
    let row_major = shape.iter().map(|dim| (*dim).max(1)).collect::<Shape>().row_major_strides();
    let Layout::DimOrder(order) = &info.layout else { return row_major };
    let is_row_major = |strides: &[usize]| {
        shape.iter().zip(strides).zip(&row_major).all(|((dim, own), stride)| *dim == 1 || own == stride)
    };
    let mut order: Vec<usize> = order.as_slice().iter().map(|dim| usize::from(*dim)).collect();
    loop {
        let strides = shape.strides_in(order.iter().copied());
        if shape.contains(&0) || is_row_major(&strides) {
            return row_major;
        }
        // A dim of one element may have any stride. With these, what is read is written with the same.
        let read = sorted::positions(order.len(), &mut |one, other| strides[other].cmp(&strides[one]));
        if read == order {
            return strides;
        }
        order = read;
    }
}
