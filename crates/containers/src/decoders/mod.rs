//! Decoders that codecs share: each is registered by the codecs whose files need it.
//!
//! ```
//! use ckpt_api::{Compression, Extent, FileId, Input};
//! use ckpt_containers::decoders::DEFLATE;
//! // "aaaaaaaa", deflated.
//! let stored = b"\x4b\x4c\x84\x00\x00".to_vec();
//! let file = Input::memory("f", [("f".to_owned(), stored)].into()).main()?;
//! let extent = Extent::new(FileId(0), 0, 8).with_compression(Compression::new(DEFLATE, 5));
//! assert_eq!(extent.open(&file)?.bytes(2, 6)?, b"aaaaaa");
//! # Ok::<(), ckpt_api::Error>(())
//! ```

mod inflate;
mod latin1;
mod lzf;
mod numbers;
mod zstandard;

/// Stored bytes, from the first to the last: of a file, or what another decoder makes.
pub type Stored = Box<dyn std::io::Read + Send>;

pub use inflate::{DEFLATE, GZIP, ZLIB, decode_gzip, decode_zlib, longest_deflate};
pub use latin1::LATIN1;
pub use lzf::LZF;
pub use numbers::{PROTOBUF, ProtobufNumbers};
pub use zstandard::{ZSTD, decode_zstd, longest_zstd};
