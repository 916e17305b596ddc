//! Writes an archive as `np.savez` does, or one array as `np.save` does.

use crate::format::{ENDING, ID, KEY_HEADER, KEY_VERSION, MOST_AXES, holder};
use crate::header::{Header, Stored, Version};
use ckpt_api::{
    Checkpoint, Checksum, ChecksumAlgorithm, DType, Endian, Error, Extent, FileId, FinishState, Literal,
    Loss, LossKind, OutputFile, OutputLayout, Phases, Placement, Result, Setting, Tensor, TensorId, Written,
    text,
};
use ckpt_containers::zip::record::LOCAL_CRC;
use ckpt_containers::zip::{PythonMember, python_directory, too_large};

/// See [`ckpt_api::Codec::place`].
pub(crate) fn place(checkpoint: &Checkpoint, name: &str, phases: Option<&Phases>) -> Result<OutputLayout> {
    let arrays = store(checkpoint)?;
    let mut placed = match name.strip_suffix(ENDING) {
        Some(stem) => single(&arrays, stem)?,
        None => many(&arrays, phases)?,
    };
    for file in &mut placed.files {
        name.clone_into(&mut file.name);
    }
    Ok(placed)
}

/// For each array of an archive, the offsets of its checksum in its local header and in the central directory.
type ChecksumOffsets = Vec<[u64; 2]>;

/// See [`ckpt_api::Codec::finish`].
pub(crate) fn finish(placed: &OutputLayout, written: &[Written]) -> Result<Vec<Literal>> {
    if placed.finish.is_empty() {
        return Ok(Vec::new());
    }
    let offsets = placed.finish.get::<ChecksumOffsets>()?;
    let sums = written.iter().map(|written| written.checksums.first().copied().flatten());
    let pairs = sums.zip(&*offsets).filter_map(|(sum, offsets)| Some((sum?, offsets)));
    let block =
        |sum: u32, offset: u64| Literal { file: FileId(0), offset, bytes: sum.to_le_bytes().to_vec() };
    Ok(pairs.flat_map(|(sum, offsets)| offsets.map(|offset| block(sum, offset))).collect())
}

/// A tensor with the dtype and header that it is stored with.
struct Array<'a> {
    id: TensorId,
    tensor: &'a Tensor,
    header: Stored,
    /// Length of the data in bytes.
    len: u64,
}

impl Array<'_> {
    /// Returns the number of bytes of header and data.
    fn total(&self) -> Option<u64> {
        self.len.checked_add(self.header.len())
    }

    fn placement(&self, offset: u64, checksum: Option<Checksum>) -> Placement {
        let extent = Extent::new(FileId(0), offset, self.len).with_checksum(checksum);
        Placement::new(self.id, &self.tensor.name, vec![extent], self.header.header.encoding())
    }
}

/// Returns the tensors that NumPy has a dtype for, in the checkpoint's order.
fn store(checkpoint: &Checkpoint) -> Result<Vec<Array<'_>>> {
    let mut arrays = Vec::with_capacity(checkpoint.tensors.len());
    for (id, tensor) in checkpoint.tensors.iter().enumerate() {
        let Some(dtype) = holder(tensor.dtype) else { continue };
        if tensor.shape.rank() > MOST_AXES {
            return Err(Error::unsupported("the tensor has more axes than NumPy allows")
                .tensor(&tensor.name)
                .found(tensor.shape.rank().to_string())
                .expected(format!("at most {MOST_AXES}")));
        }
        let unfit = || Error::unsupported("NumPy cannot hold the tensor").tensor(&tensor.name);
        let header = header(tensor, dtype).ok_or_else(unfit)?;
        let len = header.header.encoding().stored_len(tensor.shape.elements()).ok_or_else(unfit)?;
        arrays.push(Array { id: TensorId(id), tensor, header, len });
    }
    Ok(arrays)
}

/// Returns the header that was read, if it still fits; otherwise, the one that NumPy writes.
fn header(tensor: &Tensor, dtype: DType) -> Option<Stored> {
    let kept = || {
        let version = match tensor.metadata.value(ID, KEY_VERSION) {
            Some(number) => Version::from_number(number.as_u64()?)?,
            None => Version::One,
        };
        let stored = Stored::from_text(tensor.metadata.text(ID, KEY_HEADER)?, version)?;
        (stored.header.dtype == dtype && stored.header.shape == tensor.shape).then_some(stored)
    };
    let shape = tensor.shape.clone();
    kept().or_else(|| Stored::new(Header { dtype, endian: Endian::Little, fortran_order: false, shape }))
}

