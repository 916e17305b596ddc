//! The bound on rounding errors holds for binary32, and exact operators are exact.

use super::support::*;
use ckpt_api::{Attribute, Axis, Node, Op};
use ckpt_forward::{Arithmetic, Cpu, Program, Random, Value, op};

/// Unit roundoff of binary32.
const U: f64 = 1.0 / (1u64 << 24) as f64;

/// The share of its bound that an operator's worst error uses; `None` for an operator that is exact.
fn share(node: &Node, inputs: &[Value], tensors: &Tensors) -> Option<f64> {
    let shapes: Vec<&[usize]> = inputs.iter().map(|value| &value.shape[..]).collect();
    let graph = graph(node.clone(), &shapes, 1);
    let shapes = graph
        .inputs
        .iter()
        .zip(inputs)
        .map(|(input, value)| (input.name.clone(), value.shape.clone()))
        .collect();
    let program = Program::new(&graph, tensors, &shapes).unwrap();
    let made = [Arithmetic::F64, Arithmetic::F32]
        .map(|arithmetic| program.run_node(0, &mut Cpu::new(arithmetic), inputs).unwrap()[0].array.to_f64());
    let pairs = made[0].iter().zip(&made[1]);
    let Some(magnitude) = program.magnitudes(0, inputs).unwrap().remove(0) else {
        assert!(pairs.clone().all(|(y, found)| y == found), "{} is not exact", node.op);
        return None;
    };
    assert_eq!(magnitude.sums.len(), made[0].len());
    let root = (magnitude.summands as f64).sqrt();
    let shares = pairs.zip(&magnitude.sums).map(|((y, found), sum)| {
        let bound = 2.0 * root * U * sum + 2.0 * U * y.abs();
        if y == found { 0.0 } else { (y - found).abs() / bound }
    });
    Some(shares.fold(0.0, f64::max))
}

