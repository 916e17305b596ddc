//! Plans: carried out in one process, or their items by many.

use crate::codecs::registry;
use crate::errors::{Failure, json};
use crate::options::{limits, resources};
use crate::stores::read;
use crate::work::{Interrupted, long, watched};
use ckpt::api::{Limit, Limits, Loss};
use ckpt::store::{NothingStaged, directory};
use ckpt::{Commit, Conversion, Execution, ItemReceipt, Phase, Plan, Policy, Progress};
use pyo3::prelude::*;
use serde_json::{Value, json as object};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A conversion that was found possible.
#[pyclass(frozen, module = "ckpt._ckpt")]
pub(crate) struct Planned {
    planned: Arc<ckpt::Planned>,
    conversion: Conversion,
}

/// Takes up a plan from its JSON text.
#[pyfunction]
pub(crate) fn load_plan(py: Python<'_>, text: Vec<u8>) -> PyResult<Planned> {
    long(py, Interrupted::Abandoned, move |_| {
        Planned::resume(&text, Conversion::new().limits(Limits::default()))
    })
}

/// Takes up a plan from its file, at a path or URL.
#[pyfunction]
#[pyo3(signature = (path, given, threads, max_memory=None))]
pub(crate) fn read_plan(
    py: Python<'_>,
    path: PathBuf,
    given: Vec<(String, String)>,
    threads: usize,
    max_memory: Option<String>,
) -> PyResult<Planned> {
    long(py, Interrupted::Abandoned, move |_| {
        let limits = limits(&given)?;
        let (_, bytes) = read(&path, &limits, Limit::HeaderBytes)?;
        let resources = resources(threads, max_memory.as_deref())?;
        let shown = path.display().to_string();
        Planned::resume(&bytes, Conversion::new().limits(limits).resources(resources)).map_err(|failure| {
            match failure {
                Failure::Error(error) if error.context().file.is_none() => error.file(shown).into(),
                other => other,
            }
        })
    })
}

/// Removes what the items of a plan wrote, whose file is at a path or URL, whatever became of its source. Returns whether
/// there was anything of this plan.
#[pyfunction]
pub(crate) fn discard_plan(py: Python<'_>, path: PathBuf) -> PyResult<bool> {
    long(py, Interrupted::Joined, move |_| {
        let limits = Limits::default();
        let (_, bytes) = read(&path, &limits, Limit::HeaderBytes)?;
        match ckpt::Planned::discard_plan(&registry(), &Plan::from_bytes(&bytes, &limits)?) {
            Err(error) if NothingStaged::is_cause_of(&error) => Ok(false),
            discarded => Ok(discarded.map(|()| true)?),
        }
    })
}

/// What work has done so far.
#[derive(Default)]
struct Done {
    bytes: AtomicU64,
    phase: Mutex<&'static str>,
}

impl Planned {
    pub(crate) fn new(planned: Arc<ckpt::Planned>, conversion: Conversion) -> Self {
        Planned { planned, conversion }
    }

    /// A plan that was judged when it was made.
    fn resume(bytes: &[u8], conversion: Conversion) -> Result<Self, Failure> {
        let conversion = conversion.policy(Policy::new().allow_all(true));
        let plan = Plan::from_bytes(bytes, &conversion.limits)?;
        let planned = ckpt::Planned::resume(&registry(), plan)?;
        // What reading back takes is small.
        let planned = Arc::new(planned.with_resources(conversion.resources, true)?);
        Ok(Planned { planned, conversion })
    }

    /// Does work that writes. `progress` is called with the bytes of `total` that are done, `total`, and the phase.
    fn reported<T: Send + 'static>(
        &self,
        py: Python<'_>,
        (total, done): (u64, u64),
        (sync, progress): (bool, Option<Py<PyAny>>),
        work: impl FnOnce(&ckpt::Planned, &Execution, Progress<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> PyResult<T> {
        self.judge(py)?;
        let done = Arc::new(Done { bytes: AtomicU64::new(done), phase: Mutex::default() });
        let planned = Arc::clone(&self.planned);
        watched(py, Interrupted::Joined, telling(progress, total, Arc::clone(&done)), move |canceled| {
            let phases = Arc::clone(&done);
            let observe = move |phase| {
                *phases.phase.lock().unwrap_or_else(PoisonError::into_inner) = name(phase);
            };
            let execution = Execution::new().sync(sync).canceled(Arc::clone(canceled)).on_phase(observe);
            let progress = |bytes| {
                done.bytes.fetch_add(bytes, Ordering::Relaxed);
            };
            work(&planned, &execution, &progress)
        })
    }

    /// What happens between the last item and the names.
    fn options(&self, verify: Option<bool>, receipt: Option<PathBuf>) -> Commit {
        let mut options = Commit::new().verify(verify.unwrap_or(self.conversion.verify));
        options.receipt = receipt.or_else(|| self.conversion.receipt.clone());
        options.limits = self.conversion.limits.clone();
        options.resources = self.conversion.resources;
        options.vocabulary = Arc::new(crate::words::Keywords);
        options
    }
}

/// Calls `progress` where something is new.
fn telling(
    progress: Option<Py<PyAny>>,
    total: u64,
    done: Arc<Done>,
) -> impl FnMut(Python<'_>) -> PyResult<()> {
    let mut last = (u64::MAX, "");
    move |py| {
        let Some(progress) = &progress else { return Ok(()) };
        let bytes = done.bytes.load(Ordering::Relaxed).min(total);
        let phase = *done.phase.lock().unwrap_or_else(PoisonError::into_inner);
        if (bytes, phase) != last {
            last = (bytes, phase);
            progress.call1(py, (bytes, total, phase))?;
        }
        Ok(())
    }
}

#[pymethods]
impl Planned {
    /// The whole plan, as JSON.
    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        let planned = Arc::clone(&self.planned);
        long(py, Interrupted::Abandoned, move |_| Ok(planned.plan().to_json()?))
    }

