//! The inputs and layers that a `.prototxt` states for a network that is used, not trained.

use crate::format::named;
use ckpt_containers::protobuf::{Message, Text};

/// Inputs and layers.
pub(super) struct Net<'a> {
    pub(super) name: String,
    /// Names and shapes, the batch first.
    pub(super) inputs: Vec<(String, Vec<u64>)>,
    pub(super) layers: Vec<Layer<'a>>,
}

/// A layer of a text.
pub(super) struct Layer<'a> {
    pub(super) name: &'a str,
    pub(super) kind: &'a str,
    pub(super) bottoms: Vec<&'a str>,
    pub(super) tops: Vec<&'a str>,
    message: Message<'a>,
}

impl<'a> Layer<'a> {
    /// The options of this kind of layer, such as `pooling_param`.
    pub(super) fn options(&self, name: &str) -> Message<'a> {
        self.message.message(name)
    }
}

impl<'a> Net<'a> {
    pub(super) fn of(text: &'a Text) -> Result<Net<'a>, String> {
        let root = text.root();
        let mut net = Net {
            name: root.word("name").unwrap_or_default().to_owned(),
            inputs: stated_inputs(root)?,
            layers: Vec::new(),
        };
        for message in root.messages("layer").chain(root.messages("layers")) {
            let layer = Layer {
                name: message.word("name").unwrap_or_default(),
                kind: named(message.word("type").unwrap_or_default()),
                bottoms: message.words("bottom").collect(),
                tops: message.words("top").collect(),
                message,
            };
            if !is_used(message) {
                continue;
            }
            match layer.kind {
                "Input" => {
                    let shapes: Vec<Message<'_>> = layer.options("input_param").messages("shape").collect();
                    for (at, top) in layer.tops.iter().enumerate() {
                        let shape = shapes.get(at).or(shapes.last());
                        let dims = shape.map_or(Ok(Vec::new()), |shape| shape.ints("dim"))?;
                        net.inputs.push(((*top).to_owned(), lengths(top, &dims)?));
                    }
                }
                _ => net.layers.push(layer),
            }
        }
        match net.inputs.is_empty() {
            true => Err("it states no input: use the .prototxt for deployment".to_owned()),
            false => Ok(net),
        }
    }
}

/// The inputs that stand outside of layers.
fn stated_inputs(root: Message<'_>) -> Result<Vec<(String, Vec<u64>)>, String> {
    let shapes: Vec<Message<'_>> = root.messages("input_shape").collect();
    let dims = root.ints("input_dim")?;
    let input = |(at, name): (usize, &str)| {
        let own = match shapes.get(at) {
            Some(shape) => shape.ints("dim")?,
            None => dims.chunks(4).nth(at).unwrap_or_default().to_vec(),
        };
        Ok((name.to_owned(), lengths(name, &own)?))
    };
    root.words("input").enumerate().map(input).collect()
}

fn lengths(name: &str, dims: &[i64]) -> Result<Vec<u64>, String> {
    let lengths = dims.iter().map(|dim| u64::try_from(*dim).ok().filter(|dim| (1..=1 << 24).contains(dim)));
    let lengths: Option<Vec<u64>> = lengths.collect();
    lengths.filter(|lengths| (1..=8).contains(&lengths.len())).ok_or_else(|| {
        format!("the input '{}' has the shape {dims:?}, which is not supported", name.escape_debug())
    })
}

/// Whether a layer is part of the network in its use.
fn is_used(layer: Message<'_>) -> bool {
    let holds = |rule: Message<'_>| {
        rule.word("phase").is_none_or(|phase| phase == "TEST")
            && rule.word("stage").is_none()
            && rule.int("min_level", 0).is_ok_and(|level| level <= 0)
    };
    let mut include = layer.messages("include").peekable();
    match include.peek() {
        Some(_) => include.any(holds),
        None => !layer.messages("exclude").any(holds),
    }
}
