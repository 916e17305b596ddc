//! Compressed extents read as their bytes, in any order, and damage in them is found.

use ckpt_api::{
    Compression, DType, Decoder, Encoding, Extent, File, FileId, Input, Kind, Limit, Limits, Placement,
    ReadAt, Shape, Tensor, TensorId,
};
use ckpt_containers::decoders::{DEFLATE, GZIP, LATIN1, LZF, PROTOBUF, ProtobufNumbers, ZLIB, ZSTD};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::num::{NonZeroU8, NonZeroU32};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const METHODS: [&Decoder; 6] = [Decoder::STORED, DEFLATE, ZLIB, GZIP, ZSTD, LATIN1];

fn compressed(method: &Decoder, bytes: &[u8]) -> Vec<u8> {
    let level = flate2::Compression::default();
    match method.name() {
        "deflate" => {
            let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), level);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        "zlib" => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        "gzip" => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        "zstd" => ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest),
        "latin1" => bytes.iter().map(|byte| char::from(*byte)).collect::<String>().into_bytes(),
        _ => bytes.to_vec(),
    }
}

/// All first bytes of the elements, then all second ones; bytes that fill no element stay at the end.
fn shuffled(bytes: &[u8], size: usize) -> Vec<u8> {
    let whole = bytes.len() / size * size;
    let planes = (0..size).flat_map(|at| bytes[..whole].iter().skip(at).step_by(size));
    planes.chain(&bytes[whole..]).copied().collect()
}

fn file(bytes: Vec<u8>) -> File {
    Input::memory("f", BTreeMap::from([("f".to_owned(), bytes)])).main().unwrap()
}

/// The extent between three bytes that are not its own, and the file.
fn stored(method: &'static Decoder, bytes: &[u8], skip: usize, shuffle: Option<u32>) -> (File, Extent) {
    let plain = shuffle.map_or_else(|| bytes.to_vec(), |size| shuffled(bytes, size as usize));
    let packed = compressed(method, &plain);
    let mut compression = Compression::new(method, packed.len() as u64).skipping(skip as u64);
    compression.shuffled = shuffle.and_then(NonZeroU32::new);
    let extent = Extent::new(FileId(0), 3, (bytes.len() - skip) as u64).with_compression(compression);
    (file([b"abc", &packed[..], b"abc"].concat()), extent)
}

/// Bytes that compress a little.
fn some_bytes(len: usize) -> Vec<u8> {
    (0..len as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 27) as u8).collect()
}

