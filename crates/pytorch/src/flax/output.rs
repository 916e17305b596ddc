//! The mapping that is made, and what there is to say about it.

use super::kinds::FLAX_TO_TORCH;
use super::reading::Unknown;
use super::scan::{Scan, Scans};
use super::tree::{Leaf, Tree};
use ckpt_api::{Error, Limit, Result, Text};
use ckpt_engine::mapping::{Assembly, Ignore, Mapping, Relation, Rule, Translation, default_limit, listed};
use ckpt_engine::pattern::Pattern;
use ckpt_engine::recipe::{AxisStep, Length, Piece, Reshape};
use std::collections::BTreeMap;

/// Where a module is in PyTorch.
pub(super) struct Place<'a, 't> {
    /// The path of the module, without what PyTorch has no module for.
    pub(super) path: &'a [&'t str],
    pub(super) scan: Option<&'a Scan<'t>>,
}

impl<'a, 't> Place<'a, 't> {
    pub(super) fn new(path: &'a [&'t str], scans: &'a Scans<'t>) -> Self {
        Place { path, scan: scans.of(path) }
    }

    /// The name of a tensor; scanned layers have a number behind the name of what holds them.
    fn name(&self, index: Option<u64>, leaf: &str) -> String {
        let at = self.scan.map_or(0, |scan| scan.path.len().min(self.path.len()));
        let (holder, rest) = self.path.split_at(at);
        let number = index.map(|index| index.to_string());
        let parts = holder.iter().copied().chain(number.as_deref()).chain(rest.iter().copied());
        parts.chain([leaf]).collect::<Vec<_>>().join(".")
    }

    /// The module in notes.
    pub(super) fn shown(&self) -> String {
        if self.path.is_empty() { "the model itself".to_owned() } else { self.path.join(".") }
    }
}

/// What is made so far.
pub(super) struct Output {
    mapping: Mapping,
    targets: usize,
    /// Modules by what a program in PyTorch has to set.
    settings: BTreeMap<String, Vec<String>>,
    /// Modules by what is assumed of them.
    assumed: BTreeMap<&'static str, Vec<String>>,
    /// Tensors that keep names and axes, by the reason.
    kept: BTreeMap<&'static str, Vec<String>>,
    /// Counters that batch normalizations have in PyTorch.
    counters: Vec<String>,
    random: Vec<String>,
}

impl Output {
    pub(super) fn new() -> Self {
        let title = "Flax to PyTorch, made for one tree".to_owned();
        Output {
            mapping: Mapping::of_generator(FLAX_TO_TORCH, title, "pt"),
            targets: 0,
            settings: BTreeMap::new(),
            assumed: BTreeMap::new(),
            kept: BTreeMap::new(),
            counters: Vec::new(),
            random: Vec::new(),
        }
    }

    /// Makes one tensor of one leaf.
    pub(super) fn one(
        &mut self,
        place: &Place<'_, '_>,
        leaf: &Leaf<'_>,
        name: &str,
        steps: Vec<AxisStep>,
    ) -> Result<()> {
        self.assemble(place, &[leaf], &[(name, vec![Piece::new(0, false)])], steps)
    }

