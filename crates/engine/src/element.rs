//! The Rust types that elements are read as and written from.

use crate::transform::{castable, exact};
use ckpt_api::{DType, Error, Result};
use half::{bf16, f16};

/// A Rust type of elements: `f64`, `f32`, [`half::f16`], [`half::bf16`], the integers of 8 to 64 bits, `bool`.
pub trait Element: sealed::Sealed {
    /// The dtype whose elements have this type.
    const DTYPE: DType;
}

pub(crate) mod sealed {
    use ckpt_api::Result;

    pub trait Sealed: Copy + std::fmt::Debug + Send + Sync + 'static {
        /// Bytes of an element.
        const SIZE: usize;

        /// Appends elements from their little-endian bytes.
        fn decode(bytes: &[u8], out: &mut Vec<Self>) -> Result<()>;

        /// Fills `buffer` with the little-endian bytes of `values` from byte `offset` on, and returns how many these
        /// are.
        fn encode(values: &[Self], offset: usize, buffer: &mut [u8]) -> usize;
    }
}

/// Copies little-endian bytes of elements of `N` bytes: a beginning that may be within an element, whole ones, the
/// rest.
fn encode<T, const N: usize>(
    values: &[T],
    offset: usize,
    buffer: &mut [u8],
    bytes: impl Fn(&T) -> [u8; N],
) -> usize {
    let room = buffer.len().min((values.len() * N).saturating_sub(offset));
    let Some((buffer, _)) = buffer.split_at_mut_checked(room) else { return 0 };
    let values = values.get(offset / N..).unwrap_or_default();
    let partial = |value: Option<&T>, within: usize, part: &mut [u8]| {
        let bytes = value.map(&bytes).unwrap_or([0; N]);
        part.iter_mut().zip(bytes.iter().skip(within)).for_each(|(to, from)| *to = *from);
    };
    let within = offset % N;
    let (head, rest) = buffer.split_at_mut(if within == 0 { 0 } else { (N - within).min(room) });
    partial(values.first(), within, head);
    let values = if within == 0 { values } else { values.get(1..).unwrap_or_default() };
    let (whole, tail) = rest.as_chunks_mut::<N>();
    whole.iter_mut().zip(values).for_each(|(to, value)| *to = bytes(value));
    partial(values.get(whole.len()), 0, tail);
    room
}

macro_rules! numbers {
    ($($type:ty = $dtype:ident),*) => {$(
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;
        }

        impl sealed::Sealed for $type {
            const SIZE: usize = size_of::<$type>();

            fn decode(bytes: &[u8], out: &mut Vec<Self>) -> Result<()> {
                let (elements, _) = bytes.as_chunks::<{ size_of::<$type>() }>();
                out.extend(elements.iter().map(|bytes| <$type>::from_le_bytes(*bytes)));
                Ok(())
            }

            fn encode(values: &[Self], offset: usize, buffer: &mut [u8]) -> usize {
                encode(values, offset, buffer, |value| value.to_le_bytes())
            }
        }
    )*};
}

numbers!(f64 = F64, f32 = F32, f16 = F16, bf16 = Bf16);
numbers!(i64 = I64, i32 = I32, i16 = I16, i8 = I8, u64 = U64, u32 = U32, u16 = U16, u8 = U8);

impl Element for bool {
    const DTYPE: DType = DType::Bool;
}

impl sealed::Sealed for bool {
    const SIZE: usize = 1;

    fn decode(bytes: &[u8], out: &mut Vec<Self>) -> Result<()> {
        if let Some(other) = bytes.iter().find(|byte| **byte > 1) {
            return Err(Error::corrupt("an element is not a boolean")
                .found(other.to_string())
                .expected("0 or 1"));
        }
        out.extend(bytes.iter().map(|byte| *byte == 1));
        Ok(())
    }

    fn encode(values: &[Self], offset: usize, buffer: &mut [u8]) -> usize {
        encode(values, offset, buffer, |value| [u8::from(*value)])
    }
}

/// Whether elements of `dtype` can be read as `T`.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] if values could change, naming the types that hold all of them.
pub(crate) fn check_exact<T: Element>(dtype: DType) -> Result<()> {
    const TYPES: [DType; 13] = [
        f64::DTYPE,
        f32::DTYPE,
        f16::DTYPE,
        bf16::DTYPE,
        i64::DTYPE,
        i32::DTYPE,
        i16::DTYPE,
        i8::DTYPE,
        u64::DTYPE,
        u32::DTYPE,
        u16::DTYPE,
        u8::DTYPE,
        bool::DTYPE,
    ];
    let holds = |to: &DType| castable(dtype, *to) && exact(dtype, *to);
    if holds(&T::DTYPE) {
        return Ok(());
    }
    let others: Vec<&str> = TYPES.into_iter().filter(holds).map(DType::name).collect();
    Err(Error::usage("this type cannot hold the elements exactly")
        .found(format!("elements of {dtype}, read as {}", T::DTYPE))
        .help(match &others[..] {
            [] => "no Rust type holds them; read them with `TensorRef::bytes`".to_owned(),
            others => format!("read them as {}", others.join(" or ")),
        }))
}

#[cfg(test)]
mod tests {
    use super::sealed::Sealed;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_range_of_bytes_is_that_of_the_whole(values: Vec<u32>, offset in 0usize..40, len in 0usize..40) {
            let whole: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let mut buffer = vec![0; len];
            let read = u32::encode(&values, offset, &mut buffer);
            let expected = whole.get(offset.min(whole.len())..(offset + len).min(whole.len())).unwrap();
            prop_assert_eq!(&buffer[..read], expected);
            let mut back = Vec::new();
            u32::decode(&whole, &mut back).unwrap();
            prop_assert_eq!(back, values);
        }
    }

    #[test]
    fn a_type_that_does_not_hold_every_value_is_refused_with_those_that_do() {
        check_exact::<f32>(DType::F16).unwrap();
        check_exact::<f64>(DType::I32).unwrap();
        let error = check_exact::<f32>(DType::I64).unwrap_err().to_string();
        assert!(error.contains("elements of i64, read as f32; read them as i64"), "{error}");
        let error = check_exact::<f32>(DType::C64).unwrap_err().to_string();
        assert!(error.contains("TensorRef::bytes"), "{error}");
    }

    #[test]
    fn a_byte_that_is_no_boolean_is_an_error() {
        let mut out = Vec::new();
        bool::decode(&[0, 1], &mut out).unwrap();
        assert_eq!(out, [false, true]);
        assert!(bool::decode(&[2], &mut out).is_err());
    }
}
