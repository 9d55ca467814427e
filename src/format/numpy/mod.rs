//! The formats of numpy. They share the header of an array.

mod dict;
mod header;

pub mod npy;
#[cfg(feature = "npz")]
pub mod npz;
