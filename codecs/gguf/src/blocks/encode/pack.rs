//! How the integers of a block of 256 numbers share bytes.

use half::f16;

/// Stores 16-bit floats one after the other.
#[inline(always)]
pub fn halves<const N: usize>(bytes: &mut [u8], halves: [f16; N]) {
    for (bytes, half) in bytes.as_chunks_mut().0.iter_mut().zip(halves) {
        *bytes = half.to_le_bytes();
    }
}

/// Stores 2-bit integers: 32 bytes hold those of 128 numbers, each byte those of numbers that are 32 apart.
#[inline(always)]
pub fn crumbs(bytes: &mut [u8], integers: &[u8]) {
    for (bytes, integers) in bytes.as_chunks_mut::<32>().0.iter_mut().zip(integers.as_chunks::<128>().0) {
        for (k, byte) in bytes.iter_mut().enumerate() {
            *byte = integers[k] | integers[k + 32] << 2 | integers[k + 64] << 4 | integers[k + 96] << 6;
        }
    }
}

/// Stores the low four bits of integers: 32 bytes hold those of 64 numbers, the first 32 in the low nibbles.
#[inline(always)]
pub fn nibbles_of_64(bytes: &mut [u8], integers: &[u8]) {
    for (bytes, integers) in bytes.as_chunks_mut::<32>().0.iter_mut().zip(integers.as_chunks::<64>().0) {
        for (k, byte) in bytes.iter_mut().enumerate() {
            *byte = integers[k] & 15 | integers[k + 32] << 4;
        }
    }
}

/// Stores 4-bit integers: 16 bytes hold those of 32 numbers, the first 16 in the low nibbles.
#[inline(always)]
pub fn nibbles_of_32(bytes: &mut [u8], integers: &[u8]) {
    for (bytes, integers) in bytes.as_chunks_mut::<16>().0.iter_mut().zip(integers.as_chunks::<32>().0) {
        for (k, byte) in bytes.iter_mut().enumerate() {
            *byte = integers[k] | integers[k + 16] << 4;
        }
    }
}

/// Stores a scale and a minimum of 6 bits each among those of eight groups, in 12 bytes of zeros.
#[inline(always)]
pub fn scale_and_min(bytes: &mut [u8], group: usize, scale: u8, min: u8) {
    if group < 4 {
        bytes[group] |= scale;
        bytes[group + 4] |= min;
    } else {
        bytes[group + 4] = scale & 15 | min << 4;
        bytes[group - 4] |= scale >> 4 << 6;
        bytes[group] |= min >> 4 << 6;
    }
}
