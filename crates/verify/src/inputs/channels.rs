//! Adapts a graph of images `[N, C, H, W]` to the inputs of a graph of images `[N, H, W, C]`.

use ckpt_api::{Attribute, Graph, Node, Op, Value};

const TO_CHANNELS_FIRST: [i64; 4] = [0, 3, 1, 2];
const TO_CHANNELS_LAST: [i64; 4] = [0, 2, 3, 1];

/// Returns `b` with the input and the output of `a`, if both graphs process the same images, with channels last in
/// `a` and first in `b`.
///
/// The input of `a` is transposed, and its channels are divided among the inputs of `b` in their order; the output of
/// `b` is transposed back. Returns `None` if the shapes do not show that the images are the same.
pub(crate) fn with_channels_last(a: &Graph, b: &Graph) -> Option<Graph> {
    let ([input], [made], [output]) = (&a.inputs[..], &a.outputs[..], &b.outputs[..]) else { return None };
    let channels = b.inputs.iter().map(|input| channels(input, 1)).collect::<Option<Vec<u64>>>()?;
    let all = channels.iter().try_fold(0u64, |sum, len| sum.checked_add(*len))?;
    let turned =
        |last: &Value, len: u64| channels_of(last, 3) == Some(len) && channels_of(last, 1) != Some(len);
    if !turned(input, all) || !turned(made, channels_of(output, 1)?) {
        return None;
    }
    let names: Vec<&str> = b.inputs.iter().map(|input| input.name.as_str()).collect();
    let own = unused(b, &input.name);
    let (mut nodes, mut rest) = (Vec::new(), b.nodes.clone());
    if let [only] = names[..] {
        nodes.push(transpose(only, &own, TO_CHANNELS_FIRST));
    } else {
        let whole = unused(b, "channels_first");
        nodes.push(transpose(&whole, &own, TO_CHANNELS_FIRST));
        take_whole(&mut rest, &names, &whole);
        let mut start = 0u64;
        for (name, len) in names.into_iter().zip(channels) {
            let end = start.checked_add(len)?;
            if rest.iter().any(|node| node.inputs.iter().any(|input| input == name)) {
                nodes.push(slice(name, &whole, start, end)?);
            }
            start = end;
        }
    }
    nodes.extend(rest);
    let result = unused(b, "channels_last");
    nodes.push(transpose(&result, &output.name, TO_CHANNELS_LAST));
    let value = |name, like: &Value| Value { name, ..like.clone() };
    Some(Graph {
        name: b.name.clone(),
        inputs: vec![value(own, input)],
        outputs: vec![value(result, made)],
        nodes,
    })
}

/// Replaces concatenations of all `parts` in their order by `whole`, so that it is not divided and joined again.
fn take_whole(nodes: &mut Vec<Node>, parts: &[&str], whole: &str) {
    let mut joined = Vec::new();
    nodes.retain(|node| {
        let along_channels = node.attributes.get("axis") == Some(&Attribute::Int(1));
        let joins = node.op == Op::Concat && along_channels && node.inputs == parts;
        if joins {
            joined.extend(node.outputs.iter().cloned());
        }
        !joins
    });
    for input in nodes.iter_mut().flat_map(|node| &mut node.inputs).filter(|input| joined.contains(input)) {
        whole.clone_into(input);
    }
}

/// The number of channels of an image whose height and width are free.
fn channels(image: &Value, axis: usize) -> Option<u64> {
    channels_of(image, axis).filter(|_| image.shape.get(2..).is_some_and(|sides| sides == [None, None]))
}

/// The length of an image's axis, which is its number of channels if the image is stored so.
fn channels_of(image: &Value, axis: usize) -> Option<u64> {
    *image.shape.get(axis).filter(|_| image.shape.len() == 4)?
}

/// A name like `wanted` that no value and no node of the graph has.
fn unused(graph: &Graph, wanted: &str) -> String {
    let values = graph.inputs.iter().map(|input| &input.name);
    let nodes = graph.nodes.iter().flat_map(|node| node.outputs.iter().chain([&node.name]));
    let taken: std::collections::HashSet<&str> = values.chain(nodes).map(String::as_str).collect();
    let mut name = wanted.to_owned();
    while taken.contains(name.as_str()) {
        name.push('\'');
    }
    name
}

