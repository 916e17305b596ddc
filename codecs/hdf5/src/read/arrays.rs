//! Indexes of chunks that are arrays: one of fixed length, and one that grows.

use super::space::{Block, Fields, Space};
use ckpt_api::fields::{array, le};
use ckpt_api::{Error, Result};
use std::collections::HashMap;
use std::rc::Rc;

/// An element of such an array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) address: u64,
    /// The stored length and which filters were left out, if chunks are filtered.
    pub(crate) filtered: Option<(u64, u32)>,
}

/// How elements are stored.
#[derive(Clone, Copy, Debug)]
struct Shape {
    is_filtered: bool,
    /// Bytes of one element.
    bytes: u8,
}

impl Shape {
    fn entry(self, fields: &mut Fields<'_>, addresses: u8) -> Result<Option<Entry>> {
        let address = fields.address()?;
        let filtered = match (self.is_filtered, self.bytes.checked_sub(addresses.saturating_add(4))) {
            (false, _) => None,
            (true, Some(len_bytes)) => Some((fields.number(len_bytes)?, fields.parse(le::<u32>)?)),
            (true, None) => {
                return Err(
                    Error::corrupt("an element of a chunk index is too small").offset(fields.position())
                );
            }
        };
        Ok(address.map(|address| Entry { address, filtered }))
    }

    fn entries(self, fields: &mut Fields<'_>, count: u64, addresses: u8) -> Result<Vec<Option<Entry>>> {
        let needed = count.saturating_mul(u64::from(self.bytes).max(1));
        if needed > fields.remaining() {
            return Err(Error::corrupt("a chunk index is cut short").offset(fields.position()));
        }
        (0..count).map(|_| self.entry(fields, addresses)).collect()
    }
}

/// Whether a bit is set: the highest of a byte comes first.
fn is_set(bits: &[u8], number: u64) -> bool {
    let byte = usize::try_from(number / 8).ok().and_then(|at| bits.get(at));
    byte.is_some_and(|byte| byte << (number % 8) & 0x80 != 0)
}

fn at(entries: &[Option<Entry>], number: u64) -> Option<Entry> {
    usize::try_from(number).ok().and_then(|number| entries.get(number)).copied().flatten()
}

/// Pages of elements, each with its checksum, that are one after the other.
#[derive(Default)]
struct Pages(HashMap<u64, Rc<Vec<Option<Entry>>>>);

impl Pages {
    fn read(
        &mut self,
        space: &Space<'_>,
        address: u64,
        count: u64,
        shape: Shape,
    ) -> Result<Rc<Vec<Option<Entry>>>> {
        if let Some(known) = self.0.get(&address) {
            return Ok(Rc::clone(known));
        }
        let len = count.saturating_mul(shape.bytes.into()).saturating_add(4);
        let block = space.block(address, len, "a page of a chunk index")?;
        block.check_sum()?;
        let entries = Rc::new(shape.entries(&mut block.fields(), count, space.sizes.address)?);
        self.0.insert(address, Rc::clone(&entries));
        Ok(entries)
    }
}

/// The elements of a fixed array.
pub(crate) struct FixedArray {
    shape: Shape,
    count: u64,
    held: Held,
}

enum Held {
    Nothing,
    All(Vec<Option<Entry>>),
    Pages { start: u64, len: u64, is_there: Vec<u8>, read: Pages },
}

impl FixedArray {
    pub(crate) fn read(space: &Space<'_>, address: u64, is_filtered: bool) -> Result<Self> {
        let (addresses, lengths) = (space.sizes.address, space.sizes.length);
        let len = 12 + u64::from(lengths) + u64::from(addresses);
        let block = space.block(address, len, "a fixed array")?;
        let mut fields = block.signed(*b"FAHD")?;
        block.check_sum()?;
        fields.version("a fixed array", &[0])?;
        let [client, bytes, page_bits] = fields.parse(array)?;
        let count = fields.length()?;
        let shape = Shape { is_filtered, bytes };
        check_client(&block, client, shape, addresses)?;
        let Some(data) = fields.address()? else {
            return Ok(FixedArray { shape, count, held: Held::Nothing });
        };
        let page = 1u64.checked_shl(page_bits.into()).unwrap_or(u64::MAX);
        let prefix = 6 + u64::from(addresses);
        let held = if count > page {
            let bitmap = count.div_ceil(page).div_ceil(8);
            let block =
                space.block(data, prefix.saturating_add(bitmap).saturating_add(4), "a fixed array")?;
            block.signed(*b"FADB")?;
            block.check_sum()?;
            let mut fields = block.fields();
            fields.skip(prefix)?;
            let is_there = fields.bytes(bitmap)?.to_vec();
            Held::Pages {
                start: data.saturating_add(prefix + bitmap + 4),
                len: page,
                is_there,
                read: Pages::default(),
            }
        } else {
            let len = count.saturating_mul(bytes.into()).saturating_add(prefix + 4);
            let block = space.block(data, len, "a fixed array")?;
            block.signed(*b"FADB")?;
            block.check_sum()?;
            let mut fields = block.fields();
            fields.skip(prefix)?;
            Held::All(shape.entries(&mut fields, count, addresses)?)
        };
        Ok(FixedArray { shape, count, held })
    }

