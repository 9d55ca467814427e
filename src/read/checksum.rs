//! Checksums of uncompressed payloads.

use crate::error::Result;
use crate::storage::ReadAt;

use super::Entry;

/// The checksum of a payload, while it is being read. Formats without checksums have none.
pub(crate) struct Sum {
    #[cfg(feature = "npz")]
    running: Option<Running>,
}

#[cfg(feature = "npz")]
struct Running {
    crc: flate2::Crc,
    expected: u32,
    /// The range covered by the checksum.
    start: u64,
}

impl Sum {
    /// Begins the checksum of a payload: reads what it covers before the payload.
    #[cfg(feature = "npz")]
    pub(crate) fn of(entry: &Entry<'_>, file: &mut dyn ReadAt) -> Result<Self> {
        let Some(stored) = entry.stored() else { return Ok(Self { running: None }) };
        let payload = entry.range().start;
        let mut crc = flate2::Crc::new();
        let mut head = Vec::new();
        let start = entry.needed_from();
        super::Cursor::new(file, start).append(payload - start, &mut head)?;
        crc.update(&head);
        Ok(Self { running: Some(Running { crc, expected: stored.crc32, start }) })
    }

    /// Begins the checksum of a payload.
    #[cfg(not(feature = "npz"))]
    pub(crate) fn of(_: &Entry<'_>, _: &mut dyn ReadAt) -> Result<Self> {
        Ok(Self {})
    }

    /// Adds the next bytes of the payload.
    pub(crate) fn update(&mut self, _bytes: &[u8]) {
        #[cfg(feature = "npz")]
        if let Some(running) = &mut self.running {
            running.crc.update(_bytes);
        }
    }

    /// Compares the checksum after the last byte.
    pub(crate) fn end(&mut self) -> Result<()> {
        #[cfg(feature = "npz")]
        if let Some(Running { crc, expected, start }) = self.running.take() {
            return super::codec::check_crc32(crc.sum(), expected).map_err(|error| error.at(start));
        }
        Ok(())
    }
}
