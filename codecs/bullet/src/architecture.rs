//! The architecture file: what bullet's files do not say about themselves.
//!
//! Its JSON Schema is `schemas/bullet.schema.json`. Parsing it checks everything, so that nothing later has to:
//! ids are unique and known, sizes are positive and cannot overflow, layers fit each other.

use crate::engine::{self, Engine};
use crate::format::Part;
use crate::parameter::{Parameter, Stored, parameters};
use crate::preset;
use ckpt_api::{ArchitectureFile, Checkpoint, DType, Error, Options, Result, Rounding, Scaling};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::num::NonZeroU32;

/// What errors call an engine's members.
const ENGINE: &str = "engine.members";

/// What a factoriser is that lies in the first columns of others.
const COLUMNS: &str = "columns";

/// Longest list that an architecture file may have.
const MOST: usize = 256;

/// A net, its parameters, and how they are saved.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Architecture {
    pub(crate) net: Net,
    /// Every weight that is trained, in the order of the layers.
    pub(crate) parameters: Vec<Parameter>,
}

/// The architecture file as it is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Net {
    pub(crate) format: Format,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    pub(crate) input: Input,
    pub(crate) layers: Vec<Layer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output_buckets: Option<OutputBuckets>,
    /// Whether inputs are summed into the output by weights `pst`, too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) psqt: bool,
    /// Weights that the layers do not explain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tensors: Vec<Matrix>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) eval_scale: Option<NonZeroU32>,
    /// The entries of raw.bin and quantised.bin, in their order.
    pub(crate) saved: Vec<Entry>,
    /// The file that an engine reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) engine: Option<Engine>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Format {
    #[serde(rename = "bullet")]
    Bullet,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Features of one bucket.
    pub(crate) features: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) buckets: Option<InputBuckets>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) factoriser: Factoriser,
    /// How many sides' accumulators the first layer's output consists of: 2, or 1.
    #[serde(default = "two", skip_serializing_if = "is_two")]
    pub(crate) perspectives: u64,
}

/// Where the weights lie that are added to those of every bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "serde_json::Value", into = "serde_json::Value")]
pub(crate) enum Factoriser {
    /// There are none.
    #[default]
    None,
    /// In a tensor of their own, `l0f`.
    Own,
    /// In the first columns of `l0w`, and of `pst`, as `TrainerBuilder` had it.
    Columns,
}

impl TryFrom<serde_json::Value> for Factoriser {
    type Error = &'static str;

    fn try_from(value: serde_json::Value) -> std::result::Result<Self, Self::Error> {
        match value {
            serde_json::Value::Bool(false) => Ok(Factoriser::None),
            serde_json::Value::Bool(true) => Ok(Factoriser::Own),
            serde_json::Value::String(text) if text == COLUMNS => Ok(Factoriser::Columns),
            _ => Err("a factoriser is true, false or \"columns\""),
        }
    }
}

