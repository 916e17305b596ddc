//! Makes the elements of a piece.

use super::bits::{Bits, signed};
use super::recipe::{Numbers, Piece, Recipe, cycled};
use half::f16;

const TOO_FEW: &str = "the stored items are too few";
const NO_TABLE: &str = "a group has no table or scale";

/// Fills the elements of a piece. `Err` says what does not fit.
pub(crate) fn fill(piece: &Piece, stored: &[u8], out: &mut [u8]) -> Result<(), &'static str> {
    let recipe = &piece.recipe;
    let width =
        usize::try_from(recipe.width).ok().filter(|width| *width > 0).ok_or("elements have no bytes")?;
    match &recipe.numbers {
        Numbers::Plain if recipe.bits == 16 && width == 4 => {
            widened(stored, out);
            Ok(())
        }
        Numbers::Plain if recipe.bits >= 8 => copied(recipe, stored, out, width),
        Numbers::Table { vector: 2.., .. } => vectors(piece, stored, out, width),
        _ => each(piece, stored, out, width),
    }
}

/// Whether an element, counted from the piece's first, has an item.
fn has_item(recipe: &Recipe, element: usize) -> bool {
    let Some(mask) = &recipe.mask else { return true };
    mask.get(element / 8).is_some_and(|byte| byte >> (element % 8) & 1 != 0)
}

/// Items of whole bytes as they are.
fn copied(recipe: &Recipe, stored: &[u8], out: &mut [u8], width: usize) -> Result<(), &'static str> {
    let mut items = stored.chunks_exact(width);
    for (element, place) in out.chunks_exact_mut(width).enumerate() {
        match has_item(recipe, element) {
            true => place.copy_from_slice(items.next().ok_or(TOO_FEW)?),
            false => place.fill(0),
        }
    }
    Ok(())
}

/// 16-bit floats as those of 32 bits.
fn widened(stored: &[u8], out: &mut [u8]) {
    let (halves, places) = (stored.as_chunks::<2>().0, out.as_chunks_mut::<4>().0);
    for (half, place) in halves.iter().zip(places) {
        *place = f16::from_le_bytes(*half).to_f32().to_le_bytes();
    }
}

/// One item for each element, in runs that share a group.
fn each(piece: &Piece, stored: &[u8], out: &mut [u8], width: usize) -> Result<(), &'static str> {
    let recipe = &piece.recipe;
    let mut items = Bits::new(stored, piece.skip, recipe.bits, recipe.is_high_first);
    let run = match &recipe.numbers {
        Numbers::Plain => u64::MAX,
        Numbers::Table { grid, .. } | Numbers::Shifted { grid, .. } => grid.run(),
        Numbers::Linear { run, .. } => (*run).max(1),
    };
    let (mut at, mut element, mut rest) = (piece.first, 0usize, out);
    while !rest.is_empty() {
        let left = run - at % run;
        let len = usize::try_from(left).unwrap_or(usize::MAX).saturating_mul(width).min(rest.len());
        let (own, after) = rest.split_at_mut(len);
        let maker = Maker::of(piece, at, width)?;
        for place in own.chunks_exact_mut(width) {
            match has_item(recipe, element) {
                true => maker.put(items.next().ok_or(TOO_FEW)?, place)?,
                false => place.fill(0),
            }
            element += 1;
        }
        (at, rest) = (at.saturating_add(left), after);
        if own.len() < width {
            break;
        }
    }
    Ok(())
}

/// What makes the elements of a run.
enum Maker<'a> {
    Plain { signed_bits: Option<u32> },
    Table(&'a [u8]),
    Shifted { scale: f32, offset: f32, signed_bits: Option<u32> },
    Linear { scale: f64, bias: f64, signed_bits: Option<u32> },
}

