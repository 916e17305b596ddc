//! Matrix products, sums of columns, tables and biases.

use super::support::*;
use ckpt_api::{Axis, Node, Op};
use ckpt_forward::{Random, op};
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
        let node = Node::new("l1", Op::custom(op::BUCKETED_GEMM)).parameter("weight", "w").parameter("bias", "b");
        assert_close(&run(node, &[x, chosen], &tensors).unwrap(), &[rows, outputs], &expected);
    }
}

proptest! {
    #[test]
    fn a_feature_transformer_sums_the_columns_of_active_features(
        rows in 0usize..4, slots in 0usize..6, features in 1usize..8, sets in 1usize..4, outputs in 1usize..9,
        shared: bool, biases in 0usize..4, seed: u64,
    ) {
        let mut random = Random::new(seed);
        let index = indices(&mut random, &[rows, slots], sets * features);
        let padded: Vec<i32> = index.array.to_f64().iter().map(|f| if random.chance(4) { -1 } else { *f as i32 }).collect();
        let index = integer(&[rows, slots], &padded);
        let w = reals(&mut random, &[sets, outputs, features]);
        let f = reals(&mut random, &[outputs, features]);
        let b = reals(&mut random, &[biases.max(1), outputs]);
        let chosen = indices(&mut random, &[rows], biases.max(1));
        let (ws, fs, bs, ks) = (w.array.to_f64(), f.array.to_f64(), b.array.to_f64(), chosen.array.to_f64());
        let mut expected = Vec::new();
        for r in 0..rows {
            for o in 0..outputs {
                let mut sum = if biases > 0 { bs[ks[r] as usize * outputs + o] } else { 0.0 };
                for slot in 0..slots {
                    let Ok(index) = usize::try_from(padded[r * slots + slot]) else { continue };
                    let (set, feature) = (index / features, index % features);
                    sum += ws[(set * outputs + o) * features + feature];
                    sum += if shared { fs[o * features + feature] } else { 0.0 };
                }
                expected.push(sum);
            }
        }
        let mut node = Node::new("l0", Op::custom(op::FEATURE_TRANSFORMER)).parameter("weight", "w")
            .attribute("features", ckpt_api::Attribute::Int(features as i64));
        let tensors = Tensors::default()
            .with("w", &[Axis::Bucket, Axis::Out, Axis::Feature], &w)
            .with("f", &[Axis::Out, Axis::Feature], &f)
            .with("b", &[Axis::Bucket, Axis::Out], &b);
        if shared {
            node = node.parameter("factoriser", "f");
        }
        let mut inputs = vec![index];
        if biases > 0 {
            node = node.parameter("bias", "b");
            inputs.push(chosen);
        }
        assert_close(&run(node, &inputs, &tensors).unwrap(), &[rows, outputs], &expected);
    }

    #[test]
    fn gather_looks_rows_up(shape in prop::collection::vec(0usize..4, 0..4), table in 1usize..9, columns in 1usize..6, turned: bool, seed: u64) {
        let mut random = Random::new(seed);
        let index = indices(&mut random, &shape, table);
        let w = reals(&mut random, &[table, columns]);
        let ws = w.array.to_f64();
        let rows = index.array.to_f64();
        let expected: Vec<f64> = rows.iter().flat_map(|row| ws[*row as usize * columns..][..columns].to_vec()).collect();
        let tensors = match turned {
            true => Tensors::default().with("w", &[Axis::Out, Axis::Feature], &reorder(&w, &[1, 0])),
            false => Tensors::default().with("w", &[Axis::Feature, Axis::Out], &w),
        };
        let node = Node::new("embedding", Op::Gather).parameter("weight", "w");
        assert_close(&run(node, &[index], &tensors).unwrap(), &[&shape[..], &[columns]].concat(), &expected);
    }

    #[test]
    fn a_bias_by_itself_is_added_to_each_row(rows in 0usize..5, outputs in 1usize..6, buckets in 0usize..4, seed: u64) {
        let mut random = Random::new(seed);
        let x = reals(&mut random, &[rows, outputs]);
        let chosen = indices(&mut random, &[rows], buckets.max(1));
        let b = reals(&mut random, &[buckets.max(1), outputs]);
        let (xs, ks, bs) = (x.array.to_f64(), chosen.array.to_f64(), b.array.to_f64());
        let expected: Vec<f64> =
            (0..rows * outputs).map(|i| xs[i] + bs[ks[i / outputs] as usize * outputs + i % outputs]).collect();
        let inputs = if buckets > 0 { vec![x, chosen] } else { vec![x] };
        let axes = if buckets > 0 { [Axis::Bucket, Axis::Out] } else { [Axis::Unit, Axis::Out] };
        let tensors = Tensors::default().with("b", &axes, &b);
        let node = Node::new("bias", Op::custom(op::BIAS)).parameter("bias", "b");
        assert_close(&run(node, &inputs, &tensors).unwrap(), &[rows, outputs], &expected);
    }
}

#[test]
fn quantized_integers_are_divided_by_their_scale() {
    let tensors = Tensors::default()
        .with("w", &[Axis::In, Axis::Out], &integer(&[2, 1], &[64, -32]))
        .edit("w", |tensor| {
            tensor.quantization = Some(ckpt_api::Quantization::Units { scale: 64.try_into().unwrap() })
        });
    let node = Node::new("dense", Op::Gemm).parameter("weight", "w");
    assert_close(&run(node, &[real(&[1, 2], &[3.0, 4.0])], &tensors).unwrap(), &[1, 1], &[1.0]);
}

#[test]
fn gemm_multiplies_the_last_axis_of_a_value_of_any_rank() {
    let mut random = Random::new(5);
    let (w, b) = (reals(&mut random, &[3, 2]), reals(&mut random, &[2]));
    let tensors = Tensors::default().with("w", &[Axis::In, Axis::Out], &w).with("b", &[Axis::Out], &b);
    let (ws, bs) = (w.array.to_f64(), b.array.to_f64());
    for shape in [&[3][..], &[4, 3], &[2, 5, 3], &[2, 1, 2, 3], &[0, 3]] {
        let x = reals(&mut random, shape);
        let rows = x.array.to_f64();
        let row = |x: &[f64], o: usize| (0..3).map(|k| x[k] * ws[k * 2 + o]).sum::<f64>() + bs[o];
        let expected: Vec<f64> = rows.chunks(3).flat_map(|x| [row(x, 0), row(x, 1)]).collect();
        let node = Node::new("dense", Op::Gemm).parameter("weight", "w").parameter("bias", "b");
        let made = [&shape[..shape.len() - 1], &[2]].concat();
        assert_close(&run(node, &[x], &tensors).unwrap(), &made, &expected);
    }
}
