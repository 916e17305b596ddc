//! Elementwise layers: activations, and those of several values.

use super::emit::Request;
use super::emitter::{Arg, Emitter, Held, Item, invalid, lost};
use crate::model::Generation;
use ckpt_api::{Attribute, Error, Node, Op, Result};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const NUMPY: &str = "keras.src.ops.numpy";
const NN: &str = "keras.src.ops.nn";

/// What an elementwise operator becomes: its layer, or an operation of `keras.ops`.
enum Kind {
    Layer(&'static str, Value),
    Operation(&'static str, &'static str, Value),
    /// An operation of the value and a number.
    With(&'static str, f64),
}

impl Emitter<'_> {
    /// Lowers an elementwise node, a softmax, a join or a reduction; `None` if it is another one.
    pub(super) fn elementwise(&mut self, node: &Node) -> Result<Option<Held>> {
        if let Some(kind) = self.unary(node)? {
            let held = self.input(node, 0)?;
            let layer = match kind {
                Kind::Layer(class, options) => self.layer(&node.name, class, options, &held),
                Kind::Operation(module, class, options) => {
                    self.operation(&node.name, module, class, options, vec![Arg::of(&held)])?
                }
                Kind::With(class, number) => {
                    let args = vec![Arg::of(&held), Arg::Constant(json!(number))];
                    self.operation(&node.name, NUMPY, class, json!({}), args)?
                }
            };
            return Ok(Some(Held { layer, result: 0, ..held }));
        }
        Ok(Some(match &node.op {
            Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Max | Op::Min | Op::Pow => self.binary(node)?,
            Op::Less
            | Op::LessOrEqual
            | Op::Greater
            | Op::GreaterOrEqual
            | Op::Equal
            | Op::And
            | Op::Or
            | Op::Where => self.combined(node)?,
            Op::Concat => self.concat(node)?,
            Op::MatMul => self.mat_mul(node)?,
            Op::Softmax | Op::LogSoftmax | Op::LpNormalization => self.over_axis(node)?,
            Op::ReduceMean | Op::ReduceSum | Op::ReduceMax | Op::ReduceMin | Op::ReduceProd => {
                let held = self.input(node, 0)?;
                self.reduced(node, held, &node.op)?
            }
            Op::ReduceL2 => self.length(node)?,
            Op::PRelu => self.parametric(node)?,
            _ => return Ok(None),
        }))
    }

    fn unary(&self, node: &Node) -> Result<Option<Kind>> {
        let named = |name: &str| Some(Kind::Layer("Activation", json!({ "activation": name })));
        let is_new = self.generation == Generation::Keras3;
        let slope = |default: f64| node.float("alpha", default);
        Ok(match &node.op {
            Op::Relu => named("relu"),
            Op::Sigmoid => named("sigmoid"),
            Op::Tanh => named("tanh"),
            Op::Softplus => named("softplus"),
            Op::Softsign => named("softsign"),
            Op::Exp => named("exponential"),
            Op::Swish if slope(1.0)? == 1.0 => named("swish"),
            Op::Mish if is_new => named("mish"),
            Op::HardSwish if is_new => named("hard_silu"),
            Op::Selu if node.attributes.is_empty() => named("selu"),
            Op::Elu => Some(Kind::Layer("ELU", json!({ "alpha": slope(1.0)? }))),
            Op::Celu if is_new => Some(Kind::Operation(NN, "Celu", json!({ "alpha": slope(1.0)? }))),
            Op::LeakyRelu => Some(Kind::Layer("LeakyReLU", self.one_slope(slope(0.01)?))),
            Op::HardSigmoid => {
                let own = if is_new { 1.0 / 6.0 } else { 0.2 };
                let is_own = (slope(0.2)? - own).abs() < 1e-7 && node.float("beta", 0.5)? == 0.5;
                if is_own { named("hard_sigmoid") } else { None }
            }
            Op::Gelu => match node.text("approximate")?.unwrap_or("none") {
                "none" => named("gelu"),
                _ if is_new => Some(Kind::Operation(NN, "Gelu", json!({"approximate": true}))),
                _ => None,
            },
            Op::Clip => self.clip(node)?,
            Op::Sqrt if is_new => Some(Kind::Operation(NUMPY, "Sqrt", json!({}))),
            Op::Log if is_new => Some(Kind::Operation(NUMPY, "Log", json!({}))),
            Op::Abs if is_new => Some(Kind::Operation(NUMPY, "Absolute", json!({}))),
            Op::Sin if is_new => Some(Kind::Operation(NUMPY, "Sin", json!({}))),
            Op::Cos if is_new => Some(Kind::Operation(NUMPY, "Cos", json!({}))),
            Op::Reciprocal if is_new => Some(Kind::Operation(NUMPY, "Reciprocal", json!({}))),
            Op::Erf if is_new => Some(Kind::Operation("keras.src.ops.math", "Erf", json!({}))),
            Op::Not if is_new => Some(Kind::Operation(NUMPY, "LogicalNot", json!({}))),
            Op::Cast if is_new => {
                let to = match node.text("to")? {
                    Some("int") => "int32",
                    Some("bool") => "bool",
                    _ => "float32",
                };
                Some(Kind::Operation("keras.src.ops.core", "Cast", json!({ "dtype": to })))
            }
            Op::Neg => Some(Kind::Layer("Rescaling", json!({"scale": -1.0, "offset": 0.0}))),
            _ => None,
        })
    }

    /// The options of a layer with one slope for all elements.
    fn one_slope(&self, slope: f64) -> Value {
        let key = if self.generation == Generation::Keras3 { "negative_slope" } else { "alpha" };
        json!({ key: slope })
    }

    fn clip(&self, node: &Node) -> Result<Option<Kind>> {
        let (low, high) = (node.float("min", f64::NEG_INFINITY)?, node.float("max", f64::INFINITY)?);
        Ok(match (low == 0.0, low.is_finite() && high.is_finite()) {
            (true, true) => Some(Kind::Layer("ReLU", json!({ "max_value": high }))),
            (true, false) => Some(Kind::Layer("Activation", json!({"activation": "relu"}))),
            (false, true) if self.generation == Generation::Keras3 => {
                Some(Kind::Operation(NUMPY, "Clip", json!({"x_min": low, "x_max": high})))
            }
            (false, false) if low.is_finite() => Some(Kind::With("Maximum", low)),
            (false, false) if high.is_finite() => Some(Kind::With("Minimum", high)),
            _ => None,
        })
    }

    fn item(&self, node: &Node, at: usize) -> Result<Item> {
        let name = node.inputs.get(at).ok_or_else(invalid)?;
        self.values.get(name.as_str()).cloned().ok_or_else(lost)
    }

    fn binary(&mut self, node: &Node) -> Result<Held> {
        if node.inputs.len() > 2 {
            return self.merged(node);
        }
        let (number, held, is_first) = match (self.item(node, 0)?, self.item(node, 1)?) {
            (Item::Value(held), Item::Number(number)) => (number, held, true),
            (Item::Number(number), Item::Value(held)) => (number, held, false),
            (Item::Value(_), Item::Value(_)) => return self.merged(node),
            _ => return self.combined(node),
        };
        // x·scale + offset
        let line = match (&node.op, is_first) {
            (Op::Add, _) => Some((1.0, number)),
            (Op::Sub, true) => Some((1.0, -number)),
            (Op::Sub, false) => Some((-1.0, number)),
            (Op::Mul, _) => Some((number, 0.0)),
            (Op::Div, true)
                if is_inverted(number) || self.generation != Generation::Keras3 && number != 0.0 =>
            {
                Some((1.0 / number, 0.0))
            }
            _ => None,
        };
        let Some((scale, offset)) = line else { return self.combined(node) };
        let layer = self.layer(&node.name, "Rescaling", json!({"scale": scale, "offset": offset}), &held);
        Ok(Held { layer, result: 0, ..held })
    }

    /// Adds an operation of `keras.ops` for an operator of values and constants.
    fn combined(&mut self, node: &Node) -> Result<Held> {
        let (mut args, mut dims, mut single) = (Vec::new(), Vec::new(), None);
        let items = (0..node.inputs.len()).map(|at| self.item(node, at)).collect::<Result<Vec<_>>>()?;
        if !items.iter().any(|item| matches!(item, Item::Value(_))) {
            return Err(Error::unsupported("Keras has no layer that combines constants"));
        }
        let is_alone = items.iter().all(|item| matches!(item, Item::Value(_) | Item::Number(_)))
            && items.iter().filter(|item| matches!(item, Item::Value(_))).count() == 1;
        for item in items {
            let (arg, lens) = match item {
                Item::Value(held) if is_alone => {
                    single = Some(held.clone());
                    (Arg::of(&held), held.dims)
                }
                Item::Value(held) => {
                    let held = self.materialized(&node.name, &held)?;
                    (Arg::of(&held), held.dims)
                }
                Item::Number(number) => (Arg::Constant(json!(number)), Vec::new()),
                Item::Numbers(shape, numbers) => {
                    (Arg::Constant(array(&shape, &numbers)), shape.into_iter().map(Some).collect())
                }
                Item::Stored(_) => {
                    return Err(Error::unsupported(
                        "Keras has no layer that combines a value with a tensor's numbers",
                    ));
                }
                Item::Lens(_) => {
                    return Err(Error::unsupported("Keras has no layer that computes with lengths"));
                }
            };
            args.push(arg);
            dims = broadcast(&dims, &lens);
        }
        let class = self.operator(&node.op)?;
        let layer = self.operation(&node.name, NUMPY, class, json!({}), args)?;
        Ok(single.map_or_else(|| Held::plain(layer, 0, dims), |held| Held { layer, result: 0, ..held }))
    }

    fn operator(&self, op: &Op) -> Result<&'static str> {
        match op {
            Op::Add => Ok("Add"),
            Op::Sub => Ok("Subtract"),
            Op::Mul => Ok("Multiply"),
            Op::Div => Ok("Divide"),
            Op::Max => Ok("Maximum"),
            Op::Min => Ok("Minimum"),
            Op::Pow => Ok("Power"),
            Op::Less => Ok("Less"),
            Op::LessOrEqual => Ok("LessEqual"),
            Op::Greater => Ok("Greater"),
            Op::GreaterOrEqual => Ok("GreaterEqual"),
            Op::Equal => Ok("Equal"),
            Op::And => Ok("LogicalAnd"),
            Op::Or => Ok("LogicalOr"),
            Op::Where => Ok("Where"),
            other => Err(Error::unsupported("Keras has no layer for this operator").found(other.name())),
        }
    }

