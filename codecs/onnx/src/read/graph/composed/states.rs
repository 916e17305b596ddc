//! Attention with a state in place of past keys and values.

use super::super::values::Read;
use super::parts::Parts;
use ckpt_api::Op;

/// The most steps: each is nodes of its own.
const MOST_STEPS: i64 = 256;

impl Parts<'_, '_> {
    /// Step by step: the state fades, takes the product of key and value, and gives its product with the query.
    pub(super) fn attend_linearly(&mut self) -> Read<()> {
        let heads = |name: &str| {
            self.node.int(name).filter(|heads| *heads > 0).ok_or_else(|| format!("lacks its {name}"))
        };
        let (queries, groups) = (heads("q_num_heads")?, heads("kv_num_heads")?);
        let rule = self.node.text("update_rule").unwrap_or("gated_delta").to_owned();
        let (fades, corrects) = (rule.starts_with("gated"), rule.ends_with("delta"));
        if !fades && !corrects && rule != "linear" {
            return Err(format!("has the unknown update_rule '{}'", rule.escape_debug()));
        }
        let (q, k, v) = (self.input(0)?, self.input(1)?, self.input(2)?);
        let (steps, batch) = (self.len(&q, 1)?, self.dims(&q)?.first().and_then(|len| len.known()));
        if steps > MOST_STEPS {
            return Err(format!("takes {steps} steps; at most {MOST_STEPS} are supported"));
        }
        let (q, k, v) =
            (self.split_heads(&q, queries), self.split_heads(&k, groups), self.split_heads(&v, groups));
        let (size, width) = (self.len(&q, 3)?, self.len(&v, 3)?);
        let decay = if fades {
            let decay = self.input(4)?;
            let decay = self.split_heads(&decay, groups);
            Some(self.apply(Op::Exp, &[&decay]))
        } else {
            None
        };
        let beta = if corrects {
            let beta = self.input(5)?;
            Some(self.transpose_last(&beta)?)
        } else {
            None
        };
        let mut state = match self.optional(3)? {
            Some(state) => state,
            None => {
                let batch = batch.ok_or("starts with a state for examples of a number that is not known")?;
                let nothing = self.number(0.0);
                self.expand(&nothing, &[batch, groups, size, width])
            }
        };
        let scale = self
            .node
            .float("scale")
            .filter(|scale| *scale != 0.0)
            .map_or(1.0 / (size as f64).sqrt(), f64::from);
        let scale = self.number(scale);
        let mut all = Vec::with_capacity(usize::try_from(steps).unwrap_or(0));
        for step in 0..steps {
            let own = |parts: &mut Self, x: &str| parts.slice(x, 2, step, step + 1);
            let (query, key, mut value) = (own(self, &q), own(self, &k), own(self, &v));
            // Keys as columns.
            let column = self.transpose(&key, &[0, 1, 3, 2]);
            if let Some(decay) = &decay {
                let factor = own(self, decay);
                let factor = self.transpose(&factor, &[0, 1, 3, 2]);
                state = self.mul(&state, &factor);
            }
            if let Some(beta) = &beta {
                let known = self.apply(Op::MatMul, &[&key, &state]);
                let rest = self.sub(&value, &known);
                let factor = own(self, beta);
                value = self.mul(&rest, &factor);
            }
            let product = self.apply(Op::MatMul, &[&column, &value]);
            state = self.add(&state, &product);
            let read = self.repeat_heads(&state, queries)?;
            let made = self.apply(Op::MatMul, &[&query, &read]);
            all.push(self.mul(&made, &scale));
        }
        let names: Vec<&str> = all.iter().map(String::as_str).collect();
        let values = self.concat(&names, 2);
        let value = self.join_heads(&values)?;
        self.finish(0, &value);
        self.finish(1, &state);
        Ok(())
    }

    /// `[batch, length, heads]` as `[batch, heads, length, 1]`.
    fn transpose_last(&mut self, x: &str) -> Read<String> {
        let turned = self.transpose(x, &[0, 2, 1]);
        Ok(self.unsqueeze(&turned, &[3]))
    }
}
