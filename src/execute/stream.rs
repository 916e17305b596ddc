//! One tensor's bytes, in the encoding and order that someone wants them, a chunk at a time.

use super::add::{Addend, Sum, add};
use super::ahead::Ahead;
use super::gather::{Checks, Gather, Runs, checks};
use super::tiles::Tiles;
use super::untile::untile;
use super::verify::{mismatch, verify_extent};
use crate::transform::{Access, Buffer, Step, apply_elementwise, steps};
use ckpt_api::{
    Contents, Encoding, Error, Extent, File, Input, Kind, Packing, Placement, Region, Result, Rounding,
    RunningChecksum, Scaling, Tensor,
};
use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Opens the files of a source when they are first needed, for all threads; keeps some of them open.
#[derive(Debug)]
pub(crate) struct Files {
    input: Input,
    names: Vec<String>,
    open: Vec<OnceLock<File>>,
    /// Extents of which several tensors are parts, and whose checksums were right.
    verified: Mutex<HashSet<Place>>,
}

/// File, offset and length of an extent.
type Place = (ckpt_api::FileId, u64, u64);

impl Files {
    pub(crate) fn new(input: &Input, contents: &Contents) -> Arc<Self> {
        let names = contents.files.clone();
        let open = names.iter().take(KEPT_OPEN).map(|_| OnceLock::new()).collect();
        Arc::new(Files { input: input.clone(), names, open, verified: Mutex::default() })
    }

    fn is_verified(&self, place: Place) -> bool {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner).contains(&place)
    }

    fn set_verified(&self, place: Place) {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner).insert(place);
    }

    pub(crate) fn file(&self, id: ckpt_api::FileId) -> Result<File> {
        let slot = self.open.get(id.0);
        if let Some(file) = slot.and_then(OnceLock::get) {
            return Ok(file.clone());
        }
        let file = self.input.file(&self.names[id.0])?;
        Ok(slot.map_or(&file, |slot| slot.get_or_init(|| file.clone())).clone())
    }
}

/// Files of one side that stay open: systems allow a process a thousand or less, and a checkpoint may have more shards.
pub(super) const KEPT_OPEN: usize = 64;

/// How large the pieces are in which a stream works.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Bytes read at once where order does not change: a multiple of 48, which whole elements of every dtype,
    /// packed or not, fill exactly.
    pub(crate) chunk: usize,
    /// Bytes of one tile where order changes; two of them are in memory.
    pub(crate) tile: u64,
}

/// Bytes read at once: small enough to stay in the L2 cache while the checksum runs over them.
const CHUNK: u64 = 768 << 10;
/// What the tiles of all workers may have together. Of a square matrix of 64 MiB, this is rows of the result from end to
/// end, made of runs of 8 KiB; half of it is made of runs of 4 KiB, which cost twice as many system calls.
const ALL_TILES: u64 = 32 << 20;
/// A tile that changes its form on the way is held in both.
const LARGEST_CHANGED: u64 = ALL_TILES / 2;
/// The least that leaves runs long enough to be read one by one.
const SMALLEST_TILE: u64 = 64 << 10;
/// Source tile, result tile, and the spare that a cast needs (which may be eight times its source).
const BUFFERS: u64 = 4;

impl Default for Budget {
    fn default() -> Self {
        Budget { chunk: 768 << 10, tile: ALL_TILES / 2 }
    }
}

impl Budget {
    /// What one worker may use of `bytes`; `None` where they do not suffice.
    pub(crate) fn of(bytes: u64) -> Option<Budget> {
        let tile = (bytes / BUFFERS).min(ALL_TILES);
        if tile < SMALLEST_TILE {
            return None;
        }
        let chunk = CHUNK.min(bytes / BUFFERS) / 48 * 48;
        Some(Budget { chunk: usize::try_from(chunk).ok()?, tile })
    }

    /// Of so many workers: what all hold together is bounded, however much is allowed.
    pub(crate) fn among(self, workers: usize) -> Budget {
        Budget { tile: self.tile.min((ALL_TILES / workers.max(1) as u64).max(SMALLEST_TILE)), ..self }
    }

    /// The least that one worker can do with.
    pub(crate) const LEAST: u64 = SMALLEST_TILE * BUFFERS;

    /// For each of two streams that are read in step, what was read and not yet compared included.
    pub(crate) fn of_two(self) -> Budget {
        Budget { tile: self.tile / 3, ..self.for_growth(3) }
    }

