//! What a cast keeps, rounds and refuses.

use super::*;

fn bytes_of(dtype: DType) -> usize {
    usize::try_from(dtype.bytes().unwrap()).unwrap()
}

/// Every code of a type of at most 16 bits.
fn codes(dtype: DType) -> Vec<u8> {
    let bits = dtype.bits().unwrap();
    (0..1u32 << bits).flat_map(|code| code.to_le_bytes()[..bytes_of(dtype)].to_vec()).collect()
}

#[test]
fn powers_of_two_are_exact_as_far_as_f64_has_them() {
    let mut expected = f64::from_bits(1);
    for exponent in -1074..=1023 {
        assert_eq!(power(exponent), expected);
        expected *= 2.0;
    }
    assert_eq!([power(-1075), power(1024), expected], [0.0, f64::INFINITY, f64::INFINITY]);
}

fn values(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    let read = reader(dtype).unwrap();
    bytes
        .chunks(bytes_of(dtype))
        .map(|element| match read(element) {
            Number::Float(value) => value,
            Number::Int(value) => value as f64,
        })
        .collect()
}

#[test]
#[cfg_attr(miri, ignore = "every number of 16 bits")]
fn a_cast_that_is_called_exact_keeps_every_value() {
    let mut pairs = 0;
    for from in DType::ALL.iter().filter(|dtype| dtype.bits().is_some_and(|bits| bits <= 16)) {
        for to in DType::ALL.iter().filter(|to| *to != from && castable(*from, **to) && exact(*from, **to)) {
            let (source, mut out) = (codes(*from), Vec::new());
            assert_eq!(cast(*from, *to, 0, &source, &mut out).unwrap(), 0.0);
            let (before, after) = (values(*from, &source), values(*to, &out));
            for (a, b) in before.iter().zip(&after) {
                let same = a == b && a.is_sign_negative() == b.is_sign_negative() || a.is_nan() && b.is_nan();
                assert!(same, "{from} {a} became {to} {b}");
            }
            pairs += 1;
        }
    }
    assert!(pairs > 60, "only {pairs} pairs");
}

