//! The shaders in Metal's language.
//!
//! wgpu lets Metal compile what it translates with fast math, and has no switch. So the translation is made here, with
//! the same translator, and begins with what forbids it.

use crate::shader::{ENTRY_POINT, FIRST_OPERAND, LENGTHS, Shader};
use ckpt_api::{Error, Result};
use naga::ResourceBinding;
use naga::back::msl::{BindTarget, EntryPointResources, Options, PipelineOptions, write_string};
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::{Capabilities, ValidationFlags, Validator};

/// What keeps Metal's compiler to IEEE 754: the first from Metal 3.2 on, the second before, too.
pub const PRAGMAS: &str = "#pragma METAL fp math_mode(safe)\n#pragma METAL fp contract(off)\n";

/// The shader in Metal's language: every binding is the buffer of the same number, and there are no checks of bounds,
/// since the host has made them.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] if the translator refuses the shader.
pub fn translate(shader: Shader) -> Result<String> {
    let refused = |why: String| {
        Error::unsupported("a shader cannot be translated for Metal")
            .found(format!("{why} in {}", shader.name))
    };
    let source = shader.source();
    let module =
        naga::front::wgsl::parse_str(&source).map_err(|error| refused(error.emit_to_string(&source)))?;
    let info = Validator::new(ValidationFlags::all(), Capabilities::empty())
        .validate(&module)
        .map_err(|error| refused(error.emit_to_string(&source)))?;
    let (msl, translation) = write_string(&module, &info, &options(), &PipelineOptions::default())
        .map_err(|error| refused(error.to_string()))?;
    match translation.entry_point_names.as_slice() {
        [Ok(name)] if name == ENTRY_POINT => Ok(format!("{PRAGMAS}{msl}")),
        names => Err(refused(format!("entry points {names:?}"))),
    }
}

fn options() -> Options {
    let mut resources = EntryPointResources::default();
    // As wgpu numbers the buffers of the one bind group that there is.
    for (binding, slot) in (0..=LENGTHS).zip(0u8..) {
        let target = BindTarget {
            buffer: Some(slot),
            mutable: (1..FIRST_OPERAND).contains(&binding),
            ..Default::default()
        };
        if binding == LENGTHS {
            resources.sizes_buffer = Some(slot);
        }
        resources.resources.insert(ResourceBinding { group: 0, binding }, target);
    }
    let unchecked = BoundsCheckPolicy::Unchecked;
    Options {
        lang_version: (2, 4),
        per_entry_point_map: [(ENTRY_POINT.to_owned(), resources)].into(),
        fake_missing_bindings: false,
        bounds_check_policies: BoundsCheckPolicies {
            index: unchecked,
            buffer: unchecked,
            image_load: unchecked,
            binding_array: unchecked,
        },
        force_loop_bounding: false,
        ..Options::default()
    }
}
