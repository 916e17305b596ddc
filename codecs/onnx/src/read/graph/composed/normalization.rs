//! Normalizations whose scale and bias are not those that a layer has, and those that have further outputs.

use super::super::values::Read;
use super::parts::Parts;
use ckpt_api::Op;
use ckpt_graph::shape::resolve;

impl Parts<'_, '_> {
    fn epsilon(&mut self, default: f32) -> String {
        self.number(self.node.float("epsilon").unwrap_or(default).into())
    }

    /// Deviations from the mean over axes, the mean, and one divided by the root of the variance.
    fn standardized(&mut self, x: &str, axes: &[i64]) -> (String, String, String) {
        let mean = self.reduce(Op::ReduceMean, x, axes, true);
        let deviation = self.sub(x, &mean);
        let squares = self.mul(&deviation, &deviation);
        let variance = self.reduce(Op::ReduceMean, &squares, axes, true);
        let epsilon = self.epsilon(1e-5);
        let sum = self.add(&variance, &epsilon);
        let root = self.apply(Op::Sqrt, &[&sum]);
        let inverse = self.apply(Op::Reciprocal, &[&root]);
        (deviation, mean, inverse)
    }

    /// The axes from the node's own on.
    fn last_axes(&self, x: &str) -> Read<Vec<i64>> {
        let rank = self.rank(x)?;
        let first =
            resolve(self.node.int("axis").unwrap_or(-1), rank).ok_or("has an axis that does not exist")?;
        Ok((first..rank).map(|axis| i64::try_from(axis).unwrap_or(i64::MAX)).collect())
    }

    pub(super) fn normalize_layer(&mut self) -> Read<()> {
        let x = self.input(0)?;
        let axes = self.last_axes(&x)?;
        let (deviation, mean, inverse) = self.standardized(&x, &axes);
        let mut value = self.mul(&deviation, &inverse);
        if let Some(scale) = self.optional(1)? {
            value = self.mul(&value, &scale);
        }
        if let Some(bias) = self.optional(2)? {
            value = self.add(&value, &bias);
        }
        self.finish(0, &value);
        self.finish(1, &mean);
        self.finish(2, &inverse);
        Ok(())
    }

    pub(super) fn normalize_by_size(&mut self) -> Read<()> {
        self.makes_no(&[1])?;
        let x = self.input(0)?;
        let axes = self.last_axes(&x)?;
        let squares = self.mul(&x, &x);
        let mean = self.reduce(Op::ReduceMean, &squares, &axes, true);
        let epsilon = self.epsilon(1e-5);
        let sum = self.add(&mean, &epsilon);
        let root = self.apply(Op::Sqrt, &[&sum]);
        let mut value = self.div(&x, &root);
        if let Some(scale) = self.optional(1)? {
            value = self.mul(&value, &scale);
        }
        self.finish(0, &value);
        Ok(())
    }

    /// One number for each channel, in a shape that broadcasts to images of so many axes.
    fn per_channel(&mut self, at: usize, rank: usize) -> Read<Option<String>> {
        let Some(value) = self.optional(at)? else { return Ok(None) };
        let mut shape = vec![1; rank.saturating_sub(1)];
        if let Some(first) = shape.first_mut() {
            *first = -1;
        }
        Ok(Some(self.reshape(&value, &shape)))
    }

    fn scaled_by_channel(&mut self, value: String, rank: usize) -> Read<String> {
        let mut value = value;
        if let Some(scale) = self.per_channel(1, rank)? {
            value = self.mul(&value, &scale);
        }
        if let Some(bias) = self.per_channel(2, rank)? {
            value = self.add(&value, &bias);
        }
        Ok(value)
    }

    pub(super) fn normalize_instances(&mut self) -> Read<()> {
        let x = self.input(0)?;
        let rank = self.rank(&x)?;
        let axes: Vec<i64> = (2..).take(rank.saturating_sub(2)).collect();
        let (deviation, _, inverse) = self.standardized(&x, &axes);
        let value = self.mul(&deviation, &inverse);
        let value = self.scaled_by_channel(value, rank)?;
        self.finish(0, &value);
        Ok(())
    }

