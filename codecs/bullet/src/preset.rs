//! Architectures in a few words: `simple:768x32x1,buckets=8`.
//!
//! | family | net | saved |
//! |---|---|---|
//! | `simple` | one hidden layer, as bullet's `ValueTrainer` examples | i16, rounded, `l1w` transposed |
//! | `builder` | one hidden layer, as `TrainerBuilder` made by default from 2024-12-23 on | i16, truncated, `l1w` transposed where there are output buckets |
//! | `multi` | several hidden layers, as bullet's `4_multi_layer` example | `l0` i16, `l1w` i8, the rest f32; rounded, weights transposed |

use crate::architecture::{
    Activation, Entry, EntryType, Factoriser, Format, Input, InputBuckets, Layer, Net, OutputBuckets, invalid,
};
use crate::parameter::{FACTORISER, PSQT, PSQT_FACTORISER};
use ckpt_api::{Error, Result, nearest};
use std::num::NonZeroU32;

/// What the option `arch` takes, for help.
pub(crate) const SYNTAX: &str = "simple:768x32x1,buckets=8 or builder:… or multi:768x32x8x16x1,inputs=4";

const KEYS: [&str; 10] =
    ["buckets", "inputs", "activation", "pairwise", "factoriser", "psqt", "qa", "qb", "round", "transpose"];

#[derive(Clone, Copy, PartialEq)]
enum Family {
    Simple,
    Builder,
    Multi,
}

/// Everything that a preset says.
struct Preset {
    family: Family,
    features: u64,
    sizes: Vec<u64>,
    buckets: Option<u64>,
    inputs: Option<u64>,
    activation: Activation,
    pairwise: bool,
    factoriser: bool,
    psqt: bool,
    qa: NonZeroU32,
    qb: NonZeroU32,
    round: bool,
    transpose: bool,
}

/// Parses what the option `arch` says.
pub(crate) fn parse(text: &str) -> Result<Net> {
    Preset::parse(text)
        .map(Preset::into_net)
        .map_err(|error| error.field("arch").found(format!("'{text}'")).expected(SYNTAX))
}

impl Preset {
    fn parse(text: &str) -> Result<Self> {
        let (family, rest) = text.split_once(':').unwrap_or((text, ""));
        let family = match family {
            "simple" => Family::Simple,
            "builder" => Family::Builder,
            "multi" => Family::Multi,
            other => {
                let known = ["simple", "builder", "multi"];
                return Err(invalid("no such preset").help(nearest(other, known.into_iter())));
            }
        };
        let mut words = rest.split(',');
        let sizes = words.next().unwrap_or_default().split('x').map(number).collect::<Result<Vec<u64>>>()?;
        let (features, sizes) = match sizes.split_first() {
            Some((features, sizes)) if fits(family, sizes.len()) => (*features, sizes.to_vec()),
            _ => return Err(invalid("the preset has a wrong number of sizes")),
        };
        let mut preset = Preset::new(family, features, sizes);
        for word in words {
            preset.set(word)?;
        }
        Ok(preset)
    }

    /// The family's defaults.
    fn new(family: Family, features: u64, sizes: Vec<u64>) -> Self {
        let scale = |scale: u32| NonZeroU32::new(scale).unwrap_or(NonZeroU32::MIN);
        Preset {
            family,
            features,
            sizes,
            buckets: None,
            inputs: None,
            activation: if family == Family::Multi { Activation::Crelu } else { Activation::Screlu },
            pairwise: family == Family::Multi,
            factoriser: false,
            psqt: false,
            qa: scale(255),
            qb: scale(64),
            round: family != Family::Builder,
            transpose: true,
        }
    }

    fn set(&mut self, word: &str) -> Result<()> {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match key {
            "buckets" => self.buckets = Some(number(value)?),
            "inputs" => self.inputs = Some(number(value)?),
            "pairwise" => self.pairwise = flag(value)?,
            "factoriser" => self.factoriser = flag(value)?,
            "psqt" => self.psqt = flag(value)?,
            "round" => self.round = flag(value)?,
            "transpose" => self.transpose = flag(value)?,
            "qa" => self.qa = scale(value)?,
            "qb" => self.qb = scale(value)?,
            "activation" => self.activation = activation(value)?,
            _ => return Err(invalid("a preset has no such key").help(nearest(key, KEYS.into_iter()))),
        }
        Ok(())
    }

