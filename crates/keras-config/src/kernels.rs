//! The variables of each class of layers, and the meanings of their axes.

use super::einsum;
use super::layer::Reason;
use super::model::{Generation, Layer};
use super::naming::{Numbers, shown_name, snake_case};
use super::quantized::Quantized;
use ckpt_api::{Axis, Role};

/// Most layers that wrap each other.
const MAX_WRAPPED: usize = 8;

/// A variable within its layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LayerVariable {
    /// The names of the objects within the layer that it belongs to, as in `lstm_cell`; empty for the layer itself.
    pub(super) scope: String,
    /// The path of these objects in `.weights.h5`, as in `cell`.
    pub(super) child: String,
    /// Its number among the object's variables there.
    pub(super) number: usize,
    pub(super) role: &'static str,
    pub(super) is_trainable: bool,
    pub(super) tensor_role: Role,
    pub(super) axes: Option<Vec<Axis>>,
    pub(super) quantized: Option<Quantized>,
}

impl LayerVariable {
    /// Its name within the layer of this name.
    pub(super) fn name_within(&self, layer: &str) -> String {
        let slash = if self.scope.is_empty() { "" } else { "/" };
        format!("{layer}/{}{slash}{}", self.scope, self.role)
    }

    /// Its dataset, within the group that ends with `/`.
    pub(super) fn path_within(&self, group: &str) -> String {
        let slash = if self.child.is_empty() { "" } else { "/" };
        format!("{group}{}{slash}vars/{}", self.child, self.number)
    }

    /// The same variable within an object.
    fn within(mut self, scope: &str, child: &str) -> Self {
        for (own, outer) in [(&mut self.scope, scope), (&mut self.child, child)] {
            *own = match (outer.is_empty(), own.is_empty()) {
                (true, _) => std::mem::take(own),
                (_, true) => outer.to_owned(),
                _ => format!("{outer}/{own}"),
            };
        }
        self
    }
}

/// Lists the variables of one object, numbered in their order.
#[derive(Default)]
struct List(Vec<LayerVariable>);

impl List {
    fn add(mut self, role: &'static str, axes: Option<Vec<Axis>>) -> Self {
        self.push(role, axes, true, Role::Weight);
        self
    }

    fn vector(self, role: &'static str, is_there: bool) -> Self {
        if is_there { self.add(role, Some(vec![Axis::Out])) } else { self }
    }

    fn statistics(mut self, role: &'static str, axes: Option<Vec<Axis>>) -> Self {
        self.push(role, axes, false, Role::Weight);
        self
    }

    fn push(&mut self, role: &'static str, axes: Option<Vec<Axis>>, is_trainable: bool, tensor_role: Role) {
        let (scope, child, number) = (String::new(), String::new(), self.0.len());
        let quantized = None;
        self.0.push(LayerVariable { scope, child, number, role, is_trainable, tensor_role, axes, quantized });
    }

    fn within(self, scope: &str, child: &str) -> Vec<LayerVariable> {
        self.0.into_iter().map(|variable| variable.within(scope, child)).collect()
    }
}

/// The axes of a window of this many sides.
pub(super) fn window_axes(sides: usize) -> Vec<Axis> {
    let all = [Axis::KernelZ, Axis::KernelY, Axis::KernelX];
    all.get(all.len().saturating_sub(sides)..).unwrap_or_default().to_vec()
}

/// The number of sides that the name of a class states: `Conv2D` has two.
pub(super) fn sides(class: &str) -> Option<usize> {
    ["1D", "2D", "3D"].iter().position(|sides| class.contains(sides)).map(|index| index + 1)
}

/// Returns the variables of a layer, in the order of its `weights`.
pub(super) fn own(layer: &Layer, generation: Generation) -> Result<Vec<LayerVariable>, Reason> {
    variables(layer, generation, 0)
}

