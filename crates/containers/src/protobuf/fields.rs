//! Fields of messages in memory, which are read or measured without building them.

use ckpt_api::{Limit, Limits, Result};
use prost::encoding::decode_varint;

/// One field of a message in memory, as stored.
#[derive(Debug, PartialEq, Eq)]
pub struct RawField<'a> {
    /// The field's number in the message's schema.
    pub number: u64,
    /// The field's bytes, with its key.
    pub bytes: &'a [u8],
    /// The value of a length-delimited field (a message, string or bytes); `None` for a number.
    pub payload: Option<&'a [u8]>,
}

impl<'a> RawField<'a> {
    /// Takes the first field off `rest`. Returns `None` if `rest` does not begin with a complete field, and for groups.
    pub fn take(rest: &mut &'a [u8]) -> Option<Self> {
        let start = *rest;
        let key = decode_varint(rest).ok()?;
        let mut payload = None;
        match key & 7 {
            0 => drop(decode_varint(rest).ok()?),
            1 => *rest = rest.get(8..)?,
            2 => payload = Some(take_delimited(rest)?),
            5 => *rest = rest.get(4..)?,
            _ => return None,
        }
        let bytes = start.get(..start.len().checked_sub(rest.len())?)?;
        Some(RawField { number: key >> 3, bytes, payload })
    }

    /// Returns the value if this is the length-delimited field `number`.
    pub fn delimited(&self, number: u32) -> Option<&'a [u8]> {
        self.payload.filter(|_| self.number == u64::from(number))
    }
}

/// Takes a length and as many bytes off `rest`.
pub fn take_delimited<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = decode_varint(rest).ok()?;
    let (payload, tail) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    *rest = tail;
    Some(payload)
}

/// A field that holds messages or strings, and the same for the fields within it.
#[derive(Debug)]
pub struct Nested(pub u32, pub &'static [Nested]);

/// Checks the size of a message, and how many values its `fields` hold, before a parser allocates memory for them: two
/// bytes of input can become a structure of two hundred.
///
/// Malformed input passes: the parser refuses it, and only what precedes the fault could cost memory.
///
/// # Errors
/// [`ckpt_api::Kind::Limit`].
pub fn check_size(message: &[u8], fields: &'static [Nested], limits: &Limits) -> Result<()> {
    limits.check(Limit::HeaderBytes, message.len() as u64)?;
    limits.check(Limit::GraphNodes, count(message, fields))
}

fn count(message: &[u8], fields: &'static [Nested]) -> u64 {
    let mut found = 0u64;
    let mut open = vec![(message, fields)];
    while let Some((mut rest, fields)) = open.pop() {
        while let Some(field) = RawField::take(&mut rest) {
            let known = fields.iter().find(|nested| u64::from(nested.0) == field.number);
            let (Some(payload), Some(nested)) = (field.payload, known) else { continue };
            found += 1;
            if !nested.1.is_empty() {
                open.push((rest, fields));
                open.push((payload, nested.1));
                break;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::encoding::{encode_varint, encoded_len_varint};

    const FIELDS: &[Nested] = &[Nested(1, &[Nested(2, &[])])];

    fn varint(mut bytes: &[u8]) -> Option<(u64, usize)> {
        decode_varint(&mut bytes).ok().map(|value| (value, bytes.len()))
    }

    #[test]
    fn a_varint_is_read_to_its_last_byte() {
        assert_eq!(varint(&[0x05, 9]), Some((5, 1)));
        assert_eq!(varint(&[0x80, 0x01]), Some((128, 0)));
        let largest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(varint(&largest), Some((u64::MAX, 0)));
    }

    #[test]
    fn a_varint_without_an_end_or_of_more_than_64_bits_is_refused() {
        let mut long = [0xff; 12];
        for last in [0x02, 0x7f, 0x80, 0xff] {
            long[9] = last;
            for len in 10..=long.len() {
                assert_eq!(varint(&long[..len]), None, "{last} {len}");
            }
        }
        for bytes in [&[][..], &[0x80], &[0x80; 9], &[0xff; 11]] {
            assert_eq!(varint(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_varint_is_written_as_it_is_read() {
        for shift in 0..64 {
            for value in [0, (1u64 << shift) - 1, 1 << shift, u64::MAX >> shift] {
                let mut bytes = Vec::new();
                encode_varint(value, &mut bytes);
                assert_eq!(varint(&bytes), Some((value, 0)));
                assert_eq!(bytes.len(), encoded_len_varint(value));
            }
        }
    }

    #[test]
    fn a_field_has_its_number_its_bytes_and_the_value_of_one_with_a_length() {
        let message = [0x08, 0x96, 0x01, 0x12, 2, 7, 8, 0x1d, 1, 2, 3, 4, 0x21, 1, 2, 3, 4, 5, 6, 7, 8, 0x28];
        let mut rest = &message[..];
        let mut next =
            || RawField::take(&mut rest).map(|field| (field.number, field.bytes.len(), field.payload));
        assert_eq!(next(), Some((1, 3, None)));
        assert_eq!(next(), Some((2, 4, Some(&[7, 8][..]))));
        assert_eq!(next(), Some((3, 5, None)));
        assert_eq!(next(), Some((4, 9, None)));
        assert_eq!(next(), None);
    }

    #[test]
    fn a_field_that_is_cut_short_or_is_a_group_is_refused() {
        let long = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02, 0];
        let delimited = [&[0x0a][..], &[0xff; 9], &[0x02]].concat();
        for bytes in
            [&[][..], &long, &delimited, &[0x0b], &[0x0c], &[0x0d, 1, 2, 3], &[0x09, 1], &[0x0a, 2, 1]]
        {
            assert_eq!(RawField::take(&mut &bytes[..]), None, "{bytes:?}");
        }
    }

    #[test]
    fn nested_messages_are_counted_before_they_are_parsed() {
        let bytes = [0x0a, 4, 0x12, 0, 0x12, 0, 0x0a, 0, 0x18, 5];
        assert_eq!(count(&bytes, FIELDS), 4);
    }

    #[test]
    fn more_messages_than_the_limit_are_refused() {
        let mut limits = Limits::default();
        limits.set(Limit::GraphNodes, 3);
        assert!(check_size(&[0x0a, 0].repeat(3), FIELDS, &limits).is_ok());
        let error = check_size(&[0x0a, 0].repeat(4), FIELDS, &limits).unwrap_err();
        assert_eq!(error.kind(), ckpt_api::Kind::Limit);
    }
}
