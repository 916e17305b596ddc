//! The arrays of a file under their names.

use super::array::{Array, Values};
use super::sparse;
use crate::format::{MAGIC, RESERVED};
use ckpt_api::fields::{count, field, le};
use ckpt_api::{
    Contents, Encoding, Error, Extent, Fields, File, FileId, Limit, Limits, Placement, Result, Shape, Tensor,
    TensorId,
};
use ckpt_containers::structure::Structure;
use std::collections::HashSet;

/// Bytes of an array at least: one without elements.
const LEAST_ARRAY: u64 = 4;
/// Bytes of a name at least: its length.
const LEAST_NAME: u64 = 8;
/// Memory that each array takes while a file is read.
const EACH_BYTES: u64 = 320;

/// A file without its symbol.
pub(crate) struct Parsed {
    pub(crate) contents: Contents,
    /// Whether all arrays are dense.
    is_dense: bool,
}

/// Reads the arrays and their names.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`], with the offset, for what MXNet does not read.
pub(crate) fn parse(file: &File, limits: &Limits) -> Result<Parsed> {
    let mut fields = Fields::new(file);
    let number = fields.parse(|input| field("magic number", le::<u64>)(input))?;
    if number != MAGIC {
        return Err(Error::corrupt("the file is not a list of arrays of MXNet")
            .file(file.name())
            .offset(0)
            .field("magic number")
            .found(format!("{number:#x}"))
            .expected(format!("{MAGIC:#x}")));
    }
    let reserved = fields.parse(|input| field("reserved", le::<u64>)(input))?;
    if reserved != RESERVED {
        return Err(Error::unsupported("the file is a list of arrays of another version")
            .file(file.name())
            .offset(8)
            .field("reserved")
            .found(reserved.to_string())
            .expected(RESERVED.to_string()));
    }
    let arrays = fields.parse(|input| field("number of arrays", count(LEAST_ARRAY, le::<u64>))(input))?;
    limits.check(Limit::Tensors, arrays).map_err(|error| error.file(file.name()).offset(16))?;
    let mut all = Vec::new();
    for index in 0..arrays {
        let own = Array::read(&mut fields, file);
        all.push(own.map_err(|error| error.file(file.name()).tensor(format!("array {index}")))?);
    }
    let names = names(&mut fields, file, limits, arrays)?;
    if fields.remaining() > 0 {
        return Err(Error::corrupt("the file goes on behind the names")
            .file(file.name())
            .offset(fields.position())
            .found(ckpt_api::count(fields.remaining(), "byte"))
            .expected("the end of the file"));
    }
    contents(file, all, &names, limits)
}

/// Reads the names: as many as there are arrays, or the numbers of those that have none.
fn names(fields: &mut Fields<'_>, file: &File, limits: &Limits, arrays: u64) -> Result<Vec<String>> {
    let at = fields.position();
    let stated = fields.parse(|input| field("number of names", count(LEAST_NAME, le::<u64>))(input))?;
    if stated == 0 {
        return Ok((0..arrays).map(|index| index.to_string()).collect());
    }
    if stated != arrays {
        return Err(Error::corrupt("the file has other names than arrays")
            .file(file.name())
            .offset(at)
            .field("number of names")
            .found(stated.to_string())
            .expected(format!("{arrays}, or 0 for a list")));
    }
    let (mut names, mut taken) = (Vec::new(), HashSet::new());
    for index in 0..stated {
        let at = fields.position();
        let len = fields.parse(|input| field("length of a name", count(1, le::<u64>))(input))?;
        let name = fields.text(len, limits, Limit::NameBytes);
        let name = name.map_err(|error| error.field(format!("name of array {index}")))?;
        if !taken.insert(name.clone()) {
            return Err(Error::corrupt("two arrays have one name")
                .file(file.name())
                .offset(at)
                .found(format!("'{}'", name.escape_debug()))
                .expected("a name for each array"));
        }
        names.push(name);
    }
    Ok(names)
}

fn contents(file: &File, arrays: Vec<Array>, names: &[String], limits: &Limits) -> Result<Parsed> {
    let mut contents = Contents::default();
    let (mut sparse, mut empty) = (Vec::new(), Vec::new());
    let working = EACH_BYTES.saturating_mul(arrays.len() as u64);
    for (array, name) in arrays.into_iter().zip(names) {
        let Some(values) = array.values else {
            empty.push(name.as_str());
            continue;
        };
        if let Some(own) = &values.sparse {
            sparse.push((name.as_str(), own.storage));
        }
        let on_tensor = |error: Error| error.file(file.name()).tensor(name).offset(array.at);
        let id = TensorId(contents.checkpoint.tensors.len());
        let (tensor, placement) = tensor(file, id, name, values, limits).map_err(on_tensor)?;
        contents.checkpoint.tensors.push(tensor);
        contents.placements.push(placement);
    }
    if let Some(first) = empty.first() {
        let note = format!("arrays without a shape have no values and are left out: {}", empty.len());
        contents.add_notes([format!("{note} (the first is '{}')", first.escape_debug())]);
    }
    if let Some((first, storage)) = sparse.first() {
        let note = format!("sparse arrays are read dense: {}", sparse.len());
        let first = first.escape_debug();
        contents.add_notes([format!("{note} (the first is '{first}', {})", storage.name())]);
    }
    let is_dense = sparse.is_empty();
    Ok(Parsed { contents: contents.with_working_memory(working), is_dense })
}

fn tensor(
    file: &File,
    id: TensorId,
    name: &str,
    values: Values,
    limits: &Limits,
) -> Result<(Tensor, Placement)> {
    let shape = Shape::new(&values.shape)?;
    let tensor = Tensor::new(name, values.dtype, shape);
    let encoding = Encoding::row_major(&tensor);
    let extent = match &values.sparse {
        None => Extent::new(FileId(0), values.offset, values.len),
        Some(own) => sparse::extent(file, &values, own, limits)?,
    };
    let extents = if extent.len == 0 { Vec::new() } else { vec![extent] };
    let placement = Placement::new(id, name, extents, encoding);
    Ok((tensor, placement))
}

impl Parsed {
    /// The file without the elements of its arrays, if it can be written again: sparse arrays cannot.
    pub(super) fn structure(&self, file: &File, limits: &Limits) -> Result<Option<Structure>> {
        if !self.is_dense {
            return Ok(None);
        }
        // Arrays are in the order of the file.
        let extents = self.contents.placements.iter().flat_map(|placement| &placement.extents);
        let data: Vec<_> = extents.map(|own| own.offset..own.offset.saturating_add(own.len)).collect();
        let hidden: u64 = data.iter().map(|range| range.end.saturating_sub(range.start)).sum();
        let len = file.len().saturating_sub(hidden);
        limits.check(Limit::HeaderBytes, len).map_err(|error| error.field("bytes that are no elements"))?;
        Structure::of(file, data).map(Some)
    }
}
