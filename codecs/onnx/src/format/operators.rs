//! Operators that are the same in models and in graphs.

/// Operators of one input without attributes, or with numbers of these names.
pub(crate) const UNARY: [(&str, &[&str]); 36] = [
    ("Relu", &[]),
    ("LeakyRelu", &["alpha"]),
    ("Elu", &["alpha"]),
    ("Selu", &["alpha", "gamma"]),
    ("Celu", &["alpha"]),
    ("ThresholdedRelu", &["alpha"]),
    ("HardSigmoid", &["alpha", "beta"]),
    ("HardSwish", &[]),
    ("Mish", &[]),
    ("Softplus", &[]),
    ("Softsign", &[]),
    ("Sigmoid", &[]),
    ("Tanh", &[]),
    ("Abs", &[]),
    ("Neg", &[]),
    ("Sign", &[]),
    ("Reciprocal", &[]),
    ("Sqrt", &[]),
    ("Exp", &[]),
    ("Log", &[]),
    ("Sin", &[]),
    ("Cos", &[]),
    ("Tan", &[]),
    ("Asin", &[]),
    ("Acos", &[]),
    ("Atan", &[]),
    ("Sinh", &[]),
    ("Cosh", &[]),
    ("Asinh", &[]),
    ("Acosh", &[]),
    ("Atanh", &[]),
    ("Erf", &[]),
    ("Floor", &[]),
    ("Ceil", &[]),
    ("Round", &[]),
    ("Identity", &[]),
];

/// Reductions, whose `axes` may be an attribute or an input.
pub(crate) const REDUCTIONS: [&str; 10] = [
    "ReduceSum",
    "ReduceMean",
    "ReduceProd",
    "ReduceMax",
    "ReduceMin",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceLogSum",
    "ReduceLogSumExp",
];

/// Operators whose inputs, and attributes of these names, are the same: integers and texts.
pub(crate) const SAME: [(&str, &[&str]); 9] = [
    ("LpNormalization", &["axis", "p"]),
    ("ArgMax", &["axis", "keepdims", "select_last_index"]),
    ("ArgMin", &["axis", "keepdims", "select_last_index"]),
    ("GatherND", &["batch_dims"]),
    ("GatherElements", &["axis"]),
    ("ScatterND", &["reduction"]),
    ("ScatterElements", &["axis", "reduction"]),
    ("IsInf", &["detect_negative", "detect_positive"]),
    ("Shape", &["start", "end"]),
];
