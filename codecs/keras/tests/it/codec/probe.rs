//! How files are recognized.

use ckpt_api::{Codec, Input, Match};
use ckpt_keras::Keras;

#[test]
fn a_signature_after_a_long_user_block_is_looked_for_where_the_name_is_one_of_hdf5() {
    const SIGNATURE: &[u8] = b"\x89HDF\r\n\x1a\n";
    let probed = |name: &str, block: usize| {
        let bytes = [&vec![0; block], SIGNATURE].concat();
        Keras.probe(&Input::memory(name, [(name.to_owned(), bytes)].into())).unwrap()
    };
    for (name, block, is_found) in
        [("m", 0, true), ("m", 32 << 10, true), ("m", 64 << 10, false), ("m.h5", 64 << 10, true)]
    {
        assert_eq!(matches!(probed(name, block), Match::Certain(_)), is_found, "{name} {block}");
    }
}
