//! A plain executor that holds everything in memory: slow, short, and independent of the engine's.

use crate::cast::cast;
use ckpt_api::{
    AddedAxis, Checkpoint, Codec, Contents, DType, Encoding, Endian, Error, Extent, Input, Limits, Options,
    OutputLayout, Packing, Placement, Region, Result, Rounding, Scaling, Shape, Side, Tensor, Window,
    Written,
};
use std::collections::BTreeMap;

/// Reads a checkpoint and all its values: little-endian, row-major in logical axis order, one element in whole
/// bytes; the concatenated elements for strings, and the blocks for tensors that are stored in [`ckpt_api::Blocks`].
/// Verifies every checksum.
///
/// # Errors
/// Whatever the codec, [`Contents::check`] or [`Contents::check_data`] find, and checksums that differ.
pub fn read(
    codec: &dyn Codec,
    input: &Input,
    options: &[(String, String)],
) -> Result<(Contents, Vec<Vec<u8>>)> {
    let info = codec.info();
    read_given(codec, input, &Options::parse(info.id, info.options, Side::Read, options)?)
}

/// As [`read`], with options that were parsed already: those that hold an architecture file.
///
/// # Errors
/// As for [`read`].
pub fn read_given(codec: &dyn Codec, input: &Input, options: &Options) -> Result<(Contents, Vec<Vec<u8>>)> {
    let contents = codec.read(input, options, &Limits::default())?;
    let values = values(input, &contents)?;
    Ok((contents, values))
}

/// Checks the contents and reads all values.
pub(crate) fn values(input: &Input, contents: &Contents) -> Result<Vec<Vec<u8>>> {
    contents.check(&Limits::default())?;
    contents.check_data(input, contents.placements.iter().map(|placement| placement.tensor))?;
    let pairs = contents.checkpoint.tensors.iter().zip(&contents.placements);
    pairs.map(|(tensor, placement)| value(input, contents, tensor, placement)).collect()
}

fn value(input: &Input, contents: &Contents, tensor: &Tensor, placement: &Placement) -> Result<Vec<u8>> {
    let Some(window) = placement.window() else { return stored_value(input, contents, tensor, placement) };
    let whole = tensor.clone().with_shape(window.whole.clone());
    let value = match window.strides[..] {
        [] => stored_value(input, contents, &whole, placement)?,
        _ => strided_value(input, contents, &whole, (placement, window))?,
    };
    let size = to_usize(tensor.dtype.bytes().unwrap_or(1))?;
    let region = Region { start: window.start.clone(), shape: tensor.shape.clone() };
    let order = Encoding::row_major(tensor);
    Ok(logical_indices(&whole, &region, &order).flat_map(|at| &value[at * size..][..size]).copied().collect())
}

/// The value of a whole whose elements are at stated distances in its extent.
fn strided_value(
    input: &Input,
    contents: &Contents,
    whole: &Tensor,
    (placement, window): (&Placement, &Window),
) -> Result<Vec<u8>> {
    let stored = whole.clone().with_shape(Shape::new([window.reach().unwrap_or(0)])?);
    let dense = placement.clone().with_encoding(placement.encoding.clone().with_order(vec![0]));
    let value = stored_value(input, contents, &stored, &dense)?;
    let size = whole.dtype.bytes().unwrap_or(1);
    let mut out = Vec::new();
    for mut rest in 0..whole.shape.elements() {
        let mut element = 0;
        for (len, stride) in whole.shape.iter().zip(&window.strides).rev() {
            element += rest % len * stride;
            rest /= len;
        }
        out.extend_from_slice(&value[to_usize(element * size)?..][..to_usize(size)?]);
    }
    Ok(out)
}

