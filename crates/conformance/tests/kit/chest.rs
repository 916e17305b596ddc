//! A small codec with everything that is easy to get wrong, and one mistake at a time.
//!
//! ```text
//! "CHST" · u32 tensor count · u32 length of the notes · notes (JSON)
//! per tensor: u16 length of the name, name, u8 rank, u32 dimensions, fastest first, u64 offset, u64 bytes
//! zeros up to a multiple of 16, then the tensors, each at a multiple of 16: f32, row-major
//! ```
//!
//! All numbers are big-endian, those of the tensors, too. A tensor to which the notes give a scale is of i8.

use ckpt_api::fields::{array, be};
use ckpt_api::nom::{Parser, multi};
use ckpt_api::{
    Attribute, Axis, Checkpoint, Codec, Contents, DType, Encoding, Endian, Error, Extent, Fields, File,
    FileId, FormatInfo, Graph, Input, Limit, Limits, Literal, Loss, LossKind, Match, Metadata, MetadataValue,
    Network, Op, Options, OutputFile, OutputLayout, Placement, Quantization, Result, Role, Shape, Slot,
    Tensor, TensorId,
};
use ckpt_conformance::Sample;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::num::NonZeroU32;

/// What is wrong with the codec.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mistake {
    None,
    NoLengthCheck,
    IgnoresALength,
    NanAsNull,
    NanAsNullInMetadata,
    WrongKeysWritten,
    WrongKeysBothWays,
    Unaligned,
    AllocatesByCount,
    DimensionsNotReversed,
    ColumnMajor,
    BigEndianDeclaredLittle,
    TrailingBytesAccepted,
    MetadataLost,
    TensorMetadataLost,
    GraphLost,
    AxesLost,
    RolesLost,
    SlotsLost,
    MetadataLostUnderAnotherSubject,
    OtherBytesUnderAnotherKind,
    ScaleCut,
    ScaleCutUnderAnotherKind,
    OverlapsWhenReading,
    OverlapsWhenWriting,
    PutsAllInOnePlace,
}

/// The codec.
pub struct Chest(pub Mistake);

const MAGIC: &[u8; 4] = b"CHST";
const ALIGNMENT: u64 = 16;
const LARGEST_SCALE: NonZeroU32 = NonZeroU32::new(0xffff).unwrap();

static INFO: FormatInfo = FormatInfo::new("chest", "Chest file")
    .with_extensions(&["chest"])
    .with_reads(Network::ALL)
    .with_writes(Network::ALL)
    .with_dtypes(&[DType::F32, DType::I8])
    .with_ops(&[Op::Gemm])
    .with_free_names()
    .with_keeps(ckpt_api::Aspect::ALL)
    .with_options(&[]);

/// Everything but names, shapes and values.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Notes {
    graph: Option<Graph>,
    metadata: Metadata,
    tensors: Vec<TensorNotes>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TensorNotes {
    axes: Option<Box<[Axis]>>,
    role: Role,
    slot: Option<Slot>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    quantization: Option<Quantization>,
    metadata: Metadata,
}

impl Chest {
    fn is(&self, mistake: Mistake) -> bool {
        self.0 == mistake
    }

    fn encoding(&self, tensor: &Tensor) -> Encoding {
        let mut encoding = Encoding::row_major(tensor);
        if !self.is(Mistake::BigEndianDeclaredLittle) {
            encoding.endian = Endian::Big;
        }
        if self.is(Mistake::ColumnMajor) {
            encoding.order = encoding.order.reversed();
        }
        encoding
    }

    fn read_name(&self, file: &File, fields: &mut Fields<'_>) -> Result<String> {
        let len = fields.parse(be::<u16>)?.into();
        let start = fields.position();
        let name = if self.is(Mistake::NoLengthCheck) {
            let rest = file.bytes(start, fields.remaining())?;
            let name = rest[..len as usize].to_vec();
            fields.skip(len)?;
            name
        } else {
            fields.bytes(len)?
        };
        let name =
            String::from_utf8(name).map_err(|_| Error::corrupt("a name is not UTF-8").offset(start))?;
        Ok(match self.0 {
            Mistake::WrongKeysBothWays => name.trim_end_matches("!").to_owned(),
            _ => name,
        })
    }

