//! Object headers: the messages that describe a group or a dataset.

use super::space::{Block, Fields, Sizes, Space};
use crate::format::message;
use ckpt_api::fields::{le, skip};
use ckpt_api::{Error, Result};
use nom::Parser;
use nom::sequence::{preceded, terminated};
use std::collections::HashSet;

/// Bytes of the fixed part of a header of version 1, with its padding.
const PREFIX_1: u64 = 16;
/// Bytes of the longest fixed part of a header of version 2.
const PREFIX_2: u64 = 34;
/// A message says that nobody may go on who does not know it.
const FAIL_IF_UNKNOWN: u8 = 0x80;
const SHARED: u8 = 0x02;

/// One message.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) kind: u16,
    flags: u8,
    data: Vec<u8>,
    /// Offset of the data in the file.
    pub(crate) at: u64,
    sizes: Sizes,
}

impl Message {
    /// A message that is outside of an object header.
    pub(crate) fn new(kind: u16, data: Vec<u8>, at: u64, sizes: Sizes) -> Self {
        Message { kind, flags: 0, data, at, sizes }
    }

    /// Returns the fields of the message.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for a message that only refers to another one.
    pub(crate) fn fields(&self) -> Result<Fields<'_>> {
        if self.flags & SHARED == 0 {
            return Ok(Fields::new(&self.data, self.at, self.sizes));
        }
        let what = if self.kind == message::DATATYPE { "a committed datatype" } else { "a shared message" };
        Err(Error::unsupported(format!("the object uses {what}"))
            .offset(self.at)
            .help("copy the datasets into a new file with h5py"))
    }
}

/// Reads all messages of the object header at an address.
pub(crate) fn read(space: &Space<'_>, address: u64) -> Result<Vec<Message>> {
    let head = space.head(address, PREFIX_2, "an object header")?;
    let mut messages = Vec::new();
    let mut reader = Reader { space, messages: &mut messages, waiting: Vec::new(), tracks_order: false };
    let is_new = head.bytes.starts_with(b"OHDR");
    match is_new {
        true => reader.first_of_version_2(address, &head)?,
        false => reader.first_of_version_1(address, &head)?,
    }
    let mut seen = HashSet::new();
    while let Some((address, len)) = reader.waiting.pop() {
        if !seen.insert(address) {
            return Err(Error::corrupt("a part of an object header is named twice").offset(head.at));
        }
        let block = space.block(address, len, "a part of an object header")?;
        match is_new {
            true => {
                block.check_sum()?;
                let mut fields = block.signed(*b"OCHK")?;
                reader.messages_2(&mut fields)?;
            }
            false => reader.messages_1(&mut block.fields())?,
        }
    }
    Ok(messages)
}

struct Reader<'a, 's> {
    space: &'a Space<'s>,
    messages: &'a mut Vec<Message>,
    /// Parts of the header that are not read yet: address and length.
    waiting: Vec<(u64, u64)>,
    tracks_order: bool,
}

impl Reader<'_, '_> {
    fn first_of_version_1(&mut self, address: u64, head: &Block) -> Result<()> {
        let mut fields = head.fields();
        fields.version("an object header", &[1])?;
        let len = fields.parse(preceded(skip(7), le::<u32>))?.into();
        let start = address.saturating_add(PREFIX_1);
        let block = self.space.block(start, len, "an object header")?;
        self.messages_1(&mut block.fields())
    }

    fn messages_1(&mut self, fields: &mut Fields<'_>) -> Result<()> {
        while fields.remaining() >= 8 {
            let (kind, len, flags) = fields.parse(terminated((le, le::<u16>, le), skip(3)))?;
            self.message(kind, flags, len.into(), fields)?;
        }
        Ok(())
    }

    fn first_of_version_2(&mut self, address: u64, head: &Block) -> Result<()> {
        let mut fields = head.signed(*b"OHDR")?;
        fields.version("an object header", &[2])?;
        let flags = fields.parse(le::<u8>)?;
        fields.skip(if flags & 0x20 != 0 { 16 } else { 0 })?;
        fields.skip(if flags & 0x10 != 0 { 4 } else { 0 })?;
        self.tracks_order = flags & 0x04 != 0;
        let len = fields.number(1 << (flags & 3))?;
        let prefix = fields.position().saturating_sub(head.at);
        let total = len.saturating_add(prefix).saturating_add(4);
        let block = self.space.block(address, total, "an object header")?;
        block.check_sum()?;
        let mut fields = block.fields();
        fields.skip(prefix)?;
        self.messages_2(&mut fields)
    }

    /// Reads messages up to the checksum; fewer bytes than a message has are a gap.
    fn messages_2(&mut self, fields: &mut Fields<'_>) -> Result<()> {
        let prefix = if self.tracks_order { 6 } else { 4 };
        while fields.remaining() >= prefix + 4 {
            let kind = le::<u8>.map(u16::from);
            let (kind, len, flags) = fields.parse(terminated((kind, le::<u16>, le), skip(prefix - 4)))?;
            self.message(kind, flags, len.into(), fields)?;
        }
        Ok(())
    }

    fn message(&mut self, kind: u16, flags: u8, len: u64, fields: &mut Fields<'_>) -> Result<()> {
        let at = fields.position();
        let data = fields.bytes(len)?.to_vec();
        let message = Message { kind, flags, data, at, sizes: self.space.sizes };
        match kind {
            message::NIL => {}
            message::CONTINUATION => {
                let mut fields = message.fields()?;
                let address = fields.some_address("a part of an object header")?;
                self.waiting.push((address, fields.length()?));
            }
            unknown if unknown > message::LAST && flags & FAIL_IF_UNKNOWN != 0 => {
                return Err(Error::unsupported(
                    "an object header has a message that must be understood, and is unknown",
                )
                .offset(at)
                .found(format!("type {unknown:#x}")));
            }
            _ => self.messages.push(message),
        }
        Ok(())
    }
}
