//! The backend: buffers and kernels on an adapter.

use crate::adapter::{Api, choose};
use crate::dispatch::{Dispatch, MAX_ELEMENTS, Requirement};
use crate::pipelines::{Pipelines, STORAGE_BUFFERS};
use crate::probe;
use crate::shader::{LENGTHS, OUT_OF_RANGE};
use ckpt_api::{Error, Result};
use ckpt_forward::{Arithmetic, Array, Backend, BufferId, DeviceInfo, Element, Kernel, MathMode};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use wgpu::{
    Adapter, Buffer, BufferDescriptor, BufferUsages, CommandEncoderDescriptor, ComputePassDescriptor, Device,
    DeviceDescriptor, DeviceType, Features, MapMode, PollType, Queue,
};

/// Opens the best adapter of an interface, `vulkan` or `metal`, and of no other.
///
/// ```
/// use ckpt_forward::Arithmetic;
/// match ckpt_wgpu::open("vulkan", Arithmetic::F32) {
///     Ok(backend) => println!("{}", backend.info()),
///     Err(error) => println!("{error}"),
/// }
/// ```
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] if the interface is unavailable, and why; and for another arithmetic than
/// [`Arithmetic::F32`], since shaders have no f64. [`ckpt_api::Kind::Usage`] for another name.
pub fn open(api: &str, arithmetic: Arithmetic) -> Result<Box<dyn Backend>> {
    let api = Api::parse(api)?;
    if arithmetic != Arithmetic::F32 {
        return Err(Error::unsupported(format!("{} computes only in f32", api.name()))
            .found(arithmetic.name())
            .expected(Arithmetic::F32.name())
            .help("use the CPU or CUDA for f64"));
    }
    Ok(Box::new(Gpu::open(api, &choose(api)?)?))
}

/// One device with its buffers.
struct Gpu {
    info: DeviceInfo,
    device: Device,
    queue: Queue,
    pipelines: Pipelines,
    buffers: BTreeMap<BufferId, Held>,
    next: u64,
    /// Bound in place of operands that a kernel has not.
    nothing: Buffer,
    status: Buffer,
    /// Kernels that may have set the status.
    unchecked: BTreeSet<&'static str>,
    failures: Arc<Mutex<Vec<String>>>,
    /// Bytes of the longest buffer.
    longest: u64,
}

struct Held {
    buffer: Buffer,
    element: Element,
    len: usize,
}

impl Gpu {
    fn open(api: Api, adapter: &Adapter) -> Result<Self> {
        if api == Api::Metal && adapter.features().contains(Features::PASSTHROUGH_SHADERS) {
            // Where it fails what is left is fast math, which the device's description says.
            if let Ok(gpu) = Self::start(api, adapter, true) {
                return Ok(gpu);
            }
        }
        Self::start(api, adapter, false)
    }

