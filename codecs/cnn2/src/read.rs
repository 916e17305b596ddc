//! Reading: recognizes a file, and describes its tensors and its graph.

mod graph;
mod header;
mod table;

use crate::format::{
    AXES, ID, KEY_MIP, KEY_PAD, KEY_VERSION, LAYER_BYTES, MAGIC, Version, WEIGHT_BYTES, weight_name,
};
use crate::layer::LayerShape;
use ckpt_api::{
    Contents, DType, Encoding, Extent, Fields, File, FileId, Input, Limits, Match, MetadataValue, Options,
    Placement, Result, Rules, Shape, Tensor, TensorId,
};
use graph::Stated;
use header::{Header, swapped_magic};
use nom::Parser;
use nom::bytes::streaming::take;
use nom::number::streaming::le_u32;
use nom::sequence::preceded;
use table::Entry;

/// Certain if the magic number, the version and the number of layers are valid; the magic number alone could be four
/// bytes of weights.
pub(crate) fn probe(input: &Input) -> Result<Match> {
    let Some(magic) = input.head()? else { return Ok(Match::No) };
    if magic == swapped_magic() {
        return Ok(Match::Possible("begins with the magic number CNN2 in big-endian byte order".to_owned()));
    }
    if magic != MAGIC {
        return Ok(Match::No);
    }
    let possible = |what: &str| Match::Possible(format!("begins with the magic number CNN2, but {what}"));
    let file = input.main()?;
    if file.len() < Version::One.header_bytes() {
        return Ok(possible("the header is cut short"));
    }
    let (version, layers) =
        Fields::new(&file).parse(|input| preceded(take(MAGIC.len()), (le_u32, le_u32)).parse(input))?;
    let Some(version) = Version::from_number(version) else {
        return Ok(possible(&format!("the version is {version}")));
    };
    let number = version.number();
    let table = u64::from(layers) * LAYER_BYTES + version.header_bytes();
    Ok(match layers {
        0 => possible("there are no layers"),
        layers if table > file.len() => {
            possible(&format!("the file is too short for {}", ckpt_api::count(layers, "layer")))
        }
        layers => Match::Certain(format!(
            "begins with the magic number CNN2, version {number}, {}",
            ckpt_api::count(layers, "layer")
        )),
    })
}

/// Reads everything but the weights.
pub(crate) fn read(input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
    input.read_alone("a CNN2 file", |file| read_file(file, options, limits))
}

fn read_file(file: &File, options: &Options, limits: &Limits) -> Result<Contents> {
    let mut rules = Rules::new(options);
    let header = Header::read(file)?;
    let entries = table::read(file, &header, limits, &mut rules)?;
    let pad = header.check_end(file, &mut rules)?;
    let stated = Stated::parse(options, entries.len())?;
    let mut contents = describe(&entries, &header)?;
    let shapes: Vec<LayerShape> = entries.iter().map(|entry| entry.shape).collect();
    contents.checkpoint.graph = graph::build(&shapes, &stated);
    contents.add_notes(stated.note().filter(|_| contents.checkpoint.graph.is_some()));
    contents.repairs = rules.repairs;
    let metadata = &mut contents.checkpoint.metadata;
    metadata.insert(ID, KEY_VERSION, MetadataValue::integer(header.version.number().into()));
    metadata.insert(ID, KEY_MIP, MetadataValue::integer(header.mip.into()));
    if let Some(pad) = pad {
        metadata.insert(ID, KEY_PAD, pad.name());
    }
    Ok(contents)
}

/// Describes the tensors.
fn describe(entries: &[Entry], header: &Header) -> Result<Contents> {
    let mut contents = Contents::default();
    for entry in entries {
        let shape = Shape::new(entry.shape.dims())?;
        let tensor = Tensor::new(weight_name(entry.index), DType::F16, shape).with_axes(AXES);
        let extent = Extent::new(
            FileId(0),
            header.data.saturating_add(entry.start.saturating_mul(WEIGHT_BYTES)),
            entry.weights.saturating_mul(WEIGHT_BYTES),
        );
        let encoding = Encoding::row_major(&tensor);
        let id = TensorId(entry.index);
        contents.placements.push(Placement::new(id, tensor.name.clone(), vec![extent], encoding));
        contents.checkpoint.tensors.push(tensor);
    }
    Ok(contents)
}
