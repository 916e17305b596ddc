//! Convolutions and pooling.

use super::support::*;
use ckpt_api::{Attribute, Axis, Node, Op};
use ckpt_forward::{Random, Value};
use proptest::prelude::*;

/// How a window moves along one side.
#[derive(Clone, Copy, Debug)]
struct Side {
    len: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
    before: usize,
    after: usize,
}

impl Side {
    fn reach(self) -> usize {
        (self.kernel - 1) * self.dilation + 1
    }

    /// ONNX: `floor((len + pads − reach) / stride) + 1`.
    fn output(self) -> usize {
        (self.len + self.before + self.after - self.reach()) / self.stride + 1
    }

    fn place(self, output: usize, tap: usize) -> Option<usize> {
        let place = (output * self.stride + tap * self.dilation) as i64 - self.before as i64;
        usize::try_from(place).ok().filter(|place| *place < self.len)
    }
}

fn side() -> impl Strategy<Value = Side> {
    (1usize..5, 1usize..4, 1usize..4, 0usize..4, 0usize..4, 0usize..7).prop_map(
        |(kernel, stride, dilation, before, after, more)| Side {
            len: (kernel - 1) * dilation + 1 + more,
            kernel,
            stride,
            dilation,
            before,
            after,
        },
    )
}

fn ints(values: &[usize]) -> Attribute {
    Attribute::Ints(values.iter().map(|value| *value as i64).collect())
}

fn slide(node: Node, [y, x]: [Side; 2]) -> Node {
    node.attribute("strides", ints(&[y.stride, x.stride]))
        .attribute("dilations", ints(&[y.dilation, x.dilation]))
        .attribute("pads", ints(&[y.before, x.before, y.after, x.after]))
}

/// `f(image, channel, row, column)` for each output, row-major.
fn each(shape: &[usize], mut f: impl FnMut(usize, usize, usize, usize) -> f64) -> Vec<f64> {
    let mut values = Vec::new();
    for n in 0..shape[0] {
        for c in 0..shape[1] {
            for y in 0..shape[2] {
                for x in 0..shape[3] {
                    values.push(f(n, c, y, x));
                }
            }
        }
    }
    values
}

fn at(value: &[f64], shape: &[usize], place: [usize; 4]) -> f64 {
    value[((place[0] * shape[1] + place[1]) * shape[2] + place[2]) * shape[3] + place[3]]
}

const ORDERS: [[usize; 4]; 5] = [[0, 1, 2, 3], [2, 3, 1, 0], [1, 0, 3, 2], [3, 2, 1, 0], [2, 0, 3, 1]];

