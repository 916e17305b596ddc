//! Lowers lookups and updates of elements by their places on several axes.

use super::local::Local;
use super::lowering::{Info, Load, Lowering, Negative, Operand, elements, misfit};
use super::strides::row_major;
use crate::Kernel;
use crate::kernel::{Gather, Pairwise, Reduction, Scatter, Update};
use crate::value::Numbers;
use ckpt_api::{Attribute, Error, Result};

/// Lowers the lookup of slices.
pub(super) fn gather_nd(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["batch_dims"])?;
    lowering.allow_roles(&[])?;
    let [data, index] = lowering.exactly()?;
    let stated = lowering.node.int("batch_dims", 0)?;
    let batch = usize::try_from(stated)
        .ok()
        .filter(|batch| *batch < index.shape.len() && data.shape.get(..*batch) == index.shape.get(..*batch));
    let batch = batch.ok_or_else(|| {
        Attribute::Int(stated)
            .invalid("batch_dims", "a number of axes that the inputs share, and have more of")
    })?;
    let slices = Slices::of(data, index, batch)?;
    let shape = [&index.shape[..index.shape.len() - 1], slices.shape].concat();
    let flat = slices.flat(lowering, index)?;
    let columns = elements(slices.shape)?;
    let kernel =
        Gather { rows: flat.info.len(), columns, table: elements(slices.places)?, strides: [columns, 1] };
    let output = lowering.output(shape, data.numbers)?;
    lowering.call(Kernel::Gather(kernel), [Operand::Input(0), flat.operand], output);
    Ok(())
}

/// Lowers a value with slices that are updated.
pub(super) fn scatter_nd(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["reduction"])?;
    lowering.allow_roles(&[])?;
    let [data, index, updates] = lowering.exactly()?;
    lowering.check_numbers(updates, data.numbers)?;
    let slices = Slices::of(data, index, 0)?;
    let wanted = [&index.shape[..index.shape.len() - 1], slices.shape].concat();
    if updates.shape != wanted {
        return Err(misfit(&updates.shape, format!("{wanted:?}, a slice for each index")));
    }
    let flat = slices.flat(lowering, index)?;
    let (columns, table) = (elements(slices.shape)?, elements(slices.places)?);
    let kernel = Scatter { rows: flat.info.len(), columns, table, function: function(lowering)? };
    scattered(lowering, data, kernel, &flat)
}

/// Lowers the lookup of one element for each index.
pub(super) fn gather_elements(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["axis"])?;
    lowering.allow_roles(&[])?;
    let [data, index] = lowering.exactly()?;
    let flat = flat_elements(lowering, data, index)?;
    let kernel = Gather { rows: index.len(), columns: 1, table: elements(&data.shape)?, strides: [1, 1] };
    let output = lowering.output(index.shape.clone(), data.numbers)?;
    lowering.call(Kernel::Gather(kernel), [Operand::Input(0), flat.operand], output);
    Ok(())
}

/// Lowers a value with elements that are updated.
pub(super) fn scatter_elements(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["axis", "reduction"])?;
    lowering.allow_roles(&[])?;
    let [data, index, updates] = lowering.exactly()?;
    lowering.check_numbers(updates, data.numbers)?;
    if updates.shape != index.shape {
        return Err(misfit(&updates.shape, format!("{:?}, an element for each index", index.shape)));
    }
    let flat = flat_elements(lowering, data, index)?;
    let (rows, table) = (index.len(), elements(&data.shape)?);
    let kernel = Scatter { rows, columns: 1, table, function: function(lowering)? };
    scattered(lowering, data, kernel, &flat)
}

fn scattered(lowering: &mut Lowering, data: &Info, kernel: Scatter, flat: &Local) -> Result<()> {
    let output = lowering.output(data.shape.clone(), data.numbers)?;
    let operands = [Operand::Input(0), flat.operand, Operand::Input(2)];
    lowering.call(Kernel::Scatter(kernel), operands, output);
    Ok(())
}

