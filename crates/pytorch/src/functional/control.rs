//! Branches and loops.

use super::Emitter;
use crate::refusal::refuse;
use ckpt_api::{Graph, Node, Result};

impl<'g> Emitter<'g> {
    pub(super) fn choice(&mut self, node: &'g Node) -> Result<()> {
        let condition = self.input(node, 0)?;
        let outputs: Vec<String> = node.outputs.iter().map(|output| self.named(output)).collect();
        let branches =
            [("then_branch", format!("if {condition}.item():")), ("else_branch", "else:".to_owned())];
        for (name, head) in branches {
            let graph = node.graph(name)?.ok_or_else(|| refuse(node, "lacks a branch"))?;
            self.line(&head);
            self.depth += 1;
            self.nodes(graph)?;
            self.results(graph, 0, &outputs)?;
            self.line("pass");
            self.depth -= 1;
        }
        Ok(())
    }

    /// Gives what a graph makes, from one of its outputs on, to as many variables.
    fn results(&mut self, graph: &'g Graph, from: usize, targets: &[String]) -> Result<()> {
        let made = graph.outputs.iter().skip(from).take(targets.len());
        let made = made.map(|value| self.variable(&value.name)).collect::<Result<Vec<_>>>()?;
        if !made.is_empty() {
            self.line(&format!("{}, = {},", targets.join(", "), made.join(", ")));
        }
        Ok(())
    }

    pub(super) fn repeated(&mut self, node: &'g Node) -> Result<()> {
        let body = node.graph("body")?.ok_or_else(|| refuse(node, "lacks its body"))?;
        let carried = body.inputs.len().checked_sub(2).filter(|carried| node.inputs.len() == carried + 2);
        let carried = carried.filter(|carried| body.outputs.len() > *carried);
        let carried = carried.ok_or_else(|| refuse(node, "does not take what its body takes"))?;
        let given = node.inputs.iter().skip(2).map(|name| self.variable(name)).collect::<Result<Vec<_>>>()?;
        let count = match (node.attributes.contains_key("trip_count"), node.inputs.first()) {
            (true, _) => node.int("trip_count", 0)?.to_string(),
            (false, Some(name)) if !name.is_empty() => format!("{}.item()", self.variable(name)?),
            _ => "1 << 31".to_owned(),
        };
        let first = match node.inputs.get(1) {
            Some(name) if !name.is_empty() => format!("bool({}.item())", self.variable(name)?),
            _ => "True".to_owned(),
        };
        let taken: Vec<String> = body.inputs.iter().map(|input| self.named(&input.name)).collect();
        let stacks: Vec<String> =
            (carried + 1..body.outputs.len()).map(|_| self.names.unique("stack")).collect();
        let holds = self.names.unique("holds");
        for (target, value) in taken.iter().skip(2).zip(&given) {
            self.line(&format!("{target} = {value}"));
        }
        stacks.iter().for_each(|stack| self.line(&format!("{stack} = []")));
        self.line(&format!("{holds} = {first}"));
        let number = self.names.unique("number");
        self.line(&format!("for {number} in range({count}):"));
        self.depth += 1;
        self.line(&format!("if not {holds}:"));
        self.line("    break");
        if let [iteration, condition, ..] = &taken[..] {
            self.line(&format!("{iteration}, {condition} = torch.tensor({number}), torch.tensor(1)"));
        }
        self.nodes(body)?;
        let results =
            body.outputs.iter().map(|value| self.variable(&value.name)).collect::<Result<Vec<_>>>()?;
        if let Some(condition) = results.first() {
            self.line(&format!("{holds} = bool({condition}.item())"));
        }
        for (stack, value) in stacks.iter().zip(results.iter().skip(carried + 1)) {
            self.line(&format!("{stack}.append({value})"));
        }
        self.results(body, 1, taken.get(2..).unwrap_or_default())?;
        self.depth -= 1;
        let made =
            taken.iter().skip(2).cloned().chain(stacks.iter().map(|stack| format!("torch.stack({stack})")));
        for (output, value) in node.outputs.iter().zip(made.collect::<Vec<_>>()) {
            if !output.is_empty() {
                let target = self.named(output);
                self.line(&format!("{target} = {value}"));
            }
        }
        Ok(())
    }
}
