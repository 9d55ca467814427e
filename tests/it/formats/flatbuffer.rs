//! Our reader of flatbuffers compared with the verifier of the crate `flatbuffers`: both accept the same bytes.

use super::{ptd, tensorbuffers};
use crate::support::{hex, verifier};

#[test]
fn accepts_what_the_verifier_accepts() {
    let reference = hex(tensorbuffers::REFERENCE);
    let end = reference.len() - 8;
    let metadata = end - u32::from_le_bytes(reference[end..end + 4].try_into().unwrap()) as usize;
    let mut cases = vec![(reference, metadata..end)];
    for file in [ptd::FT01, ptd::EARLY, ptd::DATA_V1, ptd::DATA_V2] {
        let file = hex(file);
        let end = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
        let end = if file[4..8] == *b"FT01" { end(16) + end(24) } else { end(16) };
        cases.push((file, 0..end));
    }
    let (mut accepted, mut refused) = (0, 0);
    for (number, (file, flatbuffer)) in cases.into_iter().enumerate() {
        assert_eq!(verifier::compare(&file), Ok(Some(true)), "case {number}");
        // The header is not changed.
        for at in flatbuffer.filter(|at| number == 0 || !(8..48).contains(at)) {
            for byte in (0..=255).step_by(3).chain([1, 2, 4, 8, 254].map(|add| file[at].wrapping_add(add))) {
                let mut file = file.clone();
                file[at] = byte;
                match verifier::compare(&file) {
                    Ok(Some(true)) => accepted += 1,
                    Ok(Some(false)) => refused += 1,
                    Ok(None) => {}
                    Err(error) => panic!("case {number}, {at}, {byte}: {error}"),
                }
            }
        }
    }
    assert!(accepted > 10_000 && refused > 10_000, "{accepted} accepted, {refused} refused");
}
