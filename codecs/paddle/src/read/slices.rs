//! Large arrays, which protocols 2 and 3 of pickle store in slices.
//!
//! ```text
//! {'w@@.0': array, 'w@@.1': array, 'UnpackBigParamInfor@@': {'w': {'OriginShape': (…), 'slices': ['w@@.0', 'w@@.1']}}}
//! ```

use super::walk::{Found, Leaf};
use crate::format::{SLICED_PARTS, SLICED_SHAPE, SLICES};
use ckpt_api::{Encoding, Error, FileId, Placement, Result, Shape, Tensor, TensorId};
use ckpt_containers::pickle::numpy::Array;
use ckpt_containers::pickle::{Id, Tree, Value};
use std::collections::HashMap;

/// The file that the placements of a pickle are in.
pub(super) const FILE: FileId = FileId(0);

/// Joins the slices of large arrays, each where its first slice stands.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for slices that are missing, or do not fill the shape.
pub(super) fn joined(tree: &Tree, leaves: &mut Vec<Leaf>) -> Result<Vec<Leaf>> {
    let leaves = std::mem::take(leaves);
    let Some(all) = tree.entry(tree.root(), SLICES) else { return Ok(leaves) };
    let Value::Dict(list) = tree.value(all) else { return Err(wrong(SLICES, "no dict")) };
    let mut places: HashMap<String, usize> =
        leaves.iter().enumerate().map(|(at, leaf)| (leaf.name.clone(), at)).collect();
    let mut slots: Vec<Option<Leaf>> = leaves.into_iter().map(Some).collect();
    for (key, described) in tree.entries(list) {
        let name = tree.text(key).ok_or_else(|| wrong(SLICES, "a key that is no text"))?;
        let (shape, parts) =
            description(tree, described).ok_or_else(|| wrong(name, "no shape, or no slices"))?;
        let (mut arrays, mut first) = (Vec::new(), None);
        for part in &parts {
            let at = places.remove(part.as_str());
            let own = at.and_then(|at| slots.get_mut(at)).and_then(Option::take);
            first = first.or(at);
            match own.map(|leaf| leaf.found) {
                Some(Found::Arrays(own, None, _)) => arrays.extend(own),
                _ => {
                    return Err(wrong(name, "a slice that is not there, or is no array")
                        .found(format!("'{}'", part.escape_debug()))
                        .expected("an array under this key"));
                }
            }
        }
        let at = first.ok_or_else(|| wrong(name, "no slices"))?;
        check(name, &arrays, &shape)?;
        if let Some(slot) = slots.get_mut(at) {
            *slot = Some(Leaf { name: name.to_owned(), found: Found::Arrays(arrays, Some(shape), false) });
        }
    }
    Ok(slots.into_iter().flatten().collect())
}

/// The shape of an array, and the keys of its slices.
fn description(tree: &Tree, id: Id) -> Option<(Shape, Vec<String>)> {
    let list = |key: &str| match tree.value(tree.entry(id, key)?) {
        Value::Tuple(list) | Value::List(list) => Some(list),
        _ => None,
    };
    let lens = tree.items(list(SLICED_SHAPE)?).map(|len| u64::try_from(tree.int(len)?).ok());
    let shape = Shape::new(lens.collect::<Option<Vec<u64>>>()?).ok()?;
    let parts = tree.items(list(SLICED_PARTS)?).map(|part| tree.text(part).map(str::to_owned));
    Some((shape, parts.collect::<Option<_>>()?))
}

fn check(name: &str, arrays: &[Array], shape: &Shape) -> Result<()> {
    let count = arrays.iter().try_fold(0u64, |sum, array| sum.checked_add(array.shape.elements()));
    if count != Some(shape.elements()) {
        return Err(wrong(name, "slices that do not fill its shape")
            .found(format!("{} elements", count.unwrap_or(u64::MAX)))
            .expected(format!("{} of {shape}", shape.elements())));
    }
    let is_alike =
        arrays.windows(2).all(|pair| pair.first().map(|own| own.dtype) == pair.last().map(|own| own.dtype));
    match is_alike && arrays.iter().all(|array| array.shape.rank() == 1) {
        true => Ok(()),
        false => Err(wrong(name, "slices of several dtypes, or of more than one axis")),
    }
}

/// The tensor that arrays are, one or the slices of one, and where its bytes are.
///
/// # Errors
/// As [`Array::place`].
pub(super) fn place(
    tree: &Tree,
    arrays: &[Array],
    shape: Option<Shape>,
    id: TensorId,
    name: &str,
) -> Result<(Tensor, Placement)> {
    let placed = arrays.iter().map(|array| array.place(tree, (FILE, tree.start()), id, name));
    let mut placed = placed.collect::<Result<Vec<_>>>()?.into_iter();
    let (tensor, first) = placed.next().ok_or_else(|| wrong(name, "no array"))?;
    let Some(shape) = shape else { return Ok((tensor, first)) };
    let tensor = Tensor::new(name, tensor.dtype, shape);
    let encoding = Encoding::row_major(&tensor).with_endian(first.encoding.endian);
    let mut extents = first.extents.to_vec();
    for (_, next) in placed {
        if next.encoding.endian != encoding.endian {
            return Err(wrong(name, "slices of both byte orders"));
        }
        extents.extend(next.extents.to_vec());
    }
    let placement = Placement::new(id, &tensor.name, extents, encoding);
    Ok((tensor, placement))
}

fn wrong(name: &str, what: &str) -> Error {
    Error::corrupt(format!("a large array has {what}")).tensor(name.escape_debug().to_string()).field(SLICES)
}
