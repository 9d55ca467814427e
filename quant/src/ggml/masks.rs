//! Bits, widened to bytes.

/// Returns 8 bytes, the first in the lowest bits: 0xff for each bit of 1.
#[inline(always)]
pub(super) fn mask(bits: u8) -> u64 {
    static MASKS: [u64; 256] = {
        let mut masks = [0; 256];
        let mut bits = 0;
        while bits < masks.len() {
            masks[bits] = mask_of(bits);
            bits += 1;
        }
        masks
    };
    MASKS[usize::from(bits)]
}

/// Computes the mask of bits, for the table.
const fn mask_of(bits: usize) -> u64 {
    let (mut mask, mut i) = (0, 0);
    while i < 8 {
        mask |= (0xff * (bits >> i & 1) as u64) << (8 * i);
        i += 1;
    }
    mask
}

/// Returns a byte, 8 times.
#[inline(always)]
pub(super) const fn repeat(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// Returns codes as one number.
#[inline(always)]
pub(super) fn word(codes: [i8; 8]) -> u64 {
    u64::from_le_bytes(codes.map(i8::cast_unsigned))
}

/// Returns the codes of a number.
#[inline(always)]
pub(super) fn codes(word: u64) -> [i8; 8] {
    word.to_le_bytes().map(u8::cast_signed)
}
