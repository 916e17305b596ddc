//! A checkpoint whose quantized weights are numbers, beside the tensors that are stored for them.

use crate::formats::{Group, Groups};
use crate::words;
use ckpt_api::{Contents, DType, Error, Limits, Placement, Result, TensorId, Ties};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// How the quantized weights of a source are stored.
#[derive(Debug)]
pub struct Grouped {
    /// The stored tensors.
    stored: Arc<Contents>,
    /// The scheme of each weight, and its numbers as its library rounds them.
    groups: BTreeMap<String, Group>,
    /// Why other weights have no numbers.
    problem: Option<Error>,
}

impl Grouped {
    /// Replaces the stored tensors of each group by its weight; `None` if there is no group and no problem.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] if a weight has the name of another tensor, or contradicts itself.
    pub(super) fn new(contents: &mut Contents, found: Groups, limits: &Limits) -> Result<Option<Self>> {
        let Groups { groups, problem } = found;
        if groups.is_empty() && problem.is_none() {
            return Ok(None);
        }
        let stored = Arc::new(contents.clone());
        if let Some(problem) = &problem {
            contents.add_notes([format!(
                "some quantized weights are not read as numbers: {}",
                words::quote(&problem.to_string().lines().collect::<Vec<_>>().join(" "))
            )]);
        }
        if !groups.is_empty() {
            replace(contents, &groups);
            contents.check(limits)?;
            contents.add_notes(note(&groups));
        }
        let groups = groups.into_iter().map(|group| (group.tensor.name.to_string(), group)).collect();
        Ok(Some(Grouped { stored, groups, problem }))
    }

    /// The same groups, if some weights have other numbers now: their libraries' own roundings are no longer those.
    pub(super) fn changed(&self, before: &Contents, after: &Contents) -> Grouped {
        let (old, new) = (before.checkpoint.by_name(), after.checkpoint.by_name());
        let mut groups = self.groups.clone();
        for (name, group) in &mut groups {
            let before = old.get(name.as_str()).and_then(|id| before.placements.get(id.0));
            let after = new.get(name.as_str()).and_then(|id| after.placements.get(id.0));
            if before.map(|placement| &placement.extents) != after.map(|placement| &placement.extents) {
                group.rounded = None;
            }
        }
        Grouped {
            stored: self.stored.clone(),
            groups,
            problem: self.problem.as_ref().map(Error::without_cause),
        }
    }

    /// What people call the scheme of a weight; `None` if it is not quantized.
    pub fn scheme(&self, name: &str) -> Option<&str> {
        self.groups.get(name).map(|group| group.scheme.as_str())
    }

    /// The weights, in the order of their names.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.values()
    }

    /// The stored tensors.
    pub(super) fn stored(&self) -> &Arc<Contents> {
        &self.stored
    }

    /// Where the numbers of a weight are as its library rounds them on the way to a dtype, if it rounds more than once.
    pub(super) fn rounded(&self, name: &str, dtype: DType) -> Option<&Placement> {
        let (own, placement) = self.groups.get(name)?.rounded.as_ref()?;
        (*own == dtype).then_some(placement)
    }

    /// Why some weights have no numbers.
    pub fn problem(&self) -> Option<&Error> {
        self.problem.as_ref()
    }
}

/// Puts each weight in the place of the first of its parts.
fn replace(contents: &mut Contents, groups: &[Group]) {
    let first: HashMap<TensorId, &Group> =
        groups.iter().filter_map(|group| Some((*group.parts.iter().min()?, group))).collect();
    let parts: HashSet<TensorId> = groups.iter().flat_map(|group| group.parts.iter().copied()).collect();
    let tensors = std::mem::take(&mut contents.checkpoint.tensors);
    let placements = std::mem::take(&mut contents.placements);
    for (id, (tensor, placement)) in tensors.into_iter().zip(placements).enumerate() {
        let (id, new) = (TensorId(id), TensorId(contents.placements.len()));
        let (tensor, placement) = match first.get(&id) {
            Some(group) => (group.tensor.clone(), group.placement.clone()),
            None if parts.contains(&id) => continue,
            None => (tensor, placement),
        };
        contents.checkpoint.tensors.push(tensor);
        contents.placements.push(placement.with_tensor(new));
    }
    contents.checkpoint.ties = Ties::of(contents);
}

/// Says how the weights are stored.
fn note(groups: &[Group]) -> Vec<String> {
    let mut schemes: BTreeMap<&str, usize> = BTreeMap::new();
    groups.iter().for_each(|group| *schemes.entry(group.scheme.as_str()).or_default() += 1);
    let each =
        schemes.into_iter().map(|(scheme, count)| format!("{} as {scheme}", words::count(count, "weight")));
    vec![format!(
        "quantized, and shown as the numbers that they stand for: {}",
        each.collect::<Vec<_>>().join(", ")
    )]
}