    /// Brings values into one order of axes: that which they share, or the graph's.
    fn aligned(&mut self, node: &Node) -> Result<Vec<Held>> {
        let all = (0..node.inputs.len()).map(|at| self.input(node, at)).collect::<Result<Vec<_>>>()?;
        let all = all.iter().map(|held| self.forwards(&node.name, held)).collect::<Result<Vec<_>>>()?;
        let is_same = all.windows(2).all(|pair| match pair {
            [a, b] => a.axes == b.axes && a.dims.len() == b.dims.len(),
            _ => true,
        });
        match is_same {
            true => Ok(all),
            false => all.iter().map(|held| self.materialized(&node.name, held)).collect(),
        }
    }

    fn merged(&mut self, node: &Node) -> Result<Held> {
        let all = self.aligned(node)?;
        let Some(first) = all.first().cloned() else { return Err(invalid()) };
        let rank = all.iter().map(|held| held.dims.len()).max().unwrap_or(0);
        if all.iter().any(|held| held.dims.len() != rank) {
            return Err(Error::unsupported("Keras's layer combines values of one number of axes"));
        }
        let len = |axis: usize| {
            let lens: Vec<Option<u64>> = all.iter().map(|held| held.len(axis)).collect();
            lens.iter().copied().find(|len| *len != Some(1)).unwrap_or(Some(1))
        };
        let dims = (0..rank).map(len).collect();
        let args: Vec<Arg> = all.iter().map(Arg::of).collect();
        let class = self.operator(&node.op)?;
        let layer = match node.op {
            Op::Div | Op::Pow => self.operation(&node.name, NUMPY, class, json!({}), args)?,
            _ => self.add(Request {
                name: &node.name,
                class,
                module: None,
                options: json!({}),
                args: vec![Arg::List(args)],
            }),
        };
        Ok(Held { layer, result: 0, dims, ..first })
    }

