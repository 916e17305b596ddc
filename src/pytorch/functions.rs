//! Operators without weights as expressions.

use super::attributes::{float, int, ints, text};
use super::layers::{list, tuple};
use super::names::{number, string};
use super::program::{Piece, Statement, ValueId, pieces};
use super::shapes::at_axis;
use super::translate::{Translator, refuse};
use super::views::View;
use ckpt_api::{Attribute, Error, Node, Op, Result};

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
            | Op::Mod => self.binary(node),
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
            (Some(axes), Some(rank)) => axes.iter().map(|axis| at_axis(*axis, rank)).collect(),
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
            let axis = at_axis(*axis, rank)
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

/// The expression of a function of one value, and the module that does the same.
fn unary(node: &Node) -> Result<Option<(String, Option<String>)>> {
    let alpha = |default: f64| float(node, "alpha", default).map(number);
    let with = |expression: &str, module: &str| Some((expression.to_owned(), Some(module.to_owned())));
    let only = |expression: &str| Some((expression.to_owned(), None));
    Ok(match &node.op {
        Op::Identity => only("{}"),
        Op::Relu => with("{}.relu()", "nn.ReLU()"),
        Op::LeakyRelu => {
            let slope = alpha(0.01)?;
            with(&format!("F.leaky_relu({{}}, {slope})"), &format!("nn.LeakyReLU({slope})"))
        }
        Op::Elu => {
            let alpha = alpha(1.0)?;
            with(&format!("F.elu({{}}, {alpha})"), &format!("nn.ELU({alpha})"))
        }
        Op::Celu => {
            let alpha = alpha(1.0)?;
            with(&format!("F.celu({{}}, {alpha})"), &format!("nn.CELU({alpha})"))
        }
        Op::Selu => with("F.selu({})", "nn.SELU()"),
        Op::Gelu => match text(node, "approximate", "none")? {
            "none" => with("F.gelu({})", "nn.GELU()"),
            _ => with("F.gelu({}, approximate=\"tanh\")", "nn.GELU(\"tanh\")"),
        },
        Op::Softplus => with("F.softplus({})", "nn.Softplus()"),
        Op::Softsign => with("F.softsign({})", "nn.Softsign()"),
        Op::Sigmoid => with("{}.sigmoid()", "nn.Sigmoid()"),
        Op::HardSigmoid => {
            let (alpha, beta) = (alpha(0.2)?, number(float(node, "beta", 0.5)?));
            only(&format!("({alpha} * {{}} + {beta}).clamp(0, 1)"))
        }
        Op::HardSwish => with("F.hardswish({})", "nn.Hardswish()"),
        Op::Swish => match alpha(1.0)?.as_str() {
            "1.0" => with("F.silu({})", "nn.SiLU()"),
            alpha => only(&format!("{{}} * ({alpha} * {{}}).sigmoid()")),
        },
        Op::Mish => with("F.mish({})", "nn.Mish()"),
        Op::Tanh => with("{}.tanh()", "nn.Tanh()"),
        Op::ThresholdedRelu => {
            let alpha = alpha(1.0)?;
            with(&format!("F.threshold({{}}, {alpha}, 0.0)"), &format!("nn.Threshold({alpha}, 0.0)"))
        }
        Op::Clip => {
            let (min, max) = (float(node, "min", f64::NEG_INFINITY)?, float(node, "max", f64::INFINITY)?);
            match (min, max) {
                (0.0, 6.0) => with("F.relu6({})", "nn.ReLU6()"),
                _ => only(&format!("{{}}.clamp({}, {})", number(min), number(max))),
            }
        }
        Op::Cast => match text(node, "to", "float")? {
            "float" => only("{}.float()"),
            "int" => only("{}.long()"),
            "bool" => only("{}.bool()"),
            "float16" => only("{}.half().float()"),
            _ => only("{}.bfloat16().float()"),
        },
        Op::Not => only("~{}.bool()"),
        Op::Reciprocal => only("1.0 / {}"),
        Op::Neg => only("-{}"),
        Op::Floor
        | Op::Ceil
        | Op::Round
        | Op::Sign
        | Op::Abs
        | Op::Sqrt
        | Op::Exp
        | Op::Log
        | Op::Sin
        | Op::Cos
        | Op::Tan
        | Op::Asin
        | Op::Acos
        | Op::Atan
        | Op::Sinh
        | Op::Cosh
        | Op::Asinh
        | Op::Acosh
        | Op::Atanh
        | Op::Erf => only(&format!("{{}}.{}()", node.op.name().to_ascii_lowercase())),
        _ => None,
    })
}

