//! `cloud` without its feature.

use std::io::Write;

use super::{Location, cannot_open};
use crate::error::Result;

pub(super) const IS_ON: bool = false;

pub(super) fn open(url: &str) -> Result<Location> {
    Err(cannot_open(url))
}

pub(super) fn save(url: &str, _: u64, _: bool, _: &mut dyn FnMut(&mut dyn Write) -> Result<()>) -> Result<()> {
    Err(cannot_open(url))
}

pub(super) fn list(folder: &str) -> Result<Vec<(String, u64)>> {
    Err(cannot_open(folder))
}

pub(super) fn remove(url: &str) -> Result<()> {
    Err(cannot_open(url))
}
