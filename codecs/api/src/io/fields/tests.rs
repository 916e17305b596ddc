use super::*;
use crate::{Endian, Input, Kind};
use nom::Parser;
use nom::bytes::streaming::{tag, take};
use nom::multi::length_value;
use nom::number::streaming::{be_u16, le_u32};
use std::collections::BTreeMap;

fn file(bytes: &[u8]) -> File {
    Input::memory("f", BTreeMap::from([("f".to_owned(), bytes.to_vec())])).main().unwrap()
}

/// Numbers below 128, each of which is a varint.
fn small_numbers(count: u32) -> Vec<u8> {
    (0..count).map(|at| (at % 251) as u8 & 0x7f).collect()
}

#[test]
fn a_range_that_exceeds_the_file_is_refused() {
    let file = file(&[0; 20]);
    assert!(Fields::range(&file, 20, 0).is_ok());
    for (offset, len) in [(0, 21), (21, 0), (u64::MAX, 1), (1, u64::MAX)] {
        assert!(Fields::range(&file, offset, len).is_err(), "{offset} {len}");
    }
}

#[test]
fn fields_cross_the_ends_of_windows_but_not_of_the_range() {
    let bytes = small_numbers(300_000);
    let file = file(&bytes);
    let mut fields = Fields::range(&file, 1, 200_003).unwrap();
    for chunk in bytes[1..].chunks_exact(4).take(50_000) {
        let number = fields.parse(|input| field("number", le_u32)(input)).unwrap();
        assert_eq!(number.to_le_bytes(), chunk);
        assert!(fields.buffer.len() as u64 <= MAX_READ);
    }
    assert_eq!((fields.position(), fields.remaining()), (200_001, 3));
    assert!(fields.parse(|input| field("number", le_u32)(input)).is_err());
    assert!(fields.parse(le::<u32>).is_err());
    assert!(fields.skip(4).is_err() && fields.skip(u64::MAX).is_err());
    assert!(fields.bytes(4).is_err() && fields.bytes(u64::MAX).is_err());
    let last =
        fields.parse(|input| take(3usize).map(|last: Bytes<'_>| last.as_slice().to_vec()).parse(input));
    assert_eq!(last.unwrap(), bytes[200_001..200_004]);
}

#[test]
#[cfg_attr(miri, ignore = "its streams take minutes")]
fn varints_long_bytes_and_streams_cross_the_ends_of_windows() {
    let bytes = small_numbers(300_000);
    let file = file(&bytes);
    for start in [0, 1, 505, 511, 512, 513, 2559, 2560] {
        let mut fields = Fields::new(&file);
        for expected in &bytes[..start] {
            assert_eq!(fields.parse(varint).unwrap(), u64::from(*expected));
        }
        assert_eq!(fields.bytes(4).unwrap(), bytes[start..start + 4]);
        assert_eq!(fields.bytes(70_000).unwrap(), bytes[start + 4..][..70_000]);
        fields.skip(100_000).unwrap();
        let rest = &bytes[start + 170_004..];
        assert_eq!(fields.remaining(), rest.len() as u64);
        let (mut streamed, mut largest) = (Vec::<u8>::new(), 0);
        fields
            .stream(|bytes| {
                streamed.extend(bytes);
                largest = largest.max(bytes.len() as u64);
            })
            .unwrap();
        assert!(streamed == rest && largest <= MAX_READ, "{start}");
    }
}

#[test]
fn fields_that_no_window_takes_are_over_a_limit_and_not_cut_short() {
    let file = file(&[7; 100_000]);
    let mut fields = Fields::new(&file);
    let mut take_bytes = |len: usize| fields.parse(|input| field("text", take(len)).map(|_| ()).parse(input));
    assert_eq!(take_bytes(65_537).unwrap_err().kind(), Kind::Limit);
    assert_eq!(take_bytes(100_001).unwrap_err().kind(), Kind::Corrupt);
    take_bytes(65_536).unwrap();
    assert_eq!(fields.position(), 65_536);
}

#[test]
fn an_error_names_the_file_the_field_and_its_offset() {
    fn header(input: Bytes<'_>) -> Parsed<'_, ()> {
        let magic = tag::<_, Bytes<'_>, Error>(&b"CKPT"[..]);
        (magic, field("version", be_u16), field("count", le_u32)).map(|_| ()).parse(input)
    }
    let file = file(b"CKPT\x00\x02abc");
    let mut fields = Fields::new(&file);
    let error = fields.parse(header).unwrap_err();
    let context = error.context();
    assert_eq!((context.file, context.field, context.offset), (Some("f"), Some("count"), Some(6)));
    assert_eq!((context.found, context.expected), (Some("3 bytes left"), Some("4 bytes")));
    assert_eq!((error.message(), fields.position()), ("the file is cut short", 0));
}

#[test]
fn a_field_without_a_name_has_its_offset_in_the_error() {
    let file = file(&[1, 0, 2, 3, 4]);
    let mut fields = Fields::range(&file, 1, 4).unwrap().with_message("the table is cut short");
    let error = fields.parse(|input| (le::<u16>, le::<u32>).parse(input)).unwrap_err();
    assert_eq!((error.message(), error.context().file), ("the table is cut short", Some("f")));
    assert_eq!((error.context().offset, error.context().expected), (Some(3), Some("4 bytes")));
    let mut input = Bytes::new(&[1, 0, 2], 100).with_message("the record is cut short");
    let error = input.parse(numbers::<u16, 2>(Endian::Big)).unwrap_err();
    assert_eq!((error.message(), error.context().offset), ("the record is cut short", Some(102)));
    assert_eq!((error.context().found, error.context().expected), (Some("1 bytes left"), Some("2 bytes")));
    assert_eq!((input.offset(), input.remaining()), (100, 3));
}

#[test]
fn what_nom_misses_in_memory_is_an_error() {
    let mut input = Bytes::new(b"abc", 7);
    let error = input.parse(take(4usize).map(|_| ())).unwrap_err();
    assert_eq!((error.kind(), error.context().offset), (Kind::Corrupt, Some(7)));
    assert_eq!((error.context().found, error.context().expected), (Some("3 bytes left"), Some("4 bytes")));
}

#[test]
fn a_field_that_exceeds_the_part_with_its_length_is_an_error() {
    let file = file(&[&[2, 0, 1][..], &[7; 1000]].concat());
    let mut fields = Fields::new(&file);
    let error = fields.parse(|input| length_value(le::<u16>, le::<u32>).parse(input)).unwrap_err();
    assert_eq!((error.kind(), error.context().offset), (Kind::Corrupt, Some(2)));
    assert_eq!((error.context().found, error.context().expected), (Some("2 bytes left"), Some("4 bytes")));
    assert_eq!(fields.parse(|input| length_value(le::<u16>, le::<u16>).parse(input)).unwrap(), 0x0701);
}

#[test]
fn nothing_is_parsed_past_the_end_of_the_range() {
    let bytes = [0x80, 0x01, 1, 2, 3, 4, 0x80];
    let mut input = Bytes::new(&bytes, 10);
    assert_eq!((input.parse(varint).unwrap(), input.offset(), input.remaining()), (128, 12, 5));
    assert!(input.parse(super::bytes(6)).is_err() && input.parse(super::bytes(u64::MAX)).is_err());
    assert!(input.parse(le::<u64>).is_err() && input.parse(array::<6>).is_err());
    assert_eq!(input.parse(array).unwrap(), [1, 2, 3, 4]);
    assert!(input.parse(varint).is_err(), "the varint continues past the range");
    assert_eq!(Bytes::new(&[0xff; 11], 0).parse(varint).unwrap_err().context().offset, Some(0));
    let file = file(&bytes);
    let mut fields = Fields::range(&file, 6, 1).unwrap();
    assert_eq!(fields.parse(varint).unwrap_err().context().offset, Some(6));
}

#[test]
fn numbers_have_the_byte_order_of_their_parser() {
    let mut input = Bytes::new(&[1, 2, 3, 4, 5, 6, 7, 8], 0);
    assert_eq!(input.parse((le::<u16>, be::<u16>)).unwrap(), (0x0201, 0x0304));
    assert_eq!(input.parse(numbers::<i16, 2>(Endian::Big)).unwrap(), [0x0506, 0x0708]);
}

#[test]
fn a_count_is_checked_against_the_bytes_left() {
    let mut input = Bytes::new(&[2, 0, 0, 0, 1, 2, 3], 50);
    let error = input.parse(count(2, le::<u32>)).unwrap_err();
    assert_eq!(error.context().offset, Some(50));
    assert_eq!(
        (error.context().found, error.context().expected),
        (Some("3 bytes after it"), Some("at least 4 bytes"))
    );
    assert_eq!(input.parse(count(1, le::<u32>)).unwrap(), 2);
    let file = file(&[&[9, 0][..], &[0; 100_000]].concat());
    let counted = Fields::new(&file).parse(|input| count(10_000, le::<u16>)(input)).unwrap();
    assert_eq!(counted, 9, "the bytes left are those of the range, not of the window");
}

#[test]
fn a_text_is_utf_8_within_its_limit() {
    let limits = Limits::default().with(Limit::NameBytes, 2);
    let parse = |bytes: &[u8]| {
        let parsed = text(bytes.len() as u64, &limits, Limit::NameBytes);
        let in_memory = Bytes::new(bytes, 3).parse(parsed).map(str::to_owned);
        let file = file(&[b"...", bytes].concat());
        let mut fields = Fields::range(&file, 3, bytes.len() as u64).unwrap();
        let read = fields.text(bytes.len() as u64, &limits, Limit::NameBytes);
        let shown = |result: &Result<String>| match result {
            Ok(text) => format!("{text:?}"),
            Err(error) => format!("{:?} {:?}", error.kind(), error.context().offset),
        };
        assert_eq!(shown(&in_memory), shown(&read));
        read
    };
    assert_eq!(parse(b"ab").unwrap(), "ab");
    assert_eq!(parse(b"abc").unwrap_err().kind(), Kind::Limit);
    assert_eq!(parse(b"a\xff").unwrap_err().context().offset, Some(4));
}
