//! Carries out the items of a plan.

use super::compare::check_equal;
use super::context::Run;
use super::interruption::interrupted;
use super::read::{Ahead, Buffers, Checking, Piece as Read, TensorStream, announce_items};
use super::result::{ItemResult, Sums};
use super::resume::{KnownBy, is_intact, known_by};
use super::write::{PieceWriter, Writer};
use crate::layout::{FileRange, Part, Piece, Transfer};
use crate::plan::{CopiedRun, Item, Plan};
use crate::resources::in_parallel;
use crate::settings;
use crate::store::WriteAt;
use ckpt_api::{Error, Extent, FileId, Result, text};
use std::collections::HashMap;
use std::ops::Range;
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
/// [`ckpt_api::Kind::Usage`] if the output was changed since.
pub(crate) fn completed(run: &Run<'_>) -> Result<Vec<ItemResult>> {
    let before = earlier(run);
    let numbers: Vec<usize> = (0..run.plan.items().len()).collect();
    in_parallel(&numbers, run.plan.threads, |number| {
        let comparison = matches!(run.plan.items().get(number), Some(Item::Compare(_)));
        match before.get(&number) {
            // Of an unchecked conversion, nobody can tell more than that it was written.
            Some(kept) if comparison || run.plan.settings.unchecked || is_intact(run, kept)? => {
                (run.progress)(run.plan.bytes_of(number));
                Ok(ItemResult { kept: true, ..kept.clone() })
            }
            _ => Err(Error::usage("the output exists, and the interrupted conversion did not write it")
                .help(text![
                    "choose another name, or replace it with ",
                    settings::OVERWRITE,
                    " and without ",
                    settings::RESUME
                ])),
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
    let cloned = clone_blocks(run, range, &*file)?;
    let extents = pieces.iter().filter_map(|piece| {
        let all = &run.plan.tensor(piece.tensor)?.from.extents[..];
        match &piece.part {
            Part::Sequence { extents, .. } => all.get(extents.indices()),
            Part::Box(_) => Some(all),
        }
    });
    let ahead = Ahead::of(extents.flatten());
    let sums = Sums {
        written: Vec::with_capacity(pieces.len()),
        cloned: cloned.iter().map(|range| range.end - range.start).sum(),
        ..Sums::default()
    };
    let writer = Writer::leaving(&*file, cloned);
    let mut running = Running { run, ahead: &ahead, writer, buffers, sums, last: Before::default() };
    for (number, piece) in (0..).zip(pieces) {
        let unchecked = running.needs_no_checksum(piece).then(|| run.plan.copied(piece));
        match unchecked.flatten() {
            Some(runs) => running.copy(piece, &runs)?,
            None => running.write(number, piece)?,
        }
    }
    running.writer.flush()?;
    Ok(running.sums)
}

/// Shares whole blocks with the source where the plan says so, and returns the bytes that the file then has. Where that fails,
/// they are copied, if the plan lets them.
fn clone_blocks(run: &Run<'_>, range: &FileRange, file: &dyn WriteAt) -> Result<Vec<Range<u64>>> {
    let mut cloned = Vec::new();
    for CopiedRun { from, start, to } in run.plan.clones(range) {
        if run.canceled.load(Ordering::Relaxed) {
            return Err(interrupted());
        }
        let source = run.files.file(from)?;
        let shared = match source.as_file() {
            Some(source) => file.clone_range(source, start, to.clone()),
            None => Err(Error::usage("the source is not a file of this machine").file(source.name())),
        };
        match shared {
            Ok(()) => cloned.push(to),
            Err(error) if run.plan.must_clone() => return Err(error),
            Err(_) => {}
        }
    }
    Ok(cloned)
}

/// A range that is being written.
struct Running<'a> {
    run: &'a Run<'a>,
    ahead: &'a Ahead,
    writer: Writer<'a>,
    buffers: &'a mut Buffers,
    /// What the pieces so far came to.
    sums: Sums,
    /// The place of the last piece.
    last: Before,
}

/// An extent of a tensor's target, and the bytes of the tensor that are before it.
#[derive(Clone, Copy, Default)]
struct Before {
    tensor: u32,
    extent: u32,
    bytes: u64,
}

impl Before {
    /// The same for the extent of a piece. One that follows is found from this one: a tensor may have many extents.
    fn of(self, piece: &Piece, extents: &[Extent]) -> Self {
        let follows = self.tensor == piece.tensor && self.extent <= piece.extent;
        let (first, bytes) = if follows { (self.extent, self.bytes) } else { (0, 0) };
        let between = extents.get(first as usize..piece.extent as usize).unwrap_or_default();
        let between = between.iter().filter(|extent| extent.region().is_none()).map(|extent| extent.len);
        Before { tensor: piece.tensor, extent: piece.extent, bytes: bytes + between.sum::<u64>() }
    }
}

impl Running<'_> {
    /// Whether nobody asks for a checksum of what a piece writes, on either side.
    fn needs_no_checksum(&self, piece: &Piece) -> bool {
        let plan = self.run.plan;
        if !plan.settings.unchecked {
            return false;
        }
        plan.tensor(piece.tensor)
            .is_some_and(|entry| matches!(known_by(plan, &entry, piece), KnownBy::Nothing))
    }

    /// Copies what the file does not share with the source, of a piece without a checksum.
    fn copy(&mut self, piece: &Piece, runs: &[CopiedRun]) -> Result<()> {
        let Running { run, writer, buffers, sums, .. } = self;
        for CopiedRun { from, start, to } in runs {
            let source = run.files.file(*from)?;
            for missing in writer.missing(to.clone()) {
                let mut at = missing.start;
                while at < missing.end {
                    if run.canceled.load(Ordering::Relaxed) {
                        return Err(interrupted());
                    }
                    let len = (missing.end - at).min(run.plan.budget.chunk as u64);
                    let bytes = buffers.room(len, start + (at - to.start))?;
                    source.read_at(start + (at - to.start), bytes)?;
                    writer.write_at(at, bytes)?;
                    at += len;
                }
            }
        }
        (run.progress)(piece.len);
        sums.written.push(0);
        Ok(())
    }

    fn write(&mut self, number: u32, piece: &Piece) -> Result<()> {
        let Running { run, ahead, writer, buffers, sums, last } = self;
        let transfer = run.plan.transfer(piece.tensor).ok_or_else(|| no_tensor(piece))?;
        let entry = run.plan.tensor(piece.tensor).ok_or_else(|| no_tensor(piece))?;
        let extent = entry.to.extents.get(piece.extent as usize).ok_or_else(|| no_tensor(piece))?;
        let checking = checking(run.plan, &transfer);
        *last = last.of(piece, &entry.to.extents);
        // Of the tensor, where its extents follow each other.
        let first = (last.bytes + piece.at) / transfer.sizes.target.max(1) * transfer.sizes.elements;
        let stream = TensorStream::new(run.files, transfer, &piece.part, checking, run.plan.budget)?;
        let mut stream =
            stream.starting_at(first).reading(ahead).in_any_order().in_memory(std::mem::take(*buffers));
        let known_by = known_by(run.plan, &entry, piece);
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
fn checking(plan: &Plan, transfer: &Transfer<'_>) -> Checking {
    match transfer.source.window() {
        _ if plan.settings.unchecked => Checking::Nothing,
        Some(_) => Checking::Before,
        None => Checking::Shares,
    }
}

fn no_tensor(piece: &Piece) -> Error {
    Error::defect("the plan has no such tensor").found(piece.tensor.to_string())
}

fn misfit(tensor: &str) -> Error {
    Error::defect("the target's placement does not fit the tensor")
        .tensor(tensor)
        .help("the target's codec has a bug: please report it")
}
