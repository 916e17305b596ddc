//! Recurrent layers whose tensors have other axes, biases or another order of gates than Keras's.
//!
//! ONNX has both directions in one tensor, two biases in another, and an order of gates of its own. Keras has a layer for each
//! direction, and one bias unless a GRU resets after its product.

use ckpt_api::{
    Attribute, Axis, Contents, DType, Encoding, Extent, Node, Op, Placement, Result, Shape, Tensor, TensorId,
};
use ckpt_graph::cells::{Gates, INPUT_FORGET_CELL_OUTPUT, defaults};
use std::collections::{HashMap, HashSet};

/// Gives recurrent layers tensors of their own direction with Keras's axes and gates; `None` if no layer has others. What is
/// stored in another way than as plain elements stays.
///
/// # Errors
/// [`ckpt_api::Kind::Limit`] for shapes that are too large.
pub(crate) fn prepare(contents: &Contents) -> Result<Option<Contents>> {
    let Some(graph) = &contents.checkpoint.graph else { return Ok(None) };
    let by_name = contents.checkpoint.by_name();
    let mut uses: HashMap<&str, usize> = HashMap::new();
    graph.tensors().for_each(|name| *uses.entry(name).or_default() += 1);
    let mut prepared: Option<Prepared> = None;
    let mut nodes = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let stored = |role: &str| {
            let name = node.parameters.get(role).filter(|name| uses.get(name.as_str()) == Some(&1))?;
            Whole::of(contents, by_name.get(name.as_str()).copied()?)
        };
        let layer = Layer::of(node, stored);
        match layer.as_ref().and_then(|layer| Some((layer, layer.parts()?))) {
            Some((layer, parts)) => {
                let prepared = prepared.get_or_insert_with(|| Prepared::of(contents));
                nodes.extend(prepared.layer(layer, parts)?);
            }
            None => nodes.push(node.clone()),
        }
    }
    Ok(prepared.map(|prepared| prepared.with_nodes(nodes)))
}

/// A tensor that is stored whole, as plain elements.
struct Whole<'a> {
    id: TensorId,
    tensor: &'a Tensor,
    place: &'a Placement,
    extent: &'a Extent,
    element: u64,
}

impl<'a> Whole<'a> {
    fn of(contents: &'a Contents, id: TensorId) -> Option<Self> {
        let (tensor, place) = contents.tensor_at(id).ok()?;
        let extent = place.whole_extent(tensor)??;
        let is_plain = extent.compression().is_none() && place.encoding == Encoding::row_major(tensor);
        Some(Whole { id, tensor, place, extent, element: tensor.dtype.bytes().filter(|_| is_plain)? })
    }

    /// The bytes of one of `count` equal parts; `None` if there are no such parts.
    fn part(&self, at: u64, count: u64) -> Option<Extent> {
        let len = self.extent.len.checked_div(count).filter(|_| self.extent.len.is_multiple_of(count))?;
        let offset = self.extent.offset.checked_add(at.checked_mul(len)?)?;
        Some(Extent::new(self.extent.file, offset, len))
    }
}

/// A recurrent layer with an axis of directions.
struct Layer<'a> {
    node: &'a Node,
    /// The input's weight, and that of the state.
    weights: [Whole<'a>; 2],
    bias: Option<Whole<'a>>,
    directions: u64,
    units: u64,
    /// The gates as they are stored, and as Keras has them.
    gates: (String, &'static str),
}

/// A tensor of one direction.
struct Part<'a> {
    of: &'a Whole<'a>,
    direction: u64,
    role: &'static str,
    extents: Vec<Extent>,
    shape: Vec<u64>,
}