    fn start(api: Api, adapter: &Adapter, passes_through: bool) -> Result<Self> {
        let limits = adapter.limits();
        if limits.max_storage_buffers_per_shader_stage < STORAGE_BUFFERS {
            return Err(api.unavailable("a shader of this adapter has too few buffers"));
        }
        let descriptor = DeviceDescriptor {
            required_features: if passes_through { Features::PASSTHROUGH_SHADERS } else { Features::empty() },
            required_limits: limits.clone(),
            ..DeviceDescriptor::default()
        };
        let (device, queue) = pollster::block_on(adapter.request_device(&descriptor))
            .map_err(|error| api.unavailable(error))?;
        let failures = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&failures);
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            heard.lock().unwrap_or_else(PoisonError::into_inner).push(error.to_string());
        }));
        let adapter = adapter.get_info();
        let mut gpu = Gpu {
            info: DeviceInfo {
                api: api.name().into(),
                device: adapter.name,
                software: adapter.device_type == DeviceType::Cpu,
                math: MathMode::Fast,
                arithmetic: Arithmetic::F32,
            },
            pipelines: Pipelines::new(&device, passes_through),
            nothing: storage(&device, 4),
            status: storage(&device, 4),
            buffers: BTreeMap::new(),
            next: 0,
            unchecked: BTreeSet::new(),
            failures,
            longest: limits.max_storage_buffer_binding_size.min(limits.max_buffer_size),
            device,
            queue,
        };
        let measured = gpu.math()?;
        // wgpu compiles for Metal with fast math; that the probe got through does not make it strict.
        gpu.info.math = if api == Api::Metal && !passes_through { MathMode::Fast } else { measured };
        Ok(gpu)
    }

    /// How closely the device keeps to what shaders ask for.
    fn math(&mut self) -> Result<MathMode> {
        let dispatch = probe::dispatch();
        let numbers = self.upload(&Array::F32(probe::NUMBERS.to_vec()))?;
        let results = self.zeros(dispatch.output.element, dispatch.output.len)?;
        self.submit(&dispatch, &[numbers], results)?;
        let found = self.download(results)?;
        self.free(numbers);
        self.free(results);
        Ok(if let Array::F32(found) = found { probe::judge(&found) } else { MathMode::Fast })
    }

    /// A buffer of zeros for so many elements.
    fn allocate(&mut self, element: Element, len: usize) -> Result<BufferId> {
        if element == Element::F64 {
            return Err(Error::unsupported("shaders have no f64").found("a buffer of f64"));
        }
        let bytes = u64::try_from(len).unwrap_or(u64::MAX).saturating_mul(4);
        if len > MAX_ELEMENTS || bytes > self.longest {
            return Err(Error::limit("a tensor is too large for a buffer on this device")
                .found(ckpt_api::count(bytes, "byte"))
                .expected(format!("at most {} bytes", self.longest.min(4 * MAX_ELEMENTS as u64)))
                .help("run it on the CPU, or in smaller batches"));
        }
        let buffer = storage(&self.device, bytes.max(4));
        self.check()?;
        let id = BufferId(self.next);
        self.next += 1;
        self.buffers.insert(id, Held { buffer, element, len });
        Ok(id)
    }

    fn held(&self, id: BufferId) -> Result<&Held> {
        self.buffers
            .get(&id)
            .ok_or_else(|| Error::unsupported("the device has no such buffer").found(id.0.to_string()))
    }

    /// The buffer, if it is what a shader needs.
    fn fitting(&self, name: &'static str, id: BufferId, needed: Requirement) -> Result<&Held> {
        let held = self.held(id)?;
        if held.element != needed.element || held.len < needed.len {
            return Err(Error::unsupported("a kernel got different operands than it declares")
                .found(format!("kernel {name} with {} elements of {:?}", held.len, held.element))
                .expected(format!("at least {} of {:?}", needed.len, needed.element)));
        }
        Ok(held)
    }

    /// The buffers of a dispatch's operands, in the order of the layout.
    fn operands(&self, dispatch: &Dispatch, given: &[BufferId], output: BufferId) -> Result<Vec<&Buffer>> {
        let name = dispatch.shader.name;
        let mut left = given.iter();
        let mut buffers = Vec::with_capacity(dispatch.operands.len());
        for needed in &dispatch.operands {
            let Some(needed) = needed else {
                buffers.push(&self.nothing);
                continue;
            };
            let refused = |message| Error::unsupported(message).found(format!("kernel {name}"));
            let id = *left.next().ok_or_else(|| refused("a kernel got fewer operands than it declares"))?;
            if id == output {
                return Err(refused("a kernel's output is one of its operands"));
            }
            buffers.push(&self.fitting(name, id, *needed)?.buffer);
        }
        Ok(buffers)
    }

    fn submit(&mut self, dispatch: &Dispatch, operands: &[BufferId], output: BufferId) -> Result<()> {
        let pipeline = self.pipelines.pipeline(&self.device, dispatch.shader)?.clone();
        let params = self.device.create_buffer(&BufferDescriptor {
            label: None,
            size: 4 * dispatch.params.len() as u64,
            usage: BufferUsages::UNIFORM | BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let name = dispatch.shader.name;
        let mut buffers = vec![&params, &self.fitting(name, output, dispatch.output)?.buffer, &self.status];
        buffers.extend(self.operands(dispatch, operands, output)?);
        if dispatch.threads == 0 {
            return Ok(());
        }
        buffers.resize(LENGTHS as usize, &self.nothing);
        buffers.push(&params);
        self.queue.write_buffer(&params, 0, bytemuck::cast_slice(&dispatch.params));
        let group = self.pipelines.bind(&self.device, &buffers);
        let mut encoder = self.device.create_command_encoder(&CommandEncoderDescriptor::default());
        let mut pass = encoder.begin_compute_pass(&ComputePassDescriptor::default());
        let (columns, rows) = dispatch.groups();
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(columns, rows, 1);
        drop(pass);
        self.queue.submit([encoder.finish()]);
        self.unchecked.insert(name);
        // Lets go of what was freed and is not in use any more.
        self.poll(PollType::Poll)?;
        self.check()
    }

    fn poll(&self, how: PollType) -> Result<()> {
        self.device.poll(how).map(|_| ()).map_err(|error| {
            Error::unsupported("the device does not answer").found(format!("{error} from {}", self.info))
        })
    }

    /// What the device complained about.
    fn check(&self) -> Result<()> {
        let failures = std::mem::take(&mut *self.failures.lock().unwrap_or_else(PoisonError::into_inner));
        if failures.is_empty() {
            return Ok(());
        }
        Err(Error::unsupported("the device rejected the request").found(format!(
            "{} from {}",
            failures.join("; "),
            self.info
        )))
    }

    /// What kernels noticed that ran since the last time.
    fn check_status(&mut self, status: u32) -> Result<()> {
        let kernels = std::mem::take(&mut self.unchecked).into_iter().collect::<Vec<_>>().join(" or ");
        let kernels = format!("kernel {kernels}");
        if status == 0 {
            return Ok(());
        }
        self.queue.write_buffer(&self.status, 0, &[0; 4]);
        if status & OUT_OF_RANGE != 0 {
            return Err(Error::unsupported("an index is out of range").found(kernels));
        }
        Err(Error::unsupported("an integer exceeds 32 bits").found(kernels).help(
            "the network's quantization overflows in integer arithmetic; no engine would compute this exactly",
        ))
    }

    /// The words of a buffer, and the status.
    fn read(&self, held: &Held) -> Result<(Vec<u32>, u32)> {
        let bytes = 4 * held.len as u64;
        let staging = self.device.create_buffer(&BufferDescriptor {
            label: None,
            size: bytes + 4,
            usage: BufferUsages::COPY_DST | BufferUsages::MAP_READ,
            mapped_at_creation: false,
        });
        let mut encoder = self.device.create_command_encoder(&CommandEncoderDescriptor::default());
        if bytes > 0 {
            encoder.copy_buffer_to_buffer(&held.buffer, 0, &staging, 0, bytes);
        }
        encoder.copy_buffer_to_buffer(&self.status, 0, &staging, bytes, 4);
        self.queue.submit([encoder.finish()]);
        let result = Arc::new(Mutex::new(None));
        let answer = Arc::clone(&result);
        staging.map_async(MapMode::Read, .., move |outcome| {
            *answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        });
        self.poll(PollType::wait_indefinitely())?;
        self.check()?;
        let unreadable =
            || Error::unsupported("a buffer could not be read back").found(self.info.to_string());
        let outcome = result.lock().unwrap_or_else(PoisonError::into_inner).take();
        outcome.and_then(std::result::Result::ok).ok_or_else(unreadable)?;
        let view = staging.get_mapped_range(..).map_err(|_| unreadable())?;
        let mut words: Vec<u32> = bytemuck::pod_collect_to_vec(&view[..]);
        let status = words.pop().ok_or_else(unreadable)?;
        Ok((words, status))
    }
}

impl Backend for Gpu {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn arithmetic(&self) -> Arithmetic {
        self.info.arithmetic
    }

    fn upload(&mut self, values: &Array) -> Result<BufferId> {
        let id = self.allocate(values.element(), values.len())?;
        let bytes: &[u8] = match values {
            Array::F32(values) => bytemuck::cast_slice(values),
            Array::I32(values) => bytemuck::cast_slice(values),
            Array::F64(values) => bytemuck::cast_slice(values),
        };
        self.queue.write_buffer(&self.held(id)?.buffer, 0, bytes);
        self.check()?;
        Ok(id)
    }

    fn zeros(&mut self, element: Element, len: usize) -> Result<BufferId> {
        self.allocate(element, len)
    }

    fn run(&mut self, kernel: &Kernel, operands: &[BufferId], output: BufferId) -> Result<()> {
        let dispatch = Dispatch::new(kernel, self.held(output)?.element)?;
        self.submit(&dispatch, operands, output)
    }

    fn download(&mut self, buffer: BufferId) -> Result<Array> {
        let held = self.held(buffer)?;
        let element = held.element;
        let (words, status) = self.read(held)?;
        self.check_status(status)?;
        Ok(match element {
            Element::I32 => Array::I32(bytemuck::cast_vec(words)),
            _ => Array::F32(bytemuck::cast_vec(words)),
        })
    }

    fn free(&mut self, buffer: BufferId) {
        self.buffers.remove(&buffer);
    }
}

fn storage(device: &Device, size: u64) -> Buffer {
    device.create_buffer(&BufferDescriptor {
        label: None,
        size,
        usage: BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST,
        mapped_at_creation: false,
    })
}
