//! Quantized operators of onnxruntime, `com.microsoft`.

use super::super::values::Read;
use super::parts::Parts;
use ckpt_api::{DType, Op};

impl Parts<'_, '_> {
    /// A quantized number as a real one: the number, its scale and its zero point are the inputs from `at` on.
    fn dequantized(&mut self, at: usize) -> Read<String> {
        let (x, scale) = (self.input(at)?, self.input(at + 1)?);
        let mut value = self.cast(&x, "float");
        if let Some(zero) = self.optional(at + 2)? {
            let zero = self.cast(&zero, "float");
            value = self.sub(&value, &zero);
        }
        Ok(self.mul(&value, &scale))
    }

    /// Two quantized numbers, combined as real numbers.
    pub(super) fn combine_quantized(&mut self, op: Op) -> Read<()> {
        let (a, b) = (self.dequantized(0)?, self.dequantized(3)?);
        let value = self.apply(op, &[&a, &b]);
        self.quantized_as(&value, 6)
    }

    /// A function of a quantized number.
    pub(super) fn apply_quantized(&mut self, op: Op) -> Read<()> {
        let x = self.dequantized(0)?;
        let mut attributes = super::super::values::Attributes::new();
        if let Some(alpha) = self.node.float("alpha").filter(|_| op == Op::LeakyRelu) {
            attributes = attributes.with("alpha", ckpt_api::Attribute::Float(alpha.into()));
        }
        let value = self.with(op, &[&x], attributes);
        self.quantized_as(&value, 3)
    }

    /// The mean of all places of each channel, of quantized numbers.
    pub(super) fn pool_quantized(&mut self) -> Read<()> {
        if self.node.int("channels_last").unwrap_or(0) != 0 {
            return Err("has its channels last".to_owned());
        }
        let x = self.dequantized(0)?;
        let value = self.apply(Op::GlobalAveragePool, &[&x]);
        self.quantized_as(&value, 3)
    }

    /// Quantized numbers one after the other: the scale and zero point of the result, then each with its own.
    pub(super) fn join_quantized(&mut self) -> Read<()> {
        let axis = self.node.int("axis").ok_or("lacks its axis")?;
        let mut all = Vec::new();
        for at in (2..self.node.inputs.len()).step_by(3) {
            all.push(self.dequantized(at)?);
        }
        let names: Vec<&str> = all.iter().map(String::as_str).collect();
        let value = self.concat(&names, axis);
        self.quantized_as(&value, 0)
    }

    /// A real number with the scale and the zero point of the inputs from `at` on.
    fn quantized_as(&mut self, x: &str, at: usize) -> Read<()> {
        let scale = self.input(at)?;
        let scaled = self.div(x, &scale);
        self.shifted(&scaled, at + 1)
    }

    /// A product of quantized matrices: a, its scale and zero point, b, its scale and zero point, a sum, and the scale
    /// and the zero point of the result, which is real without them.
    pub(super) fn general_product(&mut self) -> Read<()> {
        let flag = |name: &str| self.node.int(name).unwrap_or(0) != 0;
        let (turn_a, turn_b) = (flag("transA"), flag("transB"));
        let (mut a, mut b) = (self.centered(0, 2, !turn_a)?, self.centered(3, 5, turn_b)?);
        if turn_a {
            a = self.transpose(&a, &[1, 0]);
        }
        if turn_b {
            b = self.transpose(&b, &[1, 0]);
        }
        let mut sums = self.apply(Op::MatMul, &[&a, &b]);
        if let Some(bias) = self.optional(6)? {
            sums = self.add(&sums, &bias);
        }
        let (rows, columns) = (self.input(1)?, self.input(4)?);
        let mut scale = self.mul(&rows, &columns);
        let alpha = f64::from(self.node.float("alpha").unwrap_or(1.0));
        if alpha != 1.0 {
            let alpha = self.number(alpha);
            scale = self.mul(&alpha, &scale);
        }
        if self.given(7).is_some() {
            return self.requantized(&sums, &scale, 7, 8);
        }
        let real = self.cast(&sums, "float");
        let value = self.mul(&real, &scale);
        self.finish(0, &value);
        Ok(())
    }

