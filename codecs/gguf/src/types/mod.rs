//! Which type each tensor is stored with, and in which order tensors are written.

mod mix;
mod order;
mod pattern;
mod rules;

pub(crate) use rules::TYPES;

use crate::blocks::BlockType;
use crate::encodings;
use crate::format::{TensorType, holder};
use crate::original::stored_shape;
use ckpt_api::{
    Checkpoint, DType, Encoding, Endian, Loss, LossKind, MetadataMap, Options, Result, Tensor, count,
};
use mix::{Chooser, Mix};
use rules::Rules;

/// The option that names a type.
pub(crate) const TYPE: &str = "type";

/// A type that the option names.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    /// One type for all tensors.
    All(TensorType),
    /// A mix of llama.cpp.
    Mix(Mix),
}

/// Every type that the option names, with the number that llama.cpp gives files of mostly this type.
const ALL: [(&str, Wanted, u32); 24] = [
    ("f32", Wanted::All(TensorType::Plain(DType::F32)), 0),
    ("f16", Wanted::All(TensorType::Plain(DType::F16)), 1),
    ("bf16", Wanted::All(TensorType::Plain(DType::Bf16)), 32),
    ("q8_0", Wanted::All(TensorType::Blocks(BlockType::Q8_0)), 7),
    ("q4_0", Wanted::All(TensorType::Blocks(BlockType::Q4_0)), 2),
    ("q4_1", Wanted::All(TensorType::Blocks(BlockType::Q4_1)), 3),
    ("q5_0", Wanted::All(TensorType::Blocks(BlockType::Q5_0)), 8),
    ("q5_1", Wanted::All(TensorType::Blocks(BlockType::Q5_1)), 9),
    ("q2_k", Wanted::Mix(Mix::Q2_K), 10),
    ("q3_k_s", Wanted::Mix(Mix::Q3_K_S), 11),
    ("q3_k_m", Wanted::Mix(Mix::Q3_K_M), 12),
    ("q3_k_l", Wanted::Mix(Mix::Q3_K_L), 13),
    ("q4_k_s", Wanted::Mix(Mix::Q4_K_S), 14),
    ("q4_k_m", Wanted::Mix(Mix::Q4_K_M), 15),
    ("q5_k_s", Wanted::Mix(Mix::Q5_K_S), 16),
    ("q5_k_m", Wanted::Mix(Mix::Q5_K_M), 17),
    ("q6_k", Wanted::Mix(Mix::Q6_K), 18),
    ("iq4_nl", Wanted::Mix(Mix::IQ4_NL), 25),
    ("iq4_xs", Wanted::Mix(Mix::IQ4_XS), 30),
    ("iq3_s", Wanted::Mix(Mix::IQ3_S), 26),
    ("iq3_m", Wanted::Mix(Mix::IQ3_M), 27),
    ("tq1_0", Wanted::Mix(Mix::TQ1_0), 36),
    ("tq2_0", Wanted::Mix(Mix::TQ2_0), 37),
    ("mxfp4_moe", Wanted::Mix(Mix::MXFP4_MOE), 38),
];

/// The names of [`ALL`].
pub(crate) static NAMES: [&str; ALL.len()] = {
    let mut names = [""; ALL.len()];
    let mut k = 0;
    while k < names.len() {
        names[k] = ALL[k].0;
        k += 1;
    }
    names
};

/// Names of matrices that llama.cpp's converter writes as F32: those of the router, of positions and of types of
/// tokens, and convolutions and factors of a state.
const WHOLE: [&str; 8] = [
    "ffn_gate_inp",
    "ffn_gate_inp_shexp",
    "position_embd",
    "token_types",
    "ssm_conv1d",
    "shortconv.conv",
    "ssm_a",
    "ssm_d",
];

/// What the user's options ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileType {
    wanted: Wanted,
    /// The number that llama.cpp gives files of mostly this type.
    pub(crate) number: u32,
}

impl FileType {
    /// Returns the type that the user asks for.
    pub(crate) fn of(options: &Options) -> Option<Self> {
        let name = options.text(TYPE)?;
        let (_, wanted, number) = ALL.iter().find(|(own, ..)| *own == name)?;
        Some(FileType { wanted: *wanted, number: *number })
    }

    /// Whether llama.cpp's quantizer alone writes such files.
    pub(crate) fn is_mix(self) -> bool {
        matches!(self.wanted, Wanted::Mix(_))
    }
}

/// How the tensors of an output are stored.
pub(crate) struct Types {
    endian: Endian,
    /// The type of each tensor that the user's options give it, by its place in the checkpoint.
    wanted: Vec<Option<TensorType>>,
    /// The dtype that the user asks for by name for all weights.
    dtype: Option<DType>,
    /// The places of the tensors, in the order of the file.
    order: Vec<usize>,
    /// Whether an option names types.
    is_asked: bool,
}

