//! Where the values of a sparse array are in the dense one.

use super::array::{Indices, Sparse, Values};
use crate::decode::sparse;
use crate::format::Storage;
use ckpt_api::{DType, Error, Extent, File, FileId, Limit, Limits, Result};

/// The extent of a sparse array: its indices are read, its values stay in the file.
pub(super) fn extent(file: &File, values: &Values, own: &Sparse, limits: &Limits) -> Result<Extent> {
    let element = values.dtype.bytes().unwrap_or(1);
    let (part, places) = match own.storage {
        Storage::Csr => (element, elements(file, values, own, limits)?),
        _ => (rows_bytes(values, element), rows(file, values, own, limits)?),
    };
    let len = values.shape.iter().product::<u64>().saturating_mul(element);
    let extent = Extent::new(FileId(0), values.offset, len);
    Ok(if len == 0 { extent } else { extent.with_compression(sparse(part, &places, values.len)) })
}

/// Bytes of a row.
fn rows_bytes(values: &Values, element: u64) -> u64 {
    values.shape.iter().skip(1).product::<u64>().saturating_mul(element)
}

/// The rows that are stored.
fn rows(file: &File, values: &Values, own: &Sparse, limits: &Limits) -> Result<Vec<u64>> {
    let count = own.stored.first().copied().unwrap_or_default();
    let behind = own.stored.get(1..).unwrap_or_default();
    let [rows] = &own.indices[..] else { return Err(misfit(values, own)) };
    if rows.count != count || (count > 0 && Some(behind) != values.shape.get(1..)) {
        return Err(misfit(values, own));
    }
    let most = values.shape.first().copied().unwrap_or_default();
    let rows = numbers(file, rows, "rows", most, limits)?;
    match rows.windows(2).find(|pair| !pair.is_sorted_by(|a, b| a < b)) {
        Some(pair) => Err(Error::corrupt("the rows of a sparse array are not in ascending order")
            .field("rows")
            .found(format!("{pair:?}"))
            .expected("each row once, and after those before it")),
        None => Ok(rows),
    }
}

/// The elements that are stored, counted row by row.
fn elements(file: &File, values: &Values, own: &Sparse, limits: &Limits) -> Result<Vec<u64>> {
    let ([rows, columns], [pointers, places]) = (&values.shape[..], &own.indices[..]) else {
        return Err(misfit(values, own));
    };
    let stored = own.stored.iter().product::<u64>();
    let stored = if own.stored.is_empty() { 0 } else { stored };
    if own.stored.len() > 1 || places.count != stored || Some(pointers.count) != rows.checked_add(1) {
        return Err(misfit(values, own));
    }
    let bounds = numbers(file, pointers, "row pointers", stored.saturating_add(1), limits)?;
    let is_whole = bounds.first() == Some(&0) && bounds.last() == Some(&stored);
    if !is_whole || !bounds.is_sorted() {
        return Err(Error::corrupt("the row pointers of a sparse array do not divide its values into rows")
            .offset(pointers.offset)
            .field("row pointers")
            .found(format!("{} from {:?} to {:?}", bounds.len(), bounds.first(), bounds.last()))
            .expected(format!("numbers from 0 to {stored} that do not fall")));
    }
    let mut at = numbers(file, places, "columns", *columns, limits)?;
    for (row, pair) in (0u64..).zip(bounds.windows(2)) {
        let [start, end] = pair.iter().map(|at| usize::try_from(*at).ok()).collect::<Vec<_>>()[..] else {
            continue;
        };
        let own = start.zip(end).and_then(|(start, end)| at.get_mut(start..end));
        for place in own.into_iter().flatten() {
            *place = row.saturating_mul(*columns).saturating_add(*place);
        }
    }
    Ok(at)
}

/// Reads indices, of which each is less than `end`.
fn numbers(file: &File, own: &Indices, what: &'static str, end: u64, limits: &Limits) -> Result<Vec<u64>> {
    let size = if own.dtype == DType::I64 { 8u64 } else { 4 };
    let len = own.count.saturating_mul(size);
    limits.check(Limit::HeaderBytes, len).map_err(|error| error.offset(own.offset).field(what))?;
    let bytes = file.bytes(own.offset, len)?;
    let numbers: Vec<i64> = match own.dtype {
        DType::I64 => bytes.as_chunks().0.iter().map(|own| i64::from_le_bytes(*own)).collect(),
        _ => bytes.as_chunks().0.iter().map(|own| i32::from_le_bytes(*own).into()).collect(),
    };
    let check = |(index, number): (u64, i64)| {
        u64::try_from(number).ok().filter(|number| *number < end).ok_or_else(|| {
            Error::corrupt("an index of a sparse array is outside the array")
                .offset(own.offset.saturating_add(index.saturating_mul(size)))
                .field(what)
                .found(number.to_string())
                .expected(format!("0 to {}", end.saturating_sub(1)))
        })
    };
    (0..).zip(numbers).map(check).collect()
}

fn misfit(values: &Values, own: &Sparse) -> Error {
    let counts: Vec<u64> = own.indices.iter().map(|indices| indices.count).collect();
    Error::corrupt("the values of a sparse array do not fit its shape")
        .found(format!("values of shape {:?}, and {counts:?} indices", own.stored))
        .expected(format!("those of an array of shape {:?}", values.shape))
}
