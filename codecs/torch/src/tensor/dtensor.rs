//! Distributed tensors that `torch.save` pickled: each rank has its own part, and a file of one rank has that one.
//!
//! ```text
//! _rebuild_from_type_v2(_rebuild_wrapper_subclass, DTensor, (DTensor, dtype, size, stride, …), attributes)
//! attributes   {_local_tensor, _spec: DTensorSpec {mesh, placements, tensor_meta, …}}, or a tuple of two with it
//! placements   for each axis of the mesh: Shard(dim), Replicate(), Partial(reduce_op)
//! ```

use super::call::{field, item, naturals};
use super::describe::{described, unsupported, wrong};
use super::view::{Distributed, Made};
use ckpt_api::{Error, Result, Shape};
use ckpt_containers::pickle::{Id, Object, Tree, Value, shown};

/// Axes of a mesh, of which nobody has so many.
const MOST_AXES: usize = 64;
/// Placements that a message lists.
const SHOWN: usize = 4;

/// The part of a distributed tensor that a rank has.
pub(super) struct Local {
    pub(super) tensor: Object,
    /// The shape of the whole tensor.
    whole: Shape,
    /// How it is placed on the ranks, as PyTorch writes it: `Shard(0)`.
    placements: Vec<String>,
}

/// Whether this is the class of distributed tensors.
pub(crate) fn is_distributed(module: &str, name: &str) -> bool {
    module.starts_with("torch.distributed") && name == "DTensor"
}

/// Finds the local tensor of a distributed one; an error in it for any other subclass, and for a tensor whose values are
/// terms of a sum.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for arguments that PyTorch does not write.
pub(super) fn local(tree: &Tree, items: &[Id], attributes: Id) -> Result<std::result::Result<Local, Error>> {
    let class = tree.global(item(items, 0)?);
    if !class.is_some_and(|(module, name)| is_distributed(module, name)) {
        let what = "a subclass of a tensor that wraps others";
        let error = unsupported(what, "save a dense tensor on the CPU instead");
        return Ok(Err(match class {
            Some((module, name)) => error.found(shown(module, name)),
            None => error,
        }));
    }
    let lens =
        naturals(tree, item(items, 2)?).ok_or_else(|| wrong("a distributed tensor has no valid size"))?;
    let attribute = |name: &str| match tree.value(attributes) {
        Value::Tuple(list) => {
            let mut found = tree.items(list).take(2).map(|dict| field(tree, dict, name));
            found.find(|found| !matches!(found, Ok(None))).unwrap_or(Ok(None))
        }
        _ => field(tree, attributes, name),
    };
    let tensor = attribute("_local_tensor")?.and_then(|id| tree.object(id));
    let tensor = tensor.ok_or_else(|| wrong("a distributed tensor has no local one"))?;
    let spec = attribute("_spec")?.and_then(|id| tree.object(id)).and_then(|spec| spec.state);
    let placements = spec.map_or(Ok(None), |spec| field(tree, spec, "placements"))?;
    let placements = match placements.map(|id| tree.value(id)) {
        Some(Value::Tuple(list) | Value::List(list)) => tree.items(list).take(MOST_AXES).collect(),
        _ => Vec::new(),
    };
    let is_sum =
        placements.iter().any(|id| !matches!(kind(tree, *id), Some("Shard" | "_StridedShard" | "Replicate")));
    let placements: Vec<String> = placements.iter().take(SHOWN).map(|id| placement(tree, *id)).collect();
    if is_sum || placements.is_empty() {
        let what = "a distributed tensor whose values are not those of a rank";
        return Ok(Err(unsupported(what, INSTEAD).found(placements.join(", "))));
    }
    Ok(Ok(Local { tensor, whole: Shape::new(lens)?, placements }))
}

const INSTEAD: &str = "save tensor.full_tensor(), or the sharded state dict with torch.distributed.checkpoint, which ckpt reads";

/// Marks the local tensor of a distributed one as a part if it is not all of it.
pub(super) fn of_rank<'a>(mut made: Made<'a>, local: Option<Local>) -> Made<'a> {
    if let (Made::Tensor(view), Some(Local { whole, placements, .. })) = (&mut made, local)
        && view.shape != whole
    {
        let axis = match &placements[..] {
            [placement] => placement.strip_prefix("Shard(").and_then(|rest| rest.strip_suffix(')')),
            _ => None,
        };
        let axis = axis.and_then(|axis| axis.parse().ok());
        view.distributed = Some(Box::new(Distributed { whole, axis, placements: placements.join(", ") }));
    }
    made
}

/// The name of a placement's class.
fn kind(tree: &Tree, id: Id) -> Option<&str> {
    let (module, name) = tree.global(tree.object(id)?.callable)?;
    module.starts_with("torch.distributed").then_some(name)
}

/// A placement as PyTorch writes it.
fn placement(tree: &Tree, id: Id) -> String {
    let Some(name) = kind(tree, id) else { return described(tree, id) };
    let object = tree.object(id);
    let stated = |key: &str| tree.int(field(tree, object?.state?, key).ok()??);
    let given = || tree.tuple::<1>(object?.arguments).and_then(|[dim]| tree.int(dim));
    match stated("dim").or_else(given) {
        Some(dim) => format!("{name}({dim})"),
        None => format!("{name}()"),
    }
}
