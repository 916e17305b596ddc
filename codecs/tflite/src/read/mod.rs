//! Reads the tables of a model, and locates its tensors.

mod described;
mod model;
mod names;
mod parsed;
mod quantization;
mod sparsity;
mod tensor;

use crate::format::{ENDING, IDENTIFIER, NAMESPACE};
use ckpt_api::{Contents, Error, Input, Limit, Limits, Match, Metadata, MetadataMap, MetadataValue, Result};
use ckpt_containers::structure::Structure;
use model::Signature;
pub(crate) use model::{Model, Step, TensorTable};
pub(crate) use parsed::{Parsed, ParsedConstants, SMALL};
pub(crate) use quantization::{Scheme, scheme};

/// Bytes of a further buffer that metadata shows.
const SHOWN_METADATA: u64 = 4096;

/// Recognizes a model by its identifier.
pub(crate) fn probe(input: &Input) -> Result<Match> {
    if !input.is_file() {
        return Ok(Match::No);
    }
    let found = input.head::<8>()?.is_some_and(|head| head.ends_with(&IDENTIFIER));
    Ok(match found {
        true => Match::Certain("has the identifier TFL3".to_owned()),
        false if input.entry().ends_with(ENDING) => {
            Match::Possible("has the extension of a TensorFlow Lite model".to_owned())
        }
        false => Match::No,
    })
}

/// Reads everything but the tensors' data.
pub(crate) fn read(input: &Input, limits: &Limits) -> Result<Contents> {
    input.read_alone("a TensorFlow Lite model", |file| {
        check_identifier(input)?;
        let flat = crate::flat::Flat::new(file);
        let mut parsed = Parsed::of(&flat, limits)?;
        parsed.read_graph(&flat);
        let structure = parsed.structure(file, limits)?;
        let mut contents = parsed.contents;
        describe(&mut contents.checkpoint.metadata, &flat, &parsed.model, limits)?;
        structure.keep(&mut contents.checkpoint.metadata, NAMESPACE);
        Ok(contents)
    })
}

fn check_identifier(input: &Input) -> Result<()> {
    let head = input.head::<8>()?;
    let found = head.map_or("no 8 bytes".to_owned(), |head| {
        format!("'{}'", head.get(4..).unwrap_or_default().escape_ascii())
    });
    match head.is_some_and(|head| head.ends_with(&IDENTIFIER)) {
        true => Ok(()),
        false => Err(Error::corrupt("the file is not a TensorFlow Lite model")
            .offset(4)
            .found(found)
            .expected("the identifier 'TFL3'")),
    }
}

impl Parsed<'_> {
    /// The file without the bytes of its tensors.
    fn structure(&self, file: &ckpt_api::File, limits: &Limits) -> Result<Structure> {
        let data = self.data();
        let hidden: u64 = data.iter().map(|range| range.end.saturating_sub(range.start)).sum();
        let len = file.len().saturating_sub(hidden);
        limits.check(Limit::HeaderBytes, len).map_err(|error| error.field("bytes that are no tensor's"))?;
        let mut structure = Structure::of(file, data)?;
        for (offset, bytes) in self.small(file)? {
            structure.add_small(offset, bytes);
        }
        Ok(structure)
    }
}

/// Adds what the model states beside its graph.
fn describe(
    metadata: &mut Metadata,
    flat: &crate::flat::Flat<'_>,
    model: &Model<'_>,
    limits: &Limits,
) -> Result<()> {
    if !model.description.is_empty() {
        metadata.insert(NAMESPACE, "description", model.description.as_str());
    }
    let operators: usize = model.subgraphs.iter().map(|subgraph| subgraph.operators.len()).sum();
    if operators > 0 {
        metadata.insert(NAMESPACE, "operators", MetadataValue::integer(operators as u64));
    }
    let mut further = MetadataMap::default();
    for (name, number) in &model.metadata {
        let buffer = usize::try_from(*number).ok().and_then(|number| model.buffers.get(number));
        let buffer = buffer.ok_or_else(|| {
            Error::corrupt("metadata is in a buffer that does not exist")
                .field(format!("metadata '{}'", name.escape_debug()))
                .found(number.to_string())
                .expected(format!("less than {}", model.buffers.len()))
        })?;
        if buffer.len <= SHOWN_METADATA {
            let bytes = flat.bytes(buffer.offset, buffer.len)?;
            let text = std::str::from_utf8(&bytes).map(|text| text.trim_end_matches('\0'));
            let value = match text.ok().filter(|text| !text.chars().any(char::is_control)) {
                Some(text) => MetadataValue::Text(text.to_owned()),
                None => MetadataValue::Bytes(bytes),
            };
            further.insert(name.as_str(), value);
        }
    }
    if !further.is_empty() {
        metadata.insert(NAMESPACE, "metadata", further);
    }
    let named = |signature: &Signature| {
        let of = |names: &[(String, u32)]| -> Result<MetadataValue> {
            let mut map = MetadataMap::default();
            for (name, number) in names {
                let subgraph =
                    usize::try_from(signature.subgraph).ok().and_then(|at| model.subgraphs.get(at));
                let tensor = subgraph.and_then(|own| own.tensors.get(usize::try_from(*number).ok()?));
                let tensor = tensor.ok_or_else(|| {
                    Error::corrupt("a signature names a tensor that does not exist")
                        .field(format!("signature '{}'", signature.key.escape_debug()))
                        .found(format!("tensor {number} of subgraph {}", signature.subgraph))
                })?;
                map.insert(name.as_str(), tensor.name.as_str());
            }
            Ok(MetadataValue::Map(map))
        };
        let pairs = [("inputs", of(&signature.inputs)?), ("outputs", of(&signature.outputs)?)];
        Ok((
            signature.key.clone(),
            MetadataValue::Map(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ))
    };
    let signatures = model.signatures.iter().map(named).collect::<Result<Vec<_>>>()?;
    limits.check(Limit::MetadataEntries, signatures.len() as u64)?;
    if !signatures.is_empty() {
        metadata.insert(NAMESPACE, "signatures", MetadataValue::Map(signatures.into_iter().collect()));
    }
    Ok(())
}
