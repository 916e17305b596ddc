//! The shaders as Metal would get them: translated to its language, looked at, and run on the host as C++ through a
//! small header (`shim/metal.h`).
//!
//! Without a C++ compiler (`CXX`, else `c++`) what needs one says that it is skipped, unless `CKPT_REQUIRE_CXX` is set.

mod common;

use ckpt_api::{Error, Result};
use ckpt_forward::{Arithmetic, Array, Backend, BufferId, DeviceInfo, Element, Kernel, MathMode};
use ckpt_wgpu::dispatch::{Dispatch, Requirement};
use ckpt_wgpu::shader::{ALL, FIRST_OPERAND, LENGTHS, OUT_OF_RANGE, OVERFLOW, Shader};
use ckpt_wgpu::{msl, probe};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

/// What of Metal's library a shader may use: nothing that computes with real numbers, but for the clamp before a
/// conversion.
const ALLOWED: [&str; 12] = [
    "atomic_fetch_or_explicit",
    "atomic_uint",
    "clamp",
    "clz",
    "int4",
    "max",
    "memory_order_relaxed",
    "min",
    "select",
    "uint",
    "uint3",
    "uint4",
];

#[test]
fn every_shader_forbids_fast_math_before_anything_else() {
    for shader in ALL {
        assert!(msl::translate(*shader).unwrap().starts_with(msl::PRAGMAS), "{}", shader.name);
    }
    assert_eq!(ALL.len(), 20);
}

#[test]
fn no_shader_uses_a_function_of_real_numbers_or_memory_of_a_workgroup() {
    let mut used = BTreeSet::new();
    for shader in ALL {
        let source = msl::translate(*shader).unwrap();
        for (at, _) in source.match_indices("metal::") {
            let rest = &source[at + "metal::".len()..];
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            assert!(ALLOWED.contains(&&rest[..end]), "{}: metal::{}", shader.name, &rest[..end]);
            used.insert(rest[..end].to_owned());
        }
        for word in ["threadgroup ", "threadgroup_barrier", "fast::", "fma(", "half ", "_buffer_sizes."] {
            assert!(!source.contains(word), "{}: {word}", shader.name);
        }
    }
    assert!(used.len() >= 10, "{used:?}");
}

#[test]
fn every_binding_has_the_slot_that_wgpu_gives_it() {
    for shader in ALL {
        let slots = slots(&msl::translate(*shader).unwrap());
        let operands = FIRST_OPERAND..FIRST_OPERAND + u32::try_from(shader.operands).unwrap();
        assert!(slots.starts_with(&[0, 1]), "{}: {slots:?}", shader.name);
        assert!(operands.into_iter().all(|slot| slots.contains(&slot)), "{}: {slots:?}", shader.name);
        assert_eq!(slots.last(), Some(&LENGTHS), "{}", shader.name);
    }
}

#[test]
fn every_translated_kernel_agrees_with_the_cpu() {
    let Some(mut backend) = Translated::strict() else { return };
    common::every_kernel_agrees_with_the_cpu(&mut backend);
}

#[test]
fn translated_numbers_are_exact() {
    let Some(mut backend) = Translated::strict() else { return };
    common::comparisons_are_exact(&mut backend);
    common::moved_numbers_keep_their_bits(&mut backend);
    common::quotients_and_roots_are_correctly_rounded(&mut backend);
    common::sizes_of_0_work(&mut backend);
}

#[test]
fn translated_functions_keep_their_bounds() {
    let Some(mut backend) = Translated::strict() else { return };
    common::functions_keep_their_bounds(&mut backend);
}

#[test]
fn a_translated_overflow_is_an_error() {
    let Some(mut backend) = Translated::strict() else { return };
    common::an_overflow_is_an_error(&mut backend);
}

#[test]
fn the_probe_finds_the_translation_strict() {
    let Some(mut backend) = Translated::strict() else { return };
    assert_eq!(probed(&mut backend), MathMode::Strict);
}

#[test]
fn fast_math_changes_no_bit_of_any_kernel() {
    let Some(program) = Compiled::Fast.build(ALL, "fast") else { return };
    let mut backend = Translated::start(&program, ALL).unwrap();
    assert_eq!(probed(&mut backend), MathMode::Strict);
    common::every_kernel_agrees_with_the_cpu(&mut backend);
    common::comparisons_are_exact(&mut backend);
}

#[test]
fn no_kernel_leaves_the_part_of_a_buffer_that_it_states() {
    let Some(program) = Compiled::Guarded.build(ALL, "guarded") else { return };
    let mut backend = Translated::start(&program, ALL).unwrap();
    common::every_kernel_agrees_with_the_cpu(&mut backend);
    common::kernels_that_integers_share_agree_with_the_cpu(&mut backend);
    common::sizes_of_0_work(&mut backend);
}