impl From<Factoriser> for serde_json::Value {
    fn from(factoriser: Factoriser) -> Self {
        match factoriser {
            Factoriser::None => false.into(),
            Factoriser::Own => true.into(),
            Factoriser::Columns => COLUMNS.into(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InputBuckets {
    pub(crate) count: u64,
    /// The bucket of each king square: 64, or 32 where mirrored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) layout: Vec<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) mirrored: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Layer {
    pub(crate) size: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) activation: Activation,
    /// The product of the two halves follows the activation; of each perspective's, for the first layer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) pairwise: bool,
    /// `x` and `x²` one behind the other come before the activation, which is CReLU.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) dual: bool,
    /// Whether each output bucket has its own; of the first layer, its own biases. Unless said, all but the first have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bucketed: Option<bool>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Activation {
    #[default]
    Identity,
    Relu,
    Crelu,
    Screlu,
    Sqrrelu,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OutputBuckets {
    pub(crate) count: u64,
    #[serde(default)]
    pub(crate) kind: OutputBucketKind,
}

/// What chooses the bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OutputBucketKind {
    /// `(pieces − 2) / ⌈32 / count⌉`.
    #[default]
    MaterialCount,
    /// Something else.
    Other,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Matrix {
    pub(crate) id: String,
    pub(crate) rows: u64,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub(crate) columns: u64,
}

/// One entry of raw.bin and quantised.bin, or of an engine's file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    pub(crate) id: String,
    #[serde(default, rename = "type")]
    pub(crate) kind: EntryType,
    /// Integer units per 1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scale: Option<NonZeroU32>,
    /// Rounded to the nearest integer; else truncated.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) round: bool,
    /// Row-major in quantised.bin; else column-major, as in raw.bin.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) transpose: bool,
    /// The weights that are added to these in quantised.bin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) merge: Option<String>,
    /// What is merged is rounded by itself, as some engines do: `round(a·s) + round(f·s)`; else `round((a+f)·s)`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) round_terms: bool,
    /// The engine's order; see [`crate::layout::Layout`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) layout: Vec<String>,
    /// Numbers further from 0 are stored as this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) clip: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EntryType {
    #[default]
    F32,
    I8,
    I16,
    I32,
}

impl EntryType {
    pub(crate) fn dtype(self) -> DType {
        match self {
            EntryType::F32 => DType::F32,
            EntryType::I8 => DType::I8,
            EntryType::I16 => DType::I16,
            EntryType::I32 => DType::I32,
        }
    }
}

impl Entry {
    /// An entry of numbers as they are.
    pub(crate) fn floats(id: String) -> Self {
        Entry {
            id,
            kind: EntryType::F32,
            scale: None,
            round: false,
            transpose: false,
            merge: None,
            round_terms: false,
            layout: Vec::new(),
            clip: None,
        }
    }

    /// How its numbers become integers; `None` where they stay numbers.
    pub(crate) fn scaling(&self) -> Option<Scaling> {
        let rounding = if self.round { Rounding::Nearest } else { Rounding::Truncate };
        let scaling = |scale| Scaling { scale, rounding, limit: self.limit(), each_term: self.round_terms };
        self.scale.map(scaling)
    }

    /// The units that the bound to clip at becomes; `None` where there is none, or it is not usable.
    pub(crate) fn limit(&self) -> Option<NonZeroU32> {
        // Clipping comes first, but neither scaling nor rounding changes which number is the larger.
        let units = self.clip? * f64::from(self.scale?.get());
        let units = if self.round { units.round() } else { units.trunc() };
        // Exact: a whole number within the range.
        (units >= 1.0 && units <= f64::from(u32::MAX)).then_some(units as u32).and_then(NonZeroU32::new)
    }
}

impl Architecture {
    /// The architecture that the user gives: a file, or a preset.
    pub(crate) fn given(options: &Options) -> Result<Option<Self>> {
        match (options.architecture(), options.text("arch")) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Err(Error::usage("an architecture file and a preset are given")
                .field("arch")
                .help("give --arch or the option arch, not both")),
            (None, Some(preset)) => preset::parse(preset).and_then(Self::new).map(Some),
            (Some(file), None) => Self::of(file).map(Some),
        }
    }

    /// What an architecture file describes.
    pub(crate) fn of(file: &ArchitectureFile) -> Result<Self> {
        let architecture = file.parse().and_then(Self::new);
        architecture.map_err(|error| match &file.name {
            Some(name) => error.file(name),
            None => error,
        })
    }

    /// As a file that describes it.
    pub(crate) fn file(&self) -> Result<ArchitectureFile> {
        let document = serde_json::to_value(&self.net);
        let document = document.map_err(|error| Error::unsupported(error.to_string()))?;
        Ok(ArchitectureFile { name: None, document })
    }

    /// The architecture with the engine's file that the user names.
    pub(crate) fn with_profile(architecture: Option<Self>, options: &Options) -> Result<Option<Self>> {
        let Some(name) = options.text("profile") else { return Ok(architecture) };
        let field = |error: Error| error.field("profile").found(format!("'{name}'"));
        let engine = engine::profile(name)?;
        let Some(Architecture { mut net, .. }) = architecture else {
            return Err(field(
                invalid("a profile says how a net is stored, and not which net it is")
                    .help("give the net's architecture, too"),
            ));
        };
        net.engine = Some(engine);
        Self::new(net).map(Some)
    }

    /// The one that reading left in the checkpoint's metadata.
    pub(crate) fn kept(checkpoint: &Checkpoint) -> Option<Self> {
        let document = checkpoint.metadata.value(crate::format::ID, crate::format::KEY_ARCHITECTURE)?;
        Self::new(Net::deserialize(document).ok()?).ok()
    }

    /// Checks a net.
    pub(crate) fn new(net: Net) -> Result<Self> {
        check_sizes(&net)?;
        let parameters = parameters(&net)?;
        let mut ids = BTreeSet::new();
        for Parameter { id, .. } in &parameters {
            let wrong = |what| invalid(what).field("tensors").found(format!("'{}'", id.escape_debug()));
            if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(wrong("a tensor's id is not usable").expected("printable ASCII without spaces"));
            }
            if !ids.insert(id) {
                return Err(wrong("two tensors have one id")
                    .help("the layers name theirs l0w, l0b, l1w …: give those under tensors other ids"));
            }
        }
        let architecture = Architecture { net, parameters };
        architecture.check_entries("saved", &architecture.net.saved)?;
        if let Some(engine) = &architecture.net.engine {
            architecture.check_entries(ENGINE, &engine.members)?;
        }
        Ok(architecture)
    }

    fn check_entries(&self, list: &str, entries: &[Entry]) -> Result<()> {
        let mut seen = BTreeSet::new();
        for (index, entry) in entries.iter().enumerate() {
            let field = |error: Error| error.field(format!("{list}[{index}]")).tensor(&entry.id);
            let parameter = self.parameter(&entry.id).map_err(field)?;
            entry.check_engine(list == ENGINE, parameter).map_err(field)?;
            if !seen.insert(&entry.id) {
                return Err(field(invalid("a tensor is saved twice")));
            }
            match (entry.kind, entry.scale) {
                (EntryType::F32, Some(_)) => {
                    return Err(field(invalid("an entry of type f32 has a scale")));
                }
                (EntryType::I8 | EntryType::I16 | EntryType::I32, None) => {
                    return Err(field(invalid("an entry of integers has no scale")));
                }
                _ => {}
            }
            let small = matches!(entry.kind, EntryType::I8 | EntryType::I16);
            if entry.round_terms && (entry.merge.is_none() || !small) {
                return Err(field(
                    invalid("terms are rounded each by itself, and there are none, or no integers of 8 or 16 bits")
                        .help("round_terms is for an entry of type i8 or i16 with merge"),
                ));
            }
            let Some(merged) = &entry.merge else {
                if list != ENGINE && self.stored(&entry.id).map_err(field)?.is_several() && entry.transpose {
                    return Err(field(
                        invalid("a tensor that begins with the factoriser's columns is transposed")
                            .help("merge them: bullet transposes none that does not"),
                    ));
                }
                continue;
            };
            let added = self.parameter(merged).map_err(field)?;
            if merged == &entry.id || parameter.along(added).is_none() {
                return Err(field(invalid("the tensor that is merged does not fit"))
                    .found(format!("'{merged}' of {}", added.describe()))
                    .expected(format!("axes and lengths of {}", parameter.describe())));
            }
        }
        Ok(())
    }

    /// The parameter with this id.
    pub(crate) fn parameter(&self, id: &str) -> Result<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.id == id).ok_or_else(|| {
            invalid("no layer has a tensor of this id")
                .found(format!("'{id}'"))
                .help(ckpt_api::nearest(id, self.parameters.iter().map(|parameter| parameter.id.as_str())))
        })
    }

    /// The entries, of bullet's files and of the engine's, into which this tensor is merged.
    pub(crate) fn merging<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a Entry> {
        let members = self.net.engine.iter().flat_map(|engine| &engine.members);
        self.net.saved.iter().chain(members).filter(move |entry| entry.merge.as_deref() == Some(id))
    }

    /// What bullet stores under this id.
    pub(crate) fn stored(&self, id: &str) -> Result<Stored<'_>> {
        let own = self.parameter(id)?;
        if let Some(whole) = own.begins {
            return Err(invalid("the tensor is not stored by itself")
                .found(format!("'{id}'"))
                .expected(format!("'{whole}', of which it is the first columns")));
        }
        Ok(Stored::new(self.parameters.iter().filter(|other| other.begins == Some(id)), own))
    }

    /// Everything that bullet stores, in the order of the layers.
    pub(crate) fn all_stored(&self) -> impl Iterator<Item = Stored<'_>> {
        let own = self.parameters.iter().filter(|parameter| parameter.begins.is_none());
        own.filter_map(|parameter| self.stored(&parameter.id).ok())
    }

    /// What a file of this part's stores as an entry: what is merged into it is no longer in front of it.
    pub(crate) fn stored_as(&self, entry: &Entry, part: Part) -> Result<Stored<'_>> {
        let alone = part == Part::Engine || (part != Part::Raw && entry.merge.is_some());
        if alone {
            Ok(Stored::new(std::iter::empty(), self.parameter(&entry.id)?))
        } else {
            self.stored(&entry.id)
        }
    }
}

