//! Fourier transforms, as products with matrices of cosines and sines.

use super::super::values::{Attributes, Read};
use super::parts::Parts;
use ckpt_api::{Attribute, Op};
use ckpt_graph::shape::resolve;

/// The longest signal that is transformed.
const LONGEST: i64 = 1024;

/// A transform of signals of so many numbers to so many frequencies.
#[derive(Clone, Copy)]
struct Transform {
    len: i64,
    frequencies: i64,
    is_inverse: bool,
}

impl Parts<'_, '_> {
    /// Signals along an axis as their frequencies. The last axis has the real and the imaginary part, or the former alone.
    pub(super) fn transform(&mut self) -> Read<()> {
        let mut x = self.input(0)?;
        let rank = self.rank(&x)?;
        let is_old = self.reader.opset < 20;
        let axis = match self
            .reader
            .list(self.node, 2, "axis")
            .unwrap_or(None)
            .and_then(|axis| axis.first().copied())
        {
            Some(axis) => axis,
            None if self.given(2).is_some() => return Err("has an axis that is not known".to_owned()),
            None => self.node.int("axis").unwrap_or(if is_old { 1 } else { -2 }),
        };
        let axis =
            resolve(axis, rank).filter(|axis| axis + 1 < rank).ok_or("has an axis that does not exist")?;
        let is_inverse = self.node.int("inverse").unwrap_or(0) != 0;
        let is_onesided = self.node.int("onesided").unwrap_or(0) != 0;
        if is_inverse && is_onesided {
            return Err("is the inverse of one side".to_owned());
        }
        let own = self.len(&x, axis)?;
        let len = match self.given(1) {
            Some(_) => *self
                .reader
                .list(self.node, 1, "dft_length")?
                .unwrap_or_default()
                .first()
                .ok_or("lacks its length")?,
            None => own,
        };
        if !(1..=LONGEST).contains(&len) {
            return Err(format!(
                "transforms signals of {len} numbers; those of at most {LONGEST} are supported"
            ));
        }
        if own > len {
            x = self.slice(&x, axis as i64, 0, len);
        } else if own < len {
            let mut pads = vec![0; rank * 2];
            pads[axis + rank] = len - own;
            let mode = Attribute::Text("constant".to_owned());
            x = self.with(Op::Pad, &[&x], Attributes::new().ints("pads", pads).with("mode", mode));
        }
        let parts = self.len(&x, rank - 1)?;
        if !matches!(parts, 1 | 2) {
            return Err(format!("takes numbers of {parts} parts, not real or complex ones"));
        }
        let (zero, one) = (self.integer(0), self.integer(1));
        // The signals on the last axis.
        let last = rank - 2;
        let order: Vec<usize> = (0..=last).filter(|other| *other != axis).chain([axis]).collect();
        let mut components = Vec::new();
        for part in [&zero, &one].into_iter().take(usize::try_from(parts).unwrap_or(1)) {
            let own = self.gather(&x, part, -1);
            components.push(if axis == last { own } else { self.transpose(&own, &order) });
        }
        let frequencies = if is_onesided { len / 2 + 1 } else { len };
        let how = Transform { len, frequencies, is_inverse };
        let made = self.frequencies(&components[0].clone(), components.get(1).cloned().as_deref(), how);
        let mut back: Vec<usize> = (0..last).collect();
        back.insert(axis, last);
        let made = made.map(|part| {
            let part = if axis == last { part } else { self.transpose(&part, &back) };
            self.unsqueeze(&part, &[-1])
        });
        let value = self.concat(&[&made[0], &made[1]], -1);
        self.finish(0, &value);
        Ok(())
    }

    /// The real and the imaginary part of the frequencies of signals on the last axis.
    fn frequencies(&mut self, real: &str, imaginary: Option<&str>, how: Transform) -> [String; 2] {
        let Transform { len, frequencies, is_inverse } = how;
        let factor = if is_inverse { 1.0 / len as f64 } else { 1.0 };
        let sign = if is_inverse { 1.0 } else { -1.0 };
        let angle = |place: i64| {
            let turn = place / frequencies * (place % frequencies) % len;
            2.0 * std::f64::consts::PI * turn as f64 / len as f64
        };
        let places = 0..len * frequencies;
        let cosines = places.clone().map(|place| angle(place).cos() * factor).collect();
        let sines = places.map(|place| angle(place).sin() * factor * sign).collect();
        let (cosines, sines) =
            (self.numbers(cosines, &[len, frequencies]), self.numbers(sines, &[len, frequencies]));
        let mut made = [self.apply(Op::MatMul, &[real, &cosines]), self.apply(Op::MatMul, &[real, &sines])];
        if let Some(imaginary) = imaginary {
            let turned = self.apply(Op::MatMul, &[imaginary, &sines]);
            made[0] = self.sub(&made[0], &turned);
            let own = self.apply(Op::MatMul, &[imaginary, &cosines]);
            made[1] = self.add(&made[1], &own);
        }
        made
    }
}
