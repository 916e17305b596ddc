//! Operators that are a few others, element by element or along an axis.

use super::super::values::{Attributes, Read};
use super::parts::{Parts, range};
use ckpt_api::{Attribute, Op};
use ckpt_graph::shape::resolve;

/// The most numbers of a value that is computed while the graph is read.
const MOST: i64 = 1 << 16;

impl Parts<'_, '_> {
    pub(super) fn axis(&self, x: &str, default: i64) -> Read<usize> {
        let axis = self.node.int("axis").unwrap_or(default);
        resolve(axis, self.rank(x)?).ok_or_else(|| "has an axis that does not exist".to_owned())
    }

    /// Whether an input has real numbers.
    pub(super) fn is_real(&self, at: usize) -> bool {
        self.dtype(at).is_none_or(|dtype| dtype.is_float())
    }

    /// An attribute of real numbers as a value.
    fn factor(&mut self, name: &str, default: f32) -> String {
        self.number(self.node.float(name).unwrap_or(default).into())
    }

    /// One integer that is known.
    fn known_integer(&self, at: usize, what: &str) -> Read<i64> {
        let known = self.given(at).and_then(|name| self.reader.ints(name)?.only()?.known());
        known.ok_or_else(|| format!("has a {what} that is not known"))
    }

    /// `x < −lambd ? x + bias : x > lambd ? x − bias : 0`.
    pub(super) fn shrink(&mut self) -> Read<()> {
        let x = self.input(0)?;
        let limit = self.node.float("lambd").unwrap_or(0.5);
        let (above, below) = (self.number(limit.into()), self.number((-limit).into()));
        let (bias, nothing) = (self.factor("bias", 0.0), self.number(0.0));
        let (lower, raised) = (self.sub(&x, &bias), self.add(&x, &bias));
        let (is_above, is_below) =
            (self.apply(Op::Greater, &[&x, &above]), self.apply(Op::Less, &[&x, &below]));
        let rest = self.choose(&is_above, &lower, &nothing);
        let value = self.choose(&is_below, &raised, &rest);
        self.finish(0, &value);
        Ok(())
    }

    /// The mean of several values.
    pub(super) fn mean(&mut self) -> Read<()> {
        let mut sum = self.input(0)?;
        for at in 1..self.node.inputs.len() {
            let next = self.input(at)?;
            sum = self.add(&sum, &next);
        }
        let count = self.number(self.node.inputs.len() as f64);
        let value = self.div(&sum, &count);
        self.finish(0, &value);
        Ok(())
    }

    /// `a·sigmoid(alpha·a)·b`.
    pub(super) fn gated(&mut self) -> Read<()> {
        let (a, b) = (self.input(0)?, self.input(1)?);
        let alpha = f64::from(self.node.float("alpha").unwrap_or(1.0));
        let gate = self.with(Op::Swish, &[&a], Attributes::new().with("alpha", Attribute::Float(alpha)));
        let value = self.mul(&gate, &b);
        self.finish(0, &value);
        Ok(())
    }

    /// 1 at the first greatest place of an axis, and 0 elsewhere.
    pub(super) fn hardmax(&mut self) -> Read<()> {
        let x = self.input(0)?;
        let (rank, axis) = (self.rank(&x)?, self.axis(&x, if self.reader.opset < 13 { 1 } else { -1 })?);
        if self.reader.opset < 13 && axis + 1 != rank {
            return Err("is over several axes".to_owned());
        }
        let len = self.len(&x, axis)?;
        let attributes = Attributes::new().int("axis", axis as i64).int("keepdims", 1);
        let place = self.with(Op::ArgMax, &[&x], attributes);
        let all = self.count(len, axis, rank)?;
        let is_greatest = self.apply(Op::Equal, &[&place, &all]);
        let value = self.cast(&is_greatest, "float");
        self.finish(0, &value);
        Ok(())
    }

