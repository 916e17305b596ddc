//! Parses the calls that make a tensor.

use super::call::{Rebuilder, arguments_of, field, item, natural, naturals, rebuilder};
use super::describe::{described, or_leave_out, shown_text, unsupported, wrong};
use super::dtensor;
use super::view::{Made, Quantizer, Turned, View};
use crate::container::StorageId;
use crate::format::{Element, StorageClass, element_named};
use ckpt_api::{Error, Result, Shape};
use ckpt_containers::pickle::{Id, Tree, Value, numpy};

/// Calls around a tensor: a parameter of a subclass of a tensor.
const MOST_LAYERS: usize = 16;

/// Whether the pickle gives a tensor attributes of its own.
pub(crate) fn has_attributes(tree: &Tree, id: Id) -> bool {
    let Some(object) = tree.object(id) else { return false };
    let is_given = |id: Id| match tree.value(id) {
        Value::None => false,
        Value::Dict(list) | Value::Tuple(list) | Value::List(list) => !list.is_empty(),
        _ => true,
    };
    let arguments = match tree.value(object.arguments) {
        Value::Tuple(list) => tree.items(list).nth(3),
        _ => None,
    };
    let is_distributed = match tree.value(object.arguments) {
        Value::Tuple(list) => tree.items(list).nth(1).and_then(|class| tree.global(class)),
        _ => None,
    };
    if is_distributed.is_some_and(|(_, name)| name == "DTensor") {
        // Its attributes are the tensor that the rank has, and how the whole is cut.
        return false;
    }
    let given = match tree.global(object.callable) {
        Some(("torch._utils", "_rebuild_parameter_with_state")) | Some((_, "_rebuild_from_type_v2")) => {
            arguments
        }
        _ => None,
    };
    given.is_some_and(is_given) || (object.state.is_some_and(is_given) && !numpy::is_array(tree, object))
}

/// Parses a call that may make a tensor. `Made::Other` for anything that is no such call.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for arguments that PyTorch does not write.
pub(crate) fn made<'a>(tree: &'a Tree, id: Id) -> Result<Made<'a>> {
    let Some(mut object) = tree.object(id) else { return Ok(Made::Other) };
    let (mut callable, mut arguments) = (object.callable, object.arguments);
    let (mut attributes, mut whole, mut stated) = (Id::NONE, None, None);
    for layer in 0..MOST_LAYERS {
        let found = tree.global(callable).and_then(|(module, name)| rebuilder(module, name));
        let Some(rebuilder) = found else {
            return match numpy::array(tree, object)? {
                Some(array) => Ok(Made::Array(Box::new(array), stated)),
                None if layer > 0 => Ok(Made::Unsupported(made_elsewhere(tree, callable))),
                None => Ok(Made::Other),
            };
        };
        let items = arguments_of(tree, arguments)?;
        match rebuilder {
            Rebuilder::Parameter | Rebuilder::Device => {
                if matches!(rebuilder, Rebuilder::Device) {
                    let own = tree.global(item(&items, 1)?).and_then(|(_, name)| element_named(name));
                    stated = own.and_then(|element| element.dtype);
                }
                let inner = tree.object(item(&items, 0)?);
                object = inner.ok_or_else(|| wrong("a parameter holds no tensor"))?;
                (callable, arguments) = (object.callable, object.arguments);
            }
            Rebuilder::FromType => {
                (callable, arguments) = (item(&items, 0)?, item(&items, 2)?);
                attributes = items.get(3).copied().unwrap_or(Id::NONE);
            }
            Rebuilder::Wrapper => {
                let part = match dtensor::local(tree, &items, attributes)? {
                    Ok(part) => part,
                    Err(error) => return Ok(Made::Unsupported(error)),
                };
                object = part.tensor;
                (callable, arguments) = (object.callable, object.arguments);
                whole = Some(part);
            }
            Rebuilder::Plain => return Ok(dtensor::of_rank(plain(tree, &items, None, 6)?, whole)),
            Rebuilder::Typed => {
                let name = tree.global(item(&items, 6)?).filter(|(module, _)| *module == "torch");
                let (_, name) = name.ok_or_else(|| wrong("the type of a tensor is not one of PyTorch's"))?;
                let Some(element) = element_named(name) else {
                    return Ok(Made::Unsupported(unknown_type(name)));
                };
                return Ok(dtensor::of_rank(plain(tree, &items, Some(element), 7)?, whole));
            }
            Rebuilder::Quantized => return Ok(dtensor::of_rank(quantized(tree, &items)?, whole)),
            Rebuilder::Meta => return Ok(Made::Meta),
            Rebuilder::Sparse => return Ok(Made::Unsupported(sparse(tree, &items))),
            Rebuilder::Nested => {
                let error = unsupported("a nested tensor", "save the tensors of tensor.unbind() instead");
                return Ok(Made::Unsupported(error));
            }
            Rebuilder::Other(what) => {
                return Ok(Made::Unsupported(unsupported(what, "save a dense tensor on the CPU instead")));
            }
        }
    }
    Err(wrong("a tensor is wrapped too often"))
}

