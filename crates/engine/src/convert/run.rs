//! Carries out a planned conversion: in one process, or its items by many.

use super::blame::blame_mapping;
use super::handing::Handing;
use super::phase::Phase;
use super::pins;
use super::planned::{Commit, Execution, Planned, elsewhere};
use super::read_back::Written;
use super::receipts::ItemReceipt;
use super::summary::{Resumed, Summary, Verification};
use crate::execute::{
    Files, Finished, ItemResult, Progress, Run, completed, finish, interrupted, run, write_literals,
};
use crate::layout::Piece;
use crate::plan::{Item, Plan};
use crate::registry::Registry;
use crate::store::{Earlier, Protected, Stage, StageMode, StageRequest, Store, leaving};
use crate::words::hex;
use ckpt_api::{Codec, Error, Kind, Result, text};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::Ordering;

impl Planned {
    /// Looks whether the output may be written where it was asked for, as [`Planned::execute`] does first.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] if the output exists or is the input.
    pub fn check_output(&self) -> Result<()> {
        self.staged(StageMode::Fresh, None, |request| self.output.store.check(request))
    }

    /// Does it. The output appears complete or not at all.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] if the output exists, is the input, or is being written by another process,
    /// [`ckpt_api::Kind::Corrupt`] for a checksum that differs, [`ckpt_api::Kind::Lossy`] for a number that its new
    /// dtype cannot hold, [`ckpt_api::Kind::Mismatch`] if [`Conversion::verify`](crate::Conversion::verify) finds that the
    /// output is not what the source holds, [`ckpt_api::Kind::Io`], even if the source was changed meanwhile.
    pub fn execute(&self, execution: &Execution, progress: Progress) -> Result<Summary> {
        execution.phases.begin(Phase::Stage);
        let mode = if self.resume { StageMode::Resume } else { StageMode::Fresh };
        let mut stage = self.staged(mode, self.plan.key(), |request| self.output.store.stage(request))?;
        if stage.earlier() == Earlier::Complete {
            let receipts = completed(&self.run(&*stage, execution, progress))?;
            return self.was_complete(stage, &receipts, execution);
        }
        match self.write(&mut *stage, execution, progress) {
            Ok(ready) => self.name(stage, ready, &self.commit, execution),
            Err(error) => Err(leaving(error, &stage.discard())),
        }
    }

    /// Runs all items, and makes the output ready to be named.
    fn write(&self, stage: &mut dyn Stage, execution: &Execution, progress: Progress) -> Result<Ready> {
        execution.phases.begin(Phase::Write);
        let items: Vec<usize> = (0..self.plan.items().len()).collect();
        let note = |receipt: &ItemResult| {
            stage.note(&receipt.to_json()?, self.plan.bytes_of(receipt.item));
            Ok(())
        };
        let receipts = run(&self.run(stage, execution, progress), &items, &note);
        let receipts = receipts
            .map_err(|error| blame_mapping(error, self.mapping.as_ref(), &self.plan.settings.made_of))?;
        self.complete(stage, &receipts, &self.commit, execution)
    }

    /// Runs some items of the plan, beside other processes that run others or the same. `done` gets the receipt of each
    /// item once its bytes are on the disk; items of which `known` has a receipt are not run again. Returns how many
    /// were run.
    ///
    /// # Errors
    /// Those of [`Planned::execute`], and of `done`.
    pub fn run_items(
        &self,
        items: Range<usize>,
        known: &[ItemReceipt],
        execution: &Execution,
        progress: Progress,
        done: &(dyn Fn(&ItemReceipt) -> Result<()> + Sync),
    ) -> Result<usize> {
        self.check_items(&items)?;
        execution.phases.begin(Phase::Stage);
        let key = self.sha256()?;
        let stage = self.staged(StageMode::Shared, Some(key), |request| {
            self.output.store.stage(&StageRequest { reread: false, ..request.clone() })
        })?;
        let staging = staging(&*stage);
        let plan = hex(&key);
        let known = done_already(known, &plan, &staging);
        let numbers: Vec<usize> = items.filter(|item| !known.contains(item)).collect();
        let handing = Handing::new(&*stage, done);
        let finished = |ran: &ItemResult| {
            if let (true, Some(file)) = (execution.sync, self.plan.file_of(ran.item)) {
                stage.file(file)?.sync()?;
            }
            let (plan, staging) = (plan.clone(), staging.clone());
            let receipt = ItemReceipt { plan, staging, item: ran.item, sums: ran.sums.clone() };
            handing.add(receipt, self.plan.bytes_of(ran.item))
        };
        execution.phases.begin(Phase::Write);
        let ran = run(&self.run(&*stage, execution, progress), &numbers, &finished);
        // What is finished is kept, also if an item failed.
        let handed = handing.finish();
        let ran = ran?;
        handed?;
        pins::check(&self.input, self.plan.source_files(), CHANGED)?;
        Ok(ran.len())
    }

