//! Integer inference, compared with the formulas of engines.

use super::support::*;
use ckpt_api::{Attribute, Axis, DType, Graph, Node, Op, Quantization, Value as Open};
use ckpt_forward::{Arithmetic, Array, Cpu, Program, Random, Value, default_shapes, integer_graph, op};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// `(features → N)×2 → 1` with `op` squared after clipping, or not.
fn network(squared: bool, bucketed: bool) -> Graph {
    let mut nodes = Vec::new();
    let mut push = |name: &str, op: Op, inputs: &[&str]| {
        let mut node = Node::new(name, op);
        node.inputs = inputs.iter().map(|name| (*name).to_owned()).collect();
        node.outputs = vec![name.to_owned()];
        nodes.push(node);
        nodes.len() - 1
    };
    let mut places = Vec::new();
    for side in ["stm", "ntm"] {
        places.push(push(&format!("l0/{side}"), Op::custom(op::FEATURE_TRANSFORMER), &[side]));
        places.push(push(&format!("{side}/clip"), Op::Clip, &[&format!("l0/{side}")]));
        let clipped = format!("{side}/clip");
        let op = if squared { Op::Mul } else { Op::Identity };
        let inputs: &[&str] = if squared { &[&clipped, &clipped] } else { &[&clipped] };
        push(&format!("{side}/activation"), op, inputs);
    }
    push("l0", Op::Concat, &["stm/activation", "ntm/activation"]);
    let (op, inputs): (Op, &[&str]) =
        if bucketed { (Op::custom(op::BUCKETED_GEMM), &["l0", "bucket"]) } else { (Op::Gemm, &["l0"]) };
    let last = push("l1", op, inputs);
    for place in places {
        match nodes[place].op {
            Op::Clip => {
                nodes[place].attributes.insert("min".into(), Attribute::Float(0.0));
                nodes[place].attributes.insert("max".into(), Attribute::Float(1.0));
            }
            _ => {
                nodes[place].parameters =
                    [("weight", "l0w"), ("bias", "l0b")].map(|(a, b)| (a.to_owned(), b.to_owned())).into();
            }
        }
    }
    let concat = nodes.iter().position(|node| node.op == Op::Concat).unwrap();
    nodes[concat].attributes.insert("axis".into(), Attribute::Int(1));
    nodes[last].parameters =
        [("weight", "l1w"), ("bias", "l1b")].map(|(a, b)| (a.to_owned(), b.to_owned())).into();
    let mut inputs: Vec<Open> = ["stm", "ntm"].map(|name| Open::new(name, vec![None, None])).into();
    if bucketed {
        inputs.push(Open::new("bucket", vec![None]));
    }
    let outputs = vec![Open::new("l1", vec![None, Some(1)])];
    Graph { name: String::new(), inputs, outputs, nodes }
}

fn quantized(tensors: Tensors, name: &str, scale: u32) -> Tensors {
    tensors.edit(name, |tensor| {
        tensor.dtype = DType::I16;
        tensor.quantization = Some(Quantization::Units { scale: scale.try_into().unwrap() });
    })
}

fn evaluate(graph: &Graph, tensors: &Tensors, inputs: &BTreeMap<String, Value>) -> Value {
    let shapes = inputs.iter().map(|(name, value)| (name.clone(), value.shape.clone())).collect();
    let program = Program::new(graph, tensors, &shapes).unwrap();
    let mut made = program.run(&mut Cpu::new(Arithmetic::F64), inputs, &mut ()).unwrap();
    made.pop_first().unwrap().1
}

