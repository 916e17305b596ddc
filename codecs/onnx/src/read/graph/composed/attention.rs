//! Attention, and what goes with it.

use super::super::values::{Attributes, Read};
use super::parts::{Parts, range};
use crate::format::dtype;
use ckpt_api::{DType, Op};

/// Products of queries and keys, and what becomes of them.
pub(super) struct Scores {
    /// Products.
    pub(super) products: String,
    /// Products within the cap.
    pub(super) capped: String,
    /// With the bias.
    pub(super) biased: String,
    /// Shares of the values.
    pub(super) shares: String,
    /// Sums of the values.
    pub(super) values: String,
}

/// What attention states beside its values.
#[derive(Default)]
pub(super) struct Attending {
    /// The factor of products, the reciprocal of the root of the head's size unless given.
    pub(super) scale: Option<f64>,
    /// The greatest size of a product; 0 for none.
    pub(super) cap: f64,
    /// What is added to the products, which broadcasts to them; −∞ hides a key.
    pub(super) bias: Option<String>,
}

impl Parts<'_, '_> {
    /// `[batch, length, heads·size]` as `[batch, heads, length, size]`.
    pub(super) fn split_heads(&mut self, x: &str, heads: i64) -> String {
        let split = self.reshape(x, &[0, 0, heads, -1]);
        self.transpose(&split, &[0, 2, 1, 3])
    }

    /// `[batch, heads, length, size]` as `[batch, length, heads·size]`.
    pub(super) fn join_heads(&mut self, x: &str) -> Read<String> {
        let width = self.len(x, 1)?.saturating_mul(self.len(x, 3)?);
        let turned = self.transpose(x, &[0, 2, 1, 3]);
        Ok(self.reshape(&turned, &[0, 0, width]))
    }

    /// Each head as often as there are heads of queries for it, one after the other.
    pub(super) fn repeat_heads(&mut self, x: &str, queries: i64) -> Read<String> {
        let own = self.len(x, 1)?;
        if own == queries || own <= 0 || queries % own != 0 {
            return Ok(x.to_owned());
        }
        let heads = range(0, queries)?.map(|head| head / (queries / own)).collect();
        let places = self.integers(heads, &[queries]);
        Ok(self.gather(x, &places, 1))
    }

    /// Attention of queries, keys and values of `[batch, heads, length, size]`.
    pub(super) fn attend(&mut self, [q, k, v]: [&str; 3], attending: &Attending) -> Read<Scores> {
        let size = self.len(q, 3)? as f64;
        if self.rank(q)? != 4 {
            return Err("takes queries of another rank".to_owned());
        }
        let queries = self.len(q, 1)?;
        let (k, v) = (self.repeat_heads(k, queries)?, self.repeat_heads(v, queries)?);
        let scale = attending.scale.unwrap_or(1.0 / size.sqrt()).sqrt();
        let factor = self.number(scale);
        let (q, k) = (self.mul(q, &factor), self.mul(&k, &factor));
        let turned = self.transpose(&k, &[0, 1, 3, 2]);
        let products = self.apply(Op::MatMul, &[&q, &turned]);
        let capped = self.capped(&products, attending.cap);
        let (biased, mut shares);
        match &attending.bias {
            Some(bias) => {
                biased = self.add(&capped, bias);
                shares = self.softmax(&biased, -1);
                shares = self.without_hidden_rows(&shares, bias);
            }
            None => {
                biased = capped.clone();
                shares = self.softmax(&biased, -1);
            }
        }
        let values = self.apply(Op::MatMul, &[&shares, &v]);
        Ok(Scores { products, capped, biased, shares, values })
    }

    fn capped(&mut self, products: &str, cap: f64) -> String {
        if cap <= 0.0 {
            return products.to_owned();
        }
        let cap = self.number(cap);
        let ratio = self.div(products, &cap);
        let bent = self.apply(Op::Tanh, &[&ratio]);
        self.mul(&bent, &cap)
    }

    /// A query without a key that it sees has no shares.
    fn without_hidden_rows(&mut self, shares: &str, bias: &str) -> String {
        let (nothing, hidden) = (self.number(0.0), self.number(f64::NEG_INFINITY));
        let most = self.reduce(Op::ReduceMax, bias, &[-1], true);
        let is_hidden = self.apply(Op::Equal, &[&most, &hidden]);
        self.choose(&is_hidden, &nothing, shares)
    }

