//! Updates references by name after recipes have renamed tensors: those of the graph, and of optimizer slots.

use super::placed::PlacedTensor;
use crate::map::select::drop_graph_without;
use crate::recipe::{AxisStep, Join, Recipe, Target};
use ckpt_api::{Contents, Loss, Slot, Tensor};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Renames the tensors in the graph; drops a graph that needs a tensor that is merged or split, or whose elements moved
/// where the names of axes do not show it, and returns that as a loss. `tensors` are those of the source.
pub(super) fn rename_in_graph(
    contents: &mut Contents,
    tensors: &HashMap<&str, &Tensor>,
    targets: &[Target],
) -> Vec<Loss> {
    let whole = whole(targets);
    let joined = targets.iter().filter(|target| !is_whole(&target.recipe));
    let gone: HashSet<&str> = joined
        .flat_map(|target| &target.sources)
        .map(String::as_str)
        .filter(|name| !whole.contains_key(name))
        .collect();
    let why = match targets.iter().any(|target| computes(&target.recipe)) {
        true => "is merged, split or computed",
        false => "is merged or split",
    };
    let is_moved = |(name, target): &(&&str, &&Target)| {
        tensors.get(**name).is_some_and(|tensor| moves_unseen(&target.recipe, tensor))
    };
    let moved: HashSet<&str> = whole.iter().filter(is_moved).map(|(name, _)| *name).collect();
    let lost = drop_graph_without(contents, &gone, why).or_else(|| {
        drop_graph_without(contents, &moved, "is reordered in a way that the names of its axes do not show")
    });
    let names: BTreeMap<String, String> =
        whole.into_iter().map(|(source, target)| (source.to_owned(), target.name.clone())).collect();
    contents.checkpoint.follow(&names);
    lost.into_iter().collect()
}

/// Assigns each slot to the target that was made of its variable in the same way. A slot whose axes might not match
/// those of its variable belongs to no tensor.
pub(super) fn reassign_slots<'t>(
    made: impl Iterator<Item = &'t mut Tensor>,
    targets: &[Target],
    sources: &[PlacedTensor],
    ids: &HashMap<&str, usize>,
) {
    if sources.iter().all(|source| source.tensor.slot.is_none()) {
        return;
    }
    let source = |name: &str| ids.get(name).and_then(|id| sources.get(*id)).map(|source| &source.tensor);
    let owners = Owners::new(targets);
    let of_target: HashMap<&str, Option<Slot>> = targets
        .iter()
        .map(|target| {
            let slots = target.sources.iter().map(|name| source(name)?.slot.as_deref());
            let slots: Option<Vec<&Slot>> = slots.collect();
            (target.name.as_str(), slots.and_then(|slots| owners.slot(target, &slots, source)))
        })
        .collect();
    for tensor in made {
        tensor.slot = of_target.get(tensor.name.as_str()).cloned().flatten().map(Box::new);
    }
}

/// The targets to which slots can belong.
struct Owners<'t> {
    /// By the sources, in order, and the recipe.
    by_recipe: HashMap<(Vec<&'t str>, &'t Recipe), &'t str>,
    whole: BTreeMap<&'t str, &'t Target>,
}

impl<'t> Owners<'t> {
    fn new(targets: &'t [Target]) -> Self {
        let mut by_recipe = HashMap::with_capacity(targets.len());
        for target in targets {
            let sources = target.sources.iter().map(String::as_str).collect();
            by_recipe.entry((sources, &target.recipe)).or_insert(target.name.as_str());
        }
        Owners { by_recipe, whole: whole(targets) }
    }

    /// Returns the slot that a target made of these slots is, if it is one.
    fn slot<'s>(
        &self,
        target: &Target,
        slots: &[&Slot],
        source: impl Fn(&str) -> Option<&'s Tensor>,
    ) -> Option<Slot> {
        let first = slots.first().filter(|first| slots.iter().all(|slot| slot.name == first.name))?;
        let variables = slots.iter().map(|slot| slot.variable.as_str()).collect();
        let owner = match self.by_recipe.get(&(variables, &target.recipe)) {
            Some(name) => *name,
            None => {
                let owner = self.whole.get(first.variable.as_str()).filter(|_| is_whole(&target.recipe))?;
                let has_axes = |name: &str| source(name).is_some_and(|tensor| tensor.axes.is_some());
                let have_axes = has_axes(&first.variable) && target.sources.iter().all(|name| has_axes(name));
                let same: &[AxisStep] = &owner.recipe.steps;
                (have_axes || same == target.recipe.steps).then_some(owner.name.as_str())?
            }
        };
        Some(Slot { variable: owner.into(), name: first.name.clone() })
    }
}

/// Returns the target of every source that stays a whole tensor; the first of several.
fn whole(targets: &[Target]) -> BTreeMap<&str, &Target> {
    let mut whole = BTreeMap::new();
    for target in targets.iter().filter(|target| is_whole(&target.recipe)) {
        for source in &target.sources {
            whole.entry(source.as_str()).or_insert(target);
        }
    }
    whole
}

fn is_whole(recipe: &Recipe) -> bool {
    matches!(recipe.join, Join::One | Join::Tied) && !computes(recipe)
}

/// Whether steps move elements where the names of axes do not show it: then a graph, which knows the former order, would
/// compute something else. Images that are flattened in another order change the graph elsewhere.
fn moves_unseen(recipe: &Recipe, tensor: &Tensor) -> bool {
    let has_axes = tensor.axes.is_some();
    let in_order = |order: &[usize]| order.iter().copied().eq(0..order.len());
    recipe.steps.iter().any(|step| match step {
        AxisStep::Parts { order, .. } => !in_order(order),
        AxisStep::Reshape(_) => true,
        AxisStep::Permute(order) => !has_axes && !in_order(order),
        AxisStep::Transpose | AxisStep::Squeeze(_) | AxisStep::Unsqueeze(_) => !has_axes,
        _ => false,
    })
}

/// Whether numbers of the target are others than those of its sources.
fn computes(recipe: &Recipe) -> bool {
    matches!(recipe.join, Join::Dequantized(_)) || recipe.steps.iter().any(|step| step.operation().is_some())
}
