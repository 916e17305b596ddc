//! Presets: architectures in one line, such as `simple:768x32x1,buckets=8`.
//!
//! | family | net | entries |
//! |---|---|---|
//! | `simple` | one hidden layer, as in bullet's `ValueTrainer` examples | i16, rounded, `l1w` transposed |
//! | `builder` | one hidden layer, as `TrainerBuilder` saved it by default from 2024-12-23 on | i16, truncated, `l1w` transposed if there are output buckets |
//! | `multi` | several hidden layers, as in bullet's `4_multi_layer` example | `l0` i16, `l1w` i8, the rest f32; rounded, weights transposed |

use crate::net::description::{
    Activation, Factoriser, FormatTag, InputBuckets, Layer, Net, NetInput, OutputBuckets,
};
use crate::net::entry::{Entry, EntryType, Item};
use crate::net::parameter::{FACTORISER, PSQT, PSQT_FACTORISER};
use ckpt_api::{Error, Result, nearest};
use std::num::NonZeroU32;

/// The syntax of a preset, for messages.
pub(crate) const SYNTAX: &str = "simple:768x32x1,buckets=8 or builder:… or multi:768x32x8x16x1,inputs=4";

const FAMILIES: [&str; 3] = ["simple", "builder", "multi"];

const KEYS: [&str; 10] =
    ["buckets", "inputs", "activation", "pairwise", "factoriser", "psqt", "qa", "qb", "round", "transpose"];

#[derive(Clone, Copy, PartialEq)]
enum Family {
    Simple,
    Builder,
    Multi,
}

/// A parsed preset.
struct Preset {
    family: Family,
    features: u64,
    /// The sizes of the layers.
    sizes: Vec<u64>,
    /// The number of output buckets.
    buckets: Option<u64>,
    /// The number of input buckets.
    inputs: Option<u64>,
    /// The activation of the first layer.
    activation: Activation,
    /// Whether the first layer is pairwise.
    pairwise: bool,
    factoriser: bool,
    psqt: bool,
    /// The scale of the first layer.
    qa: NonZeroU32,
    /// The scale of the other layers.
    qb: NonZeroU32,
    round: bool,
    transpose: bool,
}

/// Parses the option `arch`.
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
                return Err(Error::usage("unknown preset").help(nearest(other, FAMILIES.into_iter())));
            }
        };
        let mut words = rest.split(',');
        let sizes = words.next().unwrap_or_default().split('x').map(number).collect::<Result<Vec<u64>>>()?;
        let (features, sizes) = match sizes.split_first() {
            Some((features, sizes)) if family.has_layers(sizes.len()) => (*features, sizes.to_vec()),
            _ => return Err(Error::usage("the preset has a wrong number of sizes")),
        };
        let mut preset = Preset::new(family, features, sizes);
        for word in words {
            preset.set(word)?;
        }
        Ok(preset)
    }

    /// A preset with the defaults of its family.
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
            _ => return Err(Error::usage("a preset has no such key").help(nearest(key, KEYS.into_iter()))),
        }
        Ok(())
    }

    fn into_net(self) -> Net {
        let buckets = self.buckets.filter(|count| *count != 1);
        Net {
            format: FormatTag::Bullet,
            name: String::new(),
            input: NetInput {
                features: self.features,
                buckets: self.inputs.map(|count| InputBuckets { count, layout: Vec::new(), mirrored: false }),
                factoriser: match (self.factoriser, self.family) {
                    (false, _) => Factoriser::None,
                    (true, Family::Builder) => Factoriser::Columns,
                    (true, Family::Simple | Family::Multi) => Factoriser::Own,
                },
                perspectives: 2,
            },
            layers: self.layers(),
            output_buckets: buckets.map(|count| OutputBuckets { count, kind: Default::default() }),
            psqt: self.psqt,
            tensors: Vec::new(),
            eval_scale: NonZeroU32::new(400),
            saved: self.saved().into_iter().map(Item::Weight).collect(),
            engine: None,
        }
    }

    fn layers(&self) -> Vec<Layer> {
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
        self.sizes.iter().enumerate().map(layer).collect()
    }

    fn saved(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        if self.psqt {
            let is_merged = self.factoriser && self.family == Family::Builder;
            let merge = is_merged.then(|| PSQT_FACTORISER.to_owned());
            entries.push(Entry { merge, ..Entry::floats(PSQT.to_owned()) });
        }
        // The scale of a layer's biases is the product of the scales so far.
        let mut product = Some(NonZeroU32::MIN);
        for index in 0..self.sizes.len() {
            let scale = if index == 0 { self.qa } else { self.qb };
            product = product.and_then(|product| product.checked_mul(scale));
            let (weight, bias) = match (self.family, index) {
                (Family::Simple | Family::Builder, _) => {
                    (Some((EntryType::I16, scale)), product.map(|scale| (EntryType::I16, scale)))
                }
                (Family::Multi, 0) => (Some((EntryType::I16, scale)), Some((EntryType::I16, scale))),
                (Family::Multi, 1) => (Some((EntryType::I8, scale)), None),
                (Family::Multi, _) => (None, None),
            };
            let transposes = self.family != Family::Builder || self.buckets.is_some_and(|count| count > 1);
            entries.push(Entry {
                transpose: index > 0 && self.transpose && transposes,
                merge: (index == 0 && self.factoriser).then(|| FACTORISER.to_owned()),
                ..self.entry(format!("l{index}w"), weight)
            });
            entries.push(self.entry(format!("l{index}b"), bias));
        }
        entries
    }

    /// An entry of integers with this type and scale, or of floats.
    fn entry(&self, id: String, integers: Option<(EntryType, NonZeroU32)>) -> Entry {
        Entry {
            kind: integers.map_or(EntryType::F32, |(kind, _)| kind),
            scale: integers.map(|(_, scale)| scale),
            round: self.round && integers.is_some(),
            ..Entry::floats(id)
        }
    }
}

impl Family {
    /// Whether nets of the family can have this many layers.
    fn has_layers(self, layers: usize) -> bool {
        match self {
            Family::Simple | Family::Builder => layers == 2,
            Family::Multi => (3..=16).contains(&layers),
        }
    }
}

fn number(text: &str) -> Result<u64> {
    text.parse().map_err(|_| is_not(text, "a number"))
}

fn scale(text: &str) -> Result<NonZeroU32> {
    text.parse().map_err(|_| is_not(text, "a positive number"))
}

fn flag(text: &str) -> Result<bool> {
    text.parse().map_err(|_| is_not(text, "true or false"))
}

fn activation(text: &str) -> Result<Activation> {
    match text {
        "identity" => Ok(Activation::Identity),
        "relu" => Ok(Activation::Relu),
        "crelu" => Ok(Activation::Crelu),
        "screlu" => Ok(Activation::Screlu),
        "sqrrelu" => Ok(Activation::Sqrrelu),
        _ => Err(is_not(text, "identity, relu, crelu, screlu or sqrrelu")),
    }
}

fn is_not(text: &str, expected: &str) -> Error {
    Error::usage(format!("'{text}' is not {expected}"))
}