/// A tensor of `(storage, offset, size, stride, …)`; `metadata` is the index of the dict that may follow.
fn plain<'a>(tree: &'a Tree, items: &[Id], element: Option<Element>, metadata: usize) -> Result<Made<'a>> {
    let mut view = view(tree, items, element)?;
    let Some(dtype) = view.element.dtype else {
        return Ok(Made::Unsupported(unknown_type(view.element.name)));
    };
    let metadata = items.get(metadata).copied().unwrap_or(Id::NONE);
    let flag = |key: &str| Ok::<_, Error>(field(tree, metadata, key)? == Some(Id::TRUE));
    let (is_conjugated, is_negated) = (flag("conj")?, flag("neg")?);
    if is_conjugated || is_negated {
        view.turned = Turned::new(dtype, is_conjugated, is_negated);
        if view.turned.is_none() {
            let what = "a conjugated or negated view of numbers that are no floats";
            let instead = "save tensor.resolve_conj().resolve_neg() instead";
            return Ok(Made::Unsupported(unsupported(what, instead)));
        }
    }
    Ok(Made::Tensor(Box::new(view)))
}

fn view<'a>(tree: &'a Tree, items: &[Id], element: Option<Element>) -> Result<View<'a>> {
    let Value::Persistent(id) = tree.value(item(items, 0)?) else {
        return Err(
            wrong("a tensor has something else than a storage").found(described(tree, item(items, 0)?))
        );
    };
    let storage = StorageId::parse(tree, id)?;
    let element = match (element, storage.class) {
        (Some(element), _) => element,
        (None, StorageClass::Typed(element)) => element,
        (None, StorageClass::Untyped) => crate::format::BYTE,
    };
    let offset = natural(tree, item(items, 1)?).ok_or_else(|| wrong("a tensor has no valid offset"))?;
    let sizes = naturals(tree, item(items, 2)?).ok_or_else(|| wrong("a tensor has no valid size"))?;
    let strides = naturals(tree, item(items, 3)?).ok_or_else(|| wrong("a tensor has no valid strides"))?;
    if sizes.len() != strides.len() {
        return Err(wrong("a tensor has other axes than strides")
            .found(format!("{strides:?}"))
            .expected(format!("as many as {sizes:?}")));
    }
    Ok(View {
        storage,
        element,
        offset,
        shape: Shape::new(sizes)?,
        strides,
        quantizer: None,
        turned: None,
        distributed: None,
    })
}

fn quantized<'a>(tree: &'a Tree, items: &[Id]) -> Result<Made<'a>> {
    let mut view = view(tree, items, None)?;
    if view.element.dtype.is_none() {
        return Ok(Made::Unsupported(unknown_type(view.element.name)));
    }
    let quantizer = arguments_of(tree, item(items, 4)?)?;
    let scheme = tree.global(item(&quantizer, 0)?).map(|(_, name)| name);
    view.quantizer = Some(match scheme {
        Some("per_tensor_affine") => {
            let scale = match tree.value(item(&quantizer, 1)?) {
                Value::Float(scale) => scale,
                _ => return Err(wrong("a quantized tensor has no valid scale")),
            };
            let zero_point = tree.int(item(&quantizer, 2)?);
            let zero_point = zero_point.ok_or_else(|| wrong("a quantized tensor has no valid zero point"))?;
            Quantizer::Tensor { scale, zero_point }
        }
        Some("per_channel_affine" | "per_channel_affine_float_qparams") => {
            let [scales, zero_points] = [item(&quantizer, 1)?, item(&quantizer, 2)?];
            let axis = natural(tree, item(&quantizer, 3)?);
            let axis = axis.filter(|axis| *axis < view.shape.rank() as u64);
            let axis = axis.ok_or_else(|| wrong("a quantized tensor has no valid axis"))?;
            Quantizer::Channel { scales, zero_points, axis }
        }
        _ => {
            return Ok(Made::Unsupported(unsupported(
                "a tensor that is quantized in an unknown way",
                "save tensor.dequantize() instead",
            )));
        }
    });
    Ok(Made::Tensor(Box::new(view)))
}

/// The error of a tensor that some function makes in its own way, such as that of a subclass.
fn made_elsewhere(tree: &Tree, callable: Id) -> Error {
    unsupported("a tensor that an unknown function makes", "save a plain tensor instead")
        .found(described(tree, callable))
}

/// The error of a sparse tensor, with its layout: `torch.sparse_csr`.
fn sparse(tree: &Tree, items: &[Id]) -> Error {
    let layout = items.first().and_then(|layout| tree.object(*layout));
    let layout = layout.and_then(|layout| tree.tuple(layout.arguments)).and_then(|[name]| tree.text(name));
    let error = unsupported("a sparse tensor", "save tensor.to_dense() instead");
    match layout {
        Some(layout) => error.found(shown_text(layout)),
        None => error,
    }
}

fn unknown_type(name: &str) -> Error {
    let instead = match name {
        "complex32" => "save tensor.to(torch.complex64) instead",
        "quint4x2" | "quint2x4" => "save tensor.dequantize() instead",
        "float4_e2m1fn_x2" => "save tensor.view(torch.uint8) instead, which has its bytes",
        _ if name.starts_with("bits") => "save tensor.view(torch.uint8) instead, which has its bytes",
        _ => "save it as another type",
    };
    Error::unsupported("the tensor's type is not supported")
        .found(format!("torch.{}", shown_text(name)))
        .help(or_leave_out(instead))
}
