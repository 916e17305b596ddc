//! A codec written against `ckpt-api` alone, as a third party would: it shows that the contract suffices.
//!
//! `TOY1` · count u8 · per tensor: name length u8, name, rank u8, axes u16 little-endian, f32 big-endian,
//! column-major.

use ckpt_api::fields::{Bytes, Parsed, array, le, text};
use ckpt_api::nom::{Parser, multi};
use ckpt_api::{
    Axis, AxisOrder, Checkpoint, Codec, Contents, DType, Encoding, Endian, Error, Extent, Fields, FileId,
    FormatInfo, Input, InputSpec, Limit, Limits, Literal, Match, Network, OpCall, OpShapes, OpSpec, Options,
    OutputFile, OutputLayout, OutputView, ParameterSpec, Placement, Result, Shape, Tensor, TensorId,
};

/// The codec.
pub struct Toy;

const MAGIC: &[u8; 4] = b"TOY1";

static INFO: FormatInfo = FormatInfo::new("toy", "Toy format")
    .with_extensions(&["toy"])
    .with_reads(Network::ALL)
    .with_writes(Network::ALL)
    .with_dtypes(&[DType::F32])
    .with_free_names();

/// `y[n, k] = scale[k]·x[n, k]^power`, an operator that ONNX lacks.
static OPS: [OpSpec; 1] = [OpSpec::new("toy.ScaledPower", power_shape, power)
    .inputs(&[InputSpec::real()])
    .parameters(&[ParameterSpec::new("scale", &[Axis::Out])])
    .attributes(&["power"])];

fn power_shape(shapes: &OpShapes) -> Result<Vec<usize>> {
    let &[rows, columns] = shapes.input(0) else { return Err(shapes.misfit(0, "[rows, columns]")) };
    shapes.check_parameter("scale", &[columns])?;
    Ok(vec![rows, columns])
}

fn power(call: &OpCall, y: &mut OutputView) -> Result<()> {
    let (x, scale) = (call.input(0), call.parameter("scale"));
    let power = call.node().float("power", 1.0)?;
    let &[rows, columns] = x.shape() else { return Ok(()) };
    for row in 0..rows {
        for column in 0..columns {
            y.set([row, column], scale.at([column]) * x.at([row, column]).powf(power));
        }
    }
    Ok(())
}

fn encoding(rank: usize) -> Encoding {
    Encoding::new(DType::F32, AxisOrder::row_major(rank).reversed()).with_endian(Endian::Big)
}

impl Codec for Toy {
    fn info(&self) -> &FormatInfo {
        &INFO
    }

    fn probe(&self, input: &Input) -> Result<Match> {
        let found = input.is_file() && input.main()?.bytes(0, 4).is_ok_and(|magic| magic == MAGIC);
        Ok(if found { Match::Certain("it begins with TOY1".into()) } else { Match::No })
    }

    fn read(&self, input: &Input, _: &Options, limits: &Limits) -> Result<Contents> {
        input.read_alone("a toy", |file| {
            let mut fields = Fields::new(file);
            if fields.parse(array)? != *MAGIC {
                return Err(Error::corrupt("not a toy file").offset(0));
            }
            let count = fields.parse(le::<u8>)?;
            limits.check(Limit::Tensors, count.into())?;
            let mut contents = Contents::default();
            for id in 0..usize::from(count) {
                let (name, dims) = fields.parse(|input| tensor_header(input, limits))?;
                let tensor = Tensor::new(&name, DType::F32, Shape::new(dims)?);
                let (offset, len) = (fields.position(), tensor.value_bytes());
                fields.skip(len)?;
                contents.placements.push(Placement::new(
                    TensorId(id),
                    name,
                    vec![Extent::new(FileId(0), offset, len)],
                    encoding(tensor.shape.rank()),
                ));
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
        let kept: Vec<(usize, &Tensor)> =
            checkpoint.tensors.iter().enumerate().filter(|(_, tensor)| tensor.dtype == DType::F32).collect();
        let small = |len: usize| u8::try_from(len).map_err(|_| Error::unsupported("too many for a toy"));
        let mut header = MAGIC.to_vec();
        header.push(small(kept.len())?);
        let mut at = 0;
        for (id, tensor) in kept {
            header.push(small(tensor.name.len())?);
            header.extend_from_slice(tensor.name.as_bytes());
            header.push(small(tensor.shape.rank())?);
            for axis in tensor.shape.iter() {
                let axis = u16::try_from(*axis).map_err(|_| Error::unsupported("too long for a toy"))?;
                header.extend_from_slice(&axis.to_le_bytes());
            }
            let (offset, len) = (at + header.len() as u64, tensor.value_bytes());
            placed.literals.push(Literal { file: FileId(0), offset: at, bytes: std::mem::take(&mut header) });
            placed.placements.push(Placement::new(
                TensorId(id),
                tensor.name.clone(),
                vec![Extent::new(FileId(0), offset, len)],
                encoding(tensor.shape.rank()),
            ));
            at = offset + len;
        }
        if !header.is_empty() {
            placed.literals.push(Literal { file: FileId(0), offset: at, bytes: header.clone() });
        }
        placed.files.push(OutputFile::new(name, at + header.len() as u64));
        Ok(placed)
    }

    fn ops(&self) -> &'static [OpSpec] {
        &OPS
    }
}

/// Parses the name and the lengths of the axes.
fn tensor_header<'a>(input: Bytes<'a>, limits: &Limits) -> Parsed<'a, (String, Vec<u64>)> {
    let (input, len) = le::<u8>(input)?;
    let name = text(len.into(), limits, Limit::NameBytes).map(str::to_owned);
    let dims = multi::length_count(le::<u8>, le::<u16>.map(u64::from));
    (name, dims).parse(input)
}

/// A toy file with these tensors, whose values count up in row-major order.
pub fn file(tensors: &[(&str, &[u16])]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.push(u8::try_from(tensors.len()).unwrap());
    for (name, dims) in tensors {
        bytes.push(u8::try_from(name.len()).unwrap());
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(u8::try_from(dims.len()).unwrap());
        dims.iter().for_each(|dim| bytes.extend_from_slice(&dim.to_le_bytes()));
        let count: usize = dims.iter().map(|dim| usize::from(*dim)).product();
        for mut k in 0..count {
            // Column-major position to row-major number.
            let mut index = Vec::new();
            for dim in *dims {
                index.push(k % usize::from(*dim));
                k /= usize::from(*dim);
            }
            let number = index.iter().zip(*dims).fold(0, |flat, (i, dim)| flat * usize::from(*dim) + i);
            bytes.extend_from_slice(&(number as f32).to_be_bytes());
        }
    }
    bytes
}
