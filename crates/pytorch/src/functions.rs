//! Operators without weights as expressions.

use super::arguments::{list, tuple};
use super::attributes::{float, int, ints, text};
use super::expressions::{infix, unary};
use super::names::{number, string};
use super::program::{Piece, Statement, ValueId, pieces};
use super::refusal::refuse;
use super::translate::Translator;
use super::views::View;
use ckpt_api::{Attribute, Node, Op, Result};
use ckpt_graph::shape::resolve;

impl<'g> Translator<'g> {
    /// Any operator that has an expression.
    pub(super) fn function(&mut self, node: &'g Node) -> Result<()> {
        if let Some((expression, module)) = unary(node)? {
            return self.elementwise(node, &expression, module);
        }
        match &node.op {
            Op::Softmax | Op::LogSoftmax => self.softmax(node),
            Op::Add
            | Op::Sub
            | Op::Mul
            | Op::Div
            | Op::Pow
            | Op::Max
            | Op::Min
            | Op::Equal
            | Op::Less
            | Op::LessOrEqual
            | Op::Greater
            | Op::GreaterOrEqual
            | Op::And
            | Op::Or
            | Op::Xor
            | Op::Mod
            | Op::PRelu => self.binary(node),
            Op::Where => self.where_else(node),
            Op::Concat => self.concat(node),
            Op::GlobalAveragePool => self.global_pool(node, "mean", "Avg"),
            Op::GlobalMaxPool => self.global_pool(node, "amax", "Max"),
            Op::ReduceMean => self.reduce(node, "mean"),
            Op::ReduceSum => self.reduce(node, "sum"),
            Op::ReduceMax => self.reduce(node, "amax"),
            Op::ReduceMin => self.reduce(node, "amin"),
            Op::Pad => self.pad(node),
            Op::Slice => self.slice(node),
            Op::Reshape => self.reshape(node),
            Op::Squeeze => self.each_axis(node, "squeeze"),
            Op::Unsqueeze => self.each_axis(node, "unsqueeze"),
            Op::Transpose => self.transpose(node),
            Op::Expand => self.expand(node),
            Op::CumSum => self.cumsum(node),
            Op::Tile => self.listed(node, "repeats", "repeat"),
            Op::MatMul => self.two(node, "torch.matmul({}, {})"),
            Op::Einsum => self.einsum(node),
            Op::Resize => self.resize(node),
            Op::Split => self.split(node),
            Op::Gather => self.gather(node),
            _ => Err(refuse(node, "has no form in the generated code")),
        }
    }

    /// A function of each element: the axes may be in any order.
    fn elementwise(&mut self, node: &'g Node, expression: &str, module: Option<String>) -> Result<()> {
        let view = self.view(node, 0)?;
        if expression == "{}" {
            self.set(node, view);
            self.keep_order(node);
            return Ok(());
        }
        let written = pieces(expression, &[view.base, view.base]);
        let value = match module {
            Some(module) => self.program.assign_as(&node.name, view.base, written, module),
            None => self.program.assign(&node.name, written),
        };
        self.set(node, View { base: value, axes: view.axes });
        self.keep_order(node);
        Ok(())
    }

    fn softmax(&mut self, node: &'g Node) -> Result<()> {
        let axis = int(node, "axis", -1)?;
        let name = if node.op == Op::Softmax { "softmax" } else { "log_softmax" };
        let class = if node.op == Op::Softmax { "Softmax" } else { "LogSoftmax" };
        let x = self.input(node, 0)?;
        let written = pieces(&format!("{{}}.{name}({axis})"), &[x]);
        let value = self.program.assign_as(&node.name, x, written, format!("nn.{class}({axis})"));
        self.put(node, value);
        Ok(())
    }

    /// An operand: a number as text, or a value.
    fn operand(&mut self, node: &'g Node, number: usize) -> Result<Piece> {
        let name = node.inputs.get(number).map(String::as_str).unwrap_or_default();
        match self.literals.get(name) {
            Some(literal) if literal.starts_with('-') => Ok(Piece::Text(format!("({literal})"))),
            Some(literal) => Ok(Piece::Text(literal.clone())),
            None => self.input(node, number).map(Piece::Value),
        }
    }

