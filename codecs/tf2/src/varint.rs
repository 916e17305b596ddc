//! Numbers of seven bits a byte, least significant first.

use nom::error::{Error, ErrorKind};
use nom::{Err, IResult};

/// Bytes of the longest 64-bit number.
pub(crate) const MAX_LEN: usize = 10;

/// A 64-bit number.
pub(crate) fn varint64(input: &[u8]) -> IResult<&[u8], u64> {
    let mut value = 0u64;
    for (index, byte) in input.iter().take(MAX_LEN).enumerate() {
        let bits = u64::from(byte & 0x7f);
        let shift = 7 * index;
        if (bits << shift) >> shift != bits {
            break;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok((input.get(index + 1..).unwrap_or_default(), value));
        }
    }
    Err(Err::Error(Error::new(input, ErrorKind::TooLarge)))
}

/// A 32-bit number.
pub(crate) fn varint32(input: &[u8]) -> IResult<&[u8], u32> {
    let (rest, value) = varint64(input)?;
    let value = u32::try_from(value).map_err(|_| Err::Error(Error::new(input, ErrorKind::TooLarge)))?;
    Ok((rest, value))
}

/// Appends a number, in as few bytes as it takes.
pub(crate) fn write(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that [`write`] takes.
pub(crate) fn len(value: u64) -> u64 {
    u64::from((64 - value.leading_zeros()).div_ceil(7).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_to_their_last_byte() {
        assert_eq!(varint64(&[0x05, 9]), Ok((&[9][..], 5)));
        assert_eq!(varint64(&[0x80, 0x01]), Ok((&[][..], 128)));
        let largest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(varint64(&largest), Ok((&[][..], u64::MAX)));
    }

    #[test]
    fn a_number_without_an_end_or_with_too_many_bits_is_refused() {
        assert!(varint64(&[]).is_err());
        assert!(varint64(&[0x80]).is_err());
        assert!(varint64(&[0xff; 11]).is_err());
        assert!(varint64(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]).is_err());
        assert!(varint32(&[0xff, 0xff, 0xff, 0xff, 0x1f]).is_err());
    }

    #[test]
    fn a_number_is_written_as_it_is_read() {
        for shift in 0..64 {
            for value in [0, (1u64 << shift) - 1, 1 << shift, u64::MAX >> shift] {
                let mut bytes = Vec::new();
                write(&mut bytes, value);
                assert_eq!(varint64(&bytes), Ok((&[][..], value)));
                assert_eq!(bytes.len() as u64, len(value));
            }
        }
    }
}
