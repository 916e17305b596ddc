//! The conformance kit covers every kernel and detects a wrong bit.

use ckpt_forward::conformance::{cases, compare, distance, expected};
use ckpt_forward::{Arithmetic, Array, Cpu};
use std::collections::BTreeSet;

const ROUNDS: usize = 200;

#[test]
fn every_kernel_is_tested_in_every_arithmetic() {
    for arithmetic in [Arithmetic::F64, Arithmetic::F32, Arithmetic::F32InF64] {
        let mut seen = BTreeSet::new();
        for case in cases(1, ROUNDS) {
            let outcome = compare(&mut Cpu::new(arithmetic), &case).unwrap();
            assert_eq!(outcome.different, 0);
            if outcome.elements > 0 {
                seen.insert(case.kernel.name());
            }
        }
        assert_eq!(seen.len(), 14, "{seen:?}");
    }
}

#[test]
fn one_wrong_bit_is_detected() {
    let case = cases(2, 1).into_iter().find(|case| case.output.1 > 0).unwrap();
    let right = expected(Arithmetic::F32, &case).unwrap();
    let Array::F32(mut values) = right.clone() else { panic!("the first kernel moves real numbers") };
    values[0] = f32::from_bits(values[0].to_bits() ^ 1);
    assert_eq!(distance(&right, &Array::F32(values)).different, 1);
}