    /// Smaller chunks, so that those that grow on the way stay within the budget.
    fn for_growth(self, factor: usize) -> Budget {
        Budget { chunk: (self.chunk / factor / 48 * 48).max(48), ..self }
    }

    /// What one worker with this budget holds at most for a tensor of `bytes`.
    pub(crate) fn peak(self, bytes: u64, tiled: bool) -> u64 {
        let piece = if tiled { self.tile } else { self.chunk as u64 };
        piece.min(bytes) * BUFFERS
    }
}

/// Yields a tensor's bytes as `target` encodes them, from first to last, verifying the source's checksums.
pub(crate) struct TensorStream<'a> {
    files: &'a Files,
    tensor: Cow<'a, Tensor>,
    source: Cow<'a, Placement>,
    /// Stored order of the result, and bytes of its elements.
    order: Vec<usize>,
    size: u64,
    addends: Vec<Addend<'a>>,
    steps: Vec<Step>,
    budget: Budget,
    mode: Mode,
    /// Elements and bytes handed out.
    position: u64,
    handed: u64,
    /// The largest absolute rounding error of a cast so far.
    rounding: f64,
    /// Whether other streams read the same extents.
    shared: bool,
    /// Through which extents that follow each other are read.
    ahead: Option<&'a Ahead>,
    buffers: Buffers,
}

/// Memory in which a stream works. What the next one is given is neither asked for nor cleared again.
#[derive(Default)]
pub(super) struct Buffers {
    bytes: Buffer,
    spare: Buffer,
    /// What is read at once, where it is not where it belongs yet.
    piece: Buffer,
}

enum Mode {
    /// The source's bytes follow each other as the target wants them.
    Sequence { extents: Range<usize>, done: u64, left: u64, checksum: Option<RunningChecksum> },
    /// Boxes of the result, gathered.
    Tiles { tiles: Tiles, checks: Checks },
}

/// A part of what a stream yields.
pub(super) struct Piece<'a> {
    pub(super) bytes: &'a [u8],
    /// Where it goes: (offset in all that the stream yields, offset in `bytes`).
    pub(super) runs: Runs,
}

impl Mode {
    fn sequence(source: &Placement, extents: Range<usize>) -> Self {
        let all = source.extents.get(extents.clone()).unwrap_or_default();
        Mode::Sequence { extents, done: 0, left: all.iter().map(|extent| extent.len).sum(), checksum: None }
    }
}

impl<'a> TensorStream<'a> {
    /// A stream of the whole tensor, or of one box of it, encoded as `target`.
    pub(crate) fn new(
        files: &'a Files,
        tensor: &'a Tensor,
        source: &'a Placement,
        target: &Encoding,
        region: Option<&Region>,
        budget: Budget,
    ) -> Result<Self> {
        Self::sum(files, tensor, source, Vec::new(), target, region, budget)
    }

    /// As [`TensorStream::new`], of the tensor and what is added to it.
    pub(crate) fn sum(
        files: &'a Files,
        tensor: &'a Tensor,
        source: &'a Placement,
        addends: Vec<Addend<'a>>,
        target: &Encoding,
        region: Option<&Region>,
        budget: Budget,
    ) -> Result<Self> {
        if let Some(way) = untile(tensor, source, &addends, target, region)? {
            let (tensor, source) = (Cow::Owned(way.tensor), Cow::Owned(way.source));
            return Self::of_axes(
                files,
                tensor,
                source,
                way.addends,
                &way.target,
                way.region.as_ref(),
                budget,
            );
        }
        let (tensor, source) = (Cow::Borrowed(tensor), Cow::Borrowed(source));
        Self::of_axes(files, tensor, source, addends, target, region, budget)
    }

