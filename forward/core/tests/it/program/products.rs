//! Sums of products along named axes, and transposed convolutions.

use super::support::*;
use ckpt_api::{Attribute, Axis, Node, Op};
use ckpt_forward::{Random, Value};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn ints(values: &[usize]) -> Attribute {
    Attribute::Ints(values.iter().map(|value| *value as i64).collect())
}

/// The places of a shape, row-major.
fn places(shape: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for len in shape {
        all = all.iter().flat_map(|at| (0..*len).map(move |i| [&at[..], &[i]].concat())).collect();
    }
    all
}

fn place_of(shape: &[usize], at: &[usize]) -> usize {
    at.iter().zip(shape).fold(0, |place, (i, len)| place * len + i)
}

/// Sums over all letters that the result lacks, by one loop over the indices of all letters.
fn sum_of_products(terms: &[&str], result: &str, values: &[Value]) -> Value {
    let mut lens: BTreeMap<char, usize> = BTreeMap::new();
    for (term, value) in terms.iter().zip(values) {
        lens.extend(term.chars().zip(value.shape.iter().copied()));
    }
    let letters: Vec<char> = lens.keys().copied().collect();
    let shape: Vec<usize> = result.chars().map(|letter| lens[&letter]).collect();
    let mut sums = vec![0.0; shape.iter().product()];
    for at in places(&lens.values().copied().collect::<Vec<_>>()) {
        let index = |letter: char| at[letters.iter().position(|own| *own == letter).unwrap()];
        let factor = |(term, value): (&&str, &Value)| {
            let own: Vec<usize> = term.chars().map(index).collect();
            value.array.to_f64()[place_of(&value.shape, &own)]
        };
        let product: f64 = terms.iter().zip(values).map(factor).product();
        let own: Vec<usize> = result.chars().map(index).collect();
        sums[place_of(&shape, &own)] += product;
    }
    real(&shape, &sums)
}

fn einsum(equation: &str) -> Node {
    Node::new("e", Op::Einsum).attribute("equation", Attribute::Text(equation.into()))
}

#[test]
fn einsum_sums_over_the_letters_that_the_result_lacks() {
    let lens =
        BTreeMap::from([('a', 2), ('b', 3), ('h', 2), ('i', 3), ('j', 4), ('k', 2), ('d', 5), ('q', 3)]);
    let mut random = Random::new(7);
    for (equation, terms, result) in [
        ("ij,jk->ik", vec!["ij", "jk"], "ik"),
        ("ij,jk", vec!["ij", "jk"], "ik"),
        ("bij, bjk -> bik", vec!["bij", "bjk"], "bik"),
        ("bhqd,bhkd->bhqk", vec!["bhqd", "bhkd"], "bhqk"),
        ("bqhd,bkhd->bhqk", vec!["bqhd", "bkhd"], "bhqk"),
        ("ij->ji", vec!["ij"], "ji"),
        ("ij->j", vec!["ij"], "j"),
        ("ij->", vec!["ij"], ""),
        ("ba", vec!["ba"], "ab"),
        ("i,j->ij", vec!["i", "j"], "ij"),
        ("i,i->", vec!["i", "i"], ""),
        ("ij,ij->ij", vec!["ij", "ij"], "ij"),
        ("ab,bi,ij->aj", vec!["ab", "bi", "ij"], "aj"),
        ("ab,b,bk->ka", vec!["ab", "b", "bk"], "ka"),
        ("bi,bk->", vec!["bi", "bk"], ""),
        ("jd,k,jk->d", vec!["jd", "k", "jk"], "d"),
    ] {
        let values: Vec<Value> = terms
            .iter()
            .map(|term| {
                let shape: Vec<usize> = term.chars().map(|letter| lens[&letter]).collect();
                reals(&mut random, &shape)
            })
            .collect();
        let expected = sum_of_products(&terms, result, &values);
        let found = run(einsum(equation), &values, &Tensors::default()).unwrap();
        assert_close(&found, &expected.shape, &expected.array.to_f64());
    }
}

