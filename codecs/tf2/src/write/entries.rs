//! The entries to write, and which tensors' bytes they hold.

use crate::format::{Entry, MAX_RANK, OBJECT_GRAPH, crc32c, holder, mask};
use crate::key::Key;
use crate::naming::{Assignment, ExtraEntry, Naming};
use crate::ordered_code::slice_key;
use crate::round_trip::WHOLE_SHARD;
use crate::write::data_entry::{DataEntry, DataSize, Segment};
use crate::write::partition::{RecordedSlice, recorded_slices, split_strings};
use ckpt_api::{
    Checkpoint, DType, Encoding, Endian, Error, Loss, MetadataValue, Name, Region, Result, Setting, Shape,
    Tensor, TensorId, text,
};
use prost::encoding::encoded_len_varint;

/// Everything that is to be written, in the order of the data. The entries of one tensor are made at a time, twice: there
/// can be many thousand tensors.
pub(crate) struct Entries<'a> {
    checkpoint: &'a Checkpoint,
    endian: Endian,
    /// Whether partitioned tensors are written whole.
    merge: bool,
    tensors: Vec<Option<Assignment>>,
    /// The object graph, if it is new.
    graph: Vec<ExtraEntry>,
    /// Number of the tensor before which it is written.
    graph_index: usize,
    /// Entries after all tensors.
    rest: Vec<ExtraEntry>,
}

/// The entries of one tensor, or one entry that belongs to none.
#[derive(Debug, Default)]
pub(crate) struct EntryGroup {
    /// Entries with data, in the order of the data.
    pub(crate) data: Vec<DataEntry>,
    /// The entry of a partitioned tensor.
    pub(crate) partitioned: Option<PartitionedEntry>,
    /// The tensor whose bytes these entries hold.
    pub(crate) tensor: Option<TensorSegments>,
}

/// The entry of a partitioned tensor, which only lists its slices, the entries with data of its group.
#[derive(Debug)]
pub(crate) struct PartitionedEntry {
    /// The key.
    pub(crate) key: Key,
    /// The entry. Its data file is set when the slices have theirs.
    pub(crate) entry: Entry,
    /// The recorded number of its data file, if that is not the first slice's.
    pub(crate) original: Option<u32>,
}

/// A tensor, and the segments that its bytes go to.
#[derive(Debug)]
pub(crate) struct TensorSegments {
    /// The tensor.
    pub(crate) id: TensorId,
    /// Its key, for messages.
    pub(crate) name: Name,
    /// How its elements are stored.
    pub(crate) encoding: Encoding,
    /// The segments, in the order of the tensor's elements.
    pub(crate) segments: Vec<Segment>,
}

impl<'a> Entries<'a> {
    /// The entries for a checkpoint whose keys `naming` assigns, and the losses of the naming. With `merge`, partitioned
    /// tensors are written whole.
    pub(crate) fn new(
        checkpoint: &'a Checkpoint,
        naming: Naming,
        endian: Endian,
        merge: bool,
    ) -> (Self, Vec<Loss>) {
        let Naming { tensors, extra, losses } = naming;
        let graph_index = graph_index(checkpoint, &tensors);
        let (graph, rest): (Vec<ExtraEntry>, Vec<ExtraEntry>) =
            extra.into_iter().partition(|extra| extra.key == *OBJECT_GRAPH);
        (Entries { checkpoint, endian, merge, tensors, graph, graph_index, rest }, losses)
    }

    /// What the layout depends on of each entry with data.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for a tensor with too many axes or bytes.
    pub(crate) fn sizes(&self) -> Result<Vec<DataSize>> {
        let mut sizes = Vec::with_capacity(self.tensors.len());
        // No size depends on a key.
        let keyless =
            |assignment: &Assignment| Assignment { key: Key::default(), order: assignment.order.clone() };
        let tensors = self.tensors.iter().map(|assigned| assigned.as_ref().map(keyless));
        self.each(tensors, |group| {
            sizes.extend(group.sizes());
            Ok(())
        })?;
        Ok(sizes)
    }

    /// Makes all entries, in the order of [`Entries::sizes`].
    ///
    /// # Errors
    /// Those of [`Entries::sizes`] and of `take`.
    pub(crate) fn make(mut self, take: impl FnMut(EntryGroup) -> Result<()>) -> Result<()> {
        let tensors = std::mem::take(&mut self.tensors);
        self.each(tensors.into_iter(), take)
    }

    fn each(
        &self,
        tensors: impl Iterator<Item = Option<Assignment>>,
        mut take: impl FnMut(EntryGroup) -> Result<()>,
    ) -> Result<()> {
        let position = graph_position(self.checkpoint);
        let mut graph = self.graph.iter();
        let extra = |extra: &ExtraEntry, original| EntryGroup::of_extra(extra, original, self.endian);
        for (id, (tensor, assignment)) in self.checkpoint.tensors.iter().zip(tensors).enumerate() {
            if id == self.graph_index {
                graph.by_ref().try_for_each(|entry| take(extra(entry, position)))?;
            }
            if let Some(assignment) = assignment {
                take(EntryGroup::of_tensor(TensorId(id), tensor, assignment, self.endian, self.merge)?)?;
            }
        }
        graph.try_for_each(|entry| take(extra(entry, position)))?;
        self.rest.iter().try_for_each(|entry| take(extra(entry, None)))
    }
}

