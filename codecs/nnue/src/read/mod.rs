//! Recognizes networks of Stockfish, and describes their tensors.

mod header;
mod located;
mod network;

use crate::format::{ID, INPUTS, LAYERS, LEB128, MAX_DESCRIPTION, Network, VERSION, VERSIONS, WEIGHTS};
use crate::leb128;
use ckpt_api::{
    Contents, DType, Encoding, Error, Extent, Fields, FileId, Input, Limit, Limits, Match, MetadataValue,
    Options, Placement, Result, Rounding, Scaling, Setting, Shape, Tensor, TensorId, text,
};
use header::Header;
use located::Located;

/// Certain if the file begins with a version, and the description that follows is as long as it states.
pub(crate) fn probe(input: &Input) -> Result<Match> {
    if !input.is_file() {
        return Ok(Match::No);
    }
    let Some(head) = input.head::<12>()? else { return Ok(Match::No) };
    let [version, _, description] = *head.as_chunks().0 else { return Ok(Match::No) };
    let [version, description] = [version, description].map(u32::from_le_bytes);
    let is_whole = 16 + u64::from(description) <= input.main()?.len();
    Ok(match VERSIONS.contains(&version) && u64::from(description) <= MAX_DESCRIPTION && is_whole {
        true => Match::Certain(format!("begins with the version {version:#010x} of networks of Stockfish")),
        false => Match::No,
    })
}

/// Reads everything but the weights.
pub(crate) fn read(input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
    input.read_alone("a network of Stockfish", |file| {
        let mut fields = Fields::new(file);
        let header = Header::read(&mut fields, limits)?;
        let wanted = options.text(LAYERS).map(sizes).transpose()?;
        let stated = options.text(INPUTS).map(inputs).transpose()?;
        let (network, located) = network::find(file, header, fields.position(), (stated, wanted))?;
        let view = View::of(options, &network)?;
        let mut contents = Contents::default();
        for array in &located {
            limits.check(Limit::Tensors, contents.placements.len() as u64 + 1)?;
            view.add(&mut contents, array)?;
        }
        describe(&mut contents, &network, &located);
        Ok(contents)
    })
}

/// The sizes that the option states, as `32,32`.
fn sizes(text: &str) -> Result<[u32; 2]> {
    let numbers = text.split(',').map(|number| number.trim().parse().ok().filter(|number| *number > 0));
    let sizes = numbers.collect::<Option<Vec<u32>>>().and_then(|numbers| numbers.try_into().ok());
    sizes.ok_or_else(|| {
        Error::usage("these are no sizes of layers")
            .field(LAYERS)
            .found(text.to_owned())
            .expected("the outputs of the first and of the second layer, such as 32,32")
    })
}

/// The features and neurons that the option states, as `768x128`.
fn inputs(text: &str) -> Result<(u64, u32)> {
    let numbers = text.split_once('x').and_then(|(features, neurons)| {
        Some((features.parse().ok()?, neurons.parse().ok()?))
            .filter(|(features, neurons)| *features > 0 && *neurons > 0)
    });
    numbers.ok_or_else(|| {
        Error::usage("these are no inputs")
            .field(INPUTS)
            .found(text.to_owned())
            .expected("the numbers of features and of neurons, such as 768x128")
    })
}

/// How arrays are read.
struct View {
    as_numbers: bool,
    as_bytes: bool,
}

impl View {
    fn of(options: &Options, network: &Network) -> Result<Self> {
        let view = View {
            as_numbers: options.text(WEIGHTS) == Some("numbers"),
            as_bytes: options.text(LEB128) == Some("bytes"),
        };
        if view.as_numbers && network.version != VERSION {
            let keep = Setting::READ_OPTION.of("weights=integers");
            return Err(Error::unsupported("the scales of this version are not known")
                .found(format!("version {:#010x}", network.version))
                .expected(format!("version {VERSION:#010x}"))
                .help(text!["to read the integers, use ", keep]));
        }
        Ok(view)
    }

    fn add(&self, contents: &mut Contents, array: &Located) -> Result<()> {
        let Located { part, offset, compressed } = array;
        let id = TensorId(contents.placements.len());
        let (mut dtype, mut shape) = (part.dtype, part.shape.clone());
        let mut encoding = Encoding::new(dtype, (0..shape.rank()).collect::<Vec<_>>());
        let mut extent = Extent::new(FileId(0), *offset, part.bytes());
        match *compressed {
            Some(stored) if self.as_bytes => {
                (dtype, shape) = (DType::U8, Shape::new([stored])?);
                encoding = Encoding::new(dtype, vec![0]);
                extent = Extent::new(FileId(0), *offset, stored);
            }
            Some(stored) => {
                let width = dtype.bytes().unwrap_or_default();
                extent = extent.with_compression(leb128::decoded(width, stored));
            }
            None => {}
        }
        if let Some(scale) = part.units.filter(|_| self.as_numbers && dtype != DType::U8) {
            let scaling = Scaling { scale, rounding: Rounding::Nearest, limit: None, each_term: false };
            encoding = encoding.with_scaling(scaling);
            dtype = DType::F32;
        }
        contents.placements.push(Placement::new(id, part.name.clone(), vec![extent], encoding));
        contents.checkpoint.tensors.push(Tensor::new(part.name.clone(), dtype, shape));
        Ok(())
    }
}

fn describe(contents: &mut Contents, network: &Network, located: &[Located]) {
    let metadata = &mut contents.checkpoint.metadata;
    network.keep(metadata);
    let compressed = located.iter().filter(|array| array.compressed.is_some());
    let names: Vec<MetadataValue> = compressed.map(|array| array.part.name.as_str().into()).collect();
    let count = names.len();
    metadata.insert(ID, LEB128, MetadataValue::List(names));
    let stored = match count {
        0 => "no array is compressed".to_owned(),
        count => format!("{} compressed", ckpt_api::count(count, "array")),
    };
    contents.add_notes([format!("{}: {}; {stored}", network.inputs.text, network.architecture())]);
}
