//! The GPU, by way of its driver.

use crate::{Launch, Operand, SLOTS, WORDS, ptx};
use ckpt_api::{Error, Result};
use ckpt_forward::{Arithmetic, Array, Backend, BufferId, DeviceInfo, Element, Kernel, MathMode};
use cudarc::driver::{
    CudaContext, CudaModule, CudaSlice, CudaStream, DeviceRepr, DriverError, LaunchArgs, LaunchConfig,
    PushKernelArg, ValidAsZeroBits, sys,
};
use cudarc::nvrtc::Ptx;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Threads of a block, and the most blocks of a launch: each thread computes one output after the other.
const BLOCK: u32 = 256;
const MOST_BLOCKS: u32 = 1 << 16;

/// The first NVIDIA GPU that the driver shows (`CUDA_VISIBLE_DEVICES` chooses another).
pub struct Cuda {
    info: DeviceInfo,
    stream: Arc<CudaStream>,
    module: Arc<CudaModule>,
    buffers: BTreeMap<BufferId, Buffer>,
    next: u64,
    /// Of each fault that kernels find in values, the first launch that had it; 0 for none.
    faults: CudaSlice<u32>,
    /// What was launched since `faults` was last read.
    launched: Vec<&'static str>,
}

/// Of at least one element, because an allocation of none is an error.
enum Values {
    F32(CudaSlice<f32>),
    F64(CudaSlice<f64>),
    I32(CudaSlice<i32>),
}

struct Buffer {
    values: Values,
    len: usize,
}

impl Cuda {
    /// Opens the device.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] if there is no driver, no device, or one that is too old; the error names the
    /// cause. [`ckpt_api::Kind::Defect`] if the embedded kernels are damaged.
    pub fn open(arithmetic: Arithmetic) -> Result<Self> {
        // Without this, the first call into a library that is not there panics.
        // SAFETY: the libraries that are tried are the driver's own, whose initializers may run at any time.
        #[expect(unsafe_code, reason = "loads a library")]
        let is_there = unsafe { sys::is_culib_present() };
        if !is_there {
            return Err(unavailable("the NVIDIA driver's library is not installed").expected(LIBRARY));
        }
        let count = CudaContext::device_count()
            .map_err(|error| unavailable("the NVIDIA driver cannot be initialized").found(text(error)))?;
        if count < 1 {
            return Err(unavailable("the NVIDIA driver finds no device")
                .help("check nvidia-smi, and the variable CUDA_VISIBLE_DEVICES"));
        }
        let kernels = Ptx::from_src(ptx()?);
        Self::first(arithmetic, kernels).map_err(|error| {
            unavailable("the device rejects the kernels")
                .found(text(error))
                .expected("a driver of CUDA 12.0 (525) or later, and compute capability 6.0 or later")
        })
    }

    fn first(arithmetic: Arithmetic, kernels: Ptx) -> Result<Self, DriverError> {
        let context = CudaContext::new(0)?;
        let (major, minor) = context.compute_capability()?;
        let info = DeviceInfo {
            api: "cuda".into(),
            device: format!("{} (compute capability {major}.{minor})", context.name()?),
            software: false,
            math: MathMode::Strict,
            arithmetic,
        };
        let module = context.load_module(kernels)?;
        let stream = context.default_stream();
        let faults = stream.alloc_zeros(2)?;
        Ok(Cuda { info, stream, module, buffers: BTreeMap::new(), next: 0, faults, launched: Vec::new() })
    }

    fn hold(&mut self, values: Values, len: usize) -> BufferId {
        self.next += 1;
        self.buffers.insert(BufferId(self.next), Buffer { values, len });
        BufferId(self.next)
    }

