//! Builds graphs field by field, and reads what a codec says of a file.

use ckpt_api::{Codec, Contents, Input, Limits, Options, Placement, Result, Shape, Tensor, TensorId};
use ckpt_tf2::Tf1;
use prost::encoding::encode_varint;

/// Reads a file, and checks what the engine checks before a conversion.
pub(super) fn read(input: &Input) -> Result<Contents> {
    let limits = Limits::default();
    let contents = Tf1.read(input, &Options::default(), &limits)?;
    contents.check(&limits)?;
    contents.check_data(input, (0..contents.placements.len()).map(TensorId))?;
    Ok(contents)
}

/// A file with these bytes.
pub(super) fn file(bytes: Vec<u8>) -> Input {
    Input::memory("model.pb", [("model.pb".to_owned(), bytes)].into())
}

/// The elements of all tensors.
pub(super) fn values(input: &Input, contents: &Contents) -> Result<Vec<Vec<u8>>> {
    let tensors = contents.checkpoint.tensors.iter().zip(&contents.placements);
    tensors.map(|(tensor, placement)| value(input, tensor, placement)).collect()
}

fn value(input: &Input, tensor: &Tensor, placement: &Placement) -> Result<Vec<u8>> {
    let size = usize::try_from(tensor.dtype.bytes().unwrap()).unwrap();
    let mut whole = vec![0; usize::try_from(tensor.shape.elements()).unwrap() * size];
    let mut end = 0;
    for extent in &placement.extents {
        let bytes = extent.open(&input.main()?)?.bytes(0, extent.len)?;
        match extent.region() {
            None if placement.window().is_some() => {
                whole.chunks_mut(size).for_each(|element| element.copy_from_slice(&bytes))
            }
            None => whole[end..end + bytes.len()].copy_from_slice(&bytes),
            Some(region) => {
                for (number, element) in bytes.chunks(size).enumerate() {
                    let at = position(number, &region.start, &region.shape, &tensor.shape) * size;
                    whole[at..at + size].copy_from_slice(element);
                }
            }
        }
        end += bytes.len();
    }
    Ok(whole)
}

/// The position in a tensor of an element of one of its regions.
fn position(mut number: usize, start: &[u64], part: &Shape, whole: &Shape) -> usize {
    let (mut position, mut stride) = (0, 1);
    for axis in (0..whole.rank()).rev() {
        let len = part[axis] as usize;
        position += (start[axis] as usize + number % len) * stride;
        number /= len;
        stride *= whole[axis] as usize;
    }
    position
}

/// A field with bytes.
pub(super) fn field(number: u64, bytes: &[u8]) -> Vec<u8> {
    let mut field = Vec::new();
    encode_varint(number << 3 | 2, &mut field);
    encode_varint(bytes.len() as u64, &mut field);
    [&field[..], bytes].concat()
}

/// A field with a number.
pub(super) fn number(field: u64, value: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_varint(field << 3, &mut bytes);
    encode_varint(value as u64, &mut bytes);
    bytes
}

/// A constant whose `TensorProto` has these values after its dtype and shape.
pub(super) fn constant(name: &str, dtype: i64, dims: &[i64], values: &[u8]) -> Vec<u8> {
    let shape: Vec<u8> = dims.iter().flat_map(|len| field(2, &number(1, *len))).collect();
    let tensor = [number(1, dtype), field(2, &shape), values.to_vec()].concat();
    node(name, "Const", &attribute("value", &field(8, &tensor)))
}

/// An attribute of a node.
pub(super) fn attribute(name: &str, value: &[u8]) -> Vec<u8> {
    field(5, &[field(1, name.as_bytes()), field(2, value)].concat())
}

/// What a graph is given.
pub(super) fn placeholder(name: &str, dims: &[i64]) -> Vec<u8> {
    let shape: Vec<u8> = dims.iter().flat_map(|len| field(2, &number(1, *len))).collect();
    let attributes = [attribute("dtype", &number(6, 1)), attribute("shape", &field(7, &shape))];
    node(name, "Placeholder", &attributes.concat())
}

pub(super) fn node(name: &str, op: &str, rest: &[u8]) -> Vec<u8> {
    field(1, &[field(1, name.as_bytes()), field(2, op.as_bytes()), rest.to_vec()].concat())
}