    /// Writes the plan to a file: as JSON if its name ends in `.json`, else compressed.
    fn save(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> PyResult<()> {
        self.judge(py)?;
        let planned = Arc::clone(&self.planned);
        long(py, Interrupted::Joined, move |_| {
            let bytes = planned.plan().to_file(&path)?;
            Ok(registry().addresses().destination(&path)?.write(&bytes, overwrite)?)
        })
    }

    /// SHA-256 of the plan, in hex.
    fn sha256(&self, py: Python<'_>) -> PyResult<String> {
        let planned = Arc::clone(&self.planned);
        long(py, Interrupted::Abandoned, move |_| {
            Ok(planned.sha256()?.iter().map(|byte| format!("{byte:02x}")).collect())
        })
    }

    /// The bytes that each item writes.
    fn items(&self) -> Vec<u64> {
        let plan = self.planned.plan();
        (0..plan.items().len()).map(|item| plan.bytes_of(item)).collect()
    }

    /// What people ask first, as JSON.
    fn overview(&self, py: Python<'_>) -> PyResult<String> {
        let plan = self.planned.plan();
        let overview = object!({
            "from": plan.from(), "to": plan.to(), "tensors": plan.tensors().len(), "bytes": plan.bytes_written,
            "losses": losses(&plan.losses), "notes": plan.notes().collect::<Vec<_>>(),
            "excluded": plan.excluded, "repairs": plan.repairs(), "output": plan.output(),
        });
        json(&overview).map_err(|failure| failure.into_python(py))
    }

    /// Fails if a loss is not allowed.
    fn judge(&self, py: Python<'_>) -> PyResult<()> {
        let judged = self.conversion.judge(self.planned.plan());
        judged.map_err(|error| Failure::from(error).into_python(py))
    }

    /// Carries the plan out. `progress` is called with the bytes written so far, their whole number, and the phase.
    #[pyo3(signature = (sync, progress=None))]
    fn run(&self, py: Python<'_>, sync: bool, progress: Option<Py<PyAny>>) -> PyResult<String> {
        let total = self.planned.plan().bytes_written;
        self.reported(py, (total, 0), (sync, progress), |planned, execution, progress| {
            json(&planned.execute(execution, progress)?)
        })
    }

    /// Runs the items that have no receipt, which each gets once its bytes are written. Returns how many it ran.
    #[pyo3(signature = (items, receipts, sync, progress=None))]
    fn run_items(
        &self,
        py: Python<'_>,
        items: (usize, usize),
        receipts: PathBuf,
        sync: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<usize> {
        let items = Range { start: items.0, end: items.1 };
        let plan = self.planned.plan();
        let total = (items.start..items.end.min(plan.items().len())).map(|item| plan.bytes_of(item)).sum();
        let limits = self.conversion.limits.clone();
        self.reported(py, (total, 0), (sync, progress), move |planned, execution, progress| {
            let store = directory(&receipts, true)?;
            let known = planned.receipts_of(&items, store.clone(), &limits)?;
            let save = |receipt: &ItemReceipt| receipt.save(&*store);
            Ok(planned.run_items(items, &known, execution, progress, &save)?)
        })
    }

    /// The items that have no receipt for what is staged. Makes the unfinished files where there are none.
    fn items_left(&self, py: Python<'_>, receipts: PathBuf) -> PyResult<Vec<usize>> {
        self.judge(py)?;
        let (planned, limits) = (Arc::clone(&self.planned), self.conversion.limits.clone());
        long(py, Interrupted::Joined, move |_| {
            let store = directory(&receipts, true)?;
            let known = ItemReceipt::load_all(store, &planned.sha256()?, &limits)?;
            Ok(planned.items_left(&known)?)
        })
    }

    /// Finishes an output whose items have run; returns the summary as JSON.
    #[pyo3(signature = (receipts, verify, receipt, sync, progress=None))]
    fn commit(
        &self,
        py: Python<'_>,
        receipts: PathBuf,
        verify: Option<bool>,
        receipt: Option<PathBuf>,
        sync: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let (total, options) = (self.planned.plan().bytes_written, self.options(verify, receipt));
        self.reported(py, (total, total), (sync, progress), move |planned, execution, _| {
            let store = directory(&receipts, false)?;
            let known = ItemReceipt::load_all(store, &planned.sha256()?, &options.limits)?;
            json(&planned.commit(&known, &options, execution)?)
        })
    }

    /// Removes what items wrote.
    fn discard(&self, py: Python<'_>) -> PyResult<()> {
        let planned = Arc::clone(&self.planned);
        long(py, Interrupted::Joined, move |_| Ok(planned.discard()?))
    }
}

fn name(phase: Phase) -> &'static str {
    match phase {
        Phase::Stage => "stage",
        Phase::Write => "write",
        Phase::Finish => "finish",
        Phase::ReadBack => "read back",
        Phase::Compute => "compute",
        Phase::Sync => "sync",
        Phase::Commit => "commit",
        _ => "work",
    }
}

/// Losses as `ckpt.Loss` has them.
pub(crate) fn losses(losses: &[Loss]) -> Vec<Value> {
    let loss = |loss: &Loss| {
        object!({
            "kind": loss.kind.name(), "subject": loss.subject, "detail": loss.detail,
            "changes_function": loss.kind.changes_function(),
        })
    };
    losses.iter().map(loss).collect()
}
