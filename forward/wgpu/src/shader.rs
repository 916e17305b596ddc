//! The shaders: WGSL, put together from parts that they share.

/// Threads of a workgroup.
pub const WORKGROUP: u32 = 64;

/// The name of every shader's entry point.
pub const ENTRY_POINT: &str = "compute";

/// The binding of the first operand; the parameters, the output and the status come before.
pub const FIRST_OPERAND: u32 = 3;

/// The most operands of a kernel.
pub const MAX_OPERANDS: u32 = 5;

/// The binding of the lengths that naga's translation for Metal takes of every shader with arrays, whether it reads
/// them (it does not): another view of the parameters, so that something is bound.
pub const LENGTHS: u32 = FIRST_OPERAND + MAX_OPERANDS;

/// Bit of the status: an integer result left 32 bits.
pub const OVERFLOW: u32 = 1;

/// Bit of the status: an index operand was out of range.
pub const OUT_OF_RANGE: u32 = 2;

/// What one compute pipeline runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shader {
    /// Its name.
    pub name: &'static str,
    /// Its operands.
    pub operands: usize,
    parts: &'static [&'static str],
}

impl Shader {
    /// The whole source.
    pub fn source(&self) -> String {
        self.parts.concat()
    }
}

const DEVICE: &str = include_str!("../shaders/device.wgsl");
const REAL: &str = include_str!("../shaders/real.wgsl");
const INTEGER: &str = include_str!("../shaders/integer.wgsl");
const FUNCTIONS: &str = include_str!("../shaders/functions.wgsl");
const WINDOW: &str = include_str!("../shaders/window.wgsl");

macro_rules! shaders {
    ($($id:ident = $name:literal, $operands:literal: $($part:expr),+;)*) => {
        $(pub(crate) const $id: Shader = Shader { name: $name, operands: $operands, parts: &[DEVICE, $($part),+] };)*

        /// Every shader.
        pub const ALL: &[Shader] = &[$($id),*];
    };
}

shaders! {
    COPY = "copy", 1: include_str!("../shaders/copy.wgsl");
    PAD = "pad", 1: include_str!("../shaders/pad.wgsl");
    GATHER = "gather", 2: include_str!("../shaders/gather.wgsl");
    UNARY = "unary", 1: REAL, FUNCTIONS, include_str!("../shaders/unary.wgsl");
    UNARY_INTEGER = "unary_integer", 1: INTEGER, include_str!("../shaders/unary_integer.wgsl");
    BINARY = "binary", 2: REAL, include_str!("../shaders/binary.wgsl");
    BINARY_INTEGER = "binary_integer", 2: INTEGER, include_str!("../shaders/binary.wgsl");
    GEMM = "gemm", 4: REAL, include_str!("../shaders/gemm.wgsl");
    GEMM_INTEGER = "gemm_integer", 4: INTEGER, include_str!("../shaders/gemm.wgsl");
    CONV = "conv", 3: REAL, WINDOW, include_str!("../shaders/conv.wgsl");
    CONV_INTEGER = "conv_integer", 3: INTEGER, WINDOW, include_str!("../shaders/conv.wgsl");
    SPARSE_SUM = "sparse_sum", 5: REAL, include_str!("../shaders/sparse_sum.wgsl");
    SPARSE_SUM_INTEGER = "sparse_sum_integer", 5: INTEGER, include_str!("../shaders/sparse_sum.wgsl");
    POOL = "pool", 1: REAL, WINDOW, include_str!("../shaders/pool.wgsl");
    AFFINE = "affine", 5: REAL, include_str!("../shaders/affine.wgsl");
    LAYER_NORM = "layer_norm", 3: REAL, include_str!("../shaders/layer_norm.wgsl");
    SOFTMAX = "softmax", 1: REAL, FUNCTIONS, include_str!("../shaders/softmax.wgsl");
    MEAN = "mean", 1: REAL, include_str!("../shaders/mean.wgsl");
    STATIC_FEATURES = "static_features", 1: REAL, FUNCTIONS, include_str!("../shaders/static_features.wgsl");
    PROBE = "probe", 1: REAL, include_str!("../shaders/probe.wgsl");
}
