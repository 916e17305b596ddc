//! Writes a file, or a split set.

use crate::format::{
    ALIGNMENT, ENDING, KEY_ENDIAN, KEY_UNPADDED, KEY_VERSION, LONGEST_NAME, MAGIC, MOST_AXES, TensorType,
    VERSION,
};
use crate::header;
use crate::loadable;
use crate::metadata::{self, of_file};
use crate::original::{remove_stale, stored_shape};
use crate::padding::noted;
use crate::split;
use crate::types::{FileType, Types, is_whole};
use crate::value::{self, write_string};
use ckpt_api::{
    Checkpoint, Encoding, Endian, Error, Extent, FileId, Literal, Loss, Metadata, MetadataMap, MetadataValue,
    Options, OutputFile, OutputLayout, Placement, Reading, Result, Tensor, TensorId, Writer,
};

/// The largest alignment that is written.
const MOST_ALIGNMENT: u64 = 1 << 20;

/// The option that splits the output.
pub(crate) const SHARD_SIZE: &str = "shard_size";

/// See [`ckpt_api::Codec::place`].
pub(crate) fn place(checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
    let target = Target::new(checkpoint, options)?;
    let (tensors, losses) = target.store(checkpoint)?;
    let shard_size = options.size(SHARD_SIZE).unwrap_or(u64::MAX);
    if shard_size == 0 {
        return Err(Error::usage("a shard must hold at least one byte").field(SHARD_SIZE).found("0"));
    }
    let shards = split_tensors(tensors, shard_size);
    let mut placed = OutputLayout::default().with_losses(losses).with_asked(target.types.asked());
    if let [only] = &shards[..] {
        target.add(&mut placed, name.to_owned(), only, &[])?;
        return Ok(placed);
    }
    let too_many = || {
        Error::usage("there would be too many shards")
            .field(SHARD_SIZE)
            .found(ckpt_api::count(shards.len(), "shard"))
            .expected(format!("at most {}", split::MOST))
            .help("choose a larger shard_size")
    };
    let count = u16::try_from(shards.len()).map_err(|_| too_many())?;
    let total = shards.iter().map(Vec::len).sum::<usize>();
    let total =
        i32::try_from(total).map_err(|_| Error::unsupported("a split set cannot count so many tensors"))?;
    let stem =
        split::parse(name).map_or_else(|| name.strip_suffix(ENDING).unwrap_or(name), |(stem, ..)| stem);
    for (number, shard) in (0..).zip(&shards) {
        let name = split::name(stem, u64::from(number) + 1, count.into());
        let keys = [
            (split::NUMBER, MetadataValue::U16(number)),
            (split::COUNT, MetadataValue::U16(count)),
            (split::TENSORS, MetadataValue::I32(total)),
        ];
        target.add(&mut placed, name, shard, &keys)?;
    }
    let entry = split::name(stem, 1, count.into());
    Ok(placed.with_readings(vec![Reading { entry, ..Reading::default() }]))
}

/// A tensor with the type that it is stored with.
struct Stored<'a> {
    id: TensorId,
    tensor: &'a Tensor,
    tensor_type: TensorType,
    encoding: Encoding,
    /// Length in bytes.
    len: u64,
}

/// Distributes tensors over shards greedily, in their order.
fn split_tensors(tensors: Vec<Stored>, shard_size: u64) -> Vec<Vec<Stored>> {
    let mut shards = vec![Vec::new()];
    let mut room = shard_size;
    for tensor in tensors {
        if tensor.len > room && shards.last().is_some_and(|shard: &Vec<Stored>| !shard.is_empty()) {
            shards.push(Vec::new());
            room = shard_size;
        }
        room = room.saturating_sub(tensor.len);
        if let Some(shard) = shards.last_mut() {
            shard.push(tensor);
        }
    }
    shards
}