    /// The items without a receipt among `receipts` for what is staged now. Makes the unfinished files where no process has
    /// yet: who distributes items learns at once whether the output can be written.
    ///
    /// # Errors
    /// Those of [`Planned::run_items`] before it runs an item.
    pub fn items_left(&self, receipts: &[ItemReceipt]) -> Result<Vec<usize>> {
        let key = self.sha256()?;
        let stage = self.staged(StageMode::Shared, Some(key), |request| self.output.store.stage(request))?;
        let done = done_already(receipts, &hex(&key), &staging(&*stage));
        Ok((0..self.plan.items().len()).filter(|item| !done.contains(item)).collect())
    }

    pub(super) fn check_items(&self, items: &Range<usize>) -> Result<()> {
        let count = self.plan.items().len();
        if items.start <= items.end && items.end <= count {
            return Ok(());
        }
        Err(Error::usage("the plan does not have these items")
            .found(format!("{}..{}", items.start, items.end))
            .expected(format!("a range within 0..{count}")))
    }

    /// Finishes an output whose items were run: assembles checksums, writes what depends on them, and gives the files
    /// their names. `receipts` are those of [`Planned::run_items`], in any order, repeated or not. After an error,
    /// everything that was written stays for another commit; [`Planned::discard`] removes it.
    ///
    /// A remote store cannot be read before it has the names. There, the output is verified, and its receipt is written, after
    /// that: an error that says so leaves the output with its names.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] if the receipt of an item is missing, or belongs to files that are gone; those of
    /// [`Planned::execute`].
    pub fn commit(
        &self,
        receipts: &[ItemReceipt],
        options: &Commit,
        execution: &Execution,
    ) -> Result<Summary> {
        execution.phases.begin(Phase::Stage);
        let key = self.sha256()?;
        let mut stage = self.staged(StageMode::Existing, Some(key), |request| {
            let attachment = options.receipt.as_ref().map(|path| path.to_string_lossy().into_owned());
            self.output.store.stage(&StageRequest {
                attachment: attachment.as_deref(),
                accept_complete: false,
                reread: options.verify || attachment.is_some(),
                ..request.clone()
            })
        })?;
        let own = self.own_receipts(receipts, &hex(&key), &*stage)?;
        self.check_held(&*stage)?;
        let ready = self.complete(&mut *stage, &own, options, execution)?;
        self.name(stage, ready, options, execution)
    }

    /// The receipts of what is staged now, which must be complete.
    fn own_receipts(
        &self,
        receipts: &[ItemReceipt],
        plan: &str,
        stage: &dyn Stage,
    ) -> Result<Vec<ItemResult>> {
        let staging = staging(stage);
        let is_own = |receipt: &&ItemReceipt| receipt.plan == plan && receipt.staging == staging;
        let checked = |receipt: &ItemReceipt| {
            let result = receipt.inner();
            result.check(&self.plan).map_err(|error| error.file(receipt.file_name()))?;
            Ok(result)
        };
        let own = receipts.iter().filter(is_own).map(checked).collect::<Result<Vec<_>>>()?;
        let foreign = receipts.len() - own.len();
        match finish(&self.plan, &self.files, &own) {
            Ok(_) => Ok(own),
            Err(error) if error.kind() == Kind::Usage && foreign > 0 => Err(error.with_help(|help| {
                let foreign =
                    format!("{foreign} receipts belong to another plan, or to files that no longer exist");
                text![help, "; ", foreign]
            })),
            Err(error) => Err(error),
        }
    }

    /// Refuses an output of which bytes are gone although the items that wrote them have receipts.
    fn check_held(&self, stage: &dyn Stage) -> Result<()> {
        for (number, item) in self.plan.items().iter().enumerate() {
            let Item::Write(range) = item else { continue };
            let extent =
                |piece: &Piece| self.plan.tensor(piece.tensor)?.to.extents.get(piece.extent as usize);
            let mut places = range.pieces.iter().filter_map(|piece| {
                let start = extent(piece)?.offset.saturating_add(piece.at);
                Some(start..start.saturating_add(piece.len))
            });
            if !places.all(|place| stage.holds(range.file, place)) {
                return Err(Error::usage("what an item wrote is gone, although it has a receipt")
                    .file(self.output.store.display(&self.output.name))
                    .found(format!("item {number}"))
                    .help("remove its receipt, and run it again"));
            }
        }
        Ok(())
    }

    /// Removes what items wrote, so that nothing of the plan is left.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] if nothing is staged, or items are being run.
    pub fn discard(&self) -> Result<()> {
        discard(&*self.output.store, &self.plan)
    }

    /// As [`Planned::discard`], of a plan whose source need not be what it was: a plan that cannot run any more can be given up.
    ///
    /// # Errors
    /// Those of [`Planned::discard`]; [`ckpt_api::Kind::Usage`] if the target cannot be opened from here.
    pub fn discard_plan(registry: &Registry, plan: &Plan) -> Result<()> {
        let target = plan.target.location.as_deref().ok_or_else(|| elsewhere("target"))?;
        discard(&*registry.addresses().open(target)?, plan)
    }

