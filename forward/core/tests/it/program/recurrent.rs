//! Recurrent layers.

use super::support::*;
use ckpt_api::{Attribute, Axis, Node, Op};
use ckpt_forward::{Arithmetic, Cpu, Program, Random, Value};
use proptest::prelude::*;

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The tensors of one direction: gates by the letters of `order`.
struct Direction<'a> {
    order: &'a str,
    weight: &'a [f64],
    recurrent: &'a [f64],
    input_bias: &'a [f64],
    recurrent_bias: &'a [f64],
}

impl Direction<'_> {
    /// The parts of a gate that the input and the hidden state have, with their biases.
    fn parts(&self, gate: char, unit: usize, x: &[f64], h: &[f64]) -> (f64, f64) {
        let row = self.order.find(gate).unwrap() * h.len() + unit;
        let sum = |values: &[f64], weight: &[f64]| {
            values.iter().enumerate().map(|(k, value)| value * weight[row * values.len() + k]).sum::<f64>()
        };
        (sum(x, self.weight) + self.input_bias[row], sum(h, self.recurrent) + self.recurrent_bias[row])
    }

    fn step(&self, op: &Op, before_reset: bool, x: &[f64], h: &[f64], c: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let gate = |gate, unit| {
            let (input, recurrent) = self.parts(gate, unit, x, h);
            input + recurrent
        };
        let units = 0..h.len();
        match op {
            Op::LSTM => units
                .map(|j| {
                    let c = sigmoid(gate('f', j)) * c[j] + sigmoid(gate('i', j)) * gate('c', j).tanh();
                    (sigmoid(gate('o', j)) * c.tanh(), c)
                })
                .unzip(),
            Op::GRU => {
                let reset: Vec<f64> = units.clone().map(|j| sigmoid(gate('r', j)) * h[j]).collect();
                let new = units.map(|j| {
                    let z = sigmoid(gate('z', j));
                    let argument = if before_reset {
                        let (input, recurrent) = self.parts('h', j, x, h);
                        input + sigmoid(gate('r', j)) * recurrent
                    } else {
                        let (input, recurrent) = self.parts('h', j, x, &reset);
                        input + recurrent
                    };
                    (1.0 - z) * argument.tanh() + z * h[j]
                });
                (new.collect(), c.to_vec())
            }
            _ => (units.map(|j| gate('h', j).tanh()).collect(), c.to_vec()),
        }
    }
}

fn shape_of(layout: bool, first: usize, second: usize, rest: &[usize]) -> Vec<usize> {
    let mut shape = if layout { vec![second, first] } else { vec![first, second] };
    shape.extend(rest);
    shape
}

