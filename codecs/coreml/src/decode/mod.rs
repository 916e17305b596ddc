//! Dense elements of compressed weights: bits that are integers, indices of a table, or elements behind a mask.

mod bits;
mod dense;
mod grid;
mod recipe;

pub(crate) use grid::Grid;
pub(crate) use recipe::{Numbers, Piece, Recipe};

use ckpt_api::{Decoder, Error, Parameters, Result};
use std::io;

/// Makes dense elements of stored bits.
pub(crate) const WEIGHTS: &Decoder = &Decoder::whole("coreml.weights", |_, _| u64::MAX, decode);

/// All elements of a recipe, whose items are the stored bytes.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for items that do not fit the recipe.
pub(crate) fn decoded(recipe: &Recipe, stored: &[u8]) -> Result<Vec<u8>> {
    let len = recipe.elements.checked_mul(recipe.width).and_then(|len| usize::try_from(len).ok());
    let mut out = vec![0; len.ok_or_else(|| Error::corrupt("weights have too many elements"))?];
    dense::fill(&recipe.whole(), stored, &mut out).map_err(|what| Error::corrupt(what.to_owned()))?;
    Ok(out)
}

fn decode(stored: &[u8], parameters: &Parameters, out: &mut [u8]) -> io::Result<usize> {
    let piece =
        Piece::of(parameters).ok_or_else(|| io::Error::other("the recipe of the weights is not whole"))?;
    dense::fill(&piece, stored, out).map_err(|what| io::Error::other(what.to_owned()))?;
    Ok(out.len())
}
