//! Compares our reading of PTD and TensorBuffers indexes with the verifier of the crate `flatbuffers`.

use flatbuffers::{ForwardsUOffset, InvalidFlatbuffer, VOffsetT, Vector, Verifiable, Verifier, VerifierOptions};
use tensorfile::{ptd, tensorbuffers};

type Tables<T> = ForwardsUOffset<Vector<'static, ForwardsUOffset<T>>>;
type Numbers<T> = ForwardsUOffset<Vector<'static, T>>;
type Text = ForwardsUOffset<&'static str>;

/// Tables as the schemas have them: the type of each field, and whether it is required.
macro_rules! tables {
    ($($table:ident { $($field:ident: $type:ty $(, $required:ident)?;)* })*) => {$(
        struct $table;

        impl Verifiable for $table {
            fn run_verifier(verifier: &mut Verifier<'_, '_>, position: usize) -> Result<(), InvalidFlatbuffer> {
                let mut table = verifier.visit_table(position)?;
                // The number of a field in the list of fields: its own length and that of the table come first.
                let mut number: VOffsetT = 2;
                $(
                    number += 2;
                    let required: &[&str] = &[$(stringify!($required))?];
                    table = table.visit_field::<$type>(stringify!($field), number, !required.is_empty())?;
                )*
                let _ = number;
                table.finish();
                Ok(())
            }
        }
    )*};
}

tables! {
    DataSegment { offset: u64; size: u64; }
    TensorLayout { scalar_type: i8; sizes: Numbers<i32>; dim_order: Numbers<u8>; }
    NamedData { key: Text; segment_index: u32; tensor_layout: ForwardsUOffset<TensorLayout>; }
    FlatTensor { version: u32; segments: Tables<DataSegment>; named_data: Tables<NamedData>; }
    EarlyTensorMetadata {
        name: Text; scalar_type: i8; sizes: Numbers<i32>; dim_order: Numbers<u8>; segment_index: u32; offset: u64;
    }
    EarlyFlatTensor {
        version: u32; tensor_alignment: u32; tensors: Tables<EarlyTensorMetadata>; segments: Tables<DataSegment>;
        named_data: Tables<NamedData>;
    }
    DataTensorMetadata {
        name: Text; scalar_type: i8; dimensions: Numbers<i32>; dim_order: Numbers<u8>; offset: u64; size: u64;
    }
    TensorSegment { segment_index: u32; tensor_metadata: Tables<DataTensorMetadata>; }
    DataV1 {
        version: u32; tensor_segments: Tables<TensorSegment>; segments: Tables<DataSegment>; tensor_alignment: u32;
    }
    Compatibility { model_name: Text; version: Text; quantization_scheme: Text; custom_description: Text; }
    DataV2 {
        version: u32; compatibility: ForwardsUOffset<Compatibility>; tensor_segments: Tables<TensorSegment>;
        segments: Tables<DataSegment>; tensor_alignment: u32;
    }
    TensorMetadata {
        id: u64; name: Text, required; shape: Numbers<u32>, required; data_type: i8; data_offset: u32; data_size: u32;
    }
    OperationMetadata { id: u64; operation: i8; output: u64; inputs: Numbers<u64>; }
    TensorBuffersMetadata {
        version: Text, required; model: Text; tensors: Tables<TensorMetadata>; operations: Tables<OperationMetadata>;
    }
}

/// Returns whether the verifier accepts a flatbuffer; `None` if it reached a limit before it knew.
fn verify<T: Verifiable>(flatbuffer: &[u8]) -> Option<bool> {
    let options = VerifierOptions { max_tables: 10_000, max_apparent_size: 1 << 24, ..VerifierOptions::default() };
    match ForwardsUOffset::<T>::run_verifier(&mut Verifier::new(&options, flatbuffer), 0) {
        Ok(()) => Some(true),
        Err(InvalidFlatbuffer::TooManyTables | InvalidFlatbuffer::ApparentSizeTooLarge) => None,
        Err(_) => Some(false),
    }
}

