//! One part of a tensor's bytes, in the encoding and order that someone wants them, a chunk at a time.

use super::add::{Sum, add, needed};
use super::ahead::{Ahead, is_stored};
use super::checks::{Checking, Checks, PartialSum, mismatch};
use super::elementwise::apply_elementwise;
use super::files::{Files, Handle};
use super::gather::Gather;
use super::memory::to_usize;
use super::narrowing::{half, narrowed};
use super::opened::Opened;
use crate::layout::{Part, Runs, Step, Tiles, Transfer, changes_form, plan_number};
use crate::resources::{ALL_TILES, Budget};
use crate::transform::Buffer;
use ckpt_api::{
    Encoding, Error, Extent, Kind, Packing, Placement, Region, Result, Rounding, RunningChecksum, Scaling,
    ScatteredChecksum,
};
use std::ops::Range;

/// A tile that changes its form on the way is held in both.
const LARGEST_CHANGED: u64 = ALL_TILES / 2;

/// Yields the bytes of a part as the target of its transfer encodes them, from first to last, verifying the source's
/// checksums.
pub struct TensorStream<'a> {
    opened: Opened<'a>,
    transfer: Transfer<'a>,
    budget: Budget,
    mode: Mode,
    checking: Checking,
    /// What the part contributes to the checksums of extents that it does not read from end to end.
    shares: Vec<PartialSum>,
    /// Elements that are before the part in the target's order.
    first: u64,
    /// Elements before the next ones; bytes handed out.
    position: u64,
    handed: u64,
    /// The largest absolute rounding error of a cast, or of blocks, so far.
    rounding: f64,
    /// The transfer and the part as they were given, if computed numbers are rounded when they are read.
    given: Option<Box<(Transfer<'a>, Part)>>,
    /// Through which extents that follow each other are read.
    ahead: Option<&'a Ahead>,
    buffers: Buffers,
}

/// Memory in which a stream works. What the next one is given is neither asked for nor cleared again.
#[derive(Default)]
pub(crate) struct Buffers {
    bytes: Buffer,
    spare: Buffer,
    /// What is read at once, if it is not where it belongs yet.
    piece: Buffer,
}

impl Buffers {
    /// Room for so many bytes that are at `offset` of a file.
    pub(crate) fn room(&mut self, len: u64, offset: u64) -> Result<&mut [u8]> {
        self.bytes.resize(to_usize(len)?, offset);
        Ok(&mut self.bytes)
    }
}

enum Mode {
    /// The source's bytes follow each other as the target wants them.
    Sequence(Sequence),
    /// Boxes of the result, gathered: of its blocks, if it has some.
    Tiles { tiles: Tiles, checks: Checks },
}

/// Bytes of extents that follow each other.
struct Sequence {
    /// Extents that are not read yet.
    extents: Range<usize>,
    /// Bytes of the first of them that were read, or that belong to another part.
    done: u64,
    left: u64,
    /// Elements that would have room in the last byte and are none.
    padding: usize,
    /// Of the first extent that is left, once some of it was read.
    check: Option<Check>,
}

/// The checksum of the extent that is being read.
enum Check {
    None,
    /// All of it is read, in order.
    Whole(RunningChecksum),
    /// A part of it is.
    Share(ScatteredChecksum),
}

/// A part of what a stream yields.
pub(crate) struct Piece<'a> {
    pub(crate) bytes: &'a [u8],
    /// Where it goes: (offset in all that the stream yields, offset in `bytes`).
    pub(crate) runs: Runs,
}

impl<'a> TensorStream<'a> {
    /// A stream of all of the tensor.
    pub(crate) fn whole(files: &'a Files<'a>, transfer: Transfer<'a>, budget: Budget) -> Result<Self> {
        let part = transfer.everything();
        let checking = match transfer.source.window().is_some() {
            true => Checking::Before,
            false => Checking::Whole,
        };
        Self::new(files, transfer, &part, checking, budget)
    }

