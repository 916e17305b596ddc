//! Heaps: names of old groups, texts of a length each, and what has no room in object headers.

use super::space::{Block, Space, compare_sums, lookup3};
use super::tree2::bytes_for;
use ckpt_api::fields::{le, skip};
use ckpt_api::{Error, Result};
use nom::Parser;
use nom::sequence::terminated;
use std::collections::HashMap;
use std::rc::Rc;

/// The names of a group of the old style.
pub(crate) struct LocalHeap(Block);

impl LocalHeap {
    pub(crate) fn read(space: &Space<'_>, address: u64) -> Result<Self> {
        let len = 8 + 2 * u64::from(space.sizes.length) + u64::from(space.sizes.address);
        let block = space.block(address, len, "a local heap")?;
        let mut fields = block.signed(*b"HEAP")?;
        fields.version("a local heap", &[0])?;
        fields.skip(3)?;
        let size = fields.length()?;
        fields.length()?;
        let data = fields.some_address("a local heap")?;
        Ok(LocalHeap(space.block(data, size, "a local heap")?))
    }

    /// Returns the text at an offset, up to the NUL.
    pub(crate) fn text(&self, offset: u64) -> Result<String> {
        let start = usize::try_from(offset).ok();
        let bytes = start.and_then(|start| self.0.bytes.get(start..));
        let len = bytes.and_then(|bytes| bytes.iter().position(|byte| *byte == 0));
        let text = bytes.zip(len).and_then(|(bytes, len)| bytes.get(..len));
        let corrupt = |what: &str| Error::corrupt(what).offset(self.0.at.saturating_add(offset));
        let text = text.ok_or_else(|| corrupt("a name has no end in its heap"))?;
        String::from_utf8(text.to_vec()).map_err(|_| corrupt("a name is not UTF-8"))
    }
}

/// The texts of all attributes, by collection.
#[derive(Default)]
pub(crate) struct GlobalHeap(HashMap<u64, Collection>);

/// The bytes of objects by their number: start and end in the collection.
struct Collection {
    block: Block,
    objects: HashMap<u16, (usize, usize)>,
}

impl GlobalHeap {
    /// Returns an object's first `len` bytes.
    pub(crate) fn object(&mut self, space: &Space<'_>, address: u64, number: u32, len: u64) -> Result<&[u8]> {
        let collection = match self.0.entry(address) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(Collection::read(space, address)?)
            }
        };
        space.spend(len)?;
        let object = u16::try_from(number).ok().and_then(|number| collection.objects.get(&number));
        let bytes = object.and_then(|(start, end)| collection.block.bytes.get(*start..*end));
        let bytes = bytes.zip(usize::try_from(len).ok()).and_then(|(bytes, len)| bytes.get(..len));
        bytes.ok_or_else(|| {
            Error::corrupt("a text is missing in the global heap")
                .offset(collection.block.at)
                .found(format!("object {number}"))
                .expected(ckpt_api::count(len, "byte"))
        })
    }
}

impl Collection {
    fn read(space: &Space<'_>, address: u64) -> Result<Self> {
        let head_len = 8 + u64::from(space.sizes.length);
        let head = space.block(address, head_len, "the global heap")?;
        let mut fields = head.signed(*b"GCOL")?;
        fields.version("the global heap", &[1])?;
        fields.skip(3)?;
        let len = fields.length()?;
        let block = space.block(address, len, "the global heap")?;
        let mut objects = HashMap::new();
        let mut fields = block.fields();
        fields.skip(head_len)?;
        while fields.remaining() >= head_len {
            let number = fields.parse(terminated(le::<u16>, skip(6)))?;
            let size = fields.length()?;
            if number == 0 {
                break;
            }
            let start = fields.position().saturating_sub(block.at);
            fields.skip(size)?;
            fields.skip((size.wrapping_neg() % 8).min(fields.remaining()))?;
            let range = (start as usize, start.saturating_add(size) as usize);
            if objects.insert(number, range).is_some() {
                return Err(Error::corrupt("two objects of the global heap have one number").offset(block.at));
            }
        }
        Ok(Collection { block, objects })
    }
}

