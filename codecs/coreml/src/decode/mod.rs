//! Dense elements of compressed weights: bits that are integers, indices of a table, or elements behind a mask.

mod bits;
mod dense;
mod grid;
mod recipe;

pub(crate) use grid::Grid;
pub(crate) use recipe::{Numbers, Piece, Recipe};

use ckpt_api::{Compression, Decoder, Error, Extent, FileId, Parameters, Result};
use recipe::PIECE;
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

impl Recipe {
    /// The extents of the elements, whose items are the stored bytes from `offset` of a file on. `count` gets the bytes of
    /// tables and scales that pieces repeat.
    ///
    /// # Errors
    /// Those of `count`.
    pub(crate) fn extents(
        &self,
        file: FileId,
        offset: u64,
        mut count: impl FnMut(u64) -> Result<()>,
    ) -> Result<Vec<Extent>> {
        let is_vector = matches!(self.numbers, Numbers::Table { vector: 2.., .. });
        let step = if is_vector { self.elements } else { PIECE };
        let (mut extents, mut first, mut items) = (Vec::new(), 0u64, 0u64);
        let mut once = self.held();
        while first < self.elements {
            let range = first..first.saturating_add(step).min(self.elements);
            let own = self.items(&range);
            let start = items.saturating_mul(self.bits.into());
            let end = items.saturating_add(own).saturating_mul(self.bits.into()).div_ceil(8);
            let piece = self.piece(&range, start % 8);
            let held = piece.recipe.held();
            count(held.saturating_sub(once))?;
            once = once.saturating_sub(held);
            let stored = Compression::new(WEIGHTS, end.saturating_sub(start / 8));
            let len = (range.end - range.start).saturating_mul(self.width);
            let extent = Extent::new(file, offset.saturating_add(start / 8), len);
            extents.push(extent.with_compression(stored.with_parameters(piece.parameters())));
            (first, items) = (range.end, items.saturating_add(own));
        }
        Ok(extents)
    }
}
