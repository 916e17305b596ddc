//! The entries to write, and which tensors' bytes they hold.

use crate::format::{Entry, MAX_RANK, OBJECT_GRAPH, crc32c, holder, mask};
use crate::key_text::abbreviate;
use crate::naming::{Assignment, ExtraEntry, Naming};
use crate::ordered_code::slice_key;
use crate::round_trip::WHOLE_SHARD;
use crate::write::data_entry::{DataEntry, Segment};
use crate::write::partition::{RecordedSlice, recorded_slices, split_strings};
use ckpt_api::{
    Checkpoint, DType, Encoding, Endian, Error, Loss, MetadataValue, Region, Result, Setting, Shape, Tensor,
    TensorId,
};
use prost::encoding::encoded_len_varint;
use std::collections::HashSet;

/// Everything that is to be written.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    /// Entries with data, in the order of the data.
    pub(crate) data: Vec<DataEntry>,
    /// Partitioned tensors.
    pub(crate) partitioned: Vec<PartitionedEntry>,
    /// Where the bytes of each tensor go.
    pub(crate) tensors: Vec<TensorSegments>,
    /// Losses of the naming.
    pub(crate) losses: Vec<Loss>,
}

/// The entry of a partitioned tensor, which only lists its slices.
#[derive(Debug)]
pub(crate) struct PartitionedEntry {
    /// The key.
    pub(crate) key: Vec<u8>,
    /// The entry. Its data file is set when the slices have theirs.
    pub(crate) entry: Entry,
    /// Number of the first slice among the entries with data.
    pub(crate) first_slice: usize,
    /// The recorded number of its data file, if that is not the first slice's.
    pub(crate) original: Option<u32>,
}

/// A tensor, and the segments that its bytes go to.
#[derive(Debug)]
pub(crate) struct TensorSegments {
    /// The tensor.
    pub(crate) id: TensorId,
    /// Its key, for messages.
    pub(crate) name: String,
    /// How its elements are stored.
    pub(crate) encoding: Encoding,
    /// The segments, in the order of the tensor's elements.
    pub(crate) segments: Vec<Segment>,
}

impl Entries {
    /// Collects the entries for a checkpoint whose keys `naming` assigns. With `merge`, partitioned tensors are written
    /// whole.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for a tensor with too many axes or bytes.
    pub(crate) fn new(checkpoint: &Checkpoint, naming: Naming, endian: Endian, merge: bool) -> Result<Self> {
        let Naming { tensors, extra, losses } = naming;
        let mut entries = Entries { losses, ..Entries::default() };
        let graph_index = graph_index(checkpoint, &tensors);
        let (graph, rest): (Vec<ExtraEntry>, Vec<ExtraEntry>) =
            extra.into_iter().partition(|extra| extra.key == OBJECT_GRAPH.as_bytes());
        let mut graph = graph.into_iter().peekable();
        for (id, (tensor, assignment)) in checkpoint.tensors.iter().zip(tensors).enumerate() {
            if id == graph_index {
                graph.by_ref().for_each(|extra| entries.add_extra(extra, graph_position(checkpoint), endian));
            }
            if let Some(assignment) = assignment {
                entries.add(TensorId(id), tensor, assignment, endian, merge)?;
            }
        }
        graph.for_each(|extra| entries.add_extra(extra, graph_position(checkpoint), endian));
        rest.into_iter().for_each(|extra| entries.add_extra(extra, None, endian));
        Ok(entries)
    }

    /// Returns the keys of all slices.
    pub(crate) fn slice_keys(&self) -> HashSet<Vec<u8>> {
        let keys = |PartitionedEntry { key, entry, .. }: &PartitionedEntry| -> Vec<Vec<u8>> {
            entry.slices.iter().map(|extents| slice_key(key, extents)).collect()
        };
        self.partitioned.iter().flat_map(keys).collect()
    }