    fn concat(&mut self, node: &Node) -> Result<Held> {
        let mut all = self.aligned(node)?;
        if let Some(stacked) = self.stacked(node, &all)? {
            return Ok(stacked);
        }
        // An axis that Keras lacks can be joined once it has it.
        if all.first().is_some_and(|first| first.axes.contains(&None)) {
            all = all.iter().map(|held| self.materialized(&node.name, held)).collect::<Result<_>>()?;
        }
        let Some(first) = all.first().cloned() else { return Err(invalid()) };
        let axis = first.axis(node.int("axis", 0)?)?;
        if axis == 0 {
            return Err(Error::unsupported("Keras's layer does not join batches"));
        }
        let sum = all.iter().map(|held| held.len(axis)).try_fold(0u64, |sum, len| sum.checked_add(len?));
        let mut dims = first.dims.clone();
        *dims.get_mut(axis).ok_or_else(invalid)? = sum;
        let args = vec![Arg::List(all.iter().map(Arg::of).collect())];
        let layer = self.add(Request {
            name: &node.name,
            class: "Concatenate",
            module: None,
            options: json!({ "axis": axis }),
            args,
        });
        Ok(Held { layer, result: 0, dims, ..first })
    }

    /// Joins values along an axis that Keras lacks, as the directions of recurrent layers are: it gets it before the last one.
    fn stacked(&mut self, node: &Node, all: &[Held]) -> Result<Option<Held>> {
        let Some(first) = all.first().filter(|first| first.dims.len() > 1) else { return Ok(None) };
        let rank = i64::try_from(first.axes.len()).map_err(|_| invalid())?;
        let at = node.int("axis", 0)?;
        let at = usize::try_from(if at < 0 { at.saturating_add(rank) } else { at }).map_err(|_| invalid())?;
        let is_alike = |held: &Held| held.axes == first.axes && held.dims == first.dims;
        if first.axes.get(at) != Some(&None) || !all.iter().all(is_alike) {
            return Ok(None);
        }
        let axis = first.dims.len() - 1;
        let args = vec![Arg::List(all.iter().map(Arg::of).collect())];
        let layer = self.operation(&node.name, NUMPY, "Stack", json!({ "axis": axis }), args)?;
        let mut held = Held { layer, result: 0, ..first.clone() };
        held.dims.insert(axis, Some(all.len() as u64));
        for own in held.axes.iter_mut().flatten().filter(|own| **own >= axis) {
            *own += 1;
        }
        if let Some(own) = held.axes.get_mut(at) {
            *own = Some(axis);
        }
        Ok(Some(held))
    }

