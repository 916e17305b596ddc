//! A backend that runs `kernels.cu` as host C++: the launches are those of the GPU, word for word.

mod compile;

use ckpt_api::{Error, Result};
use ckpt_cuda::{Launch, Operand};
use ckpt_forward::{Arithmetic, Array, Backend, BufferId, DeviceInfo, Element, Kernel, MathMode};
use compile::compile;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::LazyLock;

pub struct HostCxx {
    info: DeviceInfo,
    buffers: BTreeMap<BufferId, Array>,
    next: u64,
    driver: Child,
    to: ChildStdin,
    from: ChildStdout,
}

impl HostCxx {
    /// `None`, and a message, if there is no C++ compiler and `CKPT_REQUIRE_CXX` is not set.
    pub fn open(arithmetic: Arithmetic) -> Option<Self> {
        static DRIVER: LazyLock<Option<PathBuf>> = LazyLock::new(build);
        let mut driver = Command::new(DRIVER.as_deref()?)
            .env("ASAN_OPTIONS", "detect_leaks=0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, from) = (driver.stdin.take().unwrap(), driver.stdout.take().unwrap());
        let info = DeviceInfo {
            api: "host C++".into(),
            device: "kernels.cu".into(),
            software: true,
            math: MathMode::Strict,
            arithmetic,
        };
        Some(HostCxx { info, buffers: BTreeMap::new(), next: 0, driver, to, from })
    }

    fn hold(&mut self, array: Array) -> BufferId {
        self.next += 1;
        self.buffers.insert(BufferId(self.next), array);
        BufferId(self.next)
    }

    fn launch(&mut self, launch: &Launch, operands: &[&Array], output: &Array) -> Result<Array> {
        let mut request = u32::try_from(launch.entry.len()).unwrap().to_ne_bytes().to_vec();
        request.extend(launch.entry.bytes());
        request.extend(launch.words.iter().flat_map(|word| word.to_ne_bytes()));
        for slot in launch.slots {
            match slot {
                Some(operand) => put(&mut request, &bytes(operands[operand])),
                None => request.extend((-1i64).to_ne_bytes()),
            }
        }
        let mut y = bytes(output);
        put(&mut request, &y);
        self.to.write_all(&request).expect("the driver reads every launch; if it died, it says why above");
        let mut answer = [0; 12];
        self.from.read_exact(&mut answer).expect("the driver answers; if it died, it says why above");
        self.from.read_exact(&mut y).unwrap();
        let word = |i: usize| u32::from_ne_bytes(answer[4 * i..4 * i + 4].try_into().unwrap());
        assert_eq!(word(0), 1, "there is no entry {}", launch.entry);
        match [word(1), word(2)] {
            [0, 0] => Ok(array(output.element(), &y)),
            faults => Err(Error::unsupported("a kernel reports a fault").found(format!("{faults:?}"))),
        }
    }
}

impl Drop for HostCxx {
    fn drop(&mut self) {
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

impl Backend for HostCxx {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn arithmetic(&self) -> Arithmetic {
        self.info.arithmetic
    }

    fn upload(&mut self, values: &Array) -> Result<BufferId> {
        Ok(self.hold(values.clone()))
    }

    fn zeros(&mut self, element: Element, len: usize) -> Result<BufferId> {
        Ok(self.hold(Array::zeros(element, len)))
    }

    fn run(&mut self, kernel: &Kernel, operands: &[BufferId], output: BufferId) -> Result<()> {
        let y = self.buffers[&output].clone();
        let operands: Vec<Array> = operands.iter().map(|id| self.buffers[id].clone()).collect();
        let operands: Vec<&Array> = operands.iter().collect();
        let shapes: Vec<Operand> = operands.iter().map(|array| shape(array)).collect();
        let launch = Launch::new(self.info.arithmetic, kernel, &shapes, shape(&y))?;
        let y = self.launch(&launch, &operands, &y)?;
        self.buffers.insert(output, y);
        Ok(())
    }

    fn download(&mut self, buffer: BufferId) -> Result<Array> {
        Ok(self.buffers[&buffer].clone())
    }

    fn free(&mut self, buffer: BufferId) {
        self.buffers.remove(&buffer);
    }
}

fn shape(array: &Array) -> Operand {
    Operand { element: array.element(), len: array.len() }
}

fn build() -> Option<PathBuf> {
    compile("driver.cpp", "driver", &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"])
}

fn put(request: &mut Vec<u8>, bytes: &[u8]) {
    request.extend(i64::try_from(bytes.len()).unwrap().to_ne_bytes());
    request.extend(bytes);
}

fn bytes(array: &Array) -> Vec<u8> {
    match array {
        Array::F32(values) => values.iter().flat_map(|value| value.to_ne_bytes()).collect(),
        Array::F64(values) => values.iter().flat_map(|value| value.to_ne_bytes()).collect(),
        Array::I32(values) => values.iter().flat_map(|value| value.to_ne_bytes()).collect(),
    }
}

fn array(element: Element, bytes: &[u8]) -> Array {
    fn each<const N: usize, T>(bytes: &[u8], value: fn([u8; N]) -> T) -> Vec<T> {
        bytes.chunks_exact(N).map(|bytes| value(bytes.try_into().unwrap())).collect()
    }
    match element {
        Element::F32 => Array::F32(each(bytes, f32::from_ne_bytes)),
        Element::F64 => Array::F64(each(bytes, f64::from_ne_bytes)),
        Element::I32 => Array::I32(each(bytes, i32::from_ne_bytes)),
    }
}
