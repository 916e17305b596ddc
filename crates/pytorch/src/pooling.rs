//! The maximum or the mean over windows.

use super::arguments::{named, tuple};
use super::attributes::{int, ints, sizes};
use super::program::{ValueId, pieces};
use super::translate::Translator;
use super::views::View;
use super::window::{Window, padding};
use ckpt_api::{Attribute, Node, Op, Result};

impl<'g> Translator<'g> {
    /// The maximum or the mean over windows.
    pub(super) fn pool(&mut self, node: &'g Node) -> Result<()> {
        let view = self.view(node, 0)?;
        let kernel = ints(node, "kernel_shape")?.unwrap_or_default();
        let kernel = sizes(node, "kernel_shape", kernel.len(), 1, 1)?;
        let window = Window::of(node, &kernel)?;
        let lens =
            node.inputs.first().and_then(|input| self.shapes.get(input)).and_then(|dims| dims.get(2..));
        let pads = padding(node, &window, lens.unwrap_or_default())?;
        // A side that the value does not have, as images of one row, needs no window.
        let axes = view.axes.clone().unwrap_or_default();
        let is_kept = |side: usize| axes.get(side + 2) != Some(&None);
        let kept: Vec<usize> = (0..kernel.len()).filter(|side| is_kept(*side)).collect();
        let is_plain = |side: usize| {
            kernel.get(side) == Some(&1)
                && window.strides.get(side) == Some(&1)
                && pads.as_ref().is_some_and(|pads| pads.get(side) == Some(&(0, 0)))
        };
        let is_in_order = view.order().is_some_and(|order| order.is_sorted());
        let ceil = int(node, "ceil_mode", 0)? != 0;
        let dropped = (0..kernel.len()).filter(|side| !is_kept(*side));
        if kept.len() == kernel.len() || !is_in_order || !dropped.into_iter().all(is_plain) {
            let x = self.input(node, 0)?;
            let value = self.pooled(node, &window, x, ceil)?;
            self.put(node, value);
            return Ok(());
        }
        let of =
            |values: &[i64]| kept.iter().filter_map(|side| values.get(*side).copied()).collect::<Vec<i64>>();
        let window = Window {
            kernel: of(&window.kernel),
            strides: of(&window.strides),
            dilations: of(&window.dilations),
        };
        let mut own = node.clone();
        own.attributes.remove("auto_pad");
        let pads = pads.unwrap_or_default();
        let pads = [true, false].map(|begin| {
            let pad = |side: &usize| pads.get(*side).map_or(0, |pad| if begin { pad.0 } else { pad.1 });
            kept.iter().map(pad).collect::<Vec<i64>>()
        });
        own.attributes.insert("pads".to_owned(), Attribute::Ints(pads.concat()));
        let value = self.pooled(&own, &window, view.base, ceil)?;
        self.set(node, View { base: value, axes: view.axes });
        Ok(())
    }

    fn pooled(&mut self, node: &Node, window: &Window, x: ValueId, ceil: bool) -> Result<ValueId> {
        let sides = window.kernel.len();
        let is_max = node.op == Op::MaxPool;
        let lens =
            node.inputs.first().and_then(|input| self.shapes.get(input)).and_then(|dims| dims.get(2..));
        let pads = padding(node, window, lens.unwrap_or_default())?;
        let counts = int(node, "count_include_pad", 0)? != 0;
        let is_even = pads.as_ref().is_some_and(|pads| pads.iter().all(|(begin, end)| begin == end));
        // PyTorch pads at most half of a window.
        let fits = pads.as_ref().is_some_and(|pads| {
            pads.iter().zip(&window.kernel).all(|((begin, _), kernel)| *begin <= kernel / 2)
        });
        let needs_counts = !is_max && !counts;
        if needs_counts && (!is_even || !fits) {
            return self.average_without_pads(node, window, x);
        }
        let (x, padding) = match is_even && fits {
            true => (x, pads.unwrap_or_default().into_iter().map(|(begin, _)| begin).collect()),
            false => self.padded(node, window, x, if is_max { "-float(\"inf\")" } else { "0" })?,
        };
        let mut arguments = vec![tuple(&window.kernel)];
        arguments
            .extend((window.strides != window.kernel).then(|| format!("stride={}", tuple(&window.strides))));
        arguments.extend(named("padding", &padding, 0));
        arguments.extend(named("dilation", &window.dilations, 1).filter(|_| is_max));
        arguments.extend(ceil.then(|| "ceil_mode=True".to_owned()));
        let is_padded = padding.iter().any(|pad| *pad != 0);
        arguments.extend((!is_max && is_padded && !counts).then(|| "count_include_pad=False".to_owned()));
        let (name, class) = if is_max { ("max", "MaxPool") } else { ("avg", "AvgPool") };
        let arguments = arguments.join(", ");
        let written = pieces(&format!("F.{name}_pool{sides}d({{}}, {arguments})"), &[x]);
        Ok(self.program.assign_as(&node.name, x, written, format!("nn.{class}{sides}d({arguments})")))
    }

    /// A mean that leaves out what is padded on one side more than on the other.
    fn average_without_pads(&mut self, node: &Node, window: &Window, x: ValueId) -> Result<ValueId> {
        let sides = window.kernel.len();
        let rest = ", :1".repeat(2).trim_start_matches(", ").to_owned();
        let ones = self.program.assign("ones", pieces(&format!("torch.ones_like({{}}[{rest}])"), &[x]));
        let (ones, _) = self.padded(node, window, ones, "0")?;
        let (x, _) = self.padded(node, window, x, "0")?;
        let arguments = format!("{}, stride={}", tuple(&window.kernel), tuple(&window.strides));
        let format = format!("F.avg_pool{sides}d({{}}, {arguments}) / F.avg_pool{sides}d({{}}, {arguments})");
        Ok(self.program.assign(&node.name, pieces(&format, &[x, ones])))
    }
}
