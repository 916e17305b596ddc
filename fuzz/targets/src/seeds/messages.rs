//! Messages as plugins send them: what the program's own codecs answer for the corpus.

use super::repository::{Result, Seeds, bytes, files, flat, push, root};
use ckpt_api::{Codec, Input, Options};
use ckpt_forms::{ContentsForm, Description, ErrorForm, LiteralForm, MatchForm, OutputLayoutForm, encode};
use serde::Serialize;

const TARGET: &str = "plugin_answers";

/// Adds the answers of small codecs.
pub(super) fn add(seeds: &mut Seeds) -> Result<()> {
    let codecs: [(&str, &'static dyn Codec); 4] = [
        ("cnn2", &ckpt_cnn2::Cnn2),
        ("nn", &ckpt_nn::Nn),
        ("npz", &ckpt_npz::Npz),
        ("safetensors", &ckpt_safetensors::Safetensors),
    ];
    for (name, codec) in codecs {
        push(seeds, TARGET, name, message(0, Description::of(codec, "0.1.0"))?);
        let folder = root().join("corpus").join(name).join("accept");
        for path in files(&folder)? {
            let file = flat(&path, &folder)?;
            let input = Input::memory(&file, [(file.clone(), bytes(&path)?)].into());
            push(seeds, TARGET, &format!("{file}-probe"), message(1, MatchForm::from(codec.probe(&input)?))?);
            let Ok(contents) = codec.read(&input, &Options::default(), input.limits()) else { continue };
            if let Ok(layout) = codec.place(&contents.checkpoint, &file, &Options::default()) {
                push(seeds, TARGET, &format!("{file}-place"), message(3, OutputLayoutForm::from(layout))?);
            }
            push(seeds, TARGET, &format!("{file}-read"), message(2, ContentsForm::from(contents))?);
        }
    }
    push(seeds, TARGET, "finish", message(4, Vec::<LiteralForm>::new())?);
    Ok(())
}

fn message(function: u8, result: impl Serialize) -> Result<Vec<u8>> {
    Ok([vec![function], encode(&Ok::<_, ErrorForm>(result))?].concat())
}
