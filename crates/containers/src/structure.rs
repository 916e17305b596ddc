//! A model's file without the bytes of its tensors, which metadata keeps so that an unmodified model comes back.

use ckpt_api::{File, FileId, Literal, Metadata, MetadataValue, ReadAt, Result};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

/// Key of the structure: the model's bytes without those of its tensors.
const KEY_MODEL: &str = "model";
/// Key of the places of tensors' bytes: offset in the model and length, one after the other.
const KEY_DATA: &str = "data";
/// Key of the elements of small tensors by the offset of their bytes: the graph is read with them.
const KEY_SMALL: &str = "small";
/// Bytes that are copied at a time.
const PART: u64 = 1 << 20;

/// A model's bytes, of which those of tensors are zero, except those of small ones.
///
/// ```
/// use ckpt_api::Metadata;
/// use ckpt_containers::structure::Structure;
/// let structure = Structure::new(b"headtail".to_vec(), vec![4..10]);
/// assert_eq!(structure.literals(), [(0, &b"head"[..]), (10, &b"tail"[..])]);
/// let mut metadata = Metadata::default();
/// structure.keep(&mut metadata, "toy");
/// assert_eq!(Structure::kept(&metadata, "toy").and_then(|kept| kept.file_len()), Some(14));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Structure {
    /// The bytes between those of tensors.
    pub bytes: Vec<u8>,
    /// Where in the model the bytes of tensors are, in ascending order.
    pub data: Vec<Range<u64>>,
    /// Elements of small tensors by the offset of their bytes.
    small: BTreeMap<u64, Vec<u8>>,
}

impl Structure {
    /// A structure without elements of small tensors.
    pub fn new(bytes: Vec<u8>, data: Vec<Range<u64>>) -> Self {
        Structure { bytes, data, small: BTreeMap::new() }
    }

    /// The structure of a file in which the bytes of tensors are at these places, which are in ascending order and do not
    /// overlap. It takes as much memory as the file has other bytes: check that against a limit before.
    ///
    /// ```
    /// use ckpt_api::File;
    /// use ckpt_containers::structure::Structure;
    /// let file = File::new(std::sync::Arc::new(b"head012345tail".to_vec()), "toy")?;
    /// assert_eq!(Structure::of(&file, vec![4..10])?.bytes, b"headtail");
    /// # Ok::<(), ckpt_api::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`File::bytes`].
    pub fn of(file: &File, data: Vec<Range<u64>>) -> Result<Self> {
        let hidden = data.iter().map(|range| range.end.saturating_sub(range.start));
        let len = file.len().saturating_sub(hidden.sum());
        // The only large buffer, which never has to grow.
        let mut structure = Structure::new(Vec::new(), Vec::new());
        structure.bytes.reserve_exact(usize::try_from(len).unwrap_or_default());
        let mut at = 0;
        for range in &data {
            structure.append(file, at..range.start)?;
            at = range.end;
        }
        structure.append(file, at..file.len())?;
        structure.data = data;
        Ok(structure)
    }

    /// Keeps the structure in a format's metadata.
    pub fn keep(self, metadata: &mut Metadata, namespace: &str) {
        let numbers = self.data.iter().flat_map(|range| [range.start, range.end.saturating_sub(range.start)]);
        metadata.insert(namespace, KEY_DATA, MetadataValue::integers(numbers));
        metadata.insert(namespace, KEY_MODEL, MetadataValue::Bytes(self.bytes));
        if !self.small.is_empty() {
            let small = self.small.into_iter();
            let small = small.map(|(offset, bytes)| (offset.to_string(), MetadataValue::Bytes(bytes)));
            metadata.insert(namespace, KEY_SMALL, MetadataValue::Map(small.collect()));
        }
    }

    /// The structure that metadata keeps, if it does.
    pub fn kept(metadata: &Metadata, namespace: &str) -> Option<Self> {
        let MetadataValue::Bytes(bytes) = metadata.value(namespace, KEY_MODEL)? else { return None };
        let MetadataValue::List(numbers) = metadata.value(namespace, KEY_DATA)? else { return None };
        let mut structure = Structure::new(bytes.clone(), Vec::with_capacity(numbers.len() / 2));
        let small = metadata.value(namespace, KEY_SMALL).and_then(MetadataValue::as_map);
        for (offset, value) in small.into_iter().flat_map(|small| small.iter()) {
            let MetadataValue::Bytes(bytes) = value else { return None };
            structure.small.insert(offset.parse().ok()?, bytes.clone());
        }
        let mut end = 0;
        for pair in numbers.chunks(2) {
            let [offset, len] = pair else { return None };
            let (offset, len) = (offset.as_u64()?, len.as_u64()?);
            (offset >= end).then_some(())?;
            end = offset.checked_add(len)?;
            structure.data.push(offset..end);
        }
        structure.file_len().filter(|len| *len >= end).map(|_| structure)
    }

