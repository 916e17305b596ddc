//! Keys of trees in msgpack.

use ckpt_api::{Codec, Contents, Error, Input, Kind, Limits, Options, Side};
use ckpt_orbax::Flax;
use std::collections::BTreeMap;

/// A tree of a list of modules, whose only module has this key and one number as its kernel.
fn read(key: &[u8]) -> Result<Contents, Error> {
    let array = [b"\x93\x91\x01\xa7float32\xc4\x04".as_slice(), &1_f32.to_le_bytes()].concat();
    let kernel = [&[0xc7, array.len() as u8, 1], &array[..]].concat();
    let bytes = [b"\x81\xa6layers\x81".as_slice(), key, b"\x81\xa6kernel", &kernel].concat();
    let input = Input::memory("m.msgpack", BTreeMap::from([("m.msgpack".to_owned(), bytes)]));
    let info = Flax.info();
    let options = Options::parse(info.id, info.options, Side::Read, &[])?;
    Flax.read(&input, &options, &Limits::default())
}

#[test]
fn a_whole_number_is_the_text_of_it() {
    for (key, name) in
        [(b"\x0c".as_slice(), "12"), (b"\xcd\x01\x00", "256"), (b"\xff", "-1"), (b"\xa10", "0")]
    {
        let contents = read(key).unwrap();
        let names: Vec<&str> =
            contents.checkpoint.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        assert_eq!(names, [format!("layers.{name}.kernel")]);
    }
}

#[test]
fn other_keys_are_refused_for_flax_reads_them() {
    for key in [b"\xc3".as_slice(), b"\xca\x3f\x80\x00\x00", b"\xc4\x01a"] {
        let error = read(key).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported, "{error}");
        assert!(error.context().offset.is_some(), "{error}");
    }
}
