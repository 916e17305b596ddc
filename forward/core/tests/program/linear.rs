//! Products with a matrix, and sums of its columns.

use crate::support::*;
use ckpt_api::{Axis, Node, Op};
use ckpt_forward::Random;
use proptest::prelude::*;

proptest! {
    #[test]
    fn gemm_is_a_product_plus_a_bias_whatever_the_order_of_the_weights_axes(
        rows in 0usize..5, inner in 0usize..20, outputs in 1usize..20, turned: bool, biased: bool, seed: u64,
    ) {
        let mut random = Random::new(seed);
        let (x, w, b) = (reals(&mut random, &[rows, inner]), reals(&mut random, &[inner, outputs]), reals(&mut random, &[outputs]));
        let mut expected = Vec::new();
        let (xs, ws, bs) = (x.array.to_f64(), w.array.to_f64(), b.array.to_f64());
        for r in 0..rows {
            for o in 0..outputs {
                let sum: f64 = (0..inner).map(|k| xs[r * inner + k] * ws[k * outputs + o]).sum();
                expected.push(sum + if biased { bs[o] } else { 0.0 });
            }
        }
        let tensors = match turned {
            true => Tensors::default().with("w", &[Axis::Out, Axis::In], &reorder(&w, &[1, 0])),
            false => Tensors::default().with("w", &[Axis::In, Axis::Out], &w),
        };
        let tensors = tensors.with("b", &[Axis::Out], &b);
        let mut node = Node::new("dense", Op::Gemm).parameter("weight", "w");
        if biased {
            node = node.parameter("bias", "b");
        }
        assert_close(&run(node, &[x], &tensors).unwrap(), &[rows, outputs], &expected);
    }

    #[test]
    fn a_bucketed_gemm_takes_each_rows_own_matrix_and_bias(
        rows in 0usize..5, inner in 1usize..9, outputs in 1usize..9, buckets in 1usize..5, order in 0usize..6, seed: u64,
    ) {
        let mut random = Random::new(seed);
        let x = reals(&mut random, &[rows, inner]);
        let chosen = indices(&mut random, &[rows], buckets);
        let w = reals(&mut random, &[buckets, inner, outputs]);
        let b = reals(&mut random, &[buckets, outputs]);
        let (xs, ks, ws, bs) = (x.array.to_f64(), chosen.array.to_f64(), w.array.to_f64(), b.array.to_f64());
        let mut expected = Vec::new();
        for r in 0..rows {
            let k = ks[r] as usize;
            for o in 0..outputs {
                let sum: f64 = (0..inner).map(|i| xs[r * inner + i] * ws[(k * inner + i) * outputs + o]).sum();
                expected.push(sum + bs[k * outputs + o]);
            }
        }
        let order = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]][order];
        let axes = order.map(|axis| [Axis::Bucket, Axis::In, Axis::Out][axis]);
        let tensors = Tensors::default()
            .with("w", &axes, &reorder(&w, &order))
            .with("b", &[Axis::Out, Axis::Bucket], &reorder(&b, &[1, 0]));
        let node = Node::new("l1", Op::BucketedGemm).parameter("weight", "w").parameter("bias", "b");
        assert_close(&run(node, &[x, chosen], &tensors).unwrap(), &[rows, outputs], &expected);
    }
}
