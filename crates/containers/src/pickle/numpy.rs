//! Arrays and numbers of NumPy, whose bytes are within the pickle.
//!
//! ```text
//! _reconstruct(ndarray, (0,), b'b'), BUILD (1, shape, dtype, is_fortran, data)     protocols 2 to 4
//! _frombuffer(data, dtype, shape, order)                                           protocol 5
//! data    bytes, or _codecs.encode(text, 'latin1') in protocol 2
//! dtype   dtype('f4', False, True), BUILD (3, '<', …); of ml_dtypes: the class instead of its name
//! ```

use super::{Id, Object, Tree, Value, shown};
use crate::decoders::LATIN1;
use ckpt_api::{
    Compression, DType, Encoding, Endian, Error, Extent, FileId, MetadataMap, MetadataValue, Placement,
    Result, Shape, Tensor, TensorId,
};

/// Calls around the bytes of an array: `bytearray(encode(text, 'latin1'))`.
const MOST_LAYERS: usize = 3;
/// Axes of an array: NumPy has at most 64.
const MOST_AXES: usize = 64;

/// An array of numbers.
#[derive(Debug)]
pub struct Array {
    /// The type of its elements.
    pub dtype: DType,
    endian: Endian,
    /// Its shape, outermost axis first.
    pub shape: Shape,
    /// Whether the first axis is the fastest.
    is_fortran: bool,
    data: Data,
}

/// The bytes of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Data {
    Nothing,
    /// The offset from the pickle's first byte on, and how many bytes.
    Bytes(u64, u64),
    /// A range of the pickle that is a text: its characters stand for bytes.
    Text(u32, u32),
}

/// What a call states of an array.
struct Parts {
    shape: Id,
    dtype: Id,
    is_fortran: bool,
    data: Id,
}

/// Whether a call makes an array of numbers, as far as its names and its dtype tell.
pub fn is_array(tree: &Tree, object: Object) -> bool {
    parts(tree, object).is_some_and(|parts| numbers(tree, parts.dtype).is_some())
}

/// What an array is that holds something else than numbers, for messages; `None` for anything else.
pub fn described(tree: &Tree, object: Object) -> Option<String> {
    let name = function(tree, object)?;
    if name == "_reconstruct" && !has_plain_class(tree, object) {
        return Some("a NumPy array of an unknown class".to_owned());
    }
    let Some(parts) = parts(tree, object) else { return Some("a NumPy array without its state".to_owned()) };
    let (module, code) = code(tree, parts.dtype).unwrap_or_default();
    let held = match code.chars().next().filter(|_| module.is_empty()) {
        Some('O') => "Python objects".to_owned(),
        Some('V') => "records".to_owned(),
        Some('U' | 'S') => "texts".to_owned(),
        Some('M' | 'm') => "times".to_owned(),
        Some(_) => format!("the type {}", code.escape_debug()),
        None if !module.is_empty() => format!("the type {}", shown(module, code)),
        None => "an unknown type".to_owned(),
    };
    Some(format!("a NumPy array of {held}"))
}

/// The array that a call makes; `None` if [`is_array`] does not hold.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for a shape that is none, and for bytes that do not fill it;
/// [`ckpt_api::Kind::Unsupported`] for bytes in the form of protocol 0.
pub fn array(tree: &Tree, object: Object) -> Result<Option<Array>> {
    let Some(parts) = parts(tree, object) else { return Ok(None) };
    let Some(element) = numbers(tree, parts.dtype) else { return Ok(None) };
    let shape = shape(tree, parts.shape).ok_or_else(|| wrong("an array has no valid shape"))?;
    filled(element, Shape::new(shape)?, parts.is_fortran, data(tree, parts.data)?).map(Some)
}

/// The number of NumPy that a call makes, as an array of rank 0; `None` for any other call.
///
/// ```text
/// scalar(dtype, bytes)
/// ```
///
/// # Errors
/// See [`array()`].
pub fn scalar(tree: &Tree, object: Object) -> Result<Option<Array>> {
    let is_scalar = tree.global(object.callable).is_some_and(|(module, name)| {
        matches!(module, "numpy._core.multiarray" | "numpy.core.multiarray") && name == "scalar"
    });
    let Some([dtype, bytes]) = tree.tuple(object.arguments).filter(|_| is_scalar) else { return Ok(None) };
    let Some(element) = numbers(tree, dtype) else { return Ok(None) };
    filled(element, Shape::new([0u64; 0])?, false, data(tree, bytes)?).map(Some)
}

