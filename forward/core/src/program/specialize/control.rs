//! Choices and loops.

use super::{Fact, Level, Specializer, dead};
use crate::lower::Info;
use crate::program::control::unknown_count;
use crate::value::Numbers;
use ckpt_api::{Attribute, Error, Graph, Node, Op, Result};

impl Specializer<'_> {
    /// Adds the nodes of the branch that is taken, if it is known, or else the choice between both branches.
    pub(super) fn choice(&mut self, mut node: Node, to: &mut Level) -> Result<()> {
        let mut branch = |name: &str| match node.attributes.remove(name) {
            Some(Attribute::Graph(graph)) => Ok(*graph),
            _ => Err(lacks(name).field(&node.name)),
        };
        let (yes, no) = (branch("then_branch")?, branch("else_branch")?);
        let condition = node.inputs.first().and_then(|name| self.number(name));
        if let Some(holds) = condition {
            return self.taken(node, if holds == 0 { no } else { yes }, to);
        }
        let (yes, facts) = self.within(yes, Vec::new())?;
        let (no, _) = self.within(no, Vec::new())?;
        let node = node
            .attribute("then_branch", Attribute::Graph(Box::new(yes)))
            .attribute("else_branch", Attribute::Graph(Box::new(no)));
        self.emit(node, facts, to);
        Ok(())
    }

    /// Adds the nodes of a branch, whose results have the names of the node's.
    fn taken(&mut self, node: Node, mut graph: Graph, to: &mut Level) -> Result<()> {
        if graph.outputs.len() != node.outputs.len() {
            return Err(Error::corrupt("the layer has a different number of outputs than its graphs")
                .field(&node.name)
                .found(node.outputs.len().to_string())
                .expected(graph.outputs.len().to_string()));
        }
        self.with_own_names(&mut graph);
        self.all(std::mem::take(&mut graph.nodes), to)?;
        for (output, made) in node.outputs.into_iter().zip(graph.outputs) {
            let mut same = Node::new(node.name.clone(), Op::Identity);
            let fact = self.facts.get(&made.name).cloned();
            (same.inputs, same.outputs) = (vec![made.name], vec![output]);
            self.emit(same, fact.into_iter().collect(), to);
        }
        Ok(())
    }

    /// Adds a loop; a number of iterations that is known becomes an attribute.
    pub(super) fn repeated(&mut self, mut node: Node, to: &mut Level) -> Result<()> {
        let Some(Attribute::Graph(body)) = node.attributes.remove("body") else {
            return Err(lacks("body").field(&node.name));
        };
        let number = |place: usize| node.inputs.get(place).and_then(|name| self.number(name));
        let (trips, holds) = (number(0), number(1));
        if let (Some(trips), Some(input)) = (trips, node.inputs.first_mut()) {
            input.clear();
            // As many as there are numbers: the condition ends it.
            if trips < i64::from(i32::MAX) {
                node = node.attribute("trip_count", Attribute::Int(trips.max(0)));
            }
        }
        if let (Some(1..), Some(input)) = (holds, node.inputs.get_mut(1)) {
            input.clear();
        }
        let mut formals = Vec::with_capacity(body.inputs.len());
        for (place, input) in body.inputs.iter().enumerate() {
            let given = node.inputs.get(place).filter(|_| place > 1).and_then(|name| self.facts.get(name));
            let one = if input.shape == [Some(1)] { vec![1] } else { Vec::new() };
            let info = given.map_or(Info { shape: one, numbers: Numbers::Integer }, |fact| fact.info.clone());
            formals.push(Fact { info, known: None });
        }
        let carried = formals.len().saturating_sub(2);
        let (body, facts) = self.within(*body, formals)?;
        let count = node.int("trip_count", -1)?;
        let mut made = Vec::with_capacity(facts.len());
        for (place, fact) in facts.into_iter().skip(1).enumerate() {
            let Fact { mut info, .. } = fact;
            if place >= carried {
                let count = usize::try_from(count).map_err(|_| unknown_count().field(&node.name))?;
                info.shape.insert(0, count);
                if crate::value::count(&info.shape).is_none() {
                    let error = Error::limit("a value has too many elements").field(&node.name);
                    return Err(error.found(format!("{:?}", info.shape)));
                }
            }
            made.push(Fact { info, known: None });
        }
        self.emit(node.attribute("body", Attribute::Graph(Box::new(body))), made, to);
        Ok(())
    }

    /// Makes a graph within a node plain; returns what is known of its results.
    fn within(&mut self, graph: Graph, formals: Vec<Fact>) -> Result<(Graph, Vec<Fact>)> {
        let Graph { name, inputs, outputs, nodes } = graph;
        let mut level = Level::default();
        for (input, fact) in inputs.iter().zip(formals) {
            level.made.push(input.name.clone());
            self.facts.insert(input.name.clone(), fact);
        }
        self.all(nodes, &mut level)?;
        let found = |name: &String| {
            let fact = self.facts.get(name).cloned();
            let corrupt = || {
                Error::corrupt("a graph within a layer outputs a value that no layer makes")
                    .found(name.as_str())
            };
            // Which of several graphs makes the value is not known before the graph runs.
            fact.map(|fact| Fact { known: None, ..fact }).ok_or_else(corrupt)
        };
        let facts = outputs.iter().map(|value| found(&value.name)).collect::<Result<Vec<_>>>()?;
        for name in &level.made {
            self.facts.remove(name);
        }
        let nodes = dead::without_unused(level.nodes, &outputs);
        Ok((Graph { name, inputs, outputs, nodes }, facts))
    }
}

fn lacks(name: &str) -> Error {
    Error::corrupt(format!("the layer lacks its graph '{name}'"))
}