    pub(crate) fn entry(&mut self, space: &Space<'_>, number: u64) -> Result<Option<Entry>> {
        match &mut self.held {
            Held::Nothing => Ok(None),
            Held::All(entries) => Ok(at(entries, number)),
            Held::Pages { start, len, is_there, read } => {
                let page = number / *len;
                if number >= self.count || !is_set(is_there, page) {
                    return Ok(None);
                }
                let stride = len.saturating_mul(self.shape.bytes.into()).saturating_add(4);
                let address = start.saturating_add(page.saturating_mul(stride));
                let count = (*len).min(self.count.saturating_sub(page.saturating_mul(*len)));
                Ok(at(&read.read(space, address, count, self.shape)?, number % *len))
            }
        }
    }
}

fn check_client(block: &Block, client: u8, shape: Shape, addresses: u8) -> Result<()> {
    if client == u8::from(shape.is_filtered) && shape.bytes >= addresses {
        return Ok(());
    }
    Err(Error::corrupt("a chunk index is not of the dataset's chunks")
        .offset(block.at)
        .found(format!("kind {client}, elements of {}", ckpt_api::count(shape.bytes, "byte"))))
}

/// The elements of an extensible array: the first in its index block, others in data blocks that grow, whose addresses
/// are in the index block or, later, in secondary blocks.
pub(crate) struct ExtensibleArray {
    shape: Shape,
    header: u64,
    /// Bytes of an offset in the array.
    offset_bytes: u8,
    smallest: u64,
    page: u64,
    first: Vec<Option<Entry>>,
    /// Data blocks that the index block names.
    data: Vec<Option<u64>>,
    /// Secondary blocks.
    secondary: Vec<Option<u64>>,
    /// Groups of blocks whose data blocks the index block names.
    direct_groups: u32,
    blocks: Pages,
    secondary_read: HashMap<u64, Rc<Secondary>>,
}

struct Secondary {
    is_there: Vec<u8>,
    data: Vec<Option<u64>>,
}

/// Blocks of one size: the first element and the first block of the group, the number of blocks, elements of each.
#[derive(Clone, Copy, Debug)]
struct Group {
    number: u32,
    first: u64,
    first_block: u64,
    blocks: u64,
    elements: u64,
}

impl ExtensibleArray {
    pub(crate) fn read(space: &Space<'_>, address: u64, is_filtered: bool) -> Result<Self> {
        let (addresses, lengths) = (space.sizes.address, space.sizes.length);
        let len = 16 + 6 * u64::from(lengths) + u64::from(addresses);
        let block = space.block(address, len, "an extensible array")?;
        let mut fields = block.signed(*b"EAHD")?;
        block.check_sum()?;
        fields.version("an extensible array", &[0])?;
        let [client, bytes, bits, in_index, smallest, pointers, page_bits] = fields.parse(array)?;
        let shape = Shape { is_filtered, bytes };
        check_client(&block, client, shape, addresses)?;
        let is_power = |number: u8| number.is_power_of_two();
        if !is_power(smallest)
            || !is_power(pointers)
            || bits > 64
            || page_bits > 32
            || smallest.ilog2() > bits.into()
        {
            return Err(
                Error::corrupt("an extensible array is divided into impossible blocks").offset(block.at)
            );
        }
        fields.skip(6 * u64::from(lengths))?;
        let groups = 1 + u32::from(bits) - smallest.ilog2();
        let direct_groups = (2 * pointers.ilog2()).min(groups);
        let mut array = ExtensibleArray {
            shape,
            header: address,
            offset_bytes: bits.div_ceil(8),
            smallest: smallest.into(),
            page: 1 << page_bits,
            first: Vec::new(),
            data: Vec::new(),
            secondary: Vec::new(),
            direct_groups,
            blocks: Pages::default(),
            secondary_read: HashMap::new(),
        };
        if let Some(index) = fields.address()? {
            let data = 2 * (u64::from(pointers) - 1);
            let secondary = u64::from(groups - direct_groups);
            let prefix = 6 + u64::from(addresses);
            let len = prefix
                + u64::from(in_index) * u64::from(bytes)
                + (data + secondary) * u64::from(addresses)
                + 4;
            let block = space.block(index, len, "an extensible array")?;
            array.check_block(&block, *b"EAIB")?;
            let mut fields = block.fields();
            fields.skip(prefix)?;
            array.first = shape.entries(&mut fields, in_index.into(), addresses)?;
            array.data = (0..data).map(|_| fields.address()).collect::<Result<_>>()?;
            array.secondary = (0..secondary).map(|_| fields.address()).collect::<Result<_>>()?;
        }
        Ok(array)
    }

