//! Writes a checkpoint from memory.

use crate::memory::{Elements, View};
use crate::registry::Registry;
use ckpt_api::{
    Axis, Checkpoint, Contents, DType, Encoding, Error, Extent, FileId, Graph, LossKind, Placement, ReadAt,
    Result, Role, Shape, Tensor, TensorId, count,
};
use ckpt_engine::formats::CompanionFile;
use ckpt_engine::plan::Policy;
use ckpt_engine::resources::Resources;
use ckpt_engine::store::{Destination, IntoDestination};
use ckpt_engine::{Conversion, Element, Execution, Summary, write_from_memory};
use std::borrow::Cow;
use std::collections::HashSet;

/// Writes tensors from memory as a checkpoint of any format, all or nothing.
///
/// Slices are borrowed until [`Writer::finish`], which copies their bytes once, to where they go.
///
/// ```
/// # fn main() -> ckpt::Result<()> {
/// let memory = ckpt::store::MemoryStore::new();
/// let weights: Vec<f32> = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
/// ckpt::Writer::to(memory.at("out.safetensors"))
///     .tensor("w", &[2, 3], &weights)?
///     .tensor("steps", &[], &[17_i64])?
///     .finish()?;
/// let model = ckpt::open(memory.at("out.safetensors"))?;
/// assert_eq!(model.tensor("w")?.read::<f32>()?, weights);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Writer<'a> {
    destination: Result<Destination>,
    registry: Registry,
    conversion: Conversion,
    execution: Execution,
    checkpoint: Checkpoint,
    names: HashSet<String>,
    data: Vec<Box<dyn ReadAt + 'a>>,
    companions: Vec<CompanionFile>,
}

impl<'a> Writer<'a> {
    /// A writer to a path or a place in a store. An unusable path is an error of [`Writer::finish`].
    pub fn to(destination: impl IntoDestination) -> Self {
        let registry = Registry::builtin();
        Writer {
            destination: destination.into_destination(registry.addresses()),
            registry,
            conversion: Conversion::new(),
            execution: Execution::new(),
            checkpoint: Checkpoint::default(),
            names: HashSet::new(),
            data: Vec::new(),
            companions: Vec::new(),
        }
    }

    /// Names the format, such as `npz`. Default: by the output's extension.
    #[must_use]
    pub fn format(mut self, id: impl Into<String>) -> Self {
        self.conversion = self.conversion.to(id);
        self
    }

    /// Writes a directory, in which the tensors are in the file of this name. Default: one file, or what the format makes of it.
    #[must_use]
    pub fn directory(mut self, main_file: &str) -> Self {
        self.conversion.directory = true;
        self.conversion.main_file = Some(main_file.to_owned());
        self
    }

    /// Chooses the dtype of floating-point tensors. Default: that of the elements.
    #[must_use]
    pub fn dtype(mut self, dtype: Option<DType>) -> Self {
        self.conversion.dtype = dtype;
        self
    }

    /// Sets an option of the format. Default: none.
    #[must_use]
    pub fn set(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.conversion = self.conversion.set(key, value);
        self
    }

