//! Writes a new model.

use super::flat::{ALIGNMENT, Built, Field, Table, build, too_large};
use super::operators::{Encoded, encoded};
use super::quantize::{channel_dimension, is_quantized, narrow};
use super::tensors::Stored;
use crate::format::{IDENTIFIER, VERSION, dtype_number, field};
use ckpt_api::{
    Checkpoint, Encoding, Error, Extent, FileId, Literal, Loss, LossKind, OutputFile, OutputLayout, Packing,
    Placement, Quantization, Result, Role, Shape, TensorId,
};
use ckpt_tf_operators::{Content, Model, ModelTensor, Step};
use std::collections::HashSet;

/// Bytes from which on buffers lie behind the FlatBuffer, because offsets within it would not reach them.
const MOST_INSIDE: u64 = 1 << 30;
/// Text that says what wrote the model.
const DESCRIPTION: &str = "ckpt";

/// A tensor of the checkpoint in the file.
struct Placed {
    id: TensorId,
    encoding: Encoding,
    /// The shape that the file states.
    shape: Shape,
    /// Bytes of its elements, and of its buffer.
    len: u64,
    buffer: u64,
}

/// The layout of a model: the operators and tensors of a graph, and the tensors of the checkpoint that it does not take.
pub(super) fn place(checkpoint: &Checkpoint, model: Model, name: &str) -> Result<OutputLayout> {
    let mut layout = OutputLayout::default();
    let (mut tables, mut placed, mut buffers) = (Vec::new(), Vec::new(), vec![Table::default()]);
    let mut taken = HashSet::new();
    let next = |buffers: &mut Vec<Table>, table: Table| -> Result<u32> {
        buffers.push(table);
        u32::try_from(buffers.len().saturating_sub(1)).map_err(|_| too_large())
    };
    for tensor in &model.tensors {
        let buffer = match &tensor.content {
            Content::Made => 0,
            Content::Bytes(bytes) => {
                next(&mut buffers, Table::default().with(0, Field::Bytes(bytes.clone())))?
            }
            Content::Tensor { id, order } => {
                taken.insert(*id);
                let (own, loss) = weight(checkpoint, tensor, *id, order)?;
                layout.losses.extend(loss);
                let table = data(&own, placed.len());
                placed.push(own);
                next(&mut buffers, table)?
            }
        };
        tables.push(described(checkpoint, tensor, buffer)?);
    }
    for (id, tensor) in checkpoint.tensors.iter().enumerate() {
        let is_other = model.steps.is_empty() || tensor.role == Role::Weight;
        if taken.contains(&id) || !is_other {
            continue;
        }
        let Some(stored) = Stored::of(tensor)? else { continue };
        let own = Placed {
            id: TensorId(id),
            shape: tensor.shape.clone(),
            len: stored.len,
            buffer: stored.buffer_len(),
            encoding: stored.encoding.clone(),
        };
        let table = data(&own, placed.len());
        placed.push(own);
        let buffer = next(&mut buffers, table)?;
        tables.push(stored.table(tensor, buffer)?);
        layout.losses.extend(stored.loss);
    }
    let built = built(checkpoint, &model, (tables, buffers), &placed)?;
    layout.files = vec![OutputFile::new(name, built.len)];
    layout.literals = built
        .literals
        .into_iter()
        .map(|(offset, bytes)| Literal { file: FileId(0), offset, bytes })
        .collect();
    for (number, own) in placed.into_iter().enumerate() {
        let tensor =
            checkpoint.tensors.get(own.id.0).ok_or_else(|| Error::defect("a tensor does not exist"))?;
        let offset = built.data.get(&number).copied().unwrap_or_default();
        let extents: Vec<Extent> =
            (own.len > 0).then(|| Extent::new(FileId(0), offset, own.len)).into_iter().collect();
        let is_own =
            own.encoding.order.iter().filter_map(|axis| tensor.shape.get(*axis)).eq(own.shape.iter());
        let placement = Placement::new(own.id, &tensor.name, extents, own.encoding);
        layout.placements.push(placement.with_shape((!is_own).then_some(own.shape)));
    }
    Ok(layout)
}

