// The transcendental functions, by the operations of real.wgsl: those of FreeBSD's msun for binary32, step for step, so that
// they give what `libm` gives on the CPU. Not of NaN, unless it is said.
//
// ====================================================
// Copyright (C) 1993 by Sun Microsystems, Inc. All rights reserved.
//
// Developed at SunPro, a Sun Microsystems, Inc. business.
// Permission to use, copy, modify, and distribute this
// software is freely granted, provided that this notice
// is preserved.
// ====================================================

const INVERSE_LN2: f32 = 1.4426950216f;

// One step of Horner's scheme: `constant + x·rest`.
fn horner(constant: f32, x: f32, rest: f32) -> f32 {
    return add(constant, multiply(x, rest));
}

// `x` in units of ln 2, rounded to the nearest.
fn halvings(x: f32) -> i32 {
    return i32(add(multiply(INVERSE_LN2, x), select(0.5, -0.5, (bitcast<u32>(x) & SIGN) != 0u)));
}

// e_expf.c; NaN gives NaN.
fn exponential(x: f32) -> f32 {
    let size = bitcast<u32>(x) & ~SIGN;
    let is_negative = (bitcast<u32>(x) & SIGN) != 0u;
    if size > INFINITY {
        return x;
    }
    if size >= 0x42b17218u && !is_negative {
        return bitcast<f32>(INFINITY);
    }
    if size >= 0x42cff1b5u && is_negative {
        return 0.0;
    }
    if size <= 0x39000000u {
        return add(1.0, x);
    }
    var k = 0;
    var high = x;
    var low = 0.0;
    if size > 0x3eb17218u {
        k = select(1, -1, is_negative);
        if size > 0x3f851592u {
            k = halvings(x);
        }
        high = subtract(x, multiply(f32(k), 6.9314575195e-01f));
        low = multiply(f32(k), 1.4286067653e-06f);
    }
    let r = subtract(high, low);
    let square = multiply(r, r);
    let c = subtract(r, multiply(square, horner(1.6666625440e-1f, square, -2.7667332906e-3f)));
    let ratio = divide(multiply(r, c), subtract(2.0, c));
    let y = add(1.0, add(subtract(ratio, low), high));
    return scaled(y, k);
}

// s_expm1f.c: eˣ − 1.
fn exponential_minus_one(value: f32) -> f32 {
    let size = bitcast<u32>(value) & ~SIGN;
    let is_negative = (bitcast<u32>(value) & SIGN) != 0u;
    if size >= 0x4195b844u && is_negative {
        return -1.0;
    }
    if size > 0x42b17217u {
        return bitcast<f32>(INFINITY);
    }
    if size < 0x33000000u {
        return value;
    }
    var k = 0;
    var x = value;
    var c = 0.0;
    if size > 0x3eb17218u {
        k = select(1, -1, is_negative);
        if size >= 0x3f851592u {
            k = halvings(value);
        }
        let high = subtract(value, multiply(f32(k), 6.9313812256e-01f));
        let low = multiply(f32(k), 9.0580006145e-06f);
        x = subtract(high, low);
        c = subtract(subtract(high, x), low);
    }
    let half = multiply(0.5, x);
    let square = multiply(x, half);
    let r = add(1.0, multiply(square, horner(-3.3333212137e-2f, square, 1.5807170421e-3f)));
    let t = subtract(3.0, multiply(r, half));
    var e = multiply(square, divide(subtract(r, t), subtract(6.0, multiply(x, t))));
    if k == 0 {
        return subtract(x, subtract(multiply(x, e), square));
    }
    e = subtract(subtract(multiply(x, subtract(e, c)), c), square);
    if k == -1 {
        return subtract(multiply(0.5, subtract(x, e)), 0.5);
    }
    if k == 1 {
        if is_less(x, -0.25) {
            return multiply(-2.0, subtract(e, add(x, 0.5)));
        }
        return add(1.0, multiply(2.0, subtract(x, e)));
    }
    if k < 0 || k > 56 {
        return subtract(scaled(add(subtract(x, e), 1.0), k), 1.0);
    }
    let power = scaled(1.0, -k);
    if k < 23 {
        return scaled(add(subtract(x, e), subtract(1.0, power)), k);
    }
    return scaled(add(subtract(x, add(e, power)), 1.0), k);
}

// What both logarithms end with, for `1 + f` within √2/2..√2.
struct Logarithm {
    // `s·(f²/2 + R)`
    series: f32,
    half_square: f32,
}

