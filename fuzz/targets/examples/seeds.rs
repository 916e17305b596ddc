//! Writes the seeds of every target: `cargo run --example seeds -- DIRECTORY` makes `DIRECTORY/TARGET/NAME`.

use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: seeds DIRECTORY")?);
    for (target, seeds) in ckpt_fuzz_targets::seeds::all()? {
        let folder = out.join(target);
        std::fs::create_dir_all(&folder)?;
        for (name, seed) in seeds {
            std::fs::write(folder.join(name), seed)?;
        }
    }
    Ok(())
}