/// Random integer weights of a network with 12 features and 4 neurons.
fn small(random: &mut Random) -> (Tensors, [Vec<i32>; 4]) {
    let mut values = |shape: &[usize], most: i32| {
        let len = shape.iter().product();
        let values = (0..len).map(|_| (random.real() * f64::from(most)) as i32).collect::<Vec<_>>();
        integer(shape, &values)
    };
    let [w0, b0, w1, b1] =
        [values(&[12, 4], 150), values(&[4], 120), values(&[8, 1], 100), values(&[1], 5000)];
    let tensors = Tensors::default()
        .with("l0w", &[Axis::Feature, Axis::Out], &w0)
        .with("l0b", &[Axis::Out], &b0)
        .with("l1w", &[Axis::In, Axis::Out], &w1)
        .with("l1b", &[Axis::Out], &b1);
    let tensors = [("l0w", 255), ("l0b", 255), ("l1w", 64), ("l1b", 255 * 64)]
        .into_iter()
        .fold(tensors, |tensors, (name, scale)| quantized(tensors, name, scale));
    let list = |value: Value| match value.array {
        Array::I32(values) => values,
        _ => unreachable!(),
    };
    (tensors, [list(w0), list(b0), list(w1), list(b1)])
}

/// The formulas of engines, with QA 255, QB 64, SCALE 400.
fn by_hand([w0, b0, w1, b1]: &[Vec<i32>; 4], sides: [&[i32]; 2], squared: bool) -> i32 {
    let mut sum = 0;
    for (side, features) in sides.iter().enumerate() {
        for n in 0..4 {
            let active = features.iter().filter(|feature| **feature >= 0);
            let a: i32 = b0[n] + active.map(|feature| w0[*feature as usize * 4 + n]).sum::<i32>();
            let clipped = a.clamp(0, 255);
            sum += if squared { clipped * clipped } else { clipped } * w1[side * 4 + n];
        }
    }
    if squared {
        sum /= 255;
    }
    (sum + b1[0]) * 400 / (255 * 64)
}

#[test]
fn integer_inference_equals_that_of_engines_with_screlu_and_with_crelu() {
    let mut random = Random::new(3);
    let mut seen = 0;
    for squared in [true, false] {
        let (tensors, lists) = small(&mut random);
        let graph = integer_graph(&network(squared, false), &tensors, 400).unwrap();
        for _ in 0..50 {
            let sides = [0, 1].map(|_| indices(&mut random, &[1, 5], 12));
            let inputs = BTreeMap::from([("stm".into(), sides[0].clone()), ("ntm".into(), sides[1].clone())]);
            let found = evaluate(&graph, &tensors, &inputs);
            let [Array::I32(stm), Array::I32(ntm)] = sides.map(|side| side.array) else { unreachable!() };
            assert_eq!(found.array, Array::I32(vec![by_hand(&lists, [&stm, &ntm], squared)]));
            seen += 1;
        }
    }
    assert_eq!(seen, 100);
}

#[test]
fn a_quantized_network_computes_with_real_numbers_by_default() {
    let mut random = Random::new(4);
    let (tensors, _) = small(&mut random);
    let graph = network(true, false);
    let program = Program::new(&graph, &tensors, &default_shapes(&graph, &tensors, 64)).unwrap();
    let inputs = program.random_inputs(9);
    let real = evaluate(&graph, &tensors, &inputs);
    let integer = evaluate(&integer_graph(&graph, &tensors, 400).unwrap(), &tensors, &inputs);
    // Two divisions towards zero: the first loses less than 400/16320, the second less than 1.
    let pairs = real.array.to_f64().into_iter().zip(integer.array.to_f64());
    assert_eq!(pairs.clone().filter(|(real, integer)| (400.0 * real - integer).abs() < 1.03).count(), 64);
    assert!(pairs.clone().any(|(_, integer)| integer != 0.0));
}

#[test]
fn layers_that_are_not_quantized_compute_with_real_numbers() {
    let mut random = Random::new(5);
    let (tensors, _) = small(&mut random);
    let tensors = tensors.with("l1b", &[Axis::Out], &real(&[1], &[0.25]));
    let graph = network(true, false);
    let integer = integer_graph(&graph, &tensors, 400).unwrap();
    assert!(integer.nodes.iter().any(|node| node.op == Op::custom(op::DEQUANTIZE)));
    let program = Program::new(&graph, &tensors, &default_shapes(&graph, &tensors, 9)).unwrap();
    let inputs = program.random_inputs(1);
    let (expected, found) = (evaluate(&graph, &tensors, &inputs), evaluate(&integer, &tensors, &inputs));
    assert_close(&found, &[9, 1], &expected.array.to_f64());
}