/// The value of what the extents hold.
fn stored_value(
    input: &Input,
    contents: &Contents,
    tensor: &Tensor,
    placement: &Placement,
) -> Result<Vec<u8>> {
    let mut pieces = Vec::new();
    for extent in &placement.extents {
        let file = input.file(&contents.files[extent.file.0])?;
        let bytes = extent.open(&file)?.bytes(0, extent.len)?;
        verify(extent, &bytes).map_err(|error| error.file(file.name()).tensor(&tensor.name))?;
        pieces.push((extent.region().cloned(), bytes));
    }
    let size = tensor.dtype.bytes().filter(|_| placement.encoding.blocks().is_none());
    let Some(size) = size else {
        return Ok(pieces.into_iter().flat_map(|(_, bytes)| bytes).collect());
    };
    let encoding = &placement.encoding;
    if pieces.iter().all(|(region, _)| region.is_none()) {
        let bytes = pieces.into_iter().flat_map(|(_, bytes)| bytes).collect();
        pieces = vec![(None, bytes)];
    }
    let mut out = vec![0; to_usize(tensor.value_bytes())?];
    for (region, bytes) in pieces {
        let region = region.unwrap_or_else(|| whole(tensor));
        let elements = to_usize(region.shape.elements())?;
        let bytes = normalize(encoding, &bytes, elements);
        let bytes =
            encoding.scaling().map_or(bytes.clone(), |scaling| dequantize(encoding.dtype, scaling, &bytes));
        let size = to_usize(size)?;
        for (k, index) in logical_indices(tensor, &region, encoding).enumerate() {
            out[index * size..][..size].copy_from_slice(&bytes[k * size..][..size]);
        }
    }
    Ok(out)
}

fn verify(extent: &Extent, bytes: &[u8]) -> Result<()> {
    let Some(checksum) = &extent.checksum else { return Ok(()) };
    let mut running = checksum.start();
    running.update(bytes);
    match checksum.value {
        Some(stored) if stored != running.finish() => Err(Error::corrupt("the checksum does not match")
            .offset(extent.offset)
            .found(format!("{:#010x} computed", running.finish()))
            .expected(format!("{stored:#010x} stored"))),
        _ => Ok(()),
    }
}

/// Writes a checkpoint whose values are as [`read`] returns them; the result is every file by name.
///
/// # Errors
/// Errors of the codec; a tensor that it neither places nor declares lost, and pieces that overlap.
pub fn write(
    codec: &dyn Codec,
    checkpoint: &Checkpoint,
    values: &[Vec<u8>],
    name: &str,
    options: &[(String, String)],
) -> Result<BTreeMap<String, Vec<u8>>> {
    let placed = place(codec, checkpoint, name, options)?;
    let mut files = vec![Vec::new(); placed.files.len()];
    let mut written = Vec::new();
    for placement in &placed.placements {
        let tensor = &checkpoint.tensors[placement.tensor.0];
        let sum = with_added(checkpoint, values, placement);
        written.push(store(tensor, &sum, &settled(placement), &mut files)?);
    }
    let literals = codec.finish(&placed, &written)?;
    let again = codec.finish(&traveled(&placed)?, &written)?;
    assert!(literals == again, "finishing with a state that was serialized gives other literals");
    // Whoever writes over a tensor or a header is found here, too.
    placed.clone().with_literals([&placed.literals[..], &literals].concat()).check(checkpoint)?;
    for literal in placed.literals.iter().chain(&literals) {
        put(&mut files[literal.file.0], literal.offset, &literal.bytes)?;
    }
    finish(&placed, files)
}

/// The same after its state was written to a plan and read again.
fn traveled(placed: &OutputLayout) -> Result<OutputLayout> {
    let again = serde_json::to_string(&placed.finish).and_then(|text| serde_json::from_str(&text));
    let finish =
        again.map_err(|error| Error::defect("the state for finishing has no JSON form").caused_by(error))?;
    Ok(placed.clone().with_finish(finish))
}

pub(crate) fn place(
    codec: &dyn Codec,
    checkpoint: &Checkpoint,
    name: &str,
    options: &[(String, String)],
) -> Result<OutputLayout> {
    let info = codec.info();
    let options = Options::parse(info.id, info.options, Side::Write, options)?;
    let placed = codec.place(checkpoint, name, &options)?;
    placed.check(checkpoint)?;
    placed.check_names(info, name)?;
    Ok(placed)
}