#[test]
fn without_the_detour_through_the_integers_the_probe_would_notice_fast_math() {
    let probe = ALL.iter().position(|shader| shader.name == "probe").unwrap();
    let shaders = &ALL[probe..=probe];
    let Some(program) = Compiled::FastAndPlain.build(shaders, "plain") else { return };
    assert_ne!(probed(&mut Translated::start(&program, shaders).unwrap()), MathMode::Strict);
}

fn probed(backend: &mut Translated) -> MathMode {
    let numbers = words(&Array::F32(probe::NUMBERS.to_vec()));
    let dispatch = probe::dispatch();
    let output = vec![0; dispatch.output.len];
    let (found, _) = backend.serve(&dispatch, vec![numbers], output).unwrap();
    probe::judge(&found.into_iter().map(f32::from_bits).collect::<Vec<_>>())
}

/// The shaders in Metal's language, compiled as C++, in a process of their own.
struct Translated {
    info: DeviceInfo,
    shaders: &'static [Shader],
    child: Child,
    requests: ChildStdin,
    answers: ChildStdout,
    buffers: BTreeMap<BufferId, Array>,
    next: u64,
}

impl Translated {
    fn strict() -> Option<Self> {
        static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
        Self::start(PROGRAM.get_or_init(|| Compiled::Strictly.build(ALL, "strict")).as_deref()?, ALL)
    }

    fn start(program: &Path, shaders: &'static [Shader]) -> Option<Self> {
        let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let info = DeviceInfo {
            api: "metal".into(),
            device: "its language as C++".into(),
            software: true,
            math: MathMode::Strict,
            arithmetic: Arithmetic::F32,
        };
        let (requests, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Some(Translated { info, shaders, child, requests, answers, buffers: BTreeMap::new(), next: 0 })
    }

    fn hold(&mut self, array: Array) -> BufferId {
        let id = BufferId(self.next);
        self.next += 1;
        self.buffers.insert(id, array);
        id
    }

    /// The output and the status.
    fn serve(
        &mut self,
        dispatch: &Dispatch,
        operands: Vec<Vec<u32>>,
        output: Vec<u32>,
    ) -> Option<(Vec<u32>, u32)> {
        let shader =
            u32::try_from(self.shaders.iter().position(|shader| *shader == dispatch.shader)?).ok()?;
        let (columns, rows) = dispatch.groups();
        let mut left = operands.into_iter();
        let len = output.len();
        let mut buffers = vec![dispatch.params.clone(), output, vec![0]];
        buffers.extend(dispatch.operands.iter().map(|needed| match needed {
            Some(_) => left.next().unwrap_or_default(),
            None => vec![0],
        }));
        buffers.resize(LENGTHS as usize, vec![0]);
        buffers.push(dispatch.params.clone());
        let mut request = vec![shader, columns, rows, u32::try_from(buffers.len()).ok()?];
        for buffer in buffers {
            request.push(u32::try_from(buffer.len()).ok()?);
            request.extend(buffer);
        }
        let request: Vec<u8> = request.into_iter().flat_map(u32::to_ne_bytes).collect();
        self.requests.write_all(&request).ok()?;
        self.requests.flush().ok()?;
        let mut answer = vec![0; 4 * (len + 1)];
        self.answers.read_exact(&mut answer).ok()?;
        let mut words: Vec<u32> =
            answer.as_chunks::<4>().0.iter().map(|bytes| u32::from_ne_bytes(*bytes)).collect();
        let status = words.pop()?;
        Some((words, status))
    }
}

impl Drop for Translated {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn failure(message: &str) -> Error {
    Error::unsupported(message)
}

fn words(array: &Array) -> Vec<u32> {
    match array {
        Array::F32(values) => values.iter().map(|value| value.to_bits()).collect(),
        Array::I32(values) => values.iter().map(|value| value.cast_unsigned()).collect(),
        Array::F64(_) => panic!("shaders have no f64"),
    }
}

/// As much of a buffer as a kernel states that it needs: what it touches beyond would be noticed.
fn part(array: &Array, needed: Requirement) -> Vec<u32> {
    assert_eq!(array.element(), needed.element);
    assert!(array.len() >= needed.len, "{} of {needed:?}", array.len());
    let mut words = words(array);
    words.truncate(needed.len);
    words
}

impl Backend for Translated {
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
        let before = self.buffers[&output].clone();
        let dispatch = Dispatch::new(kernel, before.element())?;
        let needed = dispatch.operands.iter().flatten();
        let operands = needed.zip(operands).map(|(needed, id)| part(&self.buffers[id], *needed)).collect();
        let part = part(&before, dispatch.output);
        if dispatch.threads == 0 {
            return Ok(());
        }
        let (mut found, status) =
            self.serve(&dispatch, operands, part).ok_or_else(|| failure("the program ended"))?;
        found.extend(words(&before).drain(found.len()..));
        let found = match before.element() {
            Element::I32 => Array::I32(found.into_iter().map(u32::cast_signed).collect()),
            _ => Array::F32(found.into_iter().map(f32::from_bits).collect()),
        };
        self.buffers.insert(output, found);
        match status {
            0 => Ok(()),
            OVERFLOW => Err(failure("an integer exceeds 32 bits")),
            OUT_OF_RANGE => Err(failure("an index is out of range")),
            other => panic!("status {other}"),
        }
    }