proptest! {
    #[test]
    fn an_extent_reads_as_its_bytes_in_any_order(
        method in prop::sample::select(&METHODS[..]),
        bytes in prop::collection::vec(0u8..9, 0..300),
        skip in 0usize..40,
        shuffle in prop::option::of(1u32..9),
        reads in prop::collection::vec((0usize..300, 0usize..300), 0..6),
    ) {
        let skip = skip.min(bytes.len());
        let (file, extent) = stored(method, &bytes, skip, shuffle);
        let opened = extent.open(&file).unwrap();
        prop_assert_eq!(opened.len(), extent.len);
        for (from, len) in reads {
            let plain = &bytes[skip..];
            let inside = plain.get(from..from + len);
            let found = opened.bytes(from as u64, len as u64);
            prop_assert_eq!(inside.is_some(), found.is_ok());
            prop_assert_eq!(inside.map(<[u8]>::to_vec), found.ok());
        }
    }

    #[test]
    fn no_damage_makes_reading_panic(
        method in prop::sample::select(&METHODS[..]),
        at in 0usize..400,
        value in any::<u8>(),
    ) {
        let bytes = some_bytes(400);
        let mut packed = compressed(method, &bytes);
        let at = at % packed.len();
        packed[at] = value;
        let compression = Compression::new(method, packed.len() as u64);
        let extent = Extent::new(FileId(0), 0, 400).with_compression(compression);
        if let Err(error) = extent.open(&file(packed)).and_then(|file| file.bytes(0, 400)) {
            prop_assert!(matches!(error.kind(), Kind::Corrupt | Kind::Unsupported), "{error}");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "decompresses megabytes")]
fn a_large_extent_reads_as_its_bytes_forwards_and_after_a_step_back() {
    let bytes = some_bytes(3 << 20);
    for method in METHODS {
        let (file, extent) = stored(method, &bytes, 5, None);
        let opened = extent.open(&file).unwrap();
        let plain = &bytes[5..];
        for (from, len) in
            [(0, 10), (10, 1 << 20), (2 << 20, 77), (5, 9), (plain.len() - 3, 3), (0, plain.len())]
        {
            let found = opened.bytes(from as u64, len as u64).unwrap();
            assert!(found == plain[from..from + len], "{method:?} {from} {len}");
        }
    }
}

/// Bytes, and how many of them were read.
#[derive(Debug)]
struct Counting(Vec<u8>, AtomicU64);

impl ReadAt for Counting {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read_at(offset, buffer)?;
        self.1.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

#[test]
#[cfg_attr(miri, ignore = "decompresses megabytes")]
fn a_large_extent_that_is_read_forwards_is_decompressed_once() {
    let bytes = some_bytes(3 << 20);
    let packed = compressed(DEFLATE, &bytes);
    let len = packed.len() as u64;
    let counting = Arc::new(Counting(packed, AtomicU64::new(0)));
    let file = File::new(counting.clone(), "f").unwrap();
    let extent = Extent::new(FileId(0), 0, 3 << 20).with_compression(Compression::new(DEFLATE, len));
    let opened = extent.open(&file).unwrap();
    for at in (0..3 << 20).step_by(1 << 16) {
        opened.bytes(at, 1 << 16).unwrap();
    }
    assert_eq!(counting.1.load(Ordering::Relaxed), len);
}

#[test]
fn an_extent_that_decompresses_to_more_or_fewer_bytes_is_corrupt() {
    for method in [DEFLATE, ZLIB, GZIP, ZSTD] {
        let bytes = some_bytes(400);
        for (len, said) in [(399, "longer than"), (401, "shorter than")] {
            let (file, mut extent) = stored(method, &bytes, 0, None);
            extent.len = len;
            let error = extent.open(&file).unwrap().bytes(0, len).unwrap_err();
            assert!(error.kind() == Kind::Corrupt && error.to_string().contains(said), "{method:?} {error}");
            assert!(error.to_string().contains("offset 3"), "{error}");
        }
    }
}

/// The extent with another number of compressed bytes.
fn with_stored(extent: Extent, stored: impl FnOnce(u64) -> u64) -> Extent {
    let mut compression = extent.compression().unwrap().clone();
    compression.stored = stored(compression.stored);
    extent.with_compression(compression)
}

#[test]
fn bytes_that_follow_within_the_extents_place_are_corrupt() {
    for method in METHODS {
        let (file, mut extent) = stored(method, &some_bytes(400), 0, None);
        extent = with_stored(extent, |stored| stored + 1);
        let error = extent.open(&file).unwrap().bytes(0, 400).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{method:?} {error}");
    }
}

#[test]
fn the_checksums_of_zlib_gzip_and_zstandard_are_verified() {
    let bytes = some_bytes(400);
    let mut seen = 0;
    for method in [ZLIB, GZIP, ZSTD] {
        let mut packed = compressed(method, &bytes);
        *packed.last_mut().unwrap() ^= 1;
        let extent =
            Extent::new(FileId(0), 0, 400).with_compression(Compression::new(method, packed.len() as u64));
        let error = extent.open(&file(packed)).unwrap().bytes(0, 400).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{method:?} {error}");
        seen += 1;
    }
    assert_eq!(seen, 3);
}

#[test]
fn a_frame_with_a_window_above_8_mib_is_unsupported() {
    // Magic number; a descriptor without content size; the window descriptor; one empty last block.
    let frame = |exponent: u8| [0x28, 0xb5, 0x2f, 0xfd, 0, exponent << 3, 1, 0, 0];
    let read = |exponent: u8| {
        let extent = Extent::new(FileId(0), 0, 1).with_compression(Compression::new(ZSTD, 9));
        extent.open(&file(frame(exponent).to_vec())).unwrap().bytes(0, 1).unwrap_err()
    };
    assert_eq!(read(13).kind(), Kind::Corrupt, "{}", read(13));
    assert_eq!(read(14).kind(), Kind::Unsupported, "{}", read(14));
}

#[test]
fn a_place_outside_the_file_is_corrupt() {
    let (file, extent) = stored(DEFLATE, &some_bytes(400), 0, None);
    let at = |offset: u64| {
        let mut moved = extent.clone();
        moved.offset = offset;
        moved
    };
    for outside in [at(4 + 3), at(u64::MAX), with_stored(extent.clone(), |_| u64::MAX)] {
        assert_eq!(outside.open(&file).unwrap_err().kind(), Kind::Corrupt);
    }
}

#[test]
fn a_length_that_so_few_bytes_cannot_hold_is_corrupt_before_anything_is_read() {
    let (file, mut extent) = stored(DEFLATE, &some_bytes(400), 0, None);
    extent.len = 1 << 40;
    let error = extent.open(&file).unwrap_err();
    assert!(
        error.kind() == Kind::Corrupt && error.to_string().contains("too short for the tensor"),
        "{error}"
    );
}

/// A file that has a size and cannot be read.
#[derive(Debug)]
struct Failing(u64);

impl ReadAt for Failing {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0)
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("the disk is gone"))
    }
}

