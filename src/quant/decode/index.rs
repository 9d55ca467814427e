//! Groups of columns in any order, which an index gives to each.

use super::weight::{StoredWeight, damaged};
use crate::error::Result;
use crate::quant::Role;

/// Reads the groups that an index states, and checks that the weight has them.
pub(super) fn stated_groups(weight: &StoredWeight, index: &[u8], groups: usize) -> Result<Vec<u32>> {
    let stated = index.as_chunks::<4>().0.iter().map(|bytes| i32::from_le_bytes(*bytes));
    let checked = stated.map(|found| {
        let known = u32::try_from(found).ok().filter(|group| (*group as usize) < groups);
        known.ok_or_else(|| {
            let [index, scale] = names(weight);
            damaged(format!("`{index}` has the group {found}, but `{scale}` has {groups}"))
        })
    });
    checked.collect()
}

/// Checks that each group has a column.
pub(super) fn expect_all_groups(weight: &StoredWeight, stated: &[u32], groups: usize) -> Result<()> {
    let mut has_columns = vec![false; groups];
    stated.iter().for_each(|group| has_columns[*group as usize] = true);
    match has_columns.iter().position(|has| !has) {
        None => Ok(()),
        Some(group) => {
            let [index, scale] = names(weight);
            Err(damaged(format!("`{index}` has no column of the group {group}, of which `{scale}` has {groups}")))
        }
    }
}

fn names(weight: &StoredWeight) -> [&str; 2] {
    [Role::Index, Role::Scale].map(|role| weight.tensor.part(role).map_or("", |part| part.name()))
}