    pub(super) fn normalize_groups(&mut self) -> Read<()> {
        let x = self.input(0)?;
        let rank = self.rank(&x)?;
        let lens =
            self.lens(&x).map_err(|_| "normalizes groups of channels of lengths that are not known")?;
        if self.reader.opset < 21 {
            return Err("has scales for each group, as before operator set 21".to_owned());
        }
        let groups = self.node.int("num_groups").ok_or("lacks its num_groups")?;
        let grouped = self.reshape(&x, &[0, groups, -1]);
        let (deviation, _, inverse) = self.standardized(&grouped, &[2]);
        let value = self.mul(&deviation, &inverse);
        let value = self.reshape(&value, &lens);
        let value = self.scaled_by_channel(value, rank)?;
        self.finish(0, &value);
        Ok(())
    }

    /// With a scale, a bias, a mean and a variance for each channel that the graph computes. In training mode, mean and
    /// variance are those of the batch.
    pub(super) fn normalize_batch(&mut self) -> Read<()> {
        let x = self.input(0)?;
        let rank = self.rank(&x)?;
        let trains = self.node.int("training_mode") == Some(1);
        if !trains {
            self.makes_no(&[1, 2, 3, 4])?;
        }
        let channel = |value: Option<String>| value.ok_or_else(|| "lacks a mean or a variance".to_owned());
        let (deviation, inverse) = if trains {
            let axes: Vec<i64> = (0..).take(rank).filter(|axis| *axis != 1).collect();
            self.running(&x, &axes)?;
            let (deviation, _, inverse) = self.standardized(&x, &axes);
            (deviation, inverse)
        } else {
            let mean = channel(self.per_channel(3, rank)?)?;
            let variance = channel(self.per_channel(4, rank)?)?;
            let epsilon = self.epsilon(1e-5);
            let sum = self.add(&variance, &epsilon);
            let root = self.apply(Op::Sqrt, &[&sum]);
            (self.sub(&x, &mean), self.apply(Op::Reciprocal, &[&root]))
        };
        let value = self.mul(&deviation, &inverse);
        let value = self.scaled_by_channel(value, rank)?;
        self.finish(0, &value);
        Ok(())
    }

    /// The mean and the variance that training keeps: `momentum` of the old ones, and the rest of the batch's.
    fn running(&mut self, x: &str, axes: &[i64]) -> Read<()> {
        let momentum = f64::from(self.node.float("momentum").unwrap_or(0.9));
        let mean = self.reduce(Op::ReduceMean, x, axes, true);
        let deviation = self.sub(x, &mean);
        let squares = self.mul(&deviation, &deviation);
        let variance = self.reduce(Op::ReduceMean, &squares, axes, false);
        let mean = self.reduce(Op::ReduceMean, x, axes, false);
        for (at, own) in [(1, mean), (2, variance)] {
            let old = self.input(at + 2)?;
            let (keeps, takes) = (self.number(momentum), self.number(1.0 - momentum));
            let (old, own) = (self.mul(&old, &keeps), self.mul(&own, &takes));
            let value = self.add(&old, &own);
            self.finish(at, &value);
        }
        Ok(())
    }

    pub(super) fn normalize_mean_and_variance(&mut self) -> Read<()> {
        let x = self.input(0)?;
        let axes = self.node.ints("axes").map_or_else(|| vec![0, 2, 3], <[i64]>::to_vec);
        let mean = self.reduce(Op::ReduceMean, &x, &axes, true);
        let deviation = self.sub(&x, &mean);
        let squares = self.mul(&deviation, &deviation);
        let variance = self.reduce(Op::ReduceMean, &squares, &axes, true);
        let (root, least) = (self.apply(Op::Sqrt, &[&variance]), self.number(1e-9));
        let divisor = self.add(&root, &least);
        let value = self.div(&deviation, &divisor);
        self.finish(0, &value);
        Ok(())
    }
}
