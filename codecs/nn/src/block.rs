//! Reads the JSON block without keeping it.
//!
//! The file states the length of the block, and a tree of JSON values takes up to 90 times the text. So each layer and
//! each stage of the training is reduced to what the codec needs as soon as it is read.

use crate::format::{Layer, LayerKind};
use crate::summary::{Elements, Summary};
use crate::training::{History, Stage};
use ckpt_api::{Error, Result, Rules};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use std::fmt;

/// The content of a JSON block, as far as the codec needs it.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) layers: Layers,
    /// The object `training`, if there is one.
    pub(crate) history: Option<History>,
}

/// The layers, in order.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    pub(crate) layers: Vec<Layer>,
    /// The `name` of each layer, if it has one.
    pub(crate) names: Vec<Option<Box<str>>>,
    /// Whether any layer has `"trainable": false`.
    pub(crate) has_frozen: bool,
}

impl Block {
    /// Parses the text of a block. All of it must be JSON, also what is not kept.
    pub(crate) fn parse(text: &str, rules: &mut Rules) -> Result<Self> {
        let mut parts = Parts::new(rules.lenient);
        let mut json = serde_json::Deserializer::from_str(text);
        let block = Walk { place: Place::Block, parts: &mut parts }.deserialize(&mut json);
        let block = block
            .and_then(|block| json.end().map(|()| block))
            .map_err(|error| Error::corrupt("the JSON block is not valid").found(error.to_string()))?;
        if !matches!(block, Summary::Object(_)) {
            return Err(wrong_type("the JSON block", &block, "an object"));
        }
        parts.finish(rules)
    }
}

/// Where in the block a value is.
#[derive(Clone, Copy)]
enum Place {
    Block,
    Layers,
    Layer,
    Training,
    Stages,
    Stage,
    Other,
}

impl Place {
    fn element(self) -> Place {
        match self {
            Place::Layers => Place::Layer,
            Place::Stages => Place::Stage,
            _ => Place::Other,
        }
    }

    fn entry(self, key: &str) -> Place {
        match (self, key) {
            (Place::Block, "layers") => Place::Layers,
            (Place::Block, "training") => Place::Training,
            (Place::Training, History::STAGES) => Place::Stages,
            _ => Place::Other,
        }
    }
}