    fn binary(&mut self, node: &'g Node) -> Result<()> {
        let views: Vec<Option<View>> =
            (0..node.inputs.len()).map(|at| self.operand_view(node, at)).collect::<Result<_>>()?;
        let values: Vec<&View> = views.iter().flatten().collect();
        // Values whose axes are moved alike can be combined as they are.
        let alike = values.windows(2).all(|pair| pair[0].axes == pair[1].axes);
        let axes = values.first().filter(|_| alike).and_then(|view| view.axes.clone());
        let is_moved = axes.is_some() && values.first().is_some_and(|view| !view.is_whole());
        let operands: Vec<Piece> = match is_moved {
            false => (0..node.inputs.len()).map(|at| self.operand(node, at)).collect::<Result<_>>()?,
            true => {
                let own = |(at, view): (usize, &Option<View>)| match view {
                    Some(view) => Ok(Piece::Value(view.base)),
                    None => self.operand(node, at),
                };
                views.iter().enumerate().map(own).collect::<Result<_>>()?
            }
        };
        let written = infix(node, &operands)?;
        let value = self.program.assign(&node.name, written);
        match is_moved {
            true => self.set(node, View { base: value, axes }),
            false => self.put(node, value),
        }
        Ok(())
    }

    fn operand_view(&self, node: &Node, number: usize) -> Result<Option<View>> {
        let name = node.inputs.get(number).map(String::as_str).unwrap_or_default();
        if self.literals.contains_key(name) { Ok(None) } else { self.view(node, number).map(Some) }
    }

    fn where_else(&mut self, node: &'g Node) -> Result<()> {
        let condition = self.input(node, 0)?;
        let (a, b) = (self.operand(node, 1)?, self.operand(node, 2)?);
        let mut written = pieces("torch.where({}.bool(), ", &[condition]);
        written.extend([a, Piece::Text(", ".to_owned()), b, Piece::Text(")".to_owned())]);
        let value = self.program.assign(&node.name, written);
        self.put(node, value);
        Ok(())
    }

    fn concat(&mut self, node: &'g Node) -> Result<()> {
        let axis = int(node, "axis", 1)?;
        let values =
            (0..node.inputs.len()).map(|at| self.input(node, at)).collect::<Result<Vec<ValueId>>>()?;
        let slots = vec!["{}"; values.len()].join(", ");
        self.put_expression(node, &format!("torch.cat([{slots}], {axis})"), &values);
        Ok(())
    }

    fn global_pool(&mut self, node: &'g Node, function: &str, class: &str) -> Result<()> {
        let rank = node.inputs.first().and_then(|input| self.shapes.rank(input));
        let rank = rank.ok_or_else(|| refuse(node, "takes a value whose number of axes is not known"))?;
        let axes: Vec<String> = (2..rank).map(|axis| axis.to_string()).collect();
        let comma = if axes.len() == 1 { "," } else { "" };
        let x = self.input(node, 0)?;
        let written = pieces(&format!("{{}}.{function}(({}{comma}), keepdim=True)", axes.join(", ")), &[x]);
        let module = format!("nn.Adaptive{class}Pool{}d(1)", axes.len());
        let value = self.program.assign_as(&node.name, x, written, module);
        self.put(node, value);
        Ok(())
    }

    fn reduce(&mut self, node: &'g Node, function: &str) -> Result<()> {
        let view = self.view(node, 0)?;
        let keeps = int(node, "keepdims", 1)? != 0;
        let rank = view.axes.as_ref().map(Vec::len);
        let axes: Option<Vec<usize>> = match (ints(node, "axes")?, rank) {
            (Some(axes), Some(rank)) => axes.iter().map(|axis| resolve(*axis, rank)).collect(),
            (None, Some(rank)) => Some((0..rank).collect()),
            _ => None,
        };
        let axes =
            axes.ok_or_else(|| refuse(node, "reduces axes of a value whose number of axes is not known"))?;
        let own = view.axes.clone().unwrap_or_default();
        let of_base: Option<Vec<usize>> = axes.iter().map(|axis| own.get(*axis).copied().flatten()).collect();
        let (value, of_base, rest) = match of_base.filter(|_| !keeps) {
            Some(of_base) => {
                let rest = own.iter().enumerate().filter(|(at, _)| !axes.contains(at)).map(|(_, own)| *own);
                (view.base, of_base, Some(rest.collect::<Vec<Option<usize>>>()))
            }
            None => (self.input(node, 0)?, axes, None),
        };
        let mut sorted = of_base.clone();
        sorted.sort_unstable();
        let listed: Vec<String> = sorted.iter().map(usize::to_string).collect();
        let listed = if let [one] = &listed[..] { one.clone() } else { format!("({})", listed.join(", ")) };
        let keep = if keeps { ", keepdim=True" } else { "" };
        let value =
            self.program.assign(&node.name, pieces(&format!("{{}}.{function}({listed}{keep})"), &[value]));
        match rest {
            None => self.put(node, value),
            Some(rest) => {
                // What is left of the base has its axes counted anew.
                let after = |axis: usize| axis - sorted.iter().filter(|gone| **gone < axis).count();
                let axes = rest.into_iter().map(|axis| axis.map(after)).collect();
                self.set(node, View { base: value, axes: Some(axes) });
            }
        }
        Ok(())
    }