impl EntryGroup {
    /// Returns the keys of a partitioned tensor's slices.
    pub(crate) fn slice_keys(&self) -> impl Iterator<Item = Vec<u8>> {
        self.partitioned.iter().flat_map(|PartitionedEntry { key, entry, .. }| {
            entry.slices.iter().map(|extents| slice_key(key, extents))
        })
    }

    fn sizes(&self) -> impl Iterator<Item = DataSize> {
        let whole =
            self.tensor.as_ref().and_then(|TensorSegments { id, segments, .. }| match &segments[..] {
                [Segment { entry, len, .. }] => Some((*id, *entry, *len)),
                _ => None,
            });
        self.data.iter().enumerate().map(move |(number, data)| {
            let size = data.entry.size;
            let owner = whole.filter(|(_, entry, len)| (*entry, *len) == (number, size)).map(|(id, ..)| id);
            DataSize { size, original: data.original, owner }
        })
    }

    fn of_tensor(
        id: TensorId,
        tensor: &Tensor,
        assignment: Assignment,
        endian: Endian,
        merge: bool,
    ) -> Result<Self> {
        if tensor.shape.rank() > MAX_RANK {
            return Err(Error::unsupported("the tensor has more axes than TensorFlow allows")
                .tensor(&tensor.name)
                .found(tensor.shape.rank().to_string())
                .expected(format!("at most {MAX_RANK}"))
                .help(text!["reshape the tensor, or leave it out with ", Setting::EXCLUDE]));
        }
        let Assignment { key, order } = assignment;
        let dtype = holder(tensor.dtype);
        let keep_slices = !merge && order.iter().enumerate().all(|(position, axis)| position == *axis);
        let encoding = Encoding::row_major(tensor).with_dtype(dtype).with_endian(endian).with_order(order);
        let slices = if keep_slices { recorded_slices(tensor, dtype) } else { None };
        let positions = recorded_positions(tensor);
        let name = key.name();
        let mut group = EntryGroup::default();
        let segments = match (slices, tensor.dtype.bytes()) {
            (Some(slices), _) => group.add_slices(key, tensor, &encoding, slices)?,
            (None, Some(_)) => group.add_fixed_size(key, tensor, &encoding)?,
            (None, None) => group.add_variable_length(key, tensor, endian),
        };
        if group.data.len() == positions.len() {
            group.data.iter_mut().zip(positions).for_each(|(data, position)| data.original = Some(position));
        }
        group.tensor = Some(TensorSegments { id, name, encoding, segments });
        Ok(group)
    }

    fn add_fixed_size(&mut self, key: Key, tensor: &Tensor, encoding: &Encoding) -> Result<Vec<Segment>> {
        let mut data = DataEntry::new(key, encoding.dtype, tensor.shape.permuted(&encoding.order));
        data.entry.size = stored_len(tensor, &tensor.shape, encoding)?;
        let segment = Segment { entry: 0, offset: 0, len: data.entry.size, region: None };
        self.data.push(data);
        Ok(if segment.len > 0 { vec![segment] } else { Vec::new() })
    }

    fn add_variable_length(&mut self, key: Key, tensor: &Tensor, endian: Endian) -> Vec<Segment> {
        let lengths = tensor.lengths.as_deref().unwrap_or_default();
        let mut segments = Vec::new();
        if tensor.dtype == DType::Variant {
            let mut data = DataEntry::new(key, DType::Variant, tensor.shape.clone());
            let mut offset = 0u64;
            for len in lengths {
                offset = offset.saturating_add(encoded_len_varint(*len) as u64);
                if *len > 0 {
                    segments.push(Segment { entry: 0, offset, len: *len, region: None });
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
            segments.push(Segment { entry: 0, offset, len, region: None });
        }
        self.data.push(data);
        segments
    }

    fn add_slices(
        &mut self,
        key: Key,
        tensor: &Tensor,
        encoding: &Encoding,
        slices: Vec<RecordedSlice>,
    ) -> Result<Vec<Segment>> {
        let mut whole = DataEntry::new(Key::default(), encoding.dtype, tensor.shape.clone()).entry;
        whole.crc = 0;
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
        self.partitioned = Some(PartitionedEntry { key, entry: whole, original });
        if tensor.dtype.bytes().is_none() {
            return Ok(split_strings(tensor, &regions, &mut self.data, encoding.endian));
        }
        let segment = |(entry, (data, region)): (usize, (&DataEntry, Region))| Segment {
            entry,
            offset: 0,
            len: data.entry.size,
            region: Some(region),
        };
        let segments = self.data.iter().zip(regions).enumerate().map(segment);
        Ok(segments.filter(|segment| segment.len > 0).collect())
    }

    fn of_extra(extra: &ExtraEntry, original: Option<(u32, u64)>, endian: Endian) -> Self {
        let ExtraEntry { key, dtype, shape, value } = extra.clone();
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
        EntryGroup { data: vec![data], ..EntryGroup::default() }
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
