#![doc = include_str!("../README.md")]

#[cfg(any(feature = "metal", feature = "vulkan"))]
mod adapter;
#[cfg(any(feature = "metal", feature = "vulkan"))]
mod device;
#[cfg(any(feature = "metal", feature = "vulkan"))]
pub mod dispatch;
#[cfg(feature = "metal")]
pub mod msl;
#[cfg(any(feature = "metal", feature = "vulkan"))]
mod pipelines;
#[cfg(any(feature = "metal", feature = "vulkan"))]
pub mod probe;
#[cfg(any(feature = "metal", feature = "vulkan"))]
pub mod shader;

#[cfg(any(feature = "metal", feature = "vulkan"))]
pub use device::open;
