//! Operators in the format's form: their numbers, and the tables of their options.

use super::flat::{Field, Table};
use ckpt_api::{Error, Result};
use ckpt_tf_operators::{Activation, Binary, ModelTensor, Operator, Reduction, Step, Unary, Window};

/// The paddings that keep the size but for strides, and that add nothing.
const SAME: i8 = 0;
const VALID: i8 = 1;
/// The number of the dtype I32.
const I32: i8 = 2;

/// A use of an operator, in the format's form.
#[derive(Clone)]
pub(super) struct Encoded {
    /// The operator's number.
    pub(super) code: i32,
    /// Its version: programs know what each can have.
    pub(super) version: i32,
    /// The type and the table of its options.
    pub(super) options: Option<(u8, Table)>,
}

impl Encoded {
    /// The same with a kernel of integers of 8 bits, as TensorFlow's converter states it: of the versions that have a scale for
    /// each channel, and for dense layers, with inputs that get a zero point.
    pub(super) fn with_integers(self) -> Self {
        let version = match self.code {
            3 => 5,
            4 => 6,
            9 => 12,
            _ => self.version,
        };
        let options = match self.options {
            Some((kind, table)) if self.code == 9 => Some((kind, table.with(3, Field::Flag(true)))),
            options => options,
        };
        Encoded { version, options, ..self }
    }
}

/// Returns a step of a model in the format's form.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for an operator that the format does not have.
pub(super) fn encoded(step: &Step, tensors: &[ModelTensor]) -> Result<Encoded> {
    let rank = step.inputs.first().copied().flatten().and_then(|input| tensors.get(input));
    let rank = rank.map_or(0, |tensor| tensor.shape.len());
    let (code, options, activation) = match &step.operator {
        Operator::Unary(own) => unary(*own)?,
        Operator::Binary(own) => binary(*own),
        Operator::LeakyRelu { alpha } => with(98, 75, [(0, Field::F32(*alpha))]),
        Operator::Select => with(123, 98, []),
        Operator::Cast => with(53, 37, []),
        Operator::Widen => with(6, 38, []),
        Operator::Reduce { by, keeps } => with(reduction(*by), 27, [(0, Field::Flag(*keeps))]),
        Operator::Place { is_greatest: true } => with(56, 40, [(0, Field::I8(I32))]),
        Operator::Place { is_greatest: false } => with(79, 57, [(0, Field::I8(I32))]),
        Operator::Softmax => with(25, 9, [(0, Field::F32(1.0))]),
        Operator::LogSoftmax => with(50, 36, []),
        Operator::Dense => active(9, 8, vec![(2, Field::Flag(rank > 2))], 0),
        Operator::BatchMatMul => with(126, 101, []),
        Operator::Conv(window) => conv(window),
        Operator::DepthwiseConv { window, multiplier } => {
            let [rows, columns] = pair(&window.dilations);
            let more = [(3, Field::I32(*multiplier)), (5, Field::I32(columns)), (6, Field::I32(rows))];
            active(4, 2, sides(window).into_iter().chain(more).collect(), 4)
        }
        Operator::ConvTranspose(window) => active(67, 49, sides(window).to_vec(), 3),
        Operator::Pool { is_mean, kernel, window } => {
            let [rows, columns] = pair(kernel);
            let more = [(3, Field::I32(columns)), (4, Field::I32(rows))];
            let code = if *is_mean { 1 } else { 17 };
            active(code, 5, sides(window).into_iter().chain(more).collect(), 5)
        }
        Operator::Gather { axis } => with(36, 23, [(0, Field::I32(*axis))]),
        Operator::Reshape { shape } => with(22, 17, [(0, Field::I32s(shape.clone()))]),
        Operator::Transpose => with(39, 26, []),
        Operator::Concat { axis } => with(2, 10, [(0, Field::I32(*axis))]),
        Operator::StridedSlice { begin_mask, end_mask } => {
            with(45, 32, [(0, Field::I32(*begin_mask)), (1, Field::I32(*end_mask))])
        }
        Operator::Split => {
            let count = i32::try_from(step.outputs.len()).unwrap_or(i32::MAX);
            with(102, 79, [(0, Field::I32(count))])
        }
        Operator::Pad => with(34, 22, []),
        Operator::PadWith => with(60, 43, []),
        Operator::Tile => with(69, 51, []),
        Operator::BroadcastTo => with(130, 104, []),
        Operator::DepthToSpace { size } => with(5, 94, [(0, Field::I32(*size))]),
        Operator::SpaceToDepth { size } => with(26, 19, [(0, Field::I32(*size))]),
        Operator::Resize { is_linear: true, corners, half } => {
            with(23, 15, [(2, Field::Flag(*corners)), (3, Field::Flag(*half))])
        }
        Operator::Resize { is_linear: false, corners, half } => {
            with(97, 74, [(0, Field::Flag(*corners)), (1, Field::Flag(*half))])
        }
        Operator::Shape => with(77, 55, [(0, Field::I8(I32))]),
    };
    let number = match step.activation {
        Activation::None => return Ok(Encoded { code, version: 1, options }),
        Activation::Relu => 1,
        Activation::ReluN1To1 => 2,
        Activation::Relu6 => 3,
    };
    match (options, activation) {
        (Some((kind, table)), Some(field)) => {
            let options = Some((kind, table.with(field, Field::U8(number))));
            Ok(Encoded { code, version: 1, options })
        }
        _ => Err(Error::defect("an operator has an activation that it does not take")),
    }
}

