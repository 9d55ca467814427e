//! The bridge for our own serializer and deserializer, compiled with this crate.
//!
//! Values passed to our own functions never go through the bridge, but rustc cannot know this and would compile it in
//! every program. It does not recompile `#[inline(never)]` functions compiled here, as in `array::compiled`.
#![expect(dead_code, reason = "rustc compiles what a static mentions")]

use super::de::Value;
use super::sink::serialize_store;
use super::source::drive;
use crate::error::Result;
use crate::find::Deserializer;
use crate::model::{LoadFrom, Serializer, Store};

static STORE: fn(&dyn Store, &mut Serializer<'static>) -> Result<()> = |value, own| serialize_store(value, own);

static LOAD: fn(&mut Deserializer<'static>, LoadFrom<'_, 'static>) -> Result<()> = |own, load| drive(own, load);

static LOAD_PART: fn(Value<'_, 'static>, LoadFrom<'_, 'static>) -> Result<()> = |own, load| drive(own, load);