proptest! {
    #[test]
    fn a_recurrent_layer_takes_the_steps_of_each_direction(
        (op, steps, batch) in (0usize..3, 1usize..4, 0usize..9), features in 1usize..4, hidden in 1usize..20, direction in 0usize..3,
        (layout, before_reset, starts, biases) in (any::<bool>(), any::<bool>(), any::<bool>(), 0usize..4), shuffle: bool, turned: bool, seed: u64,
    ) {
        let mut random = Random::new(seed);
        let op = [Op::LSTM, Op::GRU, Op::RNN][op].clone();
        let order = match (&op, shuffle) {
            (Op::LSTM, false) => "iofc",
            (Op::LSTM, true) => "ifco",
            (Op::GRU, false) => "zrh",
            (Op::GRU, true) => "rzh",
            _ => "h",
        };
        let directions = if direction == 2 { 2 } else { 1 };
        let units = order.len() * hidden;
        let x = reals(&mut random, &shape_of(layout, steps, batch, &[features]));
        let (w, r) = (reals(&mut random, &[directions, units, features]), reals(&mut random, &[directions, units, hidden]));
        let b = reals(&mut random, &[directions, if biases == 1 { 1 } else { 2 }, units]);
        let state = shape_of(layout, directions, batch, &[hidden]);
        let (first_h, first_c) = (reals(&mut random, &state), reals(&mut random, &state));
        let (ws, rs, bs) = (w.array.to_f64(), r.array.to_f64(), b.array.to_f64());
        // Biases: none, the input's, both in one tensor, both in two.
        let bias = |direction: usize, part: usize| match (biases, part) {
            (0, _) | (1, 1) => vec![0.0; units],
            (1, _) => bs[direction * units..][..units].to_vec(),
            _ => bs[(direction * 2 + part) * units..][..units].to_vec(),
        };
        let (all_shape, last_shape) = match layout {
            true => ([batch, steps, directions, hidden], state.clone()),
            false => ([steps, directions, batch, hidden], state.clone()),
        };
        let mut all = vec![0.0; all_shape.iter().product()];
        let (mut last_h, mut last_c) = (vec![0.0; state.iter().product()], vec![0.0; state.iter().product()]);
        for d in 0..directions {
            let (input_bias, recurrent_bias) = (bias(d, 0), bias(d, 1));
            let own = Direction {
                order,
                weight: &ws[d * units * features..][..units * features],
                recurrent: &rs[d * units * hidden..][..units * hidden],
                input_bias: &input_bias,
                recurrent_bias: &recurrent_bias,
            };
            let is_reversed = direction == 1 || d == 1;
            for n in 0..batch {
                let place = if layout { (n * directions + d) * hidden } else { (d * batch + n) * hidden };
                let start = |value: &Value| if starts { value.array.to_f64()[place..][..hidden].to_vec() } else { vec![0.0; hidden] };
                let (mut h, mut c) = (start(&first_h), start(&first_c));
                for t in 0..steps {
                    let t = if is_reversed { steps - 1 - t } else { t };
                    let row = if layout { n * steps + t } else { t * batch + n };
                    let xs = x.array.to_f64();
                    (h, c) = own.step(&op, before_reset, &xs[row * features..][..features], &h, &c);
                    let at = if layout { (n * steps + t) * directions + d } else { (t * directions + d) * batch + n };
                    all[at * hidden..][..hidden].copy_from_slice(&h);
                }
                last_h[place..][..hidden].copy_from_slice(&h);
                last_c[place..][..hidden].copy_from_slice(&c);
            }
        }
        let axes = [Axis::Direction, Axis::Out, Axis::In];
        let stored = |tensors: Tensors, name: &str, value: &Value| match (directions, turned) {
            (1, false) => tensors.with(name, &axes[1..], &Value::new(&value.shape[1..], value.array.clone()).unwrap()),
            (_, false) => tensors.with(name, &axes, value),
            (_, true) => tensors.with(name, &[2, 0, 1].map(|axis| axes[axis]), &reorder(value, &[2, 0, 1])),
        };
        let mut tensors = stored(stored(Tensors::default(), "w", &w), "r", &r);
        let mut node = Node::new("l", op.clone())
            .parameter("weight", "w")
            .parameter("recurrent_weight", "r")
            .attribute("hidden_size", Attribute::Int(hidden as i64))
            .attribute("direction", Attribute::Text(["forward", "reverse", "bidirectional"][direction].into()))
            .attribute("layout", Attribute::Int(i64::from(layout)));
        if shuffle {
            node = node.attribute("gates", Attribute::Text(order.into()));
        }
        if op == Op::GRU {
            node = node.attribute("linear_before_reset", Attribute::Int(i64::from(before_reset)));
        }
        if biases == 3 {
            for (part, role) in ["bias", "recurrent_bias"].into_iter().enumerate() {
                let values: Vec<f64> = (0..directions).flat_map(|d| bias(d, part)).collect();
                tensors = tensors.with(role, &[Axis::Direction, Axis::Out], &real(&[directions, units], &values));
                node = node.parameter(role, role);
            }
        } else if biases > 0 {
            let len = b.shape.iter().product();
            tensors = tensors.with("b", &[Axis::Out], &Value::new([len], b.array.clone()).unwrap());
            node = node.parameter("bias", "b");
        }
        let mut inputs = vec![x];
        if starts {
            inputs.push(first_h);
        }
        if starts && op == Op::LSTM {
            inputs.push(first_c);
        }
        let count = if op == Op::LSTM { 3 } else { 2 };
        let found = run_all(node, &inputs, &tensors, count).unwrap();
        assert_close(&found[0], &all_shape, &all);
        assert_close(&found[1], &last_shape, &last_h);
        if let Some(found) = found.get(2) {
            assert_close(found, &last_shape, &last_c);
        }
    }
}

fn wave(len: usize, phase: f64) -> Vec<f64> {
    (0..len).map(|i| (0.7 * i as f64 + phase).sin()).collect()
}

/// A layer of two features and three units over two examples of three steps, with PyTorch's tensors and order of gates.
fn of_pytorch(op: Op, gates: &str) -> Value {
    let units = 3 * gates.len().max(1);
    let tensors = Tensors::default()
        .with("w", &[Axis::Out, Axis::In], &real(&[units, 2], &wave(units * 2, 0.1)))
        .with("r", &[Axis::Out, Axis::In], &real(&[units, 3], &wave(units * 3, 0.2)))
        .with("b", &[Axis::Out], &real(&[units], &wave(units, 0.3)))
        .with("c", &[Axis::Out], &real(&[units], &wave(units, 0.4)));
    let mut node = Node::new("l", op.clone())
        .parameter("weight", "w")
        .parameter("recurrent_weight", "r")
        .parameter("bias", "b")
        .parameter("recurrent_bias", "c")
        .attribute("layout", Attribute::Int(1));
    if !gates.is_empty() {
        node = node.attribute("gates", Attribute::Text(gates.into()));
    }
    if op == Op::GRU {
        node = node.attribute("linear_before_reset", Attribute::Int(1));
    }
    run(node, &[real(&[2, 3, 2], &wave(12, 0.5))], &tensors).unwrap()
}