/// An array whose bytes fill its shape.
fn filled((dtype, endian): (DType, Endian), shape: Shape, is_fortran: bool, data: Data) -> Result<Array> {
    // Types below a byte take a whole one.
    let bytes = shape.elements().checked_mul(dtype.bytes().unwrap_or(1));
    let stored = match data {
        Data::Nothing => 0,
        Data::Bytes(_, len) => len,
        Data::Text(_, len) => len.into(),
    };
    // A character of a text takes one byte or two.
    let fits = bytes.is_some_and(|bytes| match data {
        Data::Text(..) => bytes <= stored && stored <= bytes.saturating_mul(2),
        _ => bytes == stored,
    });
    if fits {
        return Ok(Array { dtype, endian, shape, is_fortran, data });
    }
    Err(wrong("the bytes of an array do not fill its shape")
        .found(ckpt_api::count(stored, "byte"))
        .expected(format!("{shape} of {dtype}")))
}

/// A number of NumPy, by its dtype and its bytes.
pub fn number(tree: &Tree, dtype: Id, mut bytes: Vec<u8>) -> Option<MetadataValue> {
    let (dtype, endian) = numbers(tree, dtype)?;
    if endian == Endian::Big {
        bytes.chunks_mut(dtype.component_bytes().max(1)).for_each(<[u8]>::reverse);
    }
    macro_rules! of {
        ($type:ty) => {
            bytes.try_into().ok().map(|bytes| <$type>::from_le_bytes(bytes).into())
        };
    }
    match dtype {
        DType::F64 => of!(f64),
        DType::F32 => of!(f32),
        DType::I64 => of!(i64),
        DType::I32 => of!(i32),
        DType::I16 => of!(i16),
        DType::I8 => of!(i8),
        DType::U64 => of!(u64),
        DType::U32 => of!(u32),
        DType::U16 => of!(u16),
        DType::U8 => of!(u8),
        DType::Bool => match bytes[..] {
            [flag @ (0 | 1)] => Some(MetadataValue::Bool(flag == 1)),
            _ => None,
        },
        DType::C128 => {
            let (parts, rest) = bytes.as_chunks::<8>();
            let [real, imaginary] = parts else { return None };
            let number = |bytes: &[u8; 8]| MetadataValue::F64(f64::from_le_bytes(*bytes));
            let map = [("real", number(real)), ("imag", number(imaginary))];
            rest.is_empty().then(|| MetadataValue::Map(map.into_iter().collect::<MetadataMap>()))
        }
        _ => None,
    }
}

/// The function of NumPy that a call calls, if it makes an array.
fn function(tree: &Tree, object: Object) -> Option<&str> {
    let (module, name) = tree.global(object.callable)?;
    let own = match name {
        "_reconstruct" => ["numpy._core.multiarray", "numpy.core.multiarray"],
        "_frombuffer" => ["numpy._core.numeric", "numpy.core.numeric"],
        _ => return None,
    };
    own.contains(&module).then_some(name)
}

/// Whether the array is one of NumPy's own classes, which add nothing to it.
fn has_plain_class(tree: &Tree, object: Object) -> bool {
    let class = tree.tuple(object.arguments).and_then(|[class, _, _]| tree.global(class));
    class.is_some_and(|(module, name)| {
        module.split('.').next() == Some("numpy") && matches!(name, "ndarray" | "matrix" | "memmap")
    })
}