/// An operator's number, its options, and the number of the option that has an activation.
type Form = (i32, Option<(u8, Table)>, Option<u64>);

fn with<const N: usize>(code: i32, kind: u8, fields: [(u64, Field); N]) -> Form {
    (code, Some((kind, table(fields.to_vec()))), None)
}

fn active(code: i32, kind: u8, fields: Vec<(u64, Field)>, activation: u64) -> Form {
    (code, Some((kind, table(fields))), Some(activation))
}

fn table(fields: Vec<(u64, Field)>) -> Table {
    fields.into_iter().fold(Table::default(), |table, (number, field)| table.with(number, field))
}

fn unary(own: Unary) -> Result<Form> {
    let plain = |code: i32| (code, None, None);
    Ok(match own {
        Unary::Abs => plain(101),
        Unary::Ceil => plain(104),
        Unary::Cos => plain(108),
        Unary::Elu => plain(111),
        Unary::Exp => with(47, 33, []),
        Unary::Floor => plain(8),
        Unary::GeluByErf => with(150, 116, [(0, Field::Flag(false))]),
        Unary::GeluByTanh => with(150, 116, [(0, Field::Flag(true))]),
        Unary::HardSwish => with(117, 91, []),
        Unary::Log => plain(73),
        Unary::Neg => plain(59),
        Unary::Not => plain(87),
        Unary::Relu => plain(19),
        Unary::ReluN1To1 => plain(20),
        Unary::Relu6 => plain(21),
        Unary::Round => plain(116),
        Unary::Sigmoid => plain(14),
        Unary::Sign => plain(158),
        Unary::Sin => plain(66),
        Unary::Sqrt => plain(75),
        Unary::Tanh => plain(28),
        Unary::Erf | Unary::Softplus => {
            return Err(Error::unsupported("TensorFlow Lite lacks an operator").found(format!("{own:?}")));
        }
    })
}

fn binary(own: Binary) -> Form {
    let active = |code: i32, kind: u8| active(code, kind, Vec::new(), 0);
    match own {
        Binary::Add => active(0, 11),
        Binary::Sub => active(41, 28),
        Binary::Mul => active(18, 21),
        Binary::Div => active(42, 29),
        Binary::Maximum => with(55, 39, []),
        Binary::Minimum => with(57, 39, []),
        Binary::Pow => with(78, 56, []),
        Binary::PRelu => (54, None, None),
        Binary::Equal => (71, None, None),
        Binary::Less => (58, None, None),
        Binary::LessEqual => (63, None, None),
        Binary::Greater => (61, None, None),
        Binary::GreaterEqual => (62, None, None),
        Binary::And => (86, None, None),
        Binary::Or => (84, None, None),
    }
}

fn reduction(by: Reduction) -> i32 {
    match by {
        Reduction::Mean => 40,
        Reduction::Sum => 74,
        Reduction::Prod => 81,
        Reduction::Max => 82,
        Reduction::Min => 89,
    }
}

/// A convolution of images, or of volumes.
fn conv(window: &Window) -> Form {
    let at = |all: &[i32], side: usize| Field::I32(all.get(side).copied().unwrap_or(1));
    let (strides, dilations) = (&window.strides, &window.dilations);
    if strides.len() == 2 {
        let more = [(4, at(dilations, 1)), (5, at(dilations, 0))];
        return active(3, 1, sides(window).into_iter().chain(more).collect(), 3);
    }
    let fields = vec![
        (0, padding(window)),
        (1, at(strides, 0)),
        (2, at(strides, 2)),
        (3, at(strides, 1)),
        (5, at(dilations, 0)),
        (6, at(dilations, 2)),
        (7, at(dilations, 1)),
    ];
    active(132, 106, fields, 4)
}

fn padding(window: &Window) -> Field {
    Field::I8(if window.is_padded { SAME } else { VALID })
}

/// The padding and the strides of a window over images.
fn sides(window: &Window) -> [(u64, Field); 3] {
    let [down, across] = pair(&window.strides);
    [(0, padding(window)), (1, Field::I32(across)), (2, Field::I32(down))]
}

fn pair(all: &[i32]) -> [i32; 2] {
    [0, 1].map(|side| all.get(side).copied().unwrap_or(1))
}
