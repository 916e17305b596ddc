//! Blocks and compressed bytes that a plugin decodes by itself.

use super::imports::Stored;
use super::instance::Instance;
use super::pool::Pool;
use ckpt_api::{
    BlockCoder, Blocks, DecodeStream, Decoder, DecoderUnit, HostedDecoder, Parameters, Result, StoredBytes,
};
use ckpt_forms::{Bytes, DamageForm, DecoderForm, DecoderKindForm, Document, Function};
use std::io::{self, Read};
use std::sync::Arc;

/// Bytes that are decoded, or numbers' bytes that are encoded, by one call.
const PIECE: usize = 256 << 10;
/// The block encodings of a plugin.
pub(crate) fn blocks(stated: Vec<Document<Blocks>>, pool: &Arc<Pool>) -> &'static [Blocks] {
    let coded = stated.into_iter().zip(0..).map(|(Document(blocks), number)| {
        let sizes =
            [blocks.elements(), blocks.bytes()].map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        let coder = HostedBlocks { pool: Arc::clone(pool), number, sizes };
        blocks.coded_by(Box::leak(Box::new(coder)))
    });
    coded.collect::<Vec<_>>().leak()
}

/// The decoders of a plugin.
pub(crate) fn decoders(stated: Vec<DecoderForm>, pool: &Arc<Pool>) -> &'static [&'static Decoder] {
    let hosted = stated.into_iter().zip(0..).map(|(DecoderForm { name, kind, memory }, number)| {
        let unit = match kind {
            DecoderKindForm::Stream => DecoderUnit::Stream { memory },
            // The bytes of an extent come to a plugin together.
            DecoderKindForm::Whole | DecoderKindForm::InPlace => DecoderUnit::Whole,
        };
        let hosted = Hosted { pool: Arc::clone(pool), number, unit };
        &*Box::leak(Box::new(Decoder::hosted(name.leak(), Box::leak(Box::new(hosted)))))
    });
    hosted.collect::<Vec<_>>().leak()
}

struct HostedBlocks {
    pool: Arc<Pool>,
    number: u32,
    /// Elements and bytes of a block.
    sizes: [usize; 2],
}

impl BlockCoder for HostedBlocks {
    fn decode(&self, blocks: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let [elements, bytes] = self.sizes;
        let numbers = |blocks: &[u8]| (blocks.len() / bytes).saturating_mul(elements).saturating_mul(4);
        self.pool.with(|instance| {
            let whole = blocks.len() / bytes * bytes;
            for piece in blocks.get(..whole).unwrap_or_default().chunks((PIECE / bytes).max(1) * bytes) {
                let decoded: Bytes =
                    instance.call(Function::DecodeBlocks, &(self.number, Bytes(piece.to_vec())))?;
                if decoded.0.len() != numbers(piece) {
                    return Err(self.pool.misuse("another number of elements than the blocks have"));
                }
                out.extend_from_slice(&decoded.0);
            }
            Ok(())
        })
    }

    fn encode(&self, first: u64, numbers: &[u8], out: &mut Vec<u8>) -> Result<f64> {
        let [elements, bytes] = self.sizes;
        let (mut largest, mut first, block) = (0.0, first, elements.saturating_mul(4));
        if !numbers.len().is_multiple_of(block) {
            return Err(ckpt_api::Error::defect("the numbers do not fill blocks"));
        }
        self.pool.with(|instance| {
            for piece in numbers.chunks((PIECE / block).max(1) * block) {
                let request = (self.number, first, Bytes(piece.to_vec()));
                let (difference, blocks): (f64, Bytes) = instance.call(Function::EncodeBlocks, &request)?;
                if blocks.0.len() != piece.len() / block * bytes || difference.is_nan() {
                    return Err(self.pool.misuse("another number of blocks than the elements fill"));
                }
                largest = f64::max(largest, difference);
                out.extend_from_slice(&blocks.0);
                first = first.saturating_add((piece.len() / 4) as u64);
            }
            Ok(largest)
        })
    }
}

struct Hosted {
    pool: Arc<Pool>,
    number: u32,
    unit: DecoderUnit,
}

impl HostedDecoder for Hosted {
    fn unit(&self) -> DecoderUnit {
        self.unit
    }

    /// 0 if the plugin cannot say: then no extent is decoded.
    fn longest(&self, stored: u64, parameters: &Parameters) -> u64 {
        let request = (self.number, stored, Document(parameters.clone()));
        self.pool.with(|instance| instance.call(Function::LongestOutput, &request)).unwrap_or_default()
    }

    fn decode(&self, stored: &[u8], parameters: &Parameters, out: &mut [u8]) -> io::Result<usize> {
        let request = (self.number, Document(parameters.clone()), out.len() as u64, Bytes(stored.to_vec()));
        let decoded: Result<Result<(u64, Bytes), DamageForm>> =
            self.pool.with(|instance| instance.call(Function::DecodeWhole, &request));
        let (filled, bytes) = decoded.map_err(io::Error::other)??;
        let filled = usize::try_from(filled).unwrap_or(usize::MAX);
        if bytes.0.len() != out.len() || filled > out.len() {
            return Err(io::Error::other(self.pool.misuse("another number of decoded bytes")));
        }
        out.copy_from_slice(&bytes.0);
        Ok(filled)
    }

    fn start(
        &self,
        stored: StoredBytes,
        parameters: &Parameters,
        len: u64,
    ) -> io::Result<Box<dyn DecodeStream>> {
        let request = (self.number, Document(parameters.clone()), len, stored.len());
        let mut instance = self.pool.fresh().map_err(io::Error::other)?;
        instance.store.data_mut().stored = Some(Stored(stored));
        let started: Result<Result<(), DamageForm>> = instance.call(Function::StartStream, &request);
        started.map_err(io::Error::other)??;
        Ok(Box::new(HostedStream { pool: Arc::clone(&self.pool), instance }))
    }
}

struct HostedStream {
    pool: Arc<Pool>,
    instance: Instance,
}

impl Read for HostedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = u32::try_from(buffer.len().min(PIECE)).unwrap_or(u32::MAX);
        let read: Result<Result<Bytes, DamageForm>> = self.instance.call(Function::ReadStream, &most);
        let Bytes(bytes) = read.map_err(io::Error::other)??;
        let to = buffer.get_mut(..bytes.len());
        let to =
            to.ok_or_else(|| io::Error::other(self.pool.misuse("more decoded bytes than were asked for")))?;
        to.copy_from_slice(&bytes);
        Ok(bytes.len())
    }
}

impl DecodeStream for HostedStream {
    fn finish(&mut self) -> io::Result<Option<u64>> {
        let finished: Result<Result<Option<u64>, DamageForm>> =
            self.instance.call(Function::FinishStream, &());
        Ok(finished.map_err(io::Error::other)??)
    }
}
