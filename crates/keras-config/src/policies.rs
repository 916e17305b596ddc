//! What the layers of a model state of the types of their numbers.

use super::model::{Layer, Model};

impl Model {
    /// Returns the name of a layer whose weights are quantized, or that has LoRA: it has other variables than its class.
    pub fn altered_layer(&self) -> Option<&str> {
        let mut open = vec![self];
        while let Some(model) = open.pop() {
            open.extend(model.layers.iter().filter_map(|layer| layer.model.as_deref()));
            let is_altered =
                |layer: &&Layer| layer.quantization().is_some() || layer.option("lora_rank").is_some();
            if let Some(layer) = model.layers.iter().find(is_altered) {
                return Some(&layer.name);
            }
        }
        None
    }

    /// Whether a layer holds its variables in bfloat16, as its dtype or policy states. Mixed policies hold them in 32 bits.
    pub fn holds_bfloat16(&self) -> bool {
        let mut open = vec![self];
        while let Some(model) = open.pop() {
            open.extend(model.layers.iter().filter_map(|layer| layer.model.as_deref()));
            if model.layers.iter().any(|layer| layer.policy() == Some("bfloat16")) {
                return true;
            }
        }
        false
    }

    /// Whether a layer computes in 16 bits, as policies such as `mixed_bfloat16` state. The graph does not show it: run
    /// in more bits, it gives results that differ from the model's by the rounding of 16 bits.
    pub fn computes_in_16_bits(&self) -> bool {
        let mut open = vec![self];
        while let Some(model) = open.pop() {
            open.extend(model.layers.iter().filter_map(|layer| layer.model.as_deref()));
            let policies =
                model.layers.iter().filter(|layer| layer.class != "InputLayer").filter_map(Layer::policy);
            if policies.into_iter().any(|policy| policy.ends_with("float16")) {
                return true;
            }
        }
        false
    }
}
