//! Operators that move, pick or repeat elements.

use super::Emitter;
use super::attributes::truth;
use crate::arguments::list;
use crate::attributes::{float, int, ints, text};
use crate::names::number;
use crate::refusal::refuse;
use ckpt_api::{Attribute, Node, Op, Result};

impl Emitter<'_> {
    /// The expression of a node that moves elements; `None` for another one.
    pub(super) fn moved(&mut self, node: &Node) -> Result<Option<String>> {
        let x = |emitter: &Self| emitter.input(node, 0);
        Ok(Some(match &node.op {
            Op::Constant => return self.constant(node).map(Some),
            Op::Concat => {
                let parts =
                    (0..node.inputs.len()).map(|at| self.input(node, at)).collect::<Result<Vec<_>>>()?;
                format!("torch.cat([{}], {})", parts.join(", "), int(node, "axis", 0)?)
            }
            Op::Flatten => {
                let (x, axis) = (x(self)?, int(node, "axis", 1)?);
                format!("{x}.reshape({x}.shape[:{axis}].numel(), {x}.shape[{axis}:].numel())")
            }
            Op::Reshape => {
                let arguments = [x(self)?, self.list(node, "shape")?, truth(int(node, "allowzero", 0)? == 0)];
                self.call("reshaped", &arguments)
            }
            Op::Transpose => match ints(node, "perm")? {
                Some(order) => format!("{}.permute({})", x(self)?, list(order)),
                None => {
                    let x = x(self)?;
                    format!("{x}.permute(*range({x}.dim() - 1, -1, -1))")
                }
            },
            Op::Squeeze => match ints(node, "axes")? {
                Some([axis]) => format!("{}.squeeze({axis})", x(self)?),
                Some(axes) => format!("{}.squeeze(tuple({}))", x(self)?, list(axes)),
                None => format!("{}.squeeze()", x(self)?),
            },
            Op::Unsqueeze => {
                let arguments = [x(self)?, self.list(node, "axes")?];
                self.call("unsqueezed", &arguments)
            }
            Op::Expand => {
                let arguments = [x(self)?, self.list(node, "shape")?];
                self.call("expanded", &arguments)
            }
            Op::Tile => format!("{}.repeat({})", x(self)?, self.list(node, "repeats")?),
            Op::Slice => {
                let lists = ["starts", "ends", "axes", "steps"].map(|name| self.list(node, name));
                let [starts, ends, axes, steps] = lists;
                let arguments = [x(self)?, starts?, ends?, axes?, steps?];
                self.call("sliced", &arguments)
            }
            Op::Split => {
                let arguments = [
                    x(self)?,
                    self.list(node, "split")?,
                    node.outputs.len().to_string(),
                    int(node, "axis", 0)?.to_string(),
                ];
                self.call("split", &arguments)
            }
            Op::Pad => {
                let mode = text(node, "mode", "constant")?.to_owned();
                if !matches!(mode.as_str(), "constant" | "edge" | "reflect" | "wrap") {
                    return Err(refuse(node, "pads in a way that is not stated"));
                }
                let value = number(float(node, "value", 0.0)?);
                let arguments = [x(self)?, self.list(node, "pads")?, format!("\"{mode}\""), value];
                self.call("padded", &arguments)
            }
            Op::Shape => {
                let end = node
                    .attributes
                    .get("end")
                    .map_or(Ok(String::new()), |_| int(node, "end", 0).map(|end| end.to_string()))?;
                format!("torch.tensor({}.shape[{}:{end}])", x(self)?, int(node, "start", 0)?)
            }
            Op::Range => {
                let bounds = [("start", 0), ("limit", 0), ("delta", 1)]
                    .map(|(name, default)| self.number(node, name, default));
                let [start, limit, delta] = bounds;
                format!("torch.arange({}, {}, {})", start?, limit?, delta?)
            }
            Op::Gather if node.parameters.contains_key("weight") => return Ok(None),
            Op::Gather => {
                let arguments = [x(self)?, self.input(node, 1)?, int(node, "axis", 0)?.to_string()];
                self.call("taken", &arguments)
            }
            Op::GatherND => {
                let arguments = [x(self)?, self.input(node, 1)?, int(node, "batch_dims", 0)?.to_string()];
                self.call("taken_nd", &arguments)
            }
            Op::ScatterND => {
                let reduction = format!("\"{}\"", reduction(node)?);
                let arguments = [x(self)?, self.input(node, 1)?, self.input(node, 2)?, reduction];
                self.call("put_nd", &arguments)
            }
            Op::ScatterElements => {
                let (axis, reduction) =
                    (int(node, "axis", 0)?.to_string(), format!("\"{}\"", reduction(node)?));
                let arguments = [x(self)?, self.input(node, 1)?, self.input(node, 2)?, axis, reduction];
                self.call("put_elements", &arguments)
            }
            Op::DepthToSpace | Op::SpaceToDepth => {
                let mode = if text(node, "mode", "DCR")? == "CRD" { "CRD" } else { "DCR" };
                let arguments = [x(self)?, int(node, "blocksize", 1)?.to_string(), format!("\"{mode}\"")];
                self.call(if node.op == Op::DepthToSpace { "to_space" } else { "to_depth" }, &arguments)
            }
            Op::Resize => return self.resize(node).map(Some),
            _ => return self.ordered(node),
        }))
    }

    /// Operators on elements in the order of an axis, or of their size.
    fn ordered(&mut self, node: &Node) -> Result<Option<String>> {
        Ok(Some(match &node.op {
            Op::ArgMax | Op::ArgMin => {
                let function = if node.op == Op::ArgMax { "torch.argmax" } else { "torch.argmin" };
                let keeps = truth(int(node, "keepdims", 1)? != 0);
                let last = truth(int(node, "select_last_index", 0)? != 0);
                let axis = int(node, "axis", 0)?.to_string();
                let arguments = [self.input(node, 0)?, function.to_owned(), axis, keeps, last];
                self.call("place_of", &arguments)
            }
            Op::TopK => {
                let largest = truth(int(node, "largest", 1)? != 0);
                let (k, axis) = (self.number(node, "k", 1)?, int(node, "axis", -1)?);
                format!("torch.topk({}, {k}, {axis}, {largest})", self.input(node, 0)?)
            }
            Op::CumSum => {
                let flags =
                    ["exclusive", "reverse"].map(|name| int(node, name, 0).map(|flag| truth(flag != 0)));
                let [exclusive, reverse] = flags;
                let arguments =
                    [self.input(node, 0)?, int(node, "axis", 0)?.to_string(), exclusive?, reverse?];
                self.call("summed_up", &arguments)
            }
            Op::Trilu => {
                let function = if int(node, "upper", 1)? == 0 { "tril" } else { "triu" };
                format!("torch.{function}({}, {})", self.input(node, 0)?, int(node, "k", 0)?)
            }
            Op::Einsum => {
                let equation = text(node, "equation", "")?;
                let is_plain = |c: char| c.is_ascii_alphabetic() || " ,.->".contains(c);
                if !equation.chars().all(is_plain) {
                    return Err(refuse(node, "has an equation that is not valid"));
                }
                let all =
                    (0..node.inputs.len()).map(|at| self.input(node, at)).collect::<Result<Vec<_>>>()?;
                format!("torch.einsum(\"{equation}\", {})", all.join(", "))
            }
            _ => return Ok(None),
        }))
    }

    fn constant(&mut self, node: &Node) -> Result<String> {
        if let Some(tensor) = self.tensor(node, "value")? {
            return self.read(tensor);
        }
        let shape = match ints(node, "shape")? {
            Some(shape) => format!(".reshape({})", list(shape)),
            None => String::new(),
        };
        let has = |name: &str| node.attributes.get(name);
        Ok(match (has("value_float"), has("value_int"), has("value_floats"), has("value_ints")) {
            (Some(Attribute::Float(value)), ..) => format!("torch.tensor({})", number(*value)),
            (_, Some(Attribute::Int(value)), ..) => format!("torch.tensor({value})"),
            (_, _, Some(Attribute::Floats(values)), _) => {
                format!("torch.tensor({}, dtype=torch.float32){shape}", super::attributes::reals(values))
            }
            (.., Some(Attribute::Ints(values))) => {
                format!("torch.tensor({}, dtype=torch.long){shape}", list(values))
            }
            _ => return Err(refuse(node, "has a value that is not supported")),
        })
    }

    fn resize(&mut self, node: &Node) -> Result<String> {
        let mode = text(node, "mode", "nearest")?.to_owned();
        let transformation = text(node, "coordinate_transformation_mode", "half_pixel")?.to_owned();
        let rounding = text(node, "nearest_mode", "round_prefer_floor")?.to_owned();
        let known = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"];
        let roundings = ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"];
        if !matches!(mode.as_str(), "nearest" | "linear")
            || !known.contains(&transformation.as_str())
            || !roundings.contains(&rounding.as_str())
        {
            return Err(refuse(node, "resizes by a rule that the generated code does not have"));
        }
        let texts = [mode, transformation, rounding].map(|text| format!("\"{text}\""));
        let arguments = [
            vec![self.input(node, 0)?, self.list(node, "sizes")?, self.list(node, "scales")?],
            texts.to_vec(),
        ]
        .concat();
        Ok(self.call("resized", &arguments))
    }
}

/// What becomes of an element and its update.
fn reduction(node: &Node) -> Result<&str> {
    match text(node, "reduction", "none")? {
        known @ ("none" | "add" | "mul" | "max" | "min") => Ok(known),
        _ => Err(refuse(node, "combines elements in a way that is not known")),
    }
}
