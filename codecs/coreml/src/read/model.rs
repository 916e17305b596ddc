//! What a model is: a program, a network, or models in a row.

use super::network::{self, Network};
use super::parser::Parser;
use super::program::{self, Program};
use crate::format::{DESCRIBED, KEY_USER_DEFINED, Kind, USER_DEFINED, kind};
use ckpt_api::{Error, File, Limit, Limits, MetadataMap, MetadataValue, Result};
use ckpt_containers::protobuf::Value;
use std::collections::VecDeque;
use std::ops::Range;

/// Pipelines within pipelines that a model may have.
const MOST_LEVELS: usize = 8;
/// Bytes of a text that metadata shows.
const SHOWN: u64 = 1 << 16;

/// A model, with those that it has in a row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    /// What its authors say of it.
    pub(crate) metadata: MetadataMap,
    /// The models that can have tensors, with what their names begin with.
    pub(crate) parts: Vec<(String, Part)>,
    /// What else is among them.
    pub(crate) others: Vec<&'static str>,
}

#[derive(Clone, Debug)]
pub(crate) enum Part {
    Program(Program),
    Network(Network),
}

impl Part {
    /// How many operations or layers it has, without constants.
    pub(crate) fn operations(&self) -> usize {
        match self {
            Part::Program(program) => {
                let all = program.blocks.iter().flat_map(|block| &block.operations);
                all.filter(|own| {
                    own.op != "const" && own.op != "identity" && !own.op.starts_with("constexpr_")
                })
                .count()
            }
            Part::Network(network) => network.layers.len(),
        }
    }
}

/// One message `Model`.
#[derive(Default)]
struct Message {
    metadata: MetadataMap,
    kind: Option<(Kind, Range<u64>)>,
}

/// Parses all but the numbers.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`], [`ckpt_api::Kind::Limit`]; [`ckpt_api::Kind::Unsupported`] for a model without tensors.
pub(crate) fn parse(file: &File, limits: &Limits) -> Result<Model> {
    let mut parser = Parser::new(file, limits);
    let mut model = Model::default();
    let mut open = VecDeque::from([(0..file.len(), String::new(), 0)]);
    let mut is_outer = true;
    while let Some((range, prefix, level)) = open.pop_front() {
        parser.count_node()?;
        let message = message(&mut parser, &range)?;
        if std::mem::take(&mut is_outer) {
            model.metadata = message.metadata;
        }
        match message.kind {
            None if level == 0 => return Err(none(file)),
            None => {}
            Some((Kind::Program, range)) => {
                model.parts.push((prefix, Part::Program(program::parse(&mut parser, &range)?)));
            }
            Some((Kind::Network, range)) => {
                model.parts.push((prefix, Part::Network(network::parse(&mut parser, &range)?)));
            }
            Some((Kind::Pipeline(field), range)) if level < MOST_LEVELS => {
                let models = pipeline(&mut parser, &range, field)?;
                limits.check(Limit::GraphNodes, models.len() as u64)?;
                for (name, range) in models {
                    let name = format!("{prefix}{name}/");
                    parser.count_bytes(name.len() as u64)?;
                    open.push_back((range, name, level.saturating_add(1)));
                }
            }
            Some((Kind::Pipeline(_), range)) => {
                return Err(Error::unsupported("pipelines nest too deep")
                    .offset(range.start)
                    .field("pipeline")
                    .found(format!("more than {MOST_LEVELS} levels"))
                    .expected(format!("at most {MOST_LEVELS}")));
            }
            Some((Kind::Other(what), range)) if level == 0 => {
                return Err(Error::unsupported("the model has no tensors")
                    .offset(range.start)
                    .field("type")
                    .found(what)
                    .expected("an ML program or a neural network"));
            }
            Some((Kind::Other(what), _)) => model.others.push(what),
        }
    }
    Ok(model)
}

fn none(file: &File) -> Error {
    Error::corrupt("the file is no Core ML model")
        .offset(0)
        .field("type")
        .found(format!("{} without a model", ckpt_api::count(file.len(), "byte")))
        .expected("an ML program, a neural network or a pipeline")
        .help("the file is cut short or another one: copy it again")
}

fn message(parser: &mut Parser<'_>, range: &Range<u64>) -> Result<Message> {
    let mut message = Message::default();
    parser.enter(range)?;
    while let Some(field) = parser.next(range.end)? {
        match field.number {
            2 => {
                let end = parser.range(&field)?.end;
                while let Some(field) = parser.next(end)? {
                    if field.number == 100 {
                        let range = parser.range(&field)?;
                        describe(parser, &range, &mut message.metadata)?;
                    }
                    parser.skip(&field)?;
                }
            }
            number => {
                if let Some(kind) = kind(number) {
                    message.kind = Some((kind, parser.range(&field)?));
                }
            }
        }
        parser.skip(&field)?;
    }
    Ok(message)
}

/// What the authors of a model say of it.
fn describe(parser: &mut Parser<'_>, range: &Range<u64>, metadata: &mut MetadataMap) -> Result<()> {
    let mut own = MetadataMap::default();
    while let Some(field) = parser.next(range.end)? {
        let key = DESCRIBED.iter().find(|(number, _)| *number == field.number).map_or("", |(_, key)| key);
        let len = match &field.value {
            Value::Bytes(range) => range.end.saturating_sub(range.start),
            _ => 0,
        };
        if !key.is_empty() && (1..=SHOWN).contains(&len) {
            metadata.insert(key, parser.text(&field)?);
        }
        if field.number == USER_DEFINED && len <= SHOWN {
            parser.count_node()?;
            let (key, value) = pair(parser, &parser.range(&field)?)?;
            own.insert(key, value);
        }
        parser.skip(&field)?;
    }
    if !own.is_empty() {
        metadata.insert(KEY_USER_DEFINED, MetadataValue::Map(own));
    }
    Ok(())
}

fn pair(parser: &mut Parser<'_>, range: &Range<u64>) -> Result<(String, String)> {
    let (mut key, mut value) = (String::new(), String::new());
    while let Some(field) = parser.next(range.end)? {
        match field.number {
            1 => key = parser.text(&field)?,
            2 => value = parser.text(&field)?,
            _ => {}
        }
        parser.skip(&field)?;
    }
    Ok((key, value))
}

/// The names and places of the models of a pipeline, which is the message or its field.
fn pipeline(parser: &mut Parser<'_>, range: &Range<u64>, field: u64) -> Result<Vec<(String, Range<u64>)>> {
    let mut range = range.clone();
    if field > 0 {
        let mut inner = range.end..range.end;
        parser.enter(&range)?;
        while let Some(own) = parser.next(range.end)? {
            if own.number == field {
                inner = parser.range(&own)?;
            }
            parser.skip(&own)?;
        }
        range = inner;
    }
    let (mut models, mut names) = (Vec::new(), Vec::new());
    parser.enter(&range)?;
    while let Some(field) = parser.next(range.end)? {
        match field.number {
            1 => models.push(parser.range(&field)?),
            2 => names.push(parser.text(&field)?),
            _ => {}
        }
        parser.count_node()?;
        parser.skip(&field)?;
    }
    let mut names = names.into_iter();
    let named = models.into_iter().enumerate().map(|(number, range)| {
        let name = names.next().filter(|name| !name.is_empty());
        (name.unwrap_or_else(|| number.to_string()), range)
    });
    Ok(named.collect())
}