fn cases(random: &mut Random) -> Vec<(Node, Vec<Value>, bool)> {
    let node = |op: Op| Node::new("n", op);
    let dense = node(Op::Gemm).parameter("weight", "w").parameter("bias", "b");
    let window = |op: Op| node(op).attribute("kernel_shape", Attribute::Ints(vec![3, 3]));
    let normal = ["scale", "bias", "mean", "variance"]
        .iter()
        .fold(node(Op::BatchNormalization), |node, role| node.parameter(role, *role));
    let mut x = |shape: &[usize]| reals(random, shape);
    let rows = x(&[50, 70]);
    let wide = real(
        &[50, 70],
        &rows.array.to_f64().iter().map(|x| f64::from((20.0 * x) as f32)).collect::<Vec<_>>(),
    );
    let offset = real(
        &[50, 70],
        &rows.array.to_f64().iter().map(|x| f64::from((100.0 + x) as f32)).collect::<Vec<_>>(),
    );
    let image = x(&[2, 4, 9, 9]);
    let wide_image = real(
        &[2, 4, 9, 9],
        &image.array.to_f64().iter().map(|x| f64::from((20.0 * x) as f32)).collect::<Vec<_>>(),
    );
    let index = integer(&[40, 5], &(0..200).map(|i| i * 7 % 12 - 1).collect::<Vec<_>>());
    let one = |node: Node, x: &Value, rounds: bool| (node, vec![x.clone()], rounds);
    let mut cases = vec![
        one(dense, &rows, true),
        one(node(Op::Conv).parameter("weight", "k"), &image, true),
        one(window(Op::AveragePool), &image, true),
        one(window(Op::MaxPool), &image, false),
        one(node(Op::GlobalAveragePool), &image, true),
        one(normal, &rows, true),
        one(node(Op::custom(op::STATIC_FEATURES)), &image, true),
        one(
            node(Op::custom(op::FEATURE_TRANSFORMER)).parameter("weight", "t").parameter("bias", "b"),
            &index,
            true,
        ),
        one(node(Op::Gather).parameter("weight", "t"), &integer(&[3], &[0, 10, 5]), false),
        (node(Op::Add), vec![rows.clone(), wide.clone()], true),
        (node(Op::Mul), vec![rows.clone(), wide.clone()], true),
        one(node(Op::Relu), &rows, false),
        one(node(Op::Flatten), &image, false),
        one(node(Op::Transpose), &image, false),
        one(node(Op::Clip).attribute("max", Attribute::Float(0.5)), &rows, false),
        one(node(Op::Clip).attribute("max", Attribute::Float(0.1)), &rows, true),
    ];
    for op in [
        Op::LeakyRelu,
        Op::Elu,
        Op::Gelu,
        Op::Softplus,
        Op::Sigmoid,
        Op::Tanh,
        Op::custom(op::SQUARE),
        Op::Softmax,
        Op::LogSoftmax,
    ] {
        cases.push(one(node(op.clone()), &rows, true));
        cases.push(one(node(op), &wide, true));
    }
    cases.push(one(node(Op::Gelu).attribute("approximate", Attribute::Text("tanh".into())), &wide, true));
    // Fifty offsets multiplied exceed binary32.
    cases.push(one(node(Op::CumProd).attribute("axis", Attribute::Int(1)), &rows, true));
    for x in [&rows, &offset] {
        cases.push(one(node(Op::LayerNormalization).parameter("scale", "s"), x, true));
        cases.push(one(node(Op::RMSNormalization).parameter("scale", "s"), x, true));
        cases.push(one(node(Op::ReduceLogSumExp).attribute("axes", Attribute::Ints(vec![0])), x, true));
        cases.push(one(node(Op::ReduceL2).attribute("axes", Attribute::Ints(vec![1])), x, true));
        cases.push(one(node(Op::LpNormalization), x, true));
        cases.push(one(node(Op::CumSum).attribute("axis", Attribute::Int(1)), x, true));
    }
    let sized = |sizes: &[i64], mode: &str| {
        node(Op::Resize)
            .attribute("sizes", Attribute::Ints(sizes.to_vec()))
            .attribute("mode", Attribute::Text(mode.into()))
    };
    for image in [&image, &wide_image] {
        let groups = node(Op::GroupNormalization).attribute("num_groups", Attribute::Int(2));
        cases.push(one(groups.parameter("scale", "four").parameter("bias", "four"), image, true));
        cases.push(one(node(Op::LRN).attribute("size", Attribute::Int(3)), image, true));
        cases.push(one(sized(&[2, 4, 13, 20], "linear"), image, true));
        cases.push(one(sized(&[2, 4, 13, 20], "cubic"), image, true));
        cases.push(one(sized(&[2, 4, 13, 5], "nearest"), image, false));
        cases.push(one(node(Op::ConvTranspose).parameter("weight", "up"), image, true));
    }
    let sequence = real(&[7, 10, 50], &rows.array.to_f64());
    for op in [Op::LSTM, Op::GRU, Op::RNN] {
        let layer =
            node(op.clone()).parameter("weight", format!("w{op}")).parameter("bias", format!("b{op}"));
        cases.push(one(layer.parameter("recurrent_weight", format!("r{op}")), &sequence, true));
    }
    for reduction in ["none", "add", "mul"] {
        let updated = node(Op::ScatterND).attribute("reduction", Attribute::Text(reduction.into()));
        let places = integer(&[50, 1], &(0..50).map(|i| i * i % 7).collect::<Vec<_>>());
        cases.push((updated, vec![wide.clone(), places, rows.clone()], reduction != "none"));
    }
    let equation = Attribute::Text("ij,kj,k->i".into());
    let factor = real(&[50], &rows.array.to_f64()[..50]);
    cases.push((node(Op::Einsum).attribute("equation", equation), vec![rows, wide, factor], true));
    cases
}

#[test]
fn binary32_stays_within_the_bound_and_exact_operators_are_exact() {
    let mut random = Random::new(11);
    let tensor = |random: &mut Random, shape: &[usize]| reals(random, shape);
    let each = [Axis::Out];
    let variance = real(&[70], &(0..70).map(|_| random.real().abs() + 0.25).collect::<Vec<_>>());
    let tensors = Tensors::default()
        .with("w", &[Axis::In, Axis::Out], &tensor(&mut random, &[70, 30]))
        .with("b", &each, &tensor(&mut random, &[30]))
        .with("k", &[Axis::Out, Axis::In, Axis::KernelY, Axis::KernelX], &tensor(&mut random, &[6, 4, 3, 3]))
        .with("t", &[Axis::Feature, Axis::Out], &tensor(&mut random, &[11, 30]))
        .with("four", &each, &tensor(&mut random, &[4]))
        .with("up", &[Axis::In, Axis::Out, Axis::KernelY, Axis::KernelX], &tensor(&mut random, &[4, 3, 3, 2]))
        .with("s", &each, &tensor(&mut random, &[70]))
        .with("scale", &each, &tensor(&mut random, &[70]))
        .with("bias", &each, &tensor(&mut random, &[70]))
        .with("mean", &each, &tensor(&mut random, &[70]))
        .with("variance", &each, &variance);
    let mut tensors = tensors;
    for (name, units) in [("LSTM", 80), ("GRU", 60), ("RNN", 20)] {
        let axes = [Axis::Out, Axis::In];
        let mut quarter = |shape: &[usize]| {
            let drawn = reals(&mut random, shape);
            real(shape, &drawn.array.to_f64().into_iter().map(|x| x / 4.0).collect::<Vec<_>>())
        };
        tensors = tensors
            .with(&format!("w{name}"), &axes, &quarter(&[units, 50]))
            .with(&format!("r{name}"), &axes, &quarter(&[units, 20]))
            .with(&format!("b{name}"), &each, &quarter(&[units]));
    }
    let cases = cases(&mut random);
    assert_eq!(cases.len(), 67);
    for (node, inputs, rounds) in cases {
        let share = share(&node, &inputs, &tensors);
        println!("{}: {share:.3?} of the bound", node.op);
        assert_eq!(share.is_some(), rounds, "{}", node.op);
        assert!(share.is_none_or(|share| share <= 1.0), "{}: {share:?} of the bound", node.op);
    }
}