    /// As [`TensorStream::sum`], where neither side has tiles.
    fn of_axes(
        files: &'a Files,
        tensor: Cow<'a, Tensor>,
        source: Cow<'a, Placement>,
        addends: Vec<Addend<'a>>,
        target: &Encoding,
        region: Option<&Region>,
        budget: Budget,
    ) -> Result<Self> {
        let added: Vec<String> = addends.iter().map(|addend| addend.tensor.name.clone()).collect();
        let whole_slice = region.filter(|_| addends.is_empty());
        let stored = whole_slice.and_then(|region| stored_slice(&source, target, region));
        let slices = source.extents.iter().filter(|extent| extent.region.is_some()).count();
        let slices = if stored.is_some() { 0 } else { slices };
        let steps =
            steps(&source.encoding, target, slices, &added).map_err(|error| error.tensor(&tensor.name))?;
        let tiled = region.is_some()
            || source.window.is_some()
            || steps.iter().any(|step| step.access() == Access::Tile);
        let mut budget = budget.for_growth(growth(&source.encoding, target));
        if steps.iter().any(changes_form) {
            budget.tile = budget.tile.min(LARGEST_CHANGED);
        }
        if !addends.is_empty() {
            // A box of the addend is held beside that of the tensor.
            budget.tile /= 2;
        }
        let mode = if let Some(extent) = stored {
            Mode::sequence(&source, extent..extent + 1)
        } else if tiled {
            let wanted = region.cloned().unwrap_or_else(|| whole(&tensor));
            let size = element_size(&source.encoding, target, &tensor)?;
            let tiles = Tiles::in_order(wanted, &target.order, budget.tile / size);
            Mode::Tiles { tiles, checks: Checks::new() }
        } else {
            Mode::sequence(&source, 0..source.extents.len())
        };
        let mut stream = TensorStream {
            files,
            shared: source.window.is_some() || region.is_some(),
            tensor,
            source,
            order: target.order.clone(),
            size: target.dtype.bytes().unwrap_or(1),
            addends,
            steps,
            budget,
            mode,
            ahead: None,
            position: 0,
            handed: 0,
            rounding: 0.0,
            buffers: Buffers::default(),
        };
        stream.verify_first()?;
        Ok(stream)
    }

    /// Reads small extents together with those that follow them.
    pub(super) fn reading(mut self, ahead: &'a Ahead) -> Self {
        self.ahead = Some(ahead);
        self
    }

    /// Works in memory that another stream had.
    pub(super) fn in_memory(mut self, buffers: Buffers) -> Self {
        self.buffers = buffers;
        self
    }

    /// Its memory, for the next one; none where that may be larger than a new stream's.
    pub(super) fn into_memory(self) -> Buffers {
        if self.steps.iter().any(changes_form) { Buffers::default() } else { self.buffers }
    }

    /// Boxes that are not all of the tensor read no extent from end to end: its checksum needs a pass of its own.
    fn verify_first(&mut self) -> Result<()> {
        let Mode::Tiles { checks: computed, .. } = &mut self.mode else { return Ok(()) };
        if !self.shared {
            *computed = checks(&self.source);
            return Ok(());
        }
        for extent in &self.source.extents {
            let place = (extent.file, extent.offset, extent.len);
            // Parts of what is stored as one share its extents, and one pass over them is enough.
            if self.files.is_verified(place) {
                continue;
            }
            verify_extent(&self.files.file(extent.file)?, extent, self.budget.chunk, &mut self.buffers.bytes)
                .map_err(|error| error.tensor(&self.tensor.name))?;
            self.files.set_verified(place);
        }
        Ok(())
    }

    /// Lets pieces come in the order that costs least, for someone who can put each in its place. Before the first.
    pub(super) fn in_any_order(mut self) -> Self {
        if let Mode::Tiles { tiles, .. } = &mut self.mode
            && !tiles.is_one()
        {
            let limit = tiles.limit();
            *tiles = Tiles::in_place(tiles.wanted().clone(), &self.source.encoding.order, &self.order, limit);
        }
        self
    }