#[test]
fn new_nodes_get_names_that_the_graph_does_not_have() {
    let mut random = Random::new(7);
    let (tensors, _) = small(&mut random);
    let plain = network(true, false);
    let mut named = plain.clone();
    for node in &mut named.nodes {
        let rename = |name: &mut String| {
            if name == "ntm/clip" {
                *name = "l1/sum".to_owned();
            }
        };
        rename(&mut node.name);
        node.inputs.iter_mut().chain(&mut node.outputs).for_each(rename);
    }
    let graphs = [plain, named].map(|graph| integer_graph(&graph, &tensors, 400).unwrap());
    let program = Program::new(&graphs[0], &tensors, &default_shapes(&graphs[0], &tensors, 20)).unwrap();
    let inputs = program.random_inputs(2);
    let [first, second] = graphs.each_ref().map(|graph| evaluate(graph, &tensors, &inputs));
    assert_eq!(first, second);
}

#[test]
fn scales_that_do_not_fit_are_refused_with_the_layer() {
    let mut random = Random::new(6);
    let (tensors, _) = small(&mut random);
    let tensors = quantized(tensors, "l1b", 63);
    let error = integer_graph(&network(true, false), &tensors, 400).unwrap_err().to_string();
    assert!(error.contains("l1") && error.contains("63"), "{error}");
    let (tensors, _) = small(&mut random);
    let tensors = tensors.edit("l0w", |tensor| tensor.quantization = None);
    let error = integer_graph(&network(true, false), &tensors, 400).unwrap_err().to_string();
    assert!(error.contains("l0w") && error.contains("scale"), "{error}");
}

#[test]
fn an_integer_that_exceeds_32_bits_is_an_error() {
    let tensors = Tensors::default()
        .with("w", &[Axis::In, Axis::Out], &integer(&[2, 1], &[i32::MAX, 1]))
        .with("t", &[Axis::Feature, Axis::Out], &integer(&[1, 2], &[1, 1]));
    let mut node = Node::new("t", Op::Gather).parameter("weight", "t");
    node = node.attribute("arithmetic", Attribute::Text("integer".into()));
    let mut graph = graph(node, &[&[1]], 1);
    let mut product = Node::new("sum", Op::Gemm).parameter("weight", "w");
    product.inputs = vec!["y0".into()];
    product.outputs = vec!["z".into()];
    graph.nodes.push(product);
    let program = Program::new(&graph, &tensors, &BTreeMap::from([("x0".into(), vec![1])])).unwrap();
    let inputs = BTreeMap::from([("x0".into(), integer(&[1], &[0]))]);
    let error = program.run(&mut Cpu::new(Arithmetic::F64), &inputs, &mut ()).unwrap_err().to_string();
    assert!(error.contains("32 bits") && error.contains("sum"), "{error}");
}

/// Networks that bullet wrote, evaluated by the engine code that comes with it.
#[test]
fn the_integer_evaluations_of_real_networks_are_reproduced() {
    let Some(cases) = std::env::var_os("CKPT_CASES").map(std::path::PathBuf::from) else {
        println!("skipped: CKPT_CASES is not set");
        return;
    };
    let mut seen = 0;
    for (name, buckets) in [("simple", 1), ("buckets8", 8)] {
        let json = std::fs::read(cases.join(format!("bullet/{name}.json"))).unwrap();
        let json: Json = serde_json::from_slice(&json).unwrap();
        let bytes = std::fs::read(cases.join(format!("bullet/{name}/quantised.bin"))).unwrap();
        let graph =
            integer_graph(&network(true, buckets > 1), &entries(&json, &bytes, buckets), 400).unwrap();
        for position in json["positions"].as_array().unwrap() {
            let ints = |key: &str| -> Vec<i32> {
                position[key].as_array().unwrap().iter().map(|index| index.as_i64().unwrap() as i32).collect()
            };
            let (stm, ntm) = (ints("stm_features"), ints("nstm_features"));
            let mut inputs = BTreeMap::from([
                ("stm".to_owned(), integer(&[1, stm.len()], &stm)),
                ("ntm".to_owned(), integer(&[1, ntm.len()], &ntm)),
            ]);
            if buckets > 1 {
                inputs.insert("bucket".into(), integer(&[1], &[position["bucket"].as_i64().unwrap() as i32]));
            }
            let found = evaluate(&graph, &entries(&json, &bytes, buckets), &inputs);
            let expected = position["example_integer_eval"].as_i64().unwrap() as i32;
            assert_eq!(found.array, Array::I32(vec![expected]), "{name}: {}", position["fen"]);
            seen += 1;
        }
    }
    assert!(seen >= 4, "{seen}");
}