#[test]
fn recurrent_layers_compute_what_pytorch_computes() {
    for (op, gates, expected) in [
        (
            Op::LSTM,
            "ifco",
            [
                -0.495013318,
                -0.700785828,
                -0.543119796,
                -0.278533017,
                -0.812678101,
                -0.748092700,
                -0.116185576,
                -0.623087306,
                0.454201307,
                -0.234255062,
                -0.137154251,
                0.443482434,
                -0.641965939,
                -0.596985702,
                -0.240284282,
                -0.456379700,
                -0.804250465,
                -0.664245548,
            ],
        ),
        (
            Op::GRU,
            "rzh",
            [
                -0.426636381,
                -0.538556533,
                -0.462685653,
                -0.727271480,
                -0.831183166,
                -0.511035694,
                -0.795201040,
                -0.750099927,
                0.370070355,
                -0.049895020,
                -0.058940502,
                0.596860318,
                -0.201217760,
                -0.570765306,
                -0.360490287,
                -0.707953196,
                -0.829436548,
                -0.471205358,
            ],
        ),
        (
            Op::RNN,
            "",
            [
                0.885654998,
                0.994691346,
                0.931256018,
                0.995390050,
                0.997778411,
                -0.228456491,
                0.705051269,
                0.961663607,
                0.460417295,
                0.030755779,
                0.110035252,
                0.968544972,
                0.969363915,
                0.900669390,
                0.808314525,
                0.996402938,
                0.999095830,
                -0.343636859,
            ],
        ),
    ] {
        let found = of_pytorch(op.clone(), gates);
        assert_eq!(found.shape, [2, 3, 1, 3]);
        for (found, expected) in found.array.to_f64().into_iter().zip::<[f64; 18]>(expected) {
            assert!((found - expected).abs() < 1e-8, "{op}: {found} instead of {expected}");
        }
    }
}