    fn allocate<T: DeviceRepr + ValidAsZeroBits>(&self, len: usize) -> Result<CudaSlice<T>> {
        let bytes = len.max(1).checked_mul(size_of::<T>()).filter(|bytes| isize::try_from(*bytes).is_ok());
        let bytes = bytes.ok_or_else(|| too_large(len))?;
        self.stream.alloc_zeros(len.max(1)).map_err(|error| match error {
            DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY) => too_large(len)
                .found(ckpt_api::count(bytes, "byte"))
                .help("run it in smaller batches, or with less on the device"),
            error => failed("the device cannot allocate memory", error),
        })
    }

    fn copied<T: DeviceRepr + ValidAsZeroBits>(&self, values: &[T]) -> Result<CudaSlice<T>> {
        let mut slice = self.allocate(values.len())?;
        if !values.is_empty() {
            self.stream
                .memcpy_htod(values, &mut slice)
                .map_err(|error| failed("values cannot be copied to the device", error))?;
        }
        Ok(slice)
    }

    fn fetched<T: DeviceRepr + Clone + Default>(&self, slice: &CudaSlice<T>, len: usize) -> Result<Vec<T>> {
        let mut values = vec![T::default(); slice.len()];
        self.stream
            .memcpy_dtoh(slice, &mut values)
            .and_then(|()| self.stream.synchronize())
            .map_err(|error| failed("the device reports an error in this kernel or an earlier one", error))?;
        values.truncate(len);
        Ok(values)
    }

    /// Reports what kernels found in values since the last time.
    fn check_faults(&mut self) -> Result<()> {
        let faults = self.fetched(&self.faults, 2)?;
        let launched = std::mem::take(&mut self.launched);
        let name = |fault: usize| {
            let launch = faults.get(fault).and_then(|launch| usize::try_from(*launch).ok())?;
            launched.get(launch.checked_sub(1)?)
        };
        let error = match (name(0), name(1)) {
            (_, Some(name)) => {
                Error::unsupported("an index is out of range").found(format!("in the kernel {name}"))
            }
            (Some(name), None) => Error::unsupported("an integer exceeds 32 bits")
                .found(format!("in the kernel {name}"))
                .help("the network's quantization overflows in integer arithmetic"),
            (None, None) => return Ok(()),
        };
        self.stream
            .memset_zeros(&mut self.faults)
            .map_err(|error| failed("the device's memory cannot be written", error))?;
        Err(error)
    }

    fn launch(&mut self, kernel: &Kernel, operands: &[BufferId], output: &mut Buffer) -> Result<()> {
        let operands = operands.iter().map(|id| self.buffers.get(id).ok_or_else(|| unknown(*id)));
        let operands = operands.collect::<Result<Vec<_>>>()?;
        let shapes: Vec<Operand> = operands.iter().map(|buffer| buffer.shape()).collect();
        let launch = Launch::new(self.info.arithmetic, kernel, &shapes, output.shape())?;
        if launch.threads == 0 {
            return Ok(());
        }
        self.launched.push(kernel.name());
        let number = u32::try_from(self.launched.len())
            .map_err(|_| Error::limit("too many kernels were launched before a download"))?;
        let slots = launch.slots.map(|slot| slot.and_then(|slot| operands.get(slot).copied()));
        launch_on(&self.stream, &self.module, &launch, slots, output, &mut self.faults, number).map_err(
            |error| {
                failed("a kernel cannot be launched", error).found(format!("in the kernel {}", kernel.name()))
            },
        )
    }
}

impl Backend for Cuda {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn arithmetic(&self) -> Arithmetic {
        self.info.arithmetic
    }

    fn upload(&mut self, values: &Array) -> Result<BufferId> {
        let held = match values {
            Array::F32(values) => Values::F32(self.copied(values)?),
            Array::F64(values) => Values::F64(self.copied(values)?),
            Array::I32(values) => Values::I32(self.copied(values)?),
        };
        Ok(self.hold(held, values.len()))
    }

    fn zeros(&mut self, element: Element, len: usize) -> Result<BufferId> {
        let held = match element {
            Element::F32 => Values::F32(self.allocate(len)?),
            Element::F64 => Values::F64(self.allocate(len)?),
            Element::I32 => Values::I32(self.allocate(len)?),
        };
        Ok(self.hold(held, len))
    }

