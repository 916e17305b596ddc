//! The map stage: which tensors of a source go on, under which names, made of what, with which dtype.
//!
//! It reads a source and returns what it becomes; the source stays what it is.

mod duplicates;
mod flatten;
mod rebuild;
mod retype;
mod select;
mod transform;

use crate::mapping::Applied;
use crate::mapping::Mapping;
use crate::recipe::{AxisStep, Join, Target, Transform};
use ckpt_api::{Contents, DType, Limits, Loss, Placement, Result, Role, Tensor, Ties};
use flatten::ImageSteps;
pub(crate) use rebuild::Addend;
use rebuild::{Rebuilt, rebuild, rebuild_as};
use retype::retype;
use select::{Removed, remove, select};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use transform::transform;

/// What is wanted of a source's tensors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MapOptions<'a> {
    pub(crate) include: &'a [String],
    pub(crate) exclude: &'a [String],
    pub(crate) mapping: Option<&'a Mapping>,
    pub(crate) transforms: &'a [Transform],
    pub(crate) dtype: Option<DType>,
    /// Whether second copies of tensors are kept that no pattern or rule names: those of the target's own format are.
    pub(crate) keep_duplicates: bool,
    pub(crate) limits: &'a Limits,
}

/// What a source becomes before it is placed.
#[derive(Clone, Debug)]
pub(crate) struct Mapped {
    /// The source as it is.
    pub(crate) source: Arc<Contents>,
    /// Tensors with their new names, and where their bytes are. Shared with the source where nothing changes.
    pub(crate) contents: Arc<Contents>,
    /// Tensors that the user excluded.
    pub(crate) excluded: Vec<String>,
    /// What that costs.
    pub(crate) losses: Vec<Loss>,
    /// Of tensors that a mapping made, the source's names.
    pub(crate) made_of: BTreeMap<String, Vec<String>>,
    /// Tensors that must be equal, because one name stands for them.
    pub(crate) twins: Vec<Twins>,
    /// Tensors that are added to others where these are written.
    pub(crate) addends: Vec<Addend>,
}

/// Two tensors of the source that must be equal, because one name stands for both.
#[derive(Clone, Debug)]
pub(crate) struct Twins {
    /// The name.
    pub(crate) name: String,
    /// The tensor that is kept.
    pub(crate) first: (Tensor, Placement),
    /// The one that must be equal.
    pub(crate) other: (Tensor, Placement),
}

/// Applies the options: selection, without second copies; then the mapping, then transforms, then the dtype. Finds the
/// ties of what is left.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for a pattern that matches nothing, [`ckpt_api::Kind::Mapping`] for a mapping that does
/// not fit.
pub(crate) fn map(contents: &Arc<Contents>, options: &MapOptions<'_>) -> Result<Mapped> {
    let mut mapped = Mapped {
        source: contents.clone(),
        contents: contents.clone(),
        excluded: Vec::new(),
        losses: contents.losses.clone(),
        made_of: BTreeMap::new(),
        twins: Vec::new(),
        addends: Vec::new(),
    };
    if !options.include.is_empty() || !options.exclude.is_empty() {
        let removed = select(mapped.contents_mut(), options.include, options.exclude)?;
        mapped.remove(removed);
    }
    let is_copied = |tensor: &Tensor| tensor.role == Role::Duplicate;
    let may_leave_out = !options.keep_duplicates && options.include.is_empty();
    if may_leave_out && mapped.contents.checkpoint.tensors.iter().any(is_copied) {
        let losses = duplicates::leave_out(mapped.contents_mut(), contents, options.mapping);
        mapped.losses.extend(losses);
    }
    let mut image_steps = ImageSteps::default();
    if let Some(mapping) = options.mapping {
        mapped.rename(mapping, options.limits, &mut image_steps)?;
    }
    if !options.transforms.is_empty() {
        let losses = transform(mapped.contents_mut(), options.transforms, &mut image_steps)?;
        mapped.losses.extend(losses);
    }
    if options.mapping.is_some() || !options.transforms.is_empty() {
        let conventions = flatten::conventions(contents, &mapped.contents, &image_steps);
        mapped.losses.extend(conventions);
    }
    if let Some(dtype) = options.dtype {
        let losses = retype(mapped.contents_mut(), dtype)?;
        mapped.losses.extend(losses);
    }
    let ties = Ties::of(&mapped.contents);
    if !ties.is_empty() {
        mapped.contents_mut().checkpoint.ties = ties;
    }
    Ok(mapped)
}

/// A copy of the contents with the tensors that a mapping makes of its own, and what the mapping did.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] if it does not fit.
pub fn renamed(contents: &Contents, mapping: &Mapping, limits: &Limits) -> Result<(Contents, Applied)> {
    let mut contents = contents.clone();
    let applied = mapping.apply_to(&contents.checkpoint.tensors, limits)?;
    remove(&mut contents, applied.dropped.clone());
    rebuild_by(mapping, &mut contents, &applied.targets)?.complete()?;
    Ok((contents, applied))
}

/// A copy of the contents whose flattened images have the order in which another graph takes them; `None` if they have
/// it already, or if the graphs do not show the images.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for tensors that are stored in parts.
pub(crate) fn with_images_as_in(other: &ckpt_api::Graph, contents: &Contents) -> Result<Option<Contents>> {
    let targets = flatten::steps_to_order_of(other, contents)?;
    targets.map(|targets| made(contents, &targets)).transpose()
}

