//! Integers of fewer bits than those with which graphs compute, and functions of bits.

use super::super::values::Read;
use super::parts::Parts;
use ckpt_api::{DType, Op};

/// Whether integers of one type can be negative, and how many bits they have.
pub(in super::super) fn bits(dtype: DType) -> Option<(bool, u32)> {
    Some(match dtype {
        DType::Bool => (false, 1),
        DType::U2 => (false, 2),
        DType::I2 => (true, 2),
        DType::U4 => (false, 4),
        DType::I4 => (true, 4),
        DType::U8 => (false, 8),
        DType::I8 => (true, 8),
        DType::U16 => (false, 16),
        DType::I16 => (true, 16),
        DType::U32 => (false, 32),
        DType::I32 => (true, 32),
        DType::U64 => (false, 64),
        DType::I64 => (true, 64),
        _ => return None,
    })
}

/// Whether every number of type `own` is one of type `wanted`.
fn holds(wanted: DType, own: DType) -> bool {
    match (bits(wanted), bits(own)) {
        (Some((wanted_signed, wanted)), Some((signed, own))) if wanted_signed == signed => own <= wanted,
        (Some((true, wanted)), Some((false, own))) => own < wanted,
        _ => false,
    }
}

impl Parts<'_, '_> {
    /// An integer as one of a type of fewer than 32 bits: what exceeds it wraps around.
    fn wrapped(&mut self, x: &str, dtype: DType) -> String {
        match bits(dtype).filter(|(_, bits)| *bits < 32) {
            None => x.to_owned(),
            Some((false, bits)) => {
                let mask = self.integer((1 << bits) - 1);
                self.apply(Op::BitwiseAnd, &[x, &mask])
            }
            Some((true, bits)) => {
                let (half, mask) = (self.integer(1 << (bits - 1)), self.integer((1 << bits) - 1));
                let raised = self.add(x, &half);
                let within = self.apply(Op::BitwiseAnd, &[&raised, &mask]);
                self.sub(&within, &half)
            }
        }
    }

    /// An operator of integers of fewer than 32 bits, which wrap around.
    pub(super) fn wrapping(&mut self) -> Read<()> {
        let dtype = self.dtype(0).ok_or("computes with integers of a type that the model does not state")?;
        let inputs = (0..self.node.inputs.len()).map(|at| self.input(at)).collect::<Read<Vec<_>>>()?;
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        let mut attributes = super::super::values::Attributes::new();
        if self.node.op == "Mod" && self.node.int("fmod") == Some(1) {
            attributes = attributes.int("fmod", 1);
        }
        let made = self.with(Op::from(self.node.op.as_str()), &inputs, attributes);
        let value = self.wrapped(&made, dtype);
        self.finish(0, &value);
        Ok(())
    }

    /// A value of another type.
    pub(super) fn converted(&mut self, wanted: DType) -> Read<()> {
        let own = self.dtype(0);
        let x = self.input(0)?;
        let is_real = own.is_none_or(|own| own.is_float());
        let value = match (wanted, bits(wanted)) {
            (DType::Bool, _) => self.cast(&x, "bool"),
            (_, Some((is_signed, bits))) => {
                let is_held = own.is_some_and(|own| holds(wanted, own));
                if !is_real && !is_held && !is_signed && bits >= 32 {
                    return Err(format!("makes numbers of type {wanted}, to which others may not fit"));
                }
                let whole = self.cast(&x, "int");
                if is_held { whole } else { self.wrapped(&whole, wanted) }
            }
            (DType::F32 | DType::F64, None) => self.cast(&x, "float"),
            (_, None) => {
                let kind = super::floats::short(wanted)
                    .ok_or_else(|| format!("makes numbers of type {wanted}, which is not supported"))?;
                let saturate = self.node.int("saturate").unwrap_or(1);
                self.with(Op::Cast, &[&x], super::floats::to(kind, saturate))
            }
        };
        self.finish(0, &value);
        Ok(())
    }

    /// A power: of the base's type, whatever the type of the exponent is.
    pub(super) fn power(&mut self) -> Read<()> {
        let (base, exponent) = (self.input(0)?, self.input(1)?);
        let value = match (self.is_real(0), self.is_real(1)) {
            (true, true) | (false, false) => self.apply(Op::Pow, &[&base, &exponent]),
            (true, false) => {
                let exponent = self.cast(&exponent, "float");
                self.apply(Op::Pow, &[&base, &exponent])
            }
            (false, true) => {
                let base = self.cast(&base, "float");
                let power = self.apply(Op::Pow, &[&base, &exponent]);
                self.cast(&power, "int")
            }
        };
        let value = match self.dtype(0) {
            Some(dtype) => self.wrapped(&value, dtype),
            None => value,
        };
        self.finish(0, &value);
        Ok(())
    }

    /// A function of the bits of two integers.
    pub(super) fn of_bits(&mut self) -> Read<()> {
        let (a, b) = (self.input(0)?, self.input(1)?);
        let value = self.apply(Op::from(self.node.op.as_str()), &[&a, &b]);
        self.finish(0, &value);
        Ok(())
    }

    /// The bits that an integer does not have.
    pub(super) fn complement(&mut self) -> Read<()> {
        let x = self.input(0)?;
        let (is_signed, bits) =
            self.dtype(0).and_then(bits).ok_or("takes integers of a type that the model does not state")?;
        if !is_signed && bits >= 32 {
            return Err("makes integers of more than 32 bits".to_owned());
        }
        let all = self.integer(if is_signed { -1 } else { (1 << bits) - 1 });
        let value = self.apply(Op::BitwiseXor, &[&x, &all]);
        self.finish(0, &value);
        Ok(())
    }

    /// Bits that are moved; those that leave the type are lost.
    pub(super) fn shift(&mut self) -> Read<()> {
        let (x, places) = (self.input(0)?, self.input(1)?);
        let dtype = self.dtype(0).ok_or("takes integers of a type that the model does not state")?;
        let direction = self.node.text("direction").ok_or("lacks its direction")?.to_owned();
        let is_left = direction == "LEFT";
        if is_left && !matches!(bits(dtype), Some((true, 32) | (_, ..32))) {
            // A number beyond 32 bits is an error.
            let two = self.integer(2);
            let factor = self.apply(Op::Pow, &[&two, &places]);
            let value = self.mul(&x, &factor);
            self.finish(0, &value);
            return Ok(());
        }
        let attributes = super::super::values::Attributes::new();
        let attributes = attributes.with("direction", ckpt_api::Attribute::Text(direction));
        let mut value = self.with(Op::BitShift, &[&x, &places], attributes);
        if is_left {
            value = self.wrapped(&value, dtype);
        }
        self.finish(0, &value);
        Ok(())
    }

    /// The greatest integers of windows, which real numbers of 32 bits hold if there are few of them.
    pub(super) fn pool_integers(&mut self) -> Read<()> {
        self.makes_no(&[1])?;
        let x = self.input(0)?;
        let mut attributes =
            self.reader.window(self.node, &["kernel_shape", "strides", "pads", "dilations"])?;
        if let Some(rounds) = self.node.int("ceil_mode").filter(|rounds| *rounds != 0) {
            attributes = attributes.int("ceil_mode", rounds);
        }
        let real = self.cast(&x, "float");
        let pooled = self.with(Op::MaxPool, &[&real], attributes);
        let value = self.cast(&pooled, "int");
        self.finish(0, &value);
        Ok(())
    }
}
