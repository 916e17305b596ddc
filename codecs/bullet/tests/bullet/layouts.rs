//! Random engine files, compared with plain loops and converted back: layouts, alignments, headers and clipping.

use crate::architectures::{Net, checkpoint, nets};
use crate::build::{numbers, one, read_all_with, write};
use ckpt_api::Contents;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::json;

/// A part of an axis: the axis, the distance between neighboring indices, the length.
type Digit = (usize, usize, usize);

#[derive(Clone, Debug)]
struct Member {
    id: String,
    integers: bool,
    scale: u32,
    round: bool,
    clip: Option<f64>,
    /// Slowest first.
    stored: Vec<Digit>,
    words: Vec<String>,
}

/// The random choices for a member: its parameter, its order, how axes are divided, how numbers are stored.
type Choice = (Index, Vec<Index>, [usize; 6], [bool; 3], u32);

fn choices() -> impl Strategy<Value = Vec<Choice>> {
    let order = prop::collection::vec(any::<Index>(), 9);
    prop::collection::vec(
        (any::<Index>(), order, [1usize..5, 1..5, 1..5, 1..5, 1..5, 1..5], any::<[bool; 3]>(), 1u32..120),
        1..5,
    )
}

/// Members for parameters of the net, each once, with random layouts.
fn members(contents: &Contents, choices: &[Choice]) -> Vec<Member> {
    let tensors: Vec<_> = contents.checkpoint.tensors.iter().filter(|tensor| tensor.slot.is_none()).collect();
    let mut members: Vec<Member> = Vec::new();
    for (which, order, cuts, [integers, round, clip], scale) in choices {
        let tensor = which.get(&tensors);
        if members.iter().any(|member| member.id == tensor.name) {
            continue;
        }
        let mut digits: Vec<(Digit, String)> = Vec::new();
        for (axis, name) in tensor.axes.as_ref().unwrap().iter().enumerate() {
            let len = tensor.shape[axis] as usize;
            let inner = largest_divisor(len, cuts[2 * axis % 6]);
            let middle = largest_divisor(len / inner, cuts[(2 * axis + 1) % 6]);
            let outer = len / inner / middle;
            let name = name.name();
            digits.push(((axis, inner * middle, outer), format!("{name}/{}", inner * middle)));
            digits.push(((axis, inner, middle), format!("{name}/{inner}%{middle}")));
            digits.push(((axis, 1, inner), format!("{name}%{inner}")));
        }
        let mut shuffled = Vec::new();
        for index in order {
            if !digits.is_empty() {
                shuffled.push(digits.remove(index.index(digits.len())));
            }
        }
        let clip = (*clip && *integers).then_some(0.3).filter(|clip| clip * f64::from(*scale) >= 1.0);
        let (stored, words) = shuffled.into_iter().unzip();
        let id = tensor.name.to_string();
        members.push(Member { id, integers: *integers, scale: *scale, round: *round, clip, stored, words });
    }
    members
}

fn largest_divisor(len: usize, most: usize) -> usize {
    (1..=most.min(len)).rev().find(|divisor| len.is_multiple_of(*divisor)).unwrap_or(1)
}

fn architecture(net: &Net, members: &[Member], header: &str, align: u64) -> String {
    let member = |member: &Member| {
        json!({
            "id": member.id, "type": if member.integers { "i16" } else { "f32" }, "layout": member.words,
            "scale": member.integers.then_some(member.scale), "round": member.round && member.integers,
            "clip": member.clip,
        })
    };
    let mut json = net.json.clone();
    json["engine"] = json!({ "header": header, "align": align, "members": members.iter().map(member).collect::<Vec<_>>() });
    json.to_string()
}

/// The engine file, by loops over the definition of a layout.
fn naive(
    contents: &Contents,
    values: &[Vec<u8>],
    members: &[Member],
    header: &[u8],
    align: usize,
) -> Vec<u8> {
    let mut file = header.to_vec();
    for member in members {
        file.resize(file.len().next_multiple_of(align), 0);
        let all = numbers(contents, values, &member.id);
        let shape = contents.checkpoint.tensor(&member.id).unwrap().1.shape.to_vec();
        for position in 0..all.len() {
            let (mut rest, mut index) = (position, vec![0; shape.len()]);
            for (axis, distance, len) in member.stored.iter().rev() {
                index[*axis] += rest % len * distance;
                rest /= len;
            }
            let flat = index.iter().zip(&shape).fold(0, |flat, (index, len)| flat * *len as usize + index);
            if !member.integers {
                file.extend(all[flat].to_le_bytes());
                continue;
            }
            let clip = member.clip.unwrap_or(f64::INFINITY);
            let scaled = f64::from(all[flat]).clamp(-clip, clip) * f64::from(member.scale);
            let integer = if member.round { scaled.round() } else { scaled.trunc() };
            file.extend((integer as i16).to_le_bytes());
        }
    }
    file.resize(file.len().next_multiple_of(align), 0);
    file
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn an_engine_file_matches_its_layout_and_converts_back(
        net in nets(), choices in choices(), header in prop::collection::vec(any::<u8>(), 0..9), align in 0u32..8,
    ) {
        let files = checkpoint(&net);
        let (contents, values) = read_all_with("", &files, &net.json.to_string(), &[]).unwrap();
        let members = members(&contents, &choices);
        let hex: String = header.iter().map(|byte| format!("{byte:02x}")).collect();
        let json = architecture(&net, &members, &hex, 1 << align);
        let (contents, values) = (read_all_with("", &files, &json, &[]).unwrap().0, values);
        let engine = write(&contents.checkpoint, &values, "net.nnue", &[]).unwrap();
        prop_assert_eq!(&engine["net.nnue"], &naive(&contents, &values, &members, &header, 1 << align));

        let engine = one("net.nnue", engine["net.nnue"].clone());
        let (back, back_values) = read_all_with("net.nnue", &engine, &json, &[("content", "engine")]).unwrap();
        for member in members.iter().filter(|member| !member.integers) {
            // Floats come back bit by bit.
            let of = |contents: &Contents, values: &[Vec<u8>]| {
                values[contents.checkpoint.tensor(&member.id).unwrap().0.0].clone()
            };
            prop_assert_eq!(of(&back, &back_values), of(&contents, &values));
        }
        prop_assert_eq!(write(&back.checkpoint, &back_values, "net.nnue", &[]).unwrap(), engine);
    }
}
