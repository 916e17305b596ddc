//! Puts the bytes of a new model together.

use super::builder::{Built, Initializer, Inner, Interface, NewNode, Setting as NodeSetting};
use super::locations::{external_name, pair};
use crate::format::gates::Gates;
use crate::format::{NAMESPACE, is_packed, number};
use crate::read::model::LOCATION;
use ckpt_api::{
    Checkpoint, Encoding, Error, Extent, FileId, OutputFile, OutputLayout, Packing, Placement, Result,
    Setting, Shape, Tensor, TensorId, text,
};
use ckpt_containers::protobuf::{put_bytes, put_int, put_len, put_varint};
use ckpt_containers::structure::Structure;

/// Version of the format, and of the operator set, that new models have.
const IR_VERSION: i64 = 10;
const OPSET: i64 = 21;
/// The most bytes of a message; what is not data of tensors counts, too.
const MOST_BYTES: u64 = (1 << 31) - 1;
/// Tensors of fewer bytes stay in the model where others are beside it.
const SMALL: u64 = 1024;
/// Offsets of tensors in the file of external data are multiples of it.
const ALIGNMENT: u64 = 64;

/// A new model, and where the tensors go.
pub(super) struct Assembled {
    pub(super) structure: Structure,
    tensors: Vec<Placed>,
    /// Bytes of the file of external data, if there is one.
    external: Option<u64>,
}

struct Placed {
    id: TensorId,
    extents: Vec<Extent>,
    encoding: Encoding,
    shape: Option<Shape>,
}

/// Assembles a model. Tensors of at least `threshold` bytes are in a file of their own; without one, only if the model
/// would be too large.
pub(super) fn assemble(
    built: &Built,
    checkpoint: &Checkpoint,
    name: &str,
    threshold: Option<u64>,
) -> Result<Assembled> {
    let assembled = Assembler::new(checkpoint, name, threshold).model(built)?;
    let is_too_large =
        |assembled: &Assembled| assembled.structure.file_len().is_none_or(|len| len > MOST_BYTES);
    if !is_too_large(&assembled) {
        return Ok(assembled);
    }
    let threshold = threshold.unwrap_or(SMALL).min(SMALL);
    let assembled = Assembler::new(checkpoint, name, Some(threshold)).model(built)?;
    match is_too_large(&assembled) {
        true => Err(Error::unsupported("the model would have more bytes than ONNX allows")
            .expected(format!("at most {MOST_BYTES} without the data of its tensors"))),
        false => Ok(assembled),
    }
}

impl Assembled {
    /// The layout of the files.
    pub(super) fn layout(self, checkpoint: &Checkpoint, name: &str) -> Result<OutputLayout> {
        let len = self
            .structure
            .file_len()
            .ok_or_else(|| Error::unsupported("the model has more bytes than a file can hold"))?;
        let mut files = vec![OutputFile::new(name, len)];
        files.extend(self.external.map(|len| OutputFile::new(external_name(name, 1), len)));
        let placements = self.tensors.into_iter().map(|placed| {
            let name =
                checkpoint.tensors.get(placed.id.0).map(|tensor| tensor.name.clone()).unwrap_or_default();
            Placement::new(placed.id, name, placed.extents, placed.encoding).with_shape(placed.shape)
        });
        Ok(OutputLayout::default()
            .with_files(files)
            .with_placements(placements.collect())
            .with_literals(self.structure.to_literals()))
    }
}

struct Assembler<'a> {
    checkpoint: &'a Checkpoint,
    name: &'a str,
    threshold: Option<u64>,
    structure: Structure,
    tensors: Vec<Placed>,
    /// Bytes of tensors so far, in the model and beside it.
    data: u64,
    external: u64,
}

impl<'a> Assembler<'a> {
    fn new(checkpoint: &'a Checkpoint, name: &'a str, threshold: Option<u64>) -> Self {
        let structure = Structure::default();
        Assembler { checkpoint, name, threshold, structure, tensors: Vec::new(), data: 0, external: 0 }
    }