#[test]
fn a_recurrent_layer_that_does_not_fit_is_refused() {
    let zeros = |shape: &[usize]| real(shape, &vec![0.0; shape.iter().product()]);
    let axes = [Axis::Out, Axis::In];
    let tensors = Tensors::default()
        .with("w", &axes, &zeros(&[8, 3]))
        .with("r", &axes, &zeros(&[8, 2]))
        .with("b", &[Axis::Out], &zeros(&[9]));
    let node = || Node::new("l", Op::LSTM).parameter("weight", "w").parameter("recurrent_weight", "r");
    let text = |name: &str, value: &str| node().attribute(name, Attribute::Text(value.into()));
    let x = || vec![zeros(&[2, 1, 3])];
    let names = |names: &[&str]| Attribute::Texts(names.iter().map(|name| (*name).to_owned()).collect());
    assert!(run(node(), &x(), &tensors).is_ok());
    for (node, inputs, part) in [
        (node(), vec![zeros(&[2, 3])], "three axes"),
        (node(), vec![zeros(&[0, 1, 3])], "at least one step"),
        (node(), vec![zeros(&[2, 1, 4])], "4"),
        (node(), vec![zeros(&[2, 1, 3]), zeros(&[1, 2, 2])], "a first state"),
        (node().parameter("bias", "b"), x(), "8 or 16 numbers"),
        (node().attribute("hidden_size", Attribute::Int(3)), x(), "hidden_size"),
        (node().attribute("clip", Attribute::Float(-1.0)), x(), "clip"),
        (node().attribute("input_forget", Attribute::Int(1)), x(), "coupled"),
        (text("gates", "iiff"), x(), "each letter of 'iofc'"),
        (text("gates", "iofcz"), x(), "each letter of 'iofc'"),
        (text("direction", "both"), x(), "bidirectional"),
        (text("direction", "bidirectional"), x(), "direction"),
        (node().attribute("activations", names(&["Tanh"])), x(), "3 names"),
        (node().attribute("activations", names(&["Tanh", "Tanh", "Affine"])), x(), "'Affine'"),
        (Node::new("l", Op::GRU).parameter("weight", "w").parameter("recurrent_weight", "r"), x(), "6"),
        (node(), vec![zeros(&[2, 1, 3]); 4], "both a tensor and an input"),
        (node(), vec![zeros(&[2, 1, 3]); 7], "more inputs"),
    ] {
        let error = run(node, &inputs, &tensors).unwrap_err().to_string();
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn activations_and_a_clip_are_those_of_the_node() {
    let axes = [Axis::Out, Axis::In];
    let tensors =
        Tensors::default().with("w", &axes, &real(&[1, 1], &[2.0])).with("r", &axes, &real(&[1, 1], &[-1.0]));
    let node = Node::new("l", Op::RNN)
        .parameter("weight", "w")
        .parameter("recurrent_weight", "r")
        .attribute("activations", Attribute::Texts(vec!["LeakyRelu".to_owned()]))
        .attribute("activation_alpha", Attribute::Floats(vec![0.5]))
        .attribute("clip", Attribute::Float(3.0));
    // 2·1 = 2; 2·(−1) − 2 = −4, clipped to −3, times 0.5; 2·2 + 1.5, clipped to 3.
    let found = run(node, &[real(&[3, 1, 1], &[1.0, -1.0, 2.0])], &tensors).unwrap();
    assert_close(&found, &[3, 1, 1, 1], &[2.0, -1.5, 3.0]);
}

#[test]
fn a_clip_bounds_the_arguments_of_gates_and_not_the_cell() {
    let axes = [Axis::Out, Axis::In];
    let zeros = real(&[4, 1], &[0.0; 4]);
    let tensors = Tensors::default().with("w", &axes, &zeros).with("r", &axes, &zeros);
    let node = Node::new("l", Op::LSTM)
        .parameter("weight", "w")
        .parameter("recurrent_weight", "r")
        .attribute("clip", Attribute::Float(0.5));
    let inputs = [real(&[1, 1, 1], &[1.0]), real(&[1, 1, 1], &[0.0]), real(&[1, 1, 1], &[8.0])];
    // All gates are sigmoid(0) = 0.5, and the cell is 0.5·8 + 0.5·tanh(0) = 4.
    let found = run(node, &inputs, &tensors).unwrap();
    assert_close(&found, &[1, 1, 1, 1], &[0.5 * 4f64.tanh()]);
}

#[test]
fn outputs_that_are_left_out_have_no_names() {
    let zeros = |shape: &[usize]| real(shape, &vec![0.0; shape.iter().product()]);
    let axes = [Axis::Out, Axis::In];
    let tensors = Tensors::default().with("w", &axes, &zeros(&[8, 3])).with("r", &axes, &zeros(&[8, 2]));
    let node = || Node::new("l", Op::LSTM).parameter("weight", "w").parameter("recurrent_weight", "r");
    let mut graph = graph(node(), &[&[2, 1, 3]], 1);
    graph.nodes[0].outputs = vec![String::new(), "h".to_owned(), String::new()];
    let mut second = Node { name: "again".to_owned(), ..node() };
    second.inputs = vec!["x0".to_owned(), String::new(), String::new()];
    second.outputs = vec![String::new(), "again".to_owned()];
    graph.nodes.push(second);
    graph.outputs = vec![ckpt_api::Value::new("again", vec![None; 3])];
    let shapes = [("x0".to_owned(), vec![2, 1, 3])].into();
    let program = Program::new(&graph, &tensors, &shapes).unwrap();
    let made = program.run(&mut Cpu::new(Arithmetic::F64), &program.random_inputs(1), &mut ()).unwrap();
    assert_eq!(made["again"].shape, [1, 1, 2]);
}

#[test]
fn weights_that_the_graph_computes_are_inputs_behind_the_first_states() {
    let mut random = Random::new(7);
    let (steps, batch, features, hidden) = (4, 2, 3, 5);
    let x = reals(&mut random, &[steps, batch, features]);
    let [h, c] = [(); 2].map(|()| reals(&mut random, &[2, batch, hidden]));
    for (op, gates) in [(Op::LSTM, 4), (Op::GRU, 3), (Op::RNN, 1)] {
        let w = reals(&mut random, &[2, gates * hidden, features]);
        let r = reals(&mut random, &[2, gates * hidden, hidden]);
        let b = reals(&mut random, &[2, 2 * gates * hidden]);
        let axes = [Axis::Direction, Axis::Out, Axis::In];
        let tensors = Tensors::default().with("w", &axes, &w).with("r", &axes, &r).with(
            "b",
            &[Axis::Direction, Axis::Out],
            &b,
        );
        let direction = Attribute::Text("bidirectional".into());
        let node = Node::new("l", op.clone()).attribute("direction", direction);
        let stored = node.clone().parameter("weight", "w").parameter("recurrent_weight", "r");
        let stored = stored.parameter("bias", "b");
        if op == Op::LSTM {
            let expected = run(stored, &[x.clone(), h.clone(), c.clone()], &tensors).unwrap();
            let inputs = [x.clone(), h.clone(), c.clone(), w, r, b];
            let found = run(node, &inputs, &Tensors::default()).unwrap();
            assert_eq!(found.array.to_f64(), expected.array.to_f64());
        } else {
            // They have no cell state.
            let inputs = [x.clone(), h.clone(), c.clone(), w, r, b];
            assert!(run(node, &inputs, &Tensors::default()).is_err());
        }
    }
}
