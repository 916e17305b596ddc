//! GGUF's block types: their sizes, and the numbers that their blocks stand for.

macro_rules! block_types {
    ($($name:ident $id:literal $elements:literal $bytes:literal,)*) => {
        /// A type that stores neighboring elements of a row in blocks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(non_camel_case_types)]
        pub enum BlockType {
            $(
                #[doc = concat!("`", stringify!($name), "`")]
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
        }
    };
}

block_types! {
    Q4_0 2 32 18,
    Q4_1 3 32 20,
    Q5_0 6 32 22,
    Q5_1 7 32 24,
    Q8_0 8 32 34,
    Q8_1 9 32 40,
    Q2_K 10 256 84,
    Q3_K 11 256 110,
    Q4_K 12 256 144,
    Q5_K 13 256 176,
    Q6_K 14 256 210,
    Q8_K 15 256 292,
    IQ2_XXS 16 256 66,
    IQ2_XS 17 256 74,
    IQ3_XXS 18 256 98,
    IQ1_S 19 256 50,
    IQ4_NL 20 32 18,
    IQ3_S 21 256 110,
    IQ2_S 22 256 82,
    IQ4_XS 23 256 136,
    IQ1_M 29 256 56,
    TQ1_0 34 256 54,
    TQ2_0 35 256 66,
    MXFP4 39 32 17,
    NVFP4 40 64 36,
    Q1_0 41 128 18,
}

impl BlockType {
    /// Returns the number that files give the type.
    pub const fn id(self) -> u32 {
        self as u32
    }

    /// Whether [`decode`] knows what the blocks stand for.
    pub const fn is_decodable(self) -> bool {
        matches!(self, BlockType::Q8_0)
    }

    /// Whether [`encode`] writes the blocks.
    pub const fn is_encodable(self) -> bool {
        matches!(self, BlockType::Q8_0)
    }
}

/// Reads the numbers of one little-endian block.
pub fn decode(block_type: BlockType, block: &[u8], numbers: &mut [f32]) {
    let Some((scale, integers)) = block.split_first_chunk::<2>() else { return };
    if block_type == BlockType::Q8_0 {
        let scale = half::f16::from_le_bytes(*scale).to_f32();
        for (number, integer) in numbers.iter_mut().zip(integers) {
            *number = scale * f32::from(*integer as i8);
        }
    }
}

/// Appends the little-endian blocks of as many numbers as fill them.
pub fn encode(block_type: BlockType, numbers: &[f32], blocks: &mut Vec<u8>) {
    if block_type != BlockType::Q8_0 {
        return;
    }
    for numbers in numbers.chunks_exact(block_type.elements() as usize) {
        let scale = numbers.iter().fold(0f32, |largest, number| largest.max(number.abs())) / 127.0;
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        blocks.extend(half::f16::from_f32(scale).to_le_bytes());
        blocks.extend(numbers.iter().map(|number| (number * inverse).round() as i8 as u8));
    }
}

/// Reverses the bytes of every field of more than one byte, in whole blocks.
pub fn swap_endian(block_type: BlockType, blocks: &mut [u8]) {
    for block in blocks.chunks_exact_mut(block_type.bytes() as usize) {
        if let Some(scale) = block.first_chunk_mut::<2>().filter(|_| block_type == BlockType::Q8_0) {
            scale.reverse();
        }
    }
}
