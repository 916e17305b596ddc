//! Recognizes the calls that make a tensor, and parses their arguments.

use super::dtensor::{self, Distributed};
use super::numpy::{self, Array};
use crate::container::StorageId;
use crate::format::{Element, StorageClass, element_named};
use crate::pickle::{Id, Object, Tree, Value, shown};
use ckpt_api::{DType, Endian, Error, Result, Setting, Shape, Signs};
use smallvec::SmallVec;

/// Calls around a tensor: a parameter of a subclass of a tensor.
const MOST_LAYERS: usize = 16;
/// Arguments of a call: no function takes more.
const MOST_ARGUMENTS: usize = 16;

type Arguments = SmallVec<[Id; MOST_ARGUMENTS]>;

/// A tensor as the pickle describes it: a view of a storage.
#[derive(Clone, Debug)]
pub(crate) struct View<'a> {
    pub(crate) storage: StorageId<'a>,
    pub(crate) element: Element,
    /// First element in the storage, in elements of `element`.
    pub(crate) offset: u64,
    pub(crate) shape: Shape,
    /// Elements from one index of an axis to the next.
    pub(crate) strides: Vec<u64>,
    pub(crate) quantizer: Option<Quantizer>,
    pub(crate) turned: Option<Turned>,
    /// Of which distributed tensor it is what one rank has.
    pub(crate) distributed: Option<Box<Distributed>>,
}

/// Which parts of a view's floats are stored with the other sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turned {
    /// All: a negated view.
    All,
    /// The imaginary parts: a conjugated view.
    Imaginary,
    /// The real parts: a conjugated view that is negated.
    Real,
}

impl Turned {
    /// Returns what these flags mean for a type; `None` if it has no signs that are bits of their own.
    fn new(dtype: DType, is_conjugated: bool, is_negated: bool) -> Option<Self> {
        match dtype {
            DType::C64 | DType::C128 if is_conjugated && is_negated => Some(Turned::Real),
            DType::C64 | DType::C128 if is_conjugated => Some(Turned::Imaginary),
            DType::C64 | DType::C128 | DType::F64 | DType::F32 | DType::F16 | DType::Bf16
                if !is_conjugated =>
            {
                Some(Turned::All)
            }
            _ => None,
        }
    }

    /// Returns where the signs are in numbers of this type.
    pub(crate) fn signs(self, dtype: DType, endian: Endian) -> Option<Signs> {
        let part = u8::try_from(dtype.component_bytes()).ok()?;
        let upper = match endian {
            Endian::Little => part.checked_sub(1)?,
            Endian::Big => 0,
        };
        match self {
            Turned::All => Signs::new(part, upper),
            Turned::Real => Signs::new(part.checked_mul(2)?, upper),
            Turned::Imaginary => Signs::new(part.checked_mul(2)?, part.checked_add(upper)?),
        }
    }
}

/// What the integers of a quantized tensor stand for: `(integer - zero_point) * scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Quantizer {
    Tensor {
        scale: f64,
        zero_point: i64,
    },
    /// Scales and zero points, which are tensors, along an axis.
    Channel {
        scales: Id,
        zero_points: Id,
        axis: u64,
    },
}

/// What a call makes.
#[derive(Debug)]
pub(crate) enum Made<'a> {
    /// No tensor.
    Other,
    Tensor(Box<View<'a>>),
    /// An array of NumPy.
    Array(Box<Array>),
    /// A tensor without data, on the device `meta`.
    Meta,
    /// A tensor that cannot be represented.
    Unsupported(Error),
}

/// Whether a call makes a tensor or an array of numbers, as far as its name tells.
pub(crate) fn is_tensor(tree: &Tree, object: Object) -> bool {
    tree.global(object.callable).is_some_and(|(module, name)| rebuilder(module, name).is_some())
        || numpy::is_array(tree, object)
}