proptest! {
    #[test]
    fn conv_is_a_cross_correlation_in_groups(
        y in side(), x in side(), batch in 0usize..3, groups in 1usize..4, inside in 1usize..4, outside in 1usize..4,
        order in 0usize..5, biased: bool, seed: u64,
    ) {
        let mut random = Random::new(seed);
        let shape = [batch, groups * inside, y.len, x.len];
        let filters = [groups * outside, inside, y.kernel, x.kernel];
        let (image, w, b) = (reals(&mut random, &shape), reals(&mut random, &filters), reals(&mut random, &filters[..1]));
        let (xs, ws, bs) = (image.array.to_f64(), w.array.to_f64(), b.array.to_f64());
        let made = [batch, groups * outside, y.output(), x.output()];
        let expected = each(&made, |n, o, row, column| {
            let mut sum = if biased { bs[o] } else { 0.0 };
            for i in 0..inside {
                for ky in 0..y.kernel {
                    for kx in 0..x.kernel {
                        if let (Some(py), Some(px)) = (y.place(row, ky), x.place(column, kx)) {
                            let channel = o / outside * inside + i;
                            sum += at(&xs, &shape, [n, channel, py, px]) * at(&ws, &filters, [o, i, ky, kx]);
                        }
                    }
                }
            }
            sum
        });
        let order = ORDERS[order];
        let axes = order.map(|axis| [Axis::Out, Axis::In, Axis::KernelY, Axis::KernelX][axis]);
        let tensors = Tensors::default().with("w", &axes, &reorder(&w, &order)).with("b", &[Axis::Out], &b);
        let mut node = slide(Node::new("conv", Op::Conv), [y, x]).parameter("weight", "w");
        node = node.attribute("group", Attribute::Int(groups as i64));
        if biased {
            node = node.parameter("bias", "b");
        }
        assert_close(&run(node, &[image], &tensors).unwrap(), &made, &expected);
    }

    #[test]
    fn a_depthwise_conv_has_a_group_for_each_channel_whatever_the_order_of_axes(
        y in side(), x in side(), batch in 0usize..3, channels in 1usize..5, multiplier in 1usize..4, order in 0usize..5, seed: u64,
    ) {
        let mut random = Random::new(seed);
        let shape = [batch, channels, y.len, x.len];
        let filters = [channels, multiplier, y.kernel, x.kernel];
        let (image, w) = (reals(&mut random, &shape), reals(&mut random, &filters));
        let (xs, ws) = (image.array.to_f64(), w.array.to_f64());
        let made = [batch, channels * multiplier, y.output(), x.output()];
        let expected = each(&made, |n, o, row, column| {
            let mut sum = 0.0;
            for ky in 0..y.kernel {
                for kx in 0..x.kernel {
                    if let (Some(py), Some(px)) = (y.place(row, ky), x.place(column, kx)) {
                        let (c, m) = (o / multiplier, o % multiplier);
                        sum += at(&xs, &shape, [n, c, py, px]) * at(&ws, &filters, [c, m, ky, kx]);
                    }
                }
            }
            sum
        });
        let order = ORDERS[order];
        let axes = order.map(|axis| [Axis::In, Axis::Multiplier, Axis::KernelY, Axis::KernelX][axis]);
        let tensors = Tensors::default().with("w", &axes, &reorder(&w, &order));
        let node = slide(Node::new("conv", Op::Conv), [y, x]).parameter("weight", "w");
        assert_close(&run(node, &[image], &tensors).unwrap(), &made, &expected);
    }

    #[test]
    fn max_pool_takes_the_greatest_within_the_image(y in side(), x in side(), batch in 0usize..3, channels in 1usize..4, seed: u64) {
        let [y, x] = [y, x].map(within);
        let (image, made, covered) = windows(batch, channels, [y, x], seed);
        let expected: Vec<f64> =
            covered.iter().map(|values| values.iter().copied().fold(f64::NEG_INFINITY, f64::max)).collect();
        let node = slide(Node::new("pool", Op::MaxPool), [y, x]).attribute("kernel_shape", ints(&[y.kernel, x.kernel]));
        assert_close(&run(node, &[image], &Tensors::default()).unwrap(), &made, &expected);
    }

    #[test]
    fn average_pool_divides_by_the_places_that_count(
        y in side(), x in side(), batch in 0usize..3, channels in 1usize..4, padded: bool, seed: u64,
    ) {
        let [y, x] = [y, x].map(within);
        let (image, made, covered) = windows(batch, channels, [y, x], seed);
        let all = (y.kernel * x.kernel) as f64;
        let mean = |values: &Vec<f64>| values.iter().sum::<f64>() / if padded { all } else { values.len() as f64 };
        let expected: Vec<f64> = covered.iter().map(mean).collect();
        let node = slide(Node::new("pool", Op::AveragePool), [y, x])
            .attribute("kernel_shape", ints(&[y.kernel, x.kernel]))
            .attribute("count_include_pad", Attribute::Int(i64::from(padded)));
        assert_close(&run(node, &[image], &Tensors::default()).unwrap(), &made, &expected);
    }

    #[test]
    fn global_average_pool_is_the_mean_of_each_channel(shape in prop::collection::vec(1usize..5, 1..4), batch in 0usize..3, channels in 0usize..4, seed: u64) {
        let shape = [&[batch, channels], &shape[..]].concat();
        let image = reals(&mut Random::new(seed), &shape);
        let len: usize = shape[2..].iter().product();
        let values = image.array.to_f64();
        let expected: Vec<f64> = values.chunks(len).map(|plane| plane.iter().sum::<f64>() / len as f64).collect();
        let mut made = vec![batch, channels];
        made.resize(shape.len(), 1);
        assert_close(&run(Node::new("pool", Op::GlobalAveragePool), &[image], &Tensors::default()).unwrap(), &made, &expected);
    }
}

/// Reduces the padding so that every window covers some place of the image.
fn within(side: Side) -> Side {
    let most = if side.dilation == 1 { side.kernel - 1 } else { 0 };
    Side { before: side.before.min(most), after: side.after.min(most), ..side }
}