#[test]
fn a_file_that_cannot_be_read_is_no_damage() {
    for method in METHODS {
        let packed = compressed(method, &some_bytes(400));
        let extent =
            Extent::new(FileId(0), 0, 400).with_compression(Compression::new(method, packed.len() as u64));
        let file = File::new(Arc::new(Failing(packed.len() as u64)), "f").unwrap();
        let error = extent.open(&file).unwrap().bytes(0, 400).unwrap_err();
        assert!(error.kind() == Kind::Io && error.to_string().contains("the disk is gone"), "{error}");
    }
}

#[test]
fn a_shuffled_chunk_above_the_limit_is_refused() {
    let (_, extent) = stored(ZLIB, &some_bytes(400), 0, Some(4));
    let tensor = Tensor::new("w", DType::F32, Shape::new([100]).unwrap());
    let placement = Placement::new(TensorId(0), "w", vec![extent], Encoding::row_major(&tensor));
    let mut contents = ckpt_api::Contents::default();
    contents.checkpoint.tensors.push(tensor);
    contents.placements.push(placement);
    contents.files.push("f".to_owned());
    contents.check(&Limits::default().with(Limit::ChunkBytes, 400)).unwrap();
    let error = contents.check(&Limits::default().with(Limit::ChunkBytes, 399)).unwrap_err();
    assert!(error.kind() == Kind::Limit && error.to_string().contains("chunk_bytes"), "{error}");
}

#[test]
fn bytes_of_others_after_an_extent_are_decompressed_and_left_out() {
    let bytes = some_bytes(400);
    for method in METHODS {
        let (file, mut extent) = stored(method, &bytes, 20, None);
        extent.len = 300;
        let after = |after| {
            let compression = extent.compression().cloned().map(|all| all.followed_by(after));
            let own = extent.clone().with_compression(compression);
            own.open(&file).and_then(|opened| opened.bytes(0, 300))
        };
        assert_eq!(after(80).unwrap(), bytes[20..320], "{method:?}");
        for wrong in [79, 81] {
            let error = after(wrong).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt, "{method:?} {wrong}: {error}");
        }
        assert_eq!(after(u64::MAX).unwrap_err().kind(), Kind::Corrupt, "{method:?}: no number of bytes");
    }
}

/// An extent of `len` bytes that are these bytes of a field.
fn field(stored: &[u8], tag_bytes: u8, element: u8, is_varint: bool, len: u64) -> ckpt_api::Result<Vec<u8>> {
    let element_bytes = NonZeroU8::new(element).unwrap();
    let numbers = ProtobufNumbers { tag_bytes, element_bytes, is_varint };
    let compression = numbers.compression(stored.len() as u64);
    let extent = Extent::new(FileId(0), 0, len).with_compression(compression);
    extent.open(&file(stored.to_vec()))?.bytes(0, len)
}