fn number<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

fn usize_at(bytes: &[u8], offset: usize) -> Option<usize> {
    usize::try_from(u64::from_le_bytes(number(bytes, offset)?)).ok()
}

/// Returns the position of a field of the root.
fn field(flatbuffer: &[u8], field: usize) -> Option<usize> {
    let root = usize::try_from(i32::from_le_bytes(number(flatbuffer, 0)?)).ok()?;
    let distance = isize::try_from(i32::from_le_bytes(number(flatbuffer, root)?)).ok()?;
    let list = flatbuffer.get(root.checked_add_signed(distance.checked_neg()?)?..)?;
    let entry = |offset: usize| Some(usize::from(u16::from_le_bytes(number(list, offset)?)));
    let entry = (entry(0)? >= 6 + 2 * field).then(|| entry(4 + 2 * field))??;
    (entry > 0).then_some(root + entry)
}

/// Returns whether the verifier accepts the index of a PTD file; `None` if the file has none.
fn verify_ptd(file: &[u8]) -> Option<bool> {
    let is_data = file.get(4..8)? == b"DT01";
    // The flatbuffer of `FT01` was built without the header.
    let (header, end) = if is_data {
        (0, usize_at(file, 16)?)
    } else {
        (usize_at(file, 16)?, usize_at(file, 16)?.checked_add(usize_at(file, 24)?)?)
    };
    let mut flatbuffer = file.get(..end)?.to_vec();
    flatbuffer.drain(8.min(end)..header.checked_add(8).filter(|start| *start <= end)?);
    let root = u32::from_le_bytes(number(&flatbuffer, 0)?).checked_sub(u32::try_from(header).ok()?)?;
    flatbuffer[..4].copy_from_slice(&root.to_le_bytes());
    if is_data {
        match field(&flatbuffer, 0).and_then(|version| flatbuffer.get(version)) {
            Some(2) => verify::<DataV2>(&flatbuffer),
            _ => verify::<DataV1>(&flatbuffer),
        }
    } else {
        // The older generation has a fourth field.
        match field(&flatbuffer, 3) {
            Some(_) => verify::<EarlyFlatTensor>(&flatbuffer),
            None => verify::<FlatTensor>(&flatbuffer),
        }
    }
}

/// Returns whether the verifier accepts the metadata of a TensorBuffers file; `None` if the file has none.
fn verify_tensorbuffers(file: &[u8]) -> Option<bool> {
    let end = file.len().checked_sub(8)?;
    let bytes = usize::try_from(u32::from_le_bytes(number(file, end)?)).ok()?;
    verify::<TensorBuffersMetadata>(file.get(end.checked_sub(bytes)?..end)?)
}

/// Reads a file with our reader and with the verifier. Returns whether ours reads it; `None` if they cannot be
/// compared, as for a file that is broken outside of the flatbuffer.
///
/// # Errors
///
/// If only one of them accepts the bytes.
pub fn compare(file: &[u8]) -> Result<Option<bool>, String> {
    /// What only ours checks: the header of PTD files, some lists of fields, versions, and the work that a file makes.
    const OTHERS: [&str; 6] =
        ["root table offset", "list of fields is", "lies before", "found `", "version", "referenced too often"];

    let (verified, read) = if file.starts_with(b"TBS1") {
        (verify_tensorbuffers(file), tensorbuffers::metadata(file).map(drop))
    } else {
        (verify_ptd(file), ptd::metadata(file).map(drop))
    };
    let message = read.err().map(|error| error.to_string()).unwrap_or_default();
    let Some(verified) = verified.filter(|_| !OTHERS.iter().any(|other| message.contains(other))) else {
        return Ok(None);
    };
    match verified {
        // Other numbers may still be wrong.
        true if message.contains("flatbuffer is broken") => Err(format!("the verifier takes it: {message}")),
        false if message.is_empty() => Err("the verifier refuses it".to_owned()),
        _ => Ok(Some(message.is_empty())),
    }
}
