//! The devices that graphs can run on.

use ckpt_api::{Error, Result};
use ckpt_engine::settings;
use ckpt_forward::{Arithmetic, Backend, Cpu};

/// The names that [`open`] accepts.
pub const NAMES: [&str; 4] = ["cpu", "cuda", "metal", "vulkan"];

/// Opens the device called `name`. [`Backend::info`] describes the hardware behind it.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for an unknown name; [`ckpt_api::Kind::Unsupported`] for a device that this build does not
/// support or that is absent, with the reason.
pub fn open(name: &str, arithmetic: Arithmetic) -> Result<Box<dyn Backend>> {
    match name {
        "cpu" => Ok(Box::new(Cpu::new(arithmetic))),
        #[cfg(feature = "cuda")]
        "cuda" => Ok(Box::new(ckpt_cuda::Cuda::open(arithmetic)?)),
        #[cfg(feature = "metal")]
        "metal" => ckpt_wgpu::open(name, arithmetic),
        #[cfg(feature = "vulkan")]
        "vulkan" => ckpt_wgpu::open(name, arithmetic),
        #[cfg(not(all(feature = "cuda", feature = "metal", feature = "vulkan")))]
        _ if NAMES.contains(&name) => Err(not_built(name)),
        _ => Err(Error::usage("no such device")
            .field(settings::DEVICE)
            .found(format!("'{name}'"))
            .help(ckpt_api::nearest(name, NAMES.into_iter()))),
    }
}

/// As [`open`], in f32; the CPU fuses products with the sums that they are added to ([`Cpu::fused`]).
///
/// # Errors
/// As [`open`].
pub fn open_fast(name: &str) -> Result<Box<dyn Backend>> {
    match name {
        "cpu" => Ok(Box::new(Cpu::fused())),
        other => open(other, Arithmetic::F32),
    }
}

#[cfg(not(all(feature = "cuda", feature = "metal", feature = "vulkan")))]
fn not_built(name: &str) -> Error {
    Error::unsupported("this build does not support the device")
        .field(settings::DEVICE)
        .found(name)
        .help(ckpt_api::text!["build it with ", ckpt_api::Setting::FEATURE.of(name)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_opened_by_its_name() {
        let cpu = open("cpu", Arithmetic::F32).unwrap();
        assert_eq!((cpu.info().api.as_str(), cpu.arithmetic()), ("cpu", Arithmetic::F32));
        let unknown = open("cpi", Arithmetic::F64).err().unwrap();
        assert_eq!(unknown.kind(), ckpt_api::Kind::Usage);
        assert!(unknown.to_string().contains("did you mean 'cpu'"), "{unknown}");
    }
}