impl<'a> Layer<'a> {
    /// The layer of a node; `None` for any other one.
    fn of(node: &'a Node, stored: impl Fn(&str) -> Option<Whole<'a>>) -> Option<Self> {
        let known = defaults(node.op.name()).filter(|_| matches!(node.int("layout", 0), Ok(0)))?;
        let weights = [stored("weight")?, stored("recurrent_weight")?];
        let axes = [Axis::Direction, Axis::Out, Axis::In];
        weights.iter().all(|weight| weight.tensor.axes.as_deref() == Some(&axes)).then_some(())?;
        let bias = match node.parameters.contains_key("bias") {
            true => Some(stored("bias")?),
            false => None,
        };
        let stated = node.text("gates").ok()?.unwrap_or(known.gates).to_owned();
        let own = if node.op == Op::LSTM { INPUT_FORGET_CELL_OUTPUT } else { known.gates };
        let [directions, rows, units] = weights[1].tensor.shape[..] else { return None };
        let way = node.text("direction").ok()?.unwrap_or("forward");
        // Two directions would have first states, and numbers of activations, of their own.
        let is_divisible =
            !["activation_alpha", "activation_beta"].iter().any(|name| node.attributes.contains_key(*name))
                && node.inputs.iter().skip(1).all(String::is_empty);
        let is_valid = directions == if way == "bidirectional" { 2 } else { 1 }
            && (directions == 1 || is_divisible)
            && weights[0].tensor.shape.get(..2) == Some(&[directions, rows])
            && units.checked_mul(own.len() as u64) == Some(rows)
            && (stated == own || Gates::of(own, &stated, 1).is_some());
        is_valid.then_some(Layer { node, weights, bias, directions, units, gates: (stated, own) })
    }

    /// The tensors of each direction; `None` if those of the layer do not divide into them.
    fn parts(&self) -> Option<Vec<Part<'_>>> {
        let mut parts = Vec::new();
        for direction in 0..self.directions {
            for (role, of) in ["weight", "recurrent_weight"].into_iter().zip(&self.weights) {
                let [_, rows, width] = of.tensor.shape[..] else { return None };
                let extents = self.ordered(of, of.part(direction, self.directions)?, width)?;
                parts.push(Part { of, direction, role, extents, shape: vec![rows, width] });
            }
            if let Some(of) = &self.bias {
                parts.extend(self.biases(of, direction)?);
            }
        }
        Some(parts)
    }

    /// The biases of a direction: one tensor, or two that are added, as the input's and the recurrent ones are.
    fn biases<'b>(&'b self, of: &'b Whole<'b>, direction: u64) -> Option<Vec<Part<'b>>> {
        let each = self.units.checked_mul(self.gates.1.len() as u64)?;
        let all = self.directions.checked_mul(each)?;
        let elements = of.tensor.shape.elements();
        let count = elements.checked_div(all).filter(|count| count.checked_mul(all) == Some(elements))?;
        let resets_after = self.node.op == Op::GRU && self.node.flag("linear_before_reset").ok()?;
        let part = |role, at, count, shape| {
            let extents = self.ordered(of, of.part(at, count)?, 1)?;
            Some(Part { of, direction, role, extents, shape })
        };
        match count {
            1 => Some(vec![part("bias", direction, self.directions, vec![each])?]),
            2 if resets_after => Some(vec![part("bias", direction, self.directions, vec![2, each])?]),
            2 if of.tensor.dtype == DType::F32 => {
                let (first, count) = (direction.checked_mul(2)?, self.directions.checked_mul(2)?);
                let input = part("bias", first, count, vec![each])?;
                Some(vec![input, part("recurrent_bias", first + 1, count, vec![each])?])
            }
            _ => None,
        }
    }

    /// The pieces of a part in Keras's order of gates; each row has `width` elements.
    fn ordered(&self, of: &Whole<'_>, part: Extent, width: u64) -> Option<Vec<Extent>> {
        let (stored, own) = &self.gates;
        match Gates::of(own, stored, self.units.checked_mul(width)?) {
            Some(gates) => gates.pieces(&part, of.element),
            None => Some(vec![part]),
        }
    }

    /// The nodes of each direction, and those that join their results.
    fn nodes(&self) -> Vec<Node> {
        let mut own = self.node.clone();
        own.parameters.clear();
        own.attributes.insert("gates".to_owned(), Attribute::Text(self.gates.1.to_owned()));
        if self.directions == 1 {
            return vec![own];
        }
        let result = |output: &str, way: &str| match output {
            "" => String::new(),
            output => format!("{output}/{way}"),
        };
        let ways = ["forward", "reverse"];
        let mut nodes: Vec<Node> = ways
            .into_iter()
            .map(|way| {
                let mut node = own.clone();
                node.name = format!("{}/{way}", own.name);
                node.outputs.iter_mut().for_each(|output| *output = result(output, way));
                if let Some(Attribute::Texts(all)) = node.attributes.get_mut("activations") {
                    let each = all.len() / ways.len();
                    *all = all
                        .iter()
                        .skip(if way == "reverse" { each } else { 0 })
                        .take(each)
                        .cloned()
                        .collect();
                }
                node.attribute("direction", Attribute::Text(way.to_owned()))
            })
            .collect();
        for (at, output) in own.outputs.iter().enumerate().filter(|(_, output)| !output.is_empty()) {
            let mut joined = Node::new(format!("{output}/joined"), Op::Concat);
            joined.inputs = ways.iter().map(|way| result(output, way)).collect();
            joined.outputs = vec![output.clone()];
            nodes.push(joined.attribute("axis", Attribute::Int(i64::from(at == 0))));
        }
        nodes
    }
}