    /// A stream of one part of the tensor.
    ///
    /// # Errors
    /// Those of reading what has to be verified before.
    pub fn new(
        files: &'a Files<'a>,
        transfer: Transfer<'a>,
        part: &Part,
        checking: Checking,
        budget: Budget,
    ) -> Result<Self> {
        let Some((narrow, dtype)) = narrowed(&transfer) else {
            return Self::of(Opened::new(files), transfer, part, checking, budget);
        };
        let opened = Opened::new(files).narrowing(Some(dtype));
        let mut stream = Self::of(opened, narrow, &half(part), checking, budget)?;
        stream.given = Some(Box::new((transfer, part.clone())));
        Ok(stream)
    }

    fn of(
        opened: Opened<'a>,
        transfer: Transfer<'a>,
        part: &Part,
        checking: Checking,
        budget: Budget,
    ) -> Result<Self> {
        let mut budget = budget.for_growth(transfer.sizes.growth).for_blocks(transfer.reordered());
        // Whole blocks are decoded and encoded.
        let whole = to_usize(transfer.sizes.chunk)?;
        budget.chunk = (budget.chunk / whole * whole).max(whole);
        if transfer.steps.iter().any(changes_form) {
            budget.tile = budget.tile.min(LARGEST_CHANGED);
        }
        if !transfer.addends.is_empty() {
            // A box of the addend is held beside that of the tensor.
            budget.tile /= 2;
        }
        let mode = match part {
            Part::Sequence { extents, bytes } => {
                Mode::Sequence(Sequence::new(&transfer, extents.indices(), bytes.clone()))
            }
            Part::Box(region) => {
                let size = transfer.sizes.largest.ok_or_else(|| not_movable(&transfer))?;
                let wanted = transfer.units().of_elements(region).ok_or_else(|| not_movable(&transfer))?;
                let limit = budget.tile / size / transfer.sizes.elements;
                let tiles = Tiles::in_order(wanted, &transfer.order, limit);
                let checks = match checking {
                    Checking::Whole | Checking::Shares => Checks::of(&transfer.source),
                    Checking::Before | Checking::Nothing => Checks::default(),
                };
                Mode::Tiles { tiles, checks }
            }
        };
        let mut stream = TensorStream {
            opened,
            transfer,
            budget,
            mode,
            checking,
            shares: Vec::new(),
            given: None,
            ahead: None,
            first: 0,
            position: 0,
            handed: 0,
            rounding: 0.0,
            buffers: Buffers::default(),
        };
        if checking == Checking::Before {
            stream.verify_before()?;
        }
        Ok(stream)
    }

    /// Elements of the tensor that are before the part, for errors.
    pub fn starting_at(mut self, position: u64) -> Self {
        (self.first, self.position) = (position, position);
        self
    }

    /// Reads small extents together with those that follow them.
    pub(crate) fn reading(mut self, ahead: &'a Ahead) -> Self {
        self.ahead = Some(ahead);
        self
    }

    /// Works in memory that another stream had.
    pub(crate) fn in_memory(mut self, buffers: Buffers) -> Self {
        self.buffers = buffers;
        self
    }

    /// Its memory, for the next one; none if that may be larger than a new stream's.
    pub(crate) fn into_memory(self) -> Buffers {
        if self.transfer.steps.iter().any(changes_form) { Buffers::default() } else { self.buffers }
    }

    /// Reads every extent from end to end that was not read so yet.
    fn verify_before(&mut self) -> Result<()> {
        for extent in &self.transfer.source.extents {
            let place = (extent.file, extent.offset, extent.len);
            // Parts of what is stored as one share its extents, and one pass over them is enough.
            let files = self.opened.files();
            if files.is_verified(place) {
                continue;
            }
            self.opened
                .verify(extent, self.budget.chunk, &mut self.buffers.bytes)
                .map_err(|error| error.tensor(self.transfer.tensor))?;
            files.set_verified(place);
        }
        Ok(())
    }

    /// Lets pieces come in the order that costs least, for someone who can put each in its place. Before the first.
    pub(crate) fn in_any_order(mut self) -> Self {
        if let Mode::Tiles { tiles, .. } = &mut self.mode
            && !tiles.is_one()
        {
            let (source, target) = (&self.transfer.source.encoding.order, &self.transfer.order);
            let (wanted, limit) = (tiles.wanted().clone(), tiles.limit());
            *tiles = match self.transfer.is_one_stream() {
                true => Tiles::in_passes(wanted, source, target, limit),
                false => Tiles::in_place(wanted, source, target, limit),
            };
        }
        self
    }