/// An architecture that makes no sense.
pub(crate) fn invalid(message: &str) -> Error {
    Error::usage(message)
}

fn check_sizes(net: &Net) -> Result<()> {
    let members = net.engine.as_ref().map_or(0, |engine| engine.members.len());
    let lists = [net.layers.len(), net.tensors.len(), net.saved.len(), members];
    if net.layers.is_empty() || lists.iter().any(|len| *len > MOST) {
        return Err(invalid("the architecture has no layers, or too many parts")
            .found(format!("{} layers, {} tensors, {} saved entries", lists[0], lists[1], lists[2]))
            .expected(format!("1 to {MOST} layers, at most {MOST} of the others")));
    }
    let positive = |field: String, size: u64| match u32::try_from(size) {
        Ok(1..) => Ok(()),
        _ => Err(invalid("a size is not usable")
            .field(field)
            .found(size.to_string())
            .expected("a positive number below 2^32")),
    };
    positive("input.features".into(), net.input.features)?;
    if !(1..=2).contains(&net.input.perspectives) {
        return Err(invalid("a net has one perspective or two")
            .field("input.perspectives")
            .found(net.input.perspectives.to_string()));
    }
    if let Some(buckets) = &net.output_buckets {
        positive("output_buckets.count".into(), buckets.count)?;
    }
    if let Some(buckets) = &net.input.buckets {
        positive("input.buckets.count".into(), buckets.count)?;
        check_layout(buckets)?;
    }
    for (index, matrix) in net.tensors.iter().enumerate() {
        positive(format!("tensors[{index}].rows"), matrix.rows)?;
        positive(format!("tensors[{index}].columns"), matrix.columns)?;
    }
    for (index, layer) in net.layers.iter().enumerate() {
        positive(format!("layers[{index}].size"), layer.size)?;
        check_layer(layer, net.output_buckets.is_some())
            .map_err(|error| error.field(format!("layers[{index}]")))?;
    }
    Ok(())
}

