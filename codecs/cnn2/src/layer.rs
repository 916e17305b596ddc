//! The sizes of a layer, the wiring that they imply, and the rules that they must keep.

/// The number of static features: R, G, B, D, UV_X, UV_Y, sin(10·UV_X), 1.0.
pub(crate) const STATIC: u64 = 8;
/// The static feature that is always 1.0.
const CONSTANT: u64 = 7;
/// The most features that the first layer takes in addition to the static ones.
const MAX_EXTRA: u64 = 7;
const MAX_OUTPUTS: u64 = 8;

/// The sizes of a layer, whose weight is `[outputs, inputs, kernel, kernel]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LayerShape {
    pub(crate) kernel: u64,
    pub(crate) inputs: u64,
    pub(crate) outputs: u64,
}

/// The inputs of a layer, in the order of its channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wiring {
    /// The static features, followed by `extra` others: the first layer.
    Static { extra: u64 },
    /// The output of the layer before.
    Previous,
    /// The output of the layer before, followed by the static features.
    PreviousAndStatic,
}

/// A rule of the format that a layer breaks.
pub(crate) struct Breach {
    pub(crate) rule: &'static str,
    pub(crate) field: &'static str,
    pub(crate) found: String,
    pub(crate) expected: String,
    /// Whether not even the tensor is usable.
    pub(crate) is_fatal: bool,
}

impl LayerShape {
    pub(crate) fn dims(&self) -> [u64; 4] {
        [self.outputs, self.inputs, self.kernel, self.kernel]
    }

    /// Returns `outputs · inputs · kernel²`; `None` if it exceeds 64 bits.
    pub(crate) fn weights(&self) -> Option<u64> {
        self.dims().iter().try_fold(1u64, |product, dim| product.checked_mul(*dim))
    }

    /// Returns the wiring that the number of input channels implies. `previous` is the number of channels that the
    /// layer before outputs.
    pub(crate) fn wiring(&self, previous: Option<u64>) -> Option<Wiring> {
        let Some(previous) = previous else {
            let extra = self.inputs.checked_sub(STATIC)?;
            return (extra <= MAX_EXTRA).then_some(Wiring::Static { extra });
        };
        match self.inputs.checked_sub(previous)? {
            0 => Some(Wiring::Previous),
            STATIC => Some(Wiring::PreviousAndStatic),
            _ => None,
        }
    }

    /// Returns the input channel that is always 1.0, so that its center tap acts as the bias.
    pub(crate) fn constant_channel(&self, previous: Option<u64>) -> Option<u64> {
        match self.wiring(previous)? {
            Wiring::Static { .. } => Some(CONSTANT),
            Wiring::Previous => None,
            Wiring::PreviousAndStatic => previous?.checked_add(CONSTANT),
        }
    }

    /// Returns the rules that the layer breaks, fatal ones first.
    pub(crate) fn breaches(&self, previous: Option<u64>) -> Vec<Breach> {
        let breach = |is_fatal, rule, field, found: u64, expected: &str| Breach {
            rule,
            field,
            found: found.to_string(),
            expected: expected.to_owned(),
            is_fatal,
        };
        let mut breaches = Vec::new();
        if self.kernel == 0 {
            breaches.push(breach(true, "the kernel is empty", "kernel_size", 0, "1, 3, 5, …"));
        }
        if self.inputs == 0 {
            breaches.push(breach(true, "the layer has no input channels", "in_channels", 0, "at least 1"));
        }
        if !(1..=MAX_OUTPUTS).contains(&self.outputs) {
            let rule = "the number of output channels is out of range";
            breaches.push(breach(true, rule, "out_channels", self.outputs, "1 to 8"));
        }
        if self.kernel.is_multiple_of(2) {
            let rule = "the kernel has no center";
            breaches.push(breach(false, rule, "kernel_size", self.kernel, "an odd number"));
        }
        if self.wiring(previous).is_none() {
            let (rule, expected) = wiring_rule(previous);
            breaches.push(breach(false, rule, "in_channels", self.inputs, &expected));
        }
        breaches
    }
}

/// The rule for the number of input channels, and the numbers that keep it.
fn wiring_rule(previous: Option<u64>) -> (&'static str, String) {
    match previous {
        None => {
            ("the first layer's input channels do not begin with the static features", "8 to 15".to_owned())
        }
        Some(previous) => (
            "the layer's input channels do not match the layer before",
            format!(
                "{previous} (its output) or {} (with the static features)",
                previous.saturating_add(STATIC)
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_imply_the_wiring() {
        let wiring = |inputs, previous| LayerShape { kernel: 3, inputs, outputs: 4 }.wiring(previous);
        assert_eq!(wiring(7, None), None);
        assert_eq!(wiring(8, None), Some(Wiring::Static { extra: 0 }));
        assert_eq!(wiring(15, None), Some(Wiring::Static { extra: 7 }));
        assert_eq!(wiring(16, None), None);
        assert_eq!(wiring(3, Some(4)), None);
        assert_eq!(wiring(4, Some(4)), Some(Wiring::Previous));
        assert_eq!(wiring(12, Some(4)), Some(Wiring::PreviousAndStatic));
        assert_eq!(wiring(11, Some(4)), None);
    }

    #[test]
    fn the_bias_is_the_last_static_feature() {
        let constant =
            |inputs, previous| LayerShape { kernel: 3, inputs, outputs: 4 }.constant_channel(previous);
        assert_eq!(constant(15, None), Some(7));
        assert_eq!(constant(12, Some(4)), Some(11));
        assert_eq!(constant(4, Some(4)), None);
    }

    #[test]
    fn a_number_of_weights_beyond_64_bits_is_none() {
        let most = u64::from(u32::MAX);
        assert_eq!(LayerShape { kernel: most, inputs: most, outputs: most }.weights(), None);
        assert_eq!(LayerShape { kernel: 3, inputs: 15, outputs: 8 }.weights(), Some(1080));
    }
}