/// Returns the contents of a checkpoint that has these targets and nothing else.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] for a recipe that does not fit its tensors.
pub(crate) fn made(contents: &Contents, targets: &[Target]) -> Result<Contents> {
    let mut contents = contents.clone();
    rebuild(&mut contents, targets)?;
    Ok(contents)
}

/// Makes the targets of a mapping; an error names the mapping's file, and the entry that made the target.
fn rebuild_by(mapping: &Mapping, contents: &mut Contents, targets: &[Target]) -> Result<Rebuilt> {
    rebuild_as(contents, targets, &|error, target| mapping.blame(error, &target.sources))
}

impl Mapped {
    /// A copy of the source's contents, made once.
    fn contents_mut(&mut self) -> &mut Contents {
        Arc::make_mut(&mut self.contents)
    }

    fn remove(&mut self, removed: Removed) {
        let gone: HashSet<&str> = removed.names.iter().map(String::as_str).collect();
        self.losses.retain(|loss| !gone.contains(loss.subject.as_str()));
        self.excluded.extend(removed.names);
        self.losses.extend(removed.losses);
    }

    /// Applies the mapping: drops what it ignores, and makes the targets of the rest.
    fn rename(&mut self, mapping: &Mapping, limits: &Limits, steps: &mut ImageSteps) -> Result<()> {
        let applied = mapping.apply_to(&self.contents.checkpoint.tensors, limits)?;
        let excluded = self.excluded.len();
        let removed = remove(self.contents_mut(), applied.dropped);
        self.remove(removed);
        self.twins.extend(twins(&self.contents, &applied.targets));
        self.twins.extend(checked_whole(&self.contents, &applied.targets));
        steps.add(&applied.targets);
        let Rebuilt { losses, addends } = rebuild_by(mapping, self.contents_mut(), &applied.targets)?;
        self.losses.extend(losses);
        self.addends.extend(addends);
        let tensors = &self.contents.checkpoint;
        self.losses.extend(mapping.unmet_needs(|name| tensors.tensor(name).is_some()));
        let unused = applied.unused.iter().filter(|_| !mapping.is_builtin());
        let unused = unused.map(|rule| format!("of the mapping, nothing matched: {rule}"));
        let is_same = |target: &Target| target.recipe.is_plain() && target.sources == [target.name.as_str()];
        let changes_nothing = self.excluded.len() == excluded && applied.targets.iter().all(is_same);
        let nothing = changes_nothing.then(|| "the mapping changes nothing of this checkpoint".to_owned());
        let notes: Vec<String> = unused.chain(nothing).collect();
        if !notes.is_empty() {
            self.contents_mut().add_notes(notes);
        }
        self.made_of.extend(applied.targets.into_iter().map(|target| (target.name, target.sources)));
        Ok(())
    }
}

/// Tensors whose parts are reordered, or are not side by side, are read in runs, to which no checksum belongs: each is read as a whole beside, and
/// compared with itself.
fn checked_whole(contents: &Contents, targets: &[Target]) -> Vec<Twins> {
    let is_in_runs = |target: &&Target| {
        let mut steps = target.recipe.steps.iter();
        let is_cut = matches!(
            target.recipe.join,
            Join::Disassembled { .. } | Join::Assembled { element: Some(_), .. }
        );
        is_cut
            || !target.recipe.division.is_plain()
            || steps.any(|step| matches!(step, AxisStep::Parts { .. }))
    };
    let mut found: Vec<Twins> = Vec::new();
    let mut seen = HashSet::new();
    let mut names: Option<HashMap<&str, _>> = None;
    for target in targets.iter().filter(is_in_runs) {
        let ids = names.get_or_insert_with(|| contents.checkpoint.by_name());
        for source in target.sources.iter().filter(|source| seen.insert(source.as_str())) {
            let stored = ids.get(source.as_str()).and_then(|id| contents.tensor_at(*id).ok());
            let Some((tensor, placement)) = stored else { continue };
            if placement.extents.iter().any(|extent| extent.checksum.is_some()) {
                let whole = (tensor.clone(), placement.clone());
                found.push(Twins { name: target.name.clone(), first: whole.clone(), other: whole });
            }
        }
    }
    found
}

/// Of tensors that become one, only one is kept: that is no loss where they are equal, which reading them shows.
fn twins(contents: &Contents, targets: &[Target]) -> Vec<Twins> {
    let tied = targets.iter().filter(|target| target.recipe.join == Join::Tied);
    let mut names: Option<HashMap<&str, _>> = None;
    let mut found = Vec::new();
    for target in tied {
        let ids = names.get_or_insert_with(|| contents.checkpoint.by_name());
        let stored = |name: &String| {
            let id = ids.get(name.as_str())?;
            let (tensor, placement) = contents.tensor_at(*id).ok()?;
            Some((tensor.clone(), placement.clone()))
        };
        let mut all = target.sources.iter().filter_map(stored);
        let Some(first) = all.next() else { continue };
        found.extend(all.map(|other| Twins { name: target.name.clone(), first: first.clone(), other }));
    }
    found
}
