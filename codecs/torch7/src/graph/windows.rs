//! Layers whose windows move over rows and columns, and padding.

use super::builder::{Builder, Layer, Made, Of};
use ckpt_api::{Attribute, Op};
use ckpt_graph::{int, ints};

/// A window that moves over rows and columns.
struct Window {
    kernel: [u64; 2],
    strides: [u64; 2],
    pads: [u64; 2],
    dilations: [u64; 2],
}

impl Window {
    fn of(layer: &Layer<'_>) -> Result<Window, String> {
        // Layers of before 2015 pad both sides alike.
        let padding = layer.size("padding")?.unwrap_or(0);
        let pad = |name| Ok::<u64, String>(layer.size(name)?.unwrap_or(padding));
        let dilation = |name| Ok::<u64, String>(layer.size(name)?.unwrap_or(1));
        let window = Window {
            kernel: [layer.positive("kH")?, layer.positive("kW")?],
            strides: [layer.positive("dH")?, layer.positive("dW")?],
            pads: [pad("padH")?, pad("padW")?],
            dilations: [dilation("dilationH")?, dilation("dilationW")?],
        };
        match window.dilations.contains(&0) {
            true => Err("has a dilation of 0".to_owned()),
            false => Ok(window),
        }
    }

    fn attributes(&self) -> Result<[(&'static str, Attribute); 3], String> {
        let [rows, columns] = self.pads;
        Ok([
            ("kernel_shape", ints(&self.kernel)?),
            ("strides", ints(&self.strides)?),
            ("pads", ints(&[rows, columns, rows, columns])?),
        ])
    }
}

impl Builder<'_> {
    /// A convolution, whose weight may be a matrix with a row for each output.
    pub(super) fn convolution(&mut self, layer: &Layer<'_>, x: &Of) -> Made {
        let window = Window::of(layer)?;
        let [rows, columns] = window.kernel;
        let (outputs, inputs) = (layer.positive("nOutputPlane")?, layer.positive("nInputPlane")?);
        let groups = layer.size("groups")?.unwrap_or(1).max(1);
        x.check_image(Some(inputs))?;
        if !inputs.is_multiple_of(groups) || !outputs.is_multiple_of(groups) {
            return Err(format!("has {groups} groups of {inputs} channels and {outputs} outputs"));
        }
        let shape = [outputs, inputs / groups, rows, columns];
        self.weighted(
            layer,
            x,
            Op::Conv,
            shape,
            outputs,
            &window,
            vec![("group", Attribute::Int(int(groups)?))],
        )
    }

    pub(super) fn full_convolution(&mut self, layer: &Layer<'_>, x: &Of) -> Made {
        let window = Window::of(layer)?;
        let [rows, columns] = window.kernel;
        let (outputs, inputs) = (layer.positive("nOutputPlane")?, layer.positive("nInputPlane")?);
        x.check_image(Some(inputs))?;
        let added = [layer.size("adjH")?.unwrap_or(0), layer.size("adjW")?.unwrap_or(0)];
        let shape = [inputs, outputs, rows, columns];
        let more = vec![("output_padding", ints(&added)?)];
        self.weighted(layer, x, Op::ConvTranspose, shape, outputs, &window, more)
    }

