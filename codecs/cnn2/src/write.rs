//! Writing: header, layer table, and where the weights go.

use crate::format::{
    self, KEY_MIP, KEY_PAD, KEY_VERSION, LAYER_BYTES, MAGIC, Pad, Version, WEIGHT_BYTES, layer_name,
    weight_name,
};
use crate::model::{Bias, Layer, Model};
use ckpt_api::{
    Block, Checkpoint, DType, Encoding, Endian, Error, Extent, FileId, Loss, LossKind, Options, OutputFile,
    Packing, Placed, Placement, Result, Tensor,
};

/// Says where every weight goes. See [`ckpt_api::Codec::place`].
pub(crate) fn place(checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<Placed> {
    let model = Model::of(checkpoint)?;
    let mut losses = Vec::new();
    let settings = Settings::of(checkpoint, options, &mut losses);
    for layer in &model.layers {
        losses.extend(dtype_loss(layer.weight)?);
        losses.extend(layer.bias.as_ref().map(|bias| folded(layer, bias)));
    }
    tensor_losses(checkpoint, &model, &mut losses)?;
    losses.extend(unsaid_loss(&model.unsaid));
    let mut placed = layout(name, &model.layers, &settings)?;
    placed.losses = losses;
    Ok(placed)
}

/// What the file says beside its layers.
struct Settings {
    version: Version,
    mip: u32,
    pad: Pad,
}

impl Settings {
    /// The options', else the source's own, else the usual.
    fn of(checkpoint: &Checkpoint, options: &Options, losses: &mut Vec<Loss>) -> Self {
        let own = Own::of(checkpoint, losses);
        let number = |name: &str| options.text(name).and_then(|text| text.parse().ok());
        let mip = number("mip").or(own.mip).unwrap_or(0);
        let asked = number("version").and_then(Version::from_number);
        let usual = if mip > 0 { Version::Two } else { own.version.unwrap_or(Version::One) };
        let version = asked.unwrap_or(usual);
        if version == Version::One && mip > 0 {
            let detail = format!("version 1 has no place for mip level {mip}: its readers take level 0");
            losses.push(Loss::new(LossKind::MetadataDropped, "cnn2.mip", detail));
        }
        let pad = options.text("pad").and_then(Pad::from_name).or(own.pad).unwrap_or(Pad::Zero);
        Settings { version, mip, pad }
    }
}

/// What an earlier reading of a CNN2 file left in the metadata.
#[derive(Default)]
struct Own {
    version: Option<Version>,
    mip: Option<u32>,
    pad: Option<Pad>,
}

impl Own {
    fn of(checkpoint: &Checkpoint, losses: &mut Vec<Loss>) -> Self {
        let mut own = Own::default();
        for (key, value) in checkpoint.metadata.namespace(format::ID).into_iter().flatten() {
            let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
            let known = match key.as_str() {
                KEY_VERSION => {
                    own.version = number.and_then(Version::from_number);
                    own.version.is_some()
                }
                KEY_MIP => {
                    own.mip = number.and_then(format::mip);
                    own.mip.is_some()
                }
                KEY_PAD => {
                    own.pad = value.as_str().and_then(Pad::from_name);
                    own.pad.is_some()
                }
                _ => false,
            };
            if !known {
                let detail = "a CNN2 file has no place for it";
                losses.push(Loss::new(LossKind::MetadataDropped, format!("cnn2.{key}"), detail));
            }
        }
        own
    }
}

fn folded(layer: &Layer<'_>, bias: &Bias<'_>) -> Loss {
    let (tap, channel) = (layer.shape.kernel / 2, bias.channel);
    let detail = format!(
        "added to '{}' at [out, {channel}, {tap}, {tap}]: input {channel} is always 1.0",
        layer.weight.name
    );
    Loss::new(LossKind::Merged, &bias.tensor.name, detail)
}

fn dtype_loss(weight: &Tensor) -> Result<Option<Loss>> {
    if weight.quantization.is_some() || !weight.dtype.is_float() {
        let found = if weight.quantization.is_some() { "scaled integers" } else { weight.dtype.name() };
        return Err(Error::unsupported("the tensor's values are not real numbers that f16 stands for")
            .tensor(&weight.name)
            .found(found)
            .expected("a floating-point dtype: CNN2 stores f16"));
    }
    Ok(match weight.dtype {
        DType::F16 => None,
        dtype @ (DType::F64 | DType::F32 | DType::Bf16 | DType::F8E8m0) => {
            Some(Loss::new(LossKind::Narrowed, &weight.name, format!("{dtype} is stored as f16")))
        }
        dtype => {
            Some(Loss::new(LossKind::Retyped, &weight.name, format!("{dtype} is stored as f16, exactly")))
        }
    })
}

/// Losses of tensors: those left out, what is said of single ones, and names.
fn tensor_losses(checkpoint: &Checkpoint, model: &Model<'_>, losses: &mut Vec<Loss>) -> Result<()> {
    let mut used = vec![false; checkpoint.tensors.len()];
    for layer in &model.layers {
        if used.get_mut(layer.id.0).is_none_or(|used| std::mem::replace(used, true)) {
            return Err(Error::unsupported("two layers share a weight, which a CNN2 file cannot say")
                .field(&layer.name)
                .tensor(&layer.weight.name));
        }
        if let Some(used) = layer.bias.as_ref().and_then(|bias| used.get_mut(bias.id.0)) {
            *used = true;
        }
    }
    for (tensor, _) in checkpoint.tensors.iter().zip(&used).filter(|(_, used)| !**used) {
        let detail = "no layer uses it, and a CNN2 file holds nothing but the weights of its layers";
        losses.push(Loss::new(LossKind::of_dropping(tensor.role), &tensor.name, detail));
    }
    let described = model.layers.iter().filter(|layer| !layer.weight.metadata.is_empty()).count();
    if described > 0 {
        let detail = format!("{described} of the tensors have some: a CNN2 file has no place for it");
        losses.push(Loss::new(LossKind::MetadataDropped, "metadata", detail));
    }
    let named = |(index, layer): &(usize, &Layer<'_>)| {
        layer.name == layer_name(*index) && layer.weight.name == weight_name(*index)
    };
    let renamed = model.layers.iter().enumerate().filter(|layer| !named(layer)).count();
    if renamed > 0 {
        let detail = format!("{renamed} of the layers are known by their place alone, as layer1, layer2, …");
        losses.push(Loss::new(LossKind::NamesDropped, "names", detail));
    }
    Ok(())
}

/// What the renderer has to be told, because the file does not say it.
fn unsaid_loss(unsaid: &[String]) -> Option<Loss> {
    const SHOWN: usize = 8;
    let more = unsaid.len().saturating_sub(SHOWN);
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
    let shown: Vec<&str> = unsaid.iter().take(SHOWN).map(String::as_str).collect();
    (!unsaid.is_empty()).then(|| {
        let detail = format!("CNN2 states neither activations nor borders: {}{tail}", shown.join(", "));
        Loss::new(LossKind::GraphDropped, "activations and borders", detail)
    })
}

/// Header and table in one block, then the weights of one layer after the other.
fn layout(name: &str, layers: &[Layer<'_>], settings: &Settings) -> Result<Placed> {
    let table = (layers.len() as u64).checked_mul(LAYER_BYTES).ok_or_else(too_large)?;
    let data = settings.version.header_bytes().checked_add(table).ok_or_else(too_large)?;
    let mut entries = Vec::new();
    let mut placements = Vec::new();
    let mut weights = 0u64;
    for (index, layer) in layers.iter().enumerate() {
        let on_layer = |error: Error| error.field(&layer.name).tensor(&layer.weight.name);
        let count = layer.shape.weights().ok_or_else(too_large).map_err(on_layer)?;
        let [outputs, inputs, kernel, _] = layer.shape.dims();
        for number in [kernel, inputs, outputs, weights, count] {
            put(&mut entries, number).map_err(on_layer)?;
        }
        let start = weights.checked_mul(WEIGHT_BYTES).and_then(|start| start.checked_add(data));
        let extent = Extent {
            file: FileId(0),
            offset: start.ok_or_else(too_large)?,
            len: count.checked_mul(WEIGHT_BYTES).ok_or_else(too_large)?,
            region: None,
            checksum: None,
        };
        let encoding = Encoding {
            dtype: DType::F16,
            endian: Endian::Little,
            order: layer.order.clone(),
            packing: Packing::Bytes,
            scaling: None,
            tiles: Vec::new(),
        };
        let placement = Placement::new(layer.id, weight_name(index), vec![extent], encoding);
        placements.push(Placement { added: layer.added(), ..placement });
        weights = weights.checked_add(count).ok_or_else(too_large)?;
    }
    let mut header = MAGIC.to_vec();
    for number in [u64::from(settings.version.number()), layers.len() as u64, weights] {
        put(&mut header, number)?;
    }
    if settings.version == Version::Two {
        put(&mut header, u64::from(settings.mip))?;
    }
    header.extend_from_slice(&entries);
    let len = settings.pad.data_bytes(weights).and_then(|len| len.checked_add(data)).ok_or_else(too_large)?;
    Ok(Placed {
        files: vec![OutputFile { name: name.to_owned(), len: Some(len) }],
        blocks: vec![Block { file: FileId(0), offset: 0, bytes: header }],
        placements,
        ..Placed::default()
    })
}

fn put(bytes: &mut Vec<u8>, number: u64) -> Result<()> {
    let number = u32::try_from(number).map_err(|_| too_large().found(number.to_string()))?;
    bytes.extend_from_slice(&number.to_le_bytes());
    Ok(())
}

fn too_large() -> Error {
    Error::unsupported("the model is too large for a CNN2 file").expected("fewer than 2^32 weights")
}
