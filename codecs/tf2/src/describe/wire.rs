//! Counting messages before a parser allocates for them: two bytes of input can become a structure of two hundred.

use ckpt_api::{Limit, Limits, Result};

/// A field that holds messages or strings, and those within.
pub(super) struct Field(pub u64, pub &'static [Field]);

/// Checks the size of `bytes` and the number of messages in `fields` against `limits`. Malformed input passes: the
/// parser refuses it, and only what lies before the fault could cost memory.
///
/// # Errors
/// [`ckpt_api::Kind::Limit`].
pub(super) fn check(bytes: &[u8], fields: &'static [Field], limits: &Limits) -> Result<()> {
    limits.check(Limit::HeaderBytes, bytes.len() as u64)?;
    limits.check(Limit::GraphNodes, count(bytes, fields))
}

fn count(bytes: &[u8], fields: &'static [Field]) -> u64 {
    let mut found = 0u64;
    let mut open = vec![(bytes, fields)];
    while let Some((mut rest, fields)) = open.pop() {
        while let Some((read, after)) = next_field(rest) {
            rest = after;
            let known = fields.iter().find(|field| field.0 == read.number);
            let (Some(payload), Some(field)) = (read.payload, known) else { continue };
            found += 1;
            if !field.1.is_empty() {
                open.push((rest, fields));
                open.push((payload, field.1));
                break;
            }
        }
    }
    found
}

struct Read<'a> {
    number: u64,
    /// The bytes of a field that has a length.
    payload: Option<&'a [u8]>,
}

/// The first field, and what follows.
fn next_field(bytes: &[u8]) -> Option<(Read<'_>, &[u8])> {
    let (tag, rest) = varint(bytes)?;
    let (payload, rest) = match tag & 7 {
        0 => (None, varint(rest)?.1),
        1 => (None, rest.get(8..)?),
        2 => {
            let (len, rest) = varint(rest)?;
            let (payload, rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
            (Some(payload), rest)
        }
        5 => (None, rest.get(4..)?),
        _ => return None,
    };
    Some((Read { number: tag >> 3, payload }, rest))
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f).checked_shl(7 * u32::try_from(index).ok()?)?;
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(index + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &[Field] = &[Field(1, &[Field(2, &[])])];

    #[test]
    fn nested_messages_are_counted_before_they_are_parsed() {
        let bytes = [0x0a, 4, 0x12, 0, 0x12, 0, 0x0a, 0, 0x18, 5];
        assert_eq!(count(&bytes, FIELDS), 4);
    }

    #[test]
    fn more_messages_than_the_limit_are_refused() {
        let mut limits = Limits::default();
        limits.set(Limit::GraphNodes, 3);
        assert!(check(&[0x0a, 0].repeat(3), FIELDS, &limits).is_ok());
        assert_eq!(check(&[0x0a, 0].repeat(4), FIELDS, &limits).unwrap_err().kind(), ckpt_api::Kind::Limit);
    }
}
