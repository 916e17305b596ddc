//! Rows of numbers for quantizers, as `make_quantized.py` computes them again.

/// How many numbers a row has.
const COUNT: usize = 1024;

/// The shapes of rows.
pub const SHAPES: [&str; 9] =
    ["normal", "cubes", "positive", "negative", "sparse", "tiny", "integers", "mixed", "equal"];

/// Returns a row: every operation is exact in 32 bits or rounds once.
pub fn numbers(shape: &str, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // 24 bits from -1 to 1.
        ((state >> 40) as i32 - (1 << 23)) as f32 / (1 << 23) as f32
    };
    let number = |k: usize| {
        let (own, other) = (next(), next());
        match shape {
            "normal" => own + other,
            "cubes" => own * own * own,
            "positive" => own.abs() + 0.25,
            "negative" => -own.abs() - 3.0,
            "sparse" => {
                if other > 0.9375 {
                    own
                } else {
                    0.0
                }
            }
            "tiny" => own * f32::from_bits((127 - 24) << 23),
            "integers" => (own * 8.0).trunc(),
            "mixed" => own * f32::from_bits((127 + 8 - k as u32 / 32) << 23),
            _ => {
                if k < COUNT / 2 {
                    0.75
                } else {
                    -0.5
                }
            }
        }
    };
    (0..COUNT).map(number).collect()
}
