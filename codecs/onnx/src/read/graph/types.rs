//! The types of values that a model does not state.

use super::values::Reader;
use crate::format::message::Node;
use crate::format::number;
use ckpt_api::DType;

/// Operators whose results have the type of their first input.
const PASSING: [&str; 54] = [
    "Abs",
    "Add",
    "BitShift",
    "BitwiseAnd",
    "BitwiseNot",
    "BitwiseOr",
    "BitwiseXor",
    "CenterCropPad",
    "Clip",
    "Compress",
    "Concat",
    "CumProd",
    "CumSum",
    "DepthToSpace",
    "Div",
    "Dropout",
    "Expand",
    "Flatten",
    "Gather",
    "GatherElements",
    "GatherND",
    "Identity",
    "MatMul",
    "Max",
    "MaxPool",
    "Min",
    "Mod",
    "Mul",
    "Neg",
    "Pad",
    "Pow",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "Relu",
    "Reshape",
    "Resize",
    "ReverseSequence",
    "Scatter",
    "ScatterElements",
    "ScatterND",
    "Sign",
    "Slice",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "Sub",
    "Sum",
    "TensorScatter",
    "Tile",
    "Transpose",
    "Trilu",
    "Unsqueeze",
];

impl<'a> Reader<'a> {
    /// Notes the types of a node's outputs, as far as they follow from its inputs and the model does not state them.
    pub(super) fn note_types(&mut self, node: &'a Node) {
        for (at, output) in node.outputs.iter().enumerate().filter(|(_, output)| !output.is_empty()) {
            if self.dtypes.get(output.as_str()).is_some_and(|stated| *stated != 0) {
                continue;
            }
            if let Some(number) = self.type_of(node, at).and_then(number) {
                self.dtypes.insert(output, number);
            }
        }
    }

    fn type_of(&self, node: &Node, at: usize) -> Option<DType> {
        let own = |at: usize| node.input(at).and_then(|name| self.dtype(name));
        // The type of a zero point, which is unsigned if there is none.
        let of_zero = |at: usize| if node.input(at).is_some() { own(at) } else { Some(DType::U8) };
        match node.op.as_str() {
            "QuantizeLinear" => match node.int("output_dtype").filter(|number| *number != 0) {
                Some(number) => crate::format::dtype(number),
                None => of_zero(2),
            },
            "DynamicQuantizeLinear" => Some(if at == 1 { DType::F32 } else { DType::U8 }),
            "QLinearConv" | "QLinearMatMul" | "QLinearAdd" | "QLinearMul" => of_zero(7),
            "QLinearSigmoid" | "QLinearLeakyRelu" | "QLinearGlobalAveragePool" => of_zero(4),
            "QLinearConcat" => of_zero(1),
            "QGemm" if node.input(7).is_some() => of_zero(8),
            "QGemm" | "DynamicQuantizeMatMul" | "MatMulIntegerToFloat" => Some(DType::F32),
            "MatMulInteger" | "ConvInteger" => Some(DType::I32),
            "DequantizeLinear" => own(1),
            "Shape" | "Size" | "ArgMax" | "ArgMin" => Some(DType::I64),
            "TopK" if at == 1 => Some(DType::I64),
            "Equal" | "Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual" | "And" | "Or" | "Xor"
            | "Not" | "IsNaN" | "IsInf" => Some(DType::Bool),
            "CastLike" | "Where" => own(1),
            "OneHot" => own(2),
            "Dropout" if at == 1 => Some(DType::Bool),
            "TopK" => own(0),
            op if PASSING.contains(&op) => own(0),
            _ => None,
        }
    }
}
