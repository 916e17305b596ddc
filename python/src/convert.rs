//! Plans conversions.

use crate::codecs::registry;
use crate::errors::Failure;
use crate::options::{Reading, Renaming, bytes, resources};
use crate::planned::Planned;
use crate::source::Source;
use crate::work::{Interrupted, long, short};
use ckpt::api::{DType, Error, Limits};
use ckpt::{Conversion, Resources, SideOptions};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

/// Options by their names.
type Pairs = Vec<(String, String)>;

/// What to convert: an open checkpoint, or a path and how to open it.
#[derive(FromPyObject)]
pub(crate) enum Input<'py> {
    Opened(PyRef<'py, Source>),
    Path(PathBuf),
}

/// What `ckpt._convert` makes of keyword arguments.
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
    keep_quantized: bool,
    allow: Vec<String>,
    strict: bool,
    overwrite: bool,
    resume: bool,
    verify: bool,
    clone: String,
    check: bool,
    receipt: Option<PathBuf>,
    threads: usize,
    max_memory: Option<String>,
    item_size: Option<String>,
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
        conversion.keep_quantized = self.keep_quantized;
        conversion.policy.strict = self.strict;
        self.allow.iter().try_for_each(|kind| conversion.policy.accept(kind))?;
        conversion.resources = self.resources()?;
        conversion.limits = limits;
        conversion.overwrite = self.overwrite;
        conversion.resume = self.resume;
        conversion.verify = self.verify;
        conversion.clone = self.clone.parse().map_err(|error: Error| error.field("clone"))?;
        conversion.unchecked = !self.check;
        conversion.receipt.clone_from(&self.receipt);
        Ok(conversion)
    }

    fn resources(&self) -> Result<Resources, Failure> {
        let resources = resources(self.threads, self.max_memory.as_deref())?;
        Ok(match &self.item_size {
            None => resources,
            Some(size) => resources.item_size(bytes(size, "item_size")?),
        })
    }
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
        let registry = registry();
        let name = output.to_string_lossy();
        // An input that cannot be opened is reported when it is read.
        let opened = registry.addresses().input(&input, &reading.limits()?).ok();
        let target = match &to {
            Some(id) => registry.writer(id)?,
            None => match opened.map(|input| registry.directory_format(&input, &name)).transpose()?.flatten()
            {
                Some(id) => registry.writer(id)?,
                None => registry.for_extension(&name)?,
            },
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
        let registry = registry();
        let source = match opened {
            Some(source) => source,
            None => Arc::new(ckpt::Source::open(&registry, path, &reading.options(&registry)?)?),
        };
        let conversion = settings.conversion(reading.limits()?)?;
        let planned = Arc::new(conversion.plan_unjudged(&registry, &source, output)?);
        Ok(Planned::new(planned, conversion))
    })
}
