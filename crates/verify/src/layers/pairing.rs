//! Matches the nodes of two graphs.

use ckpt_api::{Graph, Node, Op};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Range;

/// A node of each graph that correspond to each other, by index, or a node that only one graph has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pair {
    Both(usize, usize),
    OnlyA(usize),
    OnlyB(usize),
}

/// Pairs the nodes of two graphs, in the order of the first.
///
/// Nodes with parameters are paired by the names of their tensors (`rename` maps the first graph's names to the
/// second's), or else by their order. They are anchors: the nodes between two of them are paired by their order. An
/// `Identity`, and a `Flatten` that only one graph has, are left out.
pub(crate) fn pair_nodes(a: &Graph, b: &Graph, rename: &dyn Fn(&str) -> Vec<String>) -> Vec<Pair> {
    let anchors = anchors(a, b, rename);
    let anchored: HashSet<usize> = anchors.iter().map(|(_, ib)| *ib).collect();
    let mut pairs = Vec::new();
    let (mut from_a, mut from_b) = (0, 0);
    for (ia, ib) in anchors {
        // Where an anchor goes back in the second graph, all nodes before it are paired.
        if ib >= from_b {
            between(a, b, from_a..ia, free(from_b..ib, &anchored), &mut pairs);
            from_b = ib + 1;
        } else {
            between(a, b, from_a..ia, Vec::new(), &mut pairs);
        }
        pairs.push(Pair::Both(ia, ib));
        from_a = ia + 1;
    }
    between(a, b, from_a..a.nodes.len(), free(from_b..b.nodes.len(), &anchored), &mut pairs);
    let taken: HashSet<usize> = pairs.iter().filter_map(|pair| pair.b()).collect();
    let is_missing = |ib: &usize| {
        let passes_on = node(&b.nodes, *ib).is_some_and(|node| matches!(node.op, Op::Identity | Op::Flatten));
        !passes_on && !taken.contains(ib)
    };
    pairs.extend((0..b.nodes.len()).filter(is_missing).map(Pair::OnlyB));
    pairs
}

/// The nodes that are not anchors.
fn free(range: Range<usize>, anchored: &HashSet<usize>) -> Vec<usize> {
    range.filter(|index| !anchored.contains(index)).collect()
}

impl Pair {
    fn b(self) -> Option<usize> {
        match self {
            Pair::Both(_, b) | Pair::OnlyB(b) => Some(b),
            Pair::OnlyA(_) => None,
        }
    }
}

fn node(nodes: &[Node], index: usize) -> Option<&Node> {
    nodes.get(index)
}

fn with_parameters(graph: &Graph) -> Vec<usize> {
    let has = |index: &usize| node(&graph.nodes, *index).is_some_and(|node| !node.parameters.is_empty());
    (0..graph.nodes.len()).filter(has).collect()
}

/// The name that identifies a node: that of its weight, or of its first tensor.
fn key(node: &Node) -> Option<&str> {
    let name = node.parameters.get("weight").or_else(|| node.parameters.values().next());
    name.map(String::as_str)
}

/// Pairs the nodes with parameters, in the order of the first graph.
fn anchors(a: &Graph, b: &Graph, rename: &dyn Fn(&str) -> Vec<String>) -> Vec<(usize, usize)> {
    let (own, theirs) = (with_parameters(a), with_parameters(b));
    let mut by_key: HashMap<&str, VecDeque<usize>> = HashMap::new();
    for ib in &theirs {
        if let Some(key) = node(&b.nodes, *ib).and_then(key) {
            by_key.entry(key).or_default().push_back(*ib);
        }
    }
    // Nodes that share a tensor are paired in order.
    let mut found = BTreeMap::new();
    for ia in &own {
        let names = node(&a.nodes, *ia).and_then(key).map(rename).unwrap_or_default();
        let candidates =
            names.iter().find(|name| by_key.get(name.as_str()).is_some_and(|ids| !ids.is_empty()));
        let ids = candidates.and_then(|name| by_key.get_mut(name.as_str()));
        if let Some(ib) = ids.and_then(VecDeque::pop_front) {
            found.insert(*ia, ib);
        }
    }
    if found.len() == own.len() {
        return found.into_iter().collect();
    }
    if own.len() == theirs.len() {
        return own.into_iter().zip(theirs).collect();
    }
    let op = |graph: &Graph, index: &usize| node(&graph.nodes, *index).map(|node| node.op.clone());
    let same = |(ia, ib): &(usize, usize)| op(a, ia) == op(b, ib);
    let front: Vec<(usize, usize)> =
        own.iter().copied().zip(theirs.iter().copied()).take_while(same).collect();
    let left = own.len().min(theirs.len()) - front.len();
    let back = own.iter().rev().copied().zip(theirs.iter().rev().copied()).take(left).take_while(same);
    let mut back: Vec<(usize, usize)> = back.collect();
    // Names say more than an order with gaps.
    if !found.is_empty() && found.len() >= front.len() + back.len() {
        return found.into_iter().collect();
    }
    back.reverse();
    front.into_iter().chain(back).collect()
}

