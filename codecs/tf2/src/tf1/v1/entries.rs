//! The entries of the table, without their values.

use super::super::stored::{MESSAGES, Stored, dims};
use super::block::Block;
use crate::format::{SliceExtent, slice_extents};
use crate::proto::TensorSliceProto;
use crate::table;
use ckpt_api::fields::{le, varint};
use ckpt_api::{Error, Fields, File, Limit, Limits, Result};
use ckpt_containers::protobuf::{Field, Wire};
use prost::Message;
use std::ops::Range;

/// Longest first entry's head: two lengths of 0, that of the value, and the value's first byte.
const HEAD: u64 = 16;
/// Key of the length-delimited field 1 of `SavedTensorSlices`: the description of all tensors.
const DESCRIPTION_TAG: u8 = 0x0a;
/// Bytes of one restart point, and of their number.
const RESTART: u64 = 4;

/// A tensor, as the first entry describes it.
#[derive(Debug, Default)]
pub(super) struct Described {
    pub name: String,
    /// TensorFlow's number of the dtype.
    pub dtype: i32,
    pub dims: Vec<i64>,
}

impl Described {
    /// Whether the elements are strings.
    pub fn is_text(&self) -> bool {
        self.dtype == 7
    }
}

/// The values of a tensor, or of a slice of one.
pub(super) struct Data {
    pub name: String,
    pub slice: Vec<SliceExtent>,
    pub values: Stored,
    pub block: Block,
}

/// All entries.
#[derive(Default)]
pub(super) struct Entries {
    pub described: Vec<Described>,
    pub data: Vec<Data>,
}

/// Whether the first entry has an empty key, and describes tensors.
pub(super) fn describes(file: &File) -> Result<bool> {
    let head = file.bytes(0, file.len().min(HEAD))?;
    let Some(mut rest) = head.strip_prefix(&[0, 0]) else { return Ok(false) };
    let has_length = prost::encoding::decode_varint(&mut rest).is_ok();
    Ok(has_length && rest.first() == Some(&DESCRIPTION_TAG))
}

/// Reads the entries of all blocks.
pub(super) fn read(file: &File, limits: &Limits) -> Result<Entries> {
    let mut entries = Entries::default();
    let (mut is_first, mut end) = (true, 0);
    for (offset, size) in table::blocks(file, limits)? {
        if offset < end {
            return Err(Error::corrupt("a block starts before the previous one ends").offset(offset));
        }
        end = offset.saturating_add(size);
        let block = Block::new(file, offset, size)?;
        if is_first {
            // No tensor's values are the description, whose checksum is verified here.
            block.verify(file)?;
        }
        let restarts =
            Fields::range(file, end.saturating_sub(RESTART), RESTART.min(size))?.parse(le::<u32>)?;
        let tail = u64::from(restarts).saturating_add(1).saturating_mul(RESTART);
        let len = size.checked_sub(tail).filter(|_| restarts > 0);
        let len = len.ok_or_else(|| {
            Error::corrupt("a block is too short for its restart points")
                .offset(offset)
                .found(restarts.to_string())
        })?;
        let mut fields = Fields::range(file, offset, len)?;
        while fields.remaining() > 0 {
            let at = fields.position();
            let (_shared, own, value) = (fields.parse(varint)?, fields.parse(varint)?, fields.parse(varint)?);
            fields.skip(own)?;
            let start = fields.position();
            fields.skip(value)?;
            let range = start..fields.position();
            match std::mem::take(&mut is_first) {
                true => entries.describe(file, limits, range),
                false => entries.add(file, limits, range, block),
            }
            .map_err(|error| if error.context().offset.is_some() { error } else { error.offset(at) })?;
        }
    }
    Ok(entries)
}

impl Entries {
    fn describe(&mut self, file: &File, limits: &Limits, range: Range<u64>) -> Result<()> {
        let end = range.end;
        let mut wire = Wire::within(file, limits, &MESSAGES, range)?;
        while let Some(field) = wire.field(end)? {
            if field.number == 1 {
                let end = wire.range(&field)?.end;
                while let Some(field) = wire.field(end)? {
                    if field.number == 1 {
                        limits.check(Limit::Tensors, self.described.len() as u64 + 1)?;
                        self.described.push(described(&mut wire, &field)?);
                    }
                    wire.skip(&field)?;
                }
            }
            wire.skip(&field)?;
        }
        Ok(())
    }

    fn add(&mut self, file: &File, limits: &Limits, range: Range<u64>, block: Block) -> Result<()> {
        let end = range.end;
        let mut wire = Wire::within(file, limits, &MESSAGES, range)?;
        while let Some(field) = wire.field(end)? {
            if field.number == 2 {
                limits.check(Limit::Tensors, self.data.len() as u64 + 1)?;
                self.data.push(data(&mut wire, &field, block)?);
            }
            wire.skip(&field)?;
        }
        Ok(())
    }
}

fn described(wire: &mut Wire, field: &Field) -> Result<Described> {
    let (mut tensor, end) = (Described::default(), wire.range(field)?.end);
    while let Some(field) = wire.field(end)? {
        match field.number {
            1 => tensor.name = wire.text(&field)?,
            2 => {
                let end = wire.range(&field)?.end;
                let dims = dims(wire, end)?;
                tensor.dims =
                    dims.ok_or_else(|| Error::corrupt("a tensor has no shape").offset(field.span.start))?;
            }
            3 => tensor.dtype = i32::try_from(wire.int(&field)?).unwrap_or(-1),
            _ => {}
        }
        wire.skip(&field)?;
    }
    Ok(tensor)
}

fn data(wire: &mut Wire, field: &Field, block: Block) -> Result<Data> {
    let end = wire.range(field)?.end;
    let mut data = Data { name: String::new(), slice: Vec::new(), values: Stored::default(), block };
    while let Some(field) = wire.field(end)? {
        match field.number {
            1 => data.name = wire.text(&field)?,
            2 => {
                let slice = TensorSliceProto::decode(&wire.bytes(&field)?[..]).map_err(|error| {
                    Error::corrupt("a slice is no TensorSliceProto")
                        .offset(field.span.start)
                        .found(error.to_string())
                })?;
                data.slice = slice_extents(&slice);
            }
            3 => data.values = Stored::read(wire, wire.range(&field)?.end)?,
            _ => {}
        }
        wire.skip(&field)?;
    }
    Ok(data)
}