    /// The next bytes, in order; `None` after the last.
    pub fn read_next(&mut self) -> Result<Option<&[u8]>> {
        Ok(self.next_piece()?.map(|piece| piece.bytes))
    }

    /// The next piece, and where it goes; `None` after the last.
    pub(crate) fn next_piece(&mut self) -> Result<Option<Piece<'_>>> {
        let more = match &self.mode {
            Mode::Sequence(_) => self.next_chunk(),
            Mode::Tiles { .. } => self.next_tile(),
        };
        let runs = more.map_err(|error| self.first_error(error).tensor(self.transfer.tensor))?;
        if runs.is_some() {
            self.opened.files().handed_out(self.buffers.bytes.len())?;
        }
        Ok(runs.map(|runs| Piece { bytes: &self.buffers.bytes, runs }))
    }

    /// Which error is reported does not depend on the size and order of the pieces: damage comes before numbers that do
    /// not fit, and of those the first.
    fn first_error(&mut self, error: Error) -> Error {
        if error.kind() != Kind::Lossy {
            return error;
        }
        if let Some(given) = self.given.take() {
            let (transfer, part) = *given;
            let files = Opened::new(self.opened.files());
            let stream = Self::of(files, transfer, &part, Checking::Nothing, self.budget);
            return stream
                .map_or_else(|error| error, |stream| stream.starting_at(self.first).only_error(error));
        }
        for extent in &self.transfer.source.extents {
            let chunk = self.budget.chunk;
            if let Err(damage) = self.opened.verify(extent, chunk, &mut self.buffers.bytes) {
                return damage;
            }
        }
        let Mode::Tiles { tiles, checks } = &mut self.mode else { return error };
        self.position = self.first;
        *tiles = Tiles::in_order(tiles.wanted().clone(), &self.transfer.order, tiles.limit());
        *checks = Checks::default();
        loop {
            match self.next_tile() {
                Ok(Some(_)) => {}
                Ok(None) => return error,
                Err(first) => return first,
            }
        }
    }

    /// The error that reading everything ends with; `error` if it ends with none.
    fn only_error(mut self, error: Error) -> Error {
        loop {
            match self.next_piece() {
                Ok(Some(_)) => {}
                Ok(None) => return error,
                Err(first) => return first,
            }
        }
    }

    /// Fills a chunk, across extents: an element may begin in one and end in the next.
    fn next_chunk(&mut self) -> Result<Option<Runs>> {
        let Mode::Sequence(sequence) = &mut self.mode else { return Ok(None) };
        let len = (self.budget.chunk as u64).min(sequence.left);
        let all = self.transfer.source.extents.get(..sequence.extents.end).unwrap_or_default();
        // The first of several counts: there are several only if they are small.
        let first = all.get(sequence.extents.start);
        let first = first.map_or(0, |extent| extent.offset.saturating_add(sequence.done));
        self.buffers.bytes.resize(to_usize(len)?, first);
        let mut rest = &mut self.buffers.bytes[..];
        // An empty extent has a checksum all the same.
        while let Some(extent) =
            all.get(sequence.extents.start).filter(|e| !rest.is_empty() || e.len == sequence.done)
        {
            let take = (extent.len - sequence.done).min(rest.len() as u64);
            let (now, later) = rest.split_at_mut(to_usize(take)?);
            rest = later;
            let share = sequence.read(extent, &self.opened, now, self.checking, self.ahead)?;
            self.shares.extend(share);
        }
        let padding = if sequence.left == 0 { sequence.padding } else { 0 };
        let (bytes, spare) = (&mut self.buffers.bytes, &mut self.buffers.spare);
        let rounding = apply_elementwise(&self.transfer.steps, self.position, padding, bytes, spare)?;
        self.rounding = self.rounding.max(rounding);
        self.position += elements_in(&self.transfer.source.encoding, len);
        let runs = Runs::one(self.handed, self.buffers.bytes.len() as u64);
        self.handed += self.buffers.bytes.len() as u64;
        Ok((len > 0).then_some(runs))
    }

    fn next_tile(&mut self) -> Result<Option<Runs>> {
        let Mode::Tiles { tiles, checks } = &mut self.mode else { return Ok(None) };
        let transfer = &self.transfer;
        let Some(part) = tiles.next() else {
            let checks = std::mem::take(checks);
            return checks.finish(&transfer.source, self.opened.files(), &mut self.shares).map(|()| None);
        };
        let runs = Runs::of_tile(tiles.wanted(), &part, &transfer.order, transfer.sizes.target);
        let region = transfer.units().to_elements(part);
        let source = Gather { opened: &self.opened, shape: &transfer.shape, source: &transfer.source };
        let order = transfer.steps.iter().find_map(|step| match step {
            Step::Permute { order } => Some(&order[..]),
            _ => None,
        });
        // Casts leave what they read beside what they wrote: what had room for a box has room for the next.
        if self.buffers.bytes.capacity() < self.buffers.spare.capacity() {
            std::mem::swap(&mut self.buffers.bytes, &mut self.buffers.spare);
        }
        let Buffers { bytes, spare, piece } = &mut self.buffers;
        match order {
            Some(order) => source.permuted(&region, order, checks, bytes, spare, piece)?,
            None => source.read(&region, checks, bytes, piece)?,
        }
        for step in transfer.steps.iter() {
            if let Step::Add { rounded, .. } = step {
                let to = Sum { region: &region, order: &transfer.order, first: self.position };
                let mut rounded = *rounded;
                for addend in &transfer.addends {
                    if let Some(wanted) = needed(addend, &region) {
                        let values = read_box(self.opened.files(), &addend.transfer, &wanted, self.budget)?;
                        add(addend, (&wanted, &values), &to, rounded, bytes)?;
                    }
                    // The sum so far is whole units.
                    rounded = rounded.map(|scaling| Scaling { rounding: Rounding::Nearest, ..scaling });
                }
            } else if !matches!(step, Step::DecodeBlocks { .. }) {
                // Blocks were decoded when the box was gathered.
                let one = std::slice::from_ref(step);
                let rounding = apply_elementwise(one, self.position, 0, bytes, spare)?;
                self.rounding = self.rounding.max(rounding);
            }
        }
        self.position += region.shape.elements();
        Ok(Some(runs))
    }

    /// The largest absolute rounding error of a cast, or of blocks, among the elements handed out.
    pub(crate) fn rounding(&self) -> f64 {
        self.rounding.max(self.opened.rounding())
    }

    /// What the part contributes to the checksums of extents of which others read the rest. After the last piece.
    pub fn shares(&self) -> &[PartialSum] {
        &self.shares
    }

    /// Bytes of its buffers.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.buffers.bytes.capacity() + self.buffers.spare.capacity() + self.buffers.piece.capacity()
    }

    /// Reads everything into one buffer: for tests and small tensors.
    pub(crate) fn read_all(&mut self) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        while let Some(bytes) = self.read_next()? {
            all.extend_from_slice(bytes);
        }
        Ok(all)
    }
}