    fn model(mut self, built: &Built) -> Result<Assembled> {
        self.graph(built)?;
        let mut head = Vec::new();
        put_int(&mut head, 1, IR_VERSION);
        put_bytes(&mut head, 2, b"ckpt");
        let body = self.structure.file_len().unwrap_or(u64::MAX);
        put_len(&mut head, 7, body);
        let shift = head.len() as u64;
        head.append(&mut self.structure.bytes);
        put_bytes(&mut head, 8, &[&[0x10][..], &varint(OPSET as u64)].concat());
        if let Some(properties) =
            self.checkpoint.metadata.value(NAMESPACE, "metadata_props").and_then(|props| props.as_map())
        {
            for (key, value) in properties.iter() {
                let Some(value) = value.as_text() else { continue };
                put_bytes(&mut head, 14, &pair(key, value));
            }
        }
        let data = self
            .structure
            .data
            .iter()
            .map(|range| range.start.saturating_add(shift)..range.end.saturating_add(shift));
        let structure = Structure::new(head, data.collect());
        for extent in self.tensors.iter_mut().flat_map(|placed| &mut placed.extents) {
            if extent.file == FileId(0) {
                extent.offset = extent.offset.saturating_add(shift);
            }
        }
        let external = (self.external > 0).then_some(self.external);
        Ok(Assembled { structure, tensors: self.tensors, external })
    }

    fn graph(&mut self, built: &Built) -> Result<()> {
        for node in &built.nodes {
            put_bytes(&mut self.structure.bytes, 1, &encoded(node));
        }
        put_bytes(&mut self.structure.bytes, 2, built.name.as_bytes());
        for initializer in &built.initializers {
            match initializer {
                Initializer::Literal { name, data_type, dims, raw } => {
                    let mut bytes = head(dims, *data_type, name);
                    put_bytes(&mut bytes, 9, raw);
                    put_bytes(&mut self.structure.bytes, 5, &bytes);
                }
                Initializer::Tensor { id, dims, order, gates } => {
                    let tensor = self.checkpoint.tensors.get(id.0);
                    let tensor =
                        tensor.ok_or_else(|| Error::defect("a tensor that does not exist is written"))?;
                    self.tensor(*id, tensor, dims, order, gates.as_ref())
                        .map_err(|error| error.tensor(&tensor.name))?;
                }
            }
        }
        for (field, values) in [(11, &built.inputs), (12, &built.outputs)] {
            for value in values {
                put_bytes(&mut self.structure.bytes, field, &interface(value));
            }
        }
        Ok(())
    }

    fn tensor(
        &mut self,
        id: TensorId,
        tensor: &Tensor,
        dims: &[u64],
        order: &[usize],
        gates: Option<&Gates>,
    ) -> Result<()> {
        let dtype = tensor.dtype;
        let number = number(dtype)
            .ok_or_else(|| Error::unsupported("ONNX has no such data type").found(dtype.name()))?;
        let mut encoding = Encoding::new(dtype, order.to_vec());
        if is_packed(dtype) {
            encoding = encoding.with_packing(Packing::Bits);
        }
        let len = encoding.padded_len(tensor.shape.elements()).ok_or_else(|| {
            Error::unsupported("the tensor has too many bytes").found(format!("{} of {dtype}", tensor.shape))
        })?;
        let mut bytes = head(dims, number, &tensor.name);
        let is_external = self.threshold.is_some_and(|threshold| len >= threshold && len > 0);
        let extent = if is_external {
            let offset = self.external.checked_next_multiple_of(ALIGNMENT).ok_or_else(too_large)?;
            self.external = offset.checked_add(len).ok_or_else(too_large)?;
            for (key, value) in [
                (LOCATION, external_name(self.name, 1)),
                ("offset", offset.to_string()),
                ("length", len.to_string()),
            ] {
                put_bytes(&mut bytes, 13, &pair(key, &value));
            }
            put_int(&mut bytes, 14, 1);
            put_bytes(&mut self.structure.bytes, 5, &bytes);
            Extent::new(FileId(1), offset, len)
        } else {
            put_len(&mut bytes, 9, len);
            let total = len.checked_add(bytes.len() as u64).ok_or_else(too_large)?;
            put_len(&mut self.structure.bytes, 5, total);
            self.structure.bytes.extend_from_slice(&bytes);
            let start = self.data.checked_add(self.structure.bytes.len() as u64).ok_or_else(too_large)?;
            self.data = self.data.checked_add(len).ok_or_else(too_large)?;
            if len > 0 {
                self.structure.data.push(start..start.saturating_add(len));
            }
            Extent::new(FileId(0), start, len)
        };
        let stored: Vec<u64> = order.iter().filter_map(|axis| tensor.shape.get(*axis).copied()).collect();
        let shape = if stored == dims { None } else { Some(Shape::new(dims)?) };
        let extents = match (gates, dtype.bytes()) {
            (None, _) => vec![extent],
            (Some(gates), Some(bytes)) => gates.pieces(&extent, bytes).ok_or_else(|| {
                Error::corrupt("the gates of a recurrent layer do not divide its tensor")
                    .found(tensor.shape.to_string())
            })?,
            (Some(_), None) => {
                return Err(Error::unsupported(
                    "gates of elements that are smaller than a byte are not reordered",
                )
                .found(dtype.name()));
            }
        };
        self.tensors.push(Placed { id, extents, encoding, shape });
        Ok(())
    }
}