/// The links or attributes of an object that has many of them.
pub(crate) struct FractalHeap {
    id_len: u64,
    has_sums: bool,
    table: Table,
    root: Option<u64>,
    root_rows: u16,
    /// Blocks that were read, by address.
    direct: HashMap<u64, Rc<Block>>,
    indirect: HashMap<u64, Rc<Vec<Option<u64>>>>,
}

/// How the heap's space is divided into rows of blocks.
#[derive(Clone, Copy, Debug)]
struct Table {
    width: u64,
    start: u64,
    largest_direct: u64,
    /// Bytes of an offset in the heap.
    offset_bytes: u8,
    /// Bytes of an object's length.
    length_bytes: u8,
}

impl Table {
    /// The size of the blocks of a row.
    fn block(&self, row: u64) -> u64 {
        let doublings = u32::try_from(row.saturating_sub(1)).unwrap_or(u32::MAX);
        self.start
            .checked_shl(doublings)
            .filter(|size| size >> doublings.min(63) == self.start)
            .unwrap_or(u64::MAX)
    }

    /// Rows whose blocks hold objects.
    fn direct_rows(&self) -> u64 {
        u64::from(self.largest_direct.ilog2().saturating_sub(self.start.ilog2())) + 2
    }

    /// Rows of an indirect block that spans so many bytes.
    fn rows_of(&self, size: u64) -> u64 {
        u64::from(size.ilog2().saturating_sub(self.start.saturating_mul(self.width).ilog2())) + 1
    }
}

impl FractalHeap {
    pub(crate) fn read(space: &Space<'_>, address: u64) -> Result<Self> {
        let (addresses, lengths) = (u64::from(space.sizes.address), u64::from(space.sizes.length));
        let len = 26 + 12 * lengths + 3 * addresses;
        let block = space.block(address, len, "a fractal heap")?;
        let mut fields = block.signed(*b"FRHP")?;
        fields.version("a fractal heap", &[0])?;
        let (id_len, filters) = fields.parse((le::<u16>.map(u64::from), le::<u16>))?;
        if filters != 0 {
            return Err(Error::unsupported("links or attributes are stored with filters").offset(block.at));
        }
        block.check_sum()?;
        let has_sums = fields.parse(le::<u8>)? & 2 != 0;
        let largest_object = fields.parse(le::<u32>)?.into();
        fields.skip(lengths + addresses + lengths + addresses + 8 * lengths)?;
        let width = fields.parse(le::<u16>)?.into();
        let (start, largest_direct) = (fields.length()?, fields.length()?);
        let bits = fields.parse(terminated(le::<u16>, skip(2)))?;
        let root = fields.address()?;
        let root_rows = fields.parse(le::<u16>)?;
        let is_sound = u64::is_power_of_two;
        if !is_sound(width)
            || !is_sound(start)
            || !is_sound(largest_direct)
            || start > largest_direct
            || bits > 64
        {
            return Err(Error::corrupt("a fractal heap is divided into impossible blocks").offset(block.at));
        }
        let offset_bytes = bits.div_ceil(8) as u8;
        let length_bytes = bytes_for(largest_object).min(largest_direct.ilog2().div_ceil(8) as u8);
        let table = Table { width, start, largest_direct, offset_bytes, length_bytes };
        let (direct, indirect) = Default::default();
        Ok(FractalHeap { id_len, has_sums, table, root, root_rows, direct, indirect })
    }

    /// Bytes of an object's id.
    pub(crate) fn id_len(&self) -> u64 {
        self.id_len
    }

    /// Returns the object of an id, and its offset in the file.
    pub(crate) fn object(&mut self, space: &Space<'_>, id: &[u8]) -> Result<(Vec<u8>, u64)> {
        let mut fields = super::space::Fields::new(id, 0, space.sizes);
        let first = fields.parse(le::<u8>)?;
        match first >> 4 & 3 {
            0 => {
                let offset = fields.number(self.table.offset_bytes)?;
                let len = fields.number(self.table.length_bytes)?;
                self.managed(space, offset, len)
            }
            2 if self.id_len <= 17 => {
                let len = u64::from(first & 15) + 1;
                Ok((fields.bytes(len)?.to_vec(), 0))
            }
            kind => Err(Error::unsupported("a link or an attribute is stored outside of its heap")
                .found(match kind {
                    1 => "one that is too long for the heap, such as an attribute above 64 KiB".to_owned(),
                    kind => format!("an object of kind {kind}"),
                })
                .help("copy the datasets into a new file with h5py")),
        }
    }