#[test]
fn the_magnitude_of_a_product_is_the_sum_of_absolute_products() {
    let tensors = Tensors::default().with("w", &[Axis::In, Axis::Out], &real(&[2, 1], &[3.0, -4.0])).with(
        "b",
        &[Axis::Out],
        &real(&[1], &[-5.0]),
    );
    let node = Node::new("dense", Op::Gemm).parameter("weight", "w").parameter("bias", "b");
    let graph = graph(node, &[&[1, 2]], 1);
    let program = Program::new(&graph, &tensors, &[("x0".to_owned(), vec![1, 2])].into()).unwrap();
    let magnitude = program.magnitudes(0, &[real(&[1, 2], &[-1.0, 2.0])]).unwrap().remove(0).unwrap();
    assert_eq!((magnitude.sums, magnitude.summands), (vec![3.0 + 8.0 + 5.0], 3));
}

#[test]
fn errors_of_tensors_are_followed_through_a_recurrent_layer() {
    let mut random = Random::new(3);
    let axes = [Axis::Out, Axis::In];
    let (w, r) = (reals(&mut random, &[20, 4]), reals(&mut random, &[20, 5]));
    let x = reals(&mut random, &[6, 2, 4]);
    let with = |w: &Value, r: &Value| Tensors::default().with("w", &axes, w).with("r", &axes, r);
    // Every number is off by a thousandth.
    let shifted = |value: &Value, by: &dyn Fn(usize, f64) -> f64| {
        let values = value.array.to_f64().into_iter().enumerate().map(|(i, x)| by(i, x));
        real(&value.shape, &values.collect::<Vec<_>>())
    };
    let sign = |i: usize| if i.is_multiple_of(3) { -1e-3 } else { 1e-3 };
    let [exact, stored, errors] = [
        with(&w, &r),
        with(&shifted(&w, &|i, x| x + sign(i)), &shifted(&r, &|i, x| x + sign(i))),
        with(&shifted(&w, &|_, _| 1e-3), &shifted(&r, &|_, _| 1e-3)),
    ];
    let node = Node::new("l", Op::LSTM).parameter("weight", "w").parameter("recurrent_weight", "r");
    // All states, the last hidden one, and the last cell.
    let graph = graph(node, &[&[6, 2, 4]], 3);
    let shapes = [("x0".to_owned(), vec![6, 2, 4])].into();
    let [exact, stored, errors] =
        [&exact, &stored, &errors].map(|tensors| Program::new(&graph, tensors, &shapes).unwrap());
    let inputs = [x];
    let [a, b] = [&exact, &stored]
        .map(|program| program.run_node(0, &mut Cpu::new(Arithmetic::F64), &inputs).unwrap());
    let bounds = exact.tensor_errors(0, &inputs, &errors).unwrap().unwrap();
    assert_eq!(bounds.iter().map(Vec::len).collect::<Vec<_>>(), [6 * 2 * 5, 2 * 5, 2 * 5]);
    for ((a, b), bounds) in a.iter().zip(&b).zip(&bounds) {
        let (a, b) = (a.array.to_f64(), b.array.to_f64());
        let shares = a.iter().zip(&b).zip(bounds).map(|((a, b), bound)| (a - b).abs() / bound);
        let worst = shares.fold(0.0, f64::max);
        assert!(worst > 1e-3 && worst <= 1.0, "{worst} of the bound");
    }
}