/// Whether the pickle gives a tensor attributes of its own.
pub(crate) fn has_attributes(tree: &Tree, id: Id) -> bool {
    let Some(object) = tree.object(id) else { return false };
    let is_given = |id: Id| match tree.value(id) {
        Value::None => false,
        Value::Dict(list) | Value::Tuple(list) | Value::List(list) => list.len() > 0,
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

#[derive(Clone, Copy)]
enum Rebuilder {
    /// Storage, offset, size, stride.
    Plain,
    /// The same with a type.
    Typed,
    Parameter,
    FromType,
    Quantized,
    Meta,
    Sparse,
    Nested,
    /// A subclass, whose tensors are its attributes.
    Wrapper,
    /// A tensor or an array with the values that a device had.
    Device,
    Other(&'static str),
}

fn rebuilder(module: &str, name: &str) -> Option<Rebuilder> {
    match (module, name) {
        ("torch._utils", name) => Some(match name {
            "_rebuild_tensor_v2" | "_rebuild_tensor" => Rebuilder::Plain,
            "_rebuild_tensor_v3" => Rebuilder::Typed,
            "_rebuild_parameter" | "_rebuild_parameter_with_state" => Rebuilder::Parameter,
            "_rebuild_qtensor" => Rebuilder::Quantized,
            "_rebuild_meta_tensor_no_storage" => Rebuilder::Meta,
            "_rebuild_sparse_tensor" | "_rebuild_sparse_csr_tensor" => Rebuilder::Sparse,
            "_rebuild_nested_tensor" => Rebuilder::Nested,
            "_rebuild_wrapper_subclass" => Rebuilder::Wrapper,
            "_rebuild_device_tensor_from_numpy"
            | "_rebuild_device_tensor_from_cpu_tensor"
            | "_rebuild_xla_tensor" => Rebuilder::Device,
            _ if name.starts_with("_rebuild_") => Rebuilder::Other("a tensor of an unknown kind"),
            _ => return None,
        }),
        ("torch.nested._internal.nested_tensor", "_rebuild_njt") => Some(Rebuilder::Nested),
        ("torch._tensor" | "torch.tensor", "_rebuild_from_type" | "_rebuild_from_type_v2") => {
            Some(Rebuilder::FromType)
        }
        ("torch.nn.parameter", "Parameter") | ("torch", "Tensor") => {
            Some(Rebuilder::Other("a tensor that was pickled without torch.save"))
        }
        _ => None,
    }
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
                Some(array) => Ok(Made::Array(Box::new(array.of_tensor(stated)))),
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

fn arguments_of(tree: &Tree, id: Id) -> Result<Arguments> {
    match tree.value(id) {
        Value::Tuple(list) | Value::List(list) => Ok(tree.items(list).take(MOST_ARGUMENTS).collect()),
        _ => Err(wrong("the arguments of a tensor are no tuple")),
    }
}

pub(super) fn item(items: &[Id], index: usize) -> Result<Id> {
    items
        .get(index)
        .copied()
        .ok_or_else(|| wrong("a tensor has too few arguments").found(items.len().to_string()))
}

/// The value of a key in the attributes of a tensor, if they are a dict. Many tensors may share one: it has to be small.
pub(super) fn field(tree: &Tree, dict: Id, key: &str) -> Result<Option<Id>> {
    const MOST_FIELDS: usize = 256;
    match tree.value(dict) {
        Value::Dict(list) if list.len() / 2 > MOST_FIELDS => {
            Err(Error::limit("a tensor has too many attributes").expected(format!("at most {MOST_FIELDS}")))
        }
        _ => Ok(tree.entry(dict, key)),
    }
}

fn natural(tree: &Tree, id: Id) -> Option<u64> {
    tree.int(id).and_then(|number| u64::try_from(number).ok())
}

pub(super) fn naturals(tree: &Tree, id: Id) -> Option<Vec<u64>> {
    const MOST_AXES: usize = 1024;
    let id = match tree.object(id) {
        // torch.Size((2, 3))
        Some(size) if tree.global(size.callable) == Some(("torch", "Size")) => {
            let [sizes] = tree.tuple(size.arguments)?;
            sizes
        }
        _ => id,
    };
    let (Value::Tuple(list) | Value::List(list)) = tree.value(id) else { return None };
    if list.len() > MOST_AXES {
        return None;
    }
    tree.items(list).map(|id| natural(tree, id)).collect()
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

/// What a value is, for messages.
pub(crate) fn described(tree: &Tree, id: Id) -> String {
    match tree.value(id) {
        Value::Global(module, name) => shown(module, name),
        Value::Object(object) if tree.attribute(object).is_some() => attribute(tree, object),
        Value::Object(object) => match (numpy::described(tree, object), tree.callable(object)) {
            (Some(array), _) => array,
            (None, Some((module, name))) => format!("a call of {}", shown(module, name)),
            (None, None) => "a call".to_owned(),
        },
        Value::None => "None".to_owned(),
        Value::Bool(_) => "a bool".to_owned(),
        Value::Int(_) | Value::Long(_) => "an integer".to_owned(),
        Value::Float(_) => "a float".to_owned(),
        Value::Text(_) => "a text".to_owned(),
        Value::Bytes(_) | Value::Buffer => "bytes".to_owned(),
        Value::Tuple(_) => "a tuple".to_owned(),
        Value::List(_) => "a list".to_owned(),
        Value::Set(_) => "a set".to_owned(),
        Value::Dict(_) => "a dict".to_owned(),
        Value::Persistent(_) => "a storage".to_owned(),
    }
}

/// What an attribute is, such as a bound method: its name, and the class that it belongs to.
fn attribute(tree: &Tree, object: Object) -> String {
    let Some((of, name)) = tree.attribute(object) else { return "an attribute".to_owned() };
    let class = tree.object(of).and_then(|owner| tree.callable(owner)).or_else(|| tree.global(of));
    let class = class.map_or("something".to_owned(), |(module, name)| shown(module, name));
    format!("the attribute '{}' of {class}", shown_text(name))
}

pub(super) fn wrong(message: &str) -> Error {
    Error::corrupt(message).help("the pickle was not written by PyTorch, or is damaged")
}

pub(super) fn unsupported(what: &str, instead: &str) -> Error {
    Error::unsupported(format!("{what} is not supported")).help(or_leave_out(instead))
}

fn or_leave_out(instead: &str) -> String {
    format!("{instead}, or leave the tensor out with {}", Setting::ReadOption("lenient=true"))
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

/// A text of the file, short and without anything that moves a terminal's cursor.
fn shown_text(text: &str) -> String {
    text.chars().take(80).collect::<String>().escape_debug().to_string()
}
