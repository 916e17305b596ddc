//! Protocol buffers: fields of a file, fields of a message in memory, and their writer; and the text form ([`Text`]).
//!
//! A file may have gigabytes of tensors between its fields. [`Wire`] reads such a file and returns where bytes are;
//! [`RawField`] borrows from a message that is in memory as a whole. Numbers of a repeated field that become elements of
//! a tensor have a decoder, [`crate::decoders::PROTOBUF`].
//!
//! ```
//! use ckpt_containers::protobuf::{RawField, put_bytes, put_int};
//! let mut message = Vec::new();
//! put_int(&mut message, 1, 300);
//! put_bytes(&mut message, 2, b"name");
//! let mut rest = &message[..];
//! assert_eq!(RawField::take(&mut rest).map(|field| field.number), Some(1));
//! assert_eq!(RawField::take(&mut rest).and_then(|field| field.delimited(2)), Some(&b"name"[..]));
//! assert!(rest.is_empty());
//! ```

mod fields;
mod text;
mod wire;
mod write;

pub use fields::{Nested, RawField, check_size, take_delimited};
pub use text::{Message, Text};
pub use wire::{Field, Value, Wire, WireFormat};
pub use write::{put_bytes, put_int, put_len, put_varint};
