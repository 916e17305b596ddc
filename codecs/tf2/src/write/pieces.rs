//! What is to be stored: runs of bytes, each with its entry, and which parts of which tensors they hold.

use crate::format::{Entry, MAX_RANK, OBJECT_GRAPH, crc32c, holder, mask};
use crate::naming::{Made, Named, Naming};
use crate::ordered_code::slice_key;
use crate::strings;
use crate::write::sliced::{self, Slice};
use ckpt_api::{
    Checkpoint, DType, Encoding, Endian, Error, Loss, LossKind, Region, Result, Shape, Tensor, TensorId,
};
use prost::encoding::encoded_len_varint;
use serde_json::Value;
use std::collections::HashSet;

/// All that is to be stored, in order.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// Runs of bytes.
    pub(crate) pieces: Vec<Piece>,
    /// Entries that have no bytes: of partitioned tensors.
    pub(crate) wholes: Vec<(Vec<u8>, Entry)>,
    /// Which tensors are in the pieces.
    pub(crate) tensors: Vec<Source>,
    /// What is not stored as it was.
    pub(crate) losses: Vec<Loss>,
}

/// One run of bytes, stored under a key of its own.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Its key.
    pub(crate) key: Vec<u8>,
    /// Its entry, but for where it lies and the checksum of what is not known yet.
    pub(crate) entry: Entry,
    /// The bytes it begins with that are known now.
    pub(crate) head: Vec<u8>,
    /// The checksum of what counts as lying before what is not known yet.
    pub(crate) seed: u32,
    /// Bytes of each element, for variants.
    pub(crate) variants: Option<Vec<u64>>,
    /// Where it lay in the checkpoint that was read: data file and first byte.
    pub(crate) at: Option<(u32, u64)>,
}

/// A tensor, and where in the pieces its bytes go.
#[derive(Debug)]
pub(crate) struct Source {
    /// Which tensor.
    pub(crate) id: TensorId,
    /// Its key, as text.
    pub(crate) name: String,
    /// How its elements are stored.
    pub(crate) encoding: Encoding,
    /// In the order of the tensor's values.
    pub(crate) parts: Vec<Part>,
}

/// A run of a tensor's bytes within a piece.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Which piece.
    pub(crate) piece: usize,
    /// First byte within the piece.
    pub(crate) offset: u64,
    /// Bytes.
    pub(crate) len: u64,
    /// Which box of the tensor it is, where that is not all of it.
    pub(crate) region: Option<Region>,
}

impl Piece {
    /// A piece of nothing yet.
    pub(crate) fn new(key: Vec<u8>, dtype: DType, shape: Shape) -> Self {
        let entry =
            Entry { dtype, shape, shard: 0, offset: 0, size: 0, crc: mask(0), slices: [].into(), at: 0 };
        Piece { key, entry, head: Vec::new(), seed: 0, variants: None, at: None }
    }

    /// A piece of strings of these lengths: their table, room for the rest.
    pub(crate) fn strings(key: Vec<u8>, shape: Shape, lengths: &[u64], endian: Endian) -> Self {
        let (head, seed) = strings::table(lengths.iter().copied(), endian);
        let bytes = lengths.iter().fold(head.len() as u64, |sum, len| sum.saturating_add(*len));
        let mut piece = Piece { head, seed, ..Piece::new(key, DType::String, shape) };
        (piece.entry.size, piece.entry.crc) = (bytes, mask(seed));
        piece
    }
}

impl Pieces {
    /// Everything that the checkpoint has, as `naming` says. `merge` puts partitioned tensors together.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for what no checkpoint can hold.
    pub(crate) fn new(checkpoint: &Checkpoint, naming: Naming, endian: Endian, merge: bool) -> Result<Self> {
        let Naming { tensors, made, losses } = naming;
        let mut pieces = Pieces { losses, ..Pieces::default() };
        let place_of_graph = place_of_graph(checkpoint, &tensors);
        let (graph, rest): (Vec<Made>, Vec<Made>) =
            made.into_iter().partition(|made| made.key == OBJECT_GRAPH.as_bytes());
        let mut graph = graph.into_iter().peekable();
        for (id, (tensor, named)) in checkpoint.tensors.iter().zip(tensors).enumerate() {
            if id == place_of_graph {
                graph.by_ref().for_each(|made| pieces.add_made(made, graph_at(checkpoint), endian));
            }
            if let Some(named) = named {
                pieces.add(TensorId(id), tensor, named, endian, merge)?;
            }
        }
        graph.for_each(|made| pieces.add_made(made, graph_at(checkpoint), endian));
        rest.into_iter().for_each(|made| pieces.add_made(made, None, endian));
        Ok(pieces)
    }