fn series(f: f32) -> Logarithm {
    let s = divide(f, add(2.0, f));
    let z = multiply(s, s);
    let w = multiply(z, z);
    let even = multiply(w, horner(0.40000972152f, w, 0.24279078841f));
    let odd = multiply(z, horner(0.66666662693f, w, 0.28498786688f));
    let half_square = multiply(multiply(0.5, f), f);
    return Logarithm(multiply(s, add(half_square, add(odd, even))), half_square);
}

// e_logf.c, for x ≥ 1 and NaN.
fn logarithm(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    if bits >= INFINITY {
        return x;
    }
    if bits == 0x3f800000u {
        return 0.0;
    }
    // The mantissa goes from √2/2 to √2.
    let moved = bits + (0x3f800000u - 0x3f3504f3u);
    let k = f32(i32(moved >> 23u) - 127);
    let f = subtract(bitcast<f32>((moved & 0x007fffffu) + 0x3f3504f3u), 1.0);
    let l = series(f);
    let fraction = subtract(add(l.series, multiply(k, 9.0580006145e-06f)), l.half_square);
    return add(add(fraction, f), multiply(k, 6.9313812256e-01f));
}

// s_log1pf.c: ln(1 + x), for x in 0..1.
fn logarithm_of_one_plus(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    if bits < 0x33800000u {
        return x;
    }
    var k = 0.0;
    var f = x;
    var c = 0.0;
    if bits >= 0x3ed413d0u {
        let whole = add(1.0, x);
        let moved = bitcast<u32>(whole) + (0x3f800000u - 0x3f3504f3u);
        k = f32(i32(moved >> 23u) - 127);
        c = divide(subtract(x, subtract(whole, 1.0)), whole);
        f = subtract(bitcast<f32>((moved & 0x007fffffu) + 0x3f3504f3u), 1.0);
    }
    let l = series(f);
    let fraction = subtract(add(l.series, add(multiply(k, 9.0580006145e-06f), c)), l.half_square);
    return add(add(fraction, f), multiply(k, 6.9313812256e-01f));
}

// s_tanhf.c
fn hyperbolic_tangent(x: f32) -> f32 {
    let size = bitcast<u32>(x) & ~SIGN;
    let positive = magnitude(x);
    var value = positive;
    if size > 0x41200000u {
        value = 1.0;
    } else if size > 0x3f0c9f54u {
        let t = exponential_minus_one(multiply(2.0, positive));
        value = subtract(1.0, divide(2.0, add(t, 2.0)));
    } else if size > 0x3e82c578u {
        let t = exponential_minus_one(multiply(2.0, positive));
        value = divide(t, add(t, 2.0));
    } else if size >= 0x00800000u {
        let t = exponential_minus_one(multiply(-2.0, positive));
        value = divide(negate(t), add(t, 2.0));
    }
    return bitcast<f32>(bitcast<u32>(value) | (bitcast<u32>(x) & SIGN));
}

// s_erff.c: 1 − erf(x) for x from 0.84375 to 6.
fn complementary_error_function(x: f32) -> f32 {
    if bitcast<u32>(x) < 0x3fa00000u {
        let s = subtract(x, 1.0);
        let p = horner(-2.3621185683e-03f, s, horner(4.1485610604e-01f, s, horner(-3.7220788002e-01f, s,
            horner(3.1834661961e-01f, s, horner(-1.1089469492e-01f, s, horner(3.5478305072e-02f, s,
            -2.1663755178e-03f))))));
        let q = horner(1.0, s, horner(1.0642088205e-01f, s, horner(5.4039794207e-01f, s,
            horner(7.1828655899e-02f, s, horner(1.2617121637e-01f, s, horner(1.3637083583e-02f, s,
            1.1984500103e-02f))))));
        // 1 − erf(1), rounded as it is there
        return subtract(subtract(1.0, 8.4506291151e-01f), divide(p, q));
    }
    let s = divide(1.0, multiply(x, x));
    var r: f32;
    var q: f32;
    if bitcast<u32>(x) < 0x4036db6du {
        r = horner(-9.8649440333e-03f, s, horner(-6.9385856390e-01f, s, horner(-1.0558626175e+01f, s,
            horner(-6.2375331879e+01f, s, horner(-1.6239666748e+02f, s, horner(-1.8460508728e+02f, s,
            horner(-8.1287437439e+01f, s, -9.8143291473e+00f)))))));
        q = horner(1.0, s, horner(1.9651271820e+01f, s, horner(1.3765776062e+02f, s, horner(4.3456588745e+02f, s,
            horner(6.4538726807e+02f, s, horner(4.2900814819e+02f, s, horner(1.0863500214e+02f, s,
            horner(6.5702495575e+00f, s, -6.0424413532e-02f))))))));
    } else {
        r = horner(-9.8649431020e-03f, s, horner(-7.9928326607e-01f, s, horner(-1.7757955551e+01f, s,
            horner(-1.6063638306e+02f, s, horner(-6.3756646729e+02f, s, horner(-1.0250950928e+03f, s,
            -4.8351919556e+02f))))));
        q = horner(1.0, s, horner(3.0338060379e+01f, s, horner(3.2579251099e+02f, s, horner(1.5367296143e+03f, s,
            horner(3.1998581543e+03f, s, horner(2.5530502930e+03f, s, horner(4.7452853394e+02f, s,
            -2.2440952301e+01f)))))));
    }
    let z = bitcast<f32>(bitcast<u32>(x) & 0xffffe000u);
    let coarse = exponential(subtract(multiply(negate(z), z), 0.5625));
    let fine = exponential(add(multiply(subtract(z, x), add(z, x)), divide(r, q)));
    return divide(multiply(coarse, fine), x);
}

