//! Numbers that become integers which stand for them.

use crate::{
    AffineIntegers, Along, Computed, DType, Encoding, Error, Extent, Extents, FieldOrder, Operation,
    PackedIntegers, Placement, Result, Tensor, Words,
};

impl AffineIntegers {
    /// The integer that stands for a number; NaN for NaN.
    pub fn integer(&self, number: f64, scale: f64) -> f64 {
        let exact = (number - self.offset) / scale;
        let whole = if self.ties_to_even { exact.round_ties_even() } else { exact.round() };
        match whole.is_nan() {
            true => whole,
            false => whole.max(self.least.into()).min(self.most.into()),
        }
    }

    /// The placement of the integers of a dtype that stand for the elements of `tensor`, which `placement` has: they are computed
    /// while the elements are read. With an axis, each index of it has a scale; else all elements have one.
    ///
    /// # Errors
    /// [`crate::Kind::Unsupported`] for elements in blocks or as scaled integers already, for integers of other than 8 and 16 bits,
    /// and with an axis, for a tensor that is stored in several places; [`crate::Kind::Corrupt`] for scales that are 0 or not finite.
    pub fn place(
        mut self,
        tensor: &Tensor,
        placement: &Placement,
        dtype: DType,
        axis: Option<usize>,
    ) -> Result<Placement> {
        let encoding = &placement.encoding;
        let is_plain = encoding.blocks().is_none() && encoding.scaling().is_none();
        let is_whole = match &placement.extents[..] {
            [] => true,
            [extent] => extent.region().is_none() && placement.window().is_none(),
            _ => false,
        };
        if !is_plain || !encoding.tiles().is_empty() || (axis.is_some() && !is_whole) {
            return Err(Error::unsupported(
                "a tensor that is not stored whole, as numbers, cannot be quantized",
            )
            .tensor(&tensor.name)
            .help("convert the checkpoint to safetensors first, with --dtype f32"));
        }
        if let Some(axis) = axis {
            let after = encoding.order.iter().rev().take_while(|own| **own != axis);
            let run: u64 = after.filter_map(|own| tensor.shape.get(*own)).product();
            self.scales.run = run.max(1);
        }
        let integers = Operation::ToIntegers(Box::new(self));
        let extents = placement.extents.iter().map(|extent| computed(extent, encoding, &integers, dtype));
        let extents = extents.collect::<Result<Extents>>().map_err(|error| error.tensor(&tensor.name))?;
        let encoding = Encoding::new(dtype, encoding.order.clone());
        Ok(placement.clone().with_extents(extents).with_encoding(encoding))
    }

    pub(crate) fn check(&self) -> Result<()> {
        let is_wrong = self.scales.numbers.contains(&0.0) || !self.offset.is_finite();
        match is_wrong || self.least > self.most {
            true => Err(Error::corrupt("integers have a scale of 0, no finite offset, or no range")),
            false => Ok(()),
        }
    }
}

/// An extent of integers that are computed from the numbers of another, in the same box of the tensor.
fn computed(extent: &Extent, encoding: &Encoding, integers: &Operation, dtype: DType) -> Result<Extent> {
    let region = extent.region().cloned();
    let numbers = match extent.computed() {
        Some(computed) => computed.clone(),
        None => Computed::new(extent.clone().with_region(None), encoding.clone()),
    };
    let operations = [&numbers.operations[..], std::slice::from_ref(integers)].concat();
    let numbers = numbers.with_operations(operations);
    let count = numbers.elements().ok_or_else(|| Error::corrupt("the elements are not whole ones"))?;
    let bits = dtype.bits().unwrap_or_default();
    let packed = PackedIntegers::new(bits, [1, count], Along::Row, FieldOrder::Dense);
    Ok(numbers.in_words(Words { dtype, packed }).into_extent()?.with_region(region))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileId, RunNumbers, Shape, TensorId};

    fn integers(scales: &[f64], ties_to_even: bool) -> AffineIntegers {
        let scales = RunNumbers { numbers: scales.into(), run: 1 };
        AffineIntegers { scales, offset: 0.0, least: -127, most: 127, ties_to_even }
    }

    #[test]
    fn what_is_between_two_integers_is_rounded_as_stated() {
        let made =
            |even: bool| [0.5, 1.5, -0.5, -2.5].map(|number| integers(&[1.0], even).integer(number, 1.0));
        assert_eq!(made(true), [0.0, 2.0, -0.0, -2.0]);
        assert_eq!(made(false), [1.0, 2.0, -1.0, -3.0]);
        assert!(integers(&[1.0], true).integer(f64::NAN, 1.0).is_nan());
    }

    #[test]
    fn scales_of_an_axis_are_runs_of_the_stored_order() {
        let tensor = Tensor::new("w", DType::F32, Shape::new([2, 3, 4]).unwrap());
        let placed = |order: [usize; 3]| {
            let extent = Extent::new(FileId(0), 8, 96);
            let placement =
                Placement::new(TensorId(0), "w", vec![extent], Encoding::new(DType::F32, order.to_vec()));
            integers(&[0.5, 0.25, 0.125], false).place(&tensor, &placement, DType::I8, Some(1)).unwrap()
        };
        for (order, run) in [([0, 1, 2], 4), ([2, 0, 1], 1), ([1, 2, 0], 8)] {
            let made = placed(order);
            assert_eq!((made.encoding.dtype, &made.encoding.order[..]), (DType::I8, &order[..]));
            let operations = &made.extents[0].computed().unwrap().operations;
            let [Operation::ToIntegers(own)] = &operations[..] else { panic!("{operations:?}") };
            assert_eq!(own.scales.run, run);
        }
    }

    #[test]
    fn a_tensor_in_several_places_has_one_scale() {
        let tensor = Tensor::new("w", DType::F32, Shape::new([2, 3]).unwrap());
        let extents = vec![Extent::new(FileId(0), 8, 12), Extent::new(FileId(1), 0, 12)];
        let placement = Placement::new(TensorId(0), "w", extents, Encoding::row_major(&tensor));
        let place = |scales: &[f64], dtype: DType, axis: Option<usize>| {
            integers(scales, false).place(&tensor, &placement, dtype, axis)
        };
        let lens: Vec<u64> =
            place(&[0.5], DType::U16, None).unwrap().extents.iter().map(|extent| extent.len).collect();
        assert_eq!(lens, [6, 6]);
        assert!(place(&[0.5, 1.0], DType::I8, Some(0)).is_err());
        assert!(place(&[0.0], DType::I8, None).is_err(), "a scale of 0");
        assert!(place(&[0.5], DType::F16, None).is_err(), "no integers");
    }
}