    /// For each entry with data, the tensor whose bytes are all of it; `None` where there is none.
    pub(crate) fn owners(&self) -> Vec<Option<TensorId>> {
        let mut owners = vec![None; self.data.len()];
        for TensorSegments { id, segments, .. } in &self.tensors {
            let [Segment { entry, len, .. }] = &segments[..] else { continue };
            let size = self.data.get(*entry).map(|data| data.entry.size);
            if let Some(owner) = owners.get_mut(*entry).filter(|_| size == Some(*len)) {
                *owner = Some(*id);
            }
        }
        owners
    }

    fn add(
        &mut self,
        id: TensorId,
        tensor: &Tensor,
        assignment: Assignment,
        endian: Endian,
        merge: bool,
    ) -> Result<()> {
        if tensor.shape.rank() > MAX_RANK {
            return Err(Error::unsupported("the tensor has more axes than TensorFlow allows")
                .tensor(&tensor.name)
                .found(tensor.shape.rank().to_string())
                .expected(format!("at most {MAX_RANK}"))
                .help(format!("reshape the tensor, or leave it out with {}", Setting::Exclude)));
        }
        let Assignment { key, order } = assignment;
        let dtype = holder(tensor.dtype);
        let keep_slices = !merge && order.iter().enumerate().all(|(position, axis)| position == *axis);
        let encoding = Encoding::row_major(tensor).with_dtype(dtype).with_endian(endian).with_order(order);
        let slices = if keep_slices { recorded_slices(tensor) } else { None };
        let positions = recorded_positions(tensor);
        let first = self.data.len();
        let name = abbreviate(&key);
        let segments = match (slices, tensor.dtype.bytes()) {
            (Some(slices), _) => self.add_slices(key, tensor, &encoding, slices)?,
            (None, Some(_)) => self.add_fixed_size(key, tensor, &encoding)?,
            (None, None) => self.add_variable_length(key, tensor, endian),
        };
        let added = self.data.get_mut(first..).unwrap_or_default();
        if added.len() == positions.len() {
            added.iter_mut().zip(positions).for_each(|(data, position)| data.original = Some(position));
        }
        self.tensors.push(TensorSegments { id, name, encoding, segments });
        Ok(())
    }

    fn add_fixed_size(&mut self, key: Vec<u8>, tensor: &Tensor, encoding: &Encoding) -> Result<Vec<Segment>> {
        let mut data = DataEntry::new(key, encoding.dtype, tensor.shape.permuted(&encoding.order));
        data.entry.size = stored_len(tensor, &tensor.shape, encoding)?;
        let segment = Segment { entry: self.data.len(), offset: 0, len: data.entry.size, region: None };
        self.data.push(data);
        Ok(if segment.len > 0 { vec![segment] } else { Vec::new() })
    }

    fn add_variable_length(&mut self, key: Vec<u8>, tensor: &Tensor, endian: Endian) -> Vec<Segment> {
        let lengths = tensor.lengths.as_deref().unwrap_or_default();
        let number = self.data.len();
        let mut segments = Vec::new();
        if tensor.dtype == DType::Variant {
            let mut data = DataEntry::new(key, DType::Variant, tensor.shape.clone());
            let mut offset = 0u64;
            for len in lengths {
                offset = offset.saturating_add(encoded_len_varint(*len) as u64);
                if *len > 0 {
                    segments.push(Segment { entry: number, offset, len: *len, region: None });
                }
                offset = offset.saturating_add(*len).saturating_add(size_of::<u32>() as u64);
            }
            data.entry.size = offset;
            data.variants = Some(lengths.to_vec());
            self.data.push(data);
            return segments;
        }
        let data = DataEntry::strings(key, tensor.shape.clone(), lengths, endian);
        let offset = data.head.len() as u64;
        let len = data.entry.size.saturating_sub(offset);
        if len > 0 {
            segments.push(Segment { entry: number, offset, len, region: None });
        }
        self.data.push(data);
        segments
    }

