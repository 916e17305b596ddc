//! Lowers attention.

use super::arguments::{Arg, Args};
use super::lowering::{Lowering, Site};
use super::values::Val;
use crate::layer::Reason;
use ckpt_api::{Attribute, Op};
use ckpt_graph::Length;
use serde_json::Value;

/// Most elements of a causal mask.
const MAX_MASK: u64 = 1 << 22;

/// Most heads that share keys.
const MAX_HEADS: u64 = 1 << 12;

/// The least score, as Keras gives it to what a mask hides.
const HIDDEN: f64 = -1e9;

impl Lowering {
    /// Lowers `MultiHeadAttention`, and the one whose heads share keys and values in groups.
    pub(super) fn multi_head(&mut self, site: Site, args: &Args) -> Result<Vec<Val>, Reason> {
        let layer = site.layer;
        let is_grouped = layer.class != "MultiHeadAttention";
        for key in ["use_gate", "sliding_window"] {
            if layer.option(key).is_some_and(|value| *value != Value::Bool(false)) {
                return Err(format!("its option '{key}' is not supported"));
            }
        }
        let query = args.value(0, "query")?.or(args.value(0, "inputs")?).ok_or("it takes no query")?;
        let value = args.value(1, "value")?.ok_or("it takes no value")?;
        let key = args.value(2, "key")?.unwrap_or_else(|| value.clone());
        let known = ["query", "value", "key", "attention_mask", "inputs"];
        let extra =
            args.kwargs.iter().find(|(name, arg)| !known.contains(&name.as_str()) && !arg.all().is_empty());
        if let Some((name, _)) = extra {
            return Err(format!("it takes a value as its argument '{name}'"));
        }
        if [&query, &value, &key].iter().any(|val| val.rank() != 3) {
            return Err("it takes values of other than three axes".to_owned());
        }
        if layer.ints("attention_axes")?.is_some_and(|axes| axes != [1] && axes != [-2]) {
            return Err("its option 'attention_axes' is not supported".to_owned());
        }
        let mask = self.mask(args, &query, &key)?;
        let sizes = if is_grouped {
            let width = layer.size("head_dim")?;
            [layer.size("num_query_heads")?, layer.size("num_key_value_heads")?, width, width]
        } else {
            let (heads, width) = (layer.size("num_heads")?, layer.size("key_dim")?);
            let value_width = layer.option("value_dim").map_or(Ok(width), |_| layer.size("value_dim"))?;
            [heads, heads, width, value_width]
        };
        let [heads, pairs, width, value_width] = sizes;
        let has_bias = layer.flag("use_bias", true);
        let queries = self.heads(site, ("query", has_bias), &query, [heads, width])?;
        let mut keys = self.heads(site, ("key", has_bias), &key, [pairs, width])?;
        let mut values = self.heads(site, ("value", has_bias), &value, [pairs, value_width])?;
        if pairs != heads {
            keys = self.repeated_heads(&keys, heads)?;
            values = self.repeated_heads(&values, heads)?;
        }
        #[expect(clippy::cast_precision_loss, reason = "a width is far below 2^53")]
        let factor = self.values.scalar(1.0 / (width as f64).sqrt())?;
        let scaled = self.values.apply(Op::Mul, &[&queries, &factor])?;
        let turned = self.values.transpose(&keys, &[0, 1, 3, 2])?;
        let (steps, seen) = (query.len(1), key.len(1));
        let dims = vec![query.len(0), heads.into(), steps, seen];
        let mut scores = self.values.plain(self.values.node(Op::MatMul), &[&scaled, &turned], dims)?;
        if let Some(mask) = mask {
            let low = self.values.scalar(HIDDEN)?;
            scores = self.values.apply(Op::Where, &[&mask, &scores, &low])?;
        }
        let weights = self.over(Op::Softmax, &scores, &[-1])?;
        let dims = vec![query.len(0), heads.into(), steps, value_width.into()];
        let joined = self.values.plain(self.values.node(Op::MatMul), &[&weights, &values], dims)?;
        let joined = self.values.transpose(&joined, &[0, 2, 1, 3])?;
        let output = self.joined_heads(site, has_bias, &joined, &query)?;
        let returns_scores = args.flag("return_attention_scores");
        Ok([output].into_iter().chain(returns_scores.then_some(weights)).collect())
    }