#[test]
fn numbers_of_a_protocol_buffer_become_elements() {
    let minus_two = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let packed = [&[0xac, 0x02][..], &minus_two].concat();
    assert_eq!(field(&packed, 0, 2, true, 4).unwrap(), [300i16, -2].map(i16::to_le_bytes).concat());
    assert_eq!(field(&packed, 0, 8, true, 16).unwrap(), [300i64, -2].map(i64::to_le_bytes).concat());
    let tagged = [&[0x28, 0xac, 0x02, 0x28][..], &minus_two].concat();
    assert_eq!(field(&tagged, 1, 4, true, 8).unwrap(), [300i32, -2].map(i32::to_le_bytes).concat());
    let fixed = [0x25, 1, 2, 3, 4, 0x25, 5, 6, 7, 8];
    assert_eq!(field(&fixed, 1, 4, false, 8).unwrap(), [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn numbers_of_a_protocol_buffer_that_are_too_few_too_many_or_cut_are_refused() {
    for (stored, len) in [(&[1, 2][..], 3), (&[1, 2], 1), (&[1, 0x80], 2), (&[0x80; 12], 2), (&[1], 9)] {
        let error = field(stored, 0, 1, true, len).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{stored:?}: {error}");
    }
}

#[test]
fn a_text_with_other_characters_than_bytes_is_refused() {
    let decode = |text: &[u8], len: u64| {
        let compression = Compression::new(LATIN1, text.len() as u64);
        Extent::new(FileId(0), 0, len).with_compression(compression).open(&file(text.to_vec()))?.bytes(0, len)
    };
    assert_eq!(decode("a\u{80}\u{ff}\0".as_bytes(), 4).unwrap(), [b'a', 0x80, 0xff, 0]);
    for (text, len) in [
        (&"\u{100}"[..].as_bytes(), 1),
        (&"\u{20ac}"[..].as_bytes(), 1),
        (&&b"\xc3"[..], 1),
        (&&b"\xc3a"[..], 1),
        (&&b"\xc1\xbf"[..], 1),
        (&&b"\x80"[..], 1),
        (&&b"abc"[..], 2),
        (&&b"\xc3\xbfa"[..], 3),
    ] {
        let error = decode(text, len).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{text:?}: {error}");
    }
}

#[test]
fn plans_name_each_decoder_and_its_parameters() {
    let numbers =
        ProtobufNumbers { tag_bytes: 1, element_bytes: NonZeroU8::new(4).unwrap(), is_varint: true };
    let four = NonZeroU32::new(4).unwrap();
    for (compression, json) in [
        (Compression::new(DEFLATE, 9).skipping(128), r#"{"method":"deflate","stored":9,"skip":128}"#),
        (
            Compression::new(ZLIB, 9).shuffled(four).with_fletcher32(),
            r#"{"method":"zlib","stored":9,"shuffled":4,"fletcher32":true}"#,
        ),
        (Compression::new(ZSTD, 9).followed_by(3), r#"{"method":"zstd","stored":9,"after":3}"#),
        (Compression::new(LZF, 9), r#"{"method":"lzf","stored":9}"#),
        (Compression::new(LATIN1, 9), r#"{"method":"latin1","stored":9}"#),
        (
            numbers.compression(9),
            r#"{"method":{"protobuf":{"tag_bytes":1,"element_bytes":4,"is_varint":true}},"stored":9}"#,
        ),
    ] {
        assert_eq!(serde_json::to_string(&compression).unwrap(), json);
        let mut read: Compression = serde_json::from_str(json).unwrap();
        assert!(read == compression && !read.has_decoder());
        read.attach(&[DEFLATE, ZLIB, ZSTD, LZF, LATIN1, PROTOBUF]);
        assert!(read.has_decoder(), "{json}");
    }
}