    /// One of two values for each class on a new axis: classes, how many there are, and the two values.
    pub(super) fn one_hot(&mut self) -> Read<()> {
        let depth = self.known_integer(1, "depth").or_else(|reason| {
            let real = self.given(1).and_then(|name| self.reader.number(name));
            real.filter(|depth| depth.fract() == 0.0 && depth.abs() < MOST as f64)
                .map(|depth| depth as i64)
                .ok_or(reason)
        })?;
        let mut classes = self.input(0)?;
        if self.is_real(0) {
            classes = self.cast(&classes, "int");
        }
        let rank = self.rank(&classes)? + 1;
        let axis =
            resolve(self.node.int("axis").unwrap_or(-1), rank).ok_or("has an axis that does not exist")?;
        // A negative class counts from the end.
        let (nothing, count) = (self.integer(0), self.integer(depth));
        let is_below = self.apply(Op::Less, &[&classes, &nothing]);
        let moved = self.add(&classes, &count);
        let classes = self.choose(&is_below, &moved, &classes);
        let column = self.unsqueeze(&classes, &[axis as i64]);
        let all = self.count(depth, axis, rank)?;
        let is_class = self.apply(Op::Equal, &[&column, &all]);
        let values = self.input(2)?;
        let (zero, one) = (self.integer(0), self.integer(1));
        let (off, on) = (self.gather(&values, &zero, 0), self.gather(&values, &one, 0));
        let value = self.choose(&is_class, &on, &off);
        self.finish(0, &value);
        Ok(())
    }

    /// A matrix with ones on a diagonal.
    pub(super) fn eye(&mut self) -> Read<()> {
        let x = self.input(0)?;
        let [rows, columns] = self.lens(&x)?[..] else { return Err("takes no matrix".to_owned()) };
        let first = self.node.int("k").unwrap_or(0);
        let row = self.integers(range(first, rows)?.collect(), &[rows, 1]);
        let column = self.count(columns, 1, 2)?;
        let mut value = self.apply(Op::Equal, &[&row, &column]);
        let made = self.node.int("dtype").and_then(crate::format::dtype).or_else(|| self.dtype(0));
        if made.is_none_or(|dtype| dtype.is_float()) {
            value = self.cast(&value, "float");
        }
        self.finish(0, &value);
        Ok(())
    }

    /// A window of so many numbers: `a − b·cos(2πn/N) + c·cos(4πn/N)`.
    pub(super) fn window(&mut self, [a, b, c]: [f64; 3]) -> Read<()> {
        let len = self.known_integer(0, "size")?;
        if !(0..=MOST).contains(&len) {
            return Err(format!("makes {len} numbers"));
        }
        let is_periodic = self.node.int("periodic").unwrap_or(1) != 0;
        let span = if is_periodic { len } else { len - 1 };
        let angle = |place: i64| 2.0 * std::f64::consts::PI * place as f64 / span.max(1) as f64;
        let values = (0..len).map(|place| a - b * angle(place).cos() + c * (2.0 * angle(place)).cos());
        let value = self.numbers(values.collect(), &[len]);
        self.finish(0, &value);
        Ok(())
    }

    /// A value cut or padded on both sides of axes.
    pub(super) fn center(&mut self) -> Read<()> {
        let x = self.input(0)?;
        let rank = self.rank(&x)?;
        let wanted = self.reader.list(self.node, 1, "shape")?.ok_or("lacks its shape")?;
        let axes = match self.node.ints("axes") {
            Some(axes) => {
                ckpt_graph::shape::resolve_all(axes, rank).ok_or("has an axis that does not exist")?
            }
            None => (0..rank).collect(),
        };
        let (mut value, mut pads) = (x.clone(), vec![0; rank * 2]);
        for (axis, wanted) in axes.into_iter().zip(wanted) {
            let own = self.len(&x, axis)?;
            if wanted < 0 {
                return Err(format!("makes an axis of the length {wanted}"));
            }
            if own > wanted {
                let start = (own - wanted) / 2;
                value = self.slice(&value, axis as i64, start, start + wanted);
            } else {
                pads[axis] = (wanted - own) / 2;
                pads[axis + rank] = wanted - own - pads[axis];
            }
        }
        if pads.iter().any(|pad| *pad != 0) {
            let mode = Attribute::Text("constant".to_owned());
            value = self.with(Op::Pad, &[&value], Attributes::new().ints("pads", pads).with("mode", mode));
        }
        self.finish(0, &value);
        Ok(())
    }