    /// Asks a store for the output.
    fn staged<T>(
        &self,
        mode: StageMode,
        key: Option<[u8; 32]>,
        ask: impl FnOnce(&StageRequest<'_>) -> Result<T>,
    ) -> Result<T> {
        let source = self.protected()?;
        let attachment = self.commit.receipt.as_ref().map(|path| path.to_string_lossy().into_owned());
        ask(&StageRequest {
            attachment: attachment.as_deref(),
            overwrite: self.plan.target.overwrite,
            key,
            mode,
            accept_complete: !self.commit.verify,
            reread: self.commit.verify || attachment.is_some(),
            source: Some(&source),
            ..StageRequest::new(&self.output.name, self.plan.files())
        })
    }

    /// The files that no output may replace.
    fn protected(&self) -> Result<Protected> {
        let from = self.registry.codec(&self.plan.source.format)?;
        Ok(Protected::new(&self.input, &self.plan.contents.files, from.info(), self.codec.info()))
    }

    pub(super) fn run<'a>(
        &'a self,
        stage: &'a dyn Stage,
        execution: &'a Execution,
        progress: Progress<'a>,
    ) -> Run<'a> {
        Run { plan: &self.plan, files: &self.files, stage, progress, canceled: &execution.canceled }
    }

    /// Everything between the last item and the names.
    fn complete(
        &self,
        stage: &mut dyn Stage,
        receipts: &[ItemResult],
        options: &Commit,
        execution: &Execution,
    ) -> Result<Ready> {
        execution.phases.begin(Phase::Finish);
        let finished = finish_files(&self.plan, &self.files, &*self.codec, stage, receipts)?;
        let resumed = self.resume.then(|| Resumed::new(stage.earlier(), &self.plan, &finished));
        let bytes = stage.bytes()?;
        let written = Written { receipts, cloned: finished.cloned };
        let verification = self.read_back_staged(stage, &written, options, execution)?;
        if execution.sync {
            execution.phases.begin(Phase::Sync);
            stage.sync()?;
        }
        pins::check(&self.input, self.plan.source_files(), CHANGED)?;
        if execution.canceled.load(Ordering::Relaxed) {
            return Err(interrupted());
        }
        Ok(Ready { finished, bytes, verification, resumed })
    }

    /// Gives the output its names.
    fn name(
        &self,
        stage: Box<dyn Stage>,
        ready: Ready,
        options: &Commit,
        execution: &Execution,
    ) -> Result<Summary> {
        execution.phases.begin(Phase::Commit);
        let Ready { finished, bytes, verification, resumed } = ready;
        let is_readable = stage.is_readable();
        let mut summary = Summary::new(&self.plan, &finished, stage.commit(execution.sync)?, bytes);
        if !is_readable {
            return self.read_back_committed(Summary { resumed, ..summary }, options, execution);
        }
        summary.receipt = if options.receipt.is_some() { summary.files.pop() } else { None };
        Ok(Summary { verification, resumed, ..summary })
    }

    /// The summary of a conversion that was killed when only the report was left to do.
    fn was_complete(
        &self,
        stage: Box<dyn Stage>,
        receipts: &[ItemResult],
        execution: &Execution,
    ) -> Result<Summary> {
        let finished: Finished = finish(&self.plan, &self.files, receipts)?;
        let resumed = Some(Resumed::new(stage.earlier(), &self.plan, &finished));
        let ready = Ready { finished, bytes: stage.bytes()?, verification: None, resumed };
        self.name(stage, ready, &self.commit, &execution.clone().sync(false))
    }
}

/// What is known of an output that is complete but for its names.
struct Ready {
    finished: Finished,
    /// Bytes of its files.
    bytes: u64,
    verification: Option<Verification>,
    resumed: Option<Resumed>,
}

/// Writes everything of a target's files that is not a tensor.
pub(super) fn finish_files(
    plan: &Plan,
    files: &Files<'_>,
    codec: &dyn Codec,
    stage: &dyn Stage,
    receipts: &[ItemResult],
) -> Result<Finished> {
    let finished = finish(plan, files, receipts)?;
    let literals = codec.finish(&plan.placed, &finished.written)?;
    write_literals(stage, plan.files(), plan.placed.literals.iter().chain(&literals))?;
    Ok(finished)
}

fn discard(store: &dyn Store, plan: &Plan) -> Result<()> {
    let stage = store.stage(&StageRequest {
        key: Some(plan.sha256()?),
        mode: StageMode::Existing,
        // Nothing gets a name, whatever has it.
        overwrite: true,
        reread: false,
        ..StageRequest::new(&plan.target.name, plan.files())
    })?;
    match stage.discard().first() {
        Some(left) => {
            Err(Error::io("cannot remove all that the items wrote", std::io::Error::other(left.as_str()))
                .help("remove the rest yourself"))
        }
        None => Ok(()),
    }
}

const CHANGED: &str = "the source changed while it was being read";

/// The items that have a receipt of this plan, and of these files.
fn done_already(receipts: &[ItemReceipt], plan: &str, staging: &str) -> HashSet<usize> {
    let own = receipts.iter().filter(|receipt| receipt.plan == plan && receipt.staging == staging);
    own.map(|receipt| receipt.item).collect()
}

/// What receipts call a staging.
fn staging(stage: &dyn Stage) -> String {
    format!("{:016x}", stage.token())
}