fn function(lowering: &Lowering) -> Result<Option<Update>> {
    Ok(Some(match lowering.node.text("reduction")? {
        None | Some("none") => return Ok(None),
        Some("add") => Update::Add,
        Some("mul") => Update::Multiply,
        Some("max") => Update::Maximum,
        Some("min") => Update::Minimum,
        Some(other) => {
            let expected = "'none', 'add', 'mul', 'max' or 'min'";
            return Err(Attribute::Text(other.to_owned()).invalid("reduction", expected));
        }
    }))
}

/// A value as slices, which a list of indices finds.
struct Slices<'a> {
    /// The axes that the indices share with the value.
    batch: usize,
    /// Lengths of the axes along which there are slices: those of the batch, and one for each index.
    places: &'a [usize],
    /// Lengths of a slice.
    shape: &'a [usize],
}

impl<'a> Slices<'a> {
    fn of(data: &'a Info, index: &Info, batch: usize) -> Result<Self> {
        let depth = index.shape.last().copied().unwrap_or(0);
        let axes = depth.checked_add(batch).filter(|_| depth > 0);
        let split = axes.and_then(|axes| data.shape.split_at_checked(axes));
        let (places, shape) = split.ok_or_else(|| {
            misfit(&index.shape, format!("1 to {} places in the last axis", data.shape.len() - batch))
        })?;
        check_flat(places)?;
        Ok(Slices { batch, places, shape })
    }

    /// Computes the number of each index's slice.
    fn flat(&self, lowering: &mut Lowering, index: &Info) -> Result<Local> {
        let (shared, axes) = self.places.split_at(self.batch);
        lowering.places(1, axes.to_vec(), Negative::FromEnd)?;
        let strides = integers(&row_major(axes))?;
        let factors = lowering.load(Load::Integers(strides));
        let factors = Local::new(factors, vec![axes.len()], Numbers::Integer);
        let (groups, places) = (elements(shared)?, elements(axes)?);
        let rows = elements(&index.shape[self.batch..index.shape.len() - 1])?;
        let given = lowering.local(1)?.reshaped([groups, rows, axes.len()]);
        let scaled = lowering.combine(Pairwise::Multiply, &given, &factors)?;
        let within = lowering.reduced(Reduction::Sum, &scaled, 1)?;
        if groups == 1 {
            return Ok(within);
        }
        let first = lowering.range(0, signed(places), groups).reshaped([groups, 1]);
        lowering.combine(Pairwise::Add, &within, &first)
    }
}

/// Computes the place of one element for each index: the index's own, but on attribute `axis`.
fn flat_elements(lowering: &mut Lowering, data: &Info, index: &Info) -> Result<Local> {
    let axis = lowering.axis(data, 0)?;
    let fits = index.shape.len() == data.shape.len()
        && index.shape.iter().zip(&data.shape).enumerate().all(|(at, (own, len))| at == axis || own <= len);
    if !fits {
        return Err(misfit(
            &index.shape,
            format!("lengths of at most {:?}, but for axis {axis}", data.shape),
        ));
    }
    check_flat(&data.shape)?;
    lowering.index(1, data.shape[axis], Negative::FromEnd)?;
    let strides = row_major(&data.shape);
    let stride = lowering.range(signed(strides[axis]), 0, 1);
    let given = lowering.local(1)?;
    let mut flat = lowering.combine(Pairwise::Multiply, &given, &stride)?;
    for (at, len) in index.shape.iter().enumerate().filter(|(at, len)| *at != axis && **len > 1) {
        let mut shape = vec![1; index.shape.len()];
        shape[at] = *len;
        let own = lowering.range(0, signed(strides[at]), *len).reshaped(shape);
        flat = lowering.combine(Pairwise::Add, &flat, &own)?;
    }
    Ok(flat)
}

/// Fails for lengths whose places exceed integers.
fn check_flat(places: &[usize]) -> Result<()> {
    match i32::try_from(elements(places)?) {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::limit("a value has too many elements to be found by integers of 32 bits")
            .found(format!("{places:?}"))),
    }
}

fn integers(values: &[usize]) -> Result<Vec<i32>> {
    let values = values.iter().map(|value| i32::try_from(*value));
    values.collect::<std::result::Result<_, _>>().map_err(|_| Error::limit("an axis is too long for indices"))
}

fn signed(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}