    fn read_tensor(
        &self,
        file: &File,
        fields: &mut Fields<'_>,
        notes: &TensorNotes,
    ) -> Result<(Tensor, u64)> {
        let name = self.read_name(file, fields)?;
        let start = fields.position();
        let corrupt = |message: &str| Error::corrupt(message).offset(start);
        let (mut dims, offset, bytes) = fields.parse(|input| {
            let dims = multi::length_count(be::<u8>, be::<u32>.map(u64::from));
            (dims, be::<u64>, be::<u64>).parse(input)
        })?;
        if !self.is(Mistake::DimensionsNotReversed) {
            dims.reverse();
        }
        let dtype = if notes.quantization.is_some() { DType::I8 } else { DType::F32 };
        let quantization = notes.quantization.clone();
        let tensor = Tensor::new(name, dtype, Shape::new(dims)?).with_quantization(quantization);
        if bytes != tensor.value_bytes() && !self.is(Mistake::IgnoresALength) {
            return Err(corrupt("the tensor's size does not fit its shape").tensor(&tensor.name));
        }
        let is_aligned = offset % ALIGNMENT == 0 || self.is(Mistake::Unaligned);
        let end = offset.checked_add(tensor.value_bytes());
        if !is_aligned || end.is_none_or(|end| end > file.len()) {
            return Err(corrupt("the tensor lies at no place for one").tensor(&tensor.name));
        }
        Ok((tensor, offset))
    }

    /// Tensors follow each other with less than 16 zeros between them, up to the end.
    fn check_places(&self, file: &File, mut at: u64, tensors: &[(Tensor, u64)]) -> Result<()> {
        let anywhere = matches!(self.0, Mistake::OverlapsWhenReading | Mistake::PutsAllInOnePlace);
        for (tensor, offset) in tensors {
            let gap = offset.checked_sub(at).filter(|gap| *gap < ALIGNMENT);
            let overlap = || Error::corrupt("tensors overlap").file(file.name()).offset(*offset);
            let gap = if anywhere { gap.unwrap_or(0) } else { gap.ok_or_else(overlap)? };
            if file.bytes(at, gap)?.iter().any(|byte| *byte != 0) {
                return Err(Error::corrupt("the padding is not zero").file(file.name()).offset(at));
            }
            at = at.max(offset + tensor.value_bytes());
        }
        if at != file.len() && !self.is(Mistake::TrailingBytesAccepted) {
            return Err(Error::corrupt("bytes after the last tensor").file(file.name()).offset(at));
        }
        Ok(())
    }

    fn notes(&self, checkpoint: &Checkpoint) -> Result<Vec<u8>> {
        let tensors = checkpoint.tensors.iter().map(|tensor| TensorNotes {
            axes: tensor.axes.clone().filter(|_| !self.is(Mistake::AxesLost)),
            role: if self.is(Mistake::RolesLost) { Role::Weight } else { tensor.role },
            slot: tensor.slot.as_deref().cloned().filter(|_| !self.is(Mistake::SlotsLost)),
            quantization: match (self.0, tensor.scale()) {
                (Mistake::ScaleCut | Mistake::ScaleCutUnderAnotherKind, Some(scale)) => {
                    Some(Quantization::Units { scale: scale.min(LARGEST_SCALE) })
                }
                _ => tensor.quantization.clone(),
            },
            metadata: if self.is(Mistake::TensorMetadataLost) {
                Metadata::default()
            } else {
                tensor.metadata.clone()
            },
        });
        let notes = Notes {
            graph: match self.0 {
                Mistake::GraphLost => None,
                Mistake::NanAsNull => checkpoint.graph.clone().map(without_special_numbers),
                _ => checkpoint.graph.clone(),
            },
            metadata: match self.0 {
                Mistake::MetadataLost | Mistake::MetadataLostUnderAnotherSubject => Metadata::default(),
                Mistake::NanAsNullInMetadata => finite(&checkpoint.metadata),
                _ => checkpoint.metadata.clone(),
            },
            tensors: tensors.collect(),
        };
        serde_json::to_vec(&notes).map_err(|error| Error::defect("no JSON").found(error.to_string()))
    }
}

