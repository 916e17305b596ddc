//! Which type each tensor is stored with.

use crate::blocks::BlockType;
use crate::encodings;
use crate::format::{TensorType, holder};
use crate::original::stored_shape;
use ckpt_api::{DType, Encoding, Endian, Loss, LossKind, Options, Tensor, count};

/// The option that names a type.
pub(crate) const TYPE: &str = "type";

/// Every type that the option names, with the number that llama.cpp gives files of mostly this type.
const TYPES: [(&str, TensorType, u32); 8] = [
    ("f32", TensorType::Plain(DType::F32), 0),
    ("f16", TensorType::Plain(DType::F16), 1),
    ("bf16", TensorType::Plain(DType::Bf16), 32),
    ("q8_0", TensorType::Blocks(BlockType::Q8_0), 7),
    ("q4_0", TensorType::Blocks(BlockType::Q4_0), 2),
    ("q4_1", TensorType::Blocks(BlockType::Q4_1), 3),
    ("q5_0", TensorType::Blocks(BlockType::Q5_0), 8),
    ("q5_1", TensorType::Blocks(BlockType::Q5_1), 9),
];

/// The names of [`TYPES`].
pub(crate) static NAMES: [&str; TYPES.len()] = {
    let mut names = [""; TYPES.len()];
    let mut k = 0;
    while k < names.len() {
        names[k] = TYPES[k].0;
        k += 1;
    }
    names
};

/// Names of matrices that llama.cpp's converter writes as F32: those of the router, of positions and of types of
/// tokens, and convolutions of a state.
const WHOLE: [&str; 6] =
    ["ffn_gate_inp", "ffn_gate_inp_shexp", "position_embd", "token_types", "ssm_conv1d", "shortconv.conv"];

/// How the tensors of an output are stored.
pub(crate) struct Types {
    endian: Endian,
    /// The type that the user asks for, and its number.
    wanted: Option<(TensorType, u32)>,
    /// The dtype that the user asks for by name for all weights.
    dtype: Option<DType>,
}

impl Types {
    /// Those of a file of this byte order.
    pub(crate) fn new(options: &Options, endian: Endian) -> Self {
        let name = options.text(TYPE);
        let wanted =
            TYPES.iter().find(|(own, ..)| Some(*own) == name).map(|(_, own, number)| (*own, *number));
        Types { endian, wanted, dtype: options.dtype() }
    }

    /// Returns the number of the type that the user asks for.
    pub(crate) fn number(&self) -> Option<u32> {
        self.wanted.map(|(_, number)| number)
    }

    /// Returns how a tensor is stored; `None` if GGUF has no type for it.
    pub(crate) fn of(&self, tensor: &Tensor) -> Option<(TensorType, Encoding)> {
        // A mapping may have divided the rows within a block: then the numbers are stored, if they can be read.
        let own = tensor.blocks.as_deref().and_then(|blocks| encodings::type_of(blocks, self.endian));
        let own = own.filter(|own| fills(tensor, *own));
        let plain = |dtype: DType| {
            let encoding = Encoding::row_major(tensor).with_endian(self.endian).with_dtype(dtype);
            Some((TensorType::Plain(dtype), encoding))
        };
        match self.wanted.filter(|_| tensor.dtype.is_float()) {
            None if tensor.dtype == DType::F32 && own.is_some() => self.in_blocks(tensor, own?),
            None => plain(holder(tensor.dtype)?),
            // As llama.cpp's converter does: biases and norms are F32, unless the user names another dtype.
            Some(_) if is_whole(tensor) && self.dtype == Some(tensor.dtype) => plain(holder(tensor.dtype)?),
            Some(_) if is_whole(tensor) => plain(DType::F32),
            Some((TensorType::Plain(dtype), _)) => plain(dtype),
            Some((TensorType::Blocks(wanted), _)) if fills(tensor, wanted) => self.in_blocks(tensor, wanted),
            Some((TensorType::Blocks(_), _)) => plain(DType::F16),
        }
    }

    fn in_blocks(&self, tensor: &Tensor, block_type: BlockType) -> Option<(TensorType, Encoding)> {
        let blocks = encodings::of(block_type, self.endian)?;
        let plain = Encoding::row_major(tensor).with_dtype(DType::F32);
        Some((TensorType::Blocks(block_type), plain.in_blocks(blocks.clone())))
    }

    /// Returns the loss of a tensor that is stored as F16 because its rows do not fill the blocks that the user asks for.
    pub(crate) fn loss(&self, tensor: &Tensor, stored: TensorType) -> Option<Loss> {
        let (TensorType::Blocks(wanted), TensorType::Plain(DType::F16)) = (self.wanted?.0, stored) else {
            return None;
        };
        if !matches!(tensor.dtype, DType::F64 | DType::F32 | DType::Bf16) {
            return None;
        }
        let row = count(tensor.shape.last().copied().unwrap_or(1), "element");
        let (name, elements) = (wanted.name(), wanted.elements());
        let detail = format!(
            "{} is stored as f16: rows of {row} do not fill blocks of {name}, of {elements}",
            tensor.dtype
        );
        Some(Loss::new(LossKind::Narrowed, &tensor.name, detail))
    }
}

/// Whether llama.cpp's converter writes a tensor as F32, whatever type the user asks for.
pub(crate) fn is_whole(tensor: &Tensor) -> bool {
    let stem = tensor.name.strip_suffix(".weight").unwrap_or(&tensor.name);
    let is = |name: &str| stem.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    tensor.shape.rank() < 2 || tensor.name.ends_with("_norm.weight") || WHOLE.into_iter().any(is)
}

/// Whether the rows of a tensor, as the file describes it, are whole blocks.
fn fills(tensor: &Tensor, block_type: BlockType) -> bool {
    let row = stored_shape(tensor).last().copied().unwrap_or(1);
    row.is_multiple_of(block_type.elements().into())
}