    /// Truth values as what is added to products: 0, or −∞.
    pub(super) fn hiding(&mut self, is_seen: &str) -> String {
        let (nothing, hidden) = (self.number(0.0), self.number(f64::NEG_INFINITY));
        self.choose(is_seen, &nothing, &hidden)
    }

    /// The sum of two biases, of which either may be absent.
    pub(super) fn both(&mut self, a: Option<String>, b: Option<String>) -> Option<String> {
        match (a, b) {
            (Some(a), Some(b)) => Some(self.add(&a, &b)),
            (a, b) => a.or(b),
        }
    }

    /// ONNX's attention: q, k, v, mask, past keys and values, and how many keys of each example there are.
    pub(super) fn attention(&mut self) -> Read<()> {
        let precision = self.node.int("softmax_precision").and_then(dtype);
        if precision
            .is_some_and(|precision| !matches!(precision, DType::F32 | DType::F64 | DType::F16 | DType::Bf16))
        {
            return Err("computes its softmax in numbers that are not supported".to_owned());
        }
        let mut q = self.input(0)?;
        let (mut k, mut v) = (self.input(1)?, self.input(2)?);
        let is_flat = self.rank(&q)? == 3;
        if is_flat {
            let heads = |name: &str| self.node.int(name).ok_or_else(|| format!("lacks its {name}"));
            let (queries, keys) = (heads("q_num_heads")?, heads("kv_num_heads")?);
            q = self.split_heads(&q, queries);
            (k, v) = (self.split_heads(&k, keys), self.split_heads(&v, keys));
        }
        let mut before = 0;
        if let (Some(keys), Some(values)) = (self.optional(4)?, self.optional(5)?) {
            before = self.len(&keys, 2)?;
            (k, v) = (self.concat(&[&keys, &k], 2), self.concat(&[&values, &v], 2));
        }
        let bias = self.attention_bias(&q, &k, before)?;
        let cap = f64::from(self.node.float("softcap").unwrap_or(0.0));
        let attending = Attending { scale: self.node.float("scale").map(f64::from), cap, bias };
        let scores = self.attend([&q, &k, &v], &attending)?;
        let output = if is_flat { self.join_heads(&scores.values)? } else { scores.values.clone() };
        self.finish(0, &output);
        self.finish(1, &k);
        self.finish(2, &v);
        let shown = match self.node.int("qk_matmul_output_mode").unwrap_or(0) {
            0 if self.reader.opset >= 24 || cap <= 0.0 => &scores.products,
            0 | 1 => &scores.capped,
            2 => &scores.biased,
            _ => &scores.shares,
        };
        self.finish(3, shown);
        Ok(())
    }

    /// The sum of what hides keys: the mask, the order of places, windows, and the ends of shorter examples.
    fn attention_bias(&mut self, q: &str, k: &str, before: i64) -> Read<Option<String>> {
        let bounds = ["left_window_size", "right_window_size"].map(|name| self.node.int(name).unwrap_or(-1));
        let is_causal = self.node.int("is_causal").unwrap_or(0) != 0;
        let mut bias = None;
        if self.given(3).is_some() {
            bias = Some(self.mask_bias(k)?);
        }
        let counts = self.optional(6)?;
        if is_causal || bounds.iter().any(|bound| *bound >= 0) {
            let (rows, keys) = (self.len(q, 2)?, self.len(k, 2)?);
            // The place of a query among the keys.
            let own = self.integers(range(before, rows)?.collect(), &[rows, 1]);
            let own = match &counts {
                Some(counts) => {
                    let counts = self.reshape(counts, &[-1, 1, 1, 1]);
                    let rows = self.integer(rows);
                    let first = self.sub(&counts, &rows);
                    self.add(&first, &own)
                }
                None => own,
            };
            let key = self.count(keys, 1, 2)?;
            let mut seen = Vec::new();
            if is_causal {
                seen.push(self.apply(Op::LessOrEqual, &[&key, &own]));
            }
            let distance = self.sub(&own, &key);
            for (bound, sign) in bounds.into_iter().zip([1, -1]).filter(|(bound, _)| *bound >= 0) {
                let (most, factor) = (self.integer(bound), self.integer(sign));
                let signed = self.mul(&distance, &factor);
                seen.push(self.apply(Op::LessOrEqual, &[&signed, &most]));
            }
            for seen in seen {
                let hiding = self.hiding(&seen);
                bias = self.both(bias, Some(hiding));
            }
        }
        if let Some(counts) = counts {
            let keys = self.len(k, 2)?;
            let (key, counts) = (self.count(keys, 3, 4)?, self.reshape(&counts, &[-1, 1, 1, 1]));
            let seen = self.apply(Op::Less, &[&key, &counts]);
            let hiding = self.hiding(&seen);
            bias = self.both(bias, Some(hiding));
        }
        Ok(bias)
    }