impl Codec for Chest {
    fn info(&self) -> &FormatInfo {
        &INFO
    }

    fn probe(&self, input: &Input) -> Result<Match> {
        let is_chest = input.head()?.is_some_and(|head: [u8; 4]| head == *MAGIC);
        Ok(if is_chest { Match::Certain("it begins with CHST".into()) } else { Match::No })
    }

    fn read(&self, input: &Input, _: &Options, limits: &Limits) -> Result<Contents> {
        input.read_alone("a chest", |file| {
            let mut fields = Fields::new(file);
            if fields.parse(array)? != *MAGIC {
                return Err(Error::corrupt("not a chest").offset(0));
            }
            let count = fields.parse(be::<u32>)?;
            let mut tensors: Vec<(Tensor, u64)> = Vec::new();
            if self.is(Mistake::AllocatesByCount) {
                tensors.reserve(count as usize);
            }
            limits.check(Limit::Tensors, count.into())?;
            let len = fields.parse(be::<u32>)?;
            let corrupt = |message: &str| Error::corrupt(message).offset(8);
            let notes: Notes = serde_json::from_slice(&fields.bytes(len.into())?)
                .map_err(|error| corrupt("the notes are no JSON").found(error.to_string()))?;
            if notes.tensors.len() as u64 != u64::from(count) {
                return Err(corrupt("the notes are about other tensors"));
            }
            for notes in &notes.tensors {
                tensors.push(self.read_tensor(file, &mut fields, notes)?);
            }
            self.check_places(file, fields.position(), &tensors)?;
            let mut contents = Contents::default();
            (contents.checkpoint.graph, contents.checkpoint.metadata) = (notes.graph, notes.metadata);
            for (id, ((mut tensor, offset), notes)) in tensors.into_iter().zip(notes.tensors).enumerate() {
                (tensor.axes, tensor.role, tensor.metadata) = (notes.axes, notes.role, notes.metadata);
                tensor.slot = notes.slot.map(Box::new);
                let extents = vec![Extent::new(FileId(0), offset, tensor.value_bytes())];
                let encoding = self.encoding(&tensor);
                contents.placements.push(Placement::new(TensorId(id), &tensor.name, extents, encoding));
                contents.checkpoint.tensors.push(tensor);
            }
            Ok(contents)
        })
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, _: &Options) -> Result<OutputLayout> {
        let mut placed = OutputLayout::default();
        let holds = |tensor: &&Tensor| match tensor.quantization {
            Some(_) => tensor.dtype == DType::I8,
            None => tensor.dtype == DType::F32,
        };
        if let Some(tensor) = checkpoint.tensors.iter().find(|tensor| !holds(tensor)) {
            return Err(Error::unsupported("a chest holds f32, and i8 with a scale").tensor(&tensor.name));
        }
        let dropped = |subject: &str| Loss::new(LossKind::MetadataDropped, subject, "no place");
        match self.0 {
            Mistake::MetadataLostUnderAnotherSubject => placed.losses.push(dropped("comment")),
            Mistake::OtherBytesUnderAnotherKind => placed.losses.push(dropped("foreign/kernel")),
            Mistake::ScaleCutUnderAnotherKind => placed.losses.push(dropped("foreign/scaled")),
            _ => {}
        }
        let notes = self.notes(checkpoint)?;
        let names: Vec<String> = checkpoint.tensors.iter().map(|tensor| self.stored_name(tensor)).collect();
        let ranks = checkpoint.tensors.iter().map(|tensor| 4 * tensor.shape.rank());
        let entries: usize = names.iter().zip(ranks).map(|(name, dims)| 2 + name.len() + 1 + dims + 16).sum();
        let mut header = MAGIC.to_vec();
        header.extend((names.len() as u32).to_be_bytes());
        header.extend((notes.len() as u32).to_be_bytes());
        header.extend(notes);
        let mut at = (header.len() + entries) as u64;
        for (id, (tensor, name)) in checkpoint.tensors.iter().zip(names).enumerate() {
            if !self.is(Mistake::Unaligned) {
                at = at.next_multiple_of(ALIGNMENT);
            }
            header.extend((name.len() as u16).to_be_bytes());
            header.extend(name.as_bytes());
            header.push(tensor.shape.rank() as u8);
            let mut dims = tensor.shape.to_vec();
            if !self.is(Mistake::DimensionsNotReversed) {
                dims.reverse();
            }
            dims.iter().for_each(|dim| header.extend((*dim as u32).to_be_bytes()));
            header.extend(at.to_be_bytes());
            header.extend(tensor.value_bytes().to_be_bytes());
            let extents = vec![Extent::new(FileId(0), at, tensor.value_bytes())];
            let mut encoding = self.encoding(tensor);
            if self.is(Mistake::OtherBytesUnderAnotherKind) && name == "foreign/kernel" {
                encoding.endian = Endian::Little;
            }
            placed.placements.push(Placement::new(TensorId(id), name, extents, encoding));
            if !matches!(self.0, Mistake::OverlapsWhenWriting | Mistake::PutsAllInOnePlace) {
                at += tensor.value_bytes();
            }
        }
        let end = placed.placements.iter().flat_map(|placement| &placement.extents);
        let end = end.map(|extent| extent.offset + extent.len).max().unwrap_or(header.len() as u64);
        placed.literals.push(Literal { file: FileId(0), offset: 0, bytes: header });
        placed.files.push(OutputFile::new(name.to_owned(), end));
        Ok(placed)
    }
}

