//! The trained matrices of a net, with named axes, and the orders in which bullet stores them.

use super::description::{Factoriser, Layer, Net};
use ckpt_api::{AddedAxis, Axis, DType, Error, Name, Result, Shape, Tensor};

/// The id of the first layer's weights.
pub(crate) const FEATURE_WEIGHTS: &str = "l0w";
/// The id of the first layer's weights that all input buckets share.
pub(crate) const FACTORISER: &str = "l0f";
/// The id of the weights from the inputs to the output.
pub(crate) const PSQT: &str = "pst";
/// The id of the weights from the inputs to the output that all input buckets share.
pub(crate) const PSQT_FACTORISER: &str = "pstf";

/// A trained matrix; a vector is a matrix with one column.
///
/// Its logical axes are bucket, out, in (or feature). bullet's row index is `bucket · size + out` for output buckets,
/// its column index `bucket · features + feature` for input buckets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parameter {
    pub(crate) id: String,
    pub(crate) shape: Shape,
    /// The name of each axis, and the side of the matrix that it belongs to.
    axes: Vec<(Axis, MatrixSide)>,
    /// Whether the axis names are meaningful; for an extra tensor they only number its rows and columns.
    is_named: bool,
    /// The id of the stored weight whose first columns this parameter is; `None` if it is stored under its own id.
    pub(crate) leads: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MatrixSide {
    Row,
    Column,
}

/// An axis of a new parameter, and its length.
type NewAxis = (Axis, MatrixSide, u64);

impl Parameter {
    fn new(id: impl Into<String>, axes: impl IntoIterator<Item = NewAxis>) -> Result<Self> {
        let id = id.into();
        let (axes, dims): (Vec<_>, Vec<u64>) =
            axes.into_iter().map(|(axis, side, len)| ((axis, side), len)).unzip();
        let shape = Shape::new(dims)
            .map_err(|error| Error::usage("a tensor is too large").tensor(&id).found(error.to_string()))?;
        Ok(Parameter { id, shape, axes, is_named: true, leads: None })
    }

    /// A tensor of 32-bit floats with this parameter's shape and axes.
    pub(crate) fn tensor(&self, name: impl Into<Name>) -> Tensor {
        let tensor = Tensor::new(name, DType::F32, self.shape.clone());
        match self.axes() {
            Some(axes) => tensor.with_axes(axes),
            None => tensor,
        }
    }

    /// The logical axes; `None` for an extra tensor.
    pub(crate) fn axes(&self) -> Option<Vec<Axis>> {
        self.is_named.then(|| self.axes.iter().map(|(axis, _)| *axis).collect())
    }

    /// The name of an axis, as layouts and messages use it.
    pub(crate) fn axis_name(&self, axis: usize) -> &'static str {
        self.axes.get(axis).map_or("", |(axis, _)| axis.name())
    }

    pub(crate) fn elements(&self) -> u64 {
        self.shape.elements()
    }

    /// The stored axis order: column by column, or row by row if transposed.
    pub(crate) fn order(&self, transposed: bool) -> Vec<usize> {
        let on = |wanted: MatrixSide| {
            (0..self.axes.len()).filter(move |k| self.axes.get(*k).is_some_and(|(_, side)| *side == wanted))
        };
        match transposed {
            true => on(MatrixSide::Row).chain(on(MatrixSide::Column)).collect(),
            false => on(MatrixSide::Column).chain(on(MatrixSide::Row)).collect(),
        }
    }

    /// The numbers of rows and columns of bullet's matrix.
    pub(crate) fn rows_and_columns(&self) -> (u64, u64) {
        let product = |wanted: MatrixSide| {
            let axes = self.axes.iter().zip(self.shape.iter()).filter(|((_, side), _)| *side == wanted);
            axes.map(|(_, len)| *len).product()
        };
        (product(MatrixSide::Row), product(MatrixSide::Column))
    }

    /// How `other` is broadcast when it is added to this parameter: for each axis of this one, the axis of `other` that
    /// is along it. `None` if `other` has an axis that this parameter lacks.
    pub(crate) fn broadcast(&self, other: &Parameter) -> Option<Vec<AddedAxis>> {
        let lens = |parameter: &Parameter| -> Vec<(Axis, u64)> {
            parameter.axes.iter().map(|(axis, _)| *axis).zip(parameter.shape.iter().copied()).collect()
        };
        let (own, theirs) = (lens(self), lens(other));
        let fits = theirs.iter().all(|axis| own.contains(axis));
        fits.then(|| {
            let position = |axis| theirs.iter().position(|other| other == axis);
            own.iter().map(|axis| position(axis).map_or(AddedAxis::Every, AddedAxis::Along)).collect()
        })
    }

    /// The axes and their lengths, for messages.
    pub(crate) fn describe(&self) -> String {
        let axes = self.axes.iter().zip(self.shape.iter());
        let axes: Vec<String> = axes.map(|((axis, _), len)| format!("{} {len}", axis.name())).collect();
        axes.join(" × ")
    }
}