/// Reads the value at a place. serde_json limits how deep the calls nest.
struct Walk<'a> {
    place: Place,
    parts: &'a mut Parts,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = Summary;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Summary, D::Error> {
        self.parts.begin(self.place);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = Summary;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> std::result::Result<Summary, E> {
        Ok(Summary::Null)
    }

    fn visit_bool<E>(self, value: bool) -> std::result::Result<Summary, E> {
        Ok(Summary::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> std::result::Result<Summary, E> {
        Ok(Summary::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> std::result::Result<Summary, E> {
        Ok(Summary::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> std::result::Result<Summary, E> {
        Ok(Number::from_f64(value).map_or(Summary::Null, Summary::Number))
    }

    fn visit_str<E>(self, value: &str) -> std::result::Result<Summary, E> {
        Ok(Summary::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> std::result::Result<Summary, A::Error> {
        let mut elements = Elements::NONE;
        let place = self.place.element();
        while let Some(value) = array.next_element_seed(Walk { place, parts: &mut *self.parts })? {
            elements.add(&value);
            self.parts.element(self.place, &value);
        }
        Ok(Summary::Array(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> std::result::Result<Summary, A::Error> {
        let mut elements = Elements::NONE;
        while let Some(key) = object.next_key::<String>()? {
            let place = self.place.entry(&key);
            let value = object.next_value_seed(Walk { place, parts: &mut *self.parts })?;
            elements.add(&value);
            self.parts.entry(self.place, &key, value);
        }
        Ok(Summary::Object(elements))
    }
}

/// What was read so far. Of a key that an object has twice, the last value counts.
struct Parts {
    device: Option<Summary>,
    training: Option<Summary>,
    /// The value of `layers`.
    list: Option<Summary>,
    layers: Layers,
    /// Repairs within `layers`.
    rules: Rules,
    /// The first error within `layers`.
    failure: Option<Error>,
    layer: Fields,
    history: History,
    stage: Stage,
}

/// The fields of one layer.
#[derive(Default)]
struct Fields {
    kind: Option<Summary>,
    name: Option<Summary>,
    trainable: Option<Summary>,
    inputs: Option<Summary>,
    outputs: Option<Summary>,
}

impl Parts {
    fn new(lenient: bool) -> Self {
        Parts {
            device: None,
            training: None,
            list: None,
            layers: Layers::default(),
            rules: Rules { lenient, ..Rules::default() },
            failure: None,
            layer: Fields::default(),
            history: History::default(),
            stage: Stage::default(),
        }
    }

    fn begin(&mut self, place: Place) {
        match place {
            Place::Layers => {
                self.layers = Layers::default();
                self.rules.repairs.clear();
                self.failure = None;
            }
            Place::Layer => self.layer = Fields::default(),
            Place::Training => self.history = History::default(),
            Place::Stages => self.history.clear_stages(),
            Place::Stage => self.stage = Stage::default(),
            Place::Block | Place::Other => {}
        }
    }

    fn entry(&mut self, place: Place, key: &str, value: Summary) {
        let slot = match (place, key) {
            (Place::Block, "device") => &mut self.device,
            (Place::Block, "training") => &mut self.training,
            (Place::Block, "layers") => &mut self.list,
            (Place::Layer, "type") => &mut self.layer.kind,
            (Place::Layer, "name") => &mut self.layer.name,
            (Place::Layer, "trainable") => &mut self.layer.trainable,
            (Place::Layer, "in_features") => &mut self.layer.inputs,
            (Place::Layer, "out_features") => &mut self.layer.outputs,
            (Place::Training, _) => return self.history.field(key, &value),
            (Place::Stage, _) => return self.stage.field(key, &value),
            _ => return,
        };
        *slot = Some(value);
    }

    fn element(&mut self, place: Place, value: &Summary) {
        match place {
            Place::Layers if self.failure.is_none() => self.failure = self.add_layer(value).err(),
            Place::Stages => self.history.add_stage(&self.stage, matches!(value, Summary::Object(_))),
            _ => {}
        }
    }

    fn add_layer(&mut self, value: &Summary) -> Result<()> {
        let index = self.layers.layers.len();
        if !matches!(value, Summary::Object(_)) {
            return Err(wrong_type(&format!("layers[{index}]"), value, "an object"));
        }
        let fields = std::mem::take(&mut self.layer);
        self.layers.layers.push(fields.parse(index, &mut self.rules)?);
        self.layers.has_frozen |= fields.trainable == Some(Summary::Bool(false));
        self.layers.names.push(match fields.name {
            Some(Summary::Text(name)) => Some(name.into_boxed_str()),
            _ => None,
        });
        Ok(())
    }

    fn finish(self, rules: &mut Rules) -> Result<Block> {
        if let Some(device) = self.device.filter(|value| !matches!(value, Summary::Text(_) | Summary::Null)) {
            rules.mend("device", "it has no effect", wrong_type("device", &device, "a text"))?;
        }
        let history = match self.training {
            Some(Summary::Object(_)) => Some(self.history),
            None | Some(Summary::Null) => None,
            Some(other) => {
                let error = wrong_type("training", &other, "an object");
                rules.mend("training", "there is no history", error)?;
                None
            }
        };
        match self.list {
            Some(Summary::Array(elements)) if !elements.is_empty => {}
            Some(Summary::Array(_)) | None => {
                let error = Error::corrupt("the JSON block lists no layers").field("layers");
                return Err(error.help("DataCode needs at least one layer"));
            }
            Some(other) => return Err(wrong_type("layers", &other, "an array")),
        }
        if let Some(error) = self.failure {
            return Err(error);
        }
        rules.repairs.extend(self.rules.repairs);
        Ok(Block { layers: self.layers, history })
    }
}

impl Fields {
    fn parse(&self, index: usize, rules: &mut Rules) -> Result<Layer> {
        let field = |key: &str| format!("layers[{index}].{key}");
        let kind = match &self.kind {
            Some(Summary::Text(name)) => LayerKind::from_name(name).ok_or_else(|| {
                Error::unsupported("unknown layer type")
                    .field(field("type"))
                    .found(format!("\"{}\"", name.escape_debug()))
                    .expected(LayerKind::names())
            })?,
            Some(other) => return Err(wrong_type(&field("type"), other, "a text")),
            None => return Err(Error::corrupt("a layer has no type").field(field("type"))),
        };
        if let Some(name) = self.name.as_ref().filter(|name| !matches!(name, Summary::Text(_))) {
            rules.mend(field("name"), "it has no effect", wrong_type(&field("name"), name, "a text"))?;
        }
        if kind != LayerKind::Linear {
            return Ok(Layer { kind, inputs: 0, outputs: 0 });
        }
        if let Some(flag) = self.trainable.as_ref().filter(|flag| !matches!(flag, Summary::Bool(_))) {
            let error = wrong_type(&field("trainable"), flag, "true or false");
            rules.mend(field("trainable"), "it has no effect", error)?;
        }
        let inputs = features(self.inputs.as_ref(), &field("in_features"))?;
        let outputs = features(self.outputs.as_ref(), &field("out_features"))?;
        if (inputs == 0) != (outputs == 0) {
            return Err(Error::corrupt("a Linear layer has no features on one side")
                .field(format!("layers[{index}]"))
                .found(format!("in_features {inputs}, out_features {outputs}"))
                .expected("positive numbers, or 0 and 0 for a convolution stored as Linear"));
        }
        Ok(Layer { kind, inputs, outputs })
    }
}

fn features(value: Option<&Summary>, field: &str) -> Result<u64> {
    let value = value.ok_or_else(|| {
        Error::corrupt("a Linear layer does not state its size").field(field).expected("a positive integer")
    })?;
    let number = match value {
        Summary::Number(number) => number.as_u64().filter(|number| u32::try_from(*number).is_ok()),
        _ => None,
    };
    number.ok_or_else(|| wrong_type(field, value, "a positive integer below 2^32"))
}

fn wrong_type(field: &str, found: &Summary, expected: &str) -> Error {
    let kind = match found {
        Summary::Null => "null".to_owned(),
        Summary::Bool(value) => value.to_string(),
        Summary::Number(number) => number.to_string(),
        Summary::Text(_) => "a text".to_owned(),
        Summary::Array(_) => "an array".to_owned(),
        Summary::Object(_) => "an object".to_owned(),
    };
    Error::corrupt("the JSON block has a value of the wrong type").field(field).found(kind).expected(expected)
}
