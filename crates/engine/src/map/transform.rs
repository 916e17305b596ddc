//! Takes steps on the tensors that match patterns, without a mapping.

use super::flatten::ImageSteps;
use super::rebuild::rebuild;
use crate::pattern::Selector;
use crate::recipe::{Join, Recipe, Target, Transform, as_usage};
use ckpt_api::{Contents, Error, Kind, Loss, Result};

/// Takes the steps of all transforms that match a tensor, in order. Adds those on flattened images to `image_steps`.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for a pattern that matches nothing, and for a step that does not fit its tensor.
pub(super) fn transform(
    contents: &mut Contents,
    transforms: &[Transform],
    image_steps: &mut ImageSteps,
) -> Result<Vec<Loss>> {
    if transforms.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<&str> = contents.checkpoint.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let selectors: Vec<Selector> = transforms.iter().map(|transform| transform.selector.clone()).collect();
    let matches = Selector::matches(&selectors, &names)?;
    let targets = names.iter().zip(matches).map(|(name, own)| {
        let own = own.iter().filter_map(|index| transforms.get(*index));
        let recipe = Recipe {
            join: Join::One,
            steps: own.map(|transform| transform.step.clone()).collect(),
            ..Recipe::default()
        };
        Target { name: (*name).to_owned(), sources: vec![(*name).to_owned()], recipe }
    });
    let targets: Vec<Target> = targets.collect();
    image_steps.add(&targets);
    rebuild(contents, &targets).map_err(|error| of_transform(error, transforms))
}

/// The error about a step, which names the transforms of its tensor: there may be no mapping to correct.
fn of_transform(error: Error, transforms: &[Transform]) -> Error {
    let Some(name) = error.context().tensor.filter(|_| error.kind() == Kind::Mapping) else { return error };
    let is_own = |transform: &&Transform| {
        Selector::matches(std::slice::from_ref(&transform.selector), &[name]).is_ok()
    };
    let own: Vec<String> = transforms.iter().filter(is_own).map(|own| format!("'{own}'")).collect();
    let s = if own.len() == 1 { "" } else { "s" };
    as_usage(&error).tensor(name).field(format!("the transform{s} {}", own.join(", ")))
}