    fn pad(&mut self, node: &'g Node) -> Result<()> {
        let pads = ints(node, "pads")?.unwrap_or_default();
        let (begins, ends) = pads.split_at(pads.len() / 2);
        let used = begins.iter().zip(ends).position(|pair| pair != (&0, &0)).unwrap_or(begins.len());
        let flat: Vec<String> =
            begins.iter().zip(ends).skip(used).rev().map(|(a, b)| format!("{a}, {b}")).collect();
        let mode = match text(node, "mode", "constant")? {
            "constant" => {
                let value = float(node, "value", 0.0)?;
                if value == 0.0 { String::new() } else { format!(", value={}", number(value)) }
            }
            "edge" => ", mode=\"replicate\"".to_owned(),
            "reflect" => ", mode=\"reflect\"".to_owned(),
            "wrap" => ", mode=\"circular\"".to_owned(),
            _ => return Err(refuse(node, "pads in a way that is not stated")),
        };
        let x = self.input(node, 0)?;
        match flat.is_empty() {
            true => self.put(node, x),
            false => self.put_expression(node, &format!("F.pad({{}}, ({}){mode})", flat.join(", ")), &[x]),
        }
        Ok(())
    }

    fn slice(&mut self, node: &'g Node) -> Result<()> {
        let (starts, ends) =
            (ints(node, "starts")?.unwrap_or_default(), ints(node, "ends")?.unwrap_or_default());
        let rank = node.inputs.first().and_then(|input| self.shapes.rank(input));
        let rank =
            rank.ok_or_else(|| refuse(node, "takes parts of a value whose number of axes is not known"))?;
        let own: Vec<i64> = (0..).take(starts.len()).collect();
        let axes = ints(node, "axes")?.unwrap_or(&own);
        let steps = sizes_of(ints(node, "steps")?, starts.len());
        let view = self.view(node, 0)?;
        let own = |axis: usize| view.axes.as_ref().and_then(|axes| axes.get(axis)).copied();
        let mut parts = vec![":".to_owned(); rank];
        let mut flipped = Vec::new();
        let mut flipped_of_base = Vec::new();
        for (((axis, start), end), step) in axes.iter().zip(starts).zip(ends).zip(&steps) {
            let axis = resolve(*axis, rank)
                .ok_or_else(|| refuse(node, "takes parts along an axis that does not exist"))?;
            if (*step, *start, *end < -i64::from(u32::MAX)) == (-1, -1, true) {
                flipped.push(axis.to_string());
                flipped_of_base.extend(own(axis).flatten());
                continue;
            }
            // The only index of an axis that the value does not have.
            if own(axis) == Some(None) && *step == 1 && matches!(start, 0 | -1) && *end > 0 {
                continue;
            }
            if *step < 1 {
                return Err(refuse(node, "takes elements backwards, but not all of them"));
            }
            let start = if *start == 0 { String::new() } else { start.to_string() };
            let end = if *end > i64::from(u32::MAX) { String::new() } else { end.to_string() };
            let step = if *step == 1 { String::new() } else { format!(":{step}") };
            if let Some(part) = parts.get_mut(axis) {
                *part = format!("{start}:{end}{step}");
            }
        }
        while parts.last().is_some_and(|part| part == ":") {
            parts.pop();
        }
        if parts.is_empty() && flipped_of_base.len() == flipped.len() {
            let base = match &flipped_of_base[..] {
                [] => view.base,
                axes => {
                    let axes: Vec<String> = axes.iter().map(usize::to_string).collect();
                    let flip = format!("{{}}.flip({})", axes.join(", "));
                    self.program.assign(&node.name, pieces(&flip, &[view.base]))
                }
            };
            self.set(node, View { base, axes: view.axes });
            return Ok(());
        }
        let mut x = self.input(node, 0)?;
        if !flipped.is_empty() {
            x = self.program.assign(&node.name, pieces(&format!("{{}}.flip({})", flipped.join(", ")), &[x]));
        }
        match parts.is_empty() {
            true => self.put(node, x),
            false => self.put_expression(node, &format!("{{}}[{}]", parts.join(", ")), &[x]),
        }
        Ok(())
    }