#[test]
#[cfg_attr(miri, ignore = "every number of 16 bits")]
fn a_cast_that_is_not_called_exact_loses_some_value() {
    let mut out = Vec::new();
    for (from, to) in [(DType::F16, DType::Bf16), (DType::Bf16, DType::F16), (DType::F16, DType::F8E4m3)] {
        assert!(castable(from, to) && !exact(from, to));
        let size = bytes_of(from);
        let fits = |code: &&[u8]| values(from, code)[0].abs() <= largest(to).unwrap();
        let fitting: Vec<u8> = codes(from).chunks(size).filter(fits).flatten().copied().collect();
        let error = cast(from, to, 0, &fitting, &mut out).unwrap();
        let (before, after) = (values(from, &fitting), values(to, &out));
        let differences = before.iter().zip(&after).map(|(a, b)| (a - b).abs());
        assert_eq!(error, differences.fold(0.0, f64::max));
        assert!(error > 0.0 && before.len() > 1000, "{from} to {to}: {error}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "every number of 16 bits")]
fn casts_of_many_numbers_at_once_are_those_of_one() {
    let all = |from| (from, codes(from).repeat(WORTH_A_TABLE / 256));
    let mut pairs = 0;
    for (from, source) in
        DType::ALL.iter().filter(|from| from.bits().is_some_and(|bits| bits <= 16)).map(|from| all(*from))
    {
        for to in
            [DType::F32, DType::F16, DType::Bf16].into_iter().filter(|to| from != *to && castable(from, *to))
        {
            let (mut many, mut each) = (Vec::new(), Vec::new());
            let error = cast(from, to, 0, &source, &mut many).unwrap_or(f64::INFINITY);
            assert_eq!(error, cast_any(from, to, &source, &mut each).unwrap(), "{from} to {to}");
            assert!(many == each, "{from} to {to}");
            pairs += 1;
        }
    }
    assert!(pairs > 30, "only {pairs} pairs");
}

#[test]
fn narrowing_rounds_to_nearest_even() {
    let mut out = Vec::new();
    cast(DType::F32, DType::F16, 0, &(1.0 + to_f32(power(-11))).to_le_bytes(), &mut out).unwrap();
    assert_eq!(out, f16::from_f32(1.0).to_le_bytes());
    cast(DType::F32, DType::F16, 0, &(1.0 + 3.0 * to_f32(power(-11))).to_le_bytes(), &mut out).unwrap();
    assert_eq!(out, f16::from_f32(1.0 + to_f32(power(-9))).to_le_bytes());
}

#[test]
fn narrowing_from_f64_rounds_once_not_twice() {
    let mut out = Vec::new();
    for (to, bits) in [(DType::F16, 11), (DType::Bf16, 8)] {
        let (middle, little) = (1.0 + power(-bits), power(-45));
        for (value, expected) in [
            (middle, 1.0),
            (middle + little, 1.0 + power(1 - bits)),
            (middle - little, 1.0),
            (-middle - little, -1.0 - power(1 - bits)),
            (f64::NEG_INFINITY, f64::NEG_INFINITY),
            (f64::MIN_POSITIVE / 4.0, 0.0),
        ] {
            cast(DType::F64, to, 0, &value.to_le_bytes(), &mut out).unwrap();
            assert_eq!(values(to, &out), [expected], "{value:e} to {to}");
        }
        cast(DType::F64, to, 0, &f64::NAN.to_le_bytes(), &mut out).unwrap();
        assert!(values(to, &out)[0].is_nan());
    }
}

fn stored(from: DType, number: f64) -> Vec<u8> {
    let mut out = Vec::new();
    cast(DType::F64, from, 0, &number.to_le_bytes(), &mut out).unwrap();
    out
}

#[test]
fn a_finite_number_beyond_the_largest_is_an_error_that_says_where_and_how_large() {
    // The largest number that is rounded down to the largest of the type, and the next step above.
    let cases = [
        (DType::F32, DType::F16, 65504.0, 65519.0, 65520.0),
        (DType::Bf16, DType::F16, 65504.0, 65280.0, 65536.0),
        (DType::F64, DType::F16, 65504.0, 65519.9, 65520.0),
        (DType::F32, DType::F8E4m3, 448.0, 463.0, 464.0),
        (DType::F16, DType::F8E4m3, 448.0, 463.0, 464.0),
        (DType::F64, DType::F32, f64::from(f32::MAX), f64::from(f32::MAX), f64::MAX),
        (DType::F32, DType::Bf16, bf16::MAX.to_f64(), 3.39e38, f64::from(f32::MAX)),
    ];
    for (from, to, largest, fits, beyond) in cases {
        let mut out = Vec::new();
        for sign in [1.0, -1.0] {
            cast(from, to, 0, &stored(from, sign * fits), &mut out).unwrap();
            let source = [stored(from, 1.0), stored(from, sign * beyond)].concat();
            let error = cast(from, to, 40, &source, &mut out).unwrap_err();
            assert_eq!(error.kind(), ckpt_api::Kind::Lossy);
            let said = error.to_string();
            let found = values(from, &stored(from, sign * beyond))[0];
            for word in ["element 41".to_owned(), format!("found {found}"), format!("at most {largest} ")] {
                assert!(said.contains(&word), "{from} to {to}: '{word}' is not in: {said}");
            }
        }
    }
}

#[test]
fn what_is_not_finite_stays_what_it_is() {
    let mut out = Vec::new();
    for (from, to) in [
        (DType::F32, DType::F16),
        (DType::F32, DType::Bf16),
        (DType::F64, DType::F32),
        (DType::F64, DType::F16),
        (DType::Bf16, DType::F16),
    ] {
        let source = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(|number| stored(from, number)).concat();
        assert_eq!(cast(from, to, 0, &source, &mut out).unwrap(), 0.0);
        let found = values(to, &out);
        assert!(found[0].is_nan() && found[1..] == [f64::INFINITY, f64::NEG_INFINITY], "{from} to {to}");
    }
}

#[test]
fn the_largest_rounding_error_is_returned() {
    let source: Vec<u8> =
        [1.0f32, 0.1, 1000.3, f32::NAN, 2.0].iter().flat_map(|number| number.to_le_bytes()).collect();
    let mut out = Vec::new();
    let error = cast(DType::F32, DType::F16, 0, &source, &mut out).unwrap();
    assert_eq!(error, 1000.5 - f64::from(1000.3f32));
}

#[test]
fn blocks_are_converted_as_single_numbers_are() {
    let numbers: Vec<f32> = (0..200u32).map(|k| (k as f32 - 77.7) * 1.001f32.powi(k.cast_signed())).collect();
    let source: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let mut out = Vec::new();
    for len in [1, 63, 64, 65, 200] {
        let error = cast(DType::F32, DType::F16, 0, &source[..4 * len], &mut out).unwrap();
        let singly: Vec<f16> = numbers[..len].iter().map(|number| f16::from_f32(*number)).collect();
        let bytes: Vec<u8> = singly.iter().flat_map(|half| half.to_le_bytes()).collect();
        assert_eq!(out, bytes, "{len}");
        let differences = singly.iter().zip(&numbers).map(|(half, number)| (half.to_f32() - number).abs());
        assert_eq!(error, f64::from(differences.fold(0.0, f32::max)), "{len}");
    }
    let mut far = source;
    far[4 * 150..][..4].copy_from_slice(&1e9f32.to_le_bytes());
    let error = cast(DType::F32, DType::F16, 0, &far, &mut out).unwrap_err();
    assert!(error.to_string().contains("element 150"), "{error}");
}

#[test]
#[cfg_attr(miri, ignore = "every number of 16 bits")]
fn f8_e4m3_takes_the_nearest_code_and_of_two_the_even_one() {
    let nearest = |value: f64| {
        let distance = |code: u8| (small_float(code, 3, 7, false) - value.abs()).abs();
        let better = |a: &u8, b: &u8| distance(*a).total_cmp(&distance(*b)).then((a & 1).cmp(&(b & 1)));
        u8::from(value.is_sign_negative()) << 7 | (0..0x7f).min_by(better).unwrap()
    };
    let finite = values(DType::F16, &codes(DType::F16)).into_iter().filter(|value| value.abs() < 464.0);
    let mut checked = 0;
    for value in finite.flat_map(|value| [value, value * (1.0 + f64::EPSILON)]) {
        assert_eq!(small_bits(value), nearest(value), "{value:e}");
        checked += 1;
    }
    assert!(checked > 90_000, "only {checked}");
    assert_eq!(small_bits(464.0), 0x7f);
    assert_eq!(small_bits(463.9), 0x7e);
}

#[test]
fn integers_and_floats_do_not_mix_unless_exact() {
    assert!(!castable(DType::F32, DType::I8));
    assert!(!castable(DType::I64, DType::F32));
    assert!(castable(DType::I8, DType::F32));
    assert!(!castable(DType::String, DType::F32));
}

#[test]
fn the_small_floats_have_their_published_extremes() {
    let largest = [
        (DType::F8E4m3, 448.0),
        (DType::F8E4m3fnuz, 240.0),
        (DType::F8E4m3b11fnuz, 30.0),
        (DType::F8E5m2fnuz, 57344.0),
        (DType::F6E2m3, 7.5),
        (DType::F6E3m2, 28.0),
        (DType::F4E2m1, 6.0),
    ];
    for (dtype, expected) in largest {
        let all = values(dtype, &codes(dtype));
        assert_eq!(all.iter().copied().fold(0.0, f64::max), expected, "{dtype}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "a quarter of a million numbers")]
fn every_f16_and_what_lies_around_the_middle_to_the_next_becomes_what_the_crate_half_makes_of_it() {
    let mut numbers = Vec::new();
    for code in 0..=u16::MAX {
        let bits = f16::from_bits(code).to_f32().to_bits();
        let middle = bits | 0x1000;
        numbers.extend([bits, middle - 1, middle, middle + 1].map(f32::from_bits));
    }
    let (mut out, mut fitting) = (Vec::new(), 0);
    for number in numbers {
        let rounded = f16::from_f32(number);
        let cast = cast(DType::F32, DType::F16, 0, &number.to_le_bytes(), &mut out);
        assert_eq!(out, rounded.to_le_bytes(), "{number:e}");
        match &cast {
            Ok(error) if number.is_finite() => {
                assert_eq!(*error, f64::from((number - rounded.to_f32()).abs()))
            }
            Ok(error) => assert_eq!(*error, 0.0),
            Err(_) => assert!(rounded.is_infinite() && number.is_finite()),
        }
        fitting += u32::from(cast.is_ok());
    }
    assert!(fitting > 250_000, "only {fitting}");
}

proptest::proptest! {
    #[test]
    fn many_at_once_become_what_each_becomes(
        bits in proptest::collection::vec(proptest::prelude::any::<u32>(), 0..300), small: bool, from in 0usize..4,
    ) {
        // Any bits: infinities, NaN with payloads, subnormals, zeros with signs. Small ones, so that most fit every
        // type.
        let bits: Vec<u32> = bits.into_iter().map(|bits| if small { bits & 0xc700_0fff } else { bits }).collect();
        let words: Vec<u8> = bits.iter().flat_map(|bits| bits.to_le_bytes()).collect();
        let (from, to) = [
            (DType::F32, DType::F16), (DType::F32, DType::Bf16), (DType::F16, DType::F32), (DType::Bf16, DType::F32),
        ][from];
        let size = bytes_of(from);
        let (mut all, mut one, mut joined) = (vec![7; 3], Vec::new(), Vec::new());
        let mut worst = Ok(0f64);
        for (k, element) in words.chunks(size).enumerate() {
            let error = cast(from, to, k as u64, element, &mut one);
            worst = worst.and_then(|worst| error.map(|error| worst.max(error)));
            joined.extend_from_slice(&one);
        }
        match (cast(from, to, 0, &words, &mut all), worst) {
            (Ok(found), Ok(worst)) => proptest::prop_assert_eq!(found.to_bits(), worst.to_bits()),
            (Err(found), Err(first)) => proptest::prop_assert_eq!(found.to_string(), first.to_string()),
            (found, worst) => proptest::prop_assert!(false, "{:?}, singly {:?}", found, worst),
        }
        proptest::prop_assert_eq!(all, joined);
    }

    #[test]
    fn floats_become_what_the_crate_half_makes_of_them(bits: u32) {
        let number = f32::from_bits(bits);
        let mut out = Vec::new();
        let finite = |error: &Error| error.kind() == ckpt_api::Kind::Lossy && number.is_finite();
        let fits = |result: Result<f64>| result.map_or_else(|error| finite(&error), |_| true);
        proptest::prop_assert!(fits(cast(DType::F32, DType::Bf16, 0, &bits.to_le_bytes(), &mut out)));
        proptest::prop_assert_eq!(&out, &bf16::from_f32(number).to_le_bytes());
        proptest::prop_assert!(fits(cast(DType::F32, DType::F16, 0, &bits.to_le_bytes(), &mut out)));
        proptest::prop_assert_eq!(&out, &f16::from_f32(number).to_le_bytes());
    }
}

#[test]
fn an_integer_that_the_target_lacks_is_an_error() {
    let mut out = Vec::new();
    cast(DType::I8, DType::I4, 0, &[0xf8, 7], &mut out).unwrap();
    assert_eq!(out, [0x08, 7]);
    for (from, to, source) in [
        (DType::I8, DType::I4, &[0, 8][..]),
        (DType::U8, DType::U4, &[15, 16]),
        (DType::I8, DType::I2, &[1, 2]),
        (DType::U8, DType::I8, &[127, 128]),
    ] {
        let error = cast(from, to, 5, source, &mut out).unwrap_err();
        assert_eq!(error.kind(), ckpt_api::Kind::Lossy, "{from} {to}");
        assert_eq!(error.context().field, Some("element 6"), "{error}");
    }
}

#[test]
fn every_code_of_a_small_float_is_restored_from_what_holds_it() {
    for (held, holder, codes) in [
        (DType::F4E2m1, DType::F8E4m3, 16),
        (DType::F6E2m3, DType::F8E4m3, 64),
        (DType::F6E3m2, DType::F8E4m3, 64),
        (DType::F8E4m3b11fnuz, DType::F16, 256),
        (DType::F4E2m1, DType::F16, 16),
    ] {
        let all: Vec<u8> = (0..codes).map(|code| u8::try_from(code).unwrap()).collect();
        let (mut wide, mut again) = (Vec::new(), Vec::new());
        cast(held, holder, 0, &all, &mut wide).unwrap();
        assert_eq!(cast(holder, held, 0, &wide, &mut again).unwrap().to_bits(), 0, "{held}");
        assert_eq!(again, all, "{held} in {holder}");
    }
}

#[test]
fn a_value_that_a_restored_float_lacks_is_an_error_that_names_it() {
    let f16 = |value: f32| f16::from_f32(value).to_le_bytes();
    for (held, value) in [
        (DType::F4E2m1, 2.5),
        (DType::F4E2m1, 8.0),
        (DType::F4E2m1, f32::NAN),
        (DType::F4E2m1, f32::INFINITY),
        (DType::F6E3m2, 0.03),
        (DType::F8E4m3b11fnuz, -0.0),
        (DType::F8E4m3b11fnuz, 31.0),
        (DType::F8E4m3b11fnuz, f32::NEG_INFINITY),
    ] {
        let source = [f16(1.5), f16(value)].concat();
        let error = cast(DType::F16, held, 7, &source, &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), ckpt_api::Kind::Lossy);
        assert_eq!(error.context().field, Some("element 8"), "{held}: {error}");
    }
}

#[test]
fn weights_are_not_narrowed_to_floats_that_are_restored_only() {
    for held in [DType::F4E2m1, DType::F6E2m3, DType::F6E3m2, DType::F8E4m3b11fnuz] {
        assert!(!castable(DType::F32, held) && !castable(DType::F64, held), "{held}");
        assert!(castable(held, DType::F32));
    }
}