fn parts(tree: &Tree, object: Object) -> Option<Parts> {
    if function(tree, object)? == "_frombuffer" {
        // The fifth argument, the order of the axes, goes with the order 'K'.
        let [data, dtype, shape, order] = tree.tuple(object.arguments).or_else(|| {
            tree.tuple(object.arguments).map(|[data, dtype, shape, order, _]| [data, dtype, shape, order])
        })?;
        let is_fortran = match tree.text(order)? {
            "C" => false,
            "F" => true,
            _ => return None,
        };
        return Some(Parts { shape, dtype, is_fortran, data });
    }
    let state = object.state.filter(|_| has_plain_class(tree, object))?;
    // NumPy's first versions wrote no version.
    let [shape, dtype, is_fortran, data] = tree.tuple(state).or_else(|| {
        tree.tuple(state).map(|[_version, shape, dtype, order, data]| [shape, dtype, order, data])
    })?;
    let is_fortran = match tree.value(is_fortran) {
        Value::Bool(flag) => flag,
        Value::Int(flag @ (0 | 1)) => flag == 1,
        _ => return None,
    };
    Some(Parts { shape, dtype, is_fortran, data })
}

/// The type of an array's elements: the module and the name of its class, or no module and NumPy's name of it.
fn code(tree: &Tree, dtype: Id) -> Option<(&str, &str)> {
    let dtype = tree.object(dtype)?;
    tree.global(dtype.callable).filter(|class| *class == ("numpy", "dtype"))?;
    let Value::Tuple(list) = tree.value(dtype.arguments) else { return None };
    let id = tree.items(list).next()?;
    tree.text(id).map(|name| ("", name)).or_else(|| tree.global(id))
}

/// The type of numbers, and their byte order; `None` for types of anything else.
fn numbers(tree: &Tree, dtype: Id) -> Option<(DType, Endian)> {
    let number = match code(tree, dtype)? {
        ("ml_dtypes", name) => of_ml_dtypes(name)?,
        ("", name) => of_numpy(name)?,
        _ => return None,
    };
    // (version, byte order, what a structure has, …)
    let Value::Tuple(state) = tree.value(tree.object(dtype)?.state?) else { return None };
    let state: Vec<Id> = tree.items(state).take(5).collect();
    let order = tree.text(*state.get(1)?)?;
    let is_plain = state.get(2..5)?.iter().all(|part| *part == Id::NONE);
    match order {
        "<" => Some((number, Endian::Little)),
        ">" => Some((number, Endian::Big)),
        "|" if number.component_bytes() == 1 => Some((number, Endian::Little)),
        _ => None,
    }
    .filter(|_| is_plain)
}

/// What NumPy calls so.
fn of_numpy(name: &str) -> Option<DType> {
    Some(match name {
        "f8" => DType::F64,
        "f4" => DType::F32,
        "f2" => DType::F16,
        "i8" => DType::I64,
        "i4" => DType::I32,
        "i2" => DType::I16,
        "i1" => DType::I8,
        "u8" => DType::U64,
        "u4" => DType::U32,
        "u2" => DType::U16,
        "u1" => DType::U8,
        "b1" => DType::Bool,
        "c8" => DType::C64,
        "c16" => DType::C128,
        _ => return None,
    })
}

/// What the package ml_dtypes, which JAX uses, calls so.
fn of_ml_dtypes(name: &str) -> Option<DType> {
    Some(match name {
        "bfloat16" => DType::Bf16,
        "float8_e4m3fn" => DType::F8E4m3,
        "float8_e5m2" => DType::F8E5m2,
        "float8_e4m3fnuz" => DType::F8E4m3fnuz,
        "float8_e5m2fnuz" => DType::F8E5m2fnuz,
        "float8_e4m3b11fnuz" => DType::F8E4m3b11fnuz,
        "float8_e8m0fnu" => DType::F8E8m0,
        "float4_e2m1fn" => DType::F4E2m1,
        "int4" => DType::I4,
        "int2" => DType::I2,
        "uint4" => DType::U4,
        "uint2" => DType::U2,
        _ => return None,
    })
}

fn shape(tree: &Tree, id: Id) -> Option<Vec<u64>> {
    let Value::Tuple(list) = tree.value(id) else { return None };
    if list.len() > MOST_AXES {
        return None;
    }
    tree.items(list).map(|id| tree.int(id).and_then(|len| u64::try_from(len).ok())).collect()
}

