//! Messages that describe a dataset: its shape, layout, filters and fill value.

use super::header::Message;
use super::space::Fields;
use crate::format::message;
use ckpt_api::fields::{Bytes, array, le, skip};
use ckpt_api::{Error, Limit, Limits, Result, Shape};
use nom::sequence::{preceded, terminated};
use nom::{Parser, multi};

/// The axes of a dataset.
#[derive(Clone, Debug)]
pub(crate) struct Dataspace {
    /// `None` for one that has no elements, not even one of rank 0.
    pub(crate) shape: Option<Shape>,
    /// The greatest length of each axis; `None` if it is not limited.
    pub(crate) most: Vec<Option<u64>>,
}

impl Dataspace {
    pub(crate) fn read(fields: &mut Fields<'_>, limits: &Limits) -> Result<Self> {
        let at = fields.position();
        let version = fields.version("a dataspace", &[1, 2])?;
        let [rank, flags, kind] = fields.parse(array)?;
        fields.skip(if version == 1 { 4 } else { 0 })?;
        limits.check(Limit::Rank, rank.into()).map_err(|error| error.offset(at))?;
        if version == 2 && kind == 2 {
            return Ok(Dataspace { shape: None, most: Vec::new() });
        }
        let lens = (0..rank).map(|_| fields.length()).collect::<Result<Vec<u64>>>()?;
        let most = match flags & 1 {
            1 => (0..rank).map(|_| fields.length_or_endless()).collect::<Result<Vec<_>>>()?,
            _ => lens.iter().copied().map(Some).collect(),
        };
        let shape = Shape::new(&lens).map_err(|error| error.offset(at))?;
        Ok(Dataspace { shape: Some(shape), most })
    }
}

/// Where the elements are.
#[derive(Clone, Debug)]
pub(crate) enum Layout {
    /// In the message: their offset in the file and their length.
    Compact { offset: u64, len: u64 },
    /// In one piece; no address if nothing was written. Older versions do not state the length.
    Contiguous { address: Option<u64>, len: Option<u64> },
    /// In chunks of this shape.
    Chunked { chunk: Vec<u64>, element: u64, index: Index, address: Option<u64>, filters_edges: bool },
}

/// How chunks are found.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Index {
    Tree1,
    /// One chunk; if it is filtered, its stored length and which filters were left out.
    Single {
        filtered: Option<(u64, u32)>,
    },
    /// Chunks are one after the other.
    Implicit,
    FixedArray,
    ExtensibleArray,
    Tree2,
}

impl Layout {
    pub(crate) fn read(message: &Message) -> Result<Self> {
        let mut fields = message.fields()?;
        match fields.version("a layout", &[1, 2, 3, 4])? {
            1 | 2 => old_layout(&mut fields),
            version => match fields.parse(le::<u8>)? {
                0 => {
                    let len = fields.parse(le::<u16>)?;
                    let offset = fields.position();
                    fields.skip(len.into())?;
                    Ok(Layout::Compact { offset, len: len.into() })
                }
                1 => Ok(Layout::Contiguous { address: fields.address()?, len: Some(fields.length()?) }),
                2 if version == 3 => {
                    let rank = fields.parse(le::<u8>)?;
                    let address = fields.address()?;
                    let lens = fields.parse(dims(rank))?;
                    chunked(lens, Index::Tree1, address, true, fields.position())
                }
                2 => new_chunks(&mut fields),
                3 => Err(Error::unsupported("the dataset is virtual: its elements lie in other datasets")
                    .offset(message.at)
                    .help("no other file is opened; copy the dataset into a new file with h5py")),
                other => Err(Error::unsupported("the dataset has an unknown layout")
                    .offset(message.at)
                    .found(other.to_string())),
            },
        }
    }
}

fn old_layout(fields: &mut Fields<'_>) -> Result<Layout> {
    let at = fields.position();
    let [rank, class] = fields.parse(terminated(array, skip(5)))?;
    let address = if class == 0 { None } else { fields.address()? };
    let lens = fields.parse(dims(rank))?;
    match class {
        0 => {
            let len = fields.parse(le::<u32>)?.into();
            let offset = fields.position();
            fields.skip(len)?;
            Ok(Layout::Compact { offset, len })
        }
        1 => Ok(Layout::Contiguous { address, len: None }),
        2 => chunked(lens, Index::Tree1, address, true, at),
        other => {
            Err(Error::unsupported("the dataset has an unknown layout").offset(at).found(other.to_string()))
        }
    }
}

/// Parses so many lengths of 32 bits.
fn dims<'a>(rank: u8) -> impl Parser<Bytes<'a>, Output = Vec<u64>, Error = Error> {
    multi::count(le::<u32>.map(u64::from), rank.into())
}

fn new_chunks(fields: &mut Fields<'_>) -> Result<Layout> {
    let at = fields.position();
    let [flags, rank, bytes] = fields.parse(array)?;
    let lens = (0..rank).map(|_| fields.number(bytes)).collect::<Result<Vec<u64>>>()?;
    let index = match fields.parse(le::<u8>)? {
        1 if flags & 2 != 0 => Index::Single { filtered: Some((fields.length()?, fields.parse(le::<u32>)?)) },
        1 => Index::Single { filtered: None },
        2 => Index::Implicit,
        3 => {
            fields.skip(1)?;
            Index::FixedArray
        }
        4 => {
            fields.skip(5)?;
            Index::ExtensibleArray
        }
        5 => {
            fields.skip(6)?;
            Index::Tree2
        }
        other => {
            return Err(Error::unsupported("the chunks have an unknown index")
                .offset(at)
                .found(other.to_string()));
        }
    };
    let address = fields.address()?;
    chunked(lens, index, address, flags & 1 == 0, at)
}

