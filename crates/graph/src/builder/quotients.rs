//! Quotients and remainders that are rounded towards negative infinity.

use super::{Builder, Reason, Tag, Val};
use ckpt_api::{Attribute, Op};

impl<K: Tag> Builder<K> {
    /// The remainder with the sign of the divisor, of real numbers or of integers.
    ///
    /// # Errors
    /// As [`Builder::elementwise`].
    pub fn floor_mod(&mut self, a: &Val<K>, b: &Val<K>, is_real: bool) -> Result<Val<K>, Reason> {
        if !is_real {
            return self.apply(Op::Mod, &[a, b]);
        }
        // ONNX has the remainder of real numbers with the sign of the dividend alone.
        let node = self.node(Op::Mod).attribute("fmod", Attribute::Int(1));
        let rest = self.elementwise(node, &[a, b])?;
        let zero = self.scalar(0.0)?;
        let is_negative = self.apply(Op::Less, &[&rest, &zero])?;
        let is_divisor_negative = self.apply(Op::Less, &[b, &zero])?;
        let is_same = self.apply(Op::Equal, &[&is_negative, &is_divisor_negative])?;
        let is_zero = self.apply(Op::Equal, &[&rest, &zero])?;
        let is_done = self.apply(Op::Or, &[&is_same, &is_zero])?;
        let moved = self.apply(Op::Add, &[&rest, b])?;
        self.apply(Op::Where, &[&is_done, &rest, &moved])
    }

    /// The quotient, rounded down, of real numbers or of integers.
    ///
    /// # Errors
    /// As [`Builder::elementwise`].
    pub fn floor_div(&mut self, a: &Val<K>, b: &Val<K>, is_real: bool) -> Result<Val<K>, Reason> {
        if is_real {
            let quotient = self.apply(Op::Div, &[a, b])?;
            return self.apply(Op::Floor, &[&quotient]);
        }
        let rest = self.floor_mod(a, b, false)?;
        let whole = self.apply(Op::Sub, &[a, &rest])?;
        self.apply(Op::Div, &[&whole, b])
    }
}
