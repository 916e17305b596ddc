//! Keys of slices, in TensorFlow's `OrderedCode`: encodings of numbers and strings that sort like their values.

use crate::format::SliceExtent;

/// Returns the key of a slice of the tensor `name`.
pub(crate) fn slice_key(name: &[u8], extents: &[SliceExtent]) -> Vec<u8> {
    let mut key = Vec::with_capacity(name.len() + 8 + 4 * extents.len());
    write_number(&mut key, 0);
    write_string(&mut key, name);
    write_number(&mut key, extents.len() as u64);
    for extent in extents {
        write_signed(&mut key, extent.start);
        write_signed(&mut key, extent.length);
    }
    key
}

/// Returns the tensor's name if `key` can be the key of a slice.
pub(crate) fn sliced_name(key: &[u8]) -> Option<Vec<u8>> {
    let mut rest = key.strip_prefix(&[0])?;
    let mut name = Vec::new();
    loop {
        let (pair, byte) = match rest {
            [0x00, 0x01, tail @ ..] => return (!tail.is_empty()).then_some(name),
            [0x00, 0xff, ..] => (2, 0x00),
            [0xff, 0x00, ..] => (2, 0xff),
            [0x00 | 0xff, ..] | [] => return None,
            [byte, ..] => (1, *byte),
        };
        name.push(byte);
        rest = rest.get(pair..)?;
    }
}

fn write_string(key: &mut Vec<u8>, text: &[u8]) {
    for byte in text {
        match byte {
            0x00 => key.extend([0x00, 0xff]),
            0xff => key.extend([0xff, 0x00]),
            _ => key.push(*byte),
        }
    }
    key.extend([0x00, 0x01]);
}

/// Writes the number of significant bytes, then the bytes, most significant first.
fn write_number(key: &mut Vec<u8>, value: u64) {
    let zeros = value.to_be_bytes().iter().take_while(|byte| **byte == 0).count();
    let bytes = value.to_be_bytes();
    let digits = bytes.get(zeros..).unwrap_or_default();
    key.push(u8::try_from(digits.len()).unwrap_or(8));
    key.extend(digits);
}

/// Writes the two's complement after a header of as many ones as there are bytes; negative numbers invert the header.
fn write_signed(key: &mut Vec<u8>, value: i64) {
    let magnitude = if value < 0 { !value } else { value };
    let bits = 64 - magnitude.leading_zeros();
    let len = bits / 7 + 1;
    let mut bytes = [if value < 0 { 0xff } else { 0x00 }; 10];
    bytes[2..].copy_from_slice(&value.to_be_bytes());
    let header = !(0xffff_u16.checked_shr(len).unwrap_or(0));
    let begin = bytes.len() - len as usize;
    for (byte, mark) in bytes[begin..].iter_mut().zip(header.to_be_bytes()) {
        *byte ^= mark;
    }
    key.extend(&bytes[begin..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(value: i64) -> Vec<u8> {
        let mut key = Vec::new();
        write_signed(&mut key, value);
        key
    }

    #[test]
    fn small_signed_numbers_take_one_byte() {
        assert_eq!(signed(0), [0x80]);
        assert_eq!(signed(63), [0xbf]);
        assert_eq!(signed(-1), [0x7f]);
        assert_eq!(signed(-64), [0x40]);
    }

    #[test]
    fn larger_signed_numbers_begin_with_their_length() {
        assert_eq!(signed(64), [0xc0, 0x40]);
        assert_eq!(signed(-65), [0x3f, 0xbf]);
        assert_eq!(signed(8191), [0xdf, 0xff]);
        assert_eq!(signed(8192), [0xe0, 0x20, 0x00]);
        assert_eq!(signed(1 << 20), [0xf0, 0x10, 0x00, 0x00]);
        let largest = [0xff, 0xc0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(signed(i64::MAX), largest);
    }

    #[test]
    fn encoded_signed_numbers_sort_like_the_numbers() {
        let numbers =
            [i64::MIN, -1 << 40, -8193, -8192, -65, -64, -1, 0, 1, 63, 64, 8191, 8192, 1 << 55, i64::MAX];
        let codes: Vec<_> = numbers.iter().map(|number| signed(*number)).collect();
        assert!(codes.is_sorted());
    }

    #[test]
    fn a_slice_key_consists_of_zero_the_name_the_rank_and_the_extents() {
        let extents = [SliceExtent { start: 0, length: -1 }, SliceExtent { start: 64, length: 1 }];
        let key = slice_key(b"a\x00\xff", &extents);
        assert_eq!(key, b"\x00a\x00\xff\xff\x00\x00\x01\x01\x02\x80\x7f\xc0\x40\x81");
        assert_eq!(sliced_name(&key).unwrap(), b"a\x00\xff");
    }

    #[test]
    fn a_name_that_only_begins_with_zero_is_not_a_slice_key() {
        assert_eq!(sliced_name(b"\x00abc"), None);
        assert_eq!(sliced_name(b"abc\x00\x01\x00"), None);
    }
}