impl<'a> Maker<'a> {
    fn of(piece: &'a Piece, element: u64, width: usize) -> Result<Self, &'static str> {
        let recipe = &piece.recipe;
        let signed_bits = recipe.is_signed.then_some(recipe.bits);
        let place = |group: u64| usize::try_from(group).map_err(|_| NO_TABLE);
        Ok(match &recipe.numbers {
            Numbers::Plain => Maker::Plain { signed_bits },
            Numbers::Table { grid, entries, .. } => {
                let group = place(grid.group(element).checked_sub(piece.base).ok_or(NO_TABLE)?)?;
                let len = width << recipe.bits.min(8);
                let start = group.checked_mul(len).ok_or(NO_TABLE)?;
                Maker::Table(entries.get(start..).and_then(|rest| rest.get(..len)).ok_or(NO_TABLE)?)
            }
            Numbers::Shifted { grid, scales, offsets } => {
                let group = place(grid.group(element).checked_sub(piece.base).ok_or(NO_TABLE)?)?;
                let scale = *scales.get(group).ok_or(NO_TABLE)?;
                let offset = if offsets.is_empty() { 0.0 } else { *offsets.get(group).ok_or(NO_TABLE)? };
                Maker::Shifted { scale, offset, signed_bits }
            }
            Numbers::Linear { scales, biases, run } => {
                let number = (element / (*run).max(1)).checked_sub(piece.base).ok_or(NO_TABLE)?;
                let of =
                    |list: &[f64], default| list.get(cycled(number, list.len())).copied().unwrap_or(default);
                Maker::Linear { scale: of(scales, 1.0), bias: of(biases, 0.0), signed_bits }
            }
        })
    }

    fn put(&self, item: u8, place: &mut [u8]) -> Result<(), &'static str> {
        match self {
            Maker::Plain { signed_bits } => {
                let byte = signed_bits.map_or(item, |bits| signed(item, bits).cast_unsigned());
                place.fill(byte);
            }
            Maker::Table(table) => {
                let entry = table.chunks_exact(place.len()).nth(item.into()).ok_or(NO_TABLE)?;
                place.copy_from_slice(entry);
            }
            Maker::Shifted { scale, offset, signed_bits } => {
                let integer = signed_bits.map_or(f32::from(item), |bits| f32::from(signed(item, bits)));
                write(place, (integer - offset) * scale)?;
            }
            Maker::Linear { scale, bias, signed_bits } => {
                let integer = signed_bits.map_or(f64::from(item), |bits| f64::from(signed(item, bits)));
                // The nearest float.
                write(place, (integer * scale + bias) as f32)?;
            }
        }
        Ok(())
    }
}

/// Writes a float of 32 or 16 bits.
fn write(place: &mut [u8], number: f32) -> Result<(), &'static str> {
    match place.len() {
        4 => place.copy_from_slice(&number.to_le_bytes()),
        2 => place.copy_from_slice(&f16::from_f32(number).to_le_bytes()),
        _ => return Err("elements are no floats of 16 or 32 bits"),
    }
    Ok(())
}

