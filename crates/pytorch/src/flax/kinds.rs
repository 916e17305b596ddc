//! What a user states of layers whose names and shapes do not tell what they are.

use super::tree::Tree;
use ckpt_api::{Error, Limits, Result, nearest};
use ckpt_engine::pattern::Pattern;
use ckpt_engine::words::quote;

/// The name of the mapping.
pub(super) const FLAX_TO_TORCH: &str = "flax-to-torch";

/// What a layer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A dense layer: of several axes, the last one is the output's unless a bias shows more.
    Dense,
    Conv,
    /// A transposed convolution, as Flax has it without `transpose_kernel`.
    ConvTranspose,
    /// A transposed convolution with `transpose_kernel=True`.
    TransposeKernel,
    /// Scanned layers: the first axis of every tensor below numbers them.
    Scan,
    /// A layer whose tensors keep their axes.
    Keep,
}

impl Kind {
    const ALL: [(&'static str, Kind); 6] = [
        ("dense", Kind::Dense),
        ("conv", Kind::Conv),
        ("conv_transpose", Kind::ConvTranspose),
        ("transpose_kernel", Kind::TransposeKernel),
        ("scan", Kind::Scan),
        ("keep", Kind::Keep),
    ];
}

/// What a user states, of the layers whose paths a pattern matches; the last that matches counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Kinds(Vec<(Pattern, Kind)>);

impl Kinds {
    /// The same, and what layers are whose paths match `pattern`.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for another kind, [`ckpt_api::Kind::Mapping`] for a pattern that is not valid.
    pub(super) fn with(&self, pattern: &str, kind: &str) -> Result<Self> {
        let known = Kind::ALL.iter().find(|(name, _)| *name == kind).map(|(_, kind)| *kind);
        let names = || Kind::ALL.iter().map(|(name, _)| *name);
        let kind = known.ok_or_else(|| {
            Error::usage("no such kind of layer")
                .field(FLAX_TO_TORCH)
                .found(quote(kind))
                .expected(names().collect::<Vec<_>>().join(", "))
                .help(nearest(kind, names()))
        })?;
        let mut kinds = self.clone();
        kinds.0.push((Pattern::selecting(pattern, &Limits::default())?, kind));
        Ok(kinds)
    }

    /// Checks that every pattern matches a module.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for one that matches none.
    pub(super) fn check(&self, tree: &Tree<'_>) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = tree.holders().iter().map(|path| path.join(".")).collect();
        let is_used = |pattern: &Pattern| names.iter().any(|name| pattern.matches(name, '.').is_some());
        match self.0.iter().find(|(pattern, _)| !is_used(pattern)) {
            None => Ok(()),
            Some((pattern, _)) => Err(Error::usage("no layer has the name that the mapping was given")
                .field(FLAX_TO_TORCH)
                .found(quote(&pattern.as_source()))
                .expected("a layer's name without its collection, or a pattern of such names")
                .help("'ckpt inspect' lists the tensors: their names begin with those of the layers")),
        }
    }

    /// What is stated of the module at this path.
    pub(super) fn of(&self, path: &[&str]) -> Option<Kind> {
        if self.0.is_empty() {
            return None;
        }
        let name = path.join(".");
        let mut stated = self.0.iter().rev();
        stated.find(|(pattern, _)| pattern.matches(&name, '.').is_some()).map(|(_, kind)| *kind)
    }
}
