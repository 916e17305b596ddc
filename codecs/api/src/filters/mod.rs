//! Compressed bytes, read as if they were stored decompressed.

mod decompress;
mod fletcher;
mod latin1;
mod lzf;
mod protobuf_numbers;
mod section;
mod signs;
