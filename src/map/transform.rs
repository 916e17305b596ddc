//! Takes steps on the tensors that match patterns, without a mapping.

use super::flatten::ImageSteps;
use super::rebuild::rebuild;
use crate::pattern::Selector;
use crate::recipe::{Join, Recipe, Target, Transform};
use ckpt_api::{Contents, Loss, Result};

/// Takes the steps of all transforms that match a tensor, in order. Adds those on flattened images to `image_steps`.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for a pattern that matches nothing, [`ckpt_api::Kind::Mapping`] for a step that does not fit its
/// tensor.
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
        let recipe = Recipe { join: Join::One, steps: own.map(|transform| transform.step.clone()).collect() };
        Target { name: (*name).to_owned(), sources: vec![(*name).to_owned()], recipe }
    });
    let targets: Vec<Target> = targets.collect();
    image_steps.add(&targets);
    rebuild(contents, &targets)
}
