//! Elements smaller than a byte: packed bit by bit, or one to a byte.

use ckpt_api::DType;

/// Spreads packed elements to one byte each, value in the low bits. Whole groups of bytes only: the number of elements
/// is what the bytes hold.
pub fn unpack(dtype: DType, packed: &[u8], out: &mut Vec<u8>) {
    let bits = width(dtype);
    out.clear();
    if bits == 4 {
        out.resize(packed.len() * 2, 0);
        for (byte, pair) in packed.iter().zip(out.as_chunks_mut::<2>().0) {
            *pair = [byte & 0x0f, byte >> 4];
        }
        return;
    }
    let (mut pool, mut held) = (0u32, 0);
    for byte in packed {
        pool |= u32::from(*byte) << held;
        held += 8;
        while held >= bits {
            out.push(low_byte(pool, bits));
            pool >>= bits;
            held -= bits;
        }
    }
}

/// Packs one-byte elements bit by bit, the first in the lowest bits; a last byte that is not full has zeros above.
pub fn pack(dtype: DType, elements: &[u8], out: &mut Vec<u8>) {
    let bits = width(dtype);
    out.clear();
    let (mut pool, mut held) = (0u32, 0);
    for element in elements {
        pool |= u32::from(low_byte(u32::from(*element), bits)) << held;
        held += bits;
        while held >= 8 {
            out.push(low_byte(pool, 8));
            pool >>= 8;
            held -= 8;
        }
    }
    if held > 0 {
        out.push(low_byte(pool, 8));
    }
}

fn width(dtype: DType) -> u32 {
    dtype.bits().unwrap_or(8).min(8)
}

fn low_byte(pool: u32, bits: u32) -> u8 {
    (pool & ((1 << bits) - 1)).to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_element_lies_in_the_lowest_bits() {
        let mut out = Vec::new();
        pack(DType::F4E2m1, &[0x1, 0x2, 0x3], &mut out);
        assert_eq!(out, [0x21, 0x03]);
        unpack(DType::F4E2m1, &[0x21, 0x43], &mut out);
        assert_eq!(out, [1, 2, 3, 4]);
    }

    proptest! {
        #[test]
        fn unpacking_undoes_packing(groups in 0usize..9, six in any::<bool>(), seed in any::<u64>()) {
            let dtype = if six { DType::F6E2m3 } else { DType::U4 };
            let mask = if six { 0x3f } else { 0x0f };
            let elements: Vec<u8> = (0..groups as u64 * 4).map(|k| (seed.rotate_left((k % 64) as u32) as u8) & mask).collect();
            let (mut packed, mut back) = (Vec::new(), Vec::new());
            pack(dtype, &elements, &mut packed);
            unpack(dtype, &packed, &mut back);
            prop_assert_eq!(back, elements);
        }
    }
}