fn single(arrays: &[Array], stem: &str) -> Result<OutputLayout> {
    let [array] = arrays else {
        return Err(Error::unsupported("a .npy file holds exactly one array")
            .found(format!("{} that NumPy can hold", ckpt_api::count(arrays.len(), "tensor")))
            .help(text!["name the output .npz, or choose one tensor with ", Setting::INCLUDE]));
    };
    let detail = "a .npy file stores no name; the file's name names the array";
    let renamed =
        (array.tensor.name != stem).then(|| Loss::new(LossKind::NamesDropped, &array.tensor.name, detail));
    let bytes = array.header.bytes();
    Ok(OutputLayout::default()
        .with_files(vec![OutputFile::new(String::new(), array.total().ok_or_else(too_large)?)])
        .with_placements(vec![array.placement(bytes.len() as u64, None)])
        .with_literals(vec![Literal { file: FileId(0), offset: 0, bytes }])
        .with_losses(renamed.into_iter().collect()))
}

fn many(arrays: &[Array], phases: Option<&Phases>) -> Result<OutputLayout> {
    let mut placed = OutputLayout::default();
    let mut members = Vec::with_capacity(arrays.len());
    let mut at = 0u64;
    for array in arrays {
        let on_tensor = |error: Error| error.tensor(&array.tensor.name);
        // Readers on Windows take a backslash for a slash, and all of them take a NUL for the end.
        if array.tensor.name.contains(['\\', '\0']) {
            let error = Error::unsupported("an archive cannot have a member of this name")
                .expected("no '\\' and no NUL");
            return Err(on_tensor(error).help("give the tensor another name with a mapping, or exclude it"));
        }
        let total = array.total().ok_or_else(too_large).map_err(on_tensor)?;
        let name = format!("{}{ENDING}", array.tensor.name);
        let member = PythonMember::new(name, at, total).map(PythonMember::with_64_bit_sizes);
        let mut member = member.ok_or_else(|| on_tensor(too_long()))?;
        if let Some(phases) = phases.filter(|_| array.len >= Phases::WORTH_A_GAP) {
            // The numbers follow the array's header.
            let header = array.header.len();
            member.move_data(|least| {
                phases.next(array.id, least.saturating_add(header)).saturating_sub(header)
            });
        }
        let data = add_member(&mut placed, array, &member)?;
        at = data.checked_add(array.len).ok_or_else(too_large)?;
        members.push(member);
    }
    let (tail, checksums) = python_directory(&members, at);
    let len = at.checked_add(tail.len() as u64).ok_or_else(too_large)?;
    let mut offsets = ChecksumOffsets::with_capacity(members.len());
    let mut start = 0;
    for (member, checksum) in members.iter().zip(checksums) {
        offsets.push([member.local_crc(), at + checksum]);
        add_block(&mut placed, at, &tail, start..checksum);
        start = checksum + 4;
    }
    add_block(&mut placed, at, &tail, start..tail.len() as u64);
    placed.files = vec![OutputFile::new(String::new(), len)];
    let bytes = size_of_val(&offsets[..]) as u64;
    placed.finish = FinishState::new(offsets).of_size(bytes);
    Ok(placed)
}

/// Adds the headers before an array, and its placement; returns the offset of the data.
fn add_member(placed: &mut OutputLayout, array: &Array, member: &PythonMember) -> Result<u64> {
    let mut head = member.local();
    let header = array.header.bytes();
    head.extend_from_slice(&header);
    let data = member.at().checked_add(head.len() as u64).ok_or_else(too_large)?;
    add_block(placed, member.at(), &head, 0..LOCAL_CRC);
    add_block(placed, member.at(), &head, LOCAL_CRC + 4..head.len() as u64);
    let checksum = Checksum {
        algorithm: ChecksumAlgorithm::Crc32,
        seed: ChecksumAlgorithm::Crc32.append(0, &header),
        value: None,
    };
    placed.placements.push(array.placement(data, Some(checksum)));
    Ok(data)
}

/// Adds bytes at the offset `at`.
fn add_block(placed: &mut OutputLayout, at: u64, bytes: &[u8], part: std::ops::Range<u64>) {
    let offset = at.saturating_add(part.start);
    let bytes = bytes.get(part.start as usize..part.end as usize).unwrap_or_default().to_vec();
    placed.literals.push(Literal { file: FileId(0), offset, bytes });
}

fn too_long() -> Error {
    Error::unsupported("the name is too long for a zip archive").expected("at most 65,531 bytes")
}
