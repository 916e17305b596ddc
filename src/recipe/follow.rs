//! What refers to tensors by name, once recipes have renamed and remade them: the graph, and the slots of optimizers.

use super::axes::Piece;
use super::{AxisStep, Join, Recipe, Target};
use crate::select::drop_graph_without;
use ckpt_api::{Contents, Loss, Slot, Tensor};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Lets the graph follow the tensors that are still whole; without the others it cannot be.
pub(super) fn graph(contents: &mut Contents, targets: &[Target]) -> Vec<Loss> {
    let whole = whole(targets);
    let joined = targets.iter().filter(|target| !is_whole(&target.recipe));
    let gone: HashSet<&str> = joined
        .flat_map(|target| &target.sources)
        .map(String::as_str)
        .filter(|name| !whole.contains_key(name))
        .collect();
    let lost = drop_graph_without(contents, &gone, "is merged or split");
    let names: BTreeMap<String, String> =
        whole.into_iter().map(|(source, target)| (source.to_owned(), target.name.clone())).collect();
    contents.checkpoint.follow(&names);
    lost.into_iter().collect()
}

/// Lets slots belong to what was made of their variables in the same way. A slot whose axes could no longer be told
/// from its variable's belongs to none.
pub(super) fn slots<'t>(
    made: impl Iterator<Item = &'t mut Tensor>,
    targets: &[Target],
    pieces: &[Piece],
    ids: &HashMap<&str, usize>,
) {
    if pieces.iter().all(|piece| piece.tensor.slot.is_none()) {
        return;
    }
    let source = |name: &str| ids.get(name).and_then(|id| pieces.get(*id)).map(|piece| &piece.tensor);
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

/// Which target a slot may belong to.
struct Owners<'t> {
    /// By all sources, in order, and the recipe.
    alike: HashMap<(Vec<&'t str>, &'t Recipe), &'t str>,
    whole: BTreeMap<&'t str, &'t Target>,
}

impl<'t> Owners<'t> {
    fn new(targets: &'t [Target]) -> Self {
        let mut alike = HashMap::with_capacity(targets.len());
        for target in targets {
            let sources = target.sources.iter().map(String::as_str).collect();
            alike.entry((sources, &target.recipe)).or_insert(target.name.as_str());
        }
        Owners { alike, whole: whole(targets) }
    }

    /// The slot that a target is, whose sources are these slots.
    fn slot<'s>(
        &self,
        target: &Target,
        slots: &[&Slot],
        source: impl Fn(&str) -> Option<&'s Tensor>,
    ) -> Option<Slot> {
        let first = slots.first().filter(|first| slots.iter().all(|slot| slot.name == first.name))?;
        let variables = slots.iter().map(|slot| slot.variable.as_str()).collect();
        let owner = match self.alike.get(&(variables, &target.recipe)) {
            Some(name) => *name,
            None => {
                let owner = self.whole.get(first.variable.as_str()).filter(|_| is_whole(&target.recipe))?;
                let has_axes = |name: &str| source(name).is_some_and(|tensor| tensor.axes.is_some());
                let named = has_axes(&first.variable) && target.sources.iter().all(|name| has_axes(name));
                let same: &[AxisStep] = &owner.recipe.steps;
                (named || same == target.recipe.steps).then_some(owner.name.as_str())?
            }
        };
        Some(Slot { variable: owner.to_owned(), name: first.name.clone() })
    }
}

/// Every source that is still a whole tensor, and the target that it became; of several, the first.
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
    matches!(recipe.join, Join::One | Join::Tied)
}