/// Returns the alignment of what is written, which may add so many zeros to every tensor.
fn alignment(pairs: &MetadataMap) -> Result<u64> {
    match header::alignment(pairs, Error::unsupported)? {
        alignment if alignment <= MOST_ALIGNMENT => Ok(alignment),
        alignment => Err(Error::limit("the alignment is too large to be written")
            .field(ALIGNMENT)
            .found(alignment.to_string())
            .expected(format!("at most {MOST_ALIGNMENT}"))),
    }
}

/// What all files of the output have in common.
struct Target<'a> {
    version: u32,
    endian: Endian,
    types: Types,
    is_unpadded: bool,
    pairs: MetadataMap,
    alignment: u64,
    /// What the file that was read states outside its keys.
    metadata: &'a Metadata,
}

impl<'a> Target<'a> {
    fn new(checkpoint: &'a Checkpoint, options: &Options) -> Result<Self> {
        let version = of_file(checkpoint, KEY_VERSION).and_then(MetadataValue::as_u64);
        let is_big = of_file(checkpoint, KEY_ENDIAN).and_then(MetadataValue::as_text) == Some("big");
        let endian = if is_big { Endian::Big } else { Endian::Little };
        let mut pairs = metadata::pairs(checkpoint, options, FileType::of(options))?;
        remove_stale(&mut pairs, &checkpoint.tensors);
        let types = Types::new(checkpoint, options, endian, &pairs)?;
        Ok(Target {
            version: if version == Some(2) { 2 } else { VERSION },
            endian,
            types,
            is_unpadded: of_file(checkpoint, KEY_UNPADDED).and_then(MetadataValue::as_bool) == Some(true),
            alignment: alignment(&pairs)?,
            pairs,
            metadata: &checkpoint.metadata,
        })
    }

    /// Returns the tensors that GGUF has a type for, in the order of the file, and what their types lose.
    fn store(&self, checkpoint: &'a Checkpoint) -> Result<(Vec<Stored<'a>>, Vec<Loss>)> {
        let (mut stored, mut losses) =
            (Vec::with_capacity(checkpoint.tensors.len()), loadable::missing_keys(&self.pairs));
        for id in self.types.order().iter().copied() {
            let Some(tensor) = checkpoint.tensors.get(id) else { continue };
            let Some((tensor_type, encoding)) = self.types.of(id, tensor) else { continue };
            check(tensor)?;
            let len = encoding.stored_len(tensor.shape.elements());
            let len =
                len.ok_or_else(|| Error::unsupported("GGUF cannot hold the tensor").tensor(&tensor.name))?;
            losses.extend(self.types.loss(id, tensor, tensor_type));
            losses.extend(self.unloadable(tensor, tensor_type));
            stored.push(Stored { id: TensorId(id), tensor, tensor_type, encoding, len });
        }
        Ok((stored, losses))
    }

    /// Returns the loss of a tensor of a model that llama.cpp cannot compute with.
    fn unloadable(&self, tensor: &Tensor, tensor_type: TensorType) -> Option<Loss> {
        let TensorType::Plain(dtype) = tensor_type else { return None };
        let is_needed = is_whole(tensor) && loadable::is_model(&self.pairs);
        is_needed.then(|| loadable::short_vector(&tensor.name, dtype)).flatten()
    }