fn store(tensor: &Tensor, value: &[u8], placement: &Placement, files: &mut [Vec<u8>]) -> Result<Written> {
    let encoding = &placement.encoding;
    let numbers = match (&tensor.blocks, encoding.blocks()) {
        (Some(blocks), None) => {
            let mut numbers = Vec::new();
            blocks.decode(value, &mut numbers).map_err(|error| error.tensor(&tensor.name))?;
            numbers
        }
        _ => value.to_vec(),
    };
    let value = numbers.as_slice();
    let converted = match encoding.scaling() {
        Some(scaling) => quantize(tensor, value, encoding.dtype, scaling)?,
        None => cast(tensor.dtype, encoding.dtype, value).ok_or_else(|| {
            Error::unsupported("the conformance kit does not convert between these dtypes")
                .tensor(&tensor.name)
                .found(format!("{} to {}", tensor.dtype, encoding.dtype))
        })?,
    };
    let value = converted.as_slice();
    let mut checksums = Vec::new();
    let mut taken = 0;
    for extent in &placement.extents {
        let bytes = match tensor.dtype.bytes().filter(|_| encoding.blocks().is_none()) {
            None => {
                let start = taken;
                taken += to_usize(extent.len)?;
                value[start..taken].to_vec()
            }
            Some(own) => {
                let size = encoding.dtype.bytes().unwrap_or(own);
                let region = extent.region().cloned().unwrap_or_else(|| whole(tensor));
                let size = to_usize(size)?;
                let indices = logical_indices(tensor, &region, encoding);
                let bytes: Vec<u8> = indices.flat_map(|i| &value[i * size..][..size]).copied().collect();
                encode(encoding, &bytes)
            }
        };
        if bytes.len() as u64 != extent.len {
            return Err(Error::mismatch("the codec's extent does not fit the tensor").tensor(&tensor.name));
        }
        checksums.push(extent.checksum.as_ref().map(|checksum| {
            let mut running = checksum.start();
            running.update(&bytes);
            running.finish()
        }));
        put(&mut files[extent.file.0], extent.offset, &bytes)?;
    }
    Ok(Written { checksums: checksums.into() })
}

/// As the sum of what is added is stored: what is whole units already is rounded to them.
fn settled(placement: &Placement) -> Placement {
    let mut placement = placement.clone();
    let is_sum = !placement.added().is_empty();
    if let Some(scaling) = placement.encoding.scaling_mut().filter(|scaling| scaling.each_term && is_sum) {
        scaling.rounding = Rounding::Nearest;
    }
    placement
}

/// The tensor's value and what is added to it.
fn with_added(checkpoint: &Checkpoint, values: &[Vec<u8>], placement: &Placement) -> Vec<u8> {
    let mut sum = values[placement.tensor.0].clone();
    let shape = &checkpoint.tensors[placement.tensor.0].shape;
    for added in placement.added() {
        let other = &checkpoint.tensors[added.tensor.0].shape;
        for (k, number) in sum.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let (mut rest, mut index) = (k as u64, vec![0; shape.rank()]);
            for (i, len) in index.iter_mut().zip(shape.iter()).rev() {
                (*i, rest) = (rest % len, rest / len);
            }
            let mut own = vec![0; other.rank()];
            let hit = added.axes.iter().zip(&index).all(|(axis, i)| match *axis {
                AddedAxis::Every => true,
                AddedAxis::At(at) => at == *i,
                AddedAxis::Along(axis) => {
                    own[axis] = *i;
                    true
                }
            });
            let flat = own.iter().zip(other.iter()).fold(0, |flat, (i, len)| flat * len + i) as usize;
            if hit {
                let term = f32::from_le_bytes(values[added.tensor.0].as_chunks::<4>().0[flat]);
                let own = f32::from_le_bytes(*number);
                *number = match placement.encoding.scaling().filter(|scaling| scaling.each_term) {
                    None => own + term,
                    Some(by) => ((by.units(own) + by.units(term)) / f64::from(by.scale.get())) as f32,
                }
                .to_le_bytes();
            }
        }
    }
    sum
}

fn quantize(tensor: &Tensor, value: &[u8], dtype: DType, scaling: Scaling) -> Result<Vec<u8>> {
    let bits = dtype.bits().unwrap_or(32);
    let each = value.as_chunks::<4>().0.iter().map(|bytes| {
        let integer = scaling.units(f32::from_le_bytes(*bytes));
        let clip = scaling.limit.map_or(f64::INFINITY, |limit| f64::from(limit.get()));
        let integer = if integer.is_finite() { integer.clamp(-clip, clip) } else { integer };
        let limit = (1u128 << (bits - 1)) as f64;
        if !(-limit..limit).contains(&integer) {
            return Err(Error::lossy("a number does not fit")
                .tensor(&tensor.name)
                .found(integer.to_string()));
        }
        Ok((integer as i64).to_le_bytes()[..bits as usize / 8].to_vec())
    });
    Ok(each.collect::<Result<Vec<_>>>()?.concat())
}

fn dequantize(dtype: DType, scaling: Scaling, integers: &[u8]) -> Vec<u8> {
    let bits = dtype.bits().unwrap_or(32);
    let each = integers.chunks(bits as usize / 8).map(|bytes| {
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        let integer = i64::from_le_bytes(wide) << (64 - bits) >> (64 - bits);
        (integer as f64 / f64::from(scaling.scale.get())) as f32
    });
    each.flat_map(f32::to_le_bytes).collect()
}