#[test]
fn einsum_takes_diagonals_and_broadcasts_the_ellipsis() {
    let mut random = Random::new(8);
    let x = reals(&mut random, &[3, 3, 2]);
    let values = x.array.to_f64();
    let expected: Vec<f64> = (0..3).flat_map(|i| [values[i * 8], values[i * 8 + 1]]).collect();
    assert_close(
        &run(einsum("iij->ij"), std::slice::from_ref(&x), &Tensors::default()).unwrap(),
        &[3, 2],
        &expected,
    );
    let trace = (0..3).map(|i| values[i * 8] + values[i * 8 + 1]).sum();
    assert_close(&run(einsum("iij->"), &[x], &Tensors::default()).unwrap(), &[], &[trace]);
    let (a, b) = (reals(&mut random, &[4, 1, 2, 3]), reals(&mut random, &[5, 3, 2]));
    let expected = run(Node::new("m", Op::MatMul), &[a.clone(), b.clone()], &Tensors::default()).unwrap();
    for equation in ["...ij,...jk->...ik", "...ij,...jk"] {
        let found = run(einsum(equation), &[a.clone(), b.clone()], &Tensors::default()).unwrap();
        assert_close(&found, &[4, 5, 2, 2], &expected.array.to_f64());
    }
}

#[test]
fn an_equation_that_does_not_fit_is_refused() {
    let (a, b) = (real(&[2, 3], &[0.0; 6]), real(&[4, 2], &[0.0; 8]));
    for (equation, part) in [
        ("ij,jk->ik", "one length"),
        ("ij->ij", "2 terms"),
        ("i,jk->ik", "a letter for each axis"),
        ("ij,kl->im", "a result of letters"),
        ("ij,kl->ii", "a result of letters"),
        ("i1,kl->i", "a letter for each axis"),
        ("...,kl->k", "a result of letters"),
        ("", "2 terms"),
    ] {
        let error =
            run(einsum(equation), &[a.clone(), b.clone()], &Tensors::default()).unwrap_err().to_string();
        assert!(error.contains(part), "{equation}: {error}");
    }
}

/// How a transposed window moves along one side.
#[derive(Clone, Copy, Debug)]
struct Side {
    len: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
    before: usize,
    after: usize,
    more: usize,
}

impl Side {
    fn whole(self) -> usize {
        (self.len - 1) * self.stride + (self.kernel - 1) * self.dilation + 1 + self.more
    }

    fn output(self) -> usize {
        self.whole() - self.before - self.after
    }
}

fn side() -> impl Strategy<Value = Side> {
    (1usize..5, 1usize..4, 1usize..4, 1usize..3, 0usize..4, 0usize..4, 0usize..3)
        .prop_map(|(len, kernel, stride, dilation, before, after, more)| Side {
            len,
            kernel,
            stride,
            dilation,
            before,
            after,
            more: more.min(stride.max(dilation) - 1),
        })
        .prop_map(|side| {
            // At least one output remains.
            let before = side.before.min(side.whole() - 1);
            Side { before, after: side.after.min(side.whole() - 1 - before), ..side }
        })
}

proptest! {
    #[test]
    fn a_transposed_convolution_adds_each_element_times_the_kernel_to_its_places(
        sides in prop::collection::vec(side(), 1..4), groups in 1usize..3, inside in 1usize..3, outside in 1usize..6, biased: bool, seed: u64,
    ) {
        let mut random = Random::new(seed);
        let each = |of: fn(&Side) -> usize| sides.iter().map(of).collect::<Vec<_>>();
        let shape = [vec![2, groups * inside], each(|side| side.len)].concat();
        let filters = [vec![groups * inside, outside], each(|side| side.kernel)].concat();
        let made = [vec![2, groups * outside], each(|side| side.output())].concat();
        let (x, w) = (reals(&mut random, &shape), reals(&mut random, &filters));
        let b = reals(&mut random, &[groups * outside]);
        let (xs, ws, bs) = (x.array.to_f64(), w.array.to_f64(), b.array.to_f64());
        let mut expected = vec![0.0; made.iter().product()];
        for (at, value) in places(&shape).into_iter().zip(xs) {
            for tap in places(&filters[1..]) {
                let output: Option<Vec<usize>> = sides.iter().zip(at[2..].iter().zip(&tap[1..])).map(|(side, (i, k))| {
                    let place = (i * side.stride + k * side.dilation).checked_sub(side.before)?;
                    (place < side.output()).then_some(place)
                }).collect();
                if let Some(output) = output {
                    let channel = at[1] / inside * outside + tap[0];
                    let weight = ws[place_of(&filters, &[&at[1..2], &tap].concat())];
                    expected[place_of(&made, &[vec![at[0], channel], output].concat())] += value * weight;
                }
            }
        }
        if biased {
            for (at, value) in places(&made).iter().zip(&mut expected) {
                *value += bs[at[1]];
            }
        }
        let own = [Axis::In, Axis::Out, Axis::KernelZ, Axis::KernelY, Axis::KernelX];
        let axes = [&own[..2], &own[5 - sides.len()..]].concat();
        let order = random.order(axes.len());
        let turned: Vec<Axis> = order.iter().map(|axis| axes[*axis]).collect();
        let tensors = Tensors::default().with("w", &turned, &reorder(&w, &order)).with("b", &[Axis::Out], &b);
        let mut node = Node::new("t", Op::ConvTranspose)
            .parameter("weight", "w")
            .attribute("group", Attribute::Int(groups as i64))
            .attribute("strides", ints(&each(|side| side.stride)))
            .attribute("dilations", ints(&each(|side| side.dilation)));
        if biased {
            node = node.parameter("bias", "b");
        }
        let padded = node.clone()
            .attribute("output_padding", ints(&each(|side| side.more)))
            .attribute("pads", ints(&[each(|side| side.before), each(|side| side.after)].concat()));
        assert_close(&run(padded, std::slice::from_ref(&x), &tensors).unwrap(), &made, &expected);
        // The shape of the output gives the padding, too: half of it, the larger half before.
        let halves = sides.iter().all(|side| side.before == side.after || side.before == side.after + 1);
        if halves {
            let shaped = node.attribute("output_padding", ints(&each(|side| side.more)))
                .attribute("output_shape", ints(&each(|side| side.output())));
            assert_close(&run(shaped, &[x], &tensors).unwrap(), &made, &expected);
        }
    }
}