    /// The mask as a bias; keys behind its end are hidden.
    fn mask_bias(&mut self, k: &str) -> Read<String> {
        let mut mask = self.input(3)?;
        if self.dtype(3) == Some(DType::Bool) {
            mask = self.hiding(&mask);
        }
        let rank = self.rank(&mask)?;
        let last = rank.checked_sub(1).ok_or("has a mask without axes")?;
        let lens = (
            self.dims(k)?.get(2).and_then(|len| len.known()),
            self.dims(&mask)?.get(last).and_then(|len| len.known()),
        );
        let (Some(keys), Some(own)) = lens else { return Ok(mask) };
        if own >= keys || (own == 1 && keys != 1 && self.reader.opset < 24) {
            return Ok(mask);
        }
        let mut pads = vec![0; rank * 2];
        if let Some(end) = pads.last_mut() {
            *end = keys - own;
        }
        let text = |text: &str| ckpt_api::Attribute::Text(text.to_owned());
        let attributes = Attributes::new().ints("pads", pads).with("mode", text("constant"));
        let attributes = attributes.with("value", ckpt_api::Attribute::Float(f64::NEG_INFINITY));
        Ok(self.with(Op::Pad, &[&mask], attributes))
    }

    /// Pairs of features, turned by the angle of their place: x, cosines, sines, and perhaps places.
    pub(super) fn rotate(&mut self) -> Read<()> {
        let x = self.input(0)?;
        let (mut cosines, mut sines) = (self.input(1)?, self.input(2)?);
        if let Some(places) = self.optional(3)? {
            (cosines, sines) = (self.gather(&cosines, &places, 0), self.gather(&sines, &places, 0));
        }
        let is_flat = self.rank(&x)? == 3;
        let images = if is_flat {
            let heads = self.node.int("num_heads").filter(|heads| *heads > 0).ok_or("lacks its num_heads")?;
            self.split_heads(&x, heads)
        } else {
            x
        };
        // One angle for each place, the same for all heads.
        let (cosines, sines) = (self.unsqueeze(&cosines, &[1]), self.unsqueeze(&sines, &[1]));
        let interleaved = self.node.int("interleaved").unwrap_or(0) != 0;
        let count = self.node.int("rotary_embedding_dim").filter(|count| *count != 0);
        let turned = self.rotated(&images, &cosines, &sines, (interleaved, count))?;
        let output = if is_flat { self.join_heads(&turned)? } else { turned };
        self.finish(0, &output);
        Ok(())
    }

    /// The first `count` features of `[batch, heads, length, size]`, turned; all of them if there is no number.
    pub(super) fn rotated(
        &mut self,
        x: &str,
        cosines: &str,
        sines: &str,
        (interleaved, count): (bool, Option<i64>),
    ) -> Read<String> {
        let size = self.len(x, 3)?;
        let count = count.unwrap_or(size);
        if !(1..=size).contains(&count) {
            return Err(format!("turns {count} of {size} features"));
        }
        let (half, rest) = (count / 2, size - count);
        let part = if rest > 0 { self.slice(x, 3, 0, count) } else { x.to_owned() };
        let (a, b) = if interleaved {
            let pairs = self.reshape(&part, &[0, 0, 0, half, 2]);
            let (one, other) = (self.integer(0), self.integer(1));
            (self.gather(&pairs, &one, 4), self.gather(&pairs, &other, 4))
        } else {
            (self.slice(&part, 3, 0, half), self.slice(&part, 3, half, count))
        };
        let (ac, bs) = (self.mul(cosines, &a), self.mul(sines, &b));
        let (sa, cb) = (self.mul(sines, &a), self.mul(cosines, &b));
        let (real, imaginary) = (self.sub(&ac, &bs), self.add(&sa, &cb));
        let mut value = if interleaved {
            let (real, imaginary) = (self.unsqueeze(&real, &[4]), self.unsqueeze(&imaginary, &[4]));
            let pairs = self.concat(&[&real, &imaginary], 4);
            self.reshape(&pairs, &[0, 0, 0, count])
        } else {
            self.concat(&[&real, &imaginary], 3)
        };
        if rest > 0 {
            let kept = self.slice(x, 3, count, i64::MAX);
            value = self.concat(&[&value, &kept], 3);
        }
        Ok(value)
    }
}