    fn download(&mut self, buffer: BufferId) -> Result<Array> {
        Ok(self.buffers[&buffer].clone())
    }

    fn free(&mut self, buffer: BufferId) {
        self.buffers.remove(&buffer);
    }
}

/// The buffers of the entry point's arguments, in order.
fn slots(source: &str) -> Vec<u32> {
    let entry = source.split_once("kernel void").unwrap().1.split_once('{').unwrap().0;
    let numbers = entry.split("[[buffer(").skip(1);
    numbers.map(|rest| rest.split_once(')').unwrap().0.parse().unwrap()).collect()
}

/// How the translation is compiled.
#[derive(Clone, Copy)]
enum Compiled {
    /// As IEEE 754 states it.
    Strictly,
    /// The same, and the program ends when a shader leaves a buffer.
    Guarded,
    /// As Metal's fast math may: reassociated, contracted, as if there were no NaN.
    Fast,
    /// As fast, and without the detour through the integers that keeps a compiler from it.
    FastAndPlain,
}

impl Compiled {
    fn options(self) -> &'static [&'static str] {
        match self {
            Compiled::Strictly => &["-O1", "-ffp-contract=off"],
            Compiled::Guarded => &["-O1", "-ffp-contract=off", "-fsanitize=address"],
            Compiled::Fast | Compiled::FastAndPlain => {
                &["-O2", "-march=native", "-ffast-math", "-ffp-contract=fast"]
            }
        }
    }

    fn source(self, shader: Shader) -> String {
        // Arrays of unknown length have one element in the translation; C++ would hold them to it.
        let source = msl::translate(shader).unwrap().replace("[1];", "[1u << 28];");
        match self {
            Compiled::Strictly | Compiled::Guarded | Compiled::Fast => source,
            Compiled::FastAndPlain => {
                let plain = source.replace("return as_type<float>(as_type<uint>(x) ^ _e4);", "return x;");
                assert_ne!(plain, source, "the detour is not where it was");
                plain
            }
        }
    }

    /// Shaders in one program, each in a namespace of its own.
    fn program(self, shaders: &[Shader]) -> String {
        let mut program = String::from("#include \"metal.h\"\n");
        let mut calls = String::new();
        for (i, shader) in shaders.iter().enumerate() {
            let source = self.source(*shader);
            let slots: Vec<String> = slots(&source).iter().map(ToString::to_string).collect();
            let slots = slots.join(", ");
            let name = shader.name;
            writeln!(program, "namespace shader_{name} {{\n{source}\n}}").unwrap();
            writeln!(
                calls,
                "case {i}: return Runner<{slots}>::run(shader_{name}::compute, columns, rows, buffers);"
            )
            .unwrap();
        }
        let run = "void run_shader(uint shader, uint columns, uint rows, std::vector<Words>& buffers)";
        write!(
            program,
            "{run} {{\nswitch (shader) {{\n{calls}}}\n}}\nint main() {{\n    return serve();\n}}\n"
        )
        .unwrap();
        program
    }

    /// Compiles it; `None` without a compiler.
    fn build(self, shaders: &[Shader], name: &str) -> Option<PathBuf> {
        let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
        if Command::new(&compiler).arg("--version").output().is_err() {
            let is_required = std::env::var_os("CKPT_REQUIRE_CXX").is_some();
            assert!(!is_required, "CKPT_REQUIRE_CXX is set, but there is no {compiler}");
            println!("skipped: there is no C++ compiler {compiler}");
            return None;
        }
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("metal-{name}"));
        std::fs::create_dir_all(&folder).unwrap();
        let (source, program) = (folder.join("shaders.cpp"), folder.join("shaders"));
        std::fs::write(&source, self.program(shaders)).unwrap();
        let compiled = Command::new(&compiler)
            .args(["-std=c++17", "-Wno-attributes", "-Wno-unknown-pragmas", "-I"])
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shim"))
            .args(self.options())
            .arg("-o")
            .args([&program, &source])
            .output()
            .unwrap();
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        Some(program)
    }
}
