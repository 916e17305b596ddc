//! What is trained: matrices with named axes, and the orders in which bullet stores them.

use crate::architecture::{Factoriser, Net, invalid};
use ckpt_api::{AddedAxis, Axis, Result, Shape, Tensor};

/// The id of the weights that every input bucket shares.
pub(crate) const FACTORISER: &str = "l0f";
/// The id of the weights from the inputs to the output.
pub(crate) const PSQT: &str = "pst";
/// What the weights are called that every input bucket shares on this way.
pub(crate) const PSQT_FACTORISER: &str = "pstf";

/// A matrix, or a vector, which is a matrix of one column.
///
/// Its axes in logical order are bucket, out, in (or feature). bullet's rows are `bucket · size + out`, its columns
/// `bucket · features + feature`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parameter {
    pub(crate) id: String,
    pub(crate) shape: Shape,
    /// Meaning of each axis, and whether it belongs to the rows.
    axes: Vec<(Axis, Part)>,
    /// Whether the axes mean what they are called; not for tensors that the layers do not explain.
    meant: bool,
    /// The id of the tensor whose first columns it is; `None` where it is stored by itself.
    pub(crate) begins: Option<&'static str>,
}

/// What bullet stores under one id: a parameter, perhaps behind others that its first columns are.
#[derive(Clone, Debug)]
pub(crate) struct Stored<'a> {
    pub(crate) id: &'a str,
    pub(crate) parts: Vec<&'a Parameter>,
}

impl<'a> Stored<'a> {
    pub(crate) fn new(before: impl Iterator<Item = &'a Parameter>, own: &'a Parameter) -> Self {
        Stored { id: &own.id, parts: before.chain([own]).collect() }
    }

    /// Whether it is more than the parameter itself.
    pub(crate) fn is_several(&self) -> bool {
        self.parts.len() > 1
    }

    /// `None` where no file can hold them.
    pub(crate) fn elements(&self) -> Option<u64> {
        self.parts.iter().try_fold(0u64, |sum, part| sum.checked_add(part.elements()))
    }

    /// Rows and columns, as bullet counts them.
    pub(crate) fn rows_and_columns(&self) -> (u64, u64) {
        let all = self.parts.iter().map(|part| part.rows_and_columns());
        all.fold((0, 0), |(_, sum), (rows, columns)| (rows, columns.saturating_add(sum)))
    }

    /// Its axes and their lengths, for people.
    pub(crate) fn describe(&self) -> String {
        let parts: Vec<String> = self.parts.iter().map(|part| part.describe()).collect();
        parts.join(", then ")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Row,
    Column,
}

impl Parameter {
    fn new(id: impl Into<String>, axes: &[(Axis, Part, u64)]) -> Result<Self> {
        let id = id.into();
        let shape = Shape::new(axes.iter().map(|(.., len)| *len).collect::<Vec<_>>())
            .map_err(|error| invalid("a tensor is too large").tensor(&id).found(error.to_string()))?;
        let axes = axes.iter().map(|(axis, part, _)| (*axis, *part)).collect();
        Ok(Parameter { id, shape, axes, meant: true, begins: None })
    }

    /// The tensor, of 32-bit floats.
    pub(crate) fn tensor(&self, name: impl Into<String>) -> Tensor {
        let tensor = Tensor::new(name, ckpt_api::DType::F32, self.shape.clone());
        match self.axes() {
            Some(axes) => tensor.with_axes(axes),
            None => tensor,
        }
    }

    /// What the axes mean.
    pub(crate) fn axes(&self) -> Option<Vec<Axis>> {
        self.meant.then(|| self.axes.iter().map(|(axis, _)| *axis).collect())
    }

    /// What an axis is called.
    pub(crate) fn axis_name(&self, axis: usize) -> &'static str {
        self.axes.get(axis).map_or("", |(axis, _)| axis.name())
    }

    pub(crate) fn elements(&self) -> u64 {
        self.shape.elements()
    }

    /// The stored axis order: columns one behind the other, or rows where transposed.
    pub(crate) fn order(&self, transposed: bool) -> Vec<usize> {
        let of = |wanted: Part| {
            (0..self.axes.len()).filter(move |k| self.axes.get(*k).is_some_and(|(_, part)| *part == wanted))
        };
        match transposed {
            true => of(Part::Row).chain(of(Part::Column)).collect(),
            false => of(Part::Column).chain(of(Part::Row)).collect(),
        }
    }