    /// Projects a value to heads: `[batch, heads, steps, width]`.
    fn heads(
        &mut self,
        site: Site,
        (name, has_bias): (&str, bool),
        x: &Val,
        [heads, width]: [u64; 2],
    ) -> Result<Val, Reason> {
        let x = self.values.last(x)?;
        let (features, heads, width) = (x.known_features()?.into(), heads.into(), width.into());
        let kernel =
            self.values.stored(&site.variable(&format!("{name}/kernel")), vec![features, heads, width])?;
        let node =
            self.values.node(Op::Einsum).attribute("equation", Attribute::Text("abc,cde->abde".into()));
        let mut made = self.values.plain(node, &[&x, &kernel], vec![x.len(0), x.len(1), heads, width])?;
        if has_bias {
            let bias = self.values.stored(&site.variable(&format!("{name}/bias")), vec![heads, width])?;
            made = self.values.apply(Op::Add, &[&made, &bias])?;
        }
        self.values.transpose(&made, &[0, 2, 1, 3])
    }

    /// Repeats each head so that there are `heads`.
    fn repeated_heads(&mut self, x: &Val, heads: u64) -> Result<Val, Reason> {
        let pairs = x.len(1).size().unwrap_or(1).max(1);
        if heads > MAX_HEADS || pairs > heads {
            return Err(format!("it has {heads} heads and {pairs} for keys, which is not supported"));
        }
        let index =
            (0..heads).map(|head| ckpt_graph::int(head * pairs / heads)).collect::<Result<Vec<_>, _>>()?;
        let name = self.values.constant_name();
        let index = self.values.integers(&name, &[heads], index)?;
        let mut dims = x.dims.clone();
        if let Some(len) = dims.get_mut(1) {
            *len = heads.into();
        }
        let node = self.values.node(Op::Gather).attribute("axis", Attribute::Int(1));
        self.values.plain(node, &[x, &index], dims)
    }

    /// Projects heads `[batch, steps, heads, width]` back to features.
    fn joined_heads(&mut self, site: Site, has_bias: bool, x: &Val, query: &Val) -> Result<Val, Reason> {
        let stated = site.layer.ints("output_shape")?;
        let features: Vec<Length> = match stated {
            Some(lens) => lens.into_iter().map(|len| u64::try_from(len).ok().into()).collect(),
            None => vec![query.known_features()?.into()],
        };
        let [features] = features[..] else {
            return Err("its option 'output_shape' has several axes".to_owned());
        };
        let dims = vec![x.len(2), x.len(3), features];
        let kernel = self.values.stored(&site.variable("attention_output/kernel"), dims)?;
        let node =
            self.values.node(Op::Einsum).attribute("equation", Attribute::Text("abcd,cde->abe".into()));
        let made = self.values.plain(node, &[x, &kernel], vec![x.len(0), x.len(1), features])?;
        if !has_bias {
            return Ok(made);
        }
        let bias = self.values.stored(&site.variable("attention_output/bias"), vec![features])?;
        self.values.apply(Op::Add, &[&made, &bias])
    }

    /// Returns which scores count, `[…, steps, steps]`; `None` for all.
    fn mask(&mut self, args: &Args, query: &Val, key: &Val) -> Result<Option<Val>, Reason> {
        let given = match args.get(3, "attention_mask") {
            None => None,
            Some(Arg::Value(mask)) => {
                let mask = if mask.tag.is_integer { mask.clone() } else { self.cast(mask, "bool")? };
                Some(if mask.rank() == 3 { self.values.unsqueeze(&mask, &[1])? } else { mask })
            }
            Some(_) => return Err("its argument 'attention_mask' is a constant".to_owned()),
        };
        let causal = match args.flag("use_causal_mask") {
            true => Some(self.causal(query.len(1).size(), key.len(1).size())?),
            false => None,
        };
        Ok(match (given, causal) {
            (Some(given), Some(causal)) => Some(self.values.apply(Op::And, &[&given, &causal])?),
            (given, causal) => given.or(causal),
        })
    }

