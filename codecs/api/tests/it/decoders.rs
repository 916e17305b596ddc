//! Extents are read through decoders of any kind: of the contract, and of a stranger.

use ckpt_api::{
    Compression, DType, DecodeStream, Decoder, Encoding, Extent, File, FileId, Input, Kind, Limit, Limits,
    Parameters, Placement, Result, Shape, StoredBytes, Tensor, TensorId,
};
use std::io::{self, Read};

fn file(bytes: Vec<u8>) -> File {
    Input::memory("f", [("f".to_owned(), bytes)].into()).main().unwrap()
}

/// The contents of a checkpoint with one tensor of 400 bytes, checked against a limit of decoded chunks.
fn check(extent: Extent, most: u64) -> Result<()> {
    let tensor = Tensor::new("w", DType::F32, Shape::new([100]).unwrap());
    let placement = Placement::new(TensorId(0), "w", vec![extent], Encoding::row_major(&tensor));
    let mut contents = ckpt_api::Contents::default();
    contents.checkpoint.tensors.push(tensor);
    contents.placements.push(placement);
    contents.files.push("f".to_owned());
    contents.check(&Limits::default().with(Limit::ChunkBytes, most))
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32).map(|at| (at * 7) as u8).collect()
}

/// An extent of `len` bytes that repeats the bytes in a file.
fn repeated(pattern: &[u8], len: u64) -> Extent {
    let compression = Compression::new(Decoder::REPEATED, pattern.len() as u64);
    Extent::new(FileId(0), 0, len).with_compression(compression)
}

#[test]
fn bytes_are_repeated_up_to_the_length_of_the_extent() {
    let read = |pattern: &[u8], extent: Extent, from: u64, len: u64| {
        extent.open(&file(pattern.to_vec())).and_then(|opened| opened.bytes(from, len))
    };
    let pattern = [1, 2, 3, 4];
    assert_eq!(read(&pattern, repeated(&pattern, 10), 0, 10).unwrap(), [1, 2, 3, 4, 1, 2, 3, 4, 1, 2]);
    assert_eq!(read(&pattern, repeated(&pattern, 10), 7, 3).unwrap(), [4, 1, 2]);
    read(&pattern, repeated(&pattern, 10), 8, 3).unwrap_err();
    assert_eq!(read(&[], repeated(&[], 5), 1, 4).unwrap(), [0; 4], "zeros, where there are no bytes");
    let large = read(&pattern, repeated(&pattern, 3 << 20), (2 << 20) + 1, 3);
    assert_eq!(large.unwrap(), [2, 3, 4]);
}

#[test]
fn a_pattern_of_more_than_64_bytes_is_refused() {
    let read = |len: usize| {
        let pattern = pattern(len);
        repeated(&pattern, 130).open(&file(pattern.clone())).and_then(|opened| opened.bytes(0, 130))
    };
    assert_eq!(read(64).unwrap()[64..128], pattern(64));
    assert_eq!(read(65).unwrap_err().kind(), Kind::Unsupported);
}

#[test]
fn repeated_bytes_above_the_limit_are_refused() {
    check(repeated(&[], 400), 400).unwrap();
    let error = check(repeated(&[], 400), 399).unwrap_err();
    assert!(error.kind() == Kind::Limit && error.to_string().contains("chunk_bytes"), "{error}");
}

#[test]
fn signs_that_no_byte_has_are_refused() {
    let json = r#"{"method":{"signs":{"period":4,"at":4}},"stored":8}"#;
    let compression: Compression = serde_json::from_str(json).unwrap();
    let extent = Extent::new(FileId(0), 0, 8).with_compression(compression);
    assert_eq!(extent.open(&file(vec![0; 8])).unwrap_err().kind(), Kind::Corrupt);
}

/// Bytes whose halves are swapped.
const HALVES: &Decoder = &Decoder::whole(
    "halves",
    |stored, _| stored + 1,
    |stored, parameters, out| {
        let (first, second) = stored.split_at(stored.len() / 2);
        let swapped = [second, first].concat();
        if swapped.first() == Some(&255) {
            return Err(io::Error::other("a byte of 255"));
        }
        let len = swapped.len().min(out.len());
        out[..len].copy_from_slice(&swapped[..len]);
        Ok(match parameters.flag("is_wrong") {
            Some(true) => out.len() + 1,
            _ => len,
        })
    },
);

fn halves(len: u64, stored: &[u8]) -> Result<Vec<u8>> {
    let extent =
        Extent::new(FileId(0), 0, len).with_compression(Compression::new(HALVES, stored.len() as u64));
    extent.open(&file(stored.to_vec()))?.bytes(0, len)
}

#[test]
fn a_decoder_of_all_bytes_gets_a_buffer_of_the_extents_length() {
    assert_eq!(halves(4, &[1, 2, 3, 4]).unwrap(), [3, 4, 1, 2]);
    let error = halves(5, &[1, 2, 3, 4]).unwrap_err();
    assert!(error.kind() == Kind::Corrupt && error.to_string().contains("shorter than"), "{error}");
    let error = halves(6, &[1, 2, 3, 4]).unwrap_err();
    assert!(error.to_string().contains("too short for the tensor"), "{error}");
    let error = halves(4, &[1, 2, 255, 4]).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("damaged") && text.contains("a byte of 255") && text.contains("halves"), "{text}");
}