impl Types {
    /// Those of a file of this byte order and these keys.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] if the keys lack what a mix needs, and for wrong rules.
    pub(crate) fn new(
        checkpoint: &Checkpoint,
        options: &Options,
        endian: Endian,
        pairs: &MetadataMap,
    ) -> Result<Self> {
        let tensors = &checkpoint.tensors;
        let rules = options.text(TYPES).map(Rules::read).transpose().map_err(|error| error.field(TYPES))?;
        let is_quantized = |tensor: &Tensor| {
            tensor.dtype.is_float() && order::is_quantized(&tensor.name, &stored_shape(tensor))
        };
        let file_type = FileType::of(options);
        let mut wanted: Vec<Option<TensorType>> = match file_type.map(|own| own.wanted) {
            Some(Wanted::All(own)) => {
                tensors.iter().map(|tensor| tensor.dtype.is_float().then_some(own)).collect()
            }
            _ => vec![None; tensors.len()],
        };
        let mut order: Vec<usize> = (0..tensors.len()).collect();
        let mix = match file_type.map(|own| own.wanted) {
            Some(Wanted::Mix(mix)) => Some(mix),
            _ => None,
        };
        let mut chooser = None;
        if let Some(mix) = mix {
            order.sort_by(|a, b| order::compare(&tensors[*a].name, &tensors[*b].name));
            chooser = Some(Chooser::new(mix, pairs, tensors.iter().map(|tensor| &*tensor.name))?);
        }
        for id in order.iter().copied().filter(|id| is_quantized(&tensors[*id])) {
            let name = &*tensors[id].name;
            let own = rules.as_ref().and_then(|rules| rules.of(name));
            wanted[id] = match (own, &mut chooser) {
                (Some(own), _) => Some(own),
                (None, Some(chooser)) => {
                    Some(TensorType::Blocks(chooser.choose(name, &stored_shape(&tensors[id]))?))
                }
                (None, None) => wanted[id],
            };
        }
        if let Some(rules) = &rules {
            rules.check(tensors.iter().filter(|tensor| is_quantized(tensor)).map(|tensor| &*tensor.name))?;
        }
        if mix.is_some() {
            // What llama.cpp computes with as F32 only.
            for (wanted, tensor) in wanted.iter_mut().zip(tensors).filter(|(_, tensor)| is_whole(tensor)) {
                *wanted = tensor.dtype.is_float().then_some(TensorType::Plain(DType::F32));
            }
        }
        let is_asked = file_type.is_some() || rules.is_some();
        Ok(Types { endian, wanted, dtype: options.dtype(), order, is_asked })
    }

    /// Returns the losses that the user asks for by naming types.
    pub(crate) fn asked(&self) -> &'static [LossKind] {
        match self.is_asked {
            true => &[LossKind::Narrowed, LossKind::Quantized],
            false => &[],
        }
    }

    /// Returns the places of the tensors in the checkpoint, in the order of the file.
    pub(crate) fn order(&self) -> &[usize] {
        &self.order
    }

    /// Returns how the tensor at a place is stored; `None` if GGUF has no type for it.
    pub(crate) fn of(&self, id: usize, tensor: &Tensor) -> Option<(TensorType, Encoding)> {
        // A mapping may have divided the rows within a block: then the numbers are stored, if they can be read.
        let own = tensor.blocks.as_deref().and_then(|blocks| encodings::type_of(blocks, self.endian));
        let own = own.filter(|own| fills(tensor, *own));
        let plain = |dtype: DType| {
            let encoding = Encoding::row_major(tensor).with_endian(self.endian).with_dtype(dtype);
            Some((TensorType::Plain(dtype), encoding))
        };
        match self.wanted.get(id).copied().flatten() {
            None if tensor.dtype == DType::F32 && own.is_some() => self.in_blocks(tensor, own?),
            None => plain(holder(tensor.dtype)?),
            // As llama.cpp's converter does: biases and norms are F32, unless the user names another dtype.
            Some(_) if is_whole(tensor) && self.dtype == Some(tensor.dtype) => plain(holder(tensor.dtype)?),
            Some(_) if is_whole(tensor) => plain(DType::F32),
            Some(TensorType::Plain(dtype)) => plain(dtype),
            Some(TensorType::Blocks(wanted)) => match fitting(tensor, wanted) {
                Some(fitting) => self.in_blocks(tensor, fitting),
                None => plain(DType::F16),
            },
        }
    }

    fn in_blocks(&self, tensor: &Tensor, block_type: BlockType) -> Option<(TensorType, Encoding)> {
        let blocks = encodings::of(block_type, self.endian)?;
        let plain = Encoding::row_major(tensor).with_dtype(DType::F32);
        Some((TensorType::Blocks(block_type), plain.in_blocks(blocks.clone())))
    }

    /// Returns the loss of a tensor that is stored as F16 because its rows do not fill the blocks that the user asks for.
    pub(crate) fn loss(&self, id: usize, tensor: &Tensor, stored: TensorType) -> Option<Loss> {
        let (Some(TensorType::Blocks(wanted)), TensorType::Plain(DType::F16)) =
            (self.wanted.get(id).copied().flatten(), stored)
        else {
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
    // Biases of stacked experts have two axes.
    let is_vector = tensor.shape.rank() < 2 || tensor.name.ends_with(".bias");
    is_vector || tensor.name.ends_with("_norm.weight") || WHOLE.into_iter().any(is)
}

/// Returns the type of blocks that the rows of a tensor fill: this one, or the one of smaller blocks that llama.cpp takes
/// then. `None` if they fill neither.
fn fitting(tensor: &Tensor, block_type: BlockType) -> Option<BlockType> {
    if fills(tensor, block_type) {
        return Some(block_type);
    }
    order::smaller(block_type).filter(|smaller| fills(tensor, *smaller))
}

/// Whether the rows of a tensor, as the file describes it, are whole blocks.
fn fills(tensor: &Tensor, block_type: BlockType) -> bool {
    let row = stored_shape(tensor).last().copied().unwrap_or(1);
    row.is_multiple_of(block_type.elements().into())
}
