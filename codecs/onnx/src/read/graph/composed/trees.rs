//! Ensembles of trees, `ai.onnx.ml`: each step goes from a node of every tree to one of its children, for all rows at once.

use super::super::values::{Attributes, Read};
use super::learned::Labels;
use super::parts::Parts;
use crate::format::message::Node;
use ckpt_api::Op;
use std::collections::{HashMap, HashSet};

/// The deepest tree, in steps: each is several nodes.
const DEEPEST: usize = 4096;
/// The mode of a node without children.
const LEAF: &str = "LEAF";

impl Parts<'_, '_> {
    /// `TreeEnsembleRegressor`.
    pub(super) fn regress_by_trees(&mut self) -> Read<()> {
        let count = self.node.int("n_targets").unwrap_or(1);
        let count = usize::try_from(count).ok().filter(|count| *count > 0).ok_or("has no targets")?;
        let trees = Trees::of(self.node)?;
        let weights = Weights::of(self.node, "target", &trees, count)?;
        let how = self.node.text("aggregate_function").unwrap_or("SUM").to_owned();
        // A leaf without a weight would count as 0.
        let weighs_all = || weights.places.iter().zip(&trees.leaves).all(|(place, leaf)| *place > 0 || !leaf);
        let op = match how.as_str() {
            "SUM" | "AVERAGE" => Op::ReduceSum,
            "MIN" if count == 1 && weighs_all() => Op::ReduceMin,
            "MAX" if count == 1 && weighs_all() => Op::ReduceMax,
            other => {
                let other = other.escape_debug();
                return Err(format!("joins its trees in a way that is not supported, {other}"));
            }
        };
        let number = trees.roots.len();
        let places = self.places(&trees, &weights)?;
        let mut value = self.summed(&places, "target", op)?;
        if how == "AVERAGE" {
            let number = self.number(number as f64);
            value = self.div(&value, &number);
        }
        let value = self.with_bases(value)?;
        let value = self.transformed(&value, count)?;
        self.finish(0, &value);
        Ok(())
    }

    /// `TreeEnsembleClassifier`.
    pub(super) fn classify_by_trees(&mut self) -> Read<()> {
        let labels = Labels::of(self.node)?;
        let trees = Trees::of(self.node)?;
        let ids: HashSet<i64> = self.node.ints("class_ids").unwrap_or_default().iter().copied().collect();
        if labels.count() == 2 && ids.len() == 1 {
            return self.classify_by_one_sum(&labels, &trees);
        }
        let weights = Weights::of(self.node, "class", &trees, labels.count())?;
        let places = self.places(&trees, &weights)?;
        let sums = self.summed(&places, "class", Op::ReduceSum)?;
        let sums = self.with_bases(sums)?;
        let scores = self.transformed(&sums, labels.count())?;
        // A class that no leaf weighs is not chosen, even if all others are below 0.
        let (none, least) = (self.integer(0), self.number(f64::from(f32::MIN)));
        let last = self.reduce(Op::ReduceMax, &places, &[1], false);
        let is_weighed = self.apply(Op::Greater, &[&last, &none]);
        let weighed = self.choose(&is_weighed, &sums, &least);
        self.label(&labels, &weighed)?;
        self.finish(1, &scores);
        Ok(())
    }