    /// Chooses the formats that are known. Default: the built-in ones.
    #[must_use]
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// Chooses which losses are accepted, where the format cannot hold everything. Default: those that do not change
    /// what the model computes.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.conversion = self.conversion.policy(policy);
        self
    }

    /// Accepts a kind of loss that changes what the model computes. Default: none.
    #[must_use]
    pub fn allow(mut self, kind: LossKind) -> Self {
        self.conversion = self.conversion.allow(kind);
        self
    }

    /// Sets memory and threads for writing. Default: [`Resources::default`].
    #[must_use]
    pub fn resources(mut self, resources: Resources) -> Self {
        self.conversion = self.conversion.resources(resources);
        self
    }

    /// Whether an existing output is replaced. Default: no; it is an error.
    #[must_use]
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.conversion = self.conversion.overwrite(overwrite);
        self
    }

    /// Chooses how to write. Default: [`Execution::default`].
    #[must_use]
    pub fn execution(mut self, execution: Execution) -> Self {
        self.execution = execution;
        self
    }

    /// Adds a tensor with row-major elements.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a name that is taken, and where the shape has another number of elements.
    pub fn tensor<T: Element>(self, name: &str, shape: &[u64], elements: &'a [T]) -> Result<Self> {
        self.add_elements(name, shape, Cow::Borrowed(elements))
    }

    /// Adds a tensor with the row-major elements of an iterator, which must yield as many as the shape has.
    ///
    /// ```
    /// # fn main() -> ckpt::Result<()> {
    /// let memory = ckpt::store::MemoryStore::new();
    /// let writer = ckpt::Writer::to(memory.at("out.npz")).iter("ramp", &[2, 3], (0..6).map(|k| k as f32))?;
    /// assert!(writer.iter("short", &[2, 3], 0..5_u8).is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Writer::tensor`].
    pub fn iter<T: Element>(
        self,
        name: &str,
        shape: &[u64],
        elements: impl IntoIterator<Item = T>,
    ) -> Result<Self> {
        // One more than needed shows that there are too many, however many there are.
        let wanted = Shape::new(shape)?.elements();
        let most = usize::try_from(wanted).unwrap_or(usize::MAX).saturating_add(1);
        let elements: Vec<T> = elements.into_iter().take(most).collect();
        self.add_elements(name, shape, Cow::Owned(elements))
    }

    /// Adds a tensor of a type that implements [`View`].
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a name that is taken, and where the view's bytes are not as many as its dtype and
    /// shape need.
    pub fn view(self, name: &str, view: &'a (impl View + ?Sized)) -> Result<Self> {
        self.add(name, view.dtype(), Shape::new(view.shape())?, Box::new(Elements(view.bytes())))
    }

    /// Labels the axes of the tensor that was added last.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] if the tensor has not so many axes, or there is none.
    pub fn axes(mut self, axes: &[Axis]) -> Result<Self> {
        let tensor = self.last()?;
        if axes.len() != tensor.shape.rank() {
            return Err(Error::usage("the number of axis names differs from the number of axes")
                .tensor(&tensor.name)
                .found(format!("{} meanings", axes.len()))
                .expected(format!("one for each axis of {}", tensor.shape)));
        }
        tensor.axes = Some(axes.into());
        Ok(self)
    }

    /// Sets the role of the tensor that was added last. Default: [`Role::Weight`].
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] if there is no tensor.
    pub fn role(mut self, role: Role) -> Result<Self> {
        self.last()?.role = role;
        Ok(self)
    }

    /// Sets the graph: what the model computes. Default: none.
    #[must_use]
    pub fn graph(mut self, graph: Graph) -> Self {
        self.checkpoint.graph = Some(graph);
        self
    }

    /// Adds metadata; the namespace is the id of the format that owns the key.
    #[must_use]
    pub fn metadata(mut self, namespace: &str, key: &str, value: impl Into<ckpt_api::MetadataValue>) -> Self {
        self.checkpoint.metadata.insert(namespace, key, value);
        self
    }

    /// Adds a file beside the output, such as a configuration: all files appear, or none.
    ///
    /// ```
    /// # fn main() -> ckpt::Result<()> {
    /// let memory = ckpt::store::MemoryStore::new();
    /// ckpt::Writer::to(memory.at("m.safetensors")).tensor("w", &[1], &[1.0_f32])?.companion("m.json", b"{}".to_vec()).finish()?;
    /// assert_eq!(memory.names(), ["m.json", "m.safetensors"]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn companion(mut self, name: &str, bytes: Vec<u8>) -> Self {
        self.companions.push(CompanionFile { name: name.to_owned(), bytes });
        self
    }

    /// Writes everything. The output appears complete or not at all.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Lossy`] if the format cannot hold everything and the policy does not accept that;
    /// [`ckpt_api::Kind::Usage`] if the output exists, or its format is not known; [`ckpt_api::Kind::Io`].
    pub fn finish(self) -> Result<Summary> {
        let Writer { destination, registry, conversion, execution, checkpoint, data, companions, .. } = self;
        let destination = destination?;
        let placed = |(id, tensor): (usize, &Tensor)| {
            let extent = Extent::new(FileId(id), 0, tensor.value_bytes());
            Placement::new(TensorId(id), &tensor.name, vec![extent], Encoding::row_major(tensor))
        };
        let contents = Contents::default()
            .with_files(checkpoint.tensors.iter().map(|tensor| tensor.name.to_string()).collect())
            .with_placements(checkpoint.tensors.iter().enumerate().map(placed).collect())
            .with_checkpoint(checkpoint);
        write_from_memory(&registry, &conversion, &execution, (contents, companions), data, &destination)
    }

    fn add_elements<T: Element>(self, name: &str, shape: &[u64], elements: Cow<'a, [T]>) -> Result<Self> {
        self.add(name, T::DTYPE, Shape::new(shape)?, Box::new(Elements(elements)))
    }

    fn add(mut self, name: &str, dtype: DType, shape: Shape, data: Box<dyn ReadAt + 'a>) -> Result<Self> {
        let tensor = Tensor::new(name, dtype, shape);
        let bytes = data.size().map_err(|error| Error::io("cannot read the tensor", error).tensor(name))?;
        if dtype.bytes().is_none() || bytes != tensor.value_bytes() {
            return Err(Error::usage("the shape does not fit the number of elements")
                .tensor(name)
                .found(count(bytes, "byte"))
                .expected(format!("{} bytes: {dtype} {}", tensor.value_bytes(), tensor.shape)));
        }
        if !self.names.insert(name.to_owned()) {
            return Err(Error::usage("two tensors have the same name").tensor(name));
        }
        self.checkpoint.tensors.push(tensor);
        self.data.push(data);
        Ok(self)
    }

    fn last(&mut self) -> Result<&mut Tensor> {
        self.checkpoint.tensors.last_mut().ok_or_else(|| Error::usage("no tensor has been added"))
    }
}
