//! What a byte of msgpack begins.

use ckpt_api::fields::{Bytes, Parsed, array, be};
use ckpt_api::{Error, MetadataValue};

/// What begins with a byte.
pub(super) enum Token {
    Native(MetadataValue),
    Text(u64),
    Bytes(u64),
    Extension(u64),
    List(u64),
    Map(u64),
}

/// Parses the first byte of a value, and the number or the length that follows it.
pub(super) fn token(input: Bytes<'_>) -> Parsed<'_, Token> {
    let start = input.offset();
    let (rest, marker) = be::<u8>(input)?;
    let native = |value: MetadataValue| Token::Native(value);
    let integer = |number: u64| native(MetadataValue::integer(number));
    Ok(match marker {
        0x00..=0x7f => (rest, integer(marker.into())),
        0x80..=0x8f => (rest, Token::Map((marker & 15).into())),
        0x90..=0x9f => (rest, Token::List((marker & 15).into())),
        0xa0..=0xbf => (rest, Token::Text((marker & 31).into())),
        0xc0 => (rest, native(MetadataValue::Null)),
        0xc2 | 0xc3 => (rest, native((marker == 0xc3).into())),
        0xca => map(be::<f32>(rest)?, |number| native(number.into())),
        0xcb => map(be::<f64>(rest)?, |number| native(number.into())),
        0xd4..=0xd8 => (rest, Token::Extension(1 << (marker - 0xd4))),
        0xe0..=0xff => (rest, native(i64::from(marker.cast_signed()).into())),
        0xc1 => {
            let error = Error::corrupt("a byte begins no value").offset(start).found("0xc1");
            return Err(nom::Err::Error(error));
        }
        0xd0 => map(be::<i8>(rest)?, |number| native(i64::from(number).into())),
        0xd1 => map(be::<i16>(rest)?, |number| native(i64::from(number).into())),
        0xd2 => map(be::<i32>(rest)?, |number| native(i64::from(number).into())),
        0xd3 => map(be::<i64>(rest)?, |number| native(number.into())),
        // The lower bits say how many bytes the number has.
        0xcc..=0xcf => map(sized(rest, marker - 0xcc)?, integer),
        0xc4..=0xc6 => map(sized(rest, marker - 0xc4)?, Token::Bytes),
        0xc7..=0xc9 => map(sized(rest, marker - 0xc7)?, Token::Extension),
        0xd9..=0xdb => map(sized(rest, marker - 0xd9)?, Token::Text),
        0xdc | 0xdd => map(sized(rest, marker - 0xdb)?, Token::List),
        0xde | 0xdf => map(sized(rest, marker - 0xdd)?, Token::Map),
    })
}

fn map<'a, T>((rest, value): (Bytes<'a>, T), token: impl FnOnce(T) -> Token) -> (Bytes<'a>, Token) {
    (rest, token(value))
}

/// A big-endian number of 2 to the power of `log` bytes.
fn sized(input: Bytes<'_>, log: u8) -> Parsed<'_, u64> {
    let wide = |(rest, bytes): (_, &[u8])| {
        (rest, bytes.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte)))
    };
    match log {
        0 => array::<1>(input).map(|(rest, bytes)| wide((rest, &bytes))),
        1 => array::<2>(input).map(|(rest, bytes)| wide((rest, &bytes))),
        2 => array::<4>(input).map(|(rest, bytes)| wide((rest, &bytes))),
        _ => array::<8>(input).map(|(rest, bytes)| wide((rest, &bytes))),
    }
}