    /// Appends a range of a file, a part at a time.
    ///
    /// # Errors
    /// Those of [`File::bytes`].
    pub fn append(&mut self, file: &File, range: Range<u64>) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let len = range.end.saturating_sub(at).min(PART);
            self.bytes.extend_from_slice(&file.bytes(at, len)?);
            at = at.saturating_add(len);
        }
        Ok(())
    }

    /// Adds the elements of a small tensor, whose bytes begin at this offset of the model.
    pub fn add_small(&mut self, offset: u64, elements: Vec<u8>) {
        self.small.insert(offset, elements);
    }

    /// The same with ranges of the model replaced, which are sorted and hold no bytes of tensors; `None` if one does.
    pub fn edited(&self, edits: &[(Range<u64>, Vec<u8>)]) -> Option<Self> {
        let mut edited = Structure::default();
        let mut left = edits;
        for (start, bytes) in self.literals() {
            let (end, mut at) = (start.checked_add(bytes.len() as u64)?, start);
            let part = |from: u64, to: u64| {
                let range = usize::try_from(from.checked_sub(start)?).ok()?
                    ..usize::try_from(to.checked_sub(start)?).ok()?;
                bytes.get(range)
            };
            while let Some(((cut, new), rest)) = left.split_first().filter(|((cut, _), _)| cut.start < end) {
                edited.bytes.extend_from_slice(part(at, cut.start)?);
                edited.bytes.extend_from_slice(new);
                (at, left) = (cut.end, rest);
            }
            edited.bytes.extend_from_slice(part(at, end)?);
        }
        let (mut added, mut removed, mut before) = (0u64, 0u64, edits.iter().peekable());
        for range in &self.data {
            while let Some((cut, new)) = before.next_if(|(cut, _)| cut.end <= range.start) {
                added = added.checked_add(new.len() as u64)?;
                removed = removed.checked_add(cut.end.checked_sub(cut.start)?)?;
            }
            let moved = |at: u64| at.checked_add(added)?.checked_sub(removed);
            edited.data.push(moved(range.start)?..moved(range.end)?);
            if let Some(small) = self.small.get(&range.start) {
                edited.small.insert(moved(range.start)?, small.clone());
            }
        }
        left.is_empty().then_some(edited)
    }

    /// Bytes of the model's file; `None` if they are too many to count.
    pub fn file_len(&self) -> Option<u64> {
        let data = self
            .data
            .iter()
            .try_fold(0u64, |sum, range| sum.checked_add(range.end.checked_sub(range.start)?));
        data?.checked_add(self.bytes.len() as u64)
    }

    /// The bytes between those of tensors, with their offsets in the model.
    pub fn literals(&self) -> Vec<(u64, &[u8])> {
        let mut literals = Vec::with_capacity(self.data.len() + 1);
        let (mut at, mut rest) = (0, &self.bytes[..]);
        for range in &self.data {
            let len = usize::try_from(range.start.saturating_sub(at)).unwrap_or(usize::MAX).min(rest.len());
            let (before, after) = rest.split_at(len);
            if !before.is_empty() {
                literals.push((at, before));
            }
            (at, rest) = (range.end, after);
        }
        if !rest.is_empty() {
            literals.push((at, rest));
        }
        literals
    }

    /// The bytes between those of tensors as literals of the first file of an output.
    pub fn to_literals(&self) -> Vec<Literal> {
        let literals = self.literals().into_iter();
        literals.map(|(offset, bytes)| Literal { file: FileId(0), offset, bytes: bytes.to_vec() }).collect()
    }
}

/// The model as a file.
impl ReadAt for Structure {
    fn size(&self) -> io::Result<u64> {
        self.file_len().ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.size()?.saturating_sub(offset).min(buffer.len() as u64);
        let wanted = buffer.split_at_mut(usize::try_from(len).unwrap_or(0)).0;
        wanted.fill(0);
        let stop = offset.saturating_add(len);
        let first = self.data.partition_point(|range| range.end <= offset);
        // Bytes of tensors before the offset.
        let before = self.data.get(..first).unwrap_or_default();
        let mut hidden: u64 = before.iter().map(|range| range.end.saturating_sub(range.start)).sum();
        let mut at = offset;
        for range in self
            .data
            .get(first..)
            .unwrap_or_default()
            .iter()
            .cloned()
            .chain(std::iter::once(u64::MAX..u64::MAX))
        {
            let end = range.start.min(stop);
            if at < end {
                let source = usize::try_from(at.saturating_sub(hidden)).unwrap_or(usize::MAX);
                let target = usize::try_from(at.saturating_sub(offset)).unwrap_or(usize::MAX);
                let count = usize::try_from(end.saturating_sub(at)).unwrap_or(0);
                let from = self.bytes.get(source..).and_then(|rest| rest.get(..count));
                let to = wanted.get_mut(target..).and_then(|rest| rest.get_mut(..count));
                if let (Some(to), Some(from)) = (to, from) {
                    to.copy_from_slice(from);
                }
            }
            if range.start >= stop {
                break;
            }
            if let Some(small) = self.small.get(&range.start) {
                fill(wanted, offset, range.start, small);
            }
            hidden = hidden.saturating_add(range.end.saturating_sub(range.start));
            at = at.max(range.end);
        }
        Ok(wanted.len())
    }
}

/// Copies bytes that begin at `at` to a buffer that begins at `offset`, as far as they reach into it.
fn fill(buffer: &mut [u8], offset: u64, at: u64, bytes: &[u8]) {
    for (place, byte) in (at..).zip(bytes) {
        let to = place.checked_sub(offset).and_then(|to| buffer.get_mut(usize::try_from(to).ok()?));
        if let Some(to) = to {
            *to = *byte;
        }
    }
}