    /// Adds a file.
    fn add(
        &self,
        placed: &mut OutputLayout,
        name: String,
        tensors: &[Stored],
        split_keys: &[(&str, MetadataValue)],
    ) -> Result<()> {
        let file = FileId(placed.files.len());
        let too_large = || Error::unsupported("the tensors have more bytes than a file can hold").file(&name);
        let aligned = |at: u64| at.checked_next_multiple_of(self.alignment).ok_or_else(too_large);
        let mut offsets = Vec::with_capacity(tensors.len());
        let (mut next, mut end) = (0u64, 0u64);
        for stored in tensors {
            offsets.push(next);
            end = next.checked_add(stored.len).ok_or_else(too_large)?;
            next = aligned(end)?;
        }
        let mut bytes = self.header(tensors, &offsets, split_keys, file)?;
        let data = aligned(bytes.len() as u64)?;
        let padding = noted(self.metadata, data - bytes.len() as u64).filter(|_| file == FileId(0));
        bytes.extend_from_slice(padding.unwrap_or_default());
        let len = data.checked_add(next).filter(|len| *len <= u64::MAX / 2).ok_or_else(too_large)?;
        for (stored, offset) in tensors.iter().zip(offsets.iter().copied()) {
            let extent = Extent::new(file, data.saturating_add(offset), stored.len);
            let name = stored.tensor.name.clone();
            placed.placements.push(Placement::new(stored.id, name, vec![extent], stored.encoding.clone()));
        }
        let len = match (self.is_unpadded && split_keys.is_empty(), tensors.is_empty()) {
            (false, _) => len,
            (true, false) => data.saturating_add(end),
            (true, true) => bytes.len() as u64,
        };
        let mut literals = vec![Literal { file, offset: 0, bytes }];
        for (stored, offset) in tensors.iter().zip(&offsets) {
            let end = data.saturating_add(offset.saturating_add(stored.len));
            let padding = noted(&stored.tensor.metadata, aligned(end)?.min(len).saturating_sub(end));
            if let Some(bytes) = padding.filter(|bytes| !bytes.is_empty()) {
                literals.push(Literal { file, offset: end, bytes: bytes.to_vec() });
            }
        }
        placed.files.push(OutputFile::new(name, len));
        placed.literals.extend(literals);
        Ok(())
    }

    /// Returns everything before the data, without padding.
    fn header(
        &self,
        tensors: &[Stored],
        offsets: &[u64],
        split_keys: &[(&str, MetadataValue)],
        file: FileId,
    ) -> Result<Vec<u8>> {
        // Each file of a set states its alignment; the first one has the other keys, too.
        let own = self.pairs.iter().filter(|(key, _)| file == FileId(0) || *key == ALIGNMENT);
        let is_alone = split_keys.is_empty() && split::is_alone(&self.pairs, tensors.len());
        let own = own.filter(|(key, _)| is_alone || !split::is_key(key));
        let pairs: Vec<(&str, &MetadataValue)> =
            own.chain(split_keys.iter().map(|(key, value)| (*key, value))).collect();
        let mut writer = Writer::new().with_endian(self.endian);
        writer.bytes(&MAGIC).number(self.version);
        writer.number(tensors.len() as u64).number(pairs.len() as u64);
        for (key, value) in pairs {
            write_string(key.as_bytes(), &mut writer);
            value::write(value, &mut writer).map_err(|error| error.field(key))?;
        }
        for (stored, offset) in tensors.iter().zip(offsets) {
            let shape = stored_shape(stored.tensor);
            write_string(stored.tensor.name.as_bytes(), &mut writer);
            writer.number(u32::try_from(shape.rank()).unwrap_or(MOST_AXES));
            let dims: Vec<u64> = shape.iter().rev().copied().collect();
            writer.numbers(&dims);
            writer.number(stored.tensor_type.id()).number(*offset);
        }
        Ok(writer.into_bytes())
    }
}

/// Refuses what llama.cpp refuses.
fn check(tensor: &Tensor) -> Result<()> {
    let rank = stored_shape(tensor).rank();
    if rank > MOST_AXES as usize {
        return Err(Error::unsupported("the tensor has more axes than GGUF allows")
            .tensor(&tensor.name)
            .found(rank.to_string())
            .expected(format!("at most {MOST_AXES}"))
            .help("merge axes with a mapping, or exclude the tensor"));
    }
    if tensor.name.len() > LONGEST_NAME {
        return Err(Error::unsupported("the tensor's name is longer than llama.cpp allows")
            .tensor(&tensor.name)
            .found(ckpt_api::count(tensor.name.len(), "byte"))
            .expected(format!("at most {LONGEST_NAME}"))
            .help("give the tensors GGUF's names with a mapping"));
    }
    Ok(())
}