/// An image, the shape of the output, and the elements that each window covers.
fn windows(
    batch: usize,
    channels: usize,
    [y, x]: [Side; 2],
    seed: u64,
) -> (Value, [usize; 4], Vec<Vec<f64>>) {
    let shape = [batch, channels, y.len, x.len];
    let image = reals(&mut Random::new(seed), &shape);
    let values = image.array.to_f64();
    let made = [batch, channels, y.output(), x.output()];
    let mut covered = Vec::new();
    each(&made, |n, c, row, column| {
        let rows = (0..y.kernel).filter_map(|k| y.place(row, k));
        let places = rows.flat_map(|py| (0..x.kernel).filter_map(move |k| Some((py, x.place(column, k)?))));
        covered.push(places.map(|(py, px)| at(&values, &shape, [n, c, py, px])).collect());
        0.0
    });
    (image, made, covered)
}

fn pool(op: Op, kernel: usize, attributes: &[(&str, Attribute)], image: Value) -> Value {
    let node = Node::new("pool", op).attribute("kernel_shape", ints(&[kernel, kernel]));
    let node = attributes.iter().fold(node, |node, (name, value)| node.attribute(name, value.clone()));
    run(node, &[image], &Tensors::default()).unwrap()
}

fn text(value: &str) -> Attribute {
    Attribute::Text(value.into())
}

/// `1..=25` as an image, as in ONNX's examples.
fn square(side: usize) -> Value {
    real(&[1, 1, side, side], &(1..=side * side).map(|value| value as f64).collect::<Vec<_>>())
}

#[test]
fn the_examples_of_onnx_for_max_pool_hold() {
    let two = || [("strides", ints(&[2, 2]))];
    let found = pool(Op::MaxPool, 5, &[("pads", ints(&[2, 2, 2, 2]))], square(5));
    let expected = [
        13., 14., 15., 15., 15., 18., 19., 20., 20., 20., 23., 24., 25., 25., 25., 23., 24., 25., 25., 25.,
        23., 24., 25., 25., 25.,
    ];
    assert_close(&found, &[1, 1, 5, 5], &expected);
    assert_close(&pool(Op::MaxPool, 2, &two(), square(5)), &[1, 1, 2, 2], &[7., 9., 17., 19.]);
    let same = [two()[0].clone(), ("auto_pad", text("SAME_UPPER"))];
    let expected = [7., 9., 10., 17., 19., 20., 22., 24., 25.];
    assert_close(&pool(Op::MaxPool, 3, &same, square(5)), &[1, 1, 3, 3], &expected);
    let ceil = [two()[0].clone(), ("ceil_mode", Attribute::Int(1))];
    assert_close(&pool(Op::MaxPool, 3, &ceil, square(4)), &[1, 1, 2, 2], &[11., 12., 15., 16.]);
    // maxpool_2d_ceil_output_size_reduce_by_one: a last window that would start in the padding is left out.
    let image = real(&[1, 1, 2, 2], &[1., 2., 3., 4.]);
    assert_close(&pool(Op::MaxPool, 1, &ceil, image), &[1, 1, 1, 1], &[1.]);
    let dilated = [("dilations", ints(&[2, 2]))];
    assert_close(&pool(Op::MaxPool, 2, &dilated, square(4)), &[1, 1, 2, 2], &[11., 12., 15., 16.]);
}

#[test]
fn the_examples_of_onnx_for_average_pool_hold() {
    let pads = ("pads", ints(&[2, 2, 2, 2]));
    let found = pool(Op::AveragePool, 5, std::slice::from_ref(&pads), square(5));
    let expected = [
        7., 7.5, 8., 8.5, 9., 9.5, 10., 10.5, 11., 11.5, 12., 12.5, 13., 13.5, 14., 14.5, 15., 15.5, 16.,
        16.5, 17., 17.5, 18., 18.5, 19.,
    ];
    assert_close(&found, &[1, 1, 5, 5], &expected);
    let counted = [pads, ("count_include_pad", Attribute::Int(1))];
    let found = pool(Op::AveragePool, 5, &counted, square(5));
    assert_eq!(found.array.to_f64()[..5], [2.52, 3.6, 4.8, 4.08, 3.24]);
    let ceil = [("strides", ints(&[2, 2])), ("ceil_mode", Attribute::Int(1))];
    assert_close(&pool(Op::AveragePool, 3, &ceil, square(4)), &[1, 1, 2, 2], &[6., 7.5, 12., 13.5]);
    // The part of a last window that reaches beyond the padded image does not count.
    let counted = [ceil[0].clone(), ceil[1].clone(), ("count_include_pad", Attribute::Int(1))];
    assert_close(&pool(Op::AveragePool, 3, &counted, square(4)), &[1, 1, 2, 2], &[6., 7.5, 12., 13.5]);
}