    #[expect(clippy::too_many_arguments, reason = "what two kinds of convolutions have in common")]
    fn weighted(
        &mut self,
        layer: &Layer<'_>,
        x: &Of,
        op: Op,
        shape: [u64; 4],
        outputs: u64,
        window: &Window,
        more: Vec<(&'static str, Attribute)>,
    ) -> Made {
        let (weight, own) = self.tensor(layer, "weight").ok_or("has no weight")?;
        let needed = shape.iter().try_fold(1u64, |all, len| all.checked_mul(*len));
        if own != shape && Some(own.iter().product()) != needed {
            return Err(format!("needs a weight of shape {shape:?}, and has {own:?}"));
        }
        let bias = match self.tensor(layer, "bias") {
            Some(_) => Some(self.vector(layer, "bias", outputs)?),
            None => None,
        };
        let is_plain = own == shape;
        let mut inputs = vec![x.name.clone()];
        if !is_plain {
            inputs.push(self.nodes.tensor("weight", weight, &shape)?);
            if let Some(bias) = bias {
                inputs.push(self.nodes.tensor("bias", bias, &[outputs])?);
            }
        }
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        let mut node = self.nodes.node("", op, &inputs);
        if is_plain {
            node = node.parameter("weight", weight);
            if let Some(bias) = bias {
                node = node.parameter("bias", bias);
            }
        }
        let [_, strides, pads] = window.attributes()?;
        let attributes = [strides, pads, ("dilations", ints(&window.dilations)?)];
        let node =
            attributes.into_iter().chain(more).fold(node, |node, (name, value)| node.attribute(name, value));
        Ok(Of { name: self.nodes.add(node), dims: vec![None, Some(outputs), None, None] })
    }

    /// Torch7 counts the padding in a mean, and not what is behind it; a last window begins within the image.
    pub(super) fn pooling(&mut self, layer: &Layer<'_>, x: &Of) -> Made {
        x.check_image(None)?;
        let window = Window::of(layer)?;
        if window.kernel.iter().zip(window.pads).any(|(kernel, pad)| pad >= *kernel) {
            return Err("has windows that cover only padding".to_owned());
        }
        let ceil = ("ceil_mode", Attribute::Int(i64::from(layer.flag("ceil_mode", false)?)));
        let [kernel, strides, pads] = window.attributes()?;
        let name = match layer.kind {
            "SpatialMaxPooling" => {
                self.nodes.push("", Op::MaxPool, &[&x.name], [kernel, strides, pads, ceil])
            }
            _ => {
                if !layer.flag("divide", true)? {
                    return Err("sums windows, which is not supported".to_owned());
                }
                let is_counted = layer.flag("count_include_pad", true)?;
                let counted = ("count_include_pad", Attribute::Int(i64::from(is_counted)));
                self.nodes.push("", Op::AveragePool, &[&x.name], [kernel, strides, pads, ceil, counted])
            }
        };
        Ok(Of { name, dims: vec![None, x.channels(), None, None] })
    }

    pub(super) fn padding(&mut self, layer: &Layer<'_>, x: &Of) -> Made {
        x.check_image(None)?;
        let side = |name: &str| match layer.int(name)? {
            own if own >= 0 => Ok(own),
            own => Err(format!("has {name}: {own}, and cuts images")),
        };
        let [top, left, bottom, right] = [side("pad_t")?, side("pad_l")?, side("pad_b")?, side("pad_r")?];
        let mode = match layer.kind {
            "SpatialReflectionPadding" => "reflect",
            "SpatialReplicationPadding" => "edge",
            _ => "constant",
        };
        let attributes = [
            ("pads", Attribute::Ints(vec![0, 0, top, left, 0, 0, bottom, right])),
            ("mode", Attribute::Text(mode.to_owned())),
        ];
        let name = self.nodes.push("", Op::Pad, &[&x.name], attributes);
        Ok(Of { name, dims: vec![None, x.channels(), None, None] })
    }

    pub(super) fn upsampling(&mut self, layer: &Layer<'_>, x: &Of) -> Made {
        x.check_image(None)?;
        let factor = layer.number("scale_factor")?.filter(|own| *own >= 1.0 && own.fract() == 0.0);
        let factor = factor.ok_or("has no whole scale_factor")?;
        let text = |text: &str| Attribute::Text(text.to_owned());
        let attributes = [
            ("scales", Attribute::Floats(vec![1.0, 1.0, factor, factor])),
            ("mode", text("nearest")),
            ("coordinate_transformation_mode", text("asymmetric")),
            ("nearest_mode", text("floor")),
        ];
        let name = self.nodes.push("", Op::Resize, &[&x.name], attributes);
        Ok(Of { name, dims: vec![None, x.channels(), None, None] })
    }
}