#[test]
fn a_transposed_convolution_of_the_same_padding_has_stride_times_the_length() {
    let tensors = Tensors::default().with(
        "w",
        &[Axis::In, Axis::Out, Axis::KernelX],
        &real(&[1, 1, 4], &[1., 2., 3., 4.]),
    );
    let node = |mode: &str| {
        Node::new("t", Op::ConvTranspose)
            .parameter("weight", "w")
            .attribute("strides", ints(&[1]))
            .attribute("auto_pad", Attribute::Text(mode.into()))
    };
    let x = real(&[1, 1, 3], &[1., 1., 1.]);
    // All: 1 3 6 9 7 4. One is cut off before and two behind, or the other way round.
    let upper = run(node("SAME_UPPER"), std::slice::from_ref(&x), &tensors).unwrap();
    assert_close(&upper, &[1, 1, 3], &[3., 6., 9.]);
    let lower = run(node("SAME_LOWER"), std::slice::from_ref(&x), &tensors).unwrap();
    assert_close(&lower, &[1, 1, 3], &[6., 9., 7.]);
    let error = run(node("SAME"), std::slice::from_ref(&x), &tensors).unwrap_err().to_string();
    assert!(error.contains("SAME_UPPER"), "{error}");
    let padded = Node::new("t", Op::ConvTranspose).parameter("weight", "w").attribute("pads", ints(&[5, 5]));
    let error = run(padded, &[x], &tensors).unwrap_err().to_string();
    assert!(error.contains("pads") && error.contains("at most 6"), "{error}");
}

#[test]
fn a_transposed_convolution_sums_input_channels_then_taps_in_reverse_order() {
    let (inputs, length, kernel, stride, pad) = (3, 9, 5, 2, 1);
    let mut random = Random::new(11);
    let (x, w) = (reals(&mut random, &[1, inputs, length]), reals(&mut random, &[inputs, 1, kernel]));
    let tensors = Tensors::default().with("w", &[Axis::In, Axis::Out, Axis::KernelX], &w);
    let node = Node::new("up", Op::ConvTranspose)
        .parameter("weight", "w")
        .attribute("strides", Attribute::Ints(vec![stride as i64]))
        .attribute("pads", Attribute::Ints(vec![pad as i64; 2]));
    let found = run(node, std::slice::from_ref(&x), &tensors).unwrap();
    let (x, w) = (x.array.to_f64(), w.array.to_f64());
    let expected = (0..stride * (length - 1) + kernel - 2 * pad).map(|place| {
        let mut sum = 0.0;
        for (input, tap) in (0..inputs).flat_map(|input| (0..kernel).rev().map(move |tap| (input, tap))) {
            let from =
                (place + pad).checked_sub(tap).filter(|from| from % stride == 0 && from / stride < length);
            sum += from.map_or(0.0, |from| x[input * length + from / stride] * w[input * kernel + tap]);
        }
        sum
    });
    assert_eq!(found.array.to_f64(), expected.collect::<Vec<f64>>());
}