    fn reshape(&mut self, node: &'g Node) -> Result<()> {
        let shape = ints(node, "shape")?.unwrap_or_default();
        if int(node, "allowzero", 0)? != 0 && shape.contains(&0) {
            return Err(refuse(node, "has an axis of length 0"));
        }
        let x = self.input(node, 0)?;
        let lens: Vec<(bool, String)> = shape
            .iter()
            .enumerate()
            .map(|(axis, len)| match len {
                0 => (true, format!("{{}}.shape[{axis}]")),
                len => (false, len.to_string()),
            })
            .collect();
        let count = lens.iter().filter(|(is_own, _)| *is_own).count();
        let listed: Vec<String> = lens.into_iter().map(|(_, len)| len).collect();
        let values = vec![x; count.saturating_add(1)];
        self.put_expression(node, &format!("{{}}.reshape({})", listed.join(", ")), &values);
        Ok(())
    }

    fn each_axis(&mut self, node: &'g Node, method: &str) -> Result<()> {
        let Some(axes) = ints(node, "axes")? else {
            return Err(refuse(node, "removes axes that are not named"));
        };
        let mut axes = axes.to_vec();
        axes.sort_unstable();
        if method == "squeeze" {
            axes.reverse();
        }
        let calls: String = axes.iter().map(|axis| format!(".{method}({axis})")).collect();
        let x = self.input(node, 0)?;
        self.put_expression(node, &format!("{{}}{calls}"), &[x]);
        Ok(())
    }

    fn transpose(&mut self, node: &'g Node) -> Result<()> {
        let perm =
            ints(node, "perm")?.ok_or_else(|| refuse(node, "reverses axes whose number is not known"))?;
        let listed = list(perm);
        let x = self.input(node, 0)?;
        self.put_expression(node, &format!("{{}}.permute({})", listed.trim_matches(['[', ']'])), &[x]);
        Ok(())
    }

    fn listed(&mut self, node: &'g Node, attribute: &str, method: &str) -> Result<()> {
        let values = ints(node, attribute)?.ok_or_else(|| refuse(node, &format!("has no {attribute}")))?;
        let x = self.input(node, 0)?;
        self.put_expression(node, &format!("{{}}.{method}({})", list(values).trim_matches(['[', ']'])), &[x]);
        Ok(())
    }

    fn expand(&mut self, node: &'g Node) -> Result<()> {
        let shape = ints(node, "shape")?.unwrap_or_default();
        let rank = node.inputs.first().and_then(|input| self.shapes.rank(input));
        let rank = rank.ok_or_else(|| refuse(node, "repeats a value whose number of axes is not known"))?;
        let new = shape.len().saturating_sub(rank);
        // A length of 1 keeps that of the value, which PyTorch writes as -1.
        let own = shape.iter().enumerate().map(|(at, len)| if *len == 1 && at >= new { -1 } else { *len });
        let kept = std::iter::repeat_n(-1, rank.saturating_sub(shape.len()));
        let lens: Vec<i64> = kept.chain(own).collect();
        let x = self.input(node, 0)?;
        self.put_expression(node, &format!("{{}}.expand({})", list(&lens).trim_matches(['[', ']'])), &[x]);
        Ok(())
    }

    fn cumsum(&mut self, node: &'g Node) -> Result<()> {
        if int(node, "exclusive", 0)? != 0 || int(node, "reverse", 0)? != 0 {
            return Err(refuse(node, "sums up in another order than PyTorch's cumsum"));
        }
        let axis = int(node, "axis", 0)?;
        let x = self.input(node, 0)?;
        self.put_expression(node, &format!("{{}}.cumsum({axis})"), &[x]);
        Ok(())
    }

    fn two(&mut self, node: &'g Node, format: &str) -> Result<()> {
        let (a, b) = (self.input(node, 0)?, self.input(node, 1)?);
        self.put_expression(node, format, &[a, b]);
        Ok(())
    }

