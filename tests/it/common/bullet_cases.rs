//! The real checkpoints below `CKPT_CASES`.

/// Every case, and a preset that describes it.
pub const CASES: [(&str, &str); 6] = [
    ("simple", "simple:768x32x1"),
    ("simple_failquant", "simple:768x32x1"),
    ("buckets8", "simple:768x32x1,buckets=8"),
    ("multi", "multi:768x32x8x16x1,buckets=8,inputs=4,factoriser=true"),
    ("tb_simple", "builder:768x32x1"),
    ("tb_buckets8_notranspose", "builder:768x32x1,buckets=8,qa=181,transpose=false"),
];
