//! Proposes presets for a net of which only ids and counts are known.

use crate::net::architecture::Architecture;
use crate::net::parameter::{FACTORISER, FEATURE_WEIGHTS};
use crate::preset;
use ckpt_api::{MissingGraph, Role, Setting, Tensor, Text, text};
use std::collections::HashMap;

/// Features of a chess board as bullet counts them.
const CHESS: u64 = 768;

/// The most layers of a preset.
const MAX_LAYERS: usize = 16;

/// Returns what is unknown without an architecture.
pub(super) fn missing_graph() -> MissingGraph {
    MissingGraph {
        reason: "the files have neither shapes nor activations, so tensors are lists of numbers".into(),
        is_unstated: true,
        help: Some(text![
            "give an architecture, with ",
            Setting::ARCHITECTURE,
            " or ",
            Setting::READ_OPTION.of("arch=PRESET")
        ]),
    }
}

/// Returns a note about the presets that fit.
pub(super) fn propose(tensors: &[Tensor]) -> Vec<Text> {
    let weights = tensors.iter().filter(|tensor| tensor.role == Role::Weight);
    let counts = Counts(weights.map(|tensor| (tensor.name.as_str(), tensor.shape.elements())).collect());
    let mut notes = Vec::new();
    let found: Vec<String> = counts.candidates().into_iter().filter(|text| counts.fit(text)).collect();
    if let Some((first, others)) = found.split_first() {
        let others = match others {
            [] => String::new(),
            others => format!(" (or arch={})", others.join(", arch=")),
        };
        notes.push(text![
            "ids and counts fit ",
            Setting::READ_OPTION.of(&format!("arch={first}")),
            format!(
                "{others}; they do not tell the activations, the types, scales and transposition in \
                 quantised.bin, output buckets from outputs, or a factoriser in the first columns from an \
                 input bucket"
            ),
        ]);
    }
    notes
}

/// The number of elements of each weight.
struct Counts<'a>(HashMap<&'a str, u64>);

impl Counts<'_> {
    fn of(&self, id: &str) -> Option<u64> {
        self.0.get(id).copied()
    }

    /// Whether the weights of a preset are these.
    fn fit(&self, preset: &str) -> bool {
        preset::parse(preset).and_then(Architecture::new).is_ok_and(|net| {
            self.0.len() == net.all_stored().count()
                && net.all_stored().all(|stored| self.of(stored.id) == stored.elements())
        })
    }

    /// Presets that may fit.
    fn candidates(&self) -> Vec<String> {
        let Some((width, all)) = self.of("l0b").zip(self.of(FEATURE_WEIGHTS)) else { return Vec::new() };
        let biases: Vec<u64> = (1..MAX_LAYERS).map_while(|layer| self.of(&format!("l{layer}b"))).collect();
        // The last layer has one output.
        let Some(buckets) = biases.last().copied().filter(|buckets| *buckets > 0 && width > 0) else {
            return Vec::new();
        };
        let columns = all / width;
        let factoriser = self.of(FACTORISER).map(|elements| elements / width);
        let features = match factoriser {
            Some(features) => features,
            None if columns > CHESS && columns.is_multiple_of(CHESS) => CHESS,
            None => columns,
        };
        // How many sets of the features' columns the first layer has.
        let sets = columns.checked_div(features).unwrap_or(0);
        let sizes: Vec<String> =
            biases.iter().map(|bias| bias / buckets).map(|size| format!("x{size}")).collect();
        let sizes = format!("{features}x{width}{}", sizes.concat());
        let outputs = if buckets > 1 { format!(",buckets={buckets}") } else { String::new() };
        let inputs = if sets > 1 { format!(",inputs={sets}") } else { String::new() };
        let own = if factoriser.is_some() { ",factoriser=true" } else { "" };
        let keys = format!("{sizes}{outputs}{inputs}{own}");
        if biases.len() > 1 {
            return vec![format!("multi:{keys}"), format!("multi:{keys},pairwise=false")];
        }
        let mut found =
            vec![format!("simple:{keys}"), format!("builder:{keys}"), format!("simple:{keys},pairwise=true")];
        if factoriser.is_none() && sets > 1 {
            // The first set may be a factoriser's.
            let inputs = sets - 1;
            found.push(format!("builder:{sizes}{outputs},inputs={inputs},factoriser=true"));
        }
        found
    }
}