/// The expression of a function of two values, or of more for the greatest and the least.
fn infix(node: &Node, operands: &[Piece]) -> Result<Vec<Piece>> {
    let (open, between, close) = match node.op {
        Op::Add => ("", " + ", ""),
        Op::Sub => ("", " - ", ""),
        Op::Mul => ("", " * ", ""),
        Op::Div => ("", " / ", ""),
        Op::Pow => ("", " ** ", ""),
        Op::Mod => ("", " % ", ""),
        Op::Equal => ("(", " == ", ").float()"),
        Op::Less => ("(", " < ", ").float()"),
        Op::LessOrEqual => ("(", " <= ", ").float()"),
        Op::Greater => ("(", " > ", ").float()"),
        Op::GreaterOrEqual => ("(", " >= ", ").float()"),
        Op::And => ("torch.logical_and(", ", ", ").float()"),
        Op::Or => ("torch.logical_or(", ", ", ").float()"),
        Op::Xor => ("torch.logical_xor(", ", ", ").float()"),
        Op::Max => return extreme(node, operands, "max"),
        Op::Min => return extreme(node, operands, "min"),
        _ => return Err(refuse(node, "has no form in the generated code")),
    };
    if operands.len() != 2 {
        return Err(refuse(node, "does not take two values"));
    }
    let mut written = vec![Piece::Text(open.to_owned())];
    for (number, operand) in operands.iter().enumerate() {
        written.extend((number > 0).then(|| Piece::Text(between.to_owned())));
        written.push(operand.clone());
    }
    written.push(Piece::Text(close.to_owned()));
    Ok(written)
}

fn extreme(node: &Node, operands: &[Piece], name: &str) -> Result<Vec<Piece>> {
    let is_number = |piece: &&Piece| matches!(piece, Piece::Text(_));
    let numbers: Vec<&Piece> = operands.iter().filter(is_number).collect();
    let others: Vec<&Piece> = operands.iter().filter(|piece| !is_number(piece)).collect();
    let text = |text: &str| Piece::Text(text.to_owned());
    match (&others[..], &numbers[..]) {
        ([value], [bound]) => {
            let side = if name == "max" { "min" } else { "max" };
            Ok(vec![(*value).clone(), text(&format!(".clamp({side}=")), (*bound).clone(), text(")")])
        }
        ([a, b], []) => {
            Ok(vec![text(&format!("torch.{name}imum(")), (*a).clone(), text(", "), (*b).clone(), text(")")])
        }
        _ => Err(refuse(node, "does not take two values")),
    }
}

/// The numbers of a Constant as a tensor.
pub(super) fn numbers(node: &Node) -> Result<String> {
    let listed = match (node.attributes.get("value_floats"), node.attributes.get("value_ints")) {
        (Some(Attribute::Floats(values)), _) => values.iter().map(|value| number(*value)).collect(),
        (_, Some(Attribute::Ints(values))) => values.iter().map(i64::to_string).collect(),
        _ => match (node.attributes.get("value_float"), node.attributes.get("value_int")) {
            (Some(Attribute::Float(value)), _) => return Ok(format!("torch.tensor({})", number(*value))),
            (_, Some(Attribute::Int(value))) => return Ok(format!("torch.tensor({value})")),
            _ => return Err(refuse(node, "has a value that is not supported")),
        },
    };
    let listed: Vec<String> = listed;
    // What a person would not write, and no reader would read.
    const MOST: usize = 4096;
    if listed.len() > MOST {
        return Err(Error::unsupported("a constant of the graph is too large for the generated code")
            .field(format!("layer '{}'", node.name))
            .found(format!("{} numbers", listed.len()))
            .expected(format!("at most {MOST}")));
    }
    let shape = match ints(node, "shape")? {
        Some(shape) => format!(".reshape({})", list(shape)),
        None => String::new(),
    };
    Ok(format!("torch.tensor([{}]){shape}", listed.join(", ")))
}
