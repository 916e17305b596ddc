//! Finds the sizes of a network, which no field states: the hashes tell them, and the length of the file.

use super::header::Header;
use super::located::{Located, locate};
use crate::format::{Inputs, LAYERS, Layers, Network};
use ckpt_api::fields::le;
use ckpt_api::{Error, Fields, File, Result, Setting, text};

/// Neurons of the largest transformer that is looked for.
const MOST_NEURONS: u32 = 1 << 14;
/// Bytes of a hash.
const HASH_BYTES: u64 = 4;

/// A transformer that has the hash of the file, and where its arrays would be.
struct Candidate {
    inputs: Inputs,
    l1: u32,
    located: Vec<Located>,
    /// The first byte after the transformer.
    end: u64,
    /// The hash that is there, if any.
    layers_hash: u32,
}

/// Finds the network and its arrays. The transformer begins at `start`.
pub(super) fn find(
    file: &File,
    header: Header,
    start: u64,
    (inputs, wanted): (Option<(u64, u32)>, Option<[u32; 2]>),
) -> Result<(Network, Vec<Located>)> {
    let candidate = transformer(file, &header, start, inputs)?;
    let Candidate { inputs, l1, mut located, end, layers_hash } = candidate;
    let stacks = Network::stacks(&inputs);
    let layers = layers(file, (end, stacks), (l1, layers_hash), wanted)?;
    let Header { version, description, .. } = header;
    let mut at = end;
    for stack in 0..stacks {
        let found = hash_at(file, at)?;
        if found != layers_hash {
            return Err(wrong_hash("a stack of layers", at, found, layers_hash));
        }
        let (arrays, next) =
            locate(file, at.saturating_add(HASH_BYTES), Network::stack(version, layers, stack)?)?;
        located.extend(arrays);
        at = next;
    }
    Ok((Network { version, description, inputs, l1, layers }, located))
}

/// The transformer whose arrays end where the hash of the layers is: of known inputs, or of those that are stated.
fn transformer(file: &File, header: &Header, start: u64, inputs: Option<(u64, u32)>) -> Result<Candidate> {
    let stated = header.transformer_hash;
    let other = inputs.map(|(features, l1)| (Inputs::other(features, stated ^ l1.wrapping_mul(2)), l1));
    let known = if inputs.is_some() { &[] } else { Inputs::all() };
    let known = known.iter().filter_map(|inputs| Some((inputs, neurons(inputs, stated)?)));
    let (mut failure, mut mismatch) = (None, None);
    for (inputs, l1) in known.chain(other.as_ref().map(|(inputs, l1)| (inputs, *l1))) {
        match candidate(file, header, start, inputs, l1) {
            Ok(candidate) if candidate.layers_hash == header.hash ^ stated => return Ok(candidate),
            Ok(candidate) => mismatch = mismatch.or(Some(stated ^ candidate.layers_hash)),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    match (mismatch, failure) {
        (Some(hash), _) => Err(wrong_hash("the network", HASH_BYTES, header.hash, hash)),
        (None, Some(error)) => Err(error),
        (None, None) => Err(Error::unsupported("the inputs of the network are not known")
            .offset(start.saturating_sub(HASH_BYTES))
            .found(format!("the hash {stated:#010x} of its transformer"))
            .expected(
                "features of Full_Threats, PP_3Wide, HalfKAv2_hm, HalfKAv2 or HalfKP, and 2 to 16384 neurons",
            )
            .help(text![
                "if you know them, state features and neurons with ",
                Setting::READ_OPTION.of("inputs=FEATURESxNEURONS")
            ])),
    }
}

/// The neurons with which the inputs have this hash.
fn neurons(inputs: &Inputs, hash: u32) -> Option<u32> {
    let twice = hash ^ inputs.hash;
    (twice.is_multiple_of(4) && (4..=2 * MOST_NEURONS).contains(&twice)).then_some(twice / 2)
}

fn candidate(file: &File, header: &Header, start: u64, inputs: &Inputs, l1: u32) -> Result<Candidate> {
    let (located, end) = locate(file, start, Network::transformer(header.version, inputs, l1)?)?;
    let layers_hash = hash_at(file, end)?;
    Ok(Candidate { inputs: inputs.clone(), l1, located, end, layers_hash })
}

fn hash_at(file: &File, at: u64) -> Result<u32> {
    Fields::range(file, at, HASH_BYTES)?.parse(le::<u32>)
}

fn wrong_hash(of: &str, at: u64, found: u32, expected: u32) -> Error {
    Error::corrupt(format!("the hash of {of} is not that of what follows"))
        .offset(at)
        .found(format!("{found:#010x}"))
        .expected(format!("{expected:#010x}"))
        .help("copy the file again, or use another network: Stockfish refuses this one, too")
}

/// The layers whose stacks fill the rest of the file.
fn layers(
    file: &File,
    (end, stacks): (u64, u64),
    (l1, hash): (u32, u32),
    wanted: Option<[u32; 2]>,
) -> Result<Layers> {
    let rest = file.len().saturating_sub(end);
    let found = match rest.is_multiple_of(stacks) {
        true => Layers::find(l1, hash, rest / stacks),
        false => Vec::new(),
    };
    let mut fitting = found.iter().filter(|layers| wanted.is_none_or(|wanted| wanted == layers.outputs));
    match (fitting.next(), fitting.next()) {
        (Some(first), None) => Ok(*first),
        (Some(first), Some(_)) if first.is_known() || wanted.is_some() => Ok(*first),
        (Some(_), Some(_)) => {
            let sizes = found.iter().map(|layers| layers.outputs.map(|size| size.to_string()).join(","));
            let sizes: Vec<String> = sizes.collect();
            Err(Error::unsupported("several sizes of layers fit the file")
                .offset(end)
                .found(ckpt_api::first_few(&sizes, 8))
                .expected("one")
                .help(text![
                    "state the outputs of the two first layers with ",
                    Setting::READ_OPTION.of("layers=L2,L3")
                ]))
        }
        (None, _) => {
            let error =
                Error::corrupt("no layers have the hash that the file states and fill the rest of it");
            let sizes =
                wanted.map(|sizes| format!("{LAYERS}={}", sizes.map(|size| size.to_string()).join(",")));
            Err(error
                .offset(end)
                .found(format!("the hash {hash:#010x} and {}", ckpt_api::count(rest, "byte")))
                .expected(match sizes {
                    Some(sizes) => format!("those of {}, {sizes}", ckpt_api::count(stacks, "stack")),
                    None => {
                        format!("{} of three layers behind {l1} neurons", ckpt_api::count(stacks, "stack"))
                    }
                }))
        }
    }
}
