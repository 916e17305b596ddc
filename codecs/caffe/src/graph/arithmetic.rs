//! Elementwise layers with options.

use super::builder::{Builder, Val};
use super::layers::Made;
use super::net::Layer;
use super::norms::per_channel;
use ckpt_api::Op;

impl Builder<'_> {
    pub(super) fn eltwise(&mut self, layer: &Layer<'_>, inputs: &[Val]) -> Made {
        let options = layer.options("eltwise_param");
        let first = inputs.first().ok_or("takes no value")?;
        if inputs.iter().any(|other| other.dims != first.dims) {
            return Err("combines values of several shapes".to_owned());
        }
        let op = match options.word("operation").unwrap_or("SUM") {
            "PROD" | "0" => Op::Mul,
            "SUM" | "1" => Op::Add,
            "MAX" | "2" => Op::Max,
            other => return Err(format!("combines by {}, which is not supported", other.escape_debug())),
        };
        let factors: Vec<f64> = (options.words("coeff"))
            .map(|word| word.parse().map_err(|_| format!("has coeff: {}", word.escape_debug())))
            .collect::<Result<_, String>>()?;
        let mut total: Option<String> = None;
        for (number, input) in inputs.iter().enumerate() {
            let mut name = input.name.clone();
            let factor = factors.get(number).copied().unwrap_or(1.0);
            if op == Op::Add && factor != 1.0 {
                let by = self.nodes.scalar(&format!("factor{number}"), factor);
                name = self.nodes.push(&format!("scaled{number}"), Op::Mul, &[&name, &by], []);
            }
            let suffix = if number + 1 == inputs.len() { String::new() } else { format!("part{number}") };
            total = Some(match total {
                Some(total) => self.nodes.push(&suffix, op.clone(), &[&total, &name], []),
                None => name,
            });
        }
        Ok(Val { name: total.ok_or("takes no value")?, dims: first.dims.clone() })
    }

    /// `(shift + scale·x)^power`.
    pub(super) fn power(&mut self, layer: &Layer<'_>, x: &Val) -> Made {
        let options = layer.options("power_param");
        let mut name = x.name.clone();
        for (key, neutral, op) in [("scale", 1.0, Op::Mul), ("shift", 0.0, Op::Add), ("power", 1.0, Op::Pow)]
        {
            let number = options.float(key, neutral)?;
            if number != neutral {
                let by = self.nodes.scalar(key, number);
                name = self.nodes.push(&format!("{key}_applied"), op, &[&name, &by], []);
            }
        }
        Ok(Val { name: self.nodes.push("", Op::Identity, &[&name], []), dims: x.dims.clone() })
    }

    /// A slope below 0 for each channel, or one for all.
    pub(super) fn parametric(&mut self, layer: &Layer<'_>, x: &Val) -> Made {
        let is_shared = layer.options("prelu_param").flag("channel_shared", false)?;
        let (len, shape) = match is_shared {
            true => (1, vec![1]),
            false => (*x.dims.get(1).ok_or("takes a value without channels")?, per_channel(x, 1, 1)?),
        };
        let slope = self.vector(0, len)?;
        let slope = self.nodes.tensor("slope", &slope, &shape)?;
        Ok(Val { name: self.nodes.push("", Op::PRelu, &[&x.name, &slope], []), dims: x.dims.clone() })
    }
}
