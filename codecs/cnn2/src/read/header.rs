//! The header: magic number, version, counts, mip level, and the end of the file that they imply.

use crate::format::{self, LAYER_BYTES, MAGIC, Pad, Version, WEIGHT_BYTES};
use ckpt_api::fields::field;
use ckpt_api::{Error, Fields, File, Result, Rules, count};
use nom::Parser;
use nom::number::streaming::{be_u32, le_u32};

/// A parsed header.
pub(super) struct Header {
    pub(super) version: Version,
    /// `num_layers`.
    pub(super) layers: u32,
    /// `total_weights`.
    pub(super) weights: u32,
    pub(super) mip: u32,
    /// The offset of the first weight.
    pub(super) data: u64,
}

impl Header {
    /// Parses the header, and checks that the file contains the layer table.
    pub(super) fn read(file: &File) -> Result<Self> {
        let mut fields = Fields::new(file);
        check_magic(&fields.parse(|input| field("magic", be_u32).parse(input))?.to_be_bytes())?;
        let version = read_version(&mut fields)?;
        let (layers, weights) =
            fields.parse(|input| (field("header", le_u32), field("header", le_u32)).parse(input))?;
        let mip = match version {
            Version::One => 0,
            Version::Two => read_mip(&mut fields)?,
        };
        let (start, left) = (fields.position(), fields.remaining());
        let table = u64::from(layers) * LAYER_BYTES;
        if layers == 0 || table > left {
            let message = if layers == 0 { "the file has no layers" } else { "the layer table is cut short" };
            return Err(Error::corrupt(message)
                .field("num_layers")
                .offset(8)
                .found(format!("{}, and {} after the header", count(layers, "layer"), count(left, "byte")))
                .expected("at least 1 layer, and 20 bytes for each"));
        }
        Ok(Header { version, layers, weights, mip, data: start + table })
    }

    /// Checks that the file ends after the weights, and returns what follows an odd number of weights.
    pub(super) fn check_end(&self, file: &File, rules: &mut Rules) -> Result<Option<Pad>> {
        let end = |pad: Pad| self.data + pad.data_bytes(self.weights);
        let (bare, padded) = (end(Pad::None), end(Pad::Zero));
        if file.len() < bare {
            return Err(Error::corrupt("the file is cut short: it ends before the weights do")
                .field("total_weights")
                .offset(12)
                .found(format!("a file of {} bytes", file.len()))
                .expected(format!("{} for {}", count(bare, "byte"), count(self.weights, "weight")))
                .help("copy the file again"));
        }
        let pad = if file.len() >= padded { Pad::Zero } else { Pad::None };
        let is_odd = padded > bare;
        if is_odd && pad == Pad::Zero {
            let padding = file.bytes(bare, WEIGHT_BYTES)?;
            if padding != [0, 0] {
                let error = Error::corrupt("the padding after an odd number of weights is not zero")
                    .offset(bare)
                    .found(format!("{padding:02x?}"))
                    .expected("[00, 00]");
                rules.mend("padding", "it is read as zero", error)?;
            }
        }
        let rest = file.len().saturating_sub(end(pad));
        if rest > 0 {
            let error = Error::corrupt("there are bytes after the weights")
                .offset(end(pad))
                .found(count(rest, "more byte"))
                .expected("the end of the file");
            rules.mend("end of the file", &format!("without the last {}", count(rest, "byte")), error)?;
        }
        Ok(is_odd.then_some(pad))
    }
}

/// The magic number of a file in the wrong byte order.
pub(super) fn swapped_magic() -> [u8; MAGIC.len()] {
    let mut magic = MAGIC;
    magic.reverse();
    magic
}

fn check_magic(magic: &[u8; MAGIC.len()]) -> Result<()> {
    if *magic == MAGIC {
        return Ok(());
    }
    let found = format!("\"{}\"", magic.escape_ascii());
    let error = if *magic == swapped_magic() {
        Error::unsupported("the file is in big-endian byte order, but CNN2 is little-endian").help(
            "reverse the four bytes of every number in the header and the table, and the two bytes of every weight",
        )
    } else {
        Error::corrupt("not a CNN2 file")
    };
    Err(error.field("magic").offset(0).found(found).expected("\"CNN2\""))
}

fn read_version(fields: &mut Fields<'_>) -> Result<Version> {
    let number = fields.parse(|input| field("version", le_u32).parse(input))?;
    Version::from_number(number).ok_or_else(|| {
        let is_swapped = Version::from_number(number.swap_bytes()).is_some();
        let found = if is_swapped { format!("{number:#010x}") } else { number.to_string() };
        Error::unsupported("unknown version of the CNN2 format")
            .field("version")
            .offset(4)
            .found(found)
            .expected("1 or 2, little-endian")
    })
}

fn read_mip(fields: &mut Fields<'_>) -> Result<u32> {
    let level = fields.parse(|input| field("mip_level", le_u32).parse(input))?;
    format::mip(level).ok_or_else(|| {
        Error::corrupt("the mip level does not exist")
            .field("mip_level")
            .offset(16)
            .found(level.to_string())
            .expected("0 to 3")
    })
}
