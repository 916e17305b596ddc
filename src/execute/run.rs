//! Carries out the items of a plan.

use super::compare::check_equal;
use super::context::{Run, interrupted};
use super::read::{Ahead, Buffers, Checking, Piece as Read, TensorStream, announce_items};
use super::result::{ItemResult, Sums};
use super::resume::{KnownBy, is_intact, known_by};
use super::write::{PieceWriter, Writer};
use crate::layout::{FileRange, Piece, Transfer};
use crate::plan::Item;
use crate::resources::in_parallel;
use ckpt_api::{Error, Extent, FileId, Result, Setting};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

/// Runs some of a plan's items, several at a time, and returns their receipts in order. `done` is called with each
/// receipt as soon as the item's bytes are written.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for a checksum that differs, [`ckpt_api::Kind::Lossy`] for a number that its new dtype
/// cannot hold, [`ckpt_api::Kind::Mapping`] for tensors that must be equal and are not, [`ckpt_api::Kind::Io`].
pub(crate) fn run(
    run: &Run<'_>,
    items: &[usize],
    done: &(dyn Fn(&ItemResult) -> Result<()> + Sync),
) -> Result<Vec<ItemResult>> {
    let before = earlier(run);
    let left: Vec<usize> = items.iter().copied().filter(|number| !before.contains_key(number)).collect();
    announce_items(run.files, run.plan, &left)?;
    let idle = Mutex::new(Vec::new());
    let lock = || idle.lock().unwrap_or_else(PoisonError::into_inner);
    in_parallel(items, run.plan.threads, |number| {
        if let Some(kept) = before.get(&number)
            && is_intact(run, kept)?
        {
            (run.progress)(run.plan.bytes_of(number));
            return Ok(ItemResult { kept: true, ..kept.clone() });
        }
        let mut buffers = lock().pop().unwrap_or_default();
        let receipt = run_item(run, number, &mut buffers)?;
        lock().push(buffers);
        done(&receipt)?;
        Ok(receipt)
    })
}

/// The receipts of all items as an earlier process had them, whose output is complete.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] where the output was changed since.
pub(crate) fn completed(run: &Run<'_>) -> Result<Vec<ItemResult>> {
    let before = earlier(run);
    let numbers: Vec<usize> = (0..run.plan.items().len()).collect();
    in_parallel(&numbers, run.plan.threads, |number| {
        let comparison = matches!(run.plan.items().get(number), Some(Item::Compare(_)));
        match before.get(&number) {
            Some(kept) if comparison || is_intact(run, kept)? => {
                (run.progress)(run.plan.bytes_of(number));
                Ok(ItemResult { kept: true, ..kept.clone() })
            }
            _ => Err(Error::usage("the output exists, and the interrupted conversion did not write it")
                .help(format!(
                    "choose another name, or replace it with {} and without {}",
                    Setting::Overwrite,
                    Setting::Resume
                ))),
        }
    })
}

/// What an earlier process noted, of items that fit the plan.
fn earlier(run: &Run<'_>) -> HashMap<usize, ItemResult> {
    let receipts = run.stage.notes().iter().filter_map(|note| ItemResult::parse(note, run.plan).ok());
    receipts.map(|receipt| (receipt.item, receipt)).collect()
}

fn run_item(run: &Run<'_>, item: usize, buffers: &mut Buffers) -> Result<ItemResult> {
    let sums = match run.plan.items().get(item) {
        Some(Item::Compare(comparison)) => {
            check_equal(run.files, comparison, run.plan.budget, run.canceled)?;
            Sums::default()
        }
        Some(Item::Write(range)) => write_range(run, range, buffers)?,
        None => return Err(Error::defect("the plan has no such item").found(item.to_string())),
    };
    Ok(ItemResult { item, sums, kept: false })
}

fn write_range(run: &Run<'_>, range: &FileRange, buffers: &mut Buffers) -> Result<Sums> {
    let FileRange { file, pieces, .. } = range;
    let file = run.stage.file(FileId::clone(file))?;
    let extents =
        pieces.iter().filter_map(|piece| run.plan.tensor(piece.tensor)).flat_map(|entry| &entry.from.extents);
    let ahead = Ahead::of(extents);
    let sums = Sums { written: Vec::with_capacity(pieces.len()), ..Sums::default() };
    let mut running = Running { run, ahead: &ahead, writer: Writer::new(&*file), buffers, sums };
    for (number, piece) in (0..).zip(pieces) {
        running.write(number, piece)?;
    }
    running.writer.flush()?;
    Ok(running.sums)
}

/// A range that is being written.
struct Running<'a> {
    run: &'a Run<'a>,
    ahead: &'a Ahead,
    writer: Writer<'a>,
    buffers: &'a mut Buffers,
    /// What the pieces so far came to.
    sums: Sums,
}

impl Running<'_> {
    fn write(&mut self, number: u32, piece: &Piece) -> Result<()> {
        let Running { run, ahead, writer, buffers, sums } = self;
        let transfer = run.plan.transfer(piece.tensor).ok_or_else(|| no_tensor(piece))?;
        let entry = run.plan.tensor(piece.tensor).ok_or_else(|| no_tensor(piece))?;
        let extent = entry.to.extents.get(piece.extent as usize).ok_or_else(|| no_tensor(piece))?;
        let checking = checking(&transfer);
        let first = first_element(&transfer, &entry.to.extents, piece);
        let stream = TensorStream::new(run.files, transfer, &piece.part, checking, run.plan.budget)?;
        let mut stream =
            stream.starting_at(first).reading(ahead).in_any_order().in_memory(std::mem::take(*buffers));
        let known_by = known_by(&entry, piece);
        let checksum = if let KnownBy::Own(checksum) = &known_by { Some(checksum) } else { None };
        let mut written = PieceWriter::new(writer, extent, piece, checksum);
        while let Some(Read { bytes, runs }) = stream.next_piece()? {
            let len = usize::try_from(runs.len).unwrap_or(usize::MAX);
            for (to, from) in runs.iter() {
                if run.canceled.load(Ordering::Relaxed) {
                    return Err(interrupted());
                }
                let from = usize::try_from(from).ok().and_then(|from| bytes.get(from..)?.get(..len));
                if !written.write(to, from.ok_or_else(|| misfit(entry.tensor))?)? {
                    return Err(misfit(entry.tensor));
                }
            }
            (run.progress)(bytes.len() as u64);
        }
        sums.add(number, written.finish().ok_or_else(|| misfit(entry.tensor))?, &stream);
        **buffers = stream.into_memory();
        Ok(())
    }
}

/// Pieces of a conversion read every byte of their tensor once, unless it is a part of something larger.
fn checking(transfer: &Transfer<'_>) -> Checking {
    if transfer.source.window.is_some() { Checking::Before } else { Checking::Shares }
}

/// How many elements of the tensor lie before a piece, where its extents follow each other.
fn first_element(transfer: &Transfer<'_>, extents: &[Extent], piece: &Piece) -> u64 {
    let before = extents.iter().take(piece.extent as usize).filter(|extent| extent.region.is_none());
    let bytes = before.map(|extent| extent.len).sum::<u64>() + piece.at;
    bytes / transfer.sizes.target.max(1) * transfer.sizes.elements
}

fn no_tensor(piece: &Piece) -> Error {
    Error::defect("the plan has no such tensor").found(piece.tensor.to_string())
}

fn misfit(tensor: &str) -> Error {
    Error::defect("the target's placement does not fit the tensor")
        .tensor(tensor)
        .help("the target's codec has a bug: please report it")
}
