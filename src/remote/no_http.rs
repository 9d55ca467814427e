//! `http` without its feature.

use super::{Location, cannot_open};
use crate::error::Result;
use crate::limits::Limits;

pub(super) fn open(url: &str, _: &Limits) -> Result<Location> {
    Err(cannot_open(url))
}
