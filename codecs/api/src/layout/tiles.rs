//! Logical axes that are stored as several: numbers within numbers, as engines lay them out for their instructions.

use crate::{AxisPart, Encoding, Shape, Tile};

impl Encoding {
    /// Stores the tensor of `rank` axes with these parts of its axes, slowest first, of which `tiles` has the lengths.
    #[must_use]
    pub fn with_stored(mut self, rank: usize, tiles: impl Into<Vec<Tile>>, stored: &[AxisPart]) -> Self {
        let mut tiles = tiles.into();
        tiles.sort_by_key(|tile| tile.axis);
        self.set_tiles(tiles);
        let parts = self.parts(rank);
        // A part that does not exist becomes a number that fits no tensor.
        let number = |wanted: &AxisPart| parts.iter().position(|part| part == wanted);
        self.order = stored.iter().map(|part| number(part).unwrap_or(parts.len())).collect();
        self
    }

    /// What [`Encoding::order`] numbers, for a tensor of `rank` axes: the axes in logical order, each that has a tile
    /// replaced by its parts, the slowest first.
    pub fn parts(&self, rank: usize) -> Vec<AxisPart> {
        let of = |axis| (0..=self.tile(axis).len()).map(move |part| AxisPart { axis, part });
        (0..rank).flat_map(of).collect()
    }

    /// The lengths of an axis's parts but the slowest; none if it is stored as one.
    pub fn tile(&self, axis: usize) -> &[u64] {
        self.tiles().iter().find(|tile| tile.axis == axis).map_or(&[], |tile| &tile.lens)
    }

    /// The lengths of what [`Encoding::order`] numbers, for a tensor of this shape; `None` if a tile does not fit
    /// it.
    pub fn expanded(&self, shape: &Shape) -> Option<Shape> {
        let mut lens = Vec::new();
        for (axis, len) in shape.iter().enumerate() {
            let tile = self.tile(axis);
            let inner = tile.iter().try_fold(1u64, |product, len| product.checked_mul(*len))?;
            lens.push(len.checked_div(inner).filter(|_| len.is_multiple_of(inner))?);
            lens.extend(tile);
        }
        let ordered = self.tiles().is_sorted_by(|a, b| a.axis < b.axis);
        let real = self.tiles().iter().all(|tile| tile.axis < shape.rank() && !tile.lens.is_empty());
        Shape::new(lens).ok().filter(|_| ordered && real)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Tensor};

    /// Axes and the lengths of their parts.
    type Tiles<'a> = &'a [(usize, &'a [u64])];

    fn encoding(shape: &[u64], tiles: Tiles<'_>) -> (Encoding, Shape) {
        let tensor = Tensor::new("t", DType::I16, Shape::new(shape).unwrap());
        let tiles = tiles.iter().map(|(axis, lens)| Tile { axis: *axis, lens: lens.to_vec() });
        (Encoding::row_major(&tensor).with_tiles(tiles.collect::<Vec<_>>()), tensor.shape)
    }

    #[test]
    fn order_numbers_the_parts_in_logical_order() {
        let (encoding, shape) = encoding(&[8, 16, 32], &[(2, &[4])]);
        assert_eq!(encoding.expanded(&shape).unwrap().to_vec(), [8, 16, 8, 4]);
        let part = |axis, part| AxisPart { axis, part };
        let stored = [part(0, 0), part(2, 0), part(1, 0), part(2, 1)];
        let packed = encoding.clone().with_stored(3, encoding.tiles(), &stored);
        assert_eq!(packed.order, [0, 2, 1, 3]);
    }

    #[test]
    fn a_tile_that_does_not_fit_its_tensor_has_no_shape() {
        let wrong: [(&[u64], Tiles<'_>); 6] = [
            (&[6], &[(0, &[4])]),
            (&[8], &[(0, &[0])]),
            (&[8], &[(0, &[])]),
            (&[8], &[(1, &[2])]),
            (&[8], &[(0, &[2]), (0, &[2])]),
            (&[8], &[(0, &[1 << 40, 1 << 40])]),
        ];
        for (shape, tiles) in wrong {
            let (encoding, shape) = encoding(shape, tiles);
            assert_eq!(encoding.expanded(&shape), None, "{tiles:?}");
        }
    }
}