    /// Checks signature, checksum, and that the block belongs to this array.
    fn check_block(&self, block: &Block, signature: [u8; 4]) -> Result<()> {
        let mut fields = block.signed(signature)?;
        block.check_sum()?;
        fields.skip(2)?;
        if fields.address()? == Some(self.header) {
            return Ok(());
        }
        Err(Error::corrupt("a block belongs to another extensible array").offset(block.at))
    }

    /// Returns the group that has an element, counted without those in the index block.
    fn group(&self, number: u64) -> Group {
        let mut group = Group { number: 0, first: 0, first_block: 0, blocks: 1, elements: self.smallest };
        // The groups grow: at most 128 have 2⁶⁴ elements.
        for own in 0..128u32 {
            group.number = own;
            group.blocks = 1 << (own / 2);
            group.elements = self.smallest.saturating_mul(1 << own.div_ceil(2).min(63));
            let end = group.first.saturating_add(group.blocks.saturating_mul(group.elements));
            if number < end {
                break;
            }
            group.first = end;
            group.first_block = group.first_block.saturating_add(group.blocks);
        }
        group
    }

    pub(crate) fn entry(&mut self, space: &Space<'_>, number: u64) -> Result<Option<Entry>> {
        let Some(number) = number.checked_sub(self.first.len() as u64) else {
            return Ok(at(&self.first, number));
        };
        let group = self.group(number);
        let inside = number.saturating_sub(group.first);
        let block = inside / group.elements;
        if group.number < self.direct_groups {
            let address = usize::try_from(group.first_block.saturating_add(block)).ok();
            let address = address.and_then(|at| self.data.get(at)).copied().flatten();
            return match address {
                Some(address) => self.in_block(space, address, group, inside % group.elements, None),
                None => Ok(None),
            };
        }
        let secondary = usize::try_from(group.number - self.direct_groups).ok();
        let secondary = secondary.and_then(|at| self.secondary.get(at)).copied().flatten();
        let Some(secondary) = secondary else { return Ok(None) };
        let secondary = self.secondary(space, secondary, group)?;
        let address = usize::try_from(block).ok().and_then(|at| secondary.data.get(at)).copied().flatten();
        let Some(address) = address else { return Ok(None) };
        let pages_of_block = group.elements / self.page;
        let bytes_of_block = pages_of_block.div_ceil(8);
        let is_there = |page: u64| is_set(&secondary.is_there, block * bytes_of_block * 8 + page);
        self.in_block(space, address, group, inside % group.elements, Some(&is_there))
    }

    /// Returns an element of a data block.
    fn in_block(
        &mut self,
        space: &Space<'_>,
        address: u64,
        group: Group,
        number: u64,
        is_there: Option<&dyn Fn(u64) -> bool>,
    ) -> Result<Option<Entry>> {
        let prefix = 6 + u64::from(space.sizes.address) + u64::from(self.offset_bytes);
        if group.elements <= self.page {
            if let Some(known) = self.blocks.0.get(&address) {
                return Ok(at(known, number));
            }
            let len = group.elements.saturating_mul(self.shape.bytes.into()).saturating_add(prefix + 4);
            let block = space.block(address, len, "a block of an extensible array")?;
            self.check_block(&block, *b"EADB")?;
            let mut fields = block.fields();
            fields.skip(prefix)?;
            let entries = self.shape.entries(&mut fields, group.elements, space.sizes.address)?;
            let found = at(&entries, number);
            self.blocks.0.insert(address, Rc::new(entries));
            return Ok(found);
        }
        let page = number / self.page;
        if is_there.is_some_and(|is_there| !is_there(page)) {
            return Ok(None);
        }
        let stride = self.page.saturating_mul(self.shape.bytes.into()).saturating_add(4);
        let start = address.saturating_add(prefix + 4).saturating_add(page.saturating_mul(stride));
        Ok(at(&self.blocks.read(space, start, self.page, self.shape)?, number % self.page))
    }

    fn secondary(&mut self, space: &Space<'_>, address: u64, group: Group) -> Result<Rc<Secondary>> {
        if let Some(known) = self.secondary_read.get(&address) {
            return Ok(Rc::clone(known));
        }
        let prefix = 6 + u64::from(space.sizes.address) + u64::from(self.offset_bytes);
        let bitmap = match group.elements > self.page {
            true => (group.elements / self.page).div_ceil(8).saturating_mul(group.blocks),
            false => 0,
        };
        let addresses = group.blocks.saturating_mul(space.sizes.address.into());
        let len = prefix.saturating_add(bitmap).saturating_add(addresses).saturating_add(4);
        let block = space.block(address, len, "a secondary block of an extensible array")?;
        self.check_block(&block, *b"EASB")?;
        let mut fields = block.fields();
        fields.skip(prefix)?;
        let is_there = fields.bytes(bitmap)?.to_vec();
        let data = (0..group.blocks).map(|_| fields.address()).collect::<Result<_>>()?;
        let secondary = Rc::new(Secondary { is_there, data });
        self.secondary_read.insert(address, Rc::clone(&secondary));
        Ok(secondary)
    }
}