/// Items that stand for several neighbors along an axis. A piece is the whole tensor.
fn vectors(piece: &Piece, stored: &[u8], out: &mut [u8], width: usize) -> Result<(), &'static str> {
    let recipe = &piece.recipe;
    let Numbers::Table { grid, entries, vector, axis_len, stride } = &recipe.numbers else {
        return Err(NO_TABLE);
    };
    let (axis_len, stride) = ((*axis_len).max(1), (*stride).max(1));
    let table = width.checked_mul(usize::try_from(*vector).map_err(|_| NO_TABLE)?).ok_or(NO_TABLE)?;
    let table = table.checked_mul(1 << recipe.bits.min(8)).ok_or(NO_TABLE)?;
    for (element, place) in (0u64..).zip(out.chunks_exact_mut(width)) {
        let (outer, index) = (element / stride / axis_len, element / stride % axis_len);
        let at = outer.saturating_mul(axis_len / vector).saturating_add(index / vector);
        let at =
            at.saturating_mul(stride).saturating_add(element % stride).saturating_mul(recipe.bits.into());
        let item = Bits::new(stored, at, recipe.bits, recipe.is_high_first).next().ok_or(TOO_FEW)?;
        let start = usize::try_from(grid.group(element)).ok().and_then(|group| group.checked_mul(table));
        let own = u64::from(item).saturating_mul(*vector).saturating_add(index % vector);
        let entry = usize::try_from(own).ok().and_then(|own| start?.checked_add(own.checked_mul(width)?));
        let entry = entry.and_then(|entry| entries.get(entry..)?.get(..width)).ok_or(NO_TABLE)?;
        place.copy_from_slice(entry);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::grid::Grid;
    use super::*;

    fn recipe(bits: u32, width: u64, elements: u64, numbers: Numbers) -> Recipe {
        Recipe { bits, is_signed: false, is_high_first: false, width, elements, numbers, mask: None }
    }

    fn filled(recipe: &Recipe, stored: &[u8]) -> Result<Vec<u8>, &'static str> {
        let mut out = vec![9; usize::try_from(recipe.elements * recipe.width).unwrap()];
        fill(&recipe.whole(), stored, &mut out).map(|()| out)
    }

    fn floats(bytes: &[u8]) -> Vec<f32> {
        bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    }

    #[test]
    fn small_integers_are_bytes_with_their_sign() {
        let mut own = recipe(4, 1, 3, Numbers::Plain);
        assert_eq!(filled(&own, &[0xf1, 0x08]).unwrap(), [1, 15, 8]);
        own.is_signed = true;
        assert_eq!(filled(&own, &[0xf1, 0x08]).unwrap(), [1, 0xff, 0xf8]);
        assert_eq!(filled(&own, &[0xf1]), Err(TOO_FEW));
    }

    #[test]
    fn elements_without_a_bit_in_the_mask_are_zero() {
        let mut own = recipe(16, 2, 4, Numbers::Plain);
        own.mask = Some(vec![0b1010]);
        assert_eq!(filled(&own, &[1, 2, 3, 4]).unwrap(), [0, 0, 1, 2, 0, 0, 3, 4]);
        assert_eq!(filled(&own, &[1, 2]), Err(TOO_FEW));
    }

    #[test]
    fn each_group_has_its_own_table() {
        let grid = Grid::new(vec![2, 2], vec![2, 1]).unwrap();
        let entries = vec![10, 11, 20, 21];
        let table = Numbers::Table { grid, entries, vector: 1, axis_len: 1, stride: 1 };
        assert_eq!(filled(&recipe(1, 1, 4, table), &[0b0110]).unwrap(), [10, 11, 21, 20]);
    }

    #[test]
    fn an_item_stands_for_neighbors_along_its_axis() {
        // Indices [1, 2] of pairs along axis 0 of [2, 2].
        let grid = Grid::new(vec![2, 2], vec![1, 1]).unwrap();
        let entries = vec![10, 11, 20, 21];
        let table = Numbers::Table { grid, entries, vector: 2, axis_len: 2, stride: 2 };
        assert_eq!(filled(&recipe(1, 1, 4, table), &[0b10]).unwrap(), [10, 20, 11, 21]);
    }

    #[test]
    fn blocks_have_scales_and_offsets() {
        let grid = Grid::new(vec![2, 2], vec![1, 2]).unwrap();
        let shifted = Numbers::Shifted { grid, scales: vec![0.5, 2.0], offsets: vec![1.0, 0.0] };
        let mut own = recipe(8, 4, 4, shifted);
        own.is_signed = true;
        assert_eq!(floats(&filled(&own, &[3, 4, 0xff, 0x80]).unwrap()), [1.0, 8.0, -1.0, -256.0]);
    }

    #[test]
    fn product_and_sum_of_a_network_are_rounded_once() {
        let linear = Numbers::Linear { scales: vec![0.1, 0.2], biases: vec![-0.3], run: 1 };
        let mut own = recipe(4, 4, 3, linear);
        own.is_high_first = true;
        let expected = [3.0 * 0.1 - 0.3, 1.0 * 0.2 - 0.3, 2.0 * 0.1 - 0.3].map(|number: f64| number as f32);
        assert_eq!(floats(&filled(&own, &[0x31, 0x20]).unwrap()), expected);
    }

    #[test]
    fn a_group_without_a_table_is_refused() {
        let grid = Grid::new(vec![2], vec![2]).unwrap();
        let shifted = Numbers::Shifted { grid, scales: vec![0.5], offsets: vec![] };
        assert_eq!(filled(&recipe(8, 4, 2, shifted), &[3, 4]), Err(NO_TABLE));
    }
}