/// The last length is that of an element, in bytes.
fn chunked(
    mut lens: Vec<u64>,
    index: Index,
    address: Option<u64>,
    filters_edges: bool,
    at: u64,
) -> Result<Layout> {
    let element = lens.pop().filter(|_| lens.iter().all(|len| *len > 0));
    let element = element.ok_or_else(|| Error::corrupt("the chunks have no elements").offset(at))?;
    Ok(Layout::Chunked { chunk: lens, element, index, address, filters_edges })
}

/// What was done to each chunk before it was stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filters {
    /// The steps by their number in the file, which the mask of a chunk counts.
    steps: [Option<Filter>; 3],
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    Shuffle,
    Deflate,
    Lzf,
    Fletcher32,
}

impl Filters {
    /// Returns the steps of a chunk, in the order in which they were done, without those that the mask leaves out.
    pub(crate) fn of_chunk(&self, mask: u32) -> impl Iterator<Item = Filter> {
        let steps = self.steps.iter().enumerate();
        steps.filter(move |(number, _)| mask >> number & 1 == 0).filter_map(|(_, step)| *step)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.steps.iter().all(Option::is_none)
    }

    pub(crate) fn read(message: &Message, element: u64) -> Result<Self> {
        let mut fields = message.fields()?;
        let version = fields.version("the filters", &[1, 2])?;
        let count = fields.parse(le::<u8>)?;
        fields.skip(if version == 1 { 6 } else { 0 })?;
        let mut filters = Vec::new();
        for _ in 0..count {
            let id = fields.parse(le::<u16>)?;
            let name = if version == 1 || id >= 256 { fields.parse(le::<u16>)? } else { 0 };
            let (_flags, values) = fields.parse((le::<u16>, le::<u16>))?;
            fields.skip(name.into())?;
            let first = if values > 0 { Some(fields.parse(le::<u32>)?) } else { None };
            fields.skip(u64::from(values.saturating_sub(1)) * 4)?;
            fields.skip(if version == 1 && values % 2 == 1 { 4 } else { 0 })?;
            filters.push(filter(id, first, element).map_err(|error| error.offset(message.at))?);
        }
        Self::of(&filters).ok_or_else(|| {
            Error::unsupported("the dataset has these filters in an unusual order")
                .offset(message.at)
                .found(format!("{filters:?}"))
                .expected("shuffle, then deflate or lzf, then fletcher32")
                .help("write the file again with h5repack")
        })
    }

    /// `None` for an order in which they cannot be undone.
    fn of(filters: &[Filter]) -> Option<Self> {
        let rank = |filter: &Filter| match filter {
            Filter::Shuffle => 0,
            Filter::Deflate | Filter::Lzf => 1,
            Filter::Fletcher32 => 2,
        };
        let mut steps = [None; 3];
        if filters.len() > steps.len() || !filters.is_sorted_by(|a, b| rank(a) < rank(b)) {
            return None;
        }
        for (step, filter) in steps.iter_mut().zip(filters) {
            *step = Some(*filter);
        }
        Some(Filters { steps })
    }
}

fn filter(id: u16, first: Option<u32>, element: u64) -> Result<Filter> {
    let name = match id {
        1 => return Ok(Filter::Deflate),
        2 if first.is_none_or(|size| u64::from(size) == element) => return Ok(Filter::Shuffle),
        3 => return Ok(Filter::Fletcher32),
        32000 => return Ok(Filter::Lzf),
        2 => "shuffle, of elements of another size",
        4 => "szip",
        5 => "nbit",
        6 => "scale-offset",
        32001 => "Blosc",
        32004 => "LZ4",
        32008 => "bitshuffle",
        32013 => "ZFP",
        32015 => "Zstandard",
        32026 => "Blosc2",
        _ => "unknown",
    };
    Err(Error::unsupported("the dataset has a filter that is not supported")
        .found(format!("filter {id}: {name}"))
        .expected("deflate, shuffle, fletcher32 or lzf")
        .help("write the file again without it: h5repack -f NONE"))
}

/// The value of elements that were never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    /// Zeros.
    Zero,
    /// These bytes: their offset in the file and their length.
    Bytes(u64, u64),
    /// No value at all.
    Undefined,
}

impl Fill {
    pub(crate) fn read(message: &Message) -> Result<Self> {
        let mut fields = message.fields()?;
        if message.kind == message::OLD_FILL {
            return Self::bytes(&mut fields);
        }
        match fields.version("a fill value", &[1, 2, 3])? {
            3 => {
                let flags = fields.parse(le::<u8>)?;
                match flags & 0x30 {
                    0x00 => Ok(Fill::Zero),
                    0x20 => Self::bytes(&mut fields),
                    _ => Ok(Fill::Undefined),
                }
            }
            version => {
                let is_defined = fields.parse(preceded(skip(2), le::<u8>))? != 0;
                match is_defined || version == 1 {
                    true => Self::bytes(&mut fields),
                    false => Ok(Fill::Undefined),
                }
            }
        }
    }

    fn bytes(fields: &mut Fields<'_>) -> Result<Self> {
        match fields.number(4)? {
            0 | 0xffff_ffff => Ok(Fill::Zero),
            len => {
                let offset = fields.position();
                fields.skip(len)?;
                Ok(Fill::Bytes(offset, len))
            }
        }
    }
}