/// What bullet stores under one id: a parameter, preceded by the parameters that are its first columns.
#[derive(Clone, Debug)]
pub(crate) struct StoredWeight<'a> {
    pub(crate) id: &'a str,
    pub(crate) parts: Vec<&'a Parameter>,
}

impl<'a> StoredWeight<'a> {
    pub(crate) fn new(leading: impl Iterator<Item = &'a Parameter>, own: &'a Parameter) -> Self {
        StoredWeight { id: &own.id, parts: leading.chain([own]).collect() }
    }

    /// Whether other parameters precede the one with this id.
    pub(crate) fn is_composite(&self) -> bool {
        self.parts.len() > 1
    }

    /// The number of elements; `None` if it exceeds 64 bits.
    pub(crate) fn elements(&self) -> Option<u64> {
        self.parts.iter().try_fold(0u64, |sum, part| sum.checked_add(part.elements()))
    }

    /// The numbers of rows and columns of bullet's matrix.
    pub(crate) fn rows_and_columns(&self) -> (u64, u64) {
        let all = self.parts.iter().map(|part| part.rows_and_columns());
        all.fold((0, 0), |(_, sum), (rows, columns)| (rows, columns.saturating_add(sum)))
    }

    /// The axes and their lengths, for messages.
    pub(crate) fn describe(&self) -> String {
        let parts: Vec<String> = self.parts.iter().map(|part| part.describe()).collect();
        parts.join(", then ")
    }
}

/// Returns every parameter of a net whose sizes are checked, in the order of its layers.
pub(super) fn parameters(net: &Net) -> Result<Vec<Parameter>> {
    let mut all = Vec::new();
    if net.psqt {
        let factoriser = (net.input.factoriser == Factoriser::Columns).then_some(PSQT_FACTORISER);
        all.extend(feature_parameters(net, 1, PSQT, factoriser)?);
    }
    let mut inputs = 0;
    for (index, layer) in net.layers.iter().enumerate() {
        let output_buckets = net.output_buckets.as_ref().filter(|_| layer.bucketed.unwrap_or(index > 0));
        let bucket = output_buckets.map(|buckets| (Axis::Bucket, MatrixSide::Row, buckets.count));
        let out = (Axis::Out, MatrixSide::Row, layer.size);
        if index == 0 {
            let factoriser = (net.input.factoriser != Factoriser::None).then_some(FACTORISER);
            all.extend(feature_parameters(net, layer.size, FEATURE_WEIGHTS, factoriser)?);
        } else {
            let input = (Axis::In, MatrixSide::Column, inputs);
            all.push(Parameter::new(format!("l{index}w"), bucket.into_iter().chain([out, input]))?);
        }
        all.push(Parameter::new(format!("l{index}b"), bucket.into_iter().chain([out]))?);
        inputs = outputs(layer) * if index == 0 { net.input.perspectives } else { 1 };
    }
    for extra in &net.tensors {
        let axes = [(Axis::Out, MatrixSide::Row, extra.rows), (Axis::In, MatrixSide::Column, extra.columns)];
        all.push(Parameter { is_named: false, ..Parameter::new(&extra.id, axes)? });
    }
    Ok(all)
}

/// The weights from the features to `size` outputs, and the factoriser's part of them.
fn feature_parameters(
    net: &Net,
    size: u64,
    id: &'static str,
    factoriser: Option<&'static str>,
) -> Result<Vec<Parameter>> {
    let out = (Axis::Out, MatrixSide::Row, size);
    let features = (Axis::Feature, MatrixSide::Column, net.input.features);
    let buckets = net.input.buckets.as_ref().map(|buckets| (Axis::Bucket, MatrixSide::Column, buckets.count));
    let mut all = vec![Parameter::new(id, buckets.into_iter().chain([out, features]))?];
    if let Some(factoriser) = factoriser {
        let leads = (net.input.factoriser == Factoriser::Columns).then_some(id);
        all.push(Parameter { leads, ..Parameter::new(factoriser, [out, features])? });
    }
    Ok(all)
}

/// The values that a layer passes on for one perspective. Sizes are below 2^32, so this cannot overflow.
fn outputs(layer: &Layer) -> u64 {
    match (layer.pairwise, layer.dual) {
        (true, _) => layer.size / 2,
        (false, true) => layer.size * 2,
        (false, false) => layer.size,
    }
}