    /// The next bytes, in order; `None` after the last.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>> {
        Ok(self.next_piece()?.map(|piece| piece.bytes))
    }

    /// The next piece, and where it goes; `None` after the last.
    pub(super) fn next_piece(&mut self) -> Result<Option<Piece<'_>>> {
        let more = match &self.mode {
            Mode::Sequence { .. } => self.next_chunk(),
            Mode::Tiles { .. } => self.next_tile(),
        };
        let runs = more.map_err(|error| self.first_error(error).tensor(&self.tensor.name))?;
        Ok(runs.map(|runs| Piece { bytes: &self.buffers.bytes, runs }))
    }

    /// What is wrong does not depend on the size and order of the pieces: damage comes before numbers that do not fit,
    /// and of those the first.
    fn first_error(&mut self, error: Error) -> Error {
        if error.kind() != Kind::Lossy {
            return error;
        }
        for extent in &self.source.extents {
            let file = self.files.file(extent.file);
            let found = file
                .and_then(|file| verify_extent(&file, extent, self.budget.chunk, &mut self.buffers.bytes));
            if let Err(damage) = found {
                return damage;
            }
        }
        let Mode::Tiles { tiles, checks } = &mut self.mode else { return error };
        *tiles = Tiles::in_order(tiles.wanted().clone(), &self.order, tiles.limit());
        *checks = Checks::new();
        self.position = 0;
        loop {
            match self.next_tile() {
                Ok(Some(_)) => {}
                Ok(None) => return error,
                Err(first) => return first,
            }
        }
    }

    /// Fills a chunk, across extents: an element may begin in one and end in the next.
    fn next_chunk(&mut self) -> Result<Option<Runs>> {
        let Mode::Sequence { extents, done, left, checksum } = &mut self.mode else { return Ok(None) };
        let all = self.source.extents.get(..extents.end).unwrap_or_default();
        let len = (self.budget.chunk as u64).min(*left);
        // The first of several counts: there are several only where they are small.
        let first = all.get(extents.start).map_or(0, |extent| extent.offset.saturating_add(*done));
        self.buffers.bytes.resize(to_usize(len)?, first);
        let mut rest = &mut self.buffers.bytes[..];
        // An empty extent has a checksum all the same.
        while let Some(extent) = all.get(extents.start).filter(|e| !rest.is_empty() || e.len == *done) {
            let file = self.files.file(extent.file)?;
            if *done == 0 {
                *checksum = extent.checksum.as_ref().map(|checksum| checksum.start());
            }
            let take = (extent.len - *done).min(rest.len() as u64);
            let (now, later) = rest.split_at_mut(to_usize(take)?);
            rest = later;
            if take > 0 {
                let offset = extent.offset + *done;
                match self.ahead {
                    Some(ahead) => ahead.read_at(extent.file, &file, offset, now)?,
                    None => file.read_at(offset, now)?,
                }
            }
            if let Some(running) = checksum {
                running.update(now);
            }
            (*done, *left) = (*done + take, *left - take);
            if *done == extent.len {
                if let (Some(running), Some(expected)) = (&checksum, &extent.checksum) {
                    mismatch(&file, extent, expected, running.finish())?;
                }
                (extents.start, *done) = (extents.start + 1, 0);
            }
        }
        let rounding =
            apply_elementwise(&self.steps, self.position, &mut self.buffers.bytes, &mut self.buffers.spare)?;
        self.rounding = self.rounding.max(rounding);
        self.position += elements_in(&self.source.encoding, len);
        let runs = Runs::one(self.handed, self.buffers.bytes.len() as u64);
        self.handed += self.buffers.bytes.len() as u64;
        Ok((len > 0).then_some(runs))
    }

    fn next_tile(&mut self) -> Result<Option<Runs>> {
        let Mode::Tiles { tiles, checks } = &mut self.mode else { return Ok(None) };
        let Some(region) = tiles.next() else {
            let checks = std::mem::take(checks);
            return self.compare(checks).map(|()| None);
        };
        let runs = Runs::of_tile(tiles.wanted(), &region, &self.order, self.size);
        let source = Gather { files: self.files, tensor: &self.tensor, source: &self.source };
        let order = self.steps.iter().find_map(|step| match step {
            Step::Permute { order } => Some(&order[..]),
            _ => None,
        });
        // Casts leave what they read beside what they wrote: what had room for a box has room for the next.
        if self.buffers.bytes.capacity() < self.buffers.spare.capacity() {
            std::mem::swap(&mut self.buffers.bytes, &mut self.buffers.spare);
        }
        match order {
            Some(order) => source.permuted(
                &region,
                order,
                checks,
                &mut self.buffers.bytes,
                &mut self.buffers.spare,
                &mut self.buffers.piece,
            )?,
            None => source.read(&region, checks, &mut self.buffers.bytes, &mut self.buffers.piece)?,
        }
        for step in &self.steps {
            if let Step::Add { rounded, .. } = step {
                let to = Sum { region: &region, order: &self.order, first: self.position };
                let mut rounded = *rounded;
                for addend in &self.addends {
                    add(self.files, addend, &to, rounded, self.budget, &mut self.buffers.bytes)?;
                    // The sum so far is whole units.
                    rounded = rounded.map(|scaling| Scaling { rounding: Rounding::Nearest, ..scaling });
                }
            } else {
                let one = std::slice::from_ref(step);
                let rounding =
                    apply_elementwise(one, self.position, &mut self.buffers.bytes, &mut self.buffers.spare)?;
                self.rounding = self.rounding.max(rounding);
            }
        }
        self.position += region.shape.elements();
        Ok(Some(runs))
    }

    /// Compares the checksums of all that was read with those that are stored.
    fn compare(&self, checks: Checks) -> Result<()> {
        for (extent, check) in self.source.extents.iter().zip(checks) {
            if let (Some(expected), Some(found)) = (&extent.checksum, check.and_then(|check| check.finish()))
            {
                mismatch(&self.files.file(extent.file)?, extent, expected, found)?;
            }
        }
        Ok(())
    }

    /// The largest absolute rounding error of a cast among the elements handed out.
    pub(crate) fn rounding(&self) -> f64 {
        self.rounding
    }

    /// Bytes of its buffers.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.buffers.bytes.capacity() + self.buffers.spare.capacity() + self.buffers.piece.capacity()
    }

    /// Reads everything into one buffer: for tests and small tensors.
    pub(crate) fn read_all(&mut self) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        while let Some(bytes) = self.next()? {
            all.extend_from_slice(bytes);
        }
        Ok(all)
    }
}

