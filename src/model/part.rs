use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::containers::Tied;
use super::payload::serialize_tensor;
use super::ser::{self, Payload};
use super::sink::TensorSink;
use crate::error::{Error, ErrorKind, Result, raise_ser};
use crate::tensor::TensorInfo;

/// Some of the tensors of a value, by their whole names. The bytes of the others are not looked at.
pub(crate) struct Part<'a, T: ?Sized> {
    pub(crate) value: &'a T,
    pub(crate) has: &'a dyn Fn(&str) -> bool,
}

impl<T: Serialize + ?Sized> Serialize for Part<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (mut map, mut failed) = (serializer.serialize_map(None)?, None);
        let mut picker = ser::Serializer::over(Picked { has: self.has, map: &mut map, failed: &mut failed });
        let picked = self.value.serialize(&mut picker).and_then(|()| picker.into_sink().map(drop));
        match (picked, failed) {
            (Ok(()), _) => map.end(),
            (Err(_), Some(error)) => Err(error),
            (Err(error), None) => Err(raise_ser(error)),
        }
    }
}

/// Passes the tensors that are wanted on to a map.
struct Picked<'a, M: SerializeMap> {
    has: &'a dyn Fn(&str) -> bool,
    map: &'a mut M,
    /// Why the map refused a tensor.
    failed: &'a mut Option<M::Error>,
}

impl<M: SerializeMap> TensorSink for Picked<'_, M> {
    fn keeps_dim_order(&self) -> bool {
        // It is for the map to ask for another order.
        true
    }

    fn tensor<P: Serialize + ?Sized>(&mut self, name: &str, info: TensorInfo, payload: Payload<'_, P>) -> Result<()> {
        if !(self.has)(name) {
            return Ok(());
        }
        let tensor = Item { info, payload: payload.value() };
        // Without its bytes, a tensor need not be where the other one is.
        let passed = match payload.tied_to().filter(|to| (self.has)(to)) {
            Some(to) => self.map.serialize_entry(name, &Tied { value: tensor, to }),
            None => self.map.serialize_entry(name, &tensor),
        };
        passed.map_err(|error| {
            *self.failed = Some(error);
            Error::from(ErrorKind::Message("the tensor is not wanted".to_owned()))
        })
    }
}

struct Item<'a, P: ?Sized> {
    info: TensorInfo,
    payload: &'a P,
}

impl<P: Serialize + ?Sized> Serialize for Item<'_, P> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_tensor(serializer, &self.info, self.payload)
    }
}