fn entries(json: &Json, bytes: &[u8], buckets: usize) -> Tensors {
    let mut tensors = Tensors::default();
    for section in json["sections"].as_array().unwrap() {
        let number = |key: &str| section[key].as_u64().unwrap() as usize;
        let part = &bytes[number("quantised_offset")..][..number("quantised_bytes")];
        let values: Vec<i32> =
            part.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]]).into()).collect();
        let id = section["id"].as_str().unwrap();
        let (shape, axes): (Vec<usize>, &[Axis]) = match id {
            "l0w" => (vec![768, values.len() / 768], &[Axis::Feature, Axis::Out]),
            "l0b" => (vec![values.len()], &[Axis::Out]),
            "l1w" if buckets > 1 && section["transpose"] == true => {
                (vec![buckets, 1, values.len() / buckets], &[Axis::Bucket, Axis::Out, Axis::In])
            }
            "l1w" if buckets > 1 => {
                (vec![values.len() / buckets, buckets, 1], &[Axis::In, Axis::Bucket, Axis::Out])
            }
            "l1w" => (vec![values.len(), 1], &[Axis::In, Axis::Out]),
            _ if buckets > 1 => (vec![buckets, 1], &[Axis::Bucket, Axis::Out]),
            _ => (vec![1], &[Axis::Out]),
        };
        tensors = tensors.with(id, axes, &integer(&shape, &values));
        tensors = quantized(tensors, id, number("mult") as u32);
    }
    tensors
}

#[test]
fn what_is_looked_up_or_padded_keeps_its_scale() {
    let node = |name: &str, op: Op, inputs: &[&str]| {
        let mut node = Node::new(name, op);
        node.inputs = inputs.iter().map(|name| (*name).to_owned()).collect();
        node.outputs = vec![name.to_owned()];
        node
    };
    let nodes = vec![
        node("rows", Op::Gather, &["i"]).parameter("weight", "table"),
        node("padded", Op::Pad, &["rows"])
            .attribute("pads", Attribute::Ints(vec![0, 1, 0, 0]))
            .attribute("value", Attribute::Float(0.5)),
        node("columns", Op::Gather, &["padded", "j"]).attribute("axis", Attribute::Int(1)),
    ];
    let inputs = ["i", "j"].map(|name| Open::new(name, vec![None])).into();
    let outputs = vec![Open::new("columns", vec![None, None])];
    let graph = Graph { name: String::new(), inputs, outputs, nodes };
    let table =
        Tensors::default().with("table", &[Axis::Feature, Axis::Out], &integer(&[2, 2], &[5, 6, 7, 8]));
    let tensors = quantized(table, "table", 64);
    let graph = integer_graph(&graph, &tensors, 64).unwrap();
    let shapes = ["i", "j"].map(|name| (name.to_owned(), vec![2])).into();
    let program = Program::new(&graph, &tensors, &shapes).unwrap();
    let given = [("i".to_owned(), integer(&[2], &[1, 0])), ("j".to_owned(), integer(&[2], &[0, -1]))].into();
    let made = program.run(&mut Cpu::new(Arithmetic::F64), &given, &mut ()).unwrap();
    let found = made.values().next().unwrap();
    assert_eq!(*found, integer(&[2, 2], &[32, 8, 32, 6]));
}