    /// Two classes of which the trees weigh one: the sum decides, as a share if no weight is below 0.
    fn classify_by_one_sum(&mut self, labels: &Labels, trees: &Trees) -> Read<()> {
        let weights = Weights::of_one(self.node, "class", trees)?;
        let places = self.places(trees, &weights)?;
        let sum = self.summed(&places, "class", Op::ReduceSum)?;
        if self.node.floats("base_values").is_some_and(|bases| bases.len() != 1) {
            return Err("has a base value for each of two classes, of which the trees weigh one".to_owned());
        }
        let sum = self.with_bases(sum)?;
        let negative = self.apply(Op::Neg, &[&sum]);
        let (zero, half, one) = (self.number(0.0), self.number(0.5), self.number(1.0));
        let list = self.list("class_weights")?;
        let least = self.reduce(Op::ReduceMin, &list, &[], false);
        let is_share = self.apply(Op::GreaterOrEqual, &[&least, &zero]);
        let (first, second) = match self.node.text("post_transform").unwrap_or("NONE") {
            "NONE" | "SOFTMAX" | "SOFTMAX_ZERO" => {
                let rest = self.sub(&one, &sum);
                (self.choose(&is_share, &rest, &negative), sum.clone())
            }
            "LOGISTIC" => (self.apply(Op::Sigmoid, &[&negative]), self.apply(Op::Sigmoid, &[&sum])),
            other => {
                return Err(format!("ends in a function that is not supported, {}", other.escape_debug()));
            }
        };
        let bound = self.choose(&is_share, &half, &zero);
        let is_second = self.apply(Op::Greater, &[&sum, &bound]);
        let place = self.reduce(Op::ReduceMax, &is_second, &[1], false);
        self.label_at(labels, &place)?;
        let scores = self.concat(&[&first, &second], 1);
        self.finish(1, &scores);
        Ok(())
    }

    /// The places of the weights of the leaves that rows end in: `[rows, trees, results]`.
    fn places(&mut self, trees: &Trees, weights: &Weights) -> Read<String> {
        let leaves = self.leaves(trees)?;
        let rows = i64::try_from(trees.leaves.len()).unwrap_or(i64::MAX);
        let count = i64::try_from(weights.count).unwrap_or(i64::MAX);
        let places = self.integers(weights.places.clone(), &[rows, count]);
        Ok(self.gather(&places, &leaves, 0))
    }

    /// What the weights at these places are together: `[rows, results]`.
    fn summed(&mut self, places: &str, kind: &str, op: Op) -> Read<String> {
        let none = self.numbers(vec![0.0], &[1]);
        let stored = self.list(&format!("{kind}_weights"))?;
        let stored = self.concat(&[&none, &stored], 0);
        let each = self.gather(&stored, places, 0);
        Ok(self.reduce(op, &each, &[1], false))
    }

    /// The leaf of each row in each tree: `[rows, trees]`.
    fn leaves(&mut self, trees: &Trees) -> Read<String> {
        let x = self.rows()?;
        let (nodes, roots) = (trees.leaves.len() as i64, trees.roots.len() as i64);
        let root = |list: &[i64]| -> Vec<i64> {
            let of = |root: &i64| usize::try_from(*root).ok().and_then(|root| list.get(root)).copied();
            trees.roots.iter().filter_map(of).collect()
        };
        let values = self.list("nodes_values")?;
        let features = self.integers(trees.features.clone(), &[nodes]);
        let [yes, no] = trees.children.clone().map(|list| self.integers(list, &[nodes]));
        let tracks = match trees.tracks.contains(&1) {
            true => Some(self.integers(trees.tracks.clone(), &[nodes])),
            false => None,
        };
        // The roots of all rows are the same.
        let mut at = self.integers(trees.roots.clone(), &[1, roots]);
        for step in 0..trees.steps.max(1) {
            let own = if step == 0 {
                let places = self.integers(root(&trees.features), &[roots]);
                self.gather(&x, &places, 1)
            } else {
                let places = self.gather(&features, &at, 0);
                self.with(Op::GatherElements, &[&x, &places], Attributes::new().int("axis", 1))
            };
            let bound = self.gather(&values, &at, 0);
            let mut holds = self.apply(trees.compare.clone(), &[&own, &bound]);
            if let Some(tracks) = &tracks {
                let tracks = self.gather(tracks, &at, 0);
                let is_missing = self.apply(Op::IsNaN, &[&own]);
                holds = self.choose(&is_missing, &tracks, &holds);
            }
            let (first, second) = (self.gather(&yes, &at, 0), self.gather(&no, &at, 0));
            at = self.choose(&holds, &first, &second);
        }
        Ok(at)
    }
}

