//! What only the trainer's source tells of a quantized net: how many bytes its own header has, and what its file is called.

use crate::format::{PARAMS, QUANTISED, RAW, StateFile};
use crate::net::architecture::Architecture;
use crate::net::bytes::HexBytes;
use crate::net::entry::Item;
use ckpt_api::{Error, Input, Options, Result, Setting, text};

/// The option that states the bytes of a header.
const HEADER: &str = "header";

/// Returns the architecture with the header of the quantized net, whose length the option states: from now on, these bytes are
/// a part of the net.
pub(super) fn with_header(
    architecture: Option<Architecture>,
    input: &Input,
    options: &Options,
) -> Result<Option<Architecture>> {
    let Some(len) = options.count(HEADER) else { return Ok(architecture) };
    let refused = |message: &str| Error::usage(message.to_owned()).field(HEADER).found(len.to_string());
    let Some(Architecture { mut net, .. }) = architecture else {
        let help = text!["describe the net, for instance with ", Setting::READ_OPTION.of("arch=PRESET")];
        return Err(refused("a header says nothing about the net behind it").help(help));
    };
    if !(1..=HexBytes::MAX_LEN as u64).contains(&len) {
        let most = ckpt_api::count(HexBytes::MAX_LEN, "byte");
        return Err(refused("the header has an impossible length").expected(format!("1 byte to {most}")));
    }
    let name = match input.is_directory() {
        true => quantised(input)?.ok_or_else(|| {
            refused("there is no quantized net that could have a header")
                .expected(format!("a file {QUANTISED}"))
        })?,
        false => input.entry().to_owned(),
    };
    let bytes = input.file(&name)?.bytes(0, len)?;
    net.saved.insert(0, Item::Bytes(HexBytes(bytes)));
    Architecture::new(net).map(Some)
}

/// The name of a directory's quantized net. In the first version it has the name of the checkpoint: it is the one file whose name
/// ends in `.bin` and is none of the others'.
pub(super) fn quantised(input: &Input) -> Result<Option<String>> {
    if input.has_file(QUANTISED) {
        return Ok(Some(QUANTISED.to_owned()));
    }
    if !input.has_file(PARAMS.name) {
        return Ok(None);
    }
    let is_network =
        |name: &String| name.ends_with(".bin") && name != RAW && StateFile::from_name(name).is_none();
    let mut networks = input.list("")?.into_iter().filter(is_network);
    Ok(networks.next().filter(|_| networks.next().is_none()))
}