    /// Makes the mask that hides later steps.
    pub(super) fn causal(&mut self, steps: Option<u64>, seen: Option<u64>) -> Result<Val, Reason> {
        let (Some(steps), Some(seen)) = (steps, seen) else {
            return Err("its causal mask has a size that depends on the input".to_owned());
        };
        if steps.checked_mul(seen).is_none_or(|elements| elements > MAX_MASK) {
            return Err("its causal mask is too large".to_owned());
        }
        let element = |row: u64| (0..seen).map(move |column| i64::from(column <= row));
        let name = self.values.constant_name();
        self.values.integers(&name, &[steps, seen], (0..steps).flat_map(element).collect())
    }

    /// Lowers `Attention` and `AdditiveAttention`, which have no projections.
    pub(super) fn attention(&mut self, site: Site, args: &Args) -> Result<Vec<Val>, Reason> {
        let layer = site.layer;
        let inputs = args.first_values()?;
        let (query, value, key) = match &inputs[..] {
            [query, value] => (query.clone(), value.clone(), value.clone()),
            [query, value, key] => (query.clone(), value.clone(), key.clone()),
            _ => return Err(format!("it takes two or three values, but is given {}", inputs.len())),
        };
        if inputs.iter().any(|val| val.rank() != 3) {
            return Err("it takes values of other than three axes".to_owned());
        }
        let is_additive = layer.class == "AdditiveAttention";
        let (query, value, key) =
            (self.values.last(&query)?, self.values.last(&value)?, self.values.last(&key)?);
        let dims = vec![query.len(0), query.len(1), key.len(1)];
        let has_scale = layer.flag("use_scale", is_additive);
        let mut scores = if is_additive {
            let (rows, columns) = (self.values.unsqueeze(&query, &[2])?, self.values.unsqueeze(&key, &[1])?);
            let sum = self.values.apply(Op::Add, &[&rows, &columns])?;
            let mut curve = self.values.apply(Op::Tanh, &[&sum])?;
            if has_scale {
                let scale = self.values.stored(&site.variable("scale"), vec![key.features()])?;
                curve = self.values.apply(Op::Mul, &[&curve, &scale])?;
            }
            self.values.reduce(Op::ReduceSum, &curve, &[3], false)?
        } else {
            if layer.text("score_mode").is_some_and(|mode| mode != "dot") {
                return Err("its option 'score_mode' is not supported".to_owned());
            }
            let turned = self.values.transpose(&key, &[0, 2, 1])?;
            let product = self.values.plain(self.values.node(Op::MatMul), &[&query, &turned], dims)?;
            match has_scale {
                true => {
                    let scale = self.values.stored(&site.variable("scale"), Vec::new())?;
                    self.values.apply(Op::Mul, &[&product, &scale])?
                }
                false => product,
            }
        };
        if args.flag("use_causal_mask") {
            let mask = self.causal(query.len(1).size(), key.len(1).size())?;
            let low = self.values.scalar(HIDDEN)?;
            scores = self.values.apply(Op::Where, &[&mask, &scores, &low])?;
        }
        let weights = self.over(Op::Softmax, &scores, &[-1])?;
        let dims = vec![query.len(0), query.len(1), value.features()];
        let made = self.values.plain(self.values.node(Op::MatMul), &[&weights, &value], dims)?;
        let returns_scores = args.flag("return_attention_scores");
        Ok([made].into_iter().chain(returns_scores.then_some(weights)).collect())
    }
}
