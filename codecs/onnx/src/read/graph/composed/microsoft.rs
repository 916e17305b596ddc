//! Operators of onnxruntime, `com.microsoft`, that its optimizer, its quantizer and its exporters write.

use super::super::values::{Attributes, Read};
use super::attention::Attending;
use super::parts::{Parts, range};
use ckpt_api::{Attribute, Op};
use ckpt_graph::Length;

impl<'a> Parts<'_, 'a> {
    fn flag(&self, name: &str) -> bool {
        self.node.int(name).unwrap_or(0) != 0
    }

    fn real(&self, name: &str, default: f32) -> f64 {
        self.node.float(name).unwrap_or(default).into()
    }

    /// A value with its last two axes exchanged.
    fn turned(&mut self, x: &str) -> Read<String> {
        let rank = self.rank(x)?;
        let last = rank.checked_sub(2).ok_or("takes no matrix")?;
        let order: Vec<usize> = (0..last).chain([last + 1, last]).collect();
        Ok(self.transpose(x, &order))
    }

    /// Products of matrices, which may be turned before and scaled afterwards.
    pub(super) fn fused_product(&mut self) -> Read<()> {
        if self.flag("transBatchA") || self.flag("transBatchB") {
            return Err("turns the axes before matrices".to_owned());
        }
        let (mut a, mut b) = (self.input(0)?, self.input(1)?);
        if self.flag("transA") {
            a = self.turned(&a)?;
        }
        if self.flag("transB") {
            b = self.turned(&b)?;
        }
        let mut value = self.apply(Op::MatMul, &[&a, &b]);
        let alpha = self.real("alpha", 1.0);
        if alpha != 1.0 {
            let alpha = self.number(alpha);
            value = self.mul(&value, &alpha);
        }
        self.finish(0, &value);
        Ok(())
    }

    /// GELU of a value and perhaps a bias.
    pub(super) fn biased_gelu(&mut self, approximate: &str) -> Read<()> {
        let mut x = self.input(0)?;
        if let Some(bias) = self.optional(1)? {
            x = self.add(&x, &bias);
        }
        let approximate = Attribute::Text(approximate.to_owned());
        let value = self.with(Op::Gelu, &[&x], Attributes::new().with("approximate", approximate));
        self.finish(0, &value);
        Ok(())
    }

    /// `x·sigmoid(alpha·x)`.
    pub(super) fn quick_gelu(&mut self) -> Read<()> {
        let x = self.input(0)?;
        let alpha = Attribute::Float(self.real("alpha", 1.702));
        let value = self.with(Op::Swish, &[&x], Attributes::new().with("alpha", alpha));
        self.finish(0, &value);
        Ok(())
    }

    /// A sum that is normalized: x, what is added, scale, and with `has_bias` a bias; then a bias of the sum.
    pub(super) fn normalize_sum(&mut self, has_bias: bool) -> Read<()> {
        self.makes_no(&[1, 2])?;
        let (x, skip) = (self.input(0)?, self.input(1)?);
        let mut sum = self.add(&x, &skip);
        if let Some(bias) = self.optional(if has_bias { 4 } else { 3 })? {
            sum = self.add(&sum, &bias);
        }
        let bias = if has_bias { self.optional(3)? } else { None };
        let scale = self.input(2)?;
        let value = self.normalized(&sum, &scale, bias, has_bias);
        self.finish(0, &value);
        self.finish(3, &sum);
        Ok(())
    }

    /// The last axis by its mean and variance, or by its size alone.
    fn normalized(&mut self, x: &str, scale: &str, bias: Option<String>, centers: bool) -> String {
        let centered = if centers {
            let mean = self.reduce(Op::ReduceMean, x, &[-1], true);
            self.sub(x, &mean)
        } else {
            x.to_owned()
        };
        let squares = self.mul(&centered, &centered);
        let variance = self.reduce(Op::ReduceMean, &squares, &[-1], true);
        let epsilon = self.number(self.real("epsilon", 1e-12));
        let raised = self.add(&variance, &epsilon);
        let root = self.apply(Op::Sqrt, &[&raised]);
        let unit = self.div(&centered, &root);
        let value = self.mul(&unit, scale);
        match bias {
            Some(bias) => self.add(&value, &bias),
            None => value,
        }
    }

    /// Embeddings of words, places and segments, added up and normalized.
    pub(super) fn embed(&mut self) -> Read<()> {
        let words = self.input(0)?;
        let table = self.input(2)?;
        let mut sum = self.gather(&table, &words, 0);
        let table = self.input(3)?;
        let places = match self.optional(8)? {
            Some(places) => self.gather(&table, &places, 0),
            None => {
                let len = self.len(&words, 1)?;
                self.slice(&table, 0, 0, len)
            }
        };
        sum = self.add(&sum, &places);
        if let (Some(segments), Some(table)) = (self.optional(1)?, self.optional(4)?) {
            let segments = self.gather(&table, &segments, 0);
            sum = self.add(&sum, &segments);
        }
        let (scale, bias) = (self.input(5)?, self.input(6)?);
        let value = self.normalized(&sum, &scale, Some(bias), true);
        self.finish(0, &value);
        if self.has_output(1) {
            let count = match self.optional(7)? {
                Some(mask) => self.reduce(Op::ReduceSum, &mask, &[1], false),
                None => {
                    let nothing = self.integer(0);
                    let zeros = self.mul(&words, &nothing);
                    self.reduce(Op::ReduceSum, &zeros, &[1], false)
                }
            };
            self.finish(1, &count);
        }
        self.finish(2, &sum);
        Ok(())
    }

    /// Which keys an example has, as what is added to products: a truth value for each, or how many there are.
    fn padding_bias(&mut self, at: usize, batch: Length, keys: i64) -> Read<Option<String>> {
        let Some(mask) = self.optional(at)? else { return Ok(None) };
        let (nothing, hidden) = (self.number(0.0), self.number(self.real("mask_filter_value", -10000.0)));
        let seen = match self.rank(&mask)? {
            1 if self.dims(&mask)?.first().is_some_and(|len| len.is(batch)) => {
                let (counts, key) = (self.reshape(&mask, &[-1, 1, 1, 1]), self.count(keys, 3, 4)?);
                self.apply(Op::Less, &[&key, &counts])
            }
            2 => {
                let seen = self.cast(&mask, "bool");
                self.unsqueeze(&seen, &[1, 2])
            }
            3 => {
                let seen = self.cast(&mask, "bool");
                self.unsqueeze(&seen, &[1])
            }
            1 => return Err("has a mask of other numbers than the lengths of examples".to_owned()),
            rank => return Err(format!("has a mask of {rank} axes")),
        };
        Ok(Some(self.choose(&seen, &nothing, &hidden)))
    }

    /// What hides the keys behind a query, of which `before` are in front of the first.
    fn order_bias(&mut self, q: &str, k: &str, before: i64) -> Read<String> {
        let (rows, keys) = (self.len(q, 2)?, self.len(k, 2)?);
        let own = self.integers(range(before, rows)?.collect(), &[rows, 1]);
        let key = self.count(keys, 1, 2)?;
        let seen = self.apply(Op::LessOrEqual, &[&key, &own]);
        let (nothing, hidden) = (self.number(0.0), self.number(f64::from(f32::MIN)));
        Ok(self.choose(&seen, &nothing, &hidden))
    }

    /// Attention whose queries, keys and values are one product: x, weight, bias, mask, past, bias of products.
    pub(super) fn packed_attention(&mut self) -> Read<()> {
        if self.flag("do_rotary") || self.flag("past_present_share_buffer") || self.given(6).is_some() {
            return Err("turns its queries, or shares the buffers of its keys".to_owned());
        }
        let heads = self.node.int("num_heads").ok_or("lacks its num_heads")?;
        let (x, weight) = (self.input(0)?, self.input(1)?);
        let mut all = self.apply(Op::MatMul, &[&x, &weight]);
        if let Some(bias) = self.optional(2)? {
            all = self.add(&all, &bias);
        }
        let width = self.len(&all, 2)?;
        let sizes = match self.node.ints("qkv_hidden_sizes") {
            Some([q, k, v]) => [*q, *k, *v],
            Some(_) => return Err("has other qkv_hidden_sizes than three".to_owned()),
            None => [width / 3; 3],
        };
        let mut first = 0_i64;
        let mut parts = sizes.map(|size| {
            let end = first.saturating_add(size);
            let part = self.slice(&all, 2, first, end);
            first = end;
            self.split_heads(&part, heads)
        });
        let mut before = 0;
        if let Some(past) = self.optional(4)? {
            before = self.len(&past, 3)?;
            for (at, part) in parts.iter_mut().enumerate().skip(1) {
                let which = self.integer(at as i64 - 1);
                let own = self.gather(&past, &which, 0);
                *part = self.concat(&[&own, part], 2);
            }
        }
        let [q, k, v] = &parts;
        let value = self.masked([q, k, v], 3, before)?;
        self.finish(0, &value);
        if self.has_output(1) {
            let (keys, values) = (self.unsqueeze(k, &[0]), self.unsqueeze(v, &[0]));
            let present = self.concat(&[&keys, &values], 0);
            self.finish(1, &present);
        }
        Ok(())
    }

    /// The values that heads attend to, of queries of which `before` keys are in front of the first: the input at `mask` hides keys,
    /// `unidirectional` those behind a query, and the input 5 is added to the products.
    fn masked(&mut self, [q, k, v]: [&str; 3], mask: usize, before: i64) -> Read<String> {
        let keys = self.len(k, 2)?;
        let batch = self.dims(q)?.first().copied().unwrap_or(Length::Unknown);
        let mut bias = self.padding_bias(mask, batch, keys)?;
        if self.flag("unidirectional") {
            let order = self.order_bias(q, k, before)?;
            bias = self.both(bias, Some(order));
        }
        let own = self.optional(5)?;
        let bias = self.both(bias, own);
        self.attended([q, k, v], bias)
    }

    /// The values that heads attend to, side by side.
    fn attended(&mut self, parts: [&str; 3], bias: Option<String>) -> Read<String> {
        let scale = self.node.float("scale").filter(|scale| *scale != 0.0).map(f64::from);
        let cap = self.real("softcap", 0.0);
        let scores = self.attend(parts, &Attending { scale, cap, bias })?;
        self.join_heads(&scores.values)
    }

    /// Attention of queries, keys and values: these, their bias, a mask, a bias of products, and past keys and values.
    pub(super) fn head_attention(&mut self) -> Read<()> {
        if (8..10).any(|at| self.given(at).is_some()) || self.has_output(3) {
            return Err("shares the buffers of its keys, or has products as an output".to_owned());
        }
        let heads = self.node.int("num_heads").ok_or("lacks its num_heads")?;
        let mut parts = Vec::with_capacity(3);
        let mut first = 0;
        for at in 0..3 {
            let part = self.input(at).map_err(|_| "has queries, keys and values in one tensor".to_owned())?;
            parts.push(match self.rank(&part)? {
                3 => {
                    let width = self.len(&part, 2)?;
                    let biased = match self.optional(3)? {
                        Some(bias) => {
                            let own = self.slice(&bias, 0, first, first.saturating_add(width));
                            self.add(&part, &own)
                        }
                        None => part,
                    };
                    first = first.saturating_add(width);
                    self.split_heads(&biased, heads)
                }
                4 if self.given(3).is_none() => part,
                rank => return Err(format!("has a part of {rank} axes")),
            });
        }
        let mut before = 0;
        for (at, part) in [(6, 1), (7, 2)] {
            if let Some(past) = self.optional(at)? {
                before = self.len(&past, 2)?;
                parts[part] = self.concat(&[&past, &parts[part].clone()], 2);
            }
        }
        let [q, k, v] = [&parts[0], &parts[1], &parts[2]];
        let value = self.masked([q, k, v], 4, before)?;
        self.finish(0, &value);
        self.finish(1, k);
        self.finish(2, v);
        Ok(())
    }

    /// Attention of groups of heads, in order: queries, keys, values, past keys and values, the last place of each
    /// example, how many places there are, cosines and sines.
    pub(super) fn group_attention(&mut self) -> Read<()> {
        self.makes_no(&[3])?;
        if (9..14).any(|at| self.given(at).is_some()) || self.flag("smooth_softmax") {
            return Err("has places, biases or sinks of its own".to_owned());
        }
        let heads = |name: &str| self.node.int(name).ok_or_else(|| format!("lacks its {name}"));
        let (queries, groups) = (heads("num_heads")?, heads("kv_num_heads")?);
        let x = self.input(0)?;
        let mut parts = match (self.optional(1)?, self.optional(2)?) {
            (Some(k), Some(v)) => [x, k, v],
            _ => {
                let both = queries.saturating_add(groups);
                let all = both.saturating_add(groups);
                let size = self.len(&x, 2)? / all.max(1);
                let ends = [queries, both, all].map(|heads| heads.saturating_mul(size));
                let mut first = 0;
                ends.map(|end| {
                    let part = self.slice(&x, 2, first, end);
                    first = end;
                    part
                })
            }
        };
        for (part, heads) in parts.iter_mut().zip([queries, groups, groups]) {
            *part = self.split_heads(part, heads);
        }
        let rows = self.len(&parts[0], 2)?;
        let row = self.count(rows, 1, 2)?;
        let has_past = match self.optional(3)? {
            Some(past) => self.len(&past, 2)? > 0,
            None => false,
        };
        // A prompt begins at 0: shorter examples are padded behind their end.
        let places = if has_past {
            let (last, behind) = (self.input(5)?, self.integer(rows.saturating_sub(1)));
            let first = self.sub(&last, &behind);
            let first = self.reshape(&first, &[-1, 1]);
            self.add(&first, &row)
        } else {
            row
        };
        if self.flag("do_rotary") {
            let (cosines, sines) = (self.input(7)?, self.input(8)?);
            let (cosines, sines) = (self.gather(&cosines, &places, 0), self.gather(&sines, &places, 0));
            let (cosines, sines) = (self.unsqueeze(&cosines, &[1]), self.unsqueeze(&sines, &[1]));
            let count = self.len(&cosines, 3)?.saturating_mul(2);
            let how = (self.flag("rotary_interleaved"), Some(count));
            for part in parts.iter_mut().take(2) {
                *part = self.rotated(part, &cosines, &sines, how)?;
            }
        }
        let column = self.unsqueeze(&places, &[1, 3]);
        for (at, part) in [(3, 1), (4, 2)] {
            if let Some(past) = self.optional(at)? {
                parts[part] = self.appended(&past, &parts[part].clone(), &column)?;
            }
        }
        let [q, k, v] = &parts;
        let keys = self.len(k, 2)?;
        let key = self.count(keys, 3, 4)?;
        let mut seen = self.apply(Op::LessOrEqual, &[&key, &column]);
        let window = self.node.int("local_window_size").unwrap_or(-1);
        if window > 0 {
            let (distance, most) = (self.sub(&column, &key), self.integer(window));
            let is_near = self.apply(Op::Less, &[&distance, &most]);
            seen = self.apply(Op::And, &[&seen, &is_near]);
        }
        let bias = self.hiding(&seen);
        let value = self.attended([q, k, v], Some(bias))?;
        self.finish(0, &value);
        self.finish(1, k);
        self.finish(2, v);
        Ok(())
    }

    /// Keys or values behind past ones: each at its place, `[batch, 1, length, 1]`.
    fn appended(&mut self, past: &str, own: &str, places: &str) -> Read<String> {
        let (before, lens) = (self.len(past, 2)?, self.lens(own)?);
        if before == 0 {
            return Ok(own.to_owned());
        }
        let [_, _, rows, _] = lens[..] else { return Err("has keys of another rank".to_owned()) };
        let mode = Attribute::Text("constant".to_owned());
        let pads = vec![0, 0, 0, 0, 0, 0, rows, 0];
        let room = self.with(Op::Pad, &[past], Attributes::new().ints("pads", pads).with("mode", mode));
        let places = self.expand(places, &lens);
        let value = self.with(Op::ScatterElements, &[&room, &places, own], Attributes::new().int("axis", 2));
        let dims = self.dims(&room)?;
        self.reader.set_shape(&value, Some(dims));
        Ok(value)
    }

    /// Pairs of features, turned by the angle of their place: x, places, cosines, sines.
    pub(super) fn rotate_by_place(&mut self) -> Read<()> {
        if self.flag("is_packed_batching") {
            return Err("has examples of different lengths in one".to_owned());
        }
        let (x, places) = (self.input(0)?, self.input(1)?);
        let (cosines, sines) = (self.input(2)?, self.input(3)?);
        let is_flat = self.rank(&x)? == 3;
        let size = match self.node.int("num_heads").unwrap_or(0) {
            0 => self.len(&cosines, 1)?.saturating_mul(2),
            heads if is_flat => self.len(&x, 2)?.checked_div(heads).ok_or("lacks its num_heads")?,
            _ => self.len(&x, 3)?,
        };
        let images = if is_flat {
            let heads = self.len(&x, 2)?.checked_div(size).ok_or("has heads without features")?;
            self.split_heads(&x, heads)
        } else {
            x
        };
        let places = match self.rank(&places)? {
            1 => {
                // The place of the first.
                let rows = self.len(&images, 2)?;
                let row = self.count(rows, 1, 2)?;
                self.add(&places, &row)
            }
            _ => places,
        };
        let (cosines, sines) = (self.gather(&cosines, &places, 0), self.gather(&sines, &places, 0));
        let (cosines, sines) = (self.unsqueeze(&cosines, &[1]), self.unsqueeze(&sines, &[1]));
        let count = self.node.int("rotary_embedding_dim").filter(|count| *count != 0);
        let turned = self.rotated(&images, &cosines, &sines, (self.flag("interleaved"), count))?;
        let value = if is_flat { self.join_heads(&turned)? } else { turned };
        self.finish(0, &value);
        Ok(())
    }

    /// A convolution or a product, what is added to it, and an activation.
    pub(super) fn activated(&mut self, addend: Option<usize>) -> Read<()> {
        if self.node.op == "FusedConv" {
            self.reader.conv(self.node)?;
        } else {
            self.reader.gemm(self.node)?;
        }
        let mut value = self.reader.detached(self.node)?;
        if let Some(addend) = addend.filter(|at| self.given(*at).is_some()) {
            let addend = self.input(addend)?;
            value = self.add(&value, &addend);
        }
        let parameters: Vec<f64> = match self.node.floats("activation_params") {
            Some(values) => values.iter().copied().map(f64::from).collect(),
            None => ["activation_alpha", "activation_beta"]
                .iter()
                .filter_map(|name| self.node.float(name))
                .map(f64::from)
                .collect(),
        };
        let at = |place: usize, default: f64| parameters.get(place).copied().unwrap_or(default);
        value = match self.node.text("activation").unwrap_or_default() {
            "" => value,
            op @ ("Relu" | "Sigmoid" | "Tanh" | "Softplus" | "Softsign") => {
                self.apply(Op::from(op), &[&value])
            }
            "LeakyRelu" => {
                let alpha = Attribute::Float(at(0, f64::from(0.01_f32)));
                self.with(Op::LeakyRelu, &[&value], Attributes::new().with("alpha", alpha))
            }
            "Clip" => self.clip(&value, at(0, f64::from(f32::MIN)), at(1, f64::from(f32::MAX))),
            "HardSigmoid" => {
                let (alpha, beta) =
                    (Attribute::Float(at(0, f64::from(0.2_f32))), Attribute::Float(at(1, 0.5)));
                let attributes = Attributes::new().with("alpha", alpha).with("beta", beta);
                self.with(Op::HardSigmoid, &[&value], attributes)
            }
            other => {
                return Err(format!("has the activation '{}', which is not supported", other.escape_debug()));
            }
        };
        self.finish(0, &value);
        Ok(())
    }
}
