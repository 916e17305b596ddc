//! What a module is, by its leaves, their shapes and its name.

use super::kinds::{Kind, Kinds};
use super::tree::{Module, Tree};

/// Leaves that belong to layers that are known.
pub(super) const KNOWN: [&str; 7] = ["kernel", "bias", "scale", "mean", "var", "embedding", "negative_slope"];

/// The names of the projections of an attention layer.
pub(super) const PROJECTIONS: [&str; 4] = ["query", "key", "value", "out"];

/// A layer that PyTorch has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layer {
    Dense,
    /// A dense layer of several axes, of which so many are the input's.
    General {
        inputs: usize,
    },
    Conv {
        is_named: bool,
    },
    ConvTranspose {
        has_transposed_kernel: bool,
        is_certain: bool,
    },
    Embedding,
    BatchNorm,
    /// A layer, group, instance or RMS normalization.
    Norm,
    PRelu,
}

/// Why the leaves of a module keep their names and axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    /// No layer that is known has these leaves.
    NoLayer,
    /// Shapes that no such layer has.
    Shapes,
    /// A kernel of three axes.
    ConvOrDense,
    /// A dense layer of several axes without a bias.
    Axes,
    /// The user states it.
    Stated,
}

/// The shapes of a module's leaves: all axes, or those of one of its scanned layers.
#[derive(Clone, Copy)]
pub(super) struct Shapes<'a, 't> {
    pub(super) module: &'a Module<'t>,
    pub(super) is_scanned: bool,
}

impl<'t> Shapes<'_, 't> {
    pub(super) fn of(&self, leaf: &str) -> Option<&'t [u64]> {
        let shape = self.module.get(leaf)?.shape;
        if self.is_scanned { shape.get(1..) } else { Some(shape) }
    }

    fn rank(&self, leaf: &str) -> Option<usize> {
        self.of(leaf).map(<[u64]>::len)
    }

    fn is_vector_or_none(&self, leaf: &str) -> bool {
        !self.module.contains_key(leaf) || self.rank(leaf) == Some(1)
    }
}

/// What the name of a module says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Hint {
    None,
    Conv,
    ConvTranspose {
        kernel: Option<bool>,
    },
    /// A dense layer; the number of the input's axes, if the name says it.
    Dense {
        inputs: Option<usize>,
    },
    Einsum,
    Keep,
}

impl Hint {
    /// What a user, the other modules or the name of a class say of the module at this path.
    pub(super) fn of<'t>(tree: &Tree<'t>, path: &[&'t str], kinds: &Kinds) -> Self {
        match kinds.of(path) {
            Some(Kind::Dense) => return Hint::Dense { inputs: None },
            Some(Kind::Conv) => return Hint::Conv,
            Some(Kind::ConvTranspose) => return Hint::ConvTranspose { kernel: Some(false) },
            Some(Kind::TransposeKernel) => return Hint::ConvTranspose { kernel: Some(true) },
            Some(Kind::Keep) => return Hint::Keep,
            Some(Kind::Scan) | None => {}
        }
        let Some((last, parent)) = path.split_last() else { return Hint::None };
        let is_attention = || PROJECTIONS.iter().all(|name| tree.child(parent, name).is_some());
        match *last {
            "out" if is_attention() => return Hint::Dense { inputs: Some(2) },
            "query" | "key" | "value" => return Hint::Dense { inputs: Some(1) },
            _ => {}
        }
        let name = last.to_ascii_lowercase();
        let has = |word: &str| name.contains(word);
        if has("deconv") || (has("conv") && has("transpose")) {
            Hint::ConvTranspose { kernel: None }
        } else if has("conv") {
            Hint::Conv
        } else if has("einsum") {
            Hint::Einsum
        } else if has("dense") || has("linear") {
            Hint::Dense { inputs: None }
        } else {
            Hint::None
        }
    }
}

