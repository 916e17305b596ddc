//! What a target cannot carry, as typed values.

use crate::{Role, Text};
use serde::{Deserialize, Serialize};

/// One thing that the target will not carry as the source has it. Nothing is lost without one of these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// What sort of loss; `--allow` takes its name.
    pub kind: LossKind,
    /// The tensor, layer or metadata key.
    pub subject: String,
    /// What happens to it and why, in one sentence.
    pub detail: Text,
}

impl Loss {
    /// A loss of `kind` that concerns `subject`.
    pub fn new(kind: LossKind, subject: impl Into<String>, detail: impl Into<Text>) -> Self {
        Loss { kind, subject: subject.into(), detail: detail.into() }
    }
}

macro_rules! loss_kinds {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $changes:literal;)*) => {
        /// What sort of loss.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum LossKind { $($(#[$doc])* #[serde(rename = $name)] $variant,)* }

        impl LossKind {
            /// Every kind, in the order of summaries: what cannot be loaded first, then those that change the function.
            pub const ALL: &'static [LossKind] = &[$(LossKind::$variant,)*];

            /// The name that `--allow` takes.
            pub const fn name(self) -> &'static str {
                match self { $(LossKind::$variant => $name,)* }
            }

            /// Whether what the model computes may change: such a loss stops the conversion unless it is allowed by
            /// name.
            pub const fn changes_function(self) -> bool {
                match self { $(LossKind::$variant => $changes,)* }
            }
        }
    };
}

loss_kinds! {
    /// What the framework of the target needs to load the file, and the file lacks.
    Unloadable = "unloadable", false;
    /// A weight that the target does not store.
    WeightDropped = "weight-dropped", true;
    /// A part of a model, whose other parts are not there.
    Partial = "partial", true;
    /// Values stored with less precision or range.
    Narrowed = "narrowed", true;
    /// Real numbers stored as scaled integers.
    Quantized = "quantized", true;
    /// Values outside a bound stored as that bound.
    Clipped = "clipped", true;
    /// The scale of integers, without which they stand for other numbers.
    ScaleDropped = "scale-dropped", true;
    /// A layer that the target cannot describe.
    LayerDropped = "layer-dropped", true;
    /// Values that the target's readers take in another order than the source's, such as flattened images.
    Convention = "convention", true;
    /// Values stored in another dtype that holds every one of them exactly.
    Retyped = "retyped", false;
    /// Numbers that a step computes, rounded to the nearest 32-bit float.
    Rounded = "rounded", false;
    /// Values that were stored in blocks, stored as the numbers that they stand for.
    Dequantized = "dequantized", false;
    /// A tensor that the target needs and the source has not, filled with neutral values.
    Filled = "filled", false;
    /// The same values stored a second time, kept once.
    DuplicateDropped = "duplicate-dropped", false;
    /// A tensor added to another, which computes the same, and no longer there by itself.
    Merged = "merged", false;
    /// Tensors that share their bytes in the source, stored apart.
    Untied = "untied", false;
    /// An optimizer's slots and hyper-parameters.
    OptimizerDropped = "optimizer-dropped", false;
    /// Step, epoch and save counters.
    CounterDropped = "counter-dropped", false;
    /// The source format's own bookkeeping.
    BookkeepingDropped = "bookkeeping-dropped", false;
    /// The graph is not stored; the tensors are all there.
    GraphDropped = "graph-dropped", false;
    /// Names of layers or tensors.
    NamesDropped = "names-dropped", false;
    /// Training history and other metadata.
    MetadataDropped = "metadata-dropped", false;
}

impl LossKind {
    /// The kind with this [`name`](LossKind::name).
    pub fn from_name(name: &str) -> Option<LossKind> {
        // The spelling of the first version.
        let name = if name == "quantised" { "quantized" } else { name };
        LossKind::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// The kind of loss it is to drop a tensor of this role.
    pub fn of_dropping(role: Role) -> LossKind {
        match role {
            Role::Weight => LossKind::WeightDropped,
            Role::Optimizer => LossKind::OptimizerDropped,
            Role::Counter => LossKind::CounterDropped,
            Role::Bookkeeping => LossKind::BookkeepingDropped,
            Role::Duplicate => LossKind::DuplicateDropped,
        }
    }
}