    /// A product of matrices as real numbers: those of integers, or with `is_dynamic` of real numbers that are quantized
    /// as they come.
    pub(super) fn real_product(&mut self, is_dynamic: bool) -> Read<()> {
        let (a, scale, b, bias) = if is_dynamic {
            let x = self.input(0)?;
            let (scale, zero) = self.range_of(&x);
            let scaled = self.div(&x, &scale);
            let whole = self.saturated(&scaled, Some(&zero), (0.0, 255.0));
            let own = self.input(2)?;
            (self.sub(&whole, &zero), self.mul(&scale, &own), self.centered(1, 3, false)?, 4)
        } else {
            let (own, other) = (self.input(2)?, self.input(3)?);
            let scale = self.mul(&own, &other);
            (self.centered(0, 4, true)?, scale, self.centered(1, 5, false)?, 6)
        };
        let sums = self.apply(Op::MatMul, &[&a, &b]);
        let real = self.cast(&sums, "float");
        let mut value = self.mul(&real, &scale);
        if let Some(bias) = self.optional(bias)? {
            value = self.add(&value, &bias);
        }
        self.finish(0, &value);
        Ok(())
    }

    /// A product with a matrix of a few bits for each number, in blocks of its rows: x, bytes, scales, zero points.
    pub(super) fn product_of_blocks(&mut self) -> Read<()> {
        if self.given(4).is_some() {
            return Err("has the rows of its weight in another order".to_owned());
        }
        let int = |name: &str| self.node.int(name).ok_or_else(|| format!("lacks its {name}"));
        let (inner, columns, block) = (int("K")?, int("N")?, int("block_size")?);
        let bits = self.node.int("bits").unwrap_or(4);
        if !matches!(bits, 2 | 4 | 8) || !(16..=1 << 16).contains(&block) || !(1..=1 << 32).contains(&inner) {
            return Err(format!("has {bits} bits for each of {inner} numbers, or blocks of {block}"));
        }
        let blocks = (inner + block - 1) / block;
        let (x, bytes, scales) = (self.input(0)?, self.input(1)?, self.input(2)?);
        let whole = self.unpacked(&bytes, bits, &[columns, blocks, block])?;
        let real = self.cast(&whole, "float");
        let zero = match self.optional(3)? {
            None => self.number((1_i64 << (bits - 1)) as f64),
            Some(zero) if self.dtype(3) == Some(DType::U8) => {
                let each = 8 / bits;
                let row = (blocks + each - 1) / each * each;
                let zero = self.unpacked(&zero, bits, &[columns, row, 1])?;
                let zero = if row > blocks { self.slice(&zero, 1, 0, blocks) } else { zero };
                self.cast(&zero, "float")
            }
            Some(zero) => self.reshape(&zero, &[columns, blocks, 1]),
        };
        let scales = self.reshape(&scales, &[columns, blocks, 1]);
        let centered = self.sub(&real, &zero);
        let weight = self.mul(&centered, &scales);
        let mut weight = self.reshape(&weight, &[columns, blocks * block]);
        if blocks * block > inner {
            weight = self.slice(&weight, 1, 0, inner);
        }
        let turned = self.transpose(&weight, &[1, 0]);
        let mut value = self.apply(Op::MatMul, &[&x, &turned]);
        if let Some(bias) = self.optional(5)? {
            value = self.add(&value, &bias);
        }
        self.finish(0, &value);
        Ok(())
    }

    /// Numbers of a few bits each, the lowest bits of a byte first.
    fn unpacked(&mut self, bytes: &str, bits: i64, shape: &[i64]) -> Read<String> {
        let flat = self.reshape(bytes, &[-1, 1]);
        let places: Vec<i64> = (0..8).step_by(usize::try_from(bits).unwrap_or(8)).collect();
        let count = i64::try_from(places.len()).unwrap_or(1);
        let (places, mask) = (self.integers(places, &[1, count]), self.integer((1 << bits) - 1));
        let right = ckpt_api::Attribute::Text("RIGHT".to_owned());
        let attributes = super::super::values::Attributes::new().with("direction", right);
        let moved = self.with(Op::BitShift, &[&flat, &places], attributes);
        let each = self.apply(Op::BitwiseAnd, &[&moved, &mask]);
        Ok(self.reshape(&each, shape))
    }
}