    /// The keys of all slices.
    pub(crate) fn slice_keys(&self) -> HashSet<Vec<u8>> {
        let of = |(key, whole): &(Vec<u8>, Entry)| -> Vec<Vec<u8>> {
            whole.slices.iter().map(|extents| slice_key(key, extents)).collect()
        };
        self.wholes.iter().flat_map(of).collect()
    }

    fn add(
        &mut self,
        id: TensorId,
        tensor: &Tensor,
        named: Named,
        endian: Endian,
        merge: bool,
    ) -> Result<()> {
        if tensor.shape.rank() > MAX_RANK {
            return Err(Error::unsupported("the tensor has more axes than TensorFlow allows")
                .tensor(&tensor.name)
                .found(tensor.shape.rank().to_string())
                .expected(format!("at most {MAX_RANK}"))
                .help("reshape the tensor, or leave it out with --exclude"));
        }
        let Named { key, order } = named;
        let dtype = holder(tensor.dtype);
        if dtype != tensor.dtype {
            let detail = format!("stored as {dtype}, which holds every {} exactly", tensor.dtype);
            self.losses.push(Loss::new(LossKind::Retyped, &tensor.name, detail));
        }
        let keep = !merge && order.iter().enumerate().all(|(position, axis)| position == *axis);
        let encoding = Encoding { dtype, endian, order, ..Encoding::row_major(tensor) };
        let slices = if keep { sliced::of(tensor) } else { None };
        let positions = positions(tensor);
        let first = self.pieces.len();
        let name = crate::names::shown(&key);
        let parts = match (slices, tensor.dtype.bytes()) {
            (Some(slices), _) => self.add_slices(key, tensor, &encoding, slices)?,
            (None, Some(_)) => self.add_values(key, tensor, &encoding)?,
            (None, None) => self.add_elements(key, tensor, endian),
        };
        let added = self.pieces.get_mut(first..).unwrap_or_default();
        if added.len() == positions.len() {
            added.iter_mut().zip(positions).for_each(|(piece, at)| piece.at = Some(at));
        }
        self.tensors.push(Source { id, name, encoding, parts });
        Ok(())
    }

    fn add_values(&mut self, key: Vec<u8>, tensor: &Tensor, encoding: &Encoding) -> Result<Vec<Part>> {
        let mut piece = Piece::new(key, encoding.dtype, tensor.shape.permuted(&encoding.order));
        piece.entry.size = stored_len(tensor, &tensor.shape, encoding)?;
        let part = Part { piece: self.pieces.len(), offset: 0, len: piece.entry.size, region: None };
        self.pieces.push(piece);
        Ok(if part.len > 0 { vec![part] } else { Vec::new() })
    }

    fn add_elements(&mut self, key: Vec<u8>, tensor: &Tensor, endian: Endian) -> Vec<Part> {
        let lengths = tensor.lengths.as_deref().unwrap_or_default();
        let number = self.pieces.len();
        let mut parts = Vec::new();
        if tensor.dtype == DType::Variant {
            let mut piece = Piece::new(key, DType::Variant, tensor.shape.clone());
            let mut offset = 0u64;
            for len in lengths {
                offset = offset.saturating_add(encoded_len_varint(*len) as u64);
                if *len > 0 {
                    parts.push(Part { piece: number, offset, len: *len, region: None });
                }
                offset = offset.saturating_add(*len).saturating_add(size_of::<u32>() as u64);
            }
            piece.entry.size = offset;
            piece.variants = Some(lengths.to_vec());
            self.pieces.push(piece);
            return parts;
        }
        let piece = Piece::strings(key, tensor.shape.clone(), lengths, endian);
        let offset = piece.head.len() as u64;
        let len = piece.entry.size.saturating_sub(offset);
        if len > 0 {
            parts.push(Part { piece: number, offset, len, region: None });
        }
        self.pieces.push(piece);
        parts
    }