    fn add_slices(
        &mut self,
        key: Vec<u8>,
        tensor: &Tensor,
        encoding: &Encoding,
        slices: Vec<RecordedSlice>,
    ) -> Result<Vec<Segment>> {
        let mut whole = DataEntry::new(Vec::new(), encoding.dtype, tensor.shape.clone()).entry;
        whole.crc = 0;
        let first = self.data.len();
        let (mut listed, mut regions) = (Vec::with_capacity(slices.len()), Vec::with_capacity(slices.len()));
        for RecordedSlice { extents, region } in slices {
            let mut data = DataEntry::new(slice_key(&key, &extents), encoding.dtype, region.shape.clone());
            if tensor.dtype.bytes().is_some() {
                data.entry.size = stored_len(tensor, &region.shape, encoding)?;
            }
            self.data.push(data);
            listed.push(extents);
            regions.push(region);
        }
        whole.slices = listed.into();
        let original = tensor.metadata.value("tf2", WHOLE_SHARD).and_then(MetadataValue::as_u64);
        let original = original.and_then(|shard| u32::try_from(shard).ok());
        self.partitioned.push(PartitionedEntry { key, entry: whole, first_slice: first, original });
        let added = self.data.get_mut(first..).unwrap_or_default();
        if tensor.dtype.bytes().is_none() {
            return Ok(split_strings(tensor, &regions, added, first, encoding.endian));
        }
        let segment = |(number, (data, region)): (usize, (&mut DataEntry, Region))| Segment {
            entry: first + number,
            offset: 0,
            len: data.entry.size,
            region: Some(region),
        };
        let segments = added.iter_mut().zip(regions).enumerate().map(segment);
        Ok(segments.filter(|segment| segment.len > 0).collect())
    }

    fn add_extra(&mut self, extra: ExtraEntry, original: Option<(u32, u64)>, endian: Endian) {
        let ExtraEntry { key, dtype, shape, value } = extra;
        let mut data = match dtype {
            DType::String => DataEntry::strings(key, shape, &[value.len() as u64], endian),
            _ => DataEntry::new(key, dtype, shape),
        };
        let value = match endian {
            Endian::Big => {
                value.chunks(dtype.component_bytes()).flat_map(|c| c.iter().rev()).copied().collect()
            }
            Endian::Little => value,
        };
        data.entry.crc = mask(crc32c(data.seed, &value));
        data.head.extend(value);
        data.entry.size = data.head.len() as u64;
        data.original = original;
        self.data.push(data);
    }
}

fn stored_len(tensor: &Tensor, shape: &Shape, encoding: &Encoding) -> Result<u64> {
    encoding.stored_len(shape.elements()).ok_or_else(|| {
        Error::unsupported("the tensor has more bytes than a file can hold").tensor(&tensor.name)
    })
}

/// Returns the number of the tensor before which a new object graph is written: where the original was, or last.
fn graph_index(checkpoint: &Checkpoint, tensors: &[Option<Assignment>]) -> usize {
    let replaced = checkpoint
        .tensors
        .iter()
        .zip(tensors)
        .position(|(tensor, assignment)| assignment.is_none() && tensor.name == OBJECT_GRAPH);
    let recorded = checkpoint.metadata.value("tf2", "object_graph_index").and_then(MetadataValue::as_u64);
    let recorded = recorded.and_then(|index| usize::try_from(index).ok());
    replaced.or(recorded).unwrap_or(usize::MAX)
}

/// Returns the recorded data file and offset of the original object graph.
fn graph_position(checkpoint: &Checkpoint) -> Option<(u32, u64)> {
    position(checkpoint.metadata.value("tf2", "layout")?.as_map()?.get("object_graph")?)
}

/// Returns the recorded data file and offset of each slice of a tensor, or of the whole tensor.
fn recorded_positions(tensor: &Tensor) -> Vec<(u32, u64)> {
    let recorded = tensor.metadata.value("tf2", "at").and_then(MetadataValue::as_list);
    let positions = recorded.and_then(|all| all.iter().map(position).collect::<Option<Vec<_>>>());
    positions.unwrap_or_default()
}

/// Parses a data file and an offset.
fn position(value: &MetadataValue) -> Option<(u32, u64)> {
    match value.as_list()? {
        [shard, offset] => Some((u32::try_from(shard.as_u64()?).ok()?, offset.as_u64()?)),
        _ => None,
    }
}