    fn einsum(&mut self, node: &'g Node) -> Result<()> {
        let equation = text(node, "equation", "")?;
        let is_plain = |c: char| c.is_ascii_alphabetic() || ",->. ".contains(c);
        if !equation.chars().all(is_plain) {
            return Err(refuse(node, "has an equation that is not supported"));
        }
        let values =
            (0..node.inputs.len()).map(|at| self.input(node, at)).collect::<Result<Vec<ValueId>>>()?;
        let slots = ", {}".repeat(values.len());
        self.put_expression(node, &format!("torch.einsum({}{slots})", string(equation)), &values);
        Ok(())
    }

    fn resize(&mut self, node: &'g Node) -> Result<()> {
        let mode = text(node, "mode", "nearest")?;
        let rank = node.inputs.first().and_then(|input| self.shapes.rank(input)).unwrap_or(0);
        let coordinates = text(node, "coordinate_transformation_mode", "half_pixel")?;
        let mode = match (mode, rank, coordinates) {
            ("nearest", 3..=5, _) => nearest(node, coordinates)?,
            ("linear", 3, "half_pixel") => "linear\", align_corners=False, antialias=False",
            ("linear", 4, "half_pixel") => "bilinear\", align_corners=False",
            ("linear", 5, "half_pixel") => "trilinear\", align_corners=False",
            ("linear", 4, "align_corners") => "bilinear\", align_corners=True",
            _ => return Err(refuse(node, "resizes images in a way that PyTorch's interpolate does not")),
        };
        let mode = mode.replace(", antialias=False", "");
        let size = match (ints(node, "sizes")?, node.attributes.get("scales")) {
            (Some(sizes), _) => format!("size={}", tuple(sizes.get(2..).unwrap_or_default())),
            (None, Some(Attribute::Floats(scales))) => {
                let scales = scales.get(2..).unwrap_or_default();
                let listed: Vec<String> = scales.iter().map(|scale| number(*scale)).collect();
                format!("scale_factor=({},)", listed.join(", "))
            }
            _ => return Err(refuse(node, "does not state the size of its result")),
        };
        let end = if mode.contains("align") { "" } else { "\"" };
        let x = self.input(node, 0)?;
        self.put_expression(node, &format!("F.interpolate({{}}, {size}, mode=\"{mode}{end})"), &[x]);
        Ok(())
    }

    fn split(&mut self, node: &'g Node) -> Result<()> {
        let axis = int(node, "axis", 0)?;
        let x = self.input(node, 0)?;
        let made = match ints(node, "split")? {
            Some(lens) => format!("{{}}.split({}, {axis})", list(lens)),
            None => format!("{{}}.chunk({}, {axis})", node.outputs.len()),
        };
        let mut target = Vec::new();
        for (number, output) in node.outputs.iter().enumerate() {
            let value = self.program.value(&node.name);
            self.views.set(output, View::whole(value, self.shapes.rank(output)));
            if number > 0 {
                target.push(Piece::Text(", ".to_owned()));
            }
            target.push(Piece::Value(value));
        }
        let pieces = pieces(&made, &[x]);
        self.program.statements.push(Statement { target, pieces, comment: None, module: None });
        Ok(())
    }

    fn gather(&mut self, node: &'g Node) -> Result<()> {
        let axis = int(node, "axis", 0)?;
        let indices = node.inputs.get(1).map(String::as_str).unwrap_or_default();
        let literal = self.literals.get(indices).filter(|literal| literal.parse::<i64>().is_ok()).cloned();
        let literal = literal.ok_or_else(|| refuse(node, "takes elements by an index that is computed"))?;
        let x = self.input(node, 0)?;
        self.put_expression(node, &format!("{{}}.select({axis}, {literal})"), &[x]);
        Ok(())
    }
}

fn sizes_of(values: Option<&[i64]>, count: usize) -> Vec<i64> {
    values.map_or_else(|| vec![1; count], <[i64]>::to_vec)
}

fn nearest(node: &Node, coordinates: &str) -> Result<&'static str> {
    match (coordinates, text(node, "nearest_mode", "round_prefer_floor")?) {
        ("asymmetric", "floor") => Ok("nearest"),
        ("half_pixel", "round_prefer_floor" | "round_prefer_ceil" | "floor") => Ok("nearest-exact"),
        _ => Err(refuse(node, "resizes images in a way that PyTorch's interpolate does not")),
    }
}