fn variables(layer: &Layer, generation: Generation, depth: usize) -> Result<Vec<LayerVariable>, Reason> {
    if depth > MAX_WRAPPED {
        return Err("layers wrap each other too deeply".to_owned());
    }
    if generation == Generation::Keras1 && matches!(layer.class.as_str(), "LSTM" | "GRU") {
        return Err("Keras 1 stores each of its gates apart, which is not supported".to_owned());
    }
    if layer.text("dim_ordering") == Some("th") && sides(&layer.class).is_some() {
        return Err("its kernels are those of Theano, which is not supported".to_owned());
    }
    if let Some(mode) =
        layer.quantization().filter(|mode| mode.starts_with("gptq") || mode.starts_with("awq"))
    {
        return Err(format!("it is quantized as '{}', which is not supported", shown_name(mode)));
    }
    let bias = layer.flag("use_bias", layer.flag("bias", true));
    let list = List::default();
    let kernel = |list: List, last: [Axis; 2]| {
        let axes = sides(&layer.class).map(|sides| [window_axes(sides), last.to_vec()].concat());
        list.add("kernel", axes)
    };
    let plain = match layer.class.as_str() {
        "Dense" => list.add("kernel", Some(vec![Axis::In, Axis::Out])).vector("bias", bias),
        "EinsumDense" => {
            let equation = layer.text("equation").unwrap_or_default();
            let biases = layer.text("bias_axes");
            let list = list.add("kernel", einsum::kernel_axes(equation));
            match biases {
                Some(axes) => list.add("bias", (axes.chars().count() == 1).then(|| vec![Axis::Out])),
                None => list,
            }
        }
        "Conv1D" | "Conv2D" | "Conv3D" | "Convolution1D" | "Convolution2D" | "Convolution3D" => {
            kernel(list, [Axis::In, Axis::Out]).vector("bias", bias)
        }
        "Conv1DTranspose" | "Conv2DTranspose" | "Conv3DTranspose" | "Deconvolution2D" => {
            kernel(list, [Axis::Out, Axis::In]).vector("bias", bias)
        }
        "DepthwiseConv1D" | "DepthwiseConv2D" => {
            let role = if generation == Generation::Keras3 { "kernel" } else { "depthwise_kernel" };
            let sides = window_axes(sides(&layer.class).unwrap_or(2));
            list.add(role, Some([sides, vec![Axis::In, Axis::Multiplier]].concat())).vector("bias", bias)
        }
        "SeparableConv1D" | "SeparableConv2D" => {
            let sides = window_axes(sides(&layer.class).unwrap_or(2));
            let depthwise = [&sides[..], &[Axis::In, Axis::Multiplier]].concat();
            let pointwise = [&sides[..], &[Axis::In, Axis::Out]].concat();
            let list = list.add("depthwise_kernel", Some(depthwise));
            list.add("pointwise_kernel", Some(pointwise)).vector("bias", bias)
        }
        "BatchNormalization" | "SyncBatchNormalization" | "BatchNormalizationV1" | "BatchNormalizationV2" => {
            let list =
                list.vector("gamma", layer.flag("scale", true)).vector("beta", layer.flag("center", true));
            let names = ["moving_mean", "moving_variance"];
            let more: &[&str] = match layer.flag("renorm", false) {
                true => &["moving_stddev", "renorm_mean", "renorm_stddev"],
                false => &[],
            };
            names
                .into_iter()
                .chain(more.iter().copied())
                .fold(list, |list, name| list.statistics(name, Some(vec![Axis::Out])))
        }
        "LayerNormalization" => {
            let scale = layer.flag("scale", true);
            let center = layer.flag("center", true) && !layer.flag("rms_scaling", false);
            let is_vector = layer.ints("axis").is_ok_and(|axes| axes.is_none_or(|axes| axes.len() == 1));
            let axes = is_vector.then(|| vec![Axis::Out]);
            let list = if scale { list.add("gamma", axes.clone()) } else { list };
            if center { list.add("beta", axes) } else { list }
        }
        "GroupNormalization" => {
            list.vector("gamma", layer.flag("scale", true)).vector("beta", layer.flag("center", true))
        }
        "RMSNormalization" => {
            let is_vector = layer.ints("axis").is_ok_and(|axes| axes.is_none_or(|axes| axes.len() == 1));
            list.add("scale", is_vector.then(|| vec![Axis::Out]))
        }
        "Normalization" if layer.option("mean").is_none() => {
            let mut list = list.statistics("mean", None).statistics("variance", None);
            list.push("count", None, false, Role::Counter);
            list
        }
        "Embedding" => list.add("embeddings", Some(vec![Axis::Feature, Axis::Out])),
        "PReLU" => list.add("alpha", None),
        "SimpleRNN" | "LSTM" | "GRU" | "ConvLSTM1D" | "ConvLSTM2D" | "ConvLSTM3D" => {
            return cell(layer, generation).map(|list| {
                // Keras 1 and 2 name the cell `lstm_cell`, the first versions did not name it.
                list.within(&cell_name(&layer.class), "cell")
            });
        }
        "RNN" => return cells(layer, generation),
        "MultiHeadAttention" => return attention(layer, generation),
        "GroupedQueryAttention" | "GroupQueryAttention" => return grouped_attention(bias),
        "Attention" | "AdditiveAttention" => {
            let (scale, concat) =
                (layer.flag("use_scale", layer.class == "AdditiveAttention"), layer.text("score_mode"));
            let list = if scale { list.add("scale", None) } else { list };
            if concat == Some("concat") { list.add("concat_score_weight", None) } else { list }
        }
        "TimeDistributed" => {
            let inner = layer.wrapped("layer").ok_or("it wraps no layer")?;
            let found = variables(&inner, generation, depth + 1)?;
            return Ok(found.into_iter().map(|variable| variable.within("", "layer")).collect());
        }
        "Bidirectional" => {
            let forward = layer.wrapped("layer").ok_or("it wraps no layer")?;
            let backward = layer.wrapped("backward_layer").unwrap_or_else(|| forward.clone());
            let mut found = Vec::new();
            for (inner, way) in [(forward, "forward"), (backward, "backward")] {
                let scope = format!("{way}_{}", inner.name.trim_start_matches(&format!("{way}_")));
                let child = format!("{way}_layer");
                let own = variables(&inner, generation, depth + 1)?;
                found.extend(own.into_iter().map(|variable| variable.within(&scope, &child)));
            }
            return Ok(found);
        }
        "SpectralNormalization" | "Wrapper" => {
            return Err(format!("'{}' is not supported", shown_name(&layer.class)));
        }
        _ => list,
    };
    Ok(with_scales(layer, plain).0)
}

