//! Our reader of flatbuffers against the verifier of the crate `flatbuffers`: both accept the same bytes.

use flatbuffers::{ForwardsUOffset, InvalidFlatbuffer, VOffsetT, Vector, Verifiable, Verifier, VerifierOptions};
use tensorfile::{TensorMap, ptd, tensorbuffers};

use super::{ptd as ptd_files, tensorbuffers as tensorbuffers_files};
use crate::support::hex;

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

fn verify<T: Verifiable>(flatbuffer: &[u8]) -> bool {
    let options = VerifierOptions { max_tables: 10_000, max_apparent_size: 1 << 20, ..VerifierOptions::default() };
    ForwardsUOffset::<T>::run_verifier(&mut Verifier::new(&options, flatbuffer), 0).is_ok()
}

/// Returns the position of a field of the root.
fn field(flatbuffer: &[u8], field: usize) -> Option<usize> {
    let number = |at: usize| Some(i32::from_le_bytes(*flatbuffer.get(at..)?.first_chunk()?));
    let root = usize::try_from(number(0)?).ok()?;
    let distance = isize::try_from(number(root)?).ok()?;
    let list = flatbuffer.get(root.checked_add_signed(distance.checked_neg()?)?..)?;
    let entry = |at: usize| Some(usize::from(u16::from_le_bytes(*list.get(at..)?.first_chunk()?)));
    let entry = (entry(0)? >= 6 + 2 * field).then(|| entry(4 + 2 * field))??;
    (entry > 0).then_some(root + entry)
}

/// Verifies the index of an `FT01` file, whose older generation has a fourth field.
fn verify_flat_tensor(flatbuffer: &[u8]) -> bool {
    match field(flatbuffer, 3) {
        Some(_) => verify::<EarlyFlatTensor>(flatbuffer),
        None => verify::<FlatTensor>(flatbuffer),
    }
}

/// Verifies the index of a `DT01` file.
fn verify_data(flatbuffer: &[u8]) -> bool {
    match field(flatbuffer, 0).and_then(|version| flatbuffer.get(version)) {
        Some(2) => verify::<DataV2>(flatbuffer),
        _ => verify::<DataV1>(flatbuffer),
    }
}

/// A file with a flatbuffer in it.
struct Case {
    file: Vec<u8>,
    /// The bytes of the flatbuffer that are not in `injected`.
    flatbuffer: std::ops::Range<usize>,
    /// A header within the flatbuffer, which was put there after the flatbuffer was built.
    injected: std::ops::Range<usize>,
    /// The bytes of a header, which are not changed.
    header: std::ops::Range<usize>,
    verify: fn(&[u8]) -> bool,
    read: fn(&[u8]) -> tensorfile::Result<TensorMap>,
}

impl Case {
    fn ptd(dump: &str, injected: bool, verify: fn(&[u8]) -> bool) -> Self {
        let file = hex(dump);
        let number = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
        let (injected, end) = if injected { (8..8 + number(16), number(16) + number(24)) } else { (8..8, number(16)) };
        Self { flatbuffer: 0..end, injected, header: 8..48, verify, read: |file| ptd::from_slice(file), file }
    }

    /// Returns whether the verifier accepts the flatbuffer.
    fn verify(&self, file: &[u8]) -> bool {
        let mut flatbuffer = file[self.flatbuffer.clone()].to_vec();
        flatbuffer.drain(self.injected.clone());
        let root = u32::from_le_bytes(flatbuffer[..4].try_into().unwrap());
        let Some(root) = root.checked_sub(self.injected.len() as u32) else { return false };
        flatbuffer[..4].copy_from_slice(&root.to_le_bytes());
        (self.verify)(&flatbuffer)
    }
}

fn cases() -> Vec<Case> {
    let reference = hex(tensorbuffers_files::REFERENCE);
    let end = reference.len() - 8;
    let size = u32::from_le_bytes(reference[end..end + 4].try_into().unwrap()) as usize;
    vec![
        Case::ptd(ptd_files::FT01, true, verify_flat_tensor),
        Case::ptd(ptd_files::EARLY, true, verify_flat_tensor),
        Case::ptd(ptd_files::DATA_V1, false, verify_data),
        Case::ptd(ptd_files::DATA_V2, false, verify_data),
        Case {
            flatbuffer: end - size..end,
            injected: 0..0,
            header: 0..0,
            verify: verify::<TensorBuffersMetadata>,
            read: |file| tensorbuffers::from_slice(file),
            file: reference,
        },
    ]
}

#[test]
fn accepts_what_the_verifier_accepts() {
    let (mut accepted, mut refused) = (0, 0);
    for (number, case) in cases().into_iter().enumerate() {
        (case.read)(&case.file).unwrap();
        assert!(case.verify(&case.file), "case {number}");
        for at in case.flatbuffer.clone().filter(|at| !case.header.contains(at)) {
            for changed in (0..=255).step_by(3).chain([1, 2, 4, 8, 254].map(|add| case.file[at].wrapping_add(add))) {
                let mut file = case.file.clone();
                file[at] = changed;
                let message = (case.read)(&file).err().map(|error| error.to_string()).unwrap_or_default();
                // Of the header of ptd files, and of what the verifier leaves out.
                let is_other = ["root table offset", "list of fields is", "lies before", "found `", "version"];
                if is_other.iter().any(|other| message.contains(other)) {
                    continue;
                }
                match case.verify(&file) {
                    // Other numbers may still be wrong.
                    true => assert!(!message.contains("flatbuffer is broken"), "case {number}, {at}: {message}"),
                    false => assert!(!message.is_empty(), "case {number}, {at}, {changed}: was read"),
                }
                *if message.is_empty() { &mut accepted } else { &mut refused } += 1;
            }
        }
    }
    assert!(accepted > 10_000 && refused > 10_000, "{accepted} accepted, {refused} refused");
}