impl Chest {
    fn stored_name(&self, tensor: &Tensor) -> String {
        match self.0 {
            Mistake::WrongKeysWritten => format!("model.{}", tensor.name),
            Mistake::WrongKeysBothWays => format!("{}!", tensor.name),
            _ => tensor.name.to_string(),
        }
    }
}

/// What plain JSON makes of metadata.
/// The graph without the attributes that JSON's own numbers lose.
fn without_special_numbers(mut graph: Graph) -> Graph {
    for node in &mut graph.nodes {
        let is_special = |value: &_| matches!(value, Attribute::Float(number) if !number.is_finite());
        node.attributes.retain(|_, value| !is_special(value));
    }
    graph
}

fn finite(metadata: &Metadata) -> Metadata {
    let mut finite = Metadata::default();
    for (namespace, map) in metadata.iter() {
        for (key, value) in map.iter() {
            let is_special = matches!(value, MetadataValue::F64(number) if !number.is_finite());
            finite.insert(namespace, key, if is_special { MetadataValue::Null } else { value.clone() });
        }
    }
    finite
}

/// Two tensors, written by hand: a matrix whose dimensions differ, and a vector whose size is no multiple of 16.
pub fn sample() -> Sample {
    let notes = r#"{"graph":null,"metadata":{},"tensors":[{"axes":null,"role":"weight","slot":null,"metadata":{}},{"axes":null,"role":"weight","slot":null,"metadata":{}}]}"#;
    let mut bytes = MAGIC.to_vec();
    bytes.extend(2u32.to_be_bytes());
    bytes.extend((notes.len() as u32).to_be_bytes());
    bytes.extend(notes.as_bytes());
    let first = (bytes.len() as u64 + (2 + 2 + 1 + 4 + 16) + (2 + 1 + 1 + 8 + 16)).next_multiple_of(16);
    for (name, dims, offset, len) in [("b!", &[3u32][..], first, 12u64), ("w", &[3, 2], first + 16, 24)] {
        bytes.extend((name.len() as u16).to_be_bytes());
        bytes.extend(name.as_bytes());
        bytes.push(dims.len() as u8);
        dims.iter().for_each(|dim| bytes.extend(dim.to_be_bytes()));
        bytes.extend(offset.to_be_bytes());
        bytes.extend(len.to_be_bytes());
    }
    let (bias, kernel) = ([0.5, 1.5, 2.5], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    bytes.resize(first as usize, 0);
    bytes.extend(bias.iter().flat_map(|number: &f32| number.to_be_bytes()));
    bytes.extend([0; 4]);
    bytes.extend(kernel.iter().flat_map(|number: &f32| number.to_be_bytes()));
    let files = BTreeMap::from([("m.chest".to_owned(), bytes)]);
    Sample::new("two tensors", "m.chest", files)
        .floats("b!", &[3], &bias)
        .floats("w", &[2, 3], &kernel)
        .aligned(ALIGNMENT)
}