/// Adds the scale of a layer whose kernel is stored as integers. The axes of one that is packed are not those of the layer.
fn with_scales(layer: &Layer, mut list: List) -> List {
    let quantized = Quantized::of(layer);
    let is_packed = quantized.as_ref().is_some_and(Quantized::is_packed);
    let names: &[&str] = match (&quantized, layer.class.as_str(), is_packed) {
        (None, ..) => &[],
        (_, "Embedding", false) => &["embeddings_scale"],
        (_, "Embedding", true) => &["embeddings_scale", "embeddings_zero", "g_idx"],
        (_, _, false) => &["kernel_scale"],
        (_, _, true) => &["kernel_scale", "kernel_zero", "g_idx"],
    };
    if let Some(kernel) = list.0.first_mut() {
        if is_packed {
            kernel.axes = None;
        }
        kernel.quantized = quantized;
    }
    names.iter().fold(list, |list, name| list.statistics(name, None))
}

/// The name that Keras gives the cell of a recurrent layer.
pub(super) fn cell_name(class: &str) -> String {
    let class = class.strip_suffix("Cell").unwrap_or(class);
    format!("{}_cell", snake_case(class))
}

/// Returns the variables of a recurrent layer's cell, or of a cell.
fn cell(layer: &Layer, generation: Generation) -> Result<List, Reason> {
    let class = layer.class.strip_suffix("Cell").unwrap_or(&layer.class);
    let axes = match sides(class) {
        Some(sides) => [window_axes(sides), vec![Axis::In, Axis::Out]].concat(),
        None => vec![Axis::In, Axis::Out],
    };
    let list = List::default().add("kernel", Some(axes.clone())).add("recurrent_kernel", Some(axes));
    // A layer of two biases, the input's and the recurrent ones, has them in two rows.
    let is_pair = class == "GRU" && layer.flag("reset_after", generation == Generation::Keras3);
    Ok(match (layer.flag("use_bias", true), is_pair) {
        (false, _) => list,
        (true, true) => list.add("bias", None),
        (true, false) => list.vector("bias", true),
    })
}