/// How a layer's tensor is stored, and what is lost.
fn weight(
    checkpoint: &Checkpoint,
    new: &ModelTensor,
    id: usize,
    order: &[usize],
) -> Result<(Placed, Option<Loss>)> {
    let tensor = checkpoint.tensors.get(id).ok_or_else(|| Error::defect("a tensor does not exist"))?;
    let dtype = if is_quantized(tensor) { tensor.dtype } else { new.dtype };
    let encoding = Encoding::new(dtype, order.to_vec()).with_packing(Packing::Bytes);
    let len = encoding.stored_len(tensor.shape.elements()).ok_or_else(too_large)?;
    let shape =
        Shape::new(new.shape.iter().map(|len| u64::try_from(*len).unwrap_or(0)).collect::<Vec<u64>>())?;
    let detail = "stored as integers of 8 bits with a scale for each channel";
    let loss = is_quantized(tensor).then(|| Loss::new(LossKind::Quantized, &tensor.name, detail));
    Ok((Placed { id: TensorId(id), encoding, shape, len, buffer: len.max(1) }, loss))
}

/// The buffer of a tensor, whose bytes are written later.
fn data(own: &Placed, number: usize) -> Table {
    Table::default().with(0, Field::Data { len: own.buffer, number })
}

/// The table of a tensor of the graph.
fn described(checkpoint: &Checkpoint, tensor: &ModelTensor, buffer: u32) -> Result<Table> {
    let own = match &tensor.content {
        Content::Tensor { id, .. } => checkpoint.tensors.get(*id).filter(|own| is_quantized(own)),
        _ => None,
    };
    let affine = own.and_then(|own| own.quantization.as_ref()).and_then(Quantization::affine);
    let dtype = own.map_or(tensor.dtype, |own| own.dtype);
    let table = Table::default()
        .with(field::tensor::SHAPE, Field::I32s(tensor.shape.clone()))
        .with(field::tensor::TYPE, Field::I8(dtype_number(dtype).unwrap_or_default()))
        .with(field::tensor::BUFFER, Field::U32(buffer))
        .with(field::tensor::NAME, Field::Text(tensor.name.clone()));
    let table = match (affine, channel_dimension(tensor)) {
        (Some(affine), Some((dimension, _))) => {
            let scales = affine.scales().iter().map(|scale| narrow(*scale)).collect();
            let quantization = Table::default()
                .with(2, Field::F32s(scales))
                .with(3, Field::I64s(vec![0; affine.scales().len()]))
                .with(6, Field::I32(i32::try_from(dimension).unwrap_or_default()));
            table.with(field::tensor::QUANTIZATION, Field::Table(quantization))
        }
        _ => table,
    };
    Ok(match &tensor.signature {
        Some(signature) => table.with(field::tensor::SHAPE_SIGNATURE, Field::I32s(signature.clone())),
        None => table,
    })
}

/// Builds the file: buffers are vectors of the FlatBuffer, or behind it if offsets would not reach them.
fn built(
    checkpoint: &Checkpoint,
    model: &Model,
    (tensors, buffers): (Vec<Table>, Vec<Table>),
    placed: &[Placed],
) -> Result<Built> {
    let operators = model.steps.iter().map(|step| {
        let own = encoded(step, &model.tensors)?;
        Ok(if takes_integers(checkpoint, model, step) { own.with_integers() } else { own })
    });
    let operators = operators.collect::<Result<Vec<Encoded>>>()?;
    let root = |tensors, buffers| root(model, &operators, tensors, buffers);
    let total = placed.iter().fold(0u64, |sum, own| sum.saturating_add(own.buffer).saturating_add(ALIGNMENT));
    if total <= MOST_INSIDE {
        return build(&root(tensors, buffers)?, IDENTIFIER);
    }
    // The tables have the same bytes wherever the buffers are.
    let head = build(&root(tensors.clone(), ranges(&buffers, placed, 0)?.0)?, IDENTIFIER)?.len;
    let (buffers, offsets, len) = ranges(&buffers, placed, head.next_multiple_of(ALIGNMENT))?;
    let mut built = build(&root(tensors, buffers)?, IDENTIFIER)?;
    (built.data, built.len) = (offsets.into_iter().enumerate().collect(), len);
    Ok(built)
}

