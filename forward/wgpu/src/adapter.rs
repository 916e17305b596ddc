//! Which adapter runs.

use ckpt_api::{Error, Result, Setting, text};
use wgpu::{Adapter, Backend, Backends, DeviceType, Instance, InstanceDescriptor, InstanceFlags};

/// The interface that was asked for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    Metal,
    Vulkan,
}

impl Api {
    pub(crate) fn parse(name: &str) -> Result<Self> {
        match name {
            "metal" => Ok(Api::Metal),
            "vulkan" => Ok(Api::Vulkan),
            _ => Err(Error::usage("there is no such GPU interface").found(name).expected("vulkan or metal")),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Api::Metal => "metal",
            Api::Vulkan => "vulkan",
        }
    }

    fn backend(self) -> Backend {
        match self {
            Api::Metal => Backend::Metal,
            Api::Vulkan => Backend::Vulkan,
        }
    }

    fn is_built_in(self) -> bool {
        match self {
            Api::Metal => cfg!(feature = "metal"),
            Api::Vulkan => cfg!(feature = "vulkan"),
        }
    }

    /// The error for everything that stands between the caller and a device.
    pub(crate) fn unavailable(self, because: impl std::fmt::Display) -> Error {
        Error::unsupported(format!("{} is unavailable, because {because}", self.name()))
    }
}

/// The best adapter of this interface and of no other: hardware before software.
pub(crate) fn choose(api: Api) -> Result<Adapter> {
    if !api.is_built_in() {
        return Err(api
            .unavailable("this build does not include its feature")
            .help(text!["build it with ", Setting::FEATURE.of(api.name())]));
    }
    let backends = Backends::from(api.backend());
    if !Instance::enabled_backend_features().contains(backends) {
        return Err(api.unavailable("this system does not have this interface"));
    }
    let instance = Instance::new(InstanceDescriptor {
        backends,
        flags: InstanceFlags::empty(),
        ..InstanceDescriptor::new_without_display_handle()
    });
    let adapters = pollster::block_on(instance.enumerate_adapters(backends));
    let best = adapters
        .into_iter()
        .filter(|adapter| adapter.get_info().backend == api.backend())
        .min_by_key(|adapter| preference(adapter.get_info().device_type));
    best.ok_or_else(|| {
        let because = match api {
            Api::Metal => "there is no Metal device",
            Api::Vulkan => "no Vulkan driver was found",
        };
        api.unavailable(because)
    })
}

fn preference(device: DeviceType) -> u8 {
    match device {
        DeviceType::DiscreteGpu => 0,
        DeviceType::IntegratedGpu => 1,
        DeviceType::VirtualGpu => 2,
        DeviceType::Other => 3,
        DeviceType::Cpu => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_is_the_last_resort() {
        use DeviceType::{Cpu, DiscreteGpu, IntegratedGpu, Other, VirtualGpu};
        let mut devices = [Cpu, Other, IntegratedGpu, VirtualGpu, DiscreteGpu];
        devices.sort_by_key(|device| preference(*device));
        assert_eq!(devices, [DiscreteGpu, IntegratedGpu, VirtualGpu, Other, Cpu]);
    }

    #[test]
    fn an_unknown_interface_is_named() {
        assert!(Api::parse("glide").unwrap_err().to_string().contains("glide"));
    }
}