impl Sequence {
    fn new(transfer: &Transfer<'_>, mut extents: Range<usize>, bytes: Range<u64>) -> Self {
        let all = transfer.source.extents.get(extents.clone()).unwrap_or_default();
        let padding = padding(transfer, &extents, &bytes);
        let mut done = bytes.start;
        for extent in all {
            // What ends where the part begins is another part's; an empty extent at the very beginning is nobody
            // else's.
            if bytes.start == 0 || done < extent.len {
                break;
            }
            done -= extent.len;
            extents.start += 1;
        }
        Sequence { extents, done, left: bytes.end.saturating_sub(bytes.start), padding, check: None }
    }

    /// Reads the next bytes of the first extent that is left; what they contribute to its checksum, if they are the
    /// last ones that this part reads of it and others read the rest.
    fn read(
        &mut self,
        extent: &Extent,
        opened: &Opened<'_>,
        bytes: &mut [u8],
        checking: Checking,
        ahead: Option<&Ahead>,
    ) -> Result<Option<PartialSum>> {
        let mut check =
            self.check.take().unwrap_or_else(|| Check::start(extent, self.done, self.left, checking));
        let (file, start) = opened.extent(extent)?;
        match ahead.filter(|_| is_stored(extent)) {
            _ if bytes.is_empty() => {}
            Some(ahead) => ahead.read_at(extent.file, &file, start + self.done, bytes)?,
            None => file.read_at(start + self.done, bytes)?,
        }
        check.update(self.done, bytes);
        self.done += bytes.len() as u64;
        self.left -= bytes.len() as u64;
        let number = self.extents.start;
        if self.done == extent.len {
            (self.extents.start, self.done) = (number + 1, 0);
        } else if self.left > 0 {
            self.check = Some(check);
            return Ok(None);
        }
        check.finish(plan_number(number)?, extent, &file)
    }
}

