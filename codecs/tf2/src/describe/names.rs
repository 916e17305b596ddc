//! Names of variables.

use super::catalog::{Catalog, TensorInfo};
use super::objects::Objects;
use ckpt_api::{Limit, Limits, Result, Role};
use std::collections::{BTreeMap, HashMap};

/// Returns by key the name of each variable (`mlp/dense/kernel`) that is unique and not another tensor's key.
/// Duplicates keep their keys.
///
/// # Errors
/// [`ckpt_api::Kind::Limit`].
pub(super) fn names(
    tensors: &[TensorInfo],
    catalog: &Catalog,
    objects: Option<&Objects>,
    roles: &BTreeMap<String, Role>,
    limits: &Limits,
) -> Result<BTreeMap<String, String>> {
    let Some(objects) = objects else { return Ok(BTreeMap::new()) };
    let mut wanted: BTreeMap<&str, String> = BTreeMap::new();
    for (_, value) in objects.values() {
        if Objects::is_variable(value)
            && !value.full_name.is_empty()
            && catalog.contains_key(value.key.as_str())
        {
            wanted.entry(&value.key).or_insert_with(|| value.full_name.clone());
        }
    }
    let mut slot_bytes = 0u64;
    for slot in objects.nodes.iter().flat_map(|node| &node.slots) {
        let (Some(variable), Some(stored)) = (objects.variable(slot.original), objects.variable(slot.slot))
        else {
            continue;
        };
        if wanted.contains_key(stored.key.as_str()) || !catalog.contains_key(stored.key.as_str()) {
            continue;
        }
        let Some(name) = wanted.get(variable.key.as_str()) else { continue };
        // Many slots can belong to a variable with a long name.
        slot_bytes = slot_bytes.saturating_add((name.len() + slot.name.len()) as u64);
        limits.check(Limit::HeaderBytes, slot_bytes)?;
        let name = format!("{name}/{}", slot.name);
        wanted.insert(&stored.key, name);
    }
    wanted.retain(|key, name| roles.get(*key) != Some(&Role::Duplicate) && name != key);
    let mut uses: HashMap<&str, u32> = tensors.iter().map(|tensor| (tensor.key, 1)).collect();
    for name in wanted.values() {
        *uses.entry(name).or_default() += 1;
    }
    let unique = wanted.iter().filter(|(_, name)| uses.get(name.as_str()) == Some(&1));
    Ok(unique.map(|(key, name)| ((*key).to_owned(), name.clone())).collect())
}
