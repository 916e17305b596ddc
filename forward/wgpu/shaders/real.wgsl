// binary32 as IEEE 754 states it, whatever the driver's compiler would like to make of it.
//
// WGSL has no word against contraction. A result that passes through the integers, with a zero that only the host knows,
// can be neither fused with the next operation nor reassociated. Division and square root, which drivers may
// approximate, and comparisons, which may flush subnormal numbers or assume that there is no NaN, are done on the bits.

alias Sum = f32;

const SIGN: u32 = 0x80000000u;
const INFINITY: u32 = 0x7f800000u;
const NOT_A_NUMBER: u32 = 0x7fc00000u;

fn opaque(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ params.zero);
}

fn nothing() -> Sum {
    return 0.0;
}

fn load(word: u32) -> Sum {
    return bitcast<f32>(word);
}

fn store(i: u32, x: Sum) {
    output[i] = bitcast<u32>(x);
}

fn add(a: f32, b: f32) -> f32 {
    return opaque(a + b);
}

fn subtract(a: f32, b: f32) -> f32 {
    return opaque(a - b);
}

fn multiply(a: f32, b: f32) -> f32 {
    return opaque(a * b);
}

fn negate(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ SIGN);
}

fn magnitude(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) & ~SIGN);
}

fn is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & ~SIGN) > INFINITY;
}

// Integers in the order of the numbers; both zeros are 0. Not of NaN.
fn rank(x: f32) -> i32 {
    let bits = bitcast<u32>(x);
    let size = bitcast<i32>(bits & ~SIGN);
    return select(size, -size, (bits & SIGN) != 0u);
}

fn is_less(a: f32, b: f32) -> bool {
    return !is_nan(a) && !is_nan(b) && rank(a) < rank(b);
}

// The greater one, the first of two equal ones; NaN if one is NaN.
fn greater(a: f32, b: f32) -> f32 {
    if is_nan(a) {
        return a;
    }
    if is_nan(b) || rank(a) < rank(b) {
        return b;
    }
    return a;
}

// The exponent and the 24 bits of a finite number that is not 0: `mantissa · 2^(exponent − 23)`.
struct Parts {
    exponent: i32,
    mantissa: u32,
}

fn parts(x: f32) -> Parts {
    let size = bitcast<u32>(x) & ~SIGN;
    if size < 0x00800000u {
        let shift = countLeadingZeros(size) - 8u;
        return Parts(-126 - i32(shift), size << shift);
    }
    return Parts(i32(size >> 23u) - 127, (size & 0x007fffffu) | 0x00800000u);
}

// The nearest number, ties to even, of `fraction · 2^(exponent − 25)`. The fraction is in 2^25..2^26; its last bit is also set
// where anything below it is not 0.
fn rounded(sign: u32, exponent: i32, fraction: u32) -> f32 {
    let biased = exponent + 127;
    if biased > 254 {
        return bitcast<f32>(sign | INFINITY);
    }
    var shift = 2u;
    if biased < 1 {
        shift = min(u32(3 - biased), 31u);
    }
    var bits = fraction >> shift;
    let rest = fraction & ((1u << shift) - 1u);
    let half = 1u << (shift - 1u);
    if rest > half || (rest == half && (bits & 1u) == 1u) {
        bits += 1u;
    }
    if biased >= 1 {
        // The leading bit adds the last 1 to the exponent; a carry into the exponent is right, too.
        bits += u32(biased - 1) << 23u;
    }
    return bitcast<f32>(sign | bits);
}

// `x · 2^n`, for finite `x` that is not 0.
fn scaled(x: f32, n: i32) -> f32 {
    let p = parts(x);
    return rounded(bitcast<u32>(x) & SIGN, p.exponent + n, p.mantissa << 2u);
}

fn from_unsigned(value: u32) -> f32 {
    if value == 0u {
        return 0.0;
    }
    let shift = countLeadingZeros(value);
    let bits = value << shift;
    return rounded(0u, 31 - i32(shift), (bits >> 6u) | select(0u, 1u, (bits & 63u) != 0u));
}

fn from_signed(word: u32) -> f32 {
    if (word & SIGN) != 0u {
        return negate(from_unsigned(~word + 1u));
    }
    return from_unsigned(word);
}

fn divide(a: f32, b: f32) -> f32 {
    let sign = (bitcast<u32>(a) ^ bitcast<u32>(b)) & SIGN;
    let dividend = bitcast<u32>(a) & ~SIGN;
    let divisor = bitcast<u32>(b) & ~SIGN;
    if dividend > INFINITY || divisor > INFINITY || (dividend == divisor && (dividend == 0u || dividend == INFINITY)) {
        return bitcast<f32>(NOT_A_NUMBER);
    }
    if dividend == INFINITY || divisor == 0u {
        return bitcast<f32>(sign | INFINITY);
    }
    if dividend == 0u || divisor == INFINITY {
        return bitcast<f32>(sign);
    }
    let p = parts(a);
    let q = parts(b);
    var exponent = p.exponent - q.exponent;
    var rest = p.mantissa;
    if rest < q.mantissa {
        rest <<= 1u;
        exponent -= 1;
    }
    // 25 bits, the first of which is 1.
    var quotient = 0u;
    for (var i = 0u; i < 25u; i++) {
        quotient <<= 1u;
        if rest >= q.mantissa {
            rest -= q.mantissa;
            quotient |= 1u;
        }
        rest <<= 1u;
    }
    return rounded(sign, exponent, (quotient << 1u) | select(0u, 1u, rest != 0u));
}

fn square_root(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    if (bits & ~SIGN) == 0u || bits == INFINITY {
        return x;
    }
    if bits > INFINITY {
        return bitcast<f32>(NOT_A_NUMBER);
    }
    let p = parts(x);
    let odd = (p.exponent & 1) != 0;
    // 50 bits, of which these are the upper ones: digit by digit, two bits for each of the 25 of the root.
    let radicand = select(p.mantissa, p.mantissa << 1u, odd) << 1u;
    var root = 0u;
    var rest = 0u;
    for (var i = 0u; i < 25u; i++) {
        rest <<= 2u;
        if i < 13u {
            rest |= (radicand >> (24u - 2u * i)) & 3u;
        }
        let trial = (root << 2u) | 1u;
        root <<= 1u;
        if rest >= trial {
            rest -= trial;
            root |= 1u;
        }
    }
    let exponent = (p.exponent - select(0, 1, odd)) / 2;
    return rounded(0u, exponent, (root << 1u) | select(0u, 1u, rest != 0u));
}