/// The nodes of all trees, each by its place in the lists.
struct Trees {
    roots: Vec<i64>,
    /// The element of a row that a node looks at.
    features: Vec<i64>,
    /// The children; a leaf is its own.
    children: [Vec<i64>; 2],
    /// Whether what is no number goes to the first child.
    tracks: Vec<i64>,
    compare: Op,
    steps: usize,
    leaves: Vec<bool>,
    by_id: HashMap<(i64, i64), usize>,
}

impl Trees {
    fn of(node: &Node) -> Read<Self> {
        let ints = |name: &str| node.ints(name).ok_or_else(|| format!("lacks its {name}"));
        let (trees, ids) = (ints("nodes_treeids")?, ints("nodes_nodeids")?);
        let modes = node.texts("nodes_modes").ok_or("lacks its nodes_modes")?;
        let [features, yes, no] =
            [ints("nodes_featureids")?, ints("nodes_truenodeids")?, ints("nodes_falsenodeids")?];
        let values = node.floats("nodes_values").map_or(0, <[f32]>::len);
        let count = ids.len();
        let lens = [trees.len(), modes.len(), features.len(), yes.len(), no.len(), values];
        if count == 0 || lens.iter().any(|len| *len != count) {
            return Err("has lists of nodes of different lengths".to_owned());
        }
        let mut by_id = HashMap::with_capacity(count);
        for (at, id) in trees.iter().copied().zip(ids.iter().copied()).enumerate() {
            if by_id.insert(id, at).is_some() {
                return Err("has two nodes with one number in a tree".to_owned());
            }
        }
        let compare = comparison(&modes)?;
        let leaves: Vec<bool> = modes.iter().map(|mode| mode == LEAF).collect();
        let child = |list: &[i64]| -> Read<Vec<i64>> {
            let all = list.iter().zip(trees).zip(&leaves).enumerate();
            let child = |(at, ((id, tree), is_leaf)): (usize, ((&i64, &i64), &bool))| {
                let child = if *is_leaf { Some(at) } else { by_id.get(&(*tree, *id)).copied() };
                child.and_then(|at| i64::try_from(at).ok()).ok_or("has a child that is no node")
            };
            Ok(all.map(child).collect::<Result<_, _>>()?)
        };
        let children = [child(yes)?, child(no)?];
        let feature = |(own, is_leaf): (&i64, &bool)| match is_leaf {
            true => Ok(0),
            false if *own >= 0 => Ok(*own),
            false => Err("looks at a place that no row has"),
        };
        let features = features.iter().zip(&leaves).map(feature).collect::<Result<_, _>>()?;
        let tracks = node.ints("nodes_missing_value_tracks_true").filter(|list| list.len() == count);
        let tracks = tracks.map(<[i64]>::to_vec).unwrap_or_default();
        let roots = roots(&children, &leaves);
        if roots.len() != trees.iter().collect::<HashSet<_>>().len() {
            return Err("has a tree that does not begin at one root".to_owned());
        }
        let mut read = Trees { roots, features, children, tracks, compare, steps: 0, leaves, by_id };
        read.steps = read.depth()?;
        Ok(read)
    }

    /// The most steps from a root to a leaf.
    fn depth(&self) -> Read<usize> {
        let (mut level, mut seen, mut depth) = (self.roots.clone(), self.roots.len(), 0);
        let is_inner = |at: &i64| usize::try_from(*at).is_ok_and(|at| self.leaves.get(at) == Some(&false));
        let child = |list: &Vec<i64>, at: i64| usize::try_from(at).ok().and_then(|at| list.get(at)).copied();
        while level.iter().any(is_inner) {
            let [yes, no] = &self.children;
            let inner = level.iter().copied().filter(is_inner);
            level = inner.flat_map(|at| [child(yes, at), child(no, at)]).flatten().collect();
            (seen, depth) = (seen + level.len(), depth + 1);
            if seen > self.leaves.len() {
                return Err("has a node with two parents".to_owned());
            }
            if depth > DEEPEST {
                return Err(format!("has a tree of more than {DEEPEST} steps"));
            }
        }
        match seen == self.leaves.len() {
            true => Ok(depth),
            false => Err("has nodes that no root leads to".to_owned()),
        }
    }
}