/// Whether the kernel of a step is stored as integers.
fn takes_integers(checkpoint: &Checkpoint, model: &Model, step: &Step) -> bool {
    let kernel = step.inputs.get(1).copied().flatten().and_then(|input| model.tensors.get(input));
    match kernel.map(|kernel| &kernel.content) {
        Some(Content::Tensor { id, .. }) => checkpoint.tensors.get(*id).is_some_and(is_quantized),
        _ => false,
    }
}

/// Buffers with ranges of the file from `start` on in place of data, these offsets, and the end of the last.
fn ranges(buffers: &[Table], placed: &[Placed], start: u64) -> Result<(Vec<Table>, Vec<u64>, u64)> {
    let (mut offsets, mut at) = (Vec::with_capacity(placed.len()), start);
    for own in placed {
        at = at.checked_next_multiple_of(ALIGNMENT).ok_or_else(too_large)?;
        offsets.push(at);
        at = at.checked_add(own.buffer).ok_or_else(too_large)?;
    }
    let ranged = |table: &Table| match table.data() {
        Some((len, number)) => {
            let offset = offsets.get(number).copied().unwrap_or_default();
            Table::default().with(1, Field::U64(offset)).with(2, Field::U64(len))
        }
        None => table.clone(),
    };
    Ok((buffers.iter().map(ranged).collect(), offsets, at))
}

fn root(model: &Model, operators: &[Encoded], tensors: Vec<Table>, buffers: Vec<Table>) -> Result<Table> {
    let mut codes: Vec<(i32, i32)> = operators.iter().map(|own| (own.code, own.version)).collect();
    codes.sort_unstable();
    codes.dedup();
    let place = |own: &Encoded| {
        codes.binary_search(&(own.code, own.version)).ok().and_then(|at| u32::try_from(at).ok()).unwrap_or(0)
    };
    let operators = model.steps.iter().zip(operators).map(|(step, own)| {
        let inputs = step.inputs.iter().map(|input| input.map_or(Ok(-1), number));
        let table = Table::default()
            .with(field::operator::CODE, Field::U32(place(own)))
            .with(field::operator::INPUTS, Field::I32s(inputs.collect::<Result<_>>()?))
            .with(field::operator::OUTPUTS, Field::I32s(numbers(&step.outputs)?));
        Ok(match &own.options {
            Some((kind, options)) => table
                .with(field::operator::OPTIONS_TYPE, Field::U8(*kind))
                .with(field::operator::OPTIONS, Field::Table(options.clone())),
            None => table,
        })
    });
    let subgraph = Table::default()
        .with(field::subgraph::TENSORS, Field::Tables(tensors))
        .with(field::subgraph::INPUTS, Field::I32s(numbers(&model.inputs)?))
        .with(field::subgraph::OUTPUTS, Field::I32s(numbers(&model.outputs)?))
        .with(field::subgraph::OPERATORS, Field::Tables(operators.collect::<Result<_>>()?))
        .with(field::subgraph::NAME, Field::Text("main".to_owned()));
    // Old interpreters have the number in 8 bits.
    let code = |(code, version): &(i32, i32)| {
        Table::default()
            .with(0, Field::I8(i8::try_from(*code).unwrap_or(i8::MAX)))
            .with(2, Field::I32(*version))
            .with(3, Field::I32(*code))
    };
    Ok(Table::default()
        .with(field::model::VERSION, Field::U32(VERSION))
        .with(field::model::OPERATOR_CODES, Field::Tables(codes.iter().map(code).collect()))
        .with(field::model::SUBGRAPHS, Field::Tables(vec![subgraph]))
        .with(field::model::DESCRIPTION, Field::Text(DESCRIPTION.to_owned()))
        .with(field::model::BUFFERS, Field::Tables(buffers)))
}

/// A number of a tensor, as the format has it.
fn number(tensor: usize) -> Result<i32> {
    i32::try_from(tensor).map_err(|_| Error::unsupported("the model has too many tensors"))
}

fn numbers(tensors: &[usize]) -> Result<Vec<i32>> {
    tensors.iter().copied().map(number).collect()
}