fn check_layer(layer: &Layer, has_buckets: bool) -> Result<()> {
    if layer.dual && (layer.pairwise || layer.activation != Activation::Crelu) {
        return Err(invalid("a dual activation is CReLU of x and x², and stands alone")
            .expected("\"activation\": \"crelu\", and no pairwise"));
    }
    if layer.pairwise && !layer.size.is_multiple_of(2) {
        return Err(invalid("a layer of odd size has no halves").found(layer.size.to_string()));
    }
    if layer.bucketed == Some(true) && !has_buckets {
        return Err(
            invalid("a layer is bucketed, and there are no output buckets").help("add output_buckets")
        );
    }
    Ok(())
}

fn check_layout(buckets: &InputBuckets) -> Result<()> {
    let squares = if buckets.mirrored { 32 } else { 64 };
    let field = |error: Error| Err(error.field("input.buckets.layout"));
    if !buckets.layout.is_empty() && buckets.layout.len() != squares {
        return field(
            invalid("the layout does not have one bucket for every square")
                .found(buckets.layout.len().to_string())
                .expected(format!("{squares}: 32 where mirrored, 64 where not")),
        );
    }
    match buckets.layout.iter().find(|bucket| **bucket >= buckets.count) {
        Some(bucket) => field(
            invalid("the layout names a bucket that does not exist")
                .found(bucket.to_string())
                .expected(format!("numbers below {}", buckets.count)),
        ),
        None => Ok(()),
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn one() -> u64 {
    1
}

fn two() -> u64 {
    2
}

fn is_one(value: &u64) -> bool {
    *value == one()
}

fn is_two(value: &u64) -> bool {
    *value == two()
}