/// Reads what a module is; leaves beside those of the layer are no hindrance.
pub(super) fn read(shapes: Shapes<'_, '_>, hint: Hint) -> Result<Layer, Unknown> {
    let has = |leaf: &str| shapes.module.contains_key(leaf);
    let whether = |fits: bool, layer: Layer| if fits { Ok(layer) } else { Err(Unknown::Shapes) };
    if hint == Hint::Keep {
        return Err(Unknown::Stated);
    }
    if has("kernel") {
        return kernel(shapes, hint);
    }
    if has("embedding") {
        return whether(shapes.rank("embedding") == Some(2), Layer::Embedding);
    }
    if has("mean") && has("var") {
        let fits = ["mean", "var", "scale", "bias"].iter().all(|leaf| shapes.is_vector_or_none(leaf));
        return whether(fits, Layer::BatchNorm);
    }
    if has("scale") {
        let fits = shapes.rank("scale") == Some(1) && shapes.is_vector_or_none("bias");
        return whether(fits, Layer::Norm);
    }
    if has("negative_slope") {
        return whether(shapes.rank("negative_slope") == Some(0), Layer::PRelu);
    }
    Err(Unknown::NoLayer)
}

/// Reads what a module with a kernel is.
fn kernel(shapes: Shapes<'_, '_>, hint: Hint) -> Result<Layer, Unknown> {
    let kernel = shapes.of("kernel").ok_or(Unknown::Shapes)?;
    let rank = kernel.len();
    let bias = match shapes.module.contains_key("bias") {
        true => Some(shapes.of("bias").ok_or(Unknown::Shapes)?),
        false => None,
    };
    if hint == Hint::Einsum {
        return Err(Unknown::NoLayer);
    }
    let from_end = |back: usize| rank.checked_sub(back).and_then(|axis| kernel.get(axis)).copied();
    if rank < 2 {
        return Err(Unknown::Shapes);
    }
    if let Some(bias) = bias.filter(|bias| bias.len() > 1) {
        let is_general = bias.len() < rank && kernel.ends_with(bias);
        let inputs = rank.saturating_sub(bias.len());
        return if is_general { Ok(Layer::General { inputs }) } else { Err(Unknown::Shapes) };
    }
    let bias = match bias {
        Some([len]) => Some(*len),
        Some(_) => return Err(Unknown::Shapes),
        None => None,
    };
    let fits_last = bias.is_none_or(|len| from_end(1) == Some(len));
    let is_conv = matches!(hint, Hint::Conv | Hint::None) && fits_last;
    match (rank, hint) {
        (2, _) => {
            if fits_last {
                Ok(Layer::Dense)
            } else {
                Err(Unknown::Shapes)
            }
        }
        (3..=5, Hint::ConvTranspose { kernel }) => transposed([from_end(2), from_end(1)], bias, kernel),
        (3.., Hint::Dense { inputs: Some(inputs) })
            if bias.is_none_or(|_| fits_last && inputs + 1 == rank) =>
        {
            if inputs < rank {
                Ok(Layer::General { inputs })
            } else {
                Err(Unknown::Shapes)
            }
        }
        (3.., Hint::Dense { .. }) if bias.is_some() && fits_last => Ok(Layer::General { inputs: rank - 1 }),
        (3.., Hint::Dense { .. }) => Err(Unknown::Axes),
        (3, Hint::None) if fits_last => Err(Unknown::ConvOrDense),
        (3..=5, _) if is_conv => Ok(Layer::Conv { is_named: hint == Hint::Conv }),
        _ => Err(Unknown::Shapes),
    }
}

/// A transposed convolution: a kernel of `transpose_kernel` has the output's axis before the input's, which a bias shows.
fn transposed(
    [first, second]: [Option<u64>; 2],
    bias: Option<u64>,
    stated: Option<bool>,
) -> Result<Layer, Unknown> {
    let fits = |is_transposed: bool| bias.is_none() || bias == if is_transposed { first } else { second };
    let layer =
        |has_transposed_kernel, is_certain| Layer::ConvTranspose { has_transposed_kernel, is_certain };
    match (stated, fits(false), fits(true)) {
        (Some(stated), ..) if fits(stated) => Ok(layer(stated, true)),
        (None, true, true) => Ok(layer(false, false)),
        (None, true, false) => Ok(layer(false, true)),
        (None, false, true) => Ok(layer(true, true)),
        _ => Err(Unknown::Shapes),
    }
}
