//! Writes a pickle of protocol 4: a dict of NumPy arrays, as `paddle.save` does.

use crate::format::{KEY_VALUES, NAMESPACE, PARAMETER_NAMES, code, holder};
use ckpt_api::{
    Checkpoint, DType, Encoding, Error, Extent, FileId, Literal, Loss, LossKind, OutputFile, OutputLayout,
    Placement, Result, Shape, Tensor, TensorId,
};
use ckpt_containers::pickle::opcode;

/// The most axes of an array in NumPy 1.
const MOST_AXES: usize = 32;

/// The layout of a new pickle with the checkpoint's tensors.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for more axes than NumPy allows.
pub(super) fn place(checkpoint: &Checkpoint, name: &str) -> Result<OutputLayout> {
    let is_own = checkpoint.metadata.namespace(NAMESPACE).is_some();
    let mut layout = OutputLayout::default();
    let mut pickle = Pickle { bytes: vec![opcode::PROTO, 4, opcode::EMPTY_DICT, opcode::MARK], at: 0 };
    for (id, tensor) in checkpoint.tensors.iter().enumerate() {
        let Some(dtype) = holder(tensor.dtype) else { continue };
        let on_tensor = |error: Error| error.tensor(&tensor.name);
        let encoding = Encoding::row_major(tensor).with_dtype(dtype);
        let len = encoding.stored_len(tensor.shape.elements()).ok_or_else(too_large).map_err(on_tensor)?;
        pickle.array_before(tensor, dtype, len).map_err(on_tensor)?;
        let offset = pickle.flush(&mut layout, len)?;
        pickle.bytes.extend([opcode::TUPLE, opcode::BUILD]);
        let extents = if len == 0 { Vec::new() } else { vec![Extent::new(FileId(0), offset, len)] };
        layout.placements.push(Placement::new(TensorId(id), &tensor.name, extents, encoding));
        layout.losses.extend(loss(tensor, is_own));
    }
    // A key that paddle.load takes out again: it tells whose pickle this is.
    pickle.text(PARAMETER_NAMES)?;
    pickle.bytes.extend([opcode::EMPTY_DICT, opcode::SETITEMS, opcode::STOP]);
    let len = pickle.flush(&mut layout, 0)?;
    layout.files = vec![OutputFile::new(name, len)];
    if checkpoint.metadata.value(NAMESPACE, KEY_VALUES).is_some() {
        let detail = "the file has the tensors alone, under their whole names";
        layout.losses.push(Loss::new(LossKind::MetadataDropped, format!("{NAMESPACE}.{KEY_VALUES}"), detail));
    }
    Ok(layout)
}

/// What Paddle makes of a tensor that is stored in another dtype than NumPy has.
fn loss(tensor: &Tensor, is_own: bool) -> Option<Loss> {
    let name = tensor.name.as_str();
    match tensor.dtype {
        DType::Bf16 => {
            let detail = "stored as uint16, as paddle.save does; set_state_dict makes bf16 of it again";
            Some(Loss::new(LossKind::Retyped, name, detail))
        }
        DType::U16 if !is_own => {
            let detail = "set_state_dict takes integers of u16 for bf16";
            Some(Loss::new(LossKind::Convention, name, detail))
        }
        _ => None,
    }
}

/// Opcodes that are not a literal yet, and where they begin.
struct Pickle {
    bytes: Vec<u8>,
    at: u64,
}

impl Pickle {
    /// A key, and an array up to its elements, of which there are so many bytes.
    fn array_before(&mut self, tensor: &Tensor, dtype: DType, len: u64) -> Result<()> {
        let code = code(dtype).ok_or_else(|| Error::defect("a dtype without a code"))?;
        self.text(&tensor.name)?;
        self.global("numpy.core.multiarray", "_reconstruct")?;
        self.global("numpy", "ndarray")?;
        self.bytes.extend([opcode::BININT1, 0, opcode::TUPLE1]);
        self.bytes.extend([opcode::SHORT_BINBYTES, 1, b'b', opcode::TUPLE3, opcode::REDUCE]);
        // The state: version, shape, dtype, whether the first axis is the fastest, elements.
        self.bytes.extend([opcode::MARK, opcode::BININT1, 1]);
        self.shape(&tensor.shape)?;
        self.global("numpy", "dtype")?;
        self.text(code)?;
        // Means nothing for numbers, and marks bf16 for whoever reads the file here.
        let align = if dtype == DType::Bf16 { opcode::NEWTRUE } else { opcode::NEWFALSE };
        self.bytes.extend([align, opcode::NEWTRUE, opcode::TUPLE3, opcode::REDUCE]);
        self.bytes.extend([opcode::MARK, opcode::BININT1, 3]);
        self.text(if dtype.component_bytes() == 1 { "|" } else { "<" })?;
        self.bytes.extend([opcode::NONE, opcode::NONE, opcode::NONE]);
        for number in [-1i32, -1] {
            self.bytes.push(opcode::BININT);
            self.bytes.extend(number.to_le_bytes());
        }
        self.bytes.extend([opcode::BININT1, 0, opcode::TUPLE, opcode::BUILD, opcode::NEWFALSE]);
        match u32::try_from(len) {
            Ok(len) => {
                self.bytes.push(opcode::BINBYTES);
                self.bytes.extend(len.to_le_bytes());
            }
            Err(_) => {
                self.bytes.push(opcode::BINBYTES8);
                self.bytes.extend(len.to_le_bytes());
            }
        }
        Ok(())
    }

    fn shape(&mut self, shape: &Shape) -> Result<()> {
        if shape.rank() > MOST_AXES {
            return Err(Error::unsupported("the tensor has more axes than NumPy allows")
                .found(shape.rank().to_string())
                .expected(format!("at most {MOST_AXES}")));
        }
        self.bytes.push(opcode::MARK);
        for len in shape.iter() {
            match i32::try_from(*len) {
                Ok(len) => {
                    self.bytes.push(opcode::BININT);
                    self.bytes.extend(len.to_le_bytes());
                }
                Err(_) => {
                    self.bytes.extend([opcode::LONG1, 8]);
                    self.bytes.extend(i64::try_from(*len).map_err(|_| too_large())?.to_le_bytes());
                }
            }
        }
        self.bytes.push(opcode::TUPLE);
        Ok(())
    }

    fn global(&mut self, module: &str, name: &str) -> Result<()> {
        self.text(module)?;
        self.text(name)?;
        self.bytes.push(opcode::STACK_GLOBAL);
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<()> {
        match u8::try_from(text.len()) {
            Ok(len) => self.bytes.extend([opcode::SHORT_BINUNICODE, len]),
            Err(_) => {
                self.bytes.push(opcode::BINUNICODE);
                self.bytes.extend(u32::try_from(text.len()).map_err(|_| too_large())?.to_le_bytes());
            }
        }
        self.bytes.extend_from_slice(text.as_bytes());
        Ok(())
    }

    /// Makes a literal of the opcodes; returns where `len` bytes follow it.
    fn flush(&mut self, layout: &mut OutputLayout, len: u64) -> Result<u64> {
        let bytes = std::mem::take(&mut self.bytes);
        let offset = self.at.checked_add(bytes.len() as u64).ok_or_else(too_large)?;
        layout.literals.push(Literal { file: FileId(0), offset: self.at, bytes });
        self.at = offset.checked_add(len).ok_or_else(too_large)?;
        Ok(offset)
    }
}

fn too_large() -> Error {
    Error::unsupported("the tensors are too large for a file of PaddlePaddle")
}