    fn managed(&mut self, space: &Space<'_>, offset: u64, len: u64) -> Result<(Vec<u8>, u64)> {
        let missing = || {
            Error::corrupt("a link or an attribute is missing in its heap").found(format!("offset {offset}"))
        };
        let (address, size, first) = self.find(space, offset)?.ok_or_else(missing)?;
        let block = self.direct_block(space, address, size)?;
        space.spend(len)?;
        let start = offset.checked_sub(first).ok_or_else(missing)?;
        let range =
            usize::try_from(start).ok().zip(start.checked_add(len).and_then(|end| usize::try_from(end).ok()));
        let bytes = range.and_then(|(start, end)| block.bytes.get(start..end)).ok_or_else(missing)?;
        Ok((bytes.to_vec(), block.at.saturating_add(start)))
    }

    /// Returns the direct block that has an offset of the heap: its address, its size, and its first offset.
    fn find(&mut self, space: &Space<'_>, offset: u64) -> Result<Option<(u64, u64, u64)>> {
        let Some(mut address) = self.root else { return Ok(None) };
        let table = self.table;
        let mut rows = u64::from(self.root_rows);
        if rows == 0 {
            return Ok(Some((address, table.start, 0)));
        }
        let mut first = 0u64;
        loop {
            let inside = offset.saturating_sub(first);
            let row_0 = table.start.saturating_mul(table.width);
            let row = if inside < row_0 { 0 } else { u64::from((inside / row_0).ilog2()) + 1 };
            let row_start = if row == 0 { 0 } else { table.block(row).saturating_mul(table.width) };
            let size = table.block(row);
            let column = inside.saturating_sub(row_start) / size;
            if row >= rows || column >= table.width {
                return Ok(None);
            }
            let children = self.indirect_block(space, address, rows)?;
            let number = row.saturating_mul(table.width).saturating_add(column);
            let child =
                usize::try_from(number).ok().and_then(|number| children.get(number)).copied().flatten();
            let Some(child) = child else { return Ok(None) };
            first = first.saturating_add(row_start).saturating_add(column.saturating_mul(size));
            if row < table.direct_rows() {
                return Ok(Some((child, size, first)));
            }
            // The blocks of a child are smaller than the child: this comes to an end.
            address = child;
            rows = table.rows_of(size).min(row);
        }
    }

    fn indirect_block(&mut self, space: &Space<'_>, address: u64, rows: u64) -> Result<Rc<Vec<Option<u64>>>> {
        if let Some(known) = self.indirect.get(&address) {
            return Ok(Rc::clone(known));
        }
        let count = rows.saturating_mul(self.table.width);
        let prefix = 5 + u64::from(space.sizes.address) + u64::from(self.table.offset_bytes);
        let len = count.saturating_mul(space.sizes.address.into()).saturating_add(prefix + 4);
        let block = space.block(address, len, "a block of a fractal heap")?;
        block.signed(*b"FHIB")?;
        block.check_sum()?;
        let mut fields = block.fields();
        fields.skip(prefix)?;
        let children = Rc::new((0..count).map(|_| fields.address()).collect::<Result<Vec<_>>>()?);
        self.indirect.insert(address, Rc::clone(&children));
        Ok(children)
    }

    fn direct_block(&mut self, space: &Space<'_>, address: u64, size: u64) -> Result<Rc<Block>> {
        if let Some(known) = self.direct.get(&address) {
            return Ok(Rc::clone(known));
        }
        let block = space.block(address, size, "a block of a fractal heap")?;
        block.signed(*b"FHDB")?;
        if self.has_sums {
            let at = 5 + usize::from(space.sizes.address) + usize::from(self.table.offset_bytes);
            // The checksum counts as zeros for itself.
            let mut bytes = block.bytes.clone();
            let stored = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<4>());
            let stored = stored
                .map(std::mem::take)
                .ok_or_else(|| Error::corrupt("a block of a fractal heap is cut short").offset(block.at))?;
            compare_sums("a block of a fractal heap", block.at, lookup3(&bytes), u32::from_le_bytes(stored))?;
        }
        let block = Rc::new(block);
        self.direct.insert(address, Rc::clone(&block));
        Ok(block)
    }
}
