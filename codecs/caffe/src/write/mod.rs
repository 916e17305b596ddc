//! Writes a model that was read, or another one, with these values.

use crate::format::{ID, LIKE, NET};
use crate::read::{self, read_back};
use ckpt_api::{
    Aspect, Checkpoint, Contents, Error, FileId, Input, Limits, Literal, Options, OutputFile, OutputLayout,
    Placement, Result, Setting, Tensor, text,
};
use ckpt_containers::structure::Structure;
use std::sync::Arc;

/// The `.prototxt` that is written beside the model.
const TEXT: FileId = FileId(1);

/// See [`ckpt_api::Codec::place`].
pub(crate) fn place(checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
    let (structure, net) = template(checkpoint, options)?;
    let structure = Arc::new(structure);
    let before = read_back(&structure, net.as_deref(), name)?;
    let placements = placements(checkpoint, &before)?;
    let mut layout = OutputLayout::default()
        .with_files(vec![OutputFile::new(name, structure.file_len().unwrap_or(0))])
        .with_placements(placements)
        .with_literals(structure.to_literals())
        .with_working_memory(structure.bytes.len() as u64);
    if let Some(text) = net {
        let stem = name.strip_suffix(".caffemodel").unwrap_or(name);
        layout.files.push(OutputFile::new(format!("{stem}.prototxt"), text.len() as u64));
        layout.literals.push(Literal { file: TEXT, offset: 0, bytes: text.into_bytes() });
    }
    if checkpoint.graph.is_some() && checkpoint.graph != before.checkpoint.graph {
        layout.left_out.insert(Aspect::Graph, "the model states other layers".to_owned());
    }
    let ids = checkpoint.by_name();
    let same_axes = before.checkpoint.tensors.iter().all(|tensor| {
        let own = ids.get(tensor.name.as_str()).and_then(|id| checkpoint.tensors.get(id.0));
        own.is_none_or(|own| own.axes.is_none() || own.axes == tensor.axes)
    });
    if !same_axes {
        layout.left_out.insert(Aspect::Axes, "the model states another order of axes".to_owned());
    }
    Ok(layout)
}

/// The model whose values are replaced, without them, and its `.prototxt`: the one that the option names, or that was read.
fn template(checkpoint: &Checkpoint, options: &Options) -> Result<(Structure, Option<String>)> {
    let like = match options.text(LIKE) {
        Some(path) => {
            let input = Input::open(path).map_err(|error| error.field(LIKE))?;
            Some(read::read(&input, &Options::default(), &Limits::default())?.checkpoint)
        }
        None => None,
    };
    let metadata = &like.as_ref().unwrap_or(checkpoint).metadata;
    let structure = Structure::kept(metadata, ID).ok_or_else(|| {
        Error::unsupported("a model of Caffe is written with the values of another one, which is not known")
            .found("no model that was read, or one whose numbers are not packed, or with more than 64 MiB beside them")
            .expected("the layers of a .caffemodel")
            .help(text!["name the model with ", Setting::WRITE_OPTION.of("like=FILE")])
    })?;
    Ok((structure, metadata.text(ID, NET).map(str::to_owned)))
}

/// Places the tensors of the model, each of which the checkpoint has.
fn placements(checkpoint: &Checkpoint, before: &Contents) -> Result<Vec<Placement>> {
    let ids = checkpoint.by_name();
    let tensors = before.checkpoint.tensors.iter().zip(&before.placements);
    let placement = |(tensor, placement): (&Tensor, &Placement)| {
        let id = ids.get(tensor.name.as_str()).copied();
        let found = id.and_then(|id| checkpoint.tensors.get(id.0));
        let Some((id, own)) = id.zip(found.filter(|own| own.shape == tensor.shape)) else {
            return Err(Error::unsupported("the checkpoint lacks a blob of the model")
                .tensor(&tensor.name)
                .found(found.map_or("none of this name".to_owned(), |own| own.shape.to_string()))
                .expected(format!("{} of {}", tensor.shape, tensor.dtype))
                .help(text!["give the tensors these names with ", Setting::MAPPING]));
        };
        if own.quantization.is_some() || !own.dtype.is_float() {
            let error = Error::unsupported("the tensor does not consist of real numbers").tensor(&own.name);
            return Err(error.found(own.dtype.name()).help(text!["convert with ", Setting::DTYPE.of("f32")]));
        }
        Ok(placement.clone().with_tensor(id))
    };
    tensors.map(placement).collect()
}