    fn run(&mut self, kernel: &Kernel, operands: &[BufferId], output: BufferId) -> Result<()> {
        let mut y = self.buffers.remove(&output).ok_or_else(|| unknown(output))?;
        let result = self.launch(kernel, operands, &mut y);
        self.buffers.insert(output, y);
        result
    }

    fn download(&mut self, buffer: BufferId) -> Result<Array> {
        let held = self.buffers.get(&buffer).ok_or_else(|| unknown(buffer))?;
        let values = match &held.values {
            Values::F32(slice) => Array::F32(self.fetched(slice, held.len)?),
            Values::F64(slice) => Array::F64(self.fetched(slice, held.len)?),
            Values::I32(slice) => Array::I32(self.fetched(slice, held.len)?),
        };
        self.check_faults()?;
        Ok(values)
    }

    fn free(&mut self, buffer: BufferId) {
        self.buffers.remove(&buffer);
    }
}

impl Buffer {
    fn shape(&self) -> Operand {
        let element = match self.values {
            Values::F32(_) => Element::F32,
            Values::F64(_) => Element::F64,
            Values::I32(_) => Element::I32,
        };
        Operand { element, len: self.len }
    }
}

/// The parameters of a launch, of which an entry takes as many words as its struct has.
#[repr(transparent)]
struct Words([u64; WORDS]);

// SAFETY: the same bytes on the device as on the host, without pointers.
#[expect(unsafe_code, reason = "says what a type is on the device")]
unsafe impl DeviceRepr for Words {}

fn launch_on(
    stream: &CudaStream,
    module: &Arc<CudaModule>,
    launch: &Launch,
    operands: [Option<&Buffer>; SLOTS],
    output: &mut Buffer,
    faults: &mut CudaSlice<u32>,
    number: u32,
) -> Result<(), DriverError> {
    let function = module.load_function(&launch.entry)?;
    let blocks = launch.threads.div_ceil(u64::from(BLOCK)).min(u64::from(MOST_BLOCKS));
    let config = LaunchConfig {
        grid_dim: (u32::try_from(blocks).unwrap_or(MOST_BLOCKS), 1, 1),
        block_dim: (BLOCK, 1, 1),
        shared_mem_bytes: 0,
    };
    let (null, words) = (0u64, Words(launch.words));
    let mut args = stream.launch_builder(&function);
    for operand in operands {
        match operand {
            Some(buffer) => push(&mut args, &buffer.values),
            None => {
                args.arg(&null);
            }
        }
    }
    match &mut output.values {
        Values::F32(slice) => args.arg(slice),
        Values::F64(slice) => args.arg(slice),
        Values::I32(slice) => args.arg(slice),
    };
    args.arg(faults).arg(&number).arg(&words);
    // SAFETY: every entry takes five operands, the output, the faults, the launch's number and its parameters, of at
    // most WORDS words; `Launch` has checked types and lengths of all buffers for them, and entries check the indices
    // in values. The output is none of the operands: it was taken out of the map that these are in.
    #[expect(unsafe_code, reason = "launches a kernel")]
    unsafe { args.launch(config) }.map(drop)
}

fn push<'a>(args: &mut LaunchArgs<'a>, values: &'a Values) {
    match values {
        Values::F32(slice) => args.arg(slice),
        Values::F64(slice) => args.arg(slice),
        Values::I32(slice) => args.arg(slice),
    };
}

/// What `is_culib_present` looks for.
const LIBRARY: &str = "libcuda.so.1, or nvcuda.dll";

fn unavailable(reason: &str) -> Error {
    Error::unsupported(format!("CUDA is unavailable: {reason}"))
}

fn failed(message: &str, error: DriverError) -> Error {
    Error::unsupported(message).found(text(error))
}

fn too_large(len: usize) -> Error {
    Error::limit("a tensor does not fit into the memory of the device").found(ckpt_api::count(len, "element"))
}

fn unknown(buffer: BufferId) -> Error {
    Error::unsupported("the device has no such buffer").found(buffer.0.to_string())
}

fn text(error: DriverError) -> String {
    let words = error.error_string().ok().and_then(|words| words.to_str().ok());
    format!("{} ({:?})", words.unwrap_or("an error without a description"), error.0)
}