fn error_function(x: f32) -> f32 {
    let size = bitcast<u32>(x) & ~SIGN;
    if size < 0x31800000u {
        return multiply(0.125, add(multiply(8.0, x), multiply(1.0270333290e+00f, x)));
    }
    if size < 0x3f580000u {
        let z = multiply(x, x);
        let r = horner(1.2837916613e-01f, z, horner(-3.2504209876e-01f, z, horner(-2.8481749818e-02f, z,
            horner(-5.7702702470e-03f, z, -2.3763017452e-05f))));
        let s = horner(1.0, z, horner(3.9791721106e-01f, z, horner(6.5022252500e-02f, z,
            horner(5.0813062117e-03f, z, horner(1.3249473704e-04f, z, -3.9602282413e-06f)))));
        return add(x, multiply(x, divide(r, s)));
    }
    var y = 1.0;
    if size < 0x40c00000u {
        y = subtract(1.0, complementary_error_function(magnitude(x)));
    }
    return bitcast<f32>(bitcast<u32>(y) | (bitcast<u32>(x) & SIGN));
}

// k_sinf.c and k_cosf.c with an argument in two parts, |high| ≤ π/4.
fn sine_near_zero(high: f32, low: f32) -> f32 {
    let z = multiply(high, high);
    let cube = multiply(z, high);
    let r = horner(8.3333337680e-03f, z, horner(-1.9841270114e-04f, z, 2.7557314297e-06f));
    let tail = subtract(multiply(z, subtract(multiply(0.5, low), multiply(cube, r))), low);
    return subtract(high, subtract(tail, multiply(cube, -1.6666667163e-01f)));
}

fn cosine_near_zero(high: f32, low: f32) -> f32 {
    let z = multiply(high, high);
    let r = multiply(z, horner(4.1666667908e-02f, z, horner(-1.3888889225e-03f, z, 2.4801587642e-05f)));
    let half = multiply(0.5, z);
    let w = subtract(1.0, half);
    let tail = subtract(multiply(z, r), multiply(high, low));
    return add(w, add(subtract(subtract(1.0, w), half), tail));
}

// For x from 0 to 10. The multiple of π/2 is taken off in three parts, of which the products with the first two are exact.
fn sine(x: f32) -> f32 {
    let quadrant = i32(add(multiply(x, 0.63661977236f), 0.5));
    let n = f32(quadrant);
    let first = subtract(x, multiply(n, 1.570770263671875f));
    let second = multiply(n, 2.606312045827508e-05f);
    let difference = subtract(first, second);
    let back = subtract(first, difference);
    let lost = add(subtract(first, add(difference, back)), subtract(back, second));
    let third = subtract(lost, multiply(n, 2.5633440682570896e-12f));
    let high = add(difference, third);
    let low = add(subtract(difference, high), third);
    var value: f32;
    if (quadrant & 1) == 0 {
        value = sine_near_zero(high, low);
    } else {
        value = cosine_near_zero(high, low);
    }
    return select(value, negate(value), (quadrant & 2) != 0);
}
