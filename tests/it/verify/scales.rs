//! Integers with a scale: the same integers with another scale are other numbers.

use super::support::{check, dense_net};
use ckpt::diff::{Outcome, Tolerance, diff};
use ckpt::digest::digest;
use ckpt::inspect::inspect;
use ckpt::verify::{Options, Verdict};

#[test]
fn diff_tells_tensors_of_other_scales_apart_whatever_the_tolerance() {
    let net = dense_net();
    let (own, other) = (net.in_integers(Some(256)), net.in_integers(Some(128)));
    let same = diff(&own, &net.in_integers(Some(256)), None).unwrap();
    assert!(same.agrees() && same.tensors[0].scale_a == same.tensors[0].scale_b);
    let wide = Some(Tolerance { absolute: 1e9, relative: 0.0 });
    let found = diff(&own, &other, wide).unwrap();
    assert!(!found.agrees());
    for tensor in &found.tensors {
        let scales = [tensor.scale_a, tensor.scale_b].map(|scale| scale.unwrap().get());
        assert_eq!((&tensor.outcome, scales), (&Outcome::Incomparable, [256, 128]), "{}", tensor.name);
    }
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!((&json["tensors"][0]["scale_a"], &json["tensors"][0]["scale_b"]), (&256.into(), &128.into()));
}

#[test]
fn integers_without_a_scale_have_the_scale_1() {
    let net = dense_net();
    let (none, one) = (net.in_integers(None), net.in_integers(Some(1)));
    assert!(diff(&none, &one, None).unwrap().agrees());
    assert_eq!(digest(&none, 1).unwrap().sha256, digest(&one, 1).unwrap().sha256);
    assert!(!diff(&none, &net.in_integers(Some(2)), None).unwrap().agrees());
}

#[test]
fn verify_finds_another_scale_with_graphs_and_without() {
    let net = dense_net();
    let mut bare = net.clone();
    bare.checkpoint.graph = None;
    for net in [net, bare] {
        let own = net.in_integers(Some(256));
        assert_eq!(check(&own, &own, &Options::default()).verdict, Verdict::Pass);
        for stated in [None, Some(128), Some(257)] {
            let report = check(&own, &net.in_integers(stated), &Options::default());
            assert_eq!(report.verdict, Verdict::Fail, "{stated:?}");
        }
    }
}

#[test]
fn a_hash_covers_scales() {
    let net = dense_net();
    let [own, again, other, none] =
        [Some(256), Some(256), Some(128), None].map(|stated| digest(&net.in_integers(stated), 1).unwrap());
    assert_eq!(own, again);
    assert!(own.sha256 != other.sha256 && own.sha256 != none.sha256);
    assert_eq!(own.tensors[0].sha256, other.tensors[0].sha256);
    assert_eq!(own.tensors[0].scale.unwrap().get(), 256);
}

#[test]
fn inspect_shows_scales() {
    let inspection = inspect(&dense_net().in_integers(Some(256)), false).unwrap();
    let json = serde_json::to_value(&inspection).unwrap();
    assert_eq!(json["tensors"][0]["scale"], 256);
    let none = inspect(&dense_net().source(), false).unwrap();
    assert!(none.tensors[0].scale.is_none());
}