    /// Rows and columns, as bullet counts them.
    pub(crate) fn rows_and_columns(&self) -> (u64, u64) {
        let product = |wanted: Part| {
            let axes = self.axes.iter().zip(self.shape.iter()).filter(|((_, part), _)| *part == wanted);
            axes.map(|(_, len)| *len).product()
        };
        (product(Part::Row), product(Part::Column))
    }

    /// For each axis of this one, where the values of `other` go that is added to it; `None` where it does not fit.
    pub(crate) fn along(&self, other: &Parameter) -> Option<Vec<AddedAxis>> {
        let lens = |parameter: &Parameter| -> Vec<(Axis, u64)> {
            parameter.axes.iter().map(|(axis, _)| *axis).zip(parameter.shape.iter().copied()).collect()
        };
        let (own, theirs) = (lens(self), lens(other));
        let fits = theirs.iter().all(|axis| own.contains(axis));
        fits.then(|| {
            let place = |axis| theirs.iter().position(|other| other == axis);
            own.iter().map(|axis| place(axis).map_or(AddedAxis::Every, AddedAxis::Along)).collect()
        })
    }

    /// Its axes and their lengths, for people.
    pub(crate) fn describe(&self) -> String {
        let axes = self.axes.iter().zip(self.shape.iter());
        let axes: Vec<String> = axes.map(|((axis, _), len)| format!("{} {len}", axis.name())).collect();
        axes.join(" × ")
    }
}

/// Everything that a net trains, in the order of its layers.
pub(crate) fn parameters(net: &Net) -> Result<Vec<Parameter>> {
    let mut found = Vec::new();
    let input = |len: Option<u64>| len.map(|len| (Axis::Bucket, Part::Column, len));
    let features = (Axis::Feature, Part::Column, net.input.features);
    let buckets = input(net.input.buckets.as_ref().map(|buckets| buckets.count));
    let factoriser = |id, out, whole| {
        let own = Parameter::new(id, &axes(None, out, Some(features)))?;
        Ok(Parameter { begins: (net.input.factoriser == Factoriser::Columns).then_some(whole), ..own })
    };
    if net.psqt {
        let out = (Axis::Out, Part::Row, 1);
        found.push(Parameter::new(PSQT, &axes(buckets, out, Some(features)))?);
        if net.input.factoriser == Factoriser::Columns {
            found.push(factoriser(PSQT_FACTORISER, out, PSQT)?);
        }
    }
    let mut width = 0;
    for (index, layer) in net.layers.iter().enumerate() {
        let out = (Axis::Out, Part::Row, layer.size);
        let bucketed = layer.bucketed.unwrap_or(index > 0);
        let choice = net.output_buckets.as_ref().filter(|_| bucketed);
        let choice = choice.map(|buckets| (Axis::Bucket, Part::Row, buckets.count));
        if index == 0 {
            found.push(Parameter::new("l0w", &axes(buckets, out, Some(features)))?);
            if net.input.factoriser != Factoriser::None {
                found.push(factoriser(FACTORISER, out, "l0w")?);
            }
        } else {
            let weights = axes(choice, out, Some((Axis::In, Part::Column, width)));
            found.push(Parameter::new(format!("l{index}w"), &weights)?);
        }
        found.push(Parameter::new(format!("l{index}b"), &axes(choice, out, None))?);
        // Sizes are below 2^32, so that nothing overflows here.
        width = layer.size;
        if layer.pairwise {
            width /= 2;
        }
        if index == 0 {
            width *= net.input.perspectives;
        }
        if layer.dual {
            width *= 2;
        }
    }
    for matrix in &net.tensors {
        let axes = [(Axis::Out, Part::Row, matrix.rows), (Axis::In, Part::Column, matrix.columns)];
        let mut parameter = Parameter::new(&matrix.id, &axes)?;
        parameter.meant = false;
        found.push(parameter);
    }
    Ok(found)
}

type Named = (Axis, Part, u64);

fn axes(bucket: Option<Named>, out: Named, input: Option<Named>) -> Vec<Named> {
    bucket.into_iter().chain([out]).chain(input).collect()
}
