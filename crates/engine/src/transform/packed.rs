//! Takes small integers out of the words that they are packed into.

use super::simd::vectorized;
use ckpt_api::{FieldOrder, PackedIntegers};

/// Replaces each number by an integer of a row: `words` are little-endian words of the row, from the one on that holds the
/// row's integer `first`. Integers whose words are not there become 0.
pub(crate) fn unpack_row(
    packed: &PackedIntegers,
    word: u32,
    words: &[u8],
    first: u64,
    numbers: &mut [[u8; 4]],
) {
    let bits = packed.bits;
    let (per_word, mask) = ((word / bits.max(1)).max(1), mask(bits));
    let at = |index: usize| words.get(index).copied().unwrap_or(0);
    match packed.order {
        // The words are little-endian, so the integers follow each other in the bytes, too.
        FieldOrder::Dense => {
            let skipped = (first * u64::from(bits)) % u64::from(word);
            let (byte, bit) = ((skipped / 8) as usize, (skipped % 8) as u32);
            unpack_stream(bits, words.get(byte..).unwrap_or_default(), bit, numbers);
        }
        FieldOrder::EvenOdd | FieldOrder::Whole | FieldOrder::HighestFirst | FieldOrder::Runs => {
            let size = (word / 8) as usize;
            let before = (first % u64::from(per_word)) as usize;
            match (before, word, packed.order) {
                (0, 8, FieldOrder::HighestFirst) if bits == 4 => return unpack_high_first(words, numbers),
                (0, 32, FieldOrder::EvenOdd) if numbers.len().is_multiple_of(8) => {
                    return unpack_even_odd(words, numbers);
                }
                _ => {}
            }
            for (index, number) in numbers.iter_mut().enumerate() {
                let field = before + index;
                let (own, place) = (field / per_word as usize, (field % per_word as usize) as u32);
                let bytes: [u8; 4] =
                    std::array::from_fn(|byte| if byte < size { at(own * size + byte) } else { 0 });
                let shift = match packed.order {
                    FieldOrder::EvenOdd => 4 * (place / 2 + 4 * (place % 2)),
                    FieldOrder::Whole | FieldOrder::Dense => bits * place,
                    FieldOrder::HighestFirst | FieldOrder::Runs => bits * (per_word - 1 - place),
                };
                *number = float((u32::from_le_bytes(bytes) >> shift) & mask);
            }
        }
    }
}

/// Makes of unsigned integers of `bits` bits the signed ones with the same bits.
pub(crate) fn extend_signs(bits: u32, numbers: &mut [[u8; 4]]) {
    let end = (1_u32 << bits.min(8)) as f32;
    vectorized(
        #[inline(always)]
        || {
            for number in numbers {
                let unsigned = f32::from_le_bytes(*number);
                let signed = if unsigned + unsigned < end { unsigned } else { unsigned - end };
                *number = signed.to_le_bytes();
            }
        },
    );
}

/// Packs numbers, which are whole, into words of a row that are zeros, from word number `index` on: `numbers` begin with the first
/// integer of which that word has bits.
///
/// # Errors
/// The position of the first number that is not whole, or needs more bits.
pub(crate) fn pack_row(
    packed: &PackedIntegers,
    word: u32,
    index: u64,
    numbers: &[[u8; 4]],
    words: &mut [u8],
) -> Result<(), usize> {
    if packed.bits == 16 {
        check_whole(16, numbers)?;
        for (number, word) in numbers.iter().zip(words.as_chunks_mut::<2>().0) {
            let [low, next, ..] = (f32::from_le_bytes(*number) as i32).to_le_bytes();
            *word = [low, next];
        }
        return Ok(());
    }
    let (bits, mask) = (packed.bits.clamp(1, 8), mask(packed.bits));
    check_whole(bits, numbers)?;
    let low = |number: &[u8; 4]| (f32::from_le_bytes(*number) as i32).cast_unsigned() & mask;
    let mut put = |bit: u64, integer: u32| {
        let (byte, shift) = ((bit / 8) as usize, bit % 8);
        let [own, next, ..] = (integer << shift).to_le_bytes();
        words.get_mut(byte).into_iter().for_each(|byte| *byte |= own);
        if shift + u64::from(bits) > 8 {
            words.get_mut(byte + 1).into_iter().for_each(|byte| *byte |= next);
        }
    };
    let is_aligned = (index * u64::from(word)).is_multiple_of(u64::from(bits));
    match (packed.order, bits) {
        (FieldOrder::Dense, 8) => pack_bytes(numbers, words),
        (FieldOrder::Dense, 4) if is_aligned => pack_pairs(numbers, words, [0, 4]),
        (FieldOrder::HighestFirst, 4) if word == 8 => pack_pairs(numbers, words, [4, 0]),
        (FieldOrder::Dense, _) => {
            let start = index * u64::from(word);
            let first = packed.first_in(word, index);
            for (number, at) in numbers.iter().zip(first..) {
                let (bit, integer) = (at * u64::from(bits), low(number));
                match bit.checked_sub(start) {
                    Some(bit) => put(bit, integer),
                    // It begins in the word before.
                    None => put(0, integer >> (start - bit)),
                }
            }
        }
        _ => {
            let in_word = u64::from(word / bits).max(1);
            for (number, at) in numbers.iter().zip(0_u64..) {
                let place = in_word - 1 - at % in_word;
                put(at / in_word * u64::from(word) + place * u64::from(bits), low(number));
            }
        }
    }
    Ok(())
}

