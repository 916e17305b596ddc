//! Arrays as extensions hold them: `[shape, dtype, bytes]`.

use super::token::{Token, token};
use crate::format::dtype::{StoredType, by_name};
use ckpt_api::fields::{Bytes, Parsed, bytes};
use ckpt_api::{Error, Fields, Result};

/// Axes of an array, at most.
pub(super) const MOST_RANK: u64 = 32;

/// Bytes of the name of a type, at most.
const LONGEST_TYPE: u64 = 64;

/// An array, whose bytes are in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArrayBytes {
    pub(super) shape: Vec<u64>,
    dtype: String,
    pub(super) offset: u64,
    pub(super) len: u64,
}

impl ArrayBytes {
    /// Parses the payload of an extension that ends at `end`, and skips the elements.
    pub(super) fn parse(fields: &mut Fields<'_>, end: u64) -> Result<ArrayBytes> {
        let at = fields.position();
        let wrong =
            |what: &'static str| Error::corrupt(what).offset(at).expected("[shape, name of the type, bytes]");
        let Token::List(3) = fields.parse(token)? else { return Err(wrong("an array has not three parts")) };
        let Token::List(rank) = fields.parse(token)? else { return Err(wrong("the shape is no list")) };
        if rank > MOST_RANK {
            return Err(Error::limit("an array has too many axes")
                .offset(at)
                .expected(format!("at most {MOST_RANK}")));
        }
        let mut shape = Vec::new();
        for _ in 0..rank {
            let Token::Native(len) = fields.parse(token)? else { return Err(wrong("a length is no number")) };
            shape.push(len.as_u64().ok_or_else(|| wrong("a length is no number from 0 on"))?);
        }
        let name = match fields.parse(token)? {
            Token::Text(len) if len <= LONGEST_TYPE => len,
            _ => return Err(wrong("the type has no name")),
        };
        let name = fields.parse(|input| owned(bytes(name)(input)))?;
        let dtype = String::from_utf8(name).map_err(|_| wrong("the name of the type is not UTF-8"))?;
        let Token::Bytes(len) = fields.parse(token)? else { return Err(wrong("the elements are no bytes")) };
        let offset = fields.position();
        if offset.checked_add(len) != Some(end) {
            return Err(wrong("the elements do not end with the array"));
        }
        fields.skip(len)?;
        Ok(ArrayBytes { shape, dtype, offset, len })
    }

    pub(super) fn stored(&self) -> Result<StoredType> {
        by_name(&self.dtype).map_err(|error| error.offset(self.offset))
    }
}

fn owned<'a>(parsed: Parsed<'a, &'a [u8]>) -> Parsed<'a, Vec<u8>> {
    parsed.map(|(rest, bytes): (Bytes<'a>, &[u8])| (rest, bytes.to_vec()))
}
