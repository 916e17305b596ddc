//! Conversions: planned, then carried out.

use crate::errors::{Failure, json};
use crate::options::{Reading, Renaming};
use crate::source::Source;
use crate::work::{Interrupted, long, short, watched};
use ckpt::api::{DType, Error, Limits, Loss, parse_size};
use ckpt::{Conversion, Execution, Phase, Plan, Registry, Resources, SideOptions};
use pyo3::prelude::*;
use serde_json::{Value, json as object};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Options by their names.
type Pairs = Vec<(String, String)>;

/// What to convert: an open checkpoint, or a path and how to open it.
#[derive(FromPyObject)]
pub(crate) enum Input<'py> {
    Opened(PyRef<'py, Source>),
    Path(PathBuf),
}

/// What `ckpt._settings` makes of keyword arguments.
#[derive(Clone, Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Settings {
    to: Option<String>,
    options: Pairs,
    renaming: Option<Renaming>,
    transforms: Vec<String>,
    code: Option<String>,
    include: Vec<String>,
    exclude: Vec<String>,
    dtype: Option<String>,
    allow: Vec<String>,
    strict: bool,
    overwrite: bool,
    resume: bool,
    verify: bool,
    receipt: Option<PathBuf>,
    threads: usize,
    max_memory: Option<String>,
}

impl Settings {
    /// The conversion; options are those of the target.
    pub(crate) fn conversion(&self, limits: Limits) -> Result<Conversion, Failure> {
        let mut conversion = Conversion::new().set_all(self.options.clone());
        conversion.to.clone_from(&self.to);
        conversion.mapping = self.renaming.as_ref().map(|renaming| renaming.mapping(&limits)).transpose()?;
        conversion.code.clone_from(&self.code);
        for transform in &self.transforms {
            conversion = conversion.transform(ckpt::recipe::Transform::parse(transform)?);
        }
        conversion.include.clone_from(&self.include);
        conversion.exclude.clone_from(&self.exclude);
        let dtype = |name: &String| name.parse::<DType>().map_err(|error| error.field("dtype"));
        conversion.dtype = self.dtype.as_ref().map(dtype).transpose()?;
        conversion.policy.strict = self.strict;
        self.allow.iter().try_for_each(|kind| conversion.policy.accept(kind))?;
        conversion.resources = self.resources()?;
        conversion.limits = limits;
        conversion.overwrite = self.overwrite;
        conversion.resume = self.resume;
        conversion.verify = self.verify;
        conversion.receipt.clone_from(&self.receipt);
        Ok(conversion)
    }

    fn resources(&self) -> Result<Resources, Failure> {
        let resources = Resources::new().threads(self.threads);
        Ok(match &self.max_memory {
            None => resources,
            Some(size) => resources.max_memory(bytes(size, "max_memory")?),
        })
    }
}

/// A size that a user writes.
pub(crate) fn bytes(size: &str, field: &str) -> Result<u64, Failure> {
    let wrong = || Error::usage("the size is not a number").field(field).found(format!("'{size}'"));
    Ok(parse_size(size).ok_or_else(wrong)?)
}

/// A conversion that was found possible.
#[pyclass(frozen, module = "ckpt._ckpt")]
pub(crate) struct Planned {
    planned: Arc<ckpt::Planned>,
    conversion: Conversion,
}

/// Divides options between the source at a path, which gets the first, and the target.
#[pyfunction]
pub(crate) fn divide_options(
    py: Python<'_>,
    input: PathBuf,
    reading: Reading,
    output: PathBuf,
    to: Option<String>,
    options: Pairs,
) -> PyResult<(Pairs, Pairs)> {
    short(py, move || {
        let registry = Registry::builtin();
        let target = match &to {
            Some(id) => registry.writer(id)?,
            None => registry.for_extension(&output.to_string_lossy())?,
        };
        let source = ckpt::Source::codec(&registry, input, &reading.options(&registry)?)?;
        let divided = SideOptions::divide(options, source.info(), target.info())?;
        Ok((divided.read, divided.write))
    })
}

/// Plans a conversion; reads no values.
#[pyfunction]
pub(crate) fn plan(
    py: Python<'_>,
    input: Input<'_>,
    reading: Reading,
    output: PathBuf,
    settings: Settings,
) -> PyResult<Planned> {
    let opened = match &input {
        Input::Opened(source) => Some(source.get().map_err(|failure| failure.into_python(py))?),
        Input::Path(_) => None,
    };
    let path = match input {
        Input::Opened(_) => PathBuf::new(),
        Input::Path(path) => path,
    };
    long(py, Interrupted::Abandoned, move |_| {
        let registry = Registry::builtin();
        let source = match opened {
            Some(source) => source,
            None => Arc::new(ckpt::Source::open(&registry, path, &reading.options(&registry)?)?),
        };
        let conversion = settings.conversion(reading.limits()?)?;
        let planned = Arc::new(conversion.plan_unjudged(&registry, &source, output)?);
        Ok(Planned { planned, conversion })
    })
}

/// Takes up a plan that was saved.
#[pyfunction]
pub(crate) fn load_plan(py: Python<'_>, text: Vec<u8>) -> PyResult<Planned> {
    long(py, Interrupted::Abandoned, move |_| {
        let plan = Plan::from_bytes(&text, &Limits::default())?;
        let planned = Arc::new(ckpt::Planned::resume(&Registry::builtin(), plan)?);
        Ok(Planned { planned, conversion: Conversion::new().policy(ckpt::Policy::new().allow_all(true)) })
    })
}

/// What a conversion has done so far.
#[derive(Default)]
struct Done {
    bytes: AtomicU64,
    phase: Mutex<&'static str>,
}

#[pymethods]
impl Planned {
    /// The whole plan, as JSON.
    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        let planned = Arc::clone(&self.planned);
        long(py, Interrupted::Abandoned, move |_| Ok(planned.plan().to_json()?))
    }

    /// What people ask first, as JSON.
    fn overview(&self, py: Python<'_>) -> PyResult<String> {
        let plan = self.planned.plan();
        let overview = object!({
            "from": plan.from(), "to": plan.to(), "tensors": plan.tensors().len(), "bytes": plan.bytes_written,
            "losses": losses(&plan.losses), "notes": plan.notes().collect::<Vec<_>>(),
            "excluded": plan.excluded, "repairs": plan.repairs(),
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
        self.judge(py)?;
        let done = Arc::new(Done::default());
        let total = self.planned.plan().bytes_written;
        let told = Arc::clone(&done);
        let mut last = (u64::MAX, "");
        let tell = move |py: Python<'_>| {
            let Some(progress) = &progress else { return Ok(()) };
            let bytes = told.bytes.load(Ordering::Relaxed).min(total);
            let phase = *told.phase.lock().unwrap_or_else(PoisonError::into_inner);
            if (bytes, phase) != last {
                last = (bytes, phase);
                progress.call1(py, (bytes, total, phase))?;
            }
            Ok(())
        };
        let planned = Arc::clone(&self.planned);
        watched(py, Interrupted::Joined, tell, move |canceled| {
            let phases = Arc::clone(&done);
            let observe = move |phase| {
                *phases.phase.lock().unwrap_or_else(PoisonError::into_inner) = name(phase);
            };
            let execution = Execution::new().sync(sync).canceled(Arc::clone(canceled)).on_phase(observe);
            let progress = |bytes| {
                done.bytes.fetch_add(bytes, Ordering::Relaxed);
            };
            json(&planned.execute(&execution, &progress)?)
        })
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