impl Check {
    /// For an extent of which `left` bytes are read from byte `from` on, or as many as there are.
    fn start(extent: &Extent, from: u64, left: u64, checking: Checking) -> Self {
        let Some(checksum) = &extent.checksum else { return Check::None };
        match checking {
            Checking::Before | Checking::Nothing => Check::None,
            Checking::Whole | Checking::Shares if from == 0 && extent.len <= left => {
                Check::Whole(checksum.start())
            }
            Checking::Shares => Check::Share(checksum.start_scattered(extent.len)),
            Checking::Whole => Check::None,
        }
    }

    fn update(&mut self, at: u64, bytes: &[u8]) {
        match self {
            Check::None => {}
            Check::Whole(running) => running.update(bytes),
            Check::Share(scattered) => scattered.update(at, bytes),
        }
    }

    fn finish(self, number: u32, extent: &Extent, file: &Handle<'_>) -> Result<Option<PartialSum>> {
        match (self, &extent.checksum) {
            (Check::Whole(running), Some(expected)) => {
                mismatch(file, extent, expected, running.finish()).map(|()| None)
            }
            (Check::Share(check), _) => {
                let bytes = check.covered();
                Ok(Some(PartialSum { extent: number, remainder: check.remainder(), bytes }))
            }
            _ => Ok(None),
        }
    }
}

/// A box of a tensor that is added to another, as its transfer encodes it.
fn read_box(files: &Files<'_>, transfer: &Transfer<'_>, wanted: &Region, budget: Budget) -> Result<Vec<u8>> {
    let part = Part::Box(Box::new(wanted.clone()));
    TensorStream::new(files, transfer.clone(), &part, Checking::Before, budget)?.read_all()
}

/// How many elements the last of these bytes has room for beside those of the tensor, whose end it is.
fn padding(transfer: &Transfer<'_>, extents: &Range<usize>, bytes: &Range<u64>) -> usize {
    let Placement { encoding, extents: all, .. } = &*transfer.source;
    let is_whole = *extents == (0..all.len()) && all.iter().all(|extent| extent.region().is_none());
    if encoding.packing == Packing::Bytes || encoding.blocks().is_some() || !is_whole {
        return 0;
    }
    let len = all.iter().fold(0u64, |sum, extent| sum.saturating_add(extent.len));
    let room = elements_in(encoding, len).saturating_sub(transfer.shape.elements());
    if bytes.end == len { usize::try_from(room).unwrap_or(usize::MAX) } else { 0 }
}

/// How many elements so many stored bytes hold; 0 for those that have a length each.
fn elements_in(encoding: &Encoding, bytes: u64) -> u64 {
    if let Some(blocks) = encoding.blocks() {
        return bytes / blocks.bytes() * blocks.elements();
    }
    match (encoding.packing, encoding.dtype.bytes(), encoding.dtype.bits()) {
        (Packing::Bits, _, Some(bits)) => bytes.saturating_mul(8) / u64::from(bits.max(1)),
        (_, Some(size), _) => bytes / size.max(1),
        _ => 0,
    }
}

fn not_movable(transfer: &Transfer<'_>) -> Error {
    Error::unsupported("a part of the tensor cannot be read by itself")
        .tensor(transfer.tensor)
        .found(format!("elements of {}", transfer.source.encoding.dtype))
        .expected("elements of whole bytes")
}
