//! Kinds of models.

/// What a model is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Program,
    Network,
    /// Models in a row, in the field with this number of the message; 0 if it is the message itself.
    Pipeline(u64),
    /// A model without tensors.
    Other(&'static str),
}

/// Returns the kind that a field of a model states; `None` for a field that states none.
pub(crate) fn kind(number: u64) -> Option<Kind> {
    Some(match number {
        502 => Kind::Program,
        303 | 403 | 500 => Kind::Network,
        202 => Kind::Pipeline(0),
        200 | 201 => Kind::Pipeline(1),
        300 | 400 => Kind::Other("a generalized linear model"),
        301 | 401 => Kind::Other("a support vector machine"),
        302 | 402 => Kind::Other("a tree ensemble"),
        304 => Kind::Other("a Bayesian probit regressor"),
        404 => Kind::Other("a nearest neighbors classifier"),
        501 => Kind::Other("an item similarity recommender"),
        555 => Kind::Other("a model of custom code"),
        556 => Kind::Other("a link to another model"),
        560 => Kind::Other("a threshold of classes"),
        600..=609 => Kind::Other("a transformer of features"),
        610 => Kind::Other("a suppression of overlapping boxes"),
        900 => Kind::Other("an identity"),
        2000..=2006 => Kind::Other("a model of Apple's Create ML"),
        3000 => Kind::Other("a serialized model"),
        _ => return None,
    })
}