    fn into_net(self) -> Net {
        let saved = self.saved();
        let last = self.sizes.len().saturating_sub(1);
        let layer = |(index, size): (usize, &u64)| Layer {
            size: *size,
            activation: match index {
                index if index == last => Activation::Identity,
                0 => self.activation,
                _ => Activation::Screlu,
            },
            pairwise: index == 0 && self.pairwise,
            dual: false,
            bucketed: None,
        };
        Net {
            format: Format::Bullet,
            name: String::new(),
            input: Input {
                features: self.features,
                buckets: self.inputs.map(|count| InputBuckets { count, layout: Vec::new(), mirrored: false }),
                factoriser: match (self.factoriser, self.family) {
                    (false, _) => Factoriser::None,
                    (true, Family::Builder) => Factoriser::Columns,
                    (true, _) => Factoriser::Own,
                },
                perspectives: 2,
            },
            layers: self.sizes.iter().enumerate().map(layer).collect(),
            output_buckets: self
                .buckets
                .filter(|count| *count != 1)
                .map(|count| OutputBuckets { count, kind: Default::default() }),
            psqt: self.psqt,
            tensors: Vec::new(),
            eval_scale: NonZeroU32::new(400),
            saved,
            engine: None,
        }
    }

    fn saved(&self) -> Vec<Entry> {
        let mut product = Some(NonZeroU32::MIN);
        let mut entries = Vec::new();
        if self.psqt {
            let merge =
                (self.factoriser && self.family == Family::Builder).then(|| PSQT_FACTORISER.to_owned());
            entries.push(Entry { merge, ..Entry::floats(PSQT.to_owned()) });
        }
        for index in 0..self.sizes.len() {
            let scale = if index == 0 { self.qa } else { self.qb };
            let many = self.family != Family::Multi;
            product = product.and_then(|product| product.checked_mul(scale));
            let (weight, bias) = match (many, index) {
                (true, _) => (Some((EntryType::I16, scale)), product.map(|scale| (EntryType::I16, scale))),
                (false, 0) => (Some((EntryType::I16, scale)), Some((EntryType::I16, scale))),
                (false, 1) => (Some((EntryType::I8, scale)), None),
                (false, _) => (None, None),
            };
            let buckets = self.family != Family::Builder || self.buckets.is_some_and(|count| count > 1);
            let entry = |id: String, stored: Option<(EntryType, NonZeroU32)>| Entry {
                kind: stored.map_or(EntryType::F32, |(kind, _)| kind),
                scale: stored.map(|(_, scale)| scale),
                round: self.round && stored.is_some(),
                ..Entry::floats(id)
            };
            entries.push(Entry {
                transpose: index > 0 && self.transpose && buckets,
                merge: (index == 0 && self.factoriser).then(|| FACTORISER.to_owned()),
                ..entry(format!("l{index}w"), weight)
            });
            entries.push(entry(format!("l{index}b"), bias));
        }
        entries
    }
}

fn fits(family: Family, layers: usize) -> bool {
    match family {
        Family::Simple | Family::Builder => layers == 2,
        Family::Multi => (3..=16).contains(&layers),
    }
}

fn number(text: &str) -> Result<u64> {
    text.parse().map_err(|_| not(text, "a number"))
}

fn scale(text: &str) -> Result<NonZeroU32> {
    text.parse().map_err(|_| not(text, "a positive number"))
}

fn flag(text: &str) -> Result<bool> {
    text.parse().map_err(|_| not(text, "true or false"))
}

fn activation(text: &str) -> Result<Activation> {
    match text {
        "identity" => Ok(Activation::Identity),
        "relu" => Ok(Activation::Relu),
        "crelu" => Ok(Activation::Crelu),
        "screlu" => Ok(Activation::Screlu),
        "sqrrelu" => Ok(Activation::Sqrrelu),
        _ => Err(not(text, "identity, relu, crelu, screlu or sqrrelu")),
    }
}

fn not(text: &str, expected: &str) -> Error {
    invalid(&format!("'{text}' is not {expected}"))
}
