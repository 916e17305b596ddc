//! Classes whose objects store themselves in their own way: tensors and storages, by their elements.

use ckpt_api::DType;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// An unsigned integer of 8 bits.
    Byte,
    /// A signed integer of 8 bits.
    Char,
    /// A signed integer of 16 bits.
    Short,
    /// A signed integer of 32 bits.
    Int,
    /// A signed integer as wide as the writer's `long`.
    Long,
    /// A float of 16 bits.
    Half,
    /// A float of 32 bits.
    Float,
    /// A float of 64 bits.
    Double,
}

/// What an object of a class is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Tensor(Element),
    Storage(Element),
    /// An object that is stored as one value: the table of its fields.
    Fields,
    /// A class that stores itself in another way.
    Unknown,
}

impl Class {
    /// Tells what objects of this class are. Tensors of devices are stored as those of the host.
    pub(crate) fn of(name: &str) -> Class {
        let Some(name) = name.strip_prefix("torch.") else {
            return if name.starts_with("tds.") { Class::Unknown } else { Class::Fields };
        };
        let (element, class): (&str, fn(Element) -> Class) =
            match (name.strip_suffix("Tensor"), name.strip_suffix("Storage")) {
                (Some(element), _) => (element, Class::Tensor),
                (_, Some(element)) => (element, Class::Storage),
                _ => return Class::Unknown,
            };
        let element = match element.strip_prefix("Cuda").unwrap_or(element) {
            "Byte" => Element::Byte,
            "Char" => Element::Char,
            "Short" => Element::Short,
            "Int" => Element::Int,
            "Long" => Element::Long,
            "Half" => Element::Half,
            "Float" => Element::Float,
            "" if element == "Cuda" => Element::Float,
            "Double" => Element::Double,
            _ => return Class::Unknown,
        };
        class(element)
    }
}

impl Element {
    /// The dtype, with a `long` of so many bytes.
    pub(crate) fn dtype(self, long: u64) -> DType {
        match self {
            Element::Byte => DType::U8,
            Element::Char => DType::I8,
            Element::Short => DType::I16,
            Element::Long if long == 8 => DType::I64,
            Element::Int | Element::Long => DType::I32,
            Element::Half => DType::F16,
            Element::Float => DType::F32,
            Element::Double => DType::F64,
        }
    }

    /// Bytes of an element in a binary file.
    pub(crate) fn bytes(self, long: u64) -> u64 {
        match self {
            Element::Byte | Element::Char => 1,
            Element::Short | Element::Half => 2,
            Element::Int | Element::Float => 4,
            Element::Long => long,
            Element::Double => 8,
        }
    }

    /// Whether an ASCII file has the elements as bytes, not as numbers.
    pub(crate) fn is_raw(self) -> bool {
        matches!(self, Element::Byte | Element::Char)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_of_devices_have_the_elements_of_the_host() {
        let of = |name: &str| Class::of(&format!("torch.{name}"));
        assert_eq!(of("FloatTensor"), Class::Tensor(Element::Float));
        assert_eq!(of("CudaTensor"), Class::Tensor(Element::Float));
        assert_eq!(of("CudaHalfStorage"), Class::Storage(Element::Half));
        assert_eq!(of("CudaLongTensor"), Class::Tensor(Element::Long));
        assert_eq!([of("Tensor"), of("Generator"), Class::of("tds.Hash")], [Class::Unknown; 3]);
        assert_eq!(Class::of("nn.Linear"), Class::Fields);
    }
}