/// The nodes that are no children.
fn roots(children: &[Vec<i64>; 2], leaves: &[bool]) -> Vec<i64> {
    let own = children.iter().flat_map(|list| list.iter().zip(leaves));
    let is_child: HashSet<i64> = own.filter(|(_, is_leaf)| !**is_leaf).map(|(child, _)| *child).collect();
    (0..leaves.len() as i64).filter(|at| !is_child.contains(at)).collect()
}

/// How the nodes that are no leaves compare a number with theirs.
fn comparison(modes: &[String]) -> Read<Op> {
    let mut kinds = modes.iter().map(String::as_str).filter(|mode| *mode != LEAF);
    let mode = kinds.next().unwrap_or("BRANCH_LEQ");
    if let Some(other) = kinds.find(|other| *other != mode) {
        return Err(format!("compares in two ways, {} and {}", mode.escape_debug(), other.escape_debug()));
    }
    Ok(match mode {
        "BRANCH_LEQ" => Op::LessOrEqual,
        "BRANCH_LT" => Op::Less,
        "BRANCH_GTE" => Op::GreaterOrEqual,
        "BRANCH_GT" => Op::Greater,
        "BRANCH_EQ" => Op::Equal,
        other => return Err(format!("compares in a way that is not supported, {}", other.escape_debug())),
    })
}

/// What leaves add to which results.
struct Weights {
    /// For each node and result, the place of its weight, from 1 on; 0 for none.
    places: Vec<i64>,
    count: usize,
}

impl Weights {
    fn of(node: &Node, kind: &str, trees: &Trees, count: usize) -> Read<Self> {
        let name = format!("{kind}_ids");
        let ids = node.ints(&name).ok_or_else(|| format!("lacks its {name}"))?;
        Self::with(node, kind, trees, (ids, count))
    }

    /// The weights of one result, whatever its number.
    fn of_one(node: &Node, kind: &str, trees: &Trees) -> Read<Self> {
        let count = node.ints(&format!("{kind}_ids")).map_or(0, <[i64]>::len);
        Self::with(node, kind, trees, (&vec![0; count], 1))
    }

    fn with(node: &Node, kind: &str, trees: &Trees, (ids, count): (&[i64], usize)) -> Read<Self> {
        let ints = |name: &str| {
            let name = format!("{kind}_{name}");
            node.ints(&name).ok_or_else(|| format!("lacks its {name}"))
        };
        let (of_trees, nodes) = (ints("treeids")?, ints("nodeids")?);
        let len = node.floats(&format!("{kind}_weights")).map_or(0, <[f32]>::len);
        if of_trees.len() != len || nodes.len() != len || ids.len() != len {
            return Err("has lists of weights of different lengths".to_owned());
        }
        let size = trees.leaves.len().checked_mul(count).filter(|size| *size <= 1 << 20);
        let mut places = vec![0i64; size.ok_or("has too many leaves and results")?];
        for (at, ((tree, id), result)) in of_trees.iter().zip(nodes).zip(ids).enumerate() {
            let leaf = trees.by_id.get(&(*tree, *id)).filter(|leaf| trees.leaves.get(**leaf) == Some(&true));
            let result = usize::try_from(*result).ok().filter(|result| *result < count);
            let place = leaf.zip(result).and_then(|(leaf, result)| places.get_mut(leaf * count + result));
            match place {
                Some(place) if *place == 0 => *place = i64::try_from(at + 1).unwrap_or(i64::MAX),
                Some(_) => return Err("has two weights for one result of a leaf".to_owned()),
                None => return Err("has a weight of no leaf, or for no result".to_owned()),
            }
        }
        Ok(Weights { places, count })
    }
}
