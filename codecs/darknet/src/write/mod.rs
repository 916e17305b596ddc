//! Writes the weights of the layers of a `.cfg`, and the `.cfg`.

use crate::format::{CFG, Header, ID, LAYERS, Network, WEIGHT_BYTES, cfg_at, cfg_of, tensor_name};
use crate::graph::{self, Returned};
use ckpt_api::{
    Aspect, Checkpoint, DType, Encoding, Error, Extent, FileId, Limits, Literal, Options, OutputFile,
    OutputLayout, Placement, Reading, Result, Setting, Shape, Tensor, TensorId, text,
};

/// The file of weights, and the `.cfg`.
const WEIGHTS: FileId = FileId(1);
const TEXT: FileId = FileId(0);

/// See [`ckpt_api::Codec::place`].
pub(crate) fn place(checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
    let (cfg, named) = cfg_of(name);
    if cfg == name {
        return Err(Error::usage("the output is named as its .cfg is").found(name).expected("NAME.weights"));
    }
    let (text, shown) = text(checkpoint, options)?;
    // The name of the output is read again, and may state a shorter prefix.
    let layers = named.or_else(|| checkpoint.metadata.value(ID, LAYERS)?.as_u64());
    let network = Network::parse(&text, layers, &Limits::default()).map_err(|error| error.file(shown))?;
    let header = Header::of(checkpoint);
    let (placements, len) = placements(checkpoint, &network, &header)?;
    let mut layout = OutputLayout::default()
        .with_files(vec![OutputFile::new(&cfg, text.len() as u64), OutputFile::new(name, len)])
        .with_literals(vec![
            Literal { file: TEXT, offset: 0, bytes: text.into_bytes() },
            Literal { file: WEIGHTS, offset: 0, bytes: header.bytes() },
        ]);
    if let Some(layers) = layers.filter(|_| named != layers) {
        let options = vec![(LAYERS.to_owned(), layers.to_string())];
        layout.readings = vec![Reading { entry: name.to_owned(), options, architecture: None }];
    }
    let same_axes = placements.iter().all(|(placement, part)| {
        let own = checkpoint.tensors.get(placement.tensor.0).and_then(|tensor| tensor.axes.as_deref());
        own.is_none_or(|own| *own == **part)
    });
    layout.placements = placements.into_iter().map(|(placement, _)| placement).collect();
    leave_out(&mut layout, checkpoint, &network, same_axes);
    Ok(layout)
}

/// The text of the `.cfg` that the option names, or that was read, and what errors call it.
fn text(checkpoint: &Checkpoint, options: &Options) -> Result<(String, String)> {
    if let Some(path) = options.text(CFG) {
        return cfg_at(path, &Limits::default()).map_err(|error| error.field(CFG));
    }
    let kept = checkpoint.metadata.text(ID, CFG);
    kept.map(|text| (text.to_owned(), "the .cfg that was read".to_owned())).ok_or_else(|| {
        Error::unsupported("weights of Darknet mean nothing without their .cfg, and the source has none")
            .help(text!["name the .cfg of the model with ", Setting::WRITE_OPTION.of("cfg=FILE")])
    })
}

type Placed = Vec<(Placement, &'static [ckpt_api::Axis])>;

/// Places the tensors of the layers, and returns the length of the file, too.
fn placements(checkpoint: &Checkpoint, network: &Network, header: &Header) -> Result<(Placed, u64)> {
    let ids = checkpoint.by_name();
    let mut placements = Placed::new();
    let mut at = header.len();
    for (index, layer) in network.layers.iter().enumerate() {
        for part in layer.parts() {
            let name = tensor_name(index, layer.section, part.name());
            let (dims, axes) = layer.shape(part)?;
            let shape = Shape::new(dims)?;
            let id = ids.get(name.as_str()).copied().ok_or_else(|| {
                Error::unsupported("the checkpoint lacks a tensor of the .cfg")
                    .tensor(&name)
                    .expected(format!("{shape} of 32-bit floats"))
                    .help(text!["give the tensors these names with ", Setting::MAPPING])
            })?;
            let tensor = checkpoint.tensors.get(id.0).filter(|tensor| tensor.shape == shape);
            let tensor = tensor.ok_or_else(|| misfit(checkpoint, id, &shape))?;
            check_numbers(tensor)?;
            let len = shape.elements().saturating_mul(WEIGHT_BYTES);
            let encoding = Encoding::new(DType::F32, layer.order(part, header.is_transposed()));
            let extent = Extent::new(WEIGHTS, at, len);
            placements.push((Placement::new(id, name, vec![extent], encoding), axes));
            at = at.saturating_add(len);
        }
    }
    Ok((placements, at))
}

fn misfit(checkpoint: &Checkpoint, id: TensorId, shape: &Shape) -> Error {
    let found = checkpoint.tensors.get(id.0);
    Error::unsupported("a tensor has another shape than the .cfg states")
        .tensor(found.map_or("", |tensor| &tensor.name))
        .found(found.map(|tensor| tensor.shape.to_string()).unwrap_or_default())
        .expected(shape.to_string())
}

/// Refuses what is no plain number: integers with scales, and texts.
fn check_numbers(tensor: &Tensor) -> Result<()> {
    if tensor.quantization.is_none() && tensor.dtype.is_float() {
        return Ok(());
    }
    let found = if tensor.quantization.is_some() { "integers with scales" } else { tensor.dtype.name() };
    let error = Error::unsupported("the tensor does not consist of real numbers").tensor(&tensor.name);
    Err(error.found(found).help(text!["convert with ", Setting::DTYPE.of("f32")]))
}

/// Declares what does not come back from the `.cfg`.
fn leave_out(layout: &mut OutputLayout, checkpoint: &Checkpoint, network: &Network, same_axes: bool) {
    if !same_axes {
        layout.left_out.insert(Aspect::Axes, "the .cfg states another order of axes".to_owned());
    }
    let Some(graph) = &checkpoint.graph else { return };
    if graph::build(network, Returned::Boxes).as_ref() != Ok(graph) {
        layout.left_out.insert(Aspect::Graph, "the .cfg states other layers".to_owned());
    }
}