#[test]
fn a_decoder_that_states_more_bytes_than_it_got_room_for_is_refused() {
    let parameters = Parameters::default().with_flag("is_wrong", true);
    let compression = Compression::new(HALVES, 4).with_parameters(parameters);
    let extent = Extent::new(FileId(0), 0, 4).with_compression(compression);
    let error = extent.open(&file(vec![1; 4])).unwrap().bytes(0, 4).unwrap_err();
    assert!(error.kind() == Kind::Corrupt && error.to_string().contains("longer than"), "{error}");
}

#[test]
fn what_is_decoded_at_once_counts_as_memory_and_is_bounded() {
    let extent =
        |len, stored| Extent::new(FileId(0), 0, len).with_compression(Compression::new(HALVES, stored));
    assert!(extent(400, 400).decompression_memory() >= 800);
    check(extent(400, 400), 400).unwrap();
    for (most, stored) in [(399, 400), (400, 401)] {
        let error = check(extent(400, stored), most).unwrap_err();
        assert!(error.kind() == Kind::Limit && error.to_string().contains("chunk_bytes"), "{error}");
    }
}

/// Every stored byte, with one added to it.
struct Added(StoredBytes);

impl Read for Added {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(out)?;
        out[..read].iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
        Ok(read)
    }
}

impl DecodeStream for Added {}

const ADDED: &Decoder =
    &Decoder::stream("added", |stored, _| stored, |stored, _, _| Ok(Box::new(Added(stored))))
        .with_memory(9 << 20);

#[test]
fn the_memory_of_a_stream_is_its_own_and_no_more_than_what_it_decodes() {
    let memory = |len| {
        let extent = Extent::new(FileId(0), 0, len).with_compression(Compression::new(ADDED, len));
        extent.decompression_memory()
    };
    assert!(memory(100) < 1 << 20);
    assert!((9 << 20..10 << 20).contains(&memory(1 << 30)));
}

#[test]
fn a_stream_is_read_in_any_order() {
    let stored: Vec<u8> = (0..3u32 << 20).map(|at| (at >> 7) as u8).collect();
    let len = stored.len() as u64;
    let extent = Extent::new(FileId(0), 0, len).with_compression(Compression::new(ADDED, len));
    let opened = extent.open(&file(stored.clone())).unwrap();
    for at in [0usize, 2 << 20, 77] {
        assert_eq!(opened.bytes(at as u64, 1).unwrap(), [stored[at].wrapping_add(1)]);
    }
}

#[test]
fn a_decoder_of_a_document_is_found_by_its_name() {
    let parameters = Parameters::default().with_number("width", 3).with_flag("is_wrong", false);
    let plain = Compression::new(HALVES, 4);
    for (compression, json) in [
        (plain.clone(), r#"{"method":"halves","stored":4}"#),
        (
            plain.with_parameters(parameters),
            r#"{"method":{"halves":{"width":3,"is_wrong":false}},"stored":4}"#,
        ),
    ] {
        assert_eq!(serde_json::to_string(&compression).unwrap(), json);
        let mut read: Compression = serde_json::from_str(json).unwrap();
        assert!(read == compression && !read.has_decoder());
        let extent = |compression: &Compression| {
            Extent::new(FileId(0), 0, 4).with_compression(compression.clone()).open(&file(vec![1, 2, 3, 4]))
        };
        let error = extent(&read).unwrap_err();
        assert!(error.kind() == Kind::Unsupported && error.to_string().contains("halves"), "{error}");
        read.attach(&[ADDED]);
        assert!(!read.has_decoder());
        read.attach(&[ADDED, HALVES]);
        assert!(read == compression && read.has_decoder());
        assert_eq!(extent(&read).unwrap().bytes(0, 4).unwrap(), [3, 4, 1, 2]);
    }
}

#[test]
fn the_decoders_of_the_contract_are_known_in_every_document() {
    for method in [r#""stored""#, r#""repeated""#, r#"{"signs":{"period":8,"at":7}}"#] {
        let json = format!(r#"{{"method":{method},"stored":4}}"#);
        let read: Compression = serde_json::from_str(&json).unwrap();
        assert!(read.has_decoder(), "{json}");
        assert_eq!(serde_json::to_string(&read).unwrap(), json);
    }
}

#[test]
fn a_document_that_names_no_decoder_is_refused() {
    for method in ["{}", "3", r#"{"a":{},"b":{}}"#, r#"{"a":{"x":"y"}}"#, r#"{"a":{"x":1,"x":2}}"#] {
        let json = format!(r#"{{"method":{method},"stored":4}}"#);
        assert!(serde_json::from_str::<Compression>(&json).is_err(), "{json}");
    }
}