/// Packs whole numbers of 8 bits.
fn pack_bytes(numbers: &[[u8; 4]], bytes: &mut [u8]) {
    vectorized(
        #[inline(always)]
        || {
            for (number, byte) in numbers.iter().zip(bytes) {
                *byte = low_byte(number);
            }
        },
    );
}

/// Packs pairs of whole numbers of 4 bits, which begin at these bits of their byte.
fn pack_pairs(numbers: &[[u8; 4]], bytes: &mut [u8], [first, second]: [u32; 2]) {
    let (pairs, rest) = numbers.as_chunks::<2>();
    vectorized(
        #[inline(always)]
        || {
            for ([one, other], byte) in pairs.iter().zip(&mut *bytes) {
                *byte = (low_byte(one) & 15) << first | (low_byte(other) & 15) << second;
            }
        },
    );
    if let ([last], Some(byte)) = (rest, bytes.get_mut(pairs.len())) {
        *byte = (low_byte(last) & 15) << first;
    }
}

/// The low 8 bits of a whole number.
#[inline(always)]
fn low_byte(number: &[u8; 4]) -> u8 {
    let [low, ..] = (f32::from_le_bytes(*number) as i32).to_le_bytes();
    low
}

/// Whether all numbers are whole ones of `bits` bits, with a sign or without one.
fn check_whole(bits: u32, numbers: &[[u8; 4]]) -> Result<(), usize> {
    let (least, most) = (-(1_i32 << (bits - 1)), (1_i32 << bits) - 1);
    let fits = |bytes: &[u8; 4]| {
        let number = f32::from_le_bytes(*bytes);
        let whole = number as i32;
        (whole as f32 == number) & (whole >= least) & (whole <= most)
    };
    let all = vectorized(
        #[inline(always)]
        || numbers.iter().fold(true, |all, number| all & fits(number)),
    );
    match all {
        true => Ok(()),
        false => Err(numbers.iter().position(|number| !fits(number)).unwrap_or_default()),
    }
}

/// Replaces each number by the integer that begins at bit `shift` of its word of `words`, and ends in that of `next`.
pub(crate) fn unpack_words(
    bits: u32,
    word: u32,
    shift: u32,
    (words, next): (&[u8], &[u8]),
    numbers: &mut [[u8; 4]],
) {
    let mask = mask(bits);
    let crosses = shift + bits > word;
    vectorized(
        #[inline(always)]
        || {
            if word == 8 {
                let next = next.iter().copied().chain(std::iter::repeat(0));
                for ((number, low), high) in numbers.iter_mut().zip(words).zip(next) {
                    let both = u32::from(*low) | (u32::from(high) << 8);
                    *number = float((both >> shift) & mask);
                }
            } else if crosses {
                let pairs = words.as_chunks::<4>().0.iter().zip(next.as_chunks::<4>().0);
                for (number, (low, high)) in numbers.iter_mut().zip(pairs) {
                    let (low, high) = (u32::from_le_bytes(*low), u32::from_le_bytes(*high));
                    *number = float(((low >> shift) | (high << (32 - shift))) & mask);
                }
            } else {
                for (number, own) in numbers.iter_mut().zip(words.as_chunks::<4>().0) {
                    *number = float((u32::from_le_bytes(*own) >> shift) & mask);
                }
            }
        },
    );
}

