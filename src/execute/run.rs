//! Carries out the jobs of a plan.

use super::add::Addend;
use super::each::in_parallel;
use super::extents::Extents;
use super::output::Output;
use super::stream::{Files, Piece, TensorStream};
use super::writer::Writer;
use crate::plan::{Job, Plan};
use ckpt_api::{Checkpoint, Error, Extent, Result, Written};
use std::sync::atomic::{AtomicBool, Ordering};

/// Told how many bytes were written since the last call, from any thread.
pub type Progress<'a> = &'a (dyn Fn(u64) + Sync);

/// What a run needs beside its plan.
pub(crate) struct Run<'a> {
    pub(crate) checkpoint: &'a Checkpoint,
    pub(crate) files: &'a Files,
    pub(crate) output: &'a Output,
    pub(crate) progress: Progress<'a>,
    /// Set from outside to stop.
    pub(crate) cancelled: &'a AtomicBool,
}

/// What carrying out a job came to.
pub(crate) struct Done {
    pub(crate) written: Written,
    /// The largest absolute rounding error of a cast.
    pub(crate) rounding: f64,
}

/// Runs all jobs, several at a time; the results are in the order of the plan's jobs.
pub(crate) fn run(plan: &Plan, run: &Run) -> Result<Vec<Done>> {
    let batches = in_parallel(&batches(&plan.jobs), plan.threads, |jobs| {
        let mut writer = Writer::new(run.output);
        let done = jobs.iter().map(|job| run_job(plan, job, run, &mut writer));
        let done = done.collect::<Result<Vec<Done>>>()?;
        writer.flush()?;
        Ok(done)
    })?;
    Ok(batches.into_iter().flatten().collect())
}

/// Jobs that follow each other, so many at a time that their bytes are worth a thread's turn.
fn batches(jobs: &[Job]) -> Vec<&[Job]> {
    const BYTES: u64 = 1 << 20;
    let mut bytes = 0u64;
    let together = jobs.chunk_by(move |job, _| {
        let len = job.to.extents.iter().fold(0, |sum: u64, extent| sum.saturating_add(extent.len));
        bytes = bytes.saturating_add(len);
        let more = bytes < BYTES;
        if !more {
            bytes = 0;
        }
        more
    });
    together.collect()
}

fn run_job(plan: &Plan, job: &Job, run: &Run, writer: &mut Writer) -> Result<Done> {
    let mut checksums = vec![None; job.to.extents.len()];
    let mut rounding = 0f64;
    if job.to.extents.iter().any(|extent| extent.region.is_some()) {
        for (index, extent) in job.to.extents.iter().enumerate() {
            let one = std::slice::from_ref(extent);
            rounding =
                rounding.max(write_extents(plan, job, run, writer, one, &mut checksums[index..=index])?);
        }
    } else {
        rounding = write_extents(plan, job, run, writer, &job.to.extents, &mut checksums)?;
    }
    Ok(Done { written: Written { checksums }, rounding })
}

/// Streams the tensor (or the one box that `extents` names) into consecutive extents; returns its largest rounding error.
fn write_extents(
    plan: &Plan,
    job: &Job,
    run: &Run,
    writer: &mut Writer,
    extents: &[Extent],
    checksums: &mut [Option<u32>],
) -> Result<f64> {
    let tensor = &run.checkpoint.tensors[job.to.tensor.0];
    let region = extents.first().and_then(|extent| extent.region.as_ref());
    let pairs = job.to.added.iter().zip(&job.added);
    let addends: Vec<Addend> = pairs
        .map(|(added, source)| Addend::new(&run.checkpoint.tensors[added.tensor.0], source, &added.axes))
        .collect();
    let encoding = &job.to.encoding;
    let stream = TensorStream::sum(run.files, tensor, &job.from, addends, encoding, region, plan.budget)?;
    let mut stream = stream.in_any_order();
    let mut written = Extents::new(extents);
    while let Some(Piece { bytes, runs }) = stream.next_piece()? {
        let len = usize::try_from(runs.len).unwrap_or(usize::MAX);
        for (to, from) in runs.iter() {
            if run.cancelled.load(Ordering::Relaxed) {
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
    Ok(stream.rounding())
}

fn misfit(job: &Job) -> Error {
    Error::mismatch("the target's place does not fit the tensor")
        .tensor(&job.tensor)
        .help("this is a defect of the target's codec: please report it")
}

pub(crate) fn interrupted() -> Error {
    Error::io("interrupted", std::io::ErrorKind::Interrupted.into())
        .help("nothing was left behind; the source is unchanged")
}
