//! Files on web servers, and on the Hugging Face hub.

mod address;
mod client;
mod content_range;
mod http_date;
mod hub;
mod object;
mod object_name;
mod proxy;
mod url;
mod web;
mod whole;

use super::Location;
use crate::error::Result;
use crate::limits::Limits;
use crate::storage::scheme_of;

/// Opens a URL by its scheme.
pub(super) fn open(url: &str, limits: &Limits) -> Result<Location> {
    match scheme_of(url) {
        Some(("hf", _)) => hub::open(url, limits),
        _ => web::open(url, limits),
    }
}