/// Adds to each 32-bit word, wrapping, one of `increments`, of which the first belongs to the word of index 0.
pub(crate) fn increment_words(words: &mut [u8], first: u64, increments: &[u32]) {
    let Some(from) = first.checked_rem(increments.len() as u64) else { return };
    let increments = increments.iter().cycle().skip(from as usize);
    for (word, increment) in words.as_chunks_mut::<4>().0.iter_mut().zip(increments) {
        *word = u32::from_le_bytes(*word).wrapping_add(*increment).to_le_bytes();
    }
}

/// Integers that follow each other bit by bit, from bit `bit` of the first byte on, of bytes that go on to the right.
fn unpack_stream(bits: u32, bytes: &[u8], bit: u32, numbers: &mut [[u8; 4]]) {
    let mask = mask(bits);
    if bit == 0 {
        let used = (numbers.len() / 8 * bits as usize).min(bytes.len());
        let (groups, rest) = (bytes.get(..used).unwrap_or_default(), bytes.get(used..).unwrap_or_default());
        let whole = groups.len() / (bits as usize).max(1) * 8;
        let (first, last) = numbers.split_at_mut(whole.min(numbers.len()));
        match bits {
            4 => unpack_groups::<4>(groups, first),
            8 => unpack_groups::<8>(groups, first),
            2 => unpack_groups::<2>(groups, first),
            3 => unpack_groups::<3>(groups, first),
            5 => unpack_groups::<5>(groups, first),
            6 => unpack_groups::<6>(groups, first),
            7 => unpack_groups::<7>(groups, first),
            _ => unpack_groups::<1>(groups, first),
        }
        return unpack_each(bits, mask, rest, 0, last);
    }
    unpack_each(bits, mask, bytes, bit, numbers);
}

fn unpack_each(bits: u32, mask: u32, bytes: &[u8], bit: u32, numbers: &mut [[u8; 4]]) {
    let at = |index: usize| u32::from(bytes.get(index).copied().unwrap_or(0));
    let mut from = bit as usize;
    for number in numbers {
        let both = at(from / 8) | (at(from / 8 + 1) << 8);
        *number = float((both >> (from % 8)) & mask);
        from += bits as usize;
    }
}

/// Eight integers of `BITS` bits in each `BITS` bytes.
fn unpack_groups<const BITS: usize>(bytes: &[u8], numbers: &mut [[u8; 4]]) {
    let mask = (1_u64 << BITS) - 1;
    vectorized(
        #[inline(always)]
        || {
            for (numbers, group) in numbers.as_chunks_mut::<8>().0.iter_mut().zip(bytes.as_chunks::<BITS>().0)
            {
                let mut all = [0; 8];
                all.iter_mut().zip(group).for_each(|(to, from)| *to = *from);
                let all = u64::from_le_bytes(all);
                for (index, number) in numbers.iter_mut().enumerate() {
                    *number = float(((all >> (index * BITS)) & mask) as u32);
                }
            }
        },
    );
}

/// Eight integers of 4 bits in each 32-bit word, the even ones before the odd ones.
fn unpack_even_odd(words: &[u8], numbers: &mut [[u8; 4]]) {
    const SHIFTS: [u32; 8] = [0, 16, 4, 20, 8, 24, 12, 28];
    vectorized(
        #[inline(always)]
        || {
            for (numbers, word) in numbers.as_chunks_mut::<8>().0.iter_mut().zip(words.as_chunks::<4>().0) {
                let word = u32::from_le_bytes(*word);
                for (number, shift) in numbers.iter_mut().zip(SHIFTS) {
                    *number = float((word >> shift) & 15);
                }
            }
        },
    );
}