/// Pairs the nodes between two anchors by their order.
fn between(a: &Graph, b: &Graph, range_a: Range<usize>, between_b: Vec<usize>, pairs: &mut Vec<Pair>) {
    let shown = |graph: &Graph, nodes: Vec<usize>| -> Vec<usize> {
        nodes.into_iter().filter(|index| !is_transparent(&graph.nodes, *index)).collect()
    };
    let (mut own, mut theirs) = (shown(a, range_a.collect()), shown(b, between_b));
    if own.len() != theirs.len() {
        let is_flat = |graph: &Graph, index: usize| {
            node(&graph.nodes, index).is_some_and(|node| node.op == Op::Flatten)
        };
        own.retain(|index| !is_flat(a, *index));
        theirs.retain(|index| !is_flat(b, *index));
    }
    let common = own.len().min(theirs.len());
    let op = |graph: &Graph, index: usize| node(&graph.nodes, index).map(|node| node.op.clone());
    let same = |(ia, ib): &(&usize, &usize)| op(a, **ia) == op(b, **ib);
    // In runs of different lengths, equal operators at the start and at the end correspond.
    let (front, back) = match own.len() == theirs.len() {
        true => (common, 0),
        false => {
            let front = own.iter().zip(&theirs).take_while(same).count();
            let back =
                own.iter().rev().zip(theirs.iter().rev()).take(common - front).take_while(same).count();
            (front, back)
        }
    };
    let (middle_a, middle_b) = (own.len() - back, theirs.len() - back);
    pairs.extend(own.iter().zip(&theirs).take(front).map(|(ia, ib)| Pair::Both(*ia, *ib)));
    pairs.extend(own.iter().take(middle_a).skip(front).map(|ia| Pair::OnlyA(*ia)));
    pairs.extend(theirs.iter().take(middle_b).skip(front).map(|ib| Pair::OnlyB(*ib)));
    pairs.extend(
        own.iter().skip(middle_a).zip(theirs.iter().skip(middle_b)).map(|(ia, ib)| Pair::Both(*ia, *ib)),
    );
}

fn is_transparent(nodes: &[Node], index: usize) -> bool {
    node(nodes, index).is_some_and(|node| node.op == Op::Identity)
}

#[cfg(test)]
mod tests {
    use super::Pair::{Both, OnlyA, OnlyB};
    use super::*;

    fn graph(nodes: &[(Op, &str)]) -> Graph {
        let node = |(index, (op, weight)): (usize, &(Op, &str))| {
            let node = Node::new(format!("n{index}"), op.clone());
            if weight.is_empty() { node } else { node.parameter("weight", *weight) }
        };
        Graph::sequential("m", vec![None], vec![None], nodes.iter().enumerate().map(node).collect())
    }

    fn same(name: &str) -> Vec<String> {
        vec![name.to_owned()]
    }

    #[test]
    fn layers_are_paired_by_their_tensors_or_else_by_their_order() {
        let a = graph(&[(Op::Gemm, "x"), (Op::Relu, ""), (Op::Gemm, "y")]);
        let b = graph(&[(Op::Gemm, "p"), (Op::Relu, ""), (Op::Gemm, "q")]);
        let expected = [Both(0, 0), Both(1, 1), Both(2, 2)];
        assert_eq!(pair_nodes(&a, &b, &same), expected);
        assert_eq!(pair_nodes(&a, &a, &same), expected);
        // Crossed by the mapping.
        let crossed = |name: &str| vec![if name == "x" { "q".to_owned() } else { "p".to_owned() }];
        assert_eq!(pair_nodes(&a, &b, &crossed), [OnlyB(1), Both(0, 2), OnlyA(1), Both(2, 0)]);
    }

    #[test]
    fn a_changed_activation_is_paired_by_its_position() {
        let a = graph(&[(Op::Gemm, "x"), (Op::Relu, ""), (Op::Gemm, "y")]);
        let b = graph(&[(Op::Gemm, "x"), (Op::Tanh, ""), (Op::Gemm, "y")]);
        assert_eq!(pair_nodes(&a, &b, &same), [Both(0, 0), Both(1, 1), Both(2, 2)]);
    }

    #[test]
    fn a_node_that_only_one_graph_has_is_alone() {
        let a = graph(&[(Op::Gemm, "x"), (Op::Relu, ""), (Op::Gemm, "y")]);
        let b = graph(&[(Op::Gemm, "x"), (Op::Gemm, "y"), (Op::Softmax, "")]);
        assert_eq!(pair_nodes(&a, &b, &same), [Both(0, 0), OnlyA(1), Both(2, 1), OnlyB(2)]);
        let c = graph(&[(Op::Gemm, "x"), (Op::Relu, ""), (Op::Gemm, "z"), (Op::Relu, ""), (Op::Gemm, "y")]);
        assert_eq!(pair_nodes(&a, &c, &same), [Both(0, 0), Both(1, 1), OnlyB(2), OnlyB(3), Both(2, 4)]);
    }

    #[test]
    fn dropout_and_a_flatten_of_only_one_graph_are_left_out() {
        let a = graph(&[(Op::Flatten, ""), (Op::Gemm, "x"), (Op::Identity, ""), (Op::Relu, "")]);
        let b = graph(&[(Op::Gemm, "x"), (Op::Relu, "")]);
        assert_eq!(pair_nodes(&a, &b, &same), [Both(1, 0), Both(3, 1)]);
        assert_eq!(pair_nodes(&b, &a, &same), [Both(0, 1), Both(1, 3)]);
    }

    #[test]
    fn layers_that_share_a_tensor_are_paired_in_order() {
        let a = graph(&[(Op::Gemm, "x"), (Op::Gemm, "x")]);
        assert_eq!(pair_nodes(&a, &a, &same), [Both(0, 0), Both(1, 1)]);
    }
}