    /// The first places of each example in reverse order, as many as its length.
    pub(super) fn reverse_sequences(&mut self) -> Read<()> {
        let (x, counts) = (self.input(0)?, self.input(1)?);
        let (batch, time) =
            (self.node.int("batch_axis").unwrap_or(1), self.node.int("time_axis").unwrap_or(0));
        let lens = self.lens(&x)?;
        let rank = lens.len();
        let axes = [batch, time].map(|axis| resolve(axis, rank).filter(|axis| *axis < 2));
        let [Some(batch), Some(time)] = axes else { return Err("has axes that do not exist".to_owned()) };
        let mut shape = vec![1; rank];
        shape[batch] = -1;
        let counts = self.reshape(&counts, &shape);
        let place = self.count(lens[time], time, rank)?;
        let is_part = self.apply(Op::Less, &[&place, &counts]);
        let (one, from_end) = (self.integer(1), self.sub(&counts, &place));
        let mirrored = self.sub(&from_end, &one);
        let places = self.choose(&is_part, &mirrored, &place);
        let places = self.expand(&places, &lens);
        let value = self.with(Op::GatherElements, &[&x, &places], Attributes::new().int("axis", time as i64));
        self.finish(0, &value);
        Ok(())
    }

    /// `(Σ|x|ᵖ)^(1/p)` of windows.
    pub(super) fn pool_norm(&mut self) -> Read<()> {
        let x = self.input(0)?;
        let p = self.node.int("p").unwrap_or(2);
        let kernel = self.node.ints("kernel_shape").ok_or("lacks its kernel_shape")?.to_vec();
        let mut attributes =
            self.reader.window(self.node, &["kernel_shape", "strides", "pads", "dilations"])?;
        if self.node.int("ceil_mode").unwrap_or(0) != 0 {
            return Err("rounds its number of windows up".to_owned());
        }
        attributes = attributes.int("count_include_pad", 1);
        let powers = self.powers(&x, p);
        let mean = self.with(Op::AveragePool, &[&powers], attributes);
        let count = self.number(kernel.iter().map(|side| *side as f64).product());
        let sum = self.mul(&mean, &count);
        let value = self.root(&sum, p);
        self.finish(0, &value);
        Ok(())
    }

    /// The same of all places of each channel.
    pub(super) fn pool_norm_globally(&mut self) -> Read<()> {
        let x = self.input(0)?;
        let p = self.node.int("p").unwrap_or(2);
        let axes: Vec<i64> = (2..).take(self.rank(&x)?.saturating_sub(2)).collect();
        let powers = self.powers(&x, p);
        let sum = self.reduce(Op::ReduceSum, &powers, &axes, true);
        let value = self.root(&sum, p);
        self.finish(0, &value);
        Ok(())
    }

    fn powers(&mut self, x: &str, p: i64) -> String {
        let size = self.apply(Op::Abs, &[x]);
        match p {
            1 => size,
            2 => self.mul(&size, &size),
            _ => {
                let exponent = self.number(p as f64);
                self.apply(Op::Pow, &[&size, &exponent])
            }
        }
    }

    fn root(&mut self, sum: &str, p: i64) -> String {
        match p {
            1 => sum.to_owned(),
            2 => self.apply(Op::Sqrt, &[sum]),
            _ => {
                let exponent = self.number(1.0 / p as f64);
                self.apply(Op::Pow, &[sum, &exponent])
            }
        }
    }

    /// The determinant of small matrices.
    pub(super) fn determinant(&mut self) -> Read<()> {
        let x = self.input(0)?;
        let rank = self.rank(&x)?;
        let side = rank.checked_sub(1).map(|last| self.len(&x, last)).ok_or("takes no matrix")??;
        let element = |parts: &mut Self, row: i64, column: i64| {
            let (row, column) = (parts.integer(row), parts.integer(column));
            let rows = parts.gather(&x, &row, -2);
            parts.gather(&rows, &column, -1)
        };
        let minor = |parts: &mut Self, rows: [i64; 2], columns: [i64; 2]| {
            let [a, b] = columns.map(|column| element(parts, rows[0], column));
            let [c, d] = columns.map(|column| element(parts, rows[1], column));
            let (ad, bc) = (parts.mul(&a, &d), parts.mul(&b, &c));
            parts.sub(&ad, &bc)
        };
        let value = match side {
            2 => minor(self, [0, 1], [0, 1]),
            3 => {
                let mut sum = None;
                for (column, others) in [(0, [1, 2]), (1, [2, 0]), (2, [0, 1])] {
                    let own = minor(self, [1, 2], others);
                    let (row, place) = (self.integer(0), self.integer(column));
                    let first = self.gather(&x, &row, -2);
                    let first = self.gather(&first, &place, -1);
                    let product = self.mul(&first, &own);
                    sum = self.both(sum, Some(product));
                }
                sum.ok_or("takes no matrix")?
            }
            side => return Err(format!("takes matrices of {side} rows; those of 2 or 3 are supported")),
        };
        self.finish(0, &value);
        Ok(())
    }