/// Two integers of 4 bits in each byte, the first in the high bits.
fn unpack_high_first(bytes: &[u8], numbers: &mut [[u8; 4]]) {
    vectorized(
        #[inline(always)]
        || {
            let (pairs, last) = numbers.as_chunks_mut::<2>();
            for (pair, byte) in pairs.iter_mut().zip(bytes) {
                *pair = [float(u32::from(byte >> 4)), float(u32::from(byte & 15))];
            }
            if let ([number], Some(byte)) = (last, bytes.get(pairs.len())) {
                *number = float(u32::from(byte >> 4));
            }
        },
    );
}

/// Replaces each number by the entry of a table at the integer of 4 bits that a byte holds for it, the first of two in the high
/// bits. `pairs` has both entries of each byte.
pub(crate) fn look_up_pairs(bytes: &[u8], pairs: &[[[u8; 4]; 2]; 256], numbers: &mut [[u8; 4]]) {
    let (whole, last) = numbers.as_chunks_mut::<2>();
    for (pair, byte) in whole.iter_mut().zip(bytes) {
        *pair = pairs[usize::from(*byte)];
    }
    if let ([number], Some(byte)) = (last, bytes.get(whole.len())) {
        *number = pairs[usize::from(*byte)][0];
    }
}

#[inline(always)]
fn mask(bits: u32) -> u32 {
    (1 << bits.min(31)) - 1
}

