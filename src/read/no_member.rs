//! The types of `member` without the feature `npz`: no file has a zip archive, so there are no values.

use std::marker::PhantomData;
use std::num::NonZeroU8;

use crate::error::Result;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Zipped {}

impl Zipped {
    pub(crate) fn big_endian(&self) -> Option<NonZeroU8> {
        match *self {}
    }

    pub(crate) fn is_deflated(&self) -> bool {
        match *self {}
    }

    pub(crate) fn head(&self) -> u32 {
        match *self {}
    }
}

pub(super) struct MemberSum;

impl MemberSum {
    pub(super) fn new(_: &Zipped) -> Self {
        Self
    }

    pub(super) fn update(&mut self, _: &[u8]) {}

    pub(super) fn end(&self) -> Result<()> {
        Ok(())
    }
}

pub(super) struct Deflated<R> {
    none: Zipped,
    reader: PhantomData<R>,
}

impl<R> Deflated<R> {
    pub(super) fn new(_: R, zipped: &Zipped, _: u64) -> Self {
        match *zipped {}
    }

    pub(super) fn read(&mut self, _: &mut [u8]) -> Result<()> {
        match self.none {}
    }

    pub(super) fn end(&mut self) -> Result<()> {
        match self.none {}
    }
}
