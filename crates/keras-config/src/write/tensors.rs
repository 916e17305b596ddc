//! Binds the variables of layers to tensors.

use super::emitter::{Bound, Emitter};
use ckpt_api::{Axis, Error, Node, Result, Setting, Tensor, TensorId, text};

impl Emitter<'_> {
    /// Returns the tensor of this name.
    pub(super) fn tensor(&self, name: &str) -> Result<TensorId> {
        self.tensors.get(name).copied().ok_or_else(|| {
            Error::usage("the graph refers to a tensor that the checkpoint does not have").tensor(name)
        })
    }

    pub(super) fn described(&self, id: TensorId) -> Result<&Tensor> {
        self.checkpoint.tensors.get(id.0).ok_or_else(|| Error::defect("no such tensor"))
    }

    /// Returns the tensor in a node's role with its axes in this order; `None` if the node has none.
    pub(super) fn role(&self, node: &Node, role: &str, wanted: &[Axis]) -> Result<Option<Bound>> {
        let Some(name) = node.parameters.get(role) else { return Ok(None) };
        let id = self.tensor(name)?;
        let tensor = self.described(id)?;
        let bound = permuted(tensor, wanted).map_err(|error| error.tensor(name))?;
        Ok(Some(Bound { tensor: id, ..bound }))
    }

    /// Returns the tensor in a role that the node must have.
    pub(super) fn required(&self, node: &Node, role: &str, wanted: &[Axis]) -> Result<Bound> {
        self.role(node, role, wanted)?
            .ok_or_else(|| Error::usage("a layer of the graph lacks a parameter").expected(role))
    }

    /// Returns a tensor in its own order.
    pub(super) fn whole(&self, id: TensorId) -> Result<Bound> {
        let shape = self.described(id)?.shape.to_vec();
        Ok(Bound { tensor: id, order: (0..shape.len()).collect(), shape, added: None })
    }

    /// Gives the variable of a layer its tensor.
    pub(super) fn bind(&mut self, layer: usize, variable: &str, bound: &Bound) {
        if let Some(layer) = self.layers.get(layer) {
            self.bound.insert(format!("{}/{variable}", layer.name), bound.clone());
        }
    }

    /// Fails for a tensor in a role other than these.
    pub(super) fn allow_roles(&self, node: &Node, roles: &[&str]) -> Result<()> {
        match node.parameters.keys().find(|role| !roles.contains(&role.as_str())) {
            Some(role) => {
                Err(Error::unsupported("Keras's layer has no variable for this parameter").found(role))
            }
            None => Ok(()),
        }
    }
}

/// Returns the order in which a tensor has the wanted axes.
fn permuted(tensor: &Tensor, wanted: &[Axis]) -> Result<Bound> {
    let vector = [Axis::Out];
    let axes = match &tensor.axes {
        Some(axes) => &axes[..],
        None if tensor.shape.rank() == 1 && wanted == vector => &vector,
        None => {
            return Err(Error::usage("the meanings of this weight's axes are unknown")
                .found(tensor.shape.to_string())
                .help(text!["state them in an architecture file, given with ", Setting::ARCHITECTURE]));
        }
    };
    let order: Option<Vec<usize>> =
        wanted.iter().map(|axis| axes.iter().position(|own| own == axis)).collect();
    let order = order.filter(|order| order.len() == tensor.shape.rank()).ok_or_else(|| {
        let names = |axes: &[Axis]| axes.iter().map(|axis| axis.name()).collect::<Vec<_>>().join(", ");
        Error::unsupported("the axes of this weight are not those of Keras's layer")
            .found(names(axes))
            .expected(format!("{}, in any order", names(wanted)))
    })?;
    let shape = order.iter().filter_map(|axis| tensor.shape.get(*axis).copied()).collect();
    Ok(Bound { tensor: TensorId(0), order, shape, added: None })
}
