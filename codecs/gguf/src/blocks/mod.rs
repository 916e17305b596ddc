//! GGUF's block types: their sizes, and the numbers that their blocks stand for.
//!
//! A row of a quantized tensor is a sequence of blocks: 32, 64, 128 or 256 numbers as small integers, with the scales that
//! they share. [`decode`] computes the numbers with the operations of `gguf-py`, one by one, so that every bit is the same;
//! [`encode`] gives the bytes of llama.cpp's quantizer.
//!
//! `gguf-py` decodes all types but `Q1_0`, `Q8_K` and `Q8_1`. The first two decode as in ggml's C code. `Q8_1` stays
//! opaque: `gguf-py` and ggml disagree about its size.

mod arithmetic;
mod codebook;
mod encode;
mod grids;
mod nested;
mod simple;

pub(crate) use encode::encode_finite;
pub use encode::{Encoded, encode};

use ckpt_api::DecodeBlock;

macro_rules! block_types {
    ($($name:ident $id:literal $elements:literal $bytes:literal $decoder:expr, $wide:expr;)*) => {
        /// A type that stores neighboring elements of a row in blocks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(non_camel_case_types, reason = "the names are those of GGUF")]
        pub enum BlockType {
            $(
                #[doc = concat!("`", stringify!($name), "`: ", $elements, " elements in ", $bytes, " bytes.")]
                $name = $id,
            )*
        }

        impl BlockType {
            /// Every block type, by number.
            pub const ALL: &[BlockType] = &[$(BlockType::$name,)*];

            /// Returns the type that files give this number.
            pub fn from_id(id: u32) -> Option<Self> {
                match id {
                    $($id => Some(BlockType::$name),)*
                    _ => None,
                }
            }

            /// Returns its name in llama.cpp: `Q4_K`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(BlockType::$name => stringify!($name),)*
                }
            }

            /// Returns the number of elements of a block.
            pub const fn elements(self) -> u32 {
                match self {
                    $(BlockType::$name => $elements,)*
                }
            }

            /// Returns the number of bytes of a block.
            pub const fn bytes(self) -> u32 {
                match self {
                    $(BlockType::$name => $bytes,)*
                }
            }

            /// Returns the decoder of one little-endian block. `None` if the blocks are opaque.
            pub const fn decoder(self) -> Option<DecodeBlock> {
                match self {
                    $(BlockType::$name => $decoder,)*
                }
            }

            /// The fields of more than one byte: the offset of the first of them, their number, and the bytes of each.
            const fn wide_fields(self) -> &'static [(usize, usize, usize)] {
                match self {
                    $(BlockType::$name => $wide,)*
                }
            }
        }
    };
}

/// A decoder of arrays, as one of slices.
macro_rules! decodes {
    ($decoder:path) => {
        Some(|block, numbers| {
            if let (Ok(block), Ok(numbers)) = (block.try_into(), numbers.try_into()) {
                $decoder(block, numbers);
            }
        })
    };
}