    /// A convolution of each channel over the places before, and those that come before the first.
    pub(super) fn convolve_causally(&mut self) -> Read<()> {
        let (x, weight) = (self.input(0)?, self.input(1)?);
        let (channels, kernel) = (self.len(&x, 1)?, self.len(&weight, 2)?);
        let padded = match self.optional(3)? {
            Some(state) => self.concat(&[&state, &x], 2),
            None => {
                let mode = Attribute::Text("constant".to_owned());
                let pads = vec![0, 0, kernel - 1, 0, 0, 0];
                self.with(Op::Pad, &[&x], Attributes::new().ints("pads", pads).with("mode", mode))
            }
        };
        let mut inputs = vec![padded.clone(), weight];
        inputs.extend(self.optional(2)?);
        let names: Vec<&str> = inputs.iter().map(String::as_str).collect();
        let mut value = self.with(Op::Conv, &names, Attributes::new().int("group", channels));
        let dims = self.dims(&x)?;
        self.reader.set_shape(&value, Some(dims));
        match self.node.text("activation") {
            None | Some("none") => {}
            Some("silu" | "swish") => value = self.apply(Op::Swish, &[&value]),
            Some(other) => return Err(format!("has the unknown activation '{}'", other.escape_debug())),
        }
        self.finish(0, &value);
        let len = self.len(&padded, 2)?;
        let state = self.slice(&padded, 2, len - (kernel - 1), i64::MAX);
        self.finish(1, &state);
        Ok(())
    }

    /// A value as it is, and whether each of its numbers is kept, which all are.
    pub(super) fn drop_nothing(&mut self) -> Read<()> {
        let is_known = |name: &str, wanted: f64| self.reader.number(name) == Some(wanted);
        let is_off = self.given(2).is_none_or(|mode| is_known(mode, 0.0));
        if !is_off && !self.given(1).is_some_and(|ratio| is_known(ratio, 0.0)) {
            return Err("is in training mode, or its mode is not known".to_owned());
        }
        let x = self.input(0)?;
        // A number is NaN, or equals itself.
        let (is_nothing, is_number) =
            (self.apply(Op::from("IsNaN"), &[&x]), self.apply(Op::Equal, &[&x, &x]));
        let mask = self.apply(Op::Or, &[&is_nothing, &is_number]);
        self.finish(1, &mask);
        self.finish(0, &x);
        Ok(())
    }

    /// Numbers from one on to before another, with bounds and a step that are known.
    pub(super) fn steps(&mut self) -> Read<()> {
        let bounds = [0, 1, 2].map(|at| self.given(at).and_then(|name| self.reader.number(name)));
        let [Some(first), Some(end), Some(step)] = bounds else {
            return Err("has bounds that are computed from the model's input".to_owned());
        };
        let count = ((end - first) / step).ceil().max(0.0);
        if count.is_nan() || count > MOST as f64 {
            return Err(format!("makes {count} numbers"));
        }
        let numbers: Vec<f64> = (0..count as i64).map(|place| first + place as f64 * step).collect();
        let len = numbers.len() as i64;
        let value = match self.is_real(0) {
            true => self.numbers(numbers, &[len]),
            false => self.integers(numbers.into_iter().map(|number| number as i64).collect(), &[len]),
        };
        self.finish(0, &value);
        Ok(())
    }

    /// The places of an axis, or of all numbers, that a condition chooses which is known.
    pub(super) fn keep_chosen(&mut self) -> Read<()> {
        let condition = self.given(1).and_then(|name| self.reader.ints(name)?.known());
        let condition = condition.ok_or("makes as many numbers as the model's input chooses")?;
        let x = self.input(0)?;
        let (x, axis) = match self.node.int("axis") {
            Some(axis) => (x, axis),
            None => (self.reshape(&x, &[-1]), 0),
        };
        let places: Vec<i64> =
            (0..).zip(condition).filter(|(_, chosen)| *chosen != 0).map(|(place, _)| place).collect();
        let count = places.len() as i64;
        let places = self.integers(places, &[count]);
        let value = self.gather(&x, &places, axis);
        self.finish(0, &value);
        Ok(())
    }

    /// Whether there is a value, which the model shows.
    pub(super) fn has_element(&mut self) -> Read<()> {
        let value = self.integer(self.given(0).is_some().into());
        self.finish(0, &value);
        Ok(())
    }
}
