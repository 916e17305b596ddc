//! Gives a plan that was read from a document what only codecs have: decoders, and encodings of blocks.

use super::{Comparison, Item, Plan, Stored};
use crate::resources::Resources;
use ckpt_api::{Blocks, Codec, Contents, Decoder, Extent, FileId, Kind, Placement, Result};
use std::sync::Arc;

impl Plan {
    /// Gives block encodings of a document their decoders and encoders.
    pub(crate) fn attach(&mut self, known: &[Blocks]) {
        if known.is_empty() {
            return;
        }
        let placements = &mut Arc::make_mut(&mut self.contents).placements;
        let places = &mut Arc::make_mut(&mut self.placed).placements;
        placements.iter_mut().chain(places).for_each(|placement| placement.attach(known));
        self.entries.iter_mut().for_each(|entry| entry.route.attach(known));
        for item in &mut self.items {
            if let Item::Compare(comparison) = item {
                let Comparison { first, other, .. } = &mut **comparison;
                for Stored { placement, encoding, route, .. } in [first, other] {
                    placement.attach(known);
                    encoding.attach(known);
                    route.attach(known);
                }
            }
        }
    }

    /// Gives compressed extents of a document the decoders of the codec that read them, or of the one that prepared them to be
    /// written.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for a decoder that the codec does not register, with the file and the tensor;
    /// [`ckpt_api::Kind::Corrupt`] for stored bytes that are too few for their tensor; [`ckpt_api::Kind::Limit`] if
    /// decoding them does not fit into memory.
    pub(crate) fn with_decoders(mut self, reader: &dyn Codec, writer: &dyn Codec) -> Result<Plan> {
        let compared = self.items.iter().flat_map(|item| match item {
            Item::Compare(comparison) => vec![&comparison.first.placement, &comparison.other.placement],
            Item::Write(_) => Vec::new(),
        });
        let mut extents = self.contents.placements.iter().chain(compared).flat_map(|stored| &stored.extents);
        if extents.all(Extent::has_decoder) {
            return Ok(self);
        }
        let known = [reader.decoders(), writer.decoders()].concat();
        let Contents { checkpoint, files, placements, .. } = Arc::make_mut(&mut self.contents);
        for placement in placements {
            let tensor = checkpoint.tensors.get(placement.tensor.0).map_or("", |tensor| &tensor.name);
            attach_decoders(placement, (files, tensor), reader, &known)?;
        }
        for item in &mut self.items {
            if let Item::Compare(comparison) = item {
                let Comparison { first, other, .. } = &mut **comparison;
                for Stored { tensor, placement, .. } in [first, other] {
                    attach_decoders(placement, (files, &tensor.name), reader, &known)?;
                }
            }
        }
        // What a decoder needs was not known when memory was shared.
        self.with_resources(Resources::default(), false)
    }
}

fn attach_decoders(
    placement: &mut Placement,
    (files, tensor): (&[String], &str),
    codec: &dyn Codec,
    known: &[&'static Decoder],
) -> Result<()> {
    placement.attach_decoders(known).map_err(|(error, FileId(file))| {
        let error = error.tensor(tensor).file(files.get(file).map_or("", String::as_str));
        match error.kind() {
            Kind::Unsupported => {
                let names: Vec<&str> = codec.decoders().iter().map(|decoder| decoder.name()).collect();
                error
                    .expected(match names.is_empty() {
                        true => format!("none: the codec '{}' registers no decoders", codec.info().id),
                        false => format!("a decoder of the codec '{}': {}", codec.info().id, names.join(", ")),
                    })
                    .help("run the plan with the program that made it, or register a codec that has the decoder")
            }
            _ => error,
        }
    })
}