fn too_large() -> Error {
    Error::unsupported("the tensors have more bytes than a file can hold")
        .help(text!["leave out tensors with ", Setting::EXCLUDE])
}

fn varint(value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, value);
    bytes
}

/// Lengths, data type and name of a tensor.
fn head(dims: &[u64], data_type: i64, name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for dim in dims {
        put_int(&mut bytes, 1, i64::try_from(*dim).unwrap_or(i64::MAX));
    }
    put_int(&mut bytes, 2, data_type);
    put_bytes(&mut bytes, 8, name.as_bytes());
    bytes
}

/// `ValueInfoProto`.
fn interface(value: &Interface) -> Vec<u8> {
    let mut tensor = Vec::new();
    put_int(&mut tensor, 1, value.data_type);
    if let Some(stated) = &value.shape {
        let mut shape = Vec::new();
        for dim in stated {
            let mut dimension = Vec::new();
            if let Some(len) = dim {
                put_int(&mut dimension, 1, i64::try_from(*len).unwrap_or(i64::MAX));
            }
            put_bytes(&mut shape, 1, &dimension);
        }
        put_bytes(&mut tensor, 2, &shape);
    }
    let mut kind = Vec::new();
    put_bytes(&mut kind, 1, &tensor);
    let mut bytes = Vec::new();
    put_bytes(&mut bytes, 1, value.name.as_bytes());
    put_bytes(&mut bytes, 2, &kind);
    bytes
}

/// `GraphProto` of a graph within a node, of which there are few levels.
fn within(graph: &Inner) -> Vec<u8> {
    let mut bytes = Vec::new();
    for node in &graph.nodes {
        put_bytes(&mut bytes, 1, &encoded(node));
    }
    put_bytes(&mut bytes, 2, graph.name.as_bytes());
    for (field, values) in [(11, &graph.inputs), (12, &graph.outputs)] {
        for value in values {
            put_bytes(&mut bytes, field, &interface(value));
        }
    }
    bytes
}

/// `NodeProto`.
fn encoded(node: &NewNode) -> Vec<u8> {
    let mut bytes = Vec::new();
    for input in &node.inputs {
        put_bytes(&mut bytes, 1, input.as_bytes());
    }
    for output in &node.outputs {
        put_bytes(&mut bytes, 2, output.as_bytes());
    }
    put_bytes(&mut bytes, 3, node.name.as_bytes());
    put_bytes(&mut bytes, 4, node.op.as_bytes());
    for (name, value) in &node.settings {
        let mut attribute = Vec::new();
        put_bytes(&mut attribute, 1, name.as_bytes());
        let kind = match value {
            NodeSetting::Float(value) => {
                put_varint(&mut attribute, 2 << 3 | 5);
                attribute.extend(value.to_le_bytes());
                1
            }
            NodeSetting::Int(value) => {
                put_int(&mut attribute, 3, *value);
                2
            }
            NodeSetting::Text(value) => {
                put_bytes(&mut attribute, 4, value.as_bytes());
                3
            }
            NodeSetting::Ints(values) => {
                values.iter().for_each(|value| put_int(&mut attribute, 8, *value));
                7
            }
            NodeSetting::Floats(values) => {
                for value in values {
                    put_varint(&mut attribute, 7 << 3 | 5);
                    attribute.extend(value.to_le_bytes());
                }
                6
            }
            NodeSetting::Texts(values) => {
                values.iter().for_each(|value| put_bytes(&mut attribute, 9, value.as_bytes()));
                8
            }
            NodeSetting::Graph(graph) => {
                put_bytes(&mut attribute, 6, &within(graph));
                5
            }
        };
        put_int(&mut attribute, 20, kind);
        put_bytes(&mut bytes, 5, &attribute);
    }
    for (key, value) in &node.properties {
        put_bytes(&mut bytes, 9, &pair(key, value));
    }
    bytes
}