/// Returns the variables of a layer `RNN`: those of its cell, or of each of its cells.
fn cells(layer: &Layer, generation: Generation) -> Result<Vec<LayerVariable>, Reason> {
    let outer = layer.wrapped("cell").ok_or("it has no cell")?;
    if outer.class != "StackedRNNCells" {
        check_cell(&outer)?;
        return Ok(cell(&outer, generation)?.within(&outer.name, "cell"));
    }
    let (mut found, mut numbers) = (Vec::new(), Numbers::default());
    for inner in stacked(&outer)? {
        let child = format!("cell/cells/{}", numbers.next(&inner.class));
        let scope = format!("{}/{}", outer.name, inner.name);
        found.extend(cell(&inner, generation)?.within(&scope, &child));
    }
    Ok(found)
}

/// Returns the cells of `StackedRNNCells`.
pub(super) fn stacked(outer: &Layer) -> Result<Vec<Layer>, Reason> {
    let cells = outer.option("cells").and_then(|cells| cells.as_array()).ok_or("it has no cells")?;
    let cells =
        cells.iter().map(|cell| Layer::parse(cell).ok_or_else(|| "one of its cells is no layer".to_owned()));
    let cells = cells.collect::<Result<Vec<_>, _>>()?;
    cells.iter().try_for_each(check_cell)?;
    Ok(cells)
}

fn check_cell(cell: &Layer) -> Result<(), Reason> {
    match cell.class.as_str() {
        "LSTMCell" | "GRUCell" | "SimpleRNNCell" if cell.is_builtin() => Ok(()),
        other => Err(format!("its cell '{}' is not one of Keras", shown_name(other))),
    }
}

/// The projections of an attention: their names, and those of the objects in `.weights.h5`.
fn attention(layer: &Layer, generation: Generation) -> Result<Vec<LayerVariable>, Reason> {
    let bias = layer.flag("use_bias", true);
    let gate = layer.flag("use_gate", false);
    let names = [("query", "query_dense"), ("key", "key_dense"), ("gate", "gate_dense")];
    let names = names.into_iter().filter(|(name, _)| gate || *name != "gate");
    let names = names.chain([("value", "value_dense"), ("attention_output", "output_dense")]);
    let mut found = Vec::new();
    for (name, object) in names {
        // Keras 3 has properties of these names but for the gate, and Keras 2 has none.
        let is_hidden = generation != Generation::Keras3 || name == "gate";
        let child = format!("{}{object}", if is_hidden { "_" } else { "" });
        let list = List::default().add("kernel", None);
        let list = if bias { list.add("bias", None) } else { list };
        found.extend(list.within(name, &child));
    }
    Ok(found)
}

fn grouped_attention(bias: bool) -> Result<Vec<LayerVariable>, Reason> {
    let names = [
        ("query", "_query_dense"),
        ("key", "_key_dense"),
        ("value", "_value_dense"),
        ("attention_output", "_output_dense"),
    ];
    let each = names.into_iter().flat_map(|(name, child)| {
        let list = List::default().add("kernel", None);
        let list = if bias { list.add("bias", None) } else { list };
        list.within(name, child)
    });
    Ok(each.collect())
}
