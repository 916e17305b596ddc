//! The numbers of channels that convolutions make.

use super::kernels::Kernel;
use std::collections::{BTreeMap, BTreeSet};

/// The channels of convolutions.
pub(super) struct Convolutions {
    /// Numbers of output channels.
    pub(super) outputs: BTreeSet<u64>,
    /// Of these, the numbers that more convolutions make than take: channels of images that may be pooled.
    pub(super) last: BTreeSet<u64>,
    /// Numbers of input channels that no convolution makes: images', and those of several values concatenated.
    joined: BTreeSet<u64>,
    /// Channels of all images: each kernel's, and what a kernel takes from elsewhere.
    all: Vec<u64>,
}

/// More different lengths than real models have. Beyond, every length counts as possible, so that the work stays
/// bounded.
pub(super) const MANY: usize = 1024;

/// Kernels, and sums of their channels, that are tried for one number.
const SUMS: usize = 128;

impl Convolutions {
    pub(super) fn new(kernels: &[Kernel<'_>]) -> Self {
        let mut balance: BTreeMap<u64, i64> = BTreeMap::new();
        for kernel in kernels {
            *balance.entry(kernel.outputs).or_default() += 1;
            *balance.entry(kernel.inputs).or_default() -= 1;
        }
        let outputs: BTreeSet<u64> = kernels.iter().map(|kernel| kernel.outputs).collect();
        let mut last: BTreeSet<u64> =
            balance.iter().filter(|(_, left)| **left > 0).map(|(len, _)| *len).collect();
        if last.is_empty() {
            last.clone_from(&outputs);
        }
        let inputs: BTreeSet<u64> = kernels.iter().map(|kernel| kernel.inputs).collect();
        let made = kernels.iter().map(|kernel| kernel.outputs);
        let joined: BTreeSet<u64> = inputs.difference(&outputs).copied().collect();
        let all = made.chain(joined.iter().copied()).collect();
        Convolutions { outputs, last, joined, all }
    }

    /// The channels of images with this many elements, if these are images of several channels and pixels: the
    /// likeliest numbers, three at most.
    pub(super) fn channels_of(&self, elements: u64) -> Vec<u64> {
        let fits =
            |channels: &&u64| **channels > 1 && elements > **channels && elements.is_multiple_of(**channels);
        let of = |lens: &BTreeSet<u64>| -> Vec<u64> {
            lens.iter().rev().take(MANY).filter(fits).take(3).copied().collect()
        };
        Some(of(&self.last)).filter(|last| !last.is_empty()).unwrap_or_else(|| of(&self.outputs))
    }

    /// Whether flattened images may have this length.
    pub(super) fn may_flatten_to(&self, elements: u64) -> bool {
        !self.channels_of(elements).is_empty() || self.outputs.len() > MANY
    }

    /// Whether pooled images may have this length because the same number of channels was added again and again, as in
    /// a DenseNet: the last convolution takes all but these, and one before it takes all but these twice.
    pub(super) fn may_grow_to(&self, len: u64) -> bool {
        let is_taken = |len: &u64| self.joined.contains(len);
        let grows = |channels: &u64| {
            let last = len.checked_sub(*channels).filter(is_taken);
            last.and_then(|last| last.checked_sub(*channels)).is_some_and(|before| is_taken(&before))
        };
        self.outputs.iter().take(MANY).any(grows)
    }

    /// Whether images may have this number of channels: those of a kernel, or of several concatenated.
    pub(super) fn may_make(&self, channels: u64) -> bool {
        let mut sums = BTreeSet::from([0]);
        // Of many kernels, some sum is probably the number.
        for (number, own) in self.all.iter().enumerate() {
            if sums.contains(&channels) || sums.len() > SUMS || number > SUMS {
                return true;
            }
            let more = sums.iter().filter_map(|sum| sum.checked_add(*own)).filter(|sum| *sum <= channels);
            sums.extend(more.collect::<Vec<u64>>());
        }
        sums.contains(&channels)
    }
}