    fn mat_mul(&mut self, node: &Node) -> Result<Held> {
        let both = [self.input(node, 0)?, self.input(node, 1)?];
        let [a, b] = [self.materialized(&node.name, &both[0])?, self.materialized(&node.name, &both[1])?];
        let ([before @ .., rows, _], [others @ .., _, columns]) = (&a.dims[..], &b.dims[..]) else {
            return Err(invalid());
        };
        let batch = if before.len() >= others.len() { before } else { others };
        let dims = [batch, &[*rows, *columns]].concat();
        let layer = self.operation(&node.name, NUMPY, "Matmul", json!({}), vec![Arg::of(&a), Arg::of(&b)])?;
        Ok(Held::plain(layer, 0, dims))
    }

    fn over_axis(&mut self, node: &Node) -> Result<Held> {
        let held = self.input(node, 0)?;
        let held = if held.axes.contains(&None) { self.materialized(&node.name, &held)? } else { held };
        let axis = held.axis(node.int("axis", -1)?)?;
        let layer = match node.op {
            Op::Softmax => self.layer(&node.name, "Softmax", json!({ "axis": axis }), &held),
            Op::LogSoftmax => {
                self.operation(&node.name, NN, "LogSoftmax", json!({ "axis": axis }), vec![Arg::of(&held)])?
            }
            _ if node.int("p", 2)? == 2 => {
                self.layer(&node.name, "UnitNormalization", json!({ "axis": axis }), &held)
            }
            _ => return Err(Error::unsupported("Keras's layer divides by the root of the sum of squares")),
        };
        Ok(Held { layer, result: 0, ..held })
    }

    fn reduced(&mut self, node: &Node, held: Held, op: &Op) -> Result<Held> {
        let held = if held.axes.contains(&None) { self.materialized(&node.name, &held)? } else { held };
        let axes = match node.attributes.get("axes") {
            Some(Attribute::Ints(axes)) => {
                axes.iter().map(|axis| held.axis(*axis)).collect::<Result<Vec<_>>>()?
            }
            _ => (0..held.dims.len()).collect(),
        };
        if axes.contains(&0) {
            return Err(Error::unsupported("Keras has no layer that reduces the batch"));
        }
        let keeps = node.int("keepdims", 1)? != 0;
        let is_kept = |axis: &usize| !axes.contains(axis);
        let kept: Vec<usize> = (0..held.dims.len()).filter(is_kept).collect();
        let is_places = (3..=5).contains(&held.dims.len())
            && axes.iter().copied().collect::<BTreeSet<_>>().into_iter().eq(1..held.dims.len() - 1);
        let pools = match op {
            Op::ReduceMean if is_places => {
                ["GlobalAveragePooling1D", "GlobalAveragePooling2D", "GlobalAveragePooling3D"]
                    .get(held.dims.len() - 3)
            }
            Op::ReduceMax if is_places => {
                ["GlobalMaxPooling1D", "GlobalMaxPooling2D", "GlobalMaxPooling3D"].get(held.dims.len() - 3)
            }
            _ => None,
        };
        let pool = pools.copied();
        let layer = match pool {
            Some(class) => self.layer(&node.name, class, json!({ "keepdims": keeps }), &held),
            None => {
                let class = match op {
                    Op::ReduceMean => "Mean",
                    Op::ReduceSum => "Sum",
                    Op::ReduceMax => "Max",
                    Op::ReduceMin => "Min",
                    _ => "Prod",
                };
                self.operation(
                    &node.name,
                    NUMPY,
                    class,
                    json!({"axis": axes, "keepdims": keeps}),
                    vec![Arg::of(&held)],
                )?
            }
        };
        if keeps {
            let dims = (0..held.dims.len())
                .map(|axis| if kept.contains(&axis) { held.len(axis) } else { Some(1) })
                .collect();
            return Ok(Held { layer, result: 0, dims, ..held });
        }
        let dims = kept.iter().map(|axis| held.len(*axis)).collect();
        let places = held.axes.iter().flatten().filter(|axis| kept.contains(axis));
        let axes = places.map(|axis| kept.iter().position(|own| own == axis)).collect();
        Ok(Held { layer, result: 0, dims, axes, is_reversed: false })
    }

