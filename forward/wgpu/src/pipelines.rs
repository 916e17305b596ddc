//! Compute pipelines, made when they are first needed. All have the same layout.

use crate::shader::{ENTRY_POINT, FIRST_OPERAND, LENGTHS, MAX_OPERANDS, Shader};
use ckpt_api::Result;
use std::collections::BTreeMap;
use wgpu::{
    BindGroup, BindGroupDescriptor, BindGroupEntry, BindGroupLayout, BindGroupLayoutDescriptor,
    BindGroupLayoutEntry, BindingType, Buffer, BufferBindingType, ComputePipeline, ComputePipelineDescriptor,
    Device, PipelineCompilationOptions, PipelineLayout, PipelineLayoutDescriptor, ShaderModule,
    ShaderModuleDescriptor, ShaderSource, ShaderStages,
};

/// Storage buffers of the layout: the output, the status, the operands.
pub(crate) const STORAGE_BUFFERS: u32 = FIRST_OPERAND - 1 + MAX_OPERANDS;

pub(crate) struct Pipelines {
    bindings: BindGroupLayout,
    layout: PipelineLayout,
    made: BTreeMap<&'static str, ComputePipeline>,
    passes_through: bool,
}

impl Pipelines {
    /// `passes_through`: hand Metal its own language, so that it is not compiled with fast math.
    pub(crate) fn new(device: &Device, passes_through: bool) -> Self {
        let entry = |binding, ty| BindGroupLayoutEntry {
            binding,
            visibility: ShaderStages::COMPUTE,
            ty: BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
            count: None,
        };
        let mut entries = vec![entry(0, BufferBindingType::Uniform)];
        entries.extend((1..FIRST_OPERAND).map(|i| entry(i, BufferBindingType::Storage { read_only: false })));
        entries.extend(
            (FIRST_OPERAND..LENGTHS).map(|i| entry(i, BufferBindingType::Storage { read_only: true })),
        );
        entries.push(entry(LENGTHS, BufferBindingType::Uniform));
        let bindings =
            device.create_bind_group_layout(&BindGroupLayoutDescriptor { label: None, entries: &entries });
        let layout = device.create_pipeline_layout(&PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&bindings)],
            immediate_size: 0,
        });
        Pipelines { bindings, layout, made: BTreeMap::new(), passes_through }
    }

    /// The pipeline for a shader.
    pub(crate) fn pipeline(&mut self, device: &Device, shader: Shader) -> Result<&ComputePipeline> {
        if !self.made.contains_key(shader.name) {
            let module = self.module(device, shader)?;
            let pipeline = device.create_compute_pipeline(&ComputePipelineDescriptor {
                label: Some(shader.name),
                layout: Some(&self.layout),
                module: &module,
                entry_point: Some(ENTRY_POINT),
                compilation_options: PipelineCompilationOptions::default(),
                cache: None,
            });
            self.made.insert(shader.name, pipeline);
        }
        self.made.get(shader.name).ok_or_else(|| {
            ckpt_api::Error::unsupported("a compute pipeline could not be created")
                .found(format!("kernel {}", shader.name))
        })
    }

    /// Binds buffers in the order of the layout.
    pub(crate) fn bind(&self, device: &Device, buffers: &[&Buffer]) -> BindGroup {
        let entries: Vec<BindGroupEntry> = (0..)
            .zip(buffers)
            .map(|(binding, buffer)| BindGroupEntry { binding, resource: buffer.as_entire_binding() })
            .collect();
        device.create_bind_group(&BindGroupDescriptor {
            label: None,
            layout: &self.bindings,
            entries: &entries,
        })
    }

    fn module(&self, device: &Device, shader: Shader) -> Result<ShaderModule> {
        if self.passes_through {
            return passed_through(device, shader);
        }
        Ok(device.create_shader_module(ShaderModuleDescriptor {
            label: Some(shader.name),
            source: ShaderSource::Wgsl(shader.source().into()),
        }))
    }
}

/// The shader in Metal's language, which wgpu hands on as it is.
#[cfg(feature = "metal")]
#[expect(unsafe_code, reason = "wgpu does not check what it hands on")]
fn passed_through(device: &Device, shader: Shader) -> Result<ShaderModule> {
    use wgpu::{PassthroughShaderEntryPoint, ShaderModuleDescriptorPassthrough};
    let source = crate::msl::translate(shader)?;
    let descriptor = ShaderModuleDescriptorPassthrough {
        label: Some(shader.name),
        entry_points: vec![PassthroughShaderEntryPoint {
            name: ENTRY_POINT.into(),
            workgroup_size: (crate::shader::WORKGROUP, 1, 1),
        }]
        .into(),
        msl: Some(source.into()),
        ..Default::default()
    };
    // SAFETY: the source is naga's translation of a shader of this package that naga has validated, with the slots that
    // wgpu gives to the bindings of the one layout that is used. It has no loop without an end, and stays within its
    // buffers: `Dispatch` states how long each must be (the tests run the shaders in buffers of just
    // that length, under AddressSanitizer), and `Backend::run` checks that before the shader runs.
    Ok(unsafe { device.create_shader_module_passthrough(descriptor) })
}

#[cfg(not(feature = "metal"))]
fn passed_through(_: &Device, shader: Shader) -> Result<ShaderModule> {
    Err(ckpt_api::Error::unsupported("this build does not include the feature metal")
        .found(format!("kernel {}", shader.name)))
}
