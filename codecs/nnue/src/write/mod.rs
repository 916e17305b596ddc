//! Writes the arrays of a network, and the hashes between them.

mod compress;
mod model;

use crate::format::{
    COMPRESSION, ID, INPUTS, Inputs, LAYERS, LEB128, Layers, MAGIC, MAGIC_BYTES, Network, Part, VERSION,
    WEIGHTS,
};
use ckpt_api::{
    Checkpoint, DType, Encoding, Error, Extent, FileId, Literal, Loss, LossKind, MetadataValue, Options,
    OutputFile, OutputLayout, Placement, Reading, Result, Rounding, Scaling, Setting, Tensor, TensorId,
    Writer, text,
};
pub(crate) use compress::prepare;
use std::collections::HashMap;

/// See [`ckpt_api::Codec::place`].
pub(crate) fn place(checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
    let network = model::network(checkpoint)?;
    let reading = reading_of(&network, options)?;
    if checkpoint.metadata.namespace(ID).is_none() && options.text(COMPRESSION).is_none() {
        let setting = Setting::WRITE_OPTION.of("compression=leb128");
        return Err(Error::unsupported("the checkpoint was not read from a network of Stockfish")
            .help(text!["to make one of its tensors, state how it is stored: ", setting]));
    }
    let mut file = Output::new(checkpoint, options.text(COMPRESSION));
    file.header(&network)?;
    let Network { version, inputs, l1, layers, .. } = &network;
    for part in Network::transformer(*version, inputs, *l1)? {
        file.array(part)?;
    }
    for stack in 0..Network::stacks(inputs) {
        file.literal(&network.layers_hash().to_le_bytes());
        for part in Network::stack(*version, *layers, stack)? {
            file.array(part)?;
        }
    }
    file.finish(name, &network, reading)
}

/// The option with which the layers are found again, if the hashes do not tell them.
fn reading_of(network: &Network, options: &Options) -> Result<Option<(String, String)>> {
    let layers = network.layers;
    let found = Layers::find(network.l1, network.layers_hash(), layers.bytes());
    let sizes = layers.outputs.map(|size| size.to_string()).join(",");
    if found.first() == Some(&layers) && (found.len() == 1 || layers.is_known()) {
        return Ok(None);
    }
    let mut same = found.iter().filter(|other| other.outputs == layers.outputs);
    if same.next() == Some(&layers) && options.text(LAYERS) == Some(&sizes) {
        return Ok(Some((LAYERS.to_owned(), sizes)));
    }
    let error = Error::unsupported("nothing in the file would tell the sizes of these layers")
        .found(format!("{:?} inputs and {sizes} outputs", layers.inputs))
        .expected("layers as Stockfish has them: 32, 16 or 8 outputs, then 32");
    Err(match found.contains(&layers) {
        true => error.help(text![
            "to write them anyway, use ",
            Setting::WRITE_OPTION.of(&format!("{LAYERS}={sizes}"))
        ]),
        false => error,
    })
}

/// A file that is being laid out.
struct Output<'a> {
    checkpoint: &'a Checkpoint,
    ids: HashMap<&'a str, TensorId>,
    compression: Option<&'a str>,
    /// The bytes that were laid out.
    len: u64,
    layout: OutputLayout,
    /// Names of the arrays that are compressed.
    compressed: Vec<MetadataValue>,
    numbers: Vec<TensorId>,
    integers: Option<TensorId>,
}

impl<'a> Output<'a> {
    fn new(checkpoint: &'a Checkpoint, compression: Option<&'a str>) -> Self {
        Output {
            checkpoint,
            ids: checkpoint.by_name(),
            compression,
            len: 0,
            layout: OutputLayout::default(),
            compressed: Vec::new(),
            numbers: Vec::new(),
            integers: None,
        }
    }

    fn header(&mut self, network: &Network) -> Result<()> {
        let transformer = Network::transformer_hash(&network.inputs, network.l1);
        let len = u32::try_from(network.description.len())
            .map_err(|_| Error::unsupported("the description is too long"))?;
        let mut writer = Writer::new();
        writer.number(network.version).number(transformer ^ network.layers_hash()).number(len);
        writer.bytes(network.description.as_bytes()).number(transformer);
        self.literal(&writer.into_bytes());
        Ok(())
    }

    /// Adds bytes, to those before if these are literal, too.
    fn literal(&mut self, bytes: &[u8]) {
        let offset = self.len;
        self.len = offset.saturating_add(bytes.len() as u64);
        match self.layout.literals.last_mut() {
            Some(last) if last.offset.saturating_add(last.bytes.len() as u64) == offset => {
                last.bytes.extend_from_slice(bytes);
            }
            _ => self.layout.literals.push(Literal { file: FileId(0), offset, bytes: bytes.to_vec() }),
        }
    }