/// Integers of at most 8 bits are exact.
#[inline(always)]
fn float(integer: u32) -> [u8; 4] {
    (integer as f32).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::Along;

    /// Packs integers low bits first, one after the other.
    fn dense(integers: &[u32], bits: u32) -> Vec<u8> {
        let mut bytes = vec![0_u8; (integers.len() * bits as usize).div_ceil(32) * 4 + 4];
        for (index, integer) in integers.iter().enumerate() {
            for bit in 0..bits as usize {
                let at = index * bits as usize + bit;
                bytes[at / 8] |= (((integer >> bit) & 1) as u8) << (at % 8);
            }
        }
        bytes
    }

    fn integers(count: usize, bits: u32) -> Vec<u32> {
        (0..count as u32).map(|index| index.wrapping_mul(2_654_435_761) >> (32 - bits)).collect()
    }

    fn unpacked(packed: &PackedIntegers, word: u32, words: &[u8], first: u64, count: usize) -> Vec<u32> {
        let mut numbers = vec![[0; 4]; count];
        unpack_row(packed, word, words, first, &mut numbers);
        numbers.into_iter().map(|number| f32::from_le_bytes(number) as u32).collect()
    }

    #[test]
    fn integers_of_every_width_come_out_of_a_dense_row_from_any_one_on() {
        for bits in 1..=8 {
            let all = integers(77, bits);
            let packed = PackedIntegers::new(bits, [1, 77], Along::Row, FieldOrder::Dense);
            let bytes = dense(&all, bits);
            for first in [0_usize, 1, 8, 31, 64] {
                let word = first * bits as usize / 32;
                let found = unpacked(&packed, 32, &bytes[4 * word..], first as u64, 77 - first);
                assert_eq!(found, all[first..], "{bits} bits from {first}");
            }
        }
    }

    #[test]
    fn even_columns_are_before_odd_ones() {
        let packed = PackedIntegers::new(4, [1, 16], Along::Row, FieldOrder::EvenOdd);
        // Field k holds column 0 2 4 6 1 3 5 7 of its eight.
        let words = [0x7531_6420_u32.to_le_bytes(), 0xfdb9_eca8_u32.to_le_bytes()].concat();
        assert_eq!(unpacked(&packed, 32, &words, 0, 16), (0..16).collect::<Vec<_>>());
        assert_eq!(unpacked(&packed, 32, &words[4..], 11, 3), [11, 12, 13]);
    }

    #[test]
    fn whole_integers_leave_bits_of_a_word_unused() {
        let packed = PackedIntegers::new(3, [1, 20], Along::Row, FieldOrder::Whole);
        let word = |from: u32| (0..10).map(|k| ((from + k) % 8) << (3 * k)).sum::<u32>().to_le_bytes();
        let words = [word(0), word(10)].concat();
        assert_eq!(unpacked(&packed, 32, &words, 0, 20), (0..20).map(|n| n % 8).collect::<Vec<_>>());
    }

    #[test]
    fn the_first_of_a_byte_can_be_in_its_high_bits() {
        let packed = PackedIntegers::new(4, [1, 5], Along::Row, FieldOrder::HighestFirst);
        assert_eq!(unpacked(&packed, 8, &[0x12, 0x34, 0x50], 0, 5), [1, 2, 3, 4, 5]);
        assert_eq!(unpacked(&packed, 8, &[0x12, 0x34, 0x50], 1, 4), [2, 3, 4, 5]);
    }

    #[test]
    fn an_integer_of_a_column_can_end_in_the_next_word() {
        let (low, high) = (0xc000_0000_u32.to_le_bytes(), 0x0000_0001_u32.to_le_bytes());
        let mut numbers = [[0; 4]];
        unpack_words(3, 32, 30, (&low, &high), &mut numbers);
        assert_eq!(f32::from_le_bytes(numbers[0]), 7.0);
    }

    #[test]
    fn the_highest_bit_of_a_signed_integer_is_its_sign() {
        for bits in 1..=8_u32 {
            let mut numbers: Vec<[u8; 4]> = (0..1_u8 << (bits - 1)).map(|n| float(n.into())).collect();
            let half = numbers.len();
            numbers.extend((half..2 * half).map(|n| float(n as u32)));
            extend_signs(bits, &mut numbers);
            let half = half as f32;
            let found: Vec<f32> = numbers.into_iter().map(f32::from_le_bytes).collect();
            let (whole, end) = (found.len() as f32, found.len() / 2);
            assert_eq!((found[0], found[end - 1], found[end]), (0.0, half - 1.0, half - whole), "{bits}");
            assert_eq!(found.last(), Some(&-1.0));
        }
    }

    #[test]
    fn integers_are_packed_as_they_are_taken_out_from_any_word_on() {
        let orders = [
            (32, FieldOrder::Dense),
            (8, FieldOrder::Dense),
            (8, FieldOrder::HighestFirst),
            (32, FieldOrder::HighestFirst),
        ];
        for (bits, (word, order)) in (1..=8).flat_map(|bits| orders.map(|order| (bits, order))) {
            let packed = PackedIntegers::new(bits, [1, 77], Along::Row, order);
            let (all, count) = (integers(77, bits), packed.line_words(word).unwrap());
            let from = |index: u64| {
                let own = &all[packed.first_in(word, index) as usize..];
                let numbers: Vec<[u8; 4]> = own.iter().map(|number| (*number as f32).to_le_bytes()).collect();
                let mut words = vec![0; ((count - index) * u64::from(word / 8)) as usize];
                pack_row(&packed, word, index, &numbers, &mut words).unwrap();
                words
            };
            let whole = from(0);
            assert_eq!(unpacked(&packed, word, &whole, 0, 77), all, "{bits} bits, {word}, {order:?}");
            for index in 1..count {
                let start = (index * u64::from(word / 8)) as usize;
                assert_eq!(from(index), whole[start..], "{bits} bits, {word}, {order:?}, from word {index}");
            }
        }
    }

    #[test]
    fn signs_are_packed_and_what_is_not_whole_or_too_large_is_refused() {
        let packed = PackedIntegers::new(8, [1, 3], Along::Row, FieldOrder::Dense);
        let pack = |numbers: [f32; 3]| {
            let mut words = [0; 3];
            pack_row(&packed, 8, 0, &numbers.map(f32::to_le_bytes), &mut words).map(|()| words)
        };
        assert_eq!(pack([-128.0, -1.0, 255.0]), Ok([0x80, 0xff, 0xff]));
        assert_eq!(pack([0.0, 256.0, 1.0]), Err(1));
        assert_eq!(pack([0.0, 1.0, -129.0]), Err(2));
        assert_eq!(pack([0.5, 1.0, 1.0]), Err(0));
        assert_eq!(pack([f32::NAN, 1.0, 1.0]), Err(0));
    }

    #[test]
    fn increments_wrap_within_their_words() {
        let mut words = [0x7777_7777_u32.to_le_bytes(), u32::MAX.to_le_bytes(), 0_u32.to_le_bytes()].concat();
        increment_words(&mut words, 1, &[1, 0x1111_1111]);
        let words: Vec<u32> = words.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        assert_eq!(words, [0x8888_8888, 0, 0x1111_1111]);
    }
}