    /// Makes one tensor of several leaves, side by side along its first axis.
    pub(super) fn merge(
        &mut self,
        place: &Place<'_, '_>,
        leaves: &[&Leaf<'_>],
        name: &str,
        steps: Vec<AxisStep>,
    ) -> Result<()> {
        let pieces = (0..leaves.len()).map(|source| Piece::new(source, false)).collect();
        self.assemble(place, leaves, &[(name, pieces)], steps)
    }

    /// Makes tensors of pieces of leaves, along their first axes; `steps` are those of each piece.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Limit`] for more tensors than a checkpoint may have.
    pub(super) fn assemble(
        &mut self,
        place: &Place<'_, '_>,
        leaves: &[&Leaf<'_>],
        made: &[(&str, Vec<Piece>)],
        steps: Vec<AxisStep>,
    ) -> Result<()> {
        let elements = place.scan.map(|scan| scan.len);
        let count = elements.unwrap_or(1).saturating_mul(made.len() as u64);
        self.targets = self.targets.saturating_add(usize::try_from(count).unwrap_or(usize::MAX));
        if self.targets > default_limit(Limit::Tensors) {
            let error = Error::limit("scanned layers have more tensors than a checkpoint may have");
            return Err(error.tensor(leaves.first().map_or("", |leaf| leaf.name)));
        }
        let names: Vec<String> = match elements {
            None => made.iter().map(|(leaf, _)| place.name(None, leaf)).collect(),
            Some(elements) => (0..elements)
                .flat_map(|index| made.iter().map(move |(leaf, _)| place.name(Some(index), leaf)))
                .collect(),
        };
        let rows: Vec<Vec<Piece>> = made.iter().map(|(_, pieces)| pieces.clone()).collect();
        let is_whole =
            |row: &Vec<Piece>| row.iter().enumerate().all(|(at, piece)| *piece == Piece::new(at, false));
        let relation = match (&rows[..], &names[..], leaves) {
            ([row], [name], [leaf]) if elements.is_none() && is_whole(row) => {
                if steps.is_empty() {
                    self.mapping.look_up(leaf.name, name);
                    return Ok(());
                }
                Relation::One
            }
            ([row], [_], _) if elements.is_none() && is_whole(row) => {
                Relation::Merge { axis: 0, sizes: None }
            }
            _ => Relation::Assemble(Assembly { axis: 0, elements, targets: rows }),
        };
        let from = leaves.iter().map(|leaf| Pattern::literal(leaf.name)).collect();
        let to = names.iter().map(|name| Pattern::literal(name)).collect();
        self.mapping.rules.push(Rule::new(from, to, relation, steps));
        Ok(())
    }

    /// Notes what a program has to set for a module.
    pub(super) fn set(&mut self, place: &Place<'_, '_>, setting: impl Into<String>) {
        self.settings.entry(setting.into()).or_default().push(place.shown());
    }

    /// Notes what is assumed of a module.
    pub(super) fn assume(&mut self, place: &Place<'_, '_>, assumption: &'static str) {
        self.assumed.entry(assumption).or_default().push(place.shown());
    }

    /// Keeps the name and the axes of a leaf.
    ///
    /// # Errors
    /// As [`Output::assemble`].
    pub(super) fn keep(
        &mut self,
        place: &Place<'_, '_>,
        leaf: (&str, &Leaf<'_>),
        why: Unknown,
    ) -> Result<()> {
        let why = match why {
            Unknown::NoLayer => "no layer that is known has tensors of these names",
            Unknown::Shapes => "no such layer has tensors of these shapes",
            Unknown::ConvOrDense => {
                "a kernel of three axes is that of a convolution or of a dense layer; state which, as in \
                 flax-to-torch,LAYER=conv or LAYER=dense"
            }
            Unknown::Axes => "without a bias, nothing shows which axes of a dense layer are the output's",
            Unknown::Stated => "as stated",
        };
        self.kept.entry(why).or_default().push(leaf.1.name.to_owned());
        self.one(place, leaf.1, leaf.0, Vec::new())
    }

    /// Adds the counter of a batch normalization.
    pub(super) fn count(&mut self, place: &Place<'_, '_>) {
        let indices = place.scan.map_or(vec![None], |scan| (0..scan.len).map(Some).collect());
        self.counters.extend(indices.into_iter().map(|index| place.name(index, "num_batches_tracked")));
    }

    /// Leaves tensors of other collections as they are, and drops the states of random generators.
    pub(super) fn leave(&mut self, tree: &Tree<'_>) {
        for name in &tree.others {
            self.mapping.look_up(name, name);
            let why = "they are in another collection than params and batch_stats";
            self.kept.entry(why).or_default().push((*name).to_owned());
        }
        for name in &tree.random {
            self.mapping.ignore.push(Ignore::new(Pattern::literal(name)));
            self.random.push((*name).to_owned());
        }
    }

    pub(super) fn into_translation(self, code: Result<String>) -> Translation {
        let mut notes: Vec<Text> = Vec::new();
        for (setting, modules) in self.settings {
            notes.push(format!("in PyTorch, {setting}: {}", listed(&modules)).into());
        }
        for (assumption, modules) in self.assumed {
            notes.push(format!("{assumption}: {}", listed(&modules)).into());
        }
        for (why, tensors) in self.kept {
            notes.push(format!("tensors keep their axes, because {why}: {}", listed(&tensors)).into());
        }
        if !self.random.is_empty() {
            let random = listed(&self.random);
            notes.push(format!("PyTorch keeps no state of random generators in a model: {random}").into());
        }
        let mut translation = Translation::new(self.mapping, code);
        translation.counters = self.counters;
        translation.notes = notes;
        translation
    }
}

/// The step that joins axes of these lengths into one.
pub(super) fn join(lens: &[u64], axis: usize) -> Option<AxisStep> {
    let all = lens.iter().try_fold(1u64, |product, len| product.checked_mul(*len));
    let lengths = lens.iter().map(|len| Length::Of(*len)).collect();
    let is_one = lens.len() == 1;
    all.filter(|_| !is_one).map(|all| AxisStep::Reshape(Reshape::new(lengths, vec![Length::Of(all)], axis)))
}
