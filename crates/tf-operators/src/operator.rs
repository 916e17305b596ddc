//! Operators, and their options.

/// An operator of TensorFlow, or several that belong together, such as a convolution and its bias.
#[derive(Clone, Debug, PartialEq)]
pub enum Operator {
    /// A function of each element.
    Unary(Unary),
    /// A function of two elements; the shorter shape is repeated.
    Binary(Binary),
    /// `x` where it is positive, or else `alpha · x`.
    LeakyRelu {
        /// The slope below 0.
        alpha: f32,
    },
    /// Takes a condition and two values.
    Select,
    /// Numbers as those of another kind: reals, integers or truth values, as the result's dtype says.
    Cast,
    /// Floats of 16 bits as those of 32.
    Widen,
    /// Takes a value and its axes, as integers.
    Reduce {
        /// What becomes of the elements.
        by: Reduction,
        /// Whether the axes stay, with the length 1.
        keeps: bool,
    },
    /// The place of the greatest or least element. Takes a value and the axis, which does not stay.
    Place {
        /// Whether it is the greatest.
        is_greatest: bool,
    },
    /// Along the last axis.
    Softmax,
    /// Its logarithm.
    LogSoftmax,
    /// Takes a value `[..., in]`, a kernel and a bias.
    Dense,
    /// The product of matrices, in the last two axes.
    BatchMatMul,
    /// Takes images, a kernel and a bias.
    Conv(Window),
    /// Takes images, a kernel and a bias. Each channel has kernels of its own.
    DepthwiseConv {
        /// How the kernel moves.
        window: Window,
        /// Channels of the result for each channel of the images.
        multiplier: i32,
    },
    /// Takes the shape of its result, a kernel, images and a bias.
    ConvTranspose(Window),
    /// Takes images.
    Pool {
        /// Whether the result is the mean, of the elements without padding, or the greatest element.
        is_mean: bool,
        /// Lengths of the sides.
        kernel: Vec<i32>,
        /// How it moves.
        window: Window,
    },
    /// Takes a table and the places of rows along this axis.
    Gather {
        /// The axis of the table.
        axis: i32,
    },
    /// Takes a value and a shape as integers.
    Reshape {
        /// The same shape; −1 for what follows from the others.
        shape: Vec<i32>,
    },
    /// Takes a value and the order of its axes.
    Transpose,
    /// Joins values.
    Concat {
        /// Along this axis.
        axis: i32,
    },
    /// Takes a value, and where it begins, ends, and in which steps.
    StridedSlice {
        /// A bit for each axis that is taken from its beginning.
        begin_mask: i32,
        /// A bit for each axis that is taken to its end.
        end_mask: i32,
    },
    /// Takes a value, the sizes of parts, and the axis.
    Split,
    /// Takes a value and a pair of lengths for each axis; zeros are added.
    Pad,
    /// The same with the number that is added.
    PadWith,
    /// Takes a value and how often each axis is repeated.
    Tile,
    /// Takes a value and a shape.
    BroadcastTo,
    /// Takes images.
    DepthToSpace {
        /// The side of a block.
        size: i32,
    },
    /// Takes images.
    SpaceToDepth {
        /// The side of a block.
        size: i32,
    },
    /// Takes images and the numbers of rows and columns.
    Resize {
        /// Between the nearest elements, or the nearest one.
        is_linear: bool,
        /// Whether the elements at the corners stay at the corners.
        corners: bool,
        /// Whether elements are in the middle of their places.
        half: bool,
    },
    /// The lengths of a value.
    Shape,
}

/// How a window moves over images: a number for each side, of which there are two or three.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// From one place of the window to the next.
    pub strides: Vec<i32>,
    /// From one element of the window to the next.
    pub dilations: Vec<i32>,
    /// Whether images are padded so that only strides change their size: if the number is odd, one more at the end.
    pub is_padded: bool,
}

/// A function of each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say what they are")]
pub enum Unary {
    Abs,
    Ceil,
    Cos,
    Elu,
    Erf,
    Exp,
    Floor,
    GeluByErf,
    GeluByTanh,
    HardSwish,
    Log,
    Neg,
    Not,
    Relu,
    ReluN1To1,
    Relu6,
    Round,
    Sigmoid,
    Sign,
    Sin,
    Softplus,
    Sqrt,
    Tanh,
}

/// A function of two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say what they are")]
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Maximum,
    Minimum,
    Pow,
    PRelu,
    Equal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    And,
    Or,
}

/// What becomes of the elements along axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say what they are")]
pub enum Reduction {
    Mean,
    Sum,
    Prod,
    Max,
    Min,
}

/// What is applied to the result of an operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activation {
    /// Nothing.
    #[default]
    None,
    /// At least 0.
    Relu,
    /// From −1 to 1.
    ReluN1To1,
    /// From 0 to 6.
    Relu6,
}
