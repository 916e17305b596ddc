//! Kinds of layers by their names and numbers, and what the axes of their blobs mean.

use ckpt_api::Axis;

/// Kinds of 2014: their numbers, names in texts, and names of today.
const OLD: [(i64, &str, &str); 39] = [
    (1, "ACCURACY", "Accuracy"),
    (2, "BNLL", "BNLL"),
    (3, "CONCAT", "Concat"),
    (4, "CONVOLUTION", "Convolution"),
    (5, "DATA", "Data"),
    (6, "DROPOUT", "Dropout"),
    (7, "EUCLIDEAN_LOSS", "EuclideanLoss"),
    (8, "FLATTEN", "Flatten"),
    (9, "HDF5_DATA", "HDF5Data"),
    (10, "HDF5_OUTPUT", "HDF5Output"),
    (11, "IM2COL", "Im2col"),
    (12, "IMAGE_DATA", "ImageData"),
    (13, "INFOGAIN_LOSS", "InfogainLoss"),
    (14, "INNER_PRODUCT", "InnerProduct"),
    (15, "LRN", "LRN"),
    (16, "MULTINOMIAL_LOGISTIC_LOSS", "MultinomialLogisticLoss"),
    (17, "POOLING", "Pooling"),
    (18, "RELU", "ReLU"),
    (19, "SIGMOID", "Sigmoid"),
    (20, "SOFTMAX", "Softmax"),
    (21, "SOFTMAX_LOSS", "SoftmaxWithLoss"),
    (22, "SPLIT", "Split"),
    (23, "TANH", "TanH"),
    (24, "WINDOW_DATA", "WindowData"),
    (25, "ELTWISE", "Eltwise"),
    (26, "POWER", "Power"),
    (27, "SIGMOID_CROSS_ENTROPY_LOSS", "SigmoidCrossEntropyLoss"),
    (28, "HINGE_LOSS", "HingeLoss"),
    (29, "MEMORY_DATA", "MemoryData"),
    (30, "ARGMAX", "ArgMax"),
    (31, "THRESHOLD", "Threshold"),
    (32, "DUMMY_DATA", "DummyData"),
    (33, "SLICE", "Slice"),
    (34, "MVN", "MVN"),
    (35, "ABSVAL", "AbsVal"),
    (36, "SILENCE", "Silence"),
    (37, "CONTRASTIVE_LOSS", "ContrastiveLoss"),
    (38, "EXP", "Exp"),
    (39, "DECONVOLUTION", "Deconvolution"),
];

/// The name of today of a kind of 2014 by its number, or that number.
pub(crate) fn numbered(number: i64) -> String {
    let known = OLD.iter().find(|(own, ..)| *own == number);
    known.map_or_else(|| format!("kind {number}"), |(.., name)| (*name).to_owned())
}

/// The name of today of a kind in a text.
pub(crate) fn named(kind: &str) -> &str {
    OLD.iter().find(|(_, own, _)| *own == kind).map_or(kind, |(.., name)| name)
}

/// What the axes of a blob mean, if its kind states it. Blobs of 2014 have four axes, of which the first ones of vectors and
/// matrices have the length 1.
pub(crate) fn axes(kind: &str, blob: usize, is_transposed: bool, shape: &[u64]) -> Option<Vec<Axis>> {
    const KERNEL: [Axis; 3] = [Axis::KernelZ, Axis::KernelY, Axis::KernelX];
    let windowed = |first: [Axis; 2]| {
        let sides = shape.len().checked_sub(2).filter(|sides| (1..=3).contains(sides))?;
        Some([&first, KERNEL.get(3 - sides..)?].concat())
    };
    let padded = |last: &[Axis]| {
        let units = shape.len().checked_sub(last.len())?;
        let is_unit = shape.iter().take(units).all(|len| *len == 1);
        is_unit.then(|| [&vec![Axis::Unit; units], last].concat())
    };
    match (kind, blob) {
        ("Convolution", 0) => windowed([Axis::Out, Axis::In]),
        ("Deconvolution", 0) => windowed([Axis::In, Axis::Out]),
        ("InnerProduct", 0) if is_transposed => padded(&[Axis::In, Axis::Out]),
        ("InnerProduct", 0) => padded(&[Axis::Out, Axis::In]),
        ("Embed", 0) => padded(&[Axis::Feature, Axis::Out]),
        ("Convolution" | "Deconvolution" | "InnerProduct" | "Embed", 1) => padded(&[Axis::Out]),
        ("BatchNorm" | "Scale", 0 | 1) if shape.len() == 1 => padded(&[Axis::Out]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_2014_have_the_names_of_today() {
        assert_eq!((named("INNER_PRODUCT"), named("ReLU")), ("InnerProduct", "ReLU"));
        assert_eq!((numbered(4), numbered(0)), ("Convolution".to_owned(), "kind 0".to_owned()));
    }

    #[test]
    fn axes_of_old_blobs_are_the_last_ones() {
        let own = |kind, blob, shape: &[u64]| axes(kind, blob, false, shape);
        assert_eq!(
            own("InnerProduct", 0, &[1, 1, 3, 4]),
            Some(vec![Axis::Unit, Axis::Unit, Axis::Out, Axis::In])
        );
        assert_eq!(own("InnerProduct", 0, &[2, 1, 3, 4]), None);
        assert_eq!(own("Convolution", 0, &[4, 2, 3]), Some(vec![Axis::Out, Axis::In, Axis::KernelX]));
        assert_eq!(own("Convolution", 0, &[4, 2]), None);
    }
}
