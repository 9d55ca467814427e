//! Ids of storage, for views that join or cast tensors.

/// Returns the id of storage that is one of several with the id `id`: of a file among several, or after a cast.
///
/// Offsets and addresses have fewer than 48 bits, so ids differ by the upper ones, and stay in order. Longer ids may
/// become equal, which does no harm: bytes are compared before they are shared. A table of ids would hold a million
/// tensors a second time.
pub(super) fn derived_id(id: u64, kind: u64) -> u64 {
    id.wrapping_add(kind << 48)
}