#[test]
fn the_examples_of_onnx_for_conv_hold() {
    let image = real(&[1, 1, 5, 5], &(0..25).map(f64::from).collect::<Vec<_>>());
    let ones = Tensors::default().with(
        "w",
        &[Axis::Out, Axis::In, Axis::KernelY, Axis::KernelX],
        &real(&[1, 1, 3, 3], &[1.0; 9]),
    );
    let conv = |attributes: &[(&str, Attribute)]| {
        let node = Node::new("conv", Op::Conv).parameter("weight", "w");
        let node = attributes.iter().fold(node, |node, (name, value)| node.attribute(name, value.clone()));
        run(node, std::slice::from_ref(&image), &ones).unwrap()
    };
    let padded = [
        12., 21., 27., 33., 24., 33., 54., 63., 72., 51., 63., 99., 108., 117., 81., 93., 144., 153., 162.,
        111., 72., 111., 117., 123., 84.,
    ];
    assert_close(&conv(&[("pads", ints(&[1, 1, 1, 1]))]), &[1, 1, 5, 5], &padded);
    assert_close(&conv(&[]), &[1, 1, 3, 3], &[54., 63., 72., 99., 108., 117., 144., 153., 162.]);
    let same = [("auto_pad", text("SAME_LOWER")), ("strides", ints(&[2, 2]))];
    assert_close(&conv(&same), &[1, 1, 3, 3], &[12., 27., 24., 63., 108., 81., 72., 117., 84.]);
}

#[test]
fn the_extra_element_of_odd_padding_is_behind_for_same_upper_and_before_for_same_lower() {
    let upper = pool(Op::MaxPool, 2, &[("auto_pad", text("SAME_UPPER"))], square(3));
    assert_close(&upper, &[1, 1, 3, 3], &[5., 6., 6., 8., 9., 9., 8., 9., 9.]);
    let lower = pool(Op::MaxPool, 2, &[("auto_pad", text("SAME_LOWER"))], square(3));
    assert_close(&lower, &[1, 1, 3, 3], &[1., 2., 3., 4., 5., 6., 7., 8., 9.]);
}

/// The places of a shape.
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

/// The places of an image that a window covers, each with its tap.
fn taps(sides: &[Side], at: &[usize]) -> Vec<(Vec<usize>, Vec<usize>)> {
    let kernel: Vec<usize> = sides.iter().map(|side| side.kernel).collect();
    let covered = |tap: &Vec<usize>| {
        sides
            .iter()
            .zip(at.iter().zip(tap))
            .map(|(side, (at, tap))| side.place(*at, *tap))
            .collect::<Option<_>>()
    };
    places(&kernel).into_iter().filter_map(|tap| Some((covered(&tap)?, tap))).collect()
}

fn slide_along(node: Node, sides: &[Side]) -> Node {
    let each = |of: fn(&Side) -> usize| sides.iter().map(of).collect::<Vec<_>>();
    node.attribute("strides", ints(&each(|side| side.stride)))
        .attribute("dilations", ints(&each(|side| side.dilation)))
        .attribute("pads", ints(&[each(|side| side.before), each(|side| side.after)].concat()))
}

fn lens(sides: &[Side], of: fn(&Side) -> usize) -> Vec<usize> {
    sides.iter().map(of).collect()
}