fn put(file: &mut Vec<u8>, offset: u64, bytes: &[u8]) -> Result<()> {
    let start = to_usize(offset)?;
    if file.len() < start + bytes.len() {
        file.resize(start + bytes.len(), 0);
    }
    file[start..start + bytes.len()].copy_from_slice(bytes);
    Ok(())
}

fn finish(placed: &OutputLayout, files: Vec<Vec<u8>>) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut out = BTreeMap::new();
    for (file, mut bytes) in placed.files.iter().zip(files) {
        if let Some(len) = file.len {
            if bytes.len() as u64 > len {
                return Err(
                    Error::mismatch("the codec writes past the end that it announced").file(&file.name)
                );
            }
            bytes.resize(to_usize(len)?, 0);
        }
        out.insert(file.name.clone(), bytes);
    }
    Ok(out)
}

/// Stored bytes → little-endian, whole bytes, sub-byte elements masked.
fn normalize(encoding: &Encoding, stored: &[u8], elements: usize) -> Vec<u8> {
    let bits = encoding.dtype.bits().unwrap_or(8);
    match encoding.packing {
        Packing::Bits if bits < 8 => (0..elements)
            .map(|k| {
                let at = k * bits as usize;
                (0..bits as usize).map(|b| (stored[(at + b) / 8] >> ((at + b) % 8) & 1) << b).sum()
            })
            .collect(),
        _ => swap(encoding, stored),
    }
}

fn encode(encoding: &Encoding, values: &[u8]) -> Vec<u8> {
    let bits = encoding.dtype.bits().unwrap_or(8) as usize;
    if encoding.packing == Packing::Bytes || bits >= 8 {
        return swap(encoding, values);
    }
    let mut out = vec![0; (values.len() * bits).div_ceil(8)];
    for (k, value) in values.iter().enumerate() {
        for b in 0..bits {
            out[(k * bits + b) / 8] |= (value >> b & 1) << ((k * bits + b) % 8);
        }
    }
    out
}

fn swap(encoding: &Encoding, bytes: &[u8]) -> Vec<u8> {
    let size = encoding.dtype.component_bytes();
    match encoding.endian {
        Endian::Little => bytes.to_vec(),
        Endian::Big => bytes.chunks(size).flat_map(|chunk| chunk.iter().rev()).copied().collect(),
    }
}

fn whole(tensor: &Tensor) -> Region {
    Region { start: vec![0; tensor.shape.rank()], shape: tensor.shape.clone() }
}

/// A value with its axes in another order: axis `k` of the result is axis `order[k]` of the tensor.
pub(crate) fn permuted(tensor: &Tensor, value: &[u8], order: &[usize]) -> Vec<u8> {
    let Some(size) = tensor.dtype.bytes().and_then(|size| usize::try_from(size).ok()) else {
        return value.to_vec();
    };
    let encoding = Encoding::row_major(tensor).with_order(order.to_vec());
    let region = whole(tensor);
    let indices = logical_indices(tensor, &region, &encoding);
    indices.flat_map(|index| &value[index * size..][..size]).copied().collect()
}

/// Row-major logical positions of a region's elements, in the order in which they are stored.
fn logical_indices<'a>(
    tensor: &'a Tensor,
    region: &'a Region,
    encoding: &'a Encoding,
) -> impl Iterator<Item = usize> + 'a {
    let parts = encoding.parts(region.shape.rank());
    let expanded = encoding.expanded(&region.shape).unwrap_or_default();
    let stored = expanded.permuted(&encoding.order);
    (0..stored.elements()).map(move |mut k| {
        let mut digits = vec![0; parts.len()];
        for (number, len) in encoding.order.iter().zip(stored.iter()).rev() {
            digits[*number] = k % len;
            k /= len;
        }
        let mut index = vec![0; region.start.len()];
        for ((part, digit), len) in parts.iter().zip(digits).zip(expanded.iter()) {
            index[part.axis] = index[part.axis] * len + digit;
        }
        let index = index.iter().zip(&region.start).map(|(own, start)| start + own);
        let flat = index.zip(tensor.shape.iter()).fold(0, |flat, (i, len)| flat * len + i);
        usize::try_from(flat).unwrap_or(usize::MAX)
    })
}

fn to_usize(value: u64) -> Result<usize> {
    usize::try_from(value).map_err(|_| Error::limit("too large for this machine").found(value.to_string()))
}
