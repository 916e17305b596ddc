//! Carries out the jobs of a plan.

use super::add::Addend;
use super::ahead::Ahead;
use super::each::in_parallel;
use super::extents::Extents;
use super::journal::Record;
use super::output::Output;
use super::remembered::{asked, checked, intact, record};
use super::stream::{Buffers, Files, Piece, TensorStream};
use super::writer::Writer;
use crate::plan::{Job, Plan};
use ckpt_api::{Checkpoint, Error, Extent, Result, Written};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Told how many bytes were written since the last call, from any thread.
pub type Progress<'a> = &'a (dyn Fn(u64) + Sync);

/// What a run needs beside its plan.
pub(crate) struct Run<'a> {
    pub(crate) checkpoint: &'a Checkpoint,
    pub(crate) files: &'a Files,
    pub(crate) output: &'a Output,
    pub(crate) progress: Progress<'a>,
    /// Set from outside to stop.
    pub(crate) canceled: &'a AtomicBool,
}

/// What carrying out a job came to.
pub(crate) struct Done {
    pub(crate) written: Written,
    /// The largest absolute rounding error of a cast.
    pub(crate) rounding: f64,
    /// Whether another process had written it.
    pub(crate) kept: bool,
}

/// What the jobs of a batch share.
struct Worker<'a> {
    ahead: Ahead,
    writer: Writer<'a>,
    buffers: Buffers,
}

/// Runs all jobs, several at a time; the results are in the order of the plan's jobs.
pub(crate) fn run(plan: &Plan, run: &Run) -> Result<Vec<Done>> {
    let idle = Mutex::new(Vec::new());
    let lock = || idle.lock().unwrap_or_else(PoisonError::into_inner);
    let batches = in_parallel(&batches(plan), plan.threads, |(first, end)| {
        let ahead = Ahead::of(plan.jobs_in(first..end));
        let buffers = lock().pop().unwrap_or_default();
        let mut worker = Worker { ahead, writer: Writer::new(run.output), buffers };
        let done = plan.jobs_in(first..end).map(|job| run_job(plan, &job, run, &mut worker));
        let done = done.collect::<Result<Vec<_>>>()?;
        worker.writer.flush()?;
        lock().push(worker.buffers);
        let done = done.into_iter().map(|(done, record)| {
            record.iter().for_each(|(record, bytes)| run.output.journal().record(record, *bytes));
            done
        });
        Ok(done.collect::<Vec<Done>>())
    })?;
    Ok(batches.into_iter().flatten().collect())
}

/// The results of all jobs as another process had them, whose output is complete.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] where it was changed since.
pub(crate) fn completed(plan: &Plan, run: &Run) -> Result<Vec<Done>> {
    let jobs: Vec<Job> = plan.jobs().collect();
    in_parallel(&jobs.iter().collect::<Vec<_>>(), plan.threads, |job| {
        kept(plan, job, run)?.ok_or_else(|| {
            Error::usage("the output exists, and is not what the killed conversion had written")
                .tensor(job.tensor)
                .help("choose another name, or replace it with --force and without --resume")
        })
    })
}

/// First and end of jobs that follow each other, so many at a time that their bytes are worth a thread's turn.
fn batches(plan: &Plan) -> Vec<(usize, usize)> {
    // Unit tests see the journal after every job.
    const BYTES: u64 = if cfg!(test) { 1 } else { 1 << 20 };
    let (mut batches, mut first, mut sum) = (Vec::new(), 0, 0u64);
    let count = plan.jobs().len();
    for (number, job) in plan.jobs().enumerate() {
        sum = sum.saturating_add(bytes(&job.to.extents));
        if sum >= BYTES || number + 1 == count {
            batches.push((first, number + 1));
            (first, sum) = (number + 1, 0);
        }
    }
    batches
}

/// The result of a job that another process had done, if its bytes are still there.
fn kept(plan: &Plan, job: &Job, run: &Run) -> Result<Option<Done>> {
    let Some(before) = run.output.record(job.number as u64) else { return Ok(None) };
    if !intact(job, before, run.output, plan.budget.chunk, run.canceled)? {
        return Ok(None);
    }
    (run.progress)(bytes(&job.to.extents));
    Ok(Some(Done { written: asked(job, &before.sums), rounding: before.rounding, kept: true }))
}

/// What the journal is told of a job once its bytes are written, and how many these are.
type Note = (Record, u64);

fn run_job(plan: &Plan, job: &Job, run: &Run, worker: &mut Worker) -> Result<(Done, Option<Note>)> {
    if let Some(done) = kept(plan, job, run)? {
        return Ok((done, None));
    }
    let extents = checked(job);
    let mut checksums = vec![None; extents.len()];
    let mut rounding = 0f64;
    if extents.iter().any(|extent| extent.region.is_some()) {
        for (index, extent) in extents.iter().enumerate() {
            let one = std::slice::from_ref(extent);
            let own = &mut checksums[index..=index];
            rounding = rounding.max(write_extents(plan, job, run, worker, one, own)?);
        }
    } else {
        rounding = write_extents(plan, job, run, worker, &extents, &mut checksums)?;
    }
    let record = record(job, &checksums, rounding);
    let done = Done { written: asked(job, &record.sums), rounding, kept: false };
    Ok((done, Some((record, bytes(&extents)))))
}

fn bytes(extents: &[Extent]) -> u64 {
    extents.iter().fold(0, |sum, extent| sum.saturating_add(extent.len))
}

/// Streams the tensor (or the one box that `extents` names) into consecutive extents; returns its largest rounding error.
fn write_extents(
    plan: &Plan,
    job: &Job,
    run: &Run,
    Worker { ahead, writer, buffers }: &mut Worker,
    extents: &[Extent],
    checksums: &mut [Option<u32>],
) -> Result<f64> {
    let tensor = &run.checkpoint.tensors[job.to.tensor.0];
    let region = extents.first().and_then(|extent| extent.region.as_deref());
    let pairs = job.to.added.iter().zip(&job.added);
    let addends: Vec<Addend> = pairs
        .map(|(added, source)| Addend::new(&run.checkpoint.tensors[added.tensor.0], source, &added.axes))
        .collect();
    let encoding = &job.to.encoding;
    let stream = TensorStream::sum(run.files, tensor, job.from, addends, encoding, region, plan.budget)?;
    let mut stream = stream.reading(ahead).in_any_order().in_memory(std::mem::take(buffers));
    let mut written = Extents::new(extents);
    while let Some(Piece { bytes, runs }) = stream.next_piece()? {
        let len = usize::try_from(runs.len).unwrap_or(usize::MAX);
        for (to, from) in runs.iter() {
            if run.canceled.load(Ordering::Relaxed) {
                return Err(interrupted());
            }
            let from = usize::try_from(from).ok().and_then(|from| bytes.get(from..)?.get(..len));
            if !written.write(writer, to, from.ok_or_else(|| misfit(job))?)? {
                return Err(misfit(job));
            }
        }
        (run.progress)(bytes.len() as u64);
    }
    let finished = written.finish().ok_or_else(|| misfit(job))?;
    checksums.iter_mut().zip(finished).for_each(|(checksum, found)| *checksum = found);
    let rounding = stream.rounding();
    *buffers = stream.into_memory();
    Ok(rounding)
}

fn misfit(job: &Job) -> Error {
    Error::defect("the target's place does not fit the tensor")
        .tensor(job.tensor)
        .help("the target's codec is wrong: please report it")
}

pub(crate) fn interrupted() -> Error {
    Error::io("interrupted", std::io::ErrorKind::Interrupted.into())
        .help("nothing was left behind; the source is unchanged")
}