proptest! {
    #[test]
    fn conv_has_one_to_three_dimensions(
        sides in prop::collection::vec(side(), 1..4), batch in 0usize..3, groups in 1usize..3, inside in 1usize..3,
        outside in 1usize..6, seed: u64,
    ) {
        let sides: Vec<Side> = sides.into_iter().map(|side| Side { len: side.len.min(side.reach() + 2), ..side }).collect();
        let mut random = Random::new(seed);
        let shape = [vec![batch, groups * inside], lens(&sides, |side| side.len)].concat();
        let filters = [vec![groups * outside, inside], lens(&sides, |side| side.kernel)].concat();
        let (image, w) = (reals(&mut random, &shape), reals(&mut random, &filters));
        let (xs, ws) = (image.array.to_f64(), w.array.to_f64());
        let made = [vec![batch, groups * outside], lens(&sides, |side| side.output())].concat();
        let expected: Vec<f64> = places(&made).iter().map(|at| {
            let mut sum = 0.0;
            for i in 0..inside {
                for (place, tap) in taps(&sides, &at[2..]) {
                    let channel = at[1] / outside * inside + i;
                    sum += xs[place_of(&shape, &[vec![at[0], channel], place].concat())]
                        * ws[place_of(&filters, &[vec![at[1], i], tap].concat())];
                }
            }
            sum
        }).collect();
        let own = [Axis::Out, Axis::In, Axis::KernelZ, Axis::KernelY, Axis::KernelX];
        let axes = [&own[..2], &own[5 - sides.len()..]].concat();
        let order = random.order(axes.len());
        let turned: Vec<Axis> = order.iter().map(|axis| axes[*axis]).collect();
        let tensors = Tensors::default().with("w", &turned, &reorder(&w, &order));
        let node = slide_along(Node::new("conv", Op::Conv), &sides).parameter("weight", "w");
        let node = node.attribute("group", Attribute::Int(groups as i64));
        assert_close(&run(node, &[image], &tensors).unwrap(), &made, &expected);
    }

    #[test]
    fn pooling_has_one_to_three_dimensions(sides in prop::collection::vec(side(), 1..4), average: bool, padded: bool, seed: u64) {
        let sides: Vec<Side> = sides.into_iter().map(within).collect();
        let shape = [vec![2, 2], lens(&sides, |side| side.len)].concat();
        let image = reals(&mut Random::new(seed), &shape);
        let xs = image.array.to_f64();
        let made = [vec![2, 2], lens(&sides, |side| side.output())].concat();
        let expected: Vec<f64> = places(&made).iter().map(|at| {
            let covered = taps(&sides, &at[2..]);
            let count = if padded { sides.iter().map(|side| side.kernel).product() } else { covered.len() };
            let values = covered.into_iter().map(|(place, _)| xs[place_of(&shape, &[at[..2].to_vec(), place].concat())]);
            match average {
                true => values.sum::<f64>() / count as f64,
                false => values.fold(f64::NEG_INFINITY, f64::max),
            }
        }).collect();
        let node = slide_along(Node::new("pool", if average { Op::AveragePool } else { Op::MaxPool }), &sides)
            .attribute("kernel_shape", ints(&lens(&sides, |side| side.kernel)));
        let node = if average { node.attribute("count_include_pad", Attribute::Int(i64::from(padded))) } else { node };
        assert_close(&run(node, &[image], &Tensors::default()).unwrap(), &made, &expected);
    }
}

#[test]
fn images_of_a_size_that_no_memory_holds_take_neither_time_nor_memory() {
    let side = 1 << 40;
    let pool = || Node::new("pool", Op::AveragePool).attribute("kernel_shape", ints(&[2]));
    let nothing = Value::new([0, 1, side], ckpt_forward::Array::F64(Vec::new())).unwrap();
    assert_eq!(run(pool(), &[nothing], &Tensors::default()).unwrap().shape, [0, 1, side - 1]);
    let mut graph =
        graph(Node::new("wide", Op::Expand).attribute("shape", ints(&[1, 1, side])), &[&[1, 1, 1]], 1);
    let mut pool = pool();
    (pool.inputs, pool.outputs) = (vec!["y0".to_owned()], vec!["pooled".to_owned()]);
    graph.nodes.push(pool);
    let shapes = [("x0".to_owned(), vec![1, 1, 1])].into();
    let error = ckpt_forward::Program::new(&graph, &Tensors::default(), &shapes).err().unwrap();
    assert_eq!(error.kind(), ckpt_api::Kind::Limit, "{error}");
}

#[test]
fn a_kernel_that_the_graph_computes_is_one_of_the_checkpoint_in_its_order_of_axes() {
    let mut random = Random::new(5);
    let x = reals(&mut random, &[2, 4, 6, 5]);
    let b = reals(&mut random, &[6]);
    let image = [Axis::KernelY, Axis::KernelX];
    for (op, shape, axes) in [
        (Op::Conv, [6, 2, 3, 2], [Axis::Out, Axis::In]),
        (Op::ConvTranspose, [4, 3, 3, 2], [Axis::In, Axis::Out]),
    ] {
        let w = reals(&mut random, &shape);
        let tensors = Tensors::default().with("w", &[axes, image].concat(), &w).with("b", &[Axis::Out], &b);
        let node = Node::new("c", op).attribute("group", Attribute::Int(2));
        let stored = node.clone().parameter("weight", "w").parameter("bias", "b");
        let expected = run(stored.clone(), std::slice::from_ref(&x), &tensors).unwrap();
        let inputs = [x.clone(), w, b.clone()];
        let found = run(node, &inputs, &Tensors::default()).unwrap();
        assert_eq!((&found.shape, found.array.to_f64()), (&expected.shape, expected.array.to_f64()));
        assert!(run(stored, &inputs, &tensors).is_err(), "two weights");
    }
}