fn transpose(name: &str, of: &str, perm: [i64; 4]) -> Node {
    wired(Node::new(name, Op::Transpose).attribute("perm", Attribute::Ints(perm.to_vec())), of)
}

fn slice(name: &str, of: &str, start: u64, end: u64) -> Option<Node> {
    let node = Node::new(name, Op::Slice).attribute("axes", Attribute::Ints(vec![1]));
    let node = node.attribute("starts", Attribute::Ints(vec![i64::try_from(start).ok()?]));
    Some(wired(node.attribute("ends", Attribute::Ints(vec![i64::try_from(end).ok()?])), of))
}

fn wired(mut node: Node, input: &str) -> Node {
    node.inputs = vec![input.to_owned()];
    node.outputs = vec![node.name.clone()];
    node
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(name: &str, shape: [Option<u64>; 4]) -> Value {
        Value::new(name, shape.to_vec())
    }

    fn graph(inputs: Vec<Value>, output: [Option<u64>; 4]) -> Graph {
        let conv = wired(Node::new("conv", Op::Conv), "joined");
        let outputs = vec![image("conv", output)];
        Graph { name: String::new(), inputs, outputs, nodes: vec![conv] }
    }

    fn first(name: &str, channels: u64) -> Value {
        image(name, [None, Some(channels), None, None])
    }

    #[test]
    fn channels_are_divided_among_the_inputs_in_order() {
        let a = graph(vec![image("x", [None, None, None, Some(15)])], [None, None, None, Some(3)]);
        let mut b = graph(vec![first("static", 8), first("more", 7)], [None, Some(3), None, None]);
        b.nodes[0].inputs = vec!["more".into(), "static".into()];
        let adapted = with_channels_last(&a, &b).unwrap();
        assert_eq!((&adapted.inputs, &adapted.outputs[0].shape), (&a.inputs, &a.outputs[0].shape));
        let names: Vec<&str> = adapted.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["channels_first", "static", "more", "conv", "channels_last"]);
        let range = |name: &str| {
            ["starts", "ends"]
                .map(|at| adapted.nodes[if name == "static" { 1 } else { 2 }].attributes[at].clone())
        };
        assert_eq!(range("static"), [Attribute::Ints(vec![0]), Attribute::Ints(vec![8])]);
        assert_eq!(range("more"), [Attribute::Ints(vec![8]), Attribute::Ints(vec![15])]);
    }

    #[test]
    fn channels_that_are_joined_in_order_are_not_divided() {
        let a = graph(vec![image("x", [None, None, None, Some(15)])], [None, None, None, Some(3)]);
        let joined = |inputs: [&str; 2]| {
            let mut b = graph(vec![first("static", 8), first("more", 7)], [None, Some(3), None, None]);
            let mut join = Node::new("joined", Op::Concat).attribute("axis", Attribute::Int(1));
            join.inputs = inputs.map(str::to_owned).to_vec();
            join.outputs = vec!["joined".into()];
            b.nodes.insert(0, join);
            let adapted = with_channels_last(&a, &b).unwrap();
            adapted.nodes.iter().map(|node| (node.name.clone(), node.inputs.clone())).collect::<Vec<_>>()
        };
        let whole = joined(["static", "more"]);
        assert_eq!(whole.len(), 3);
        assert_eq!(whole[1], ("conv".to_owned(), vec!["channels_first".to_owned()]));
        assert_eq!(joined(["more", "static"]).len(), 6, "another order is another image");
    }

    #[test]
    fn graphs_of_other_images_are_not_adapted() {
        let a = |channels| {
            graph(vec![image("x", [None, None, None, Some(channels)])], [None, None, None, Some(3)])
        };
        let b = graph(vec![first("static", 8)], [None, Some(3), None, None]);
        assert!(with_channels_last(&a(8), &b).is_some());
        assert!(with_channels_last(&a(9), &b).is_none(), "other channels");
        assert!(with_channels_last(&b, &b).is_none(), "the same order");
        let output = graph(vec![first("static", 8)], [None, Some(4), None, None]);
        assert!(with_channels_last(&a(8), &output).is_none(), "another output");
    }
}