fn data(tree: &Tree, id: Id) -> Result<Data> {
    let unknown = || wrong("an array has something else than bytes");
    let mut id = id;
    for layer in 0..MOST_LAYERS {
        let object = match tree.value(id) {
            Value::Bytes([]) | Value::Text("") => return Ok(Data::Nothing),
            Value::Apart(offset, len) => return Ok(Data::Bytes(offset, len)),
            value @ (Value::Bytes(_) | Value::Text(_)) => {
                let (at, len) = tree.range_of(id).ok_or_else(|| {
                    Error::unsupported("the bytes of an array are written as an escaped text")
                        .help("save it with protocol 2 of pickle or a later one, as torch.save does")
                })?;
                // A string of Python 2 that happens to be UTF-8 is bytes.
                let is_string = layer == 0 && tree.is_string((at, len));
                let is_text = matches!(value, Value::Text(_)) && !is_string;
                return Ok(match tree.place_of(id).filter(|_| !is_text) {
                    Some((offset, len)) => Data::Bytes(offset, len),
                    None => Data::Text(at, len),
                });
            }
            Value::Object(object) => object,
            _ => return Err(unknown()),
        };
        let arguments = object.arguments;
        id = match tree.global(object.callable) {
            Some(("_codecs", "encode")) => {
                let [text, encoding] = tree.tuple(arguments).ok_or_else(unknown)?;
                let is_latin = matches!(tree.text(encoding), Some("latin1" | "latin-1"));
                if is_latin { text } else { return Err(unknown()) }
            }
            Some(("builtins" | "__builtin__", "bytearray" | "bytes")) => {
                match (tree.tuple::<0>(arguments), tree.tuple::<1>(arguments)) {
                    (Some([]), _) => return Ok(Data::Nothing),
                    (_, Some([inner])) => inner,
                    _ => {
                        let [text, encoding] = tree.tuple(arguments).ok_or_else(unknown)?;
                        let is_latin = matches!(tree.text(encoding), Some("latin1" | "latin-1"));
                        if is_latin { text } else { return Err(unknown()) }
                    }
                }
            }
            _ => return Err(unknown()),
        };
    }
    Err(unknown())
}

impl Array {
    /// The tensor of an array in the pickle of `tree`, which is in `file` from `start` on, and where its bytes are.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] for a text that stands for more or fewer bytes than the array has.
    pub fn place(
        &self,
        tree: &Tree,
        (file, start): (FileId, u64),
        id: TensorId,
        name: &str,
    ) -> Result<(Tensor, Placement)> {
        let tensor = Tensor::new(name, self.dtype, self.shape.clone());
        let encoding = Encoding::row_major(&tensor).with_endian(self.endian);
        let encoding = if self.is_fortran { encoding.column_major() } else { encoding };
        let extent = |at: u64, len: u64| Extent::new(file, start.saturating_add(at), len);
        let len = tensor.value_bytes();
        let extent = match self.data {
            Data::Nothing => extent(0, 0),
            Data::Bytes(at, _) => extent(at, len),
            Data::Text(at, stored) => {
                check_text(tree.raw((at, stored)), len)?;
                let extent = extent(tree.offset_of(at), len);
                // All ASCII stands for itself.
                match u64::from(stored) == len {
                    true => extent,
                    false => extent.with_compression(Compression::new(LATIN1, stored.into())),
                }
            }
        };
        let placement = Placement::new(id, &tensor.name, extent, encoding);
        Ok((tensor, placement))
    }

    /// Bytes of the pickle that opening the array looks at.
    pub fn cost(&self) -> u64 {
        match self.data {
            Data::Text(_, len) => len.into(),
            Data::Nothing | Data::Bytes(..) => 0,
        }
    }
}

/// Checks that a text stands for so many bytes.
fn check_text(text: &[u8], bytes: u64) -> Result<()> {
    let text = std::str::from_utf8(text).unwrap_or_default();
    let mut count = 0u64;
    for char in text.chars() {
        if u32::from(char) > 0xff {
            return Err(wrong("the text of an array has a character that is no byte")
                .found(char.escape_unicode().to_string()));
        }
        count += 1;
    }
    if count == bytes {
        return Ok(());
    }
    Err(wrong("the bytes of an array do not fill its shape")
        .found(ckpt_api::count(count, "byte"))
        .expected(bytes.to_string()))
}

fn wrong(message: &str) -> Error {
    Error::corrupt(message).help("the pickle was not written by NumPy, or is damaged")
}