block_types! {
    // name, number in files, elements, bytes, decoder, and where integers and floats of 2 or 4 bytes are
    Q4_0 2 32 18 decodes!(simple::q4_0), &[(0, 1, 2)];
    Q4_1 3 32 20 decodes!(simple::q4_1), &[(0, 2, 2)];
    Q5_0 6 32 22 decodes!(simple::q5_0), &[(0, 1, 2), (2, 1, 4)];
    Q5_1 7 32 24 decodes!(simple::q5_1), &[(0, 2, 2), (4, 1, 4)];
    Q8_0 8 32 34 decodes!(simple::q8_0), &[(0, 1, 2)];
    Q8_1 9 32 40 None, &[(0, 2, 4)];
    Q2_K 10 256 84 decodes!(nested::q2_k), &[(80, 2, 2)];
    Q3_K 11 256 110 decodes!(nested::q3_k), &[(108, 1, 2)];
    Q4_K 12 256 144 decodes!(nested::q4_k), &[(0, 2, 2)];
    Q5_K 13 256 176 decodes!(nested::q5_k), &[(0, 2, 2)];
    Q6_K 14 256 210 decodes!(nested::q6_k), &[(208, 1, 2)];
    Q8_K 15 256 292 decodes!(simple::q8_k), &[(0, 1, 4), (260, 16, 2)];
    IQ2_XXS 16 256 66 decodes!(codebook::iq2_xxs), &[
        (0, 1, 2), (6, 1, 4), (14, 1, 4), (22, 1, 4), (30, 1, 4), (38, 1, 4), (46, 1, 4), (54, 1, 4), (62, 1, 4),
    ];
    IQ2_XS 17 256 74 decodes!(codebook::iq2_xs), &[(0, 33, 2)];
    IQ3_XXS 18 256 98 decodes!(codebook::iq3_xxs), &[(0, 1, 2), (66, 8, 4)];
    IQ1_S 19 256 50 decodes!(codebook::iq1_s), &[(0, 1, 2), (34, 8, 2)];
    IQ4_NL 20 32 18 decodes!(simple::iq4_nl), &[(0, 1, 2)];
    IQ3_S 21 256 110 decodes!(codebook::iq3_s), &[(0, 1, 2)];
    IQ2_S 22 256 82 decodes!(codebook::iq2_s), &[(0, 1, 2)];
    IQ4_XS 23 256 136 decodes!(nested::iq4_xs), &[(0, 2, 2)];
    IQ1_M 29 256 56 decodes!(codebook::iq1_m), &[(48, 4, 2)];
    TQ1_0 34 256 54 decodes!(simple::tq1_0), &[(52, 1, 2)];
    TQ2_0 35 256 66 decodes!(simple::tq2_0), &[(64, 1, 2)];
    MXFP4 39 32 17 decodes!(simple::mxfp4), &[];
    NVFP4 40 64 36 decodes!(simple::nvfp4), &[];
    Q1_0 41 128 18 decodes!(simple::q1_0), &[(0, 1, 2)];
}

impl BlockType {
    /// Returns the number that files give the type.
    pub const fn id(self) -> u32 {
        self as u32
    }

    /// Whether [`decode`] knows what the blocks stand for.
    pub const fn is_decodable(self) -> bool {
        self.decoder().is_some()
    }

    /// Whether [`encode`] writes the blocks.
    pub const fn is_encodable(self) -> bool {
        use BlockType::{
            IQ3_S, IQ4_NL, IQ4_XS, MXFP4, Q2_K, Q3_K, Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0, TQ1_0,
            TQ2_0,
        };
        matches!(
            self,
            Q4_0 | Q4_1
                | Q5_0
                | Q5_1
                | Q8_0
                | Q2_K
                | Q3_K
                | Q4_K
                | Q5_K
                | Q6_K
                | IQ4_NL
                | IQ4_XS
                | IQ3_S
                | TQ1_0
                | TQ2_0
                | MXFP4
        )
    }
}

/// Reads the numbers of whole little-endian blocks; NaN if the type is not [decodable](BlockType::is_decodable).
///
/// ```
/// use ckpt_gguf::blocks::{BlockType, decode};
/// let mut block = [0; 34];
/// block[..4].copy_from_slice(&[0x00, 0x38, 3, 0xff]); // the scale 0.5, the integers 3 and -1
/// let mut numbers = [0.0; 32];
/// decode(BlockType::Q8_0, &block, &mut numbers);
/// assert_eq!(numbers[..3], [1.5, -0.5, 0.0]);
/// ```
pub fn decode(block_type: BlockType, blocks: &[u8], numbers: &mut [f32]) {
    let Some(decoder) = block_type.decoder() else { return numbers.fill(f32::NAN) };
    let numbers = numbers.chunks_exact_mut(block_type.elements() as usize);
    for (block, numbers) in blocks.chunks_exact(block_type.bytes() as usize).zip(numbers) {
        decoder(block, numbers);
    }
}

/// Reverses the bytes of every field of more than one byte, in whole blocks: a big-endian file stores them so.
///
/// Big-endian machines read the fields as ggml's C code does; bytes that it reads one by one stay where they are.
pub fn swap_endian(block_type: BlockType, blocks: &mut [u8]) {
    for block in blocks.chunks_exact_mut(block_type.bytes() as usize) {
        for &(offset, count, bytes) in block_type.wide_fields() {
            block[offset..][..count * bytes].chunks_exact_mut(bytes).for_each(<[u8]>::reverse);
        }
    }
}