    fn array(&mut self, part: Part) -> Result<()> {
        let id = self.ids.get(part.name.as_str()).copied();
        let found = id.and_then(|id| Some((id, self.checkpoint.tensors.get(id.0)?)));
        let (id, tensor) = found.ok_or_else(|| model::missing(self.checkpoint, &part.name))?;
        let stored = Stored::of(tensor, &part)?;
        let (len, encoding) = match stored {
            Stored::Compressed(len) => {
                self.compressed.push(part.name.as_str().into());
                let mut head = MAGIC.to_vec();
                let count = u32::try_from(len).map_err(|_| too_long(&part))?;
                head.extend(count.to_le_bytes());
                debug_assert_eq!(head.len() as u64, MAGIC_BYTES);
                self.literal(&head);
                (len, Encoding::new(DType::U8, vec![0]))
            }
            Stored::Integers => (part.bytes(), Encoding::row_major(tensor)),
            Stored::Numbers(scaling) => {
                self.numbers.push(id);
                let plain = Encoding::row_major(tensor).with_dtype(part.dtype);
                (part.bytes(), plain.with_scaling(scaling))
            }
        };
        if let Stored::Integers = stored {
            self.integers = self.integers.or(Some(id));
        }
        self.check_compression(&part, stored)?;
        let extent = Extent::new(FileId(0), self.len, len);
        self.layout.placements.push(Placement::new(id, part.name, vec![extent], encoding));
        self.len = self.len.saturating_add(len);
        Ok(())
    }

    /// Compares how an array is stored with what the option asks for.
    fn check_compression(&self, part: &Part, stored: Stored) -> Result<()> {
        let is_compressed = matches!(stored, Stored::Compressed(_));
        match self.compression {
            Some("leb128") if part.is_compressible && !is_compressed => Err(Error::unsupported(
                "the array cannot be compressed: its integers are computed on the way",
            )
            .tensor(&part.name)
            .help(text![
                "convert to safetensors first, and that to nnue; or use ",
                Setting::WRITE_OPTION.of("compression=none")
            ])),
            Some("none") if is_compressed => {
                Err(Error::unsupported("the array was read as its compressed bytes")
                    .tensor(&part.name)
                    .help(text!["read its values, with ", Setting::READ_OPTION.of("leb128=values")]))
            }
            _ => Ok(()),
        }
    }

    fn finish(self, name: &str, network: &Network, layers: Option<(String, String)>) -> Result<OutputLayout> {
        let Output { checkpoint, len, mut layout, compressed, numbers, integers, .. } = self;
        let inputs = network.inputs.text.as_str();
        if let (Some(number), Some(integer)) = (numbers.first(), integers) {
            let name = |id: TensorId| checkpoint.tensors.get(id.0).map_or("", |tensor| &tensor.name);
            return Err(Error::unsupported("some tensors are numbers, and others integers")
                .found(format!("floats in '{}', integers in '{}'", name(*number), name(integer)))
                .expected("either for all"));
        }
        let mut options: Vec<(String, String)> = layers.into_iter().collect();
        let mut option = |key: &str, value: &str| options.push((key.to_owned(), value.to_owned()));
        if let Some(features) = Inputs::other_features(inputs) {
            option(INPUTS, &format!("{features}x{}", network.l1));
        }
        if !compressed.is_empty() {
            option(LEB128, "bytes");
        }
        if !numbers.is_empty() {
            option(WEIGHTS, "numbers");
        }
        layout.readings = vec![Reading { entry: name.to_owned(), options, architecture: None }];
        layout.files = vec![OutputFile::new(name, len)];
        let was_integers = checkpoint.metadata.namespace(ID).is_some();
        layout.whole_units = if was_integers { numbers } else { Vec::new() };
        let kept = checkpoint.metadata.value(ID, LEB128);
        if kept.is_some_and(|kept| kept.as_list() != Some(&compressed[..])) {
            let detail = "other arrays of the network are compressed than when it was read";
            let subject = format!("{ID}.{LEB128}");
            layout.losses.push(Loss::new(LossKind::BookkeepingDropped, subject, detail));
        }
        Ok(layout)
    }
}

fn too_long(part: &Part) -> Error {
    Error::unsupported("the compressed array is longer than the format can state").tensor(&part.name)
}

/// How a tensor is stored.
#[derive(Clone, Copy, Debug)]
enum Stored {
    Integers,
    /// Real numbers, as integers that stand for them.
    Numbers(Scaling),
    /// So many bytes of LEB128, which the tensor holds.
    Compressed(u64),
}

impl Stored {
    fn of(tensor: &Tensor, part: &Part) -> Result<Self> {
        let is_alike = tensor.shape == part.shape && tensor.quantization.is_none();
        match tensor.dtype {
            dtype if dtype == part.dtype && is_alike => Ok(Stored::Integers),
            DType::U8 if part.is_compressible && model::is_compressed(tensor) => {
                Ok(Stored::Compressed(tensor.shape.elements()))
            }
            dtype if dtype.is_float() && is_alike => {
                let scale = part.units.ok_or_else(|| {
                    Error::unsupported("the scales of this version are not known")
                        .tensor(&tensor.name)
                        .expected(format!("integers, or version {VERSION:#010x}"))
                })?;
                let limit = None;
                Ok(Stored::Numbers(Scaling { scale, rounding: Rounding::Nearest, limit, each_term: false }))
            }
            dtype => Err(Error::unsupported("the tensor does not fit the network")
                .tensor(&tensor.name)
                .found(format!("{} of {dtype}", tensor.shape))
                .expected(format!("{} of {}", part.shape, part.dtype))),
        }
    }
}
