//! Recognizes weights of Darknet, and describes their tensors.

use crate::format::{CFG, Header, ID, LAYERS, Network, WEIGHT_BYTES, cfg_at, cfg_of, tensor_name, text_of};
use crate::graph;
use ckpt_api::{
    Contents, DType, Encoding, Error, Extent, Fields, File, FileId, Input, Kind, Limit, Limits, Match,
    MetadataValue, MissingGraph, Options, Placement, Result, Setting, Shape, Tensor, TensorId, text,
};

/// Certain if the layers of the `.cfg` beside the weights need exactly the numbers of the file: nothing else marks it.
pub(crate) fn probe(input: &Input) -> Result<Match> {
    let (cfg, layers) = cfg_of(input.entry());
    let is_named = input.entry().ends_with(".weights") || layers.is_some();
    if !is_named || !input.is_file() {
        return Ok(Match::No);
    }
    let file = input.main()?;
    let header = Header::read(&mut Fields::new(&file));
    let Ok(header) = header else { return Ok(Match::No) };
    let doubtful = |why: String| if header.is_plausible() { Match::Possible(why) } else { Match::No };
    if !input.has_file(&cfg) {
        return Ok(doubtful(format!("begins with a version of Darknet, but there is no {cfg}")));
    }
    let fit = input.file(&cfg).and_then(|file| {
        let text = text_of(&file, input.limits())?;
        Network::parse(&text, layers, input.limits())
    });
    match fit.and_then(|network| check_length(&file, &header, &network, &cfg)) {
        Ok(()) => Ok(Match::Certain(format!("has exactly the numbers of the layers of {cfg}"))),
        Err(error) if error.kind() == Kind::Io => Err(error),
        Err(error) => Ok(doubtful(format!("{cfg} is beside it, but {}", error.message()))),
    }
}

/// Reads everything but the weights.
pub(crate) fn read(input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
    input.read_alone("weights of Darknet", |file| {
        let (beside, layers) = cfg_of(input.entry());
        let header = Header::read(&mut Fields::new(file))?;
        let (text, cfg) = cfg(input, &beside, options.text(CFG), limits)?;
        let layers = options.count(LAYERS).or(layers);
        let network = Network::parse(&text, layers, limits).map_err(|error| error.file(&cfg))?;
        check_length(file, &header, &network, &cfg).map_err(|error| match layers {
            Some(_) => error,
            None => advise(error, &text, limits, file, &header),
        })?;
        let mut contents = describe(&network, &header, limits)?;
        match graph::build(&network, graph::Returned::of(options)) {
            Ok(graph) => contents.checkpoint.graph = Some(graph),
            Err(reason) => {
                let reason = format!("{cfg}: {reason}").into();
                contents.missing_graph = Some(MissingGraph { reason, is_unstated: false, help: None });
            }
        }
        if let Some(layers) = layers {
            let layers = ckpt_api::count(layers, "layer");
            contents.add_notes([format!("the file has the weights of the first {layers} of {cfg} alone")]);
        }
        contents.graph_notes.extend(graph::notes(&network).into_iter().map(Into::into));
        let metadata = &mut contents.checkpoint.metadata;
        metadata.insert(ID, CFG, text);
        header.keep(metadata);
        if let Some(layers) = layers {
            metadata.insert(ID, LAYERS, MetadataValue::integer(layers));
        }
        Ok(contents)
    })
}

/// Returns the text and the name of the `.cfg`: the one that the option names, beside the weights or by its path, or the one
/// with the stem of the weights.
fn cfg(input: &Input, beside: &str, named: Option<&str>, limits: &Limits) -> Result<(String, String)> {
    let name = match named {
        Some(path) if !input.has_file(path) => return cfg_at(path, limits).map_err(|error| error.field(CFG)),
        Some(name) => name,
        None => beside,
    };
    if !input.has_file(name) {
        return Err(Error::usage("weights of Darknet mean nothing without their .cfg")
            .file(input.display(input.entry()))
            .found(format!("no file '{name}' beside them"))
            .help(text!["put it there, or name it with ", Setting::READ_OPTION.of("cfg=FILE")]));
    }
    let file = input.file(name)?;
    Ok((text_of(&file, limits)?, file.name().to_owned()))
}

/// Fails unless the file ends after the last number of the last layer.
fn check_length(file: &File, header: &Header, network: &Network, cfg: &str) -> Result<()> {
    let needed = network.layers.iter().fold(0u64, |sum, layer| sum.saturating_add(layer.numbers()));
    let bytes = file.len().saturating_sub(header.len());
    let (found, rest) = (bytes / WEIGHT_BYTES, bytes % WEIGHT_BYTES);
    if found == needed && rest == 0 && needed > 0 {
        return Ok(());
    }
    let message = match (found.checked_sub(needed), needed.checked_sub(found)) {
        _ if needed == 0 => "the layers of the .cfg have no weights".to_owned(),
        (Some(0), _) => "the file ends within a number".to_owned(),
        (Some(more), _) => format!("the file has {} more than the layers of the .cfg", many(more)),
        (_, Some(fewer)) => format!("the file has {} fewer than the layers of the .cfg", many(fewer)),
        _ => "the file does not fit its .cfg".to_owned(),
    };
    let found = match rest {
        0 => many(found),
        rest => format!("{} and {}", many(found), ckpt_api::count(rest, "byte")),
    };
    Err(Error::corrupt(message)
        .file(file.name())
        .offset(header.len().min(file.len()))
        .found(found)
        .expected(format!("{}, by {cfg}", many(needed)))
        .help("use the .cfg that the weights were trained with, or copy the file again"))
}

fn many(numbers: u64) -> String {
    ckpt_api::count(numbers, "number")
}

/// Says how to read a file that ends behind a layer, which is then the beginning of a larger model.
fn advise(error: Error, text: &str, limits: &Limits, file: &File, header: &Header) -> Error {
    let Ok(network) = Network::parse(text, None, limits) else { return error };
    let stored = file.len().saturating_sub(header.len()) / WEIGHT_BYTES;
    let sums = network.layers.iter().scan(0u64, |sum, layer| {
        *sum = sum.saturating_add(layer.numbers());
        Some(*sum)
    });
    match (1u64..).zip(sums).find(|(_, sum)| *sum == stored && stored > 0) {
        None => error,
        Some((count, _)) => {
            let option = Setting::READ_OPTION.of(&format!("layers={count}"));
            let help = text!["the file ends behind a layer: to read the layers up to it, use ", option];
            error.with_help(|_| help)
        }
    }
}

/// Describes the tensors.
fn describe(network: &Network, header: &Header, limits: &Limits) -> Result<Contents> {
    let mut contents = Contents::default();
    let mut at = header.len();
    for (index, layer) in network.layers.iter().enumerate() {
        for part in layer.parts() {
            let (dims, axes) = layer.shape(part)?;
            let shape = Shape::new(dims)?;
            let len = shape.elements().saturating_mul(WEIGHT_BYTES);
            let tensor = Tensor::new(tensor_name(index, layer.section, part.name()), DType::F32, shape);
            let order = layer.order(part, header.is_transposed());
            let encoding = Encoding::new(DType::F32, order);
            let id = TensorId(contents.placements.len());
            let extent = Extent::new(FileId(0), at, len);
            contents.placements.push(Placement::new(id, tensor.name.clone(), vec![extent], encoding));
            contents.checkpoint.tensors.push(tensor.with_axes(axes));
            limits.check(Limit::Tensors, contents.placements.len() as u64)?;
            at = at.saturating_add(len);
        }
    }
    Ok(contents)
}