    fn add_slices(
        &mut self,
        key: Vec<u8>,
        tensor: &Tensor,
        encoding: &Encoding,
        slices: Vec<Slice>,
    ) -> Result<Vec<Part>> {
        let mut whole = Piece::new(Vec::new(), encoding.dtype, tensor.shape.clone()).entry;
        whole.crc = 0;
        let first = self.pieces.len();
        let (mut listed, mut boxes) = (Vec::with_capacity(slices.len()), Vec::with_capacity(slices.len()));
        for Slice { extents, region } in slices {
            let mut piece = Piece::new(slice_key(&key, &extents), encoding.dtype, region.shape.clone());
            if tensor.dtype.bytes().is_some() {
                piece.entry.size = stored_len(tensor, &region.shape, encoding)?;
            }
            self.pieces.push(piece);
            listed.push(extents);
            boxes.push(region);
        }
        whole.slices = listed.into();
        self.wholes.push((key, whole));
        let pieces = self.pieces.get_mut(first..).unwrap_or_default();
        if tensor.dtype.bytes().is_none() {
            return Ok(sliced::split_strings(tensor, &boxes, pieces, first, encoding.endian));
        }
        let part = |(number, (piece, region)): (usize, (&mut Piece, Region))| Part {
            piece: first + number,
            offset: 0,
            len: piece.entry.size,
            region: Some(region),
        };
        Ok(pieces.iter_mut().zip(boxes).enumerate().map(part).filter(|part| part.len > 0).collect())
    }

    fn add_made(&mut self, made: Made, at: Option<(u32, u64)>, endian: Endian) {
        let Made { key, dtype, shape, value } = made;
        let mut piece = match dtype {
            DType::String => Piece::strings(key, shape, &[value.len() as u64], endian),
            _ => Piece::new(key, dtype, shape),
        };
        let value = match endian {
            Endian::Big => {
                value.chunks(dtype.component_bytes()).flat_map(|c| c.iter().rev()).copied().collect()
            }
            Endian::Little => value,
        };
        piece.entry.crc = mask(crc32c(piece.seed, &value));
        piece.head.extend(value);
        piece.entry.size = piece.head.len() as u64;
        piece.at = at;
        self.pieces.push(piece);
    }
}

fn stored_len(tensor: &Tensor, shape: &Shape, encoding: &Encoding) -> Result<u64> {
    encoding.stored_len(shape.elements()).ok_or_else(|| {
        Error::unsupported("the tensor has more bytes than a file can hold").tensor(&tensor.name)
    })
}

/// Before which tensor the object graph lies that is made anew: where it lay, or last.
fn place_of_graph(checkpoint: &Checkpoint, tensors: &[Option<Named>]) -> usize {
    let replaced = checkpoint
        .tensors
        .iter()
        .zip(tensors)
        .position(|(tensor, named)| named.is_none() && tensor.name == OBJECT_GRAPH);
    let stated = checkpoint.metadata.value("tf2", "object_graph_index").and_then(Value::as_u64);
    let stated = stated.and_then(|index| usize::try_from(index).ok());
    replaced.or(stated).unwrap_or(usize::MAX)
}

/// Where the object graph lay, for one that is made anew.
fn graph_at(checkpoint: &Checkpoint) -> Option<(u32, u64)> {
    position(checkpoint.metadata.value("tf2", "layout")?.get("object_graph")?)
}

/// Where the pieces of a tensor lay.
fn positions(tensor: &Tensor) -> Vec<(u32, u64)> {
    let stated = tensor.metadata.value("tf2", "at").and_then(Value::as_array);
    let positions = stated.and_then(|all| all.iter().map(position).collect::<Option<Vec<_>>>());
    positions.unwrap_or_default()
}

/// A data file and an offset, as metadata has them.
fn position(value: &Value) -> Option<(u32, u64)> {
    match &value.as_array()?[..] {
        [shard, offset] => Some((u32::try_from(shard.as_u64()?).ok()?, offset.as_u64()?)),
        _ => None,
    }
}