    /// Lowers `ReduceL2`: the root of the sum of squares.
    fn length(&mut self, node: &Node) -> Result<Held> {
        let held = self.input(node, 0)?;
        let squares = format!("{}/squares", node.name);
        let layer = self.operation(&squares, NUMPY, "Square", json!({}), vec![Arg::of(&held)])?;
        let sum = self.reduced(node, Held { layer, result: 0, ..held }, &Op::ReduceSum)?;
        let root = format!("{}/root", node.name);
        let layer = self.operation(&root, NUMPY, "Sqrt", json!({}), vec![Arg::of(&sum)])?;
        Ok(Held { layer, result: 0, ..sum })
    }

    /// Lowers `PRelu` with a stored slope: one for each element but the batch, some axes of which have length 1.
    fn parametric(&mut self, node: &Node) -> Result<Held> {
        let held = self.input(node, 0)?;
        let (stored, number) = match self.item(node, 1)? {
            Item::Stored(slope) => (Some(slope), None),
            Item::Number(slope) => (None, Some(slope)),
            Item::Numbers(_, slopes) if slopes.len() == 1 => (None, slopes.first().copied()),
            _ => (None, None),
        };
        if let Some(slope) = number {
            let layer = self.layer(&node.name, "LeakyReLU", self.one_slope(slope), &held);
            return Ok(Held { layer, result: 0, ..held });
        }
        let slope = stored.ok_or_else(|| Error::unsupported("Keras's layer has a stored slope"))?;
        let held = self.materialized(&node.name, &held)?;
        let bound = self.whole(slope)?;
        if bound.shape.len() + 1 != held.dims.len() {
            return Err(Error::unsupported("Keras's layer has a slope for each element")
                .found(format!("{:?}", bound.shape))
                .expected("as many axes as the value has, without the batch"));
        }
        let shared: Vec<usize> = (1..held.dims.len())
            .filter(|axis| bound.shape.get(axis - 1) == Some(&1) && held.len(*axis) != Some(1))
            .collect();
        let layer = self.layer(&node.name, "PReLU", json!({ "shared_axes": shared }), &held);
        self.bind(layer, "alpha", &bound);
        Ok(Held { layer, result: 0, ..held })
    }
}

/// Whether a division by a number is the product with its inverse, bit for bit: a power of two whose inverse is one, too.
fn is_inverted(number: f64) -> bool {
    const FRACTION: u64 = (1 << (f64::MANTISSA_DIGITS - 1)) - 1;
    let is_power = |number: f64| number.is_normal() && number.to_bits() & FRACTION == 0;
    is_power(number) && is_power(1.0 / number)
}

/// Returns numbers as Keras writes an array.
fn array(shape: &[u64], numbers: &[f64]) -> Value {
    let mut values: Vec<Value> = numbers.iter().map(|number| json!(number)).collect();
    for len in shape.iter().skip(1).rev() {
        let len = usize::try_from(*len).unwrap_or(1).max(1);
        values = values.chunks(len).map(|row| Value::Array(row.to_vec())).collect();
    }
    json!({"class_name": "__numpy__", "config": {"value": values, "dtype": "float32"}})
}

/// Returns the lengths of values that are broadcast with each other.
fn broadcast(a: &[Option<u64>], b: &[Option<u64>]) -> Vec<Option<u64>> {
    let rank = a.len().max(b.len());
    let at = |dims: &[Option<u64>], axis: usize| match (axis + dims.len()).checked_sub(rank) {
        Some(own) => dims.get(own).copied().unwrap_or(Some(1)),
        None => Some(1),
    };
    (0..rank).map(|axis| if at(a, axis) == Some(1) { at(b, axis) } else { at(a, axis) }).collect()
}
