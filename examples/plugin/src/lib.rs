//! The format `shelf`, as a plugin of `ckpt`.
//!
//! ```text
//! "SHF1" · u32 count
//! per tensor: u16 length of the name · u8 rank · name · u64 dimensions · f32 numbers, row-major
//! ```
//!
//! All numbers are little-endian.

use ckpt_api::fields::{Bytes, Parsed, count, field, le, text};
use ckpt_api::nom::{Parser, bytes::streaming::tag, multi, sequence::preceded};
use ckpt_api::*;

/// The codec.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shelf;

ckpt_plugin::export!(Shelf);

const MAGIC: [u8; 4] = *b"SHF1";
/// Bytes of a tensor's header without a name and dimensions.
const LEAST_HEADER: usize = 3;

static INFO: FormatInfo = FormatInfo::new("shelf", "Shelf file")
    .with_extensions(&["shelf"])
    .with_reads(Network::ALL)
    .with_writes(Network::ALL)
    .with_dtypes(&[DType::F32])
    .with_free_names();

impl Codec for Shelf {
    fn info(&self) -> &FormatInfo {
        &INFO
    }

    fn probe(&self, input: &Input) -> Result<Match> {
        let found = input.head()? == Some(MAGIC);
        Ok(if found { Match::Certain("it begins with SHF1".into()) } else { Match::No })
    }

    fn read(&self, input: &Input, _: &Options, limits: &Limits) -> Result<Contents> {
        input.read_alone("a shelf", |file| {
            let mut fields = Fields::new(file);
            let count = fields.parse(file_header)?;
            limits.check(Limit::Tensors, count)?;
            let mut contents = Contents::default();
            for id in 0..count as usize {
                let (name, dims) = fields.parse(|input| tensor_header(input, limits))?;
                let tensor = Tensor::new(name, DType::F32, Shape::new(dims)?);
                let extent = Extent::new(FileId(0), fields.position(), tensor.value_bytes());
                fields.skip(extent.len)?;
                let encoding = Encoding::row_major(&tensor);
                contents.placements.push(Placement::new(TensorId(id), &tensor.name, extent, encoding));
                contents.checkpoint.tensors.push(tensor);
            }
            if fields.remaining() > 0 {
                return Err(Error::corrupt("bytes after the last tensor").offset(fields.position()));
            }
            Ok(contents)
        })
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, _: &Options) -> Result<OutputLayout> {
        let mut placed = OutputLayout::default();
        let tensors = checkpoint.tensors.iter().enumerate();
        let kept: Vec<(usize, &Tensor)> = tensors.filter(|(_, tensor)| tensor.dtype.is_float()).collect();
        let too_many = |_| Error::unsupported("a shelf cannot count so many");
        let mut header = Writer::new();
        header.bytes(&MAGIC).number(u32::try_from(kept.len()).map_err(too_many)?);
        let mut at = 0;
        for (id, tensor) in kept {
            header.number(u16::try_from(tensor.name.len()).map_err(too_many)?);
            header.number(u8::try_from(tensor.shape.rank()).map_err(too_many)?);
            header.bytes(tensor.name.as_bytes()).numbers(&tensor.shape);
            let bytes = std::mem::take(&mut header).into_bytes();
            let offset = at + bytes.len() as u64;
            placed.literals.push(Literal { file: FileId(0), offset: at, bytes });
            // The engine casts other numbers.
            let encoding = Encoding::row_major(tensor).with_dtype(DType::F32);
            let len = encoding.stored_len(tensor.shape.elements()).unwrap_or(0);
            let extent = Extent::new(FileId(0), offset, len);
            placed.placements.push(Placement::new(TensorId(id), &tensor.name, extent, encoding));
            at = offset + len;
        }
        // The header of a shelf without tensors.
        placed.files.push(OutputFile::new(name, at + header.len()));
        placed.literals.push(Literal { file: FileId(0), offset: at, bytes: header.into_bytes() });
        Ok(placed)
    }
}

/// Parses the header of the file; returns the number of tensors.
fn file_header(input: Bytes<'_>) -> Parsed<'_, u64> {
    preceded(field("magic", tag(&MAGIC[..])), field("count", count(LEAST_HEADER as u64, le::<u32>))).parse(input)
}

/// Parses the header of a tensor: its name and dimensions.
fn tensor_header<'a>(input: Bytes<'a>, limits: &Limits) -> Parsed<'a, (String, Vec<u64>)> {
    let (input, (name_len, rank)) = (le::<u16>, le::<u8>).parse(input)?;
    let name = field("name", text(name_len.into(), limits, Limit::NameBytes)).map(str::to_owned);
    let dims = field("dimensions", multi::count(le::<u64>, rank.into()));
    (name, dims).parse(input)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_conformance::{Sample, check};

    #[test]
    fn the_codec_keeps_the_rules() {
        let numbers = [1f32, 2.0, 3.0, 4.0, 5.0, 6.0];
        let bytes = [
            &MAGIC[..],
            &[1, 0, 0, 0],
            &[1, 0, 2],
            b"w",
            &2u64.to_le_bytes(),
            &3u64.to_le_bytes(),
            &numbers.map(f32::to_le_bytes).concat(),
        ];
        let files = [("m.shelf".to_owned(), bytes.concat())].into();
        check(&Shelf, &[Sample::new("a matrix", "m.shelf", files).floats("w", &[2, 3], &numbers)]);
    }
}