/// Contents whose recurrent layers get other tensors.
struct Prepared {
    contents: Contents,
    names: HashSet<String>,
}

impl Prepared {
    fn of(contents: &Contents) -> Self {
        let names = contents.checkpoint.tensors.iter().map(|tensor| tensor.name.to_string()).collect();
        Prepared { contents: contents.clone(), names }
    }

    /// Gives a layer its tensors: the first of each stored one takes its place, and others come last. Returns the nodes.
    fn layer(&mut self, layer: &Layer<'_>, parts: Vec<Part<'_>>) -> Result<Vec<Node>> {
        let mut nodes = layer.nodes();
        let mut replaced = HashSet::new();
        for part in parts {
            let old = part.of.tensor;
            let axes = (part.shape.len() == 2 && part.role != "bias").then(|| [Axis::Out, Axis::In].into());
            let is_first = replaced.insert(part.of.id);
            let name = if is_first { old.name.to_string() } else { self.name(&old.name, &part) };
            let mut tensor = Tensor::new(name.as_str(), old.dtype, Shape::new(part.shape)?);
            (tensor.axes, tensor.role) = (axes, old.role);
            let id = if is_first { part.of.id } else { TensorId(self.contents.placements.len()) };
            let encoding = Encoding::row_major(&tensor);
            let place = Placement::new(id, part.of.place.name.clone(), part.extents, encoding);
            let Contents { checkpoint, placements, .. } = &mut self.contents;
            match (checkpoint.tensors.get_mut(id.0), placements.get_mut(id.0)) {
                (Some(own), Some(own_place)) => (*own, *own_place) = (tensor, place),
                _ => {
                    checkpoint.tensors.push(tensor);
                    placements.push(place);
                }
            }
            if let Some(node) = usize::try_from(part.direction).ok().and_then(|at| nodes.get_mut(at)) {
                node.parameters.insert(part.role.to_owned(), name);
            }
        }
        Ok(nodes)
    }

    /// A name that no tensor has yet.
    fn name(&mut self, of: &str, part: &Part<'_>) -> String {
        let way = if part.direction == 0 { "" } else { "/reverse" };
        let role = if part.role == "recurrent_bias" { "/recurrent" } else { "" };
        let mut name = format!("{of}{way}{role}");
        while !self.names.insert(name.clone()) {
            name.push('_');
        }
        name
    }

    fn with_nodes(mut self, nodes: Vec<Node>) -> Contents {
        if let Some(graph) = &mut self.contents.checkpoint.graph {
            graph.nodes = nodes;
        }
        self.contents
    }
}