/// How many elements so many stored bytes hold; 0 for those that have a length each.
fn elements_in(encoding: &Encoding, bytes: u64) -> u64 {
    match (encoding.packing, encoding.dtype.bytes(), encoding.dtype.bits()) {
        (Packing::Bits, _, Some(bits)) => bytes.saturating_mul(8) / u64::from(bits.max(1)),
        (_, Some(size), _) => bytes / size.max(1),
        _ => 0,
    }
}

/// Whether a step leaves elements in another buffer than it finds them in.
fn changes_form(step: &Step) -> bool {
    match step {
        Step::Cast { .. }
        | Step::Quantize { .. }
        | Step::Dequantize { .. }
        | Step::Unpack { .. }
        | Step::Pack { .. } => true,
        Step::SwapBytes { .. }
        | Step::Permute { .. }
        | Step::Cut { .. }
        | Step::Assemble { .. }
        | Step::Add { .. }
        | Step::Reshape { .. } => false,
    }
}

/// The extent that is stored as exactly this box, in the order in which it is wanted.
fn stored_slice(source: &Placement, target: &Encoding, region: &Region) -> Option<usize> {
    let ordered = source.window.is_none() && source.encoding.order == target.order;
    let is_it = |extent: &Extent| extent.region.as_deref() == Some(region);
    source.extents.iter().position(is_it).filter(|_| ordered)
}

fn whole(tensor: &Tensor) -> Region {
    Region { start: vec![0; tensor.shape.rank()], shape: tensor.shape.clone() }
}

/// Bytes of the largest form that an element takes on the way. Only fixed-size elements in whole bytes can be tiled.
pub(crate) fn element_size(from: &Encoding, to: &Encoding, tensor: &Tensor) -> Result<u64> {
    let sizes = (from.dtype.bytes(), to.dtype.bytes());
    let packed =
        [from, to].iter().any(|e| e.packing == Packing::Bits && e.dtype.bits().is_some_and(|b| b < 8));
    let float = if from.scaling.is_some() || to.scaling.is_some() { 4 } else { 1 };
    match sizes {
        (Some(from), Some(to)) if !packed => Ok(from.max(to).max(float)),
        _ => Err(Error::unsupported("the elements cannot be reordered")
            .tensor(&tensor.name)
            .found(format!("{} to {}, or slices of it", from.dtype, to.dtype))
            .expected("elements that take whole bytes")),
    }
}

/// How many times as many bytes as its stored form the largest form of an element has.
fn growth(from: &Encoding, to: &Encoding) -> usize {
    let bits = |encoding: &Encoding| match encoding.packing {
        Packing::Bits => encoding.dtype.bits(),
        Packing::Bytes => encoding.dtype.bytes().and_then(|bytes| u32::try_from(bytes * 8).ok()),
    };
    let float = if from.scaling.is_some() || to.scaling.is_some() { 32 } else { 8 };
    let (Some(from), Some(to)) = (bits(from), bits(to)) else { return 1 };
    usize::try_from(to.max(float).div_ceil(from.max(1))).unwrap_or(1)
}

pub(super) fn to_usize(value: u64) -> Result<usize> {
    usize::try_from(value).map_err(|_| Error::limit("too large for this machine").found(value.to_string()))
}
