// Transcendental functions, operation by operation those of the reference (the Rust crate libm, after FreeBSD's msun),
// so that results on a GPU have the same bits: CUDA's own functions differ from it in the last places, and from
// each other between versions. Each template serves binary64 and binary32; Float<A> has what differs.
//
// ====================================================
// Copyright (C) 1993, 2004 by Sun Microsystems, Inc. All rights reserved.
//
// Developed at SunPro, a Sun Microsystems, Inc. business.
// Permission to use, copy, modify, and distribute this
// software is freely granted, provided that this notice
// is preserved.
// ====================================================

typedef unsigned long long u64;

__device__ inline u64 bits(double x) { return (u64)__double_as_longlong(x); }
__device__ inline unsigned bits(float x) { return __float_as_uint(x); }
__device__ inline double from_bits(u64 x) { return __longlong_as_double((long long)x); }
__device__ inline float from_bits(unsigned x) { return __uint_as_float(x); }

// The upper 32 bits: sign, exponent, the first bits of the fraction.
__device__ inline unsigned high(double x) { return (unsigned)(bits(x) >> 32); }
__device__ inline unsigned high(float x) { return bits(x); }
__device__ inline double with_high(double x, unsigned high) {
    return from_bits((u64)high << 32 | (bits(x) & 0xffffffffu));
}
__device__ inline float with_high(float, unsigned high) { return from_bits(high); }

__device__ inline float sqrt_(float x) { return __fsqrt_rn(x); }
__device__ inline double sqrt_(double x) { return __dsqrt_rn(x); }

// c₀ + x·(c₁ + x·(c₂ + …))
template <typename A> __device__ inline A horner(A, A c) { return c; }
template <typename A, typename... Rest> __device__ inline A horner(A x, A c, A next, Rest... rest) {
    return c + x * horner<A>(x, next, rest...);
}

template <typename A> struct Float;

template <> struct Float<double> {
    typedef u64 Bits;
    static constexpr int FRACTION = 52, HIGH_FRACTION = 20, BIAS = 1023;
    static constexpr unsigned INFINITE = 0x7ff00000;
    static constexpr double HUGE_POWER = 8.98846567431157953865e307;  // 2^1023

    static constexpr unsigned HALF_LN2 = 0x3fd62e42, EXP_SPECIAL = 0x4086232b, EXP_GENERAL = 0x3ff0a2b2,
                              EXP_TINY = 0x3e300000;
    static constexpr double EXP_MAX = 709.782712893383973096, EXP_MIN = -745.13321910194110842;
    static constexpr double EXP_LN2_HI = 6.93147180369123816490e-01, EXP_LN2_LO = 1.90821492927058770002e-10;
    static constexpr double LN2_HI = EXP_LN2_HI, LN2_LO = EXP_LN2_LO, INV_LN2 = 1.44269504088896338700e+00;
    static __device__ double exp_poly(double x) {
        return horner(x, 1.66666666666666019037e-01, -2.77777777770155933842e-03, 6.61375632143793436117e-05,
                      -1.65339022054652515390e-06, 4.13813679705723846039e-08);
    }

    static constexpr unsigned EXPM1_LARGE = 0x4043687A, EXPM1_GENERAL = 0x3FF0A2B2, EXPM1_TINY = 0x3c900000;
    static constexpr int EXPM1_SMALL = 20;
    static __device__ double expm1_poly(double x) {
        return horner(x, 1.0, -3.33333333333331316428e-02, 1.58730158725481460165e-03, -7.93650757867487942473e-05,
                      4.00821782732936239552e-06, -2.01099218183624371326e-07);
    }

    static constexpr unsigned ONE = 0x3ff00000, HALF_SQRT2 = 0x3fe6a09e;
    static constexpr int LOG_SCALE = 54;
    static constexpr double LOG_POWER = 18014398509481984.0;
    static __device__ double log_poly(double z) {
        double w = z * z;
        double t1 = w * horner(w, 3.999999999940941908e-01, 2.222219843214978396e-01, 1.531383769920937332e-01);
        double t2 = z * horner(w, 6.666666666666735130e-01, 2.857142874366239149e-01, 1.818357216161805012e-01,
                               1.479819860511658591e-01);
        return t2 + t1;
    }
    static constexpr unsigned LOG1P_SQRT2 = 0x3fda827a, LOG1P_MINUS_ONE = 0xbff00000, LOG1P_TINY = 0x3ca00000,
                              LOG1P_NEAR = 0xbfd2bec4;
    static constexpr int LOG1P_EXACT = 54;

    static constexpr unsigned TANH_HALF_LN3 = 0x3fe193ea, TANH_LARGE = 0x40340000, TANH_HALF_LN53 = 0x3fd058ae,
                              NORMAL = 0x00100000;

    static constexpr unsigned ERF_SMALL = 0x3feb0000, ERF_TINY = 0x3e300000, ERF_ONE = 0x40180000,
                              ERF_125 = 0x3ff40000, ERF_286 = 0x4006db6d;
    static constexpr double ERX = 8.45062911510467529297e-01, EFX8 = 1.02703333676410069053e+00;
    static __device__ double truncated(double x) { return from_bits(bits(x) & ~(u64)0xffffffff); }
    static __device__ double erf_small(double z) {
        double r = horner(z, 1.28379167095512558561e-01, -3.25042107247001499370e-01, -2.84817495755985104766e-02,
                          -5.77027029648944159157e-03, -2.37630166566501626084e-05);
        double s = horner(z, 1.0, 3.97917223959155352819e-01, 6.50222499887672944485e-02, 5.08130628187576562776e-03,
                          1.32494738004321644526e-04, -3.96022827877536812320e-06);
        return r / s;
    }
    static __device__ double erf_125(double s) {
        double p = horner(s, -2.36211856075265944077e-03, 4.14856118683748331666e-01, -3.72207876035701323847e-01,
                          3.18346619901161753674e-01, -1.10894694282396677476e-01, 3.54783043256182359371e-02,
                          -2.16637559486879084300e-03);
        double q = horner(s, 1.0, 1.06420880400844228286e-01, 5.40397917702171048937e-01, 7.18286544141962662868e-02,
                          1.26171219808761642112e-01, 1.36370839120290507362e-02, 1.19844998467991074170e-02);
        return p / q;
    }
    static __device__ double erf_286(double s) {
        double r = horner(s, -9.86494403484714822705e-03, -6.93858572707181764372e-01, -1.05586262253232909814e+01,
                          -6.23753324503260060396e+01, -1.62396669462573470355e+02, -1.84605092906711035994e+02,
                          -8.12874355063065934246e+01, -9.81432934416914548592e+00);
        double q = horner(s, 1.0, 1.96512716674392571292e+01, 1.37657754143519042600e+02, 4.34565877475229228821e+02,
                          6.45387271733267880336e+02, 4.29008140027567833386e+02, 1.08635005541779435134e+02,
                          6.57024977031928170135e+00, -6.04244152148580987438e-02);
        return r / q;
    }
    static __device__ double erf_large(double s) {
        double r = horner(s, -9.86494292470009928597e-03, -7.99283237680523006574e-01, -1.77579549177547519889e+01,
                          -1.60636384855821916062e+02, -6.37566443368389627722e+02, -1.02509513161107724954e+03,
                          -4.83519191608651397019e+02);
        double q = horner(s, 1.0, 3.03380607434824582924e+01, 3.25792512996573918826e+02, 1.53672958608443695994e+03,
                          3.19985821950859553908e+03, 2.55305040643316442583e+03, 4.74528541206955367215e+02,
                          -2.24409524465858183362e+01);
        return r / q;
    }
};

template <> struct Float<float> {
    typedef unsigned Bits;
    static constexpr int FRACTION = 23, HIGH_FRACTION = 23, BIAS = 127;
    static constexpr unsigned INFINITE = 0x7f800000;
    static constexpr float HUGE_POWER = 1.70141183460469231732e38f;  // 2^127

    static constexpr unsigned HALF_LN2 = 0x3eb17218, EXP_SPECIAL = 0x42aeac50, EXP_GENERAL = 0x3f851593,
                              EXP_TINY = 0x39000000;
    static constexpr float EXP_MAX = 11629079.0f / 131072, EXP_MIN = -13627828.0f / 131072;
    static constexpr float EXP_LN2_HI = 6.9314575195e-01f, EXP_LN2_LO = 1.4286067653e-06f;
    static constexpr float LN2_HI = 6.9313812256e-01f, LN2_LO = 9.0580006145e-06f, INV_LN2 = 1.4426950216e+00f;
    static __device__ float exp_poly(float x) { return horner(x, 1.6666625440e-1f, -2.7667332906e-3f); }

    static constexpr unsigned EXPM1_LARGE = 0x4195b844, EXPM1_GENERAL = 0x3F851592, EXPM1_TINY = 0x33000000;
    static constexpr int EXPM1_SMALL = 23;
    static __device__ float expm1_poly(float x) { return horner(x, 1.0f, -3.3333212137e-2f, 1.5807170421e-3f); }

    static constexpr unsigned ONE = 0x3f800000, HALF_SQRT2 = 0x3f3504f3;
    static constexpr int LOG_SCALE = 25;
    static constexpr float LOG_POWER = 33554432.0f;
    static __device__ float log_poly(float z) {
        float w = z * z;
        float t1 = w * horner(w, 0.40000972152f, 0.24279078841f);
        float t2 = z * horner(w, 0.66666662693f, 0.28498786688f);
        return t2 + t1;
    }
    static constexpr unsigned LOG1P_SQRT2 = 0x3ed413d0, LOG1P_MINUS_ONE = 0xbf800000, LOG1P_TINY = 0x33800000,
                              LOG1P_NEAR = 0xbe95f619;
    static constexpr int LOG1P_EXACT = 25;

    static constexpr unsigned TANH_HALF_LN3 = 0x3f0c9f54, TANH_LARGE = 0x41200000, TANH_HALF_LN53 = 0x3e82c578,
                              NORMAL = 0x00800000;

    static constexpr unsigned ERF_SMALL = 0x3f580000, ERF_TINY = 0x31800000, ERF_ONE = 0x40c00000,
                              ERF_125 = 0x3fa00000, ERF_286 = 0x4036db6d;
    static constexpr float ERX = 8.4506291151e-01f, EFX8 = 1.0270333290e+00f;
    static __device__ float truncated(float x) { return from_bits(bits(x) & 0xffffe000u); }
    static __device__ float erf_small(float z) {
        float r = horner(z, 1.2837916613e-01f, -3.2504209876e-01f, -2.8481749818e-02f, -5.7702702470e-03f,
                         -2.3763017452e-05f);
        float s = horner(z, 1.0f, 3.9791721106e-01f, 6.5022252500e-02f, 5.0813062117e-03f, 1.3249473704e-04f,
                         -3.9602282413e-06f);
        return r / s;
    }
    static __device__ float erf_125(float s) {
        float p = horner(s, -2.3621185683e-03f, 4.1485610604e-01f, -3.7220788002e-01f, 3.1834661961e-01f,
                         -1.1089469492e-01f, 3.5478305072e-02f, -2.1663755178e-03f);
        float q = horner(s, 1.0f, 1.0642088205e-01f, 5.4039794207e-01f, 7.1828655899e-02f, 1.2617121637e-01f,
                         1.3637083583e-02f, 1.1984500103e-02f);
        return p / q;
    }
    static __device__ float erf_286(float s) {
        float r = horner(s, -9.8649440333e-03f, -6.9385856390e-01f, -1.0558626175e+01f, -6.2375331879e+01f,
                         -1.6239666748e+02f, -1.8460508728e+02f, -8.1287437439e+01f, -9.8143291473e+00f);
        float q = horner(s, 1.0f, 1.9651271820e+01f, 1.3765776062e+02f, 4.3456588745e+02f, 6.4538726807e+02f,
                         4.2900814819e+02f, 1.0863500214e+02f, 6.5702495575e+00f, -6.0424413532e-02f);
        return r / q;
    }
    static __device__ float erf_large(float s) {
        float r = horner(s, -9.8649431020e-03f, -7.9928326607e-01f, -1.7757955551e+01f, -1.6063638306e+02f,
                         -6.3756646729e+02f, -1.0250950928e+03f, -4.8351919556e+02f);
        float q = horner(s, 1.0f, 3.0338060379e+01f, 3.2579251099e+02f, 1.5367296143e+03f, 3.1998581543e+03f,
                         2.5530502930e+03f, 4.7452853394e+02f, -2.2440952301e+01f);
        return r / q;
    }
};

template <typename A> __device__ inline A power_of_two(int k) {
    return from_bits((typename Float<A>::Bits)(Float<A>::BIAS + k) << Float<A>::FRACTION);
}

// x·2ᵏ for x about 1, rounded once.
template <typename A> __device__ inline A scaled(A x, int k) {
    typedef Float<A> F;
    if (k > F::BIAS) return x * F::HUGE_POWER * power_of_two<A>(k - F::BIAS);
    if (k >= 1 - F::BIAS) return x * power_of_two<A>(k);
    // The first factor leaves a normal number, so that only the second rounds.
    int step = F::FRACTION + 1 + 1 - F::BIAS;
    return x * power_of_two<A>(step) * power_of_two<A>(k - step);
}

template <typename A> __device__ __noinline__ A exp_(A x) {
    typedef Float<A> F;
    unsigned hx = high(x), sign = hx >> 31;
    hx &= 0x7fffffff;
    if (hx >= F::EXP_SPECIAL) {
        if (x != x) return x;
        if (x > F::EXP_MAX) return x * F::HUGE_POWER;
        if (x < F::EXP_MIN) return 0;
    }
    int k = 0;
    A hi = x, lo = 0;
    if (hx > F::HALF_LN2) {
        k = hx >= F::EXP_GENERAL ? (int)(F::INV_LN2 * x + (A)(sign ? -0.5 : 0.5)) : 1 - (int)sign - (int)sign;
        hi = x - (A)k * F::EXP_LN2_HI;
        lo = (A)k * F::EXP_LN2_LO;
        x = hi - lo;
    } else if (hx <= F::EXP_TINY) {
        return 1 + x;
    }
    A xx = x * x;
    A c = x - xx * F::exp_poly(xx);
    A y = 1 + (x * c / (2 - c) - lo + hi);
    return k == 0 ? y : scaled(y, k);
}

template <typename A> __device__ __noinline__ A expm1_(A x) {
    typedef Float<A> F;
    const A half = (A)0.5, quarter = (A)0.25;
    unsigned hx = high(x), sign = hx >> 31;
    hx &= 0x7fffffff;
    if (hx >= F::EXPM1_LARGE) {
        if (x != x) return x;
        if (sign) return -1;
        if (x > F::EXP_MAX) return x * F::HUGE_POWER;
    }
    int k = 0;
    A c = 0;
    if (hx > F::HALF_LN2) {
        k = hx < F::EXPM1_GENERAL ? (sign ? -1 : 1) : (int)(F::INV_LN2 * x + (sign ? -half : half));
        A hi = x - (A)k * F::LN2_HI, lo = (A)k * F::LN2_LO;
        x = hi - lo;
        c = (hi - x) - lo;
    } else if (hx < F::EXPM1_TINY) {
        return x;
    }
    A hfx = half * x, hxs = x * hfx, r1 = F::expm1_poly(hxs), t = 3 - r1 * hfx;
    A e = hxs * ((r1 - t) / (6 - x * t));
    if (k == 0) return x - (x * e - hxs);
    e = x * (e - c) - c;
    e = e - hxs;
    if (k == -1) return half * (x - e) - half;
    if (k == 1) return x < -quarter ? -2 * (e - (x + half)) : 1 + 2 * (x - e);
    if (k < 0 || k > 56) {
        A y = x - e + 1;
        y = k == F::BIAS + 1 ? y * 2 * F::HUGE_POWER : y * power_of_two<A>(k);
        return y - 1;
    }
    A least = power_of_two<A>(-k);
    A y = k < F::EXPM1_SMALL ? x - e + (1 - least) : x - (e + least) + 1;
    return y * power_of_two<A>(k);
}

template <typename A> __device__ __noinline__ A log_(A x) {
    typedef Float<A> F;
    unsigned hx = high(x);
    int k = 0;
    if (hx < F::NORMAL || hx >> 31) {
        if (x == 0) return -1 / (x * x);
        if (hx >> 31) return (x - x) / (x - x);
        k -= F::LOG_SCALE;
        x = x * F::LOG_POWER;
        hx = high(x);
    } else if (hx >= F::INFINITE) {
        return x;
    } else if (x == 1) {
        return 0;
    }
    hx += F::ONE - F::HALF_SQRT2;
    k += (int)(hx >> F::HIGH_FRACTION) - F::BIAS;
    hx = (hx & ((1u << F::HIGH_FRACTION) - 1)) + F::HALF_SQRT2;
    A f = with_high(x, hx) - 1;
    A hfsq = (A)0.5 * f * f, s = f / (2 + f), r = F::log_poly(s * s), dk = (A)k;
    return s * (hfsq + r) + dk * F::LN2_LO - hfsq + f + dk * F::LN2_HI;
}

template <typename A> __device__ __noinline__ A log1p_(A x) {
    typedef Float<A> F;
    unsigned hx = high(x);
    int k = 1;
    A f = x, c = 0;
    if (hx < F::LOG1P_SQRT2 || hx >> 31) {
        if (hx >= F::LOG1P_MINUS_ONE) return x == -1 ? x / (x + 1) : (x - x) / (x - x);
        if (hx << 1 < F::LOG1P_TINY << 1) return x;
        if (hx <= F::LOG1P_NEAR) k = 0;
    } else if (hx >= F::INFINITE) {
        return x;
    }
    if (k > 0) {
        A u = 1 + x;
        unsigned hu = high(u) + (F::ONE - F::HALF_SQRT2);
        k = (int)(hu >> F::HIGH_FRACTION) - F::BIAS;
        if (k < F::LOG1P_EXACT) c = (k >= 2 ? 1 - (u - x) : x - (u - 1)) / u;
        hu = (hu & ((1u << F::HIGH_FRACTION) - 1)) + F::HALF_SQRT2;
        f = with_high(u, hu) - 1;
    }
    A hfsq = (A)0.5 * f * f, s = f / (2 + f), r = F::log_poly(s * s), dk = (A)k;
    return s * (hfsq + r) + (dk * F::LN2_LO + c) - hfsq + f + dk * F::LN2_HI;
}

template <typename A> __device__ __noinline__ A tanh_(A value) {
    typedef Float<A> F;
    A x = high(value) >> 31 ? -value : value, t = x;
    unsigned w = high(x) & 0x7fffffff;
    if (w > F::TANH_LARGE) {
        t = 1 - 0 / x;
    } else if (w > F::TANH_HALF_LN3) {
        t = expm1_(2 * x);
        t = 1 - 2 / (t + 2);
    } else if (w > F::TANH_HALF_LN53) {
        t = expm1_(2 * x);
        t = t / (t + 2);
    } else if (w >= F::NORMAL) {
        t = expm1_(-2 * x);
        t = -t / (t + 2);
    }
    return high(value) >> 31 ? -t : t;
}

template <typename A> __device__ __noinline__ A erf_(A value) {
    typedef Float<A> F;
    unsigned sign = high(value) >> 31, ix = high(value) & 0x7fffffff;
    if (ix >= F::INFINITE) return 1 - 2 * (A)sign + 1 / value;
    if (ix < F::ERF_TINY) return (A)0.125 * (8 * value + F::EFX8 * value);
    if (ix < F::ERF_SMALL) return value + value * F::erf_small(value * value);
    A x = sign ? -value : value, y = 1;
    if (ix < F::ERF_125) {
        y = 1 - (1 - F::ERX - F::erf_125(x - 1));
    } else if (ix < F::ERF_ONE) {
        A s = 1 / (x * x), z = F::truncated(x);
        A q = ix < F::ERF_286 ? F::erf_286(s) : F::erf_large(s);
        y = 1 - exp_(-z * z - (A)0.5625) * exp_((z - x) * (z + x) + q) / x;
    }
    return sign ? -y : y;
}

__device__ inline double sine_kernel(double x, double y, bool has_tail) {
    const double S1 = -1.66666666666666324348e-01;
    double z = x * x, w = z * z, v = z * x;
    double r = horner(z, 8.33333333332248946124e-03, -1.98412698298579493134e-04, 2.75573137070700676789e-06) +
               z * w * horner(z, -2.50507602534068634195e-08, 1.58969099521155010221e-10);
    return has_tail ? x - ((z * (0.5 * y - v * r) - y) - v * S1) : x + v * (S1 + z * r);
}

__device__ inline double cosine_kernel(double x, double y) {
    double z = x * x, w = z * z;
    double r = z * horner(z, 4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05) +
               w * w * horner(z, -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11);
    double hz = 0.5 * z, v = 1 - hz;
    return v + (((1 - v) - hz) + (z * r - x * y));
}

__device__ inline float sine_kernel(double x) {
    double z = x * x, w = z * z, r = horner(z, -0.000198393348360966317347, 0.0000027183114939898219064), s = z * x;
    return (float)((x + s * horner(z, -0.166666666416265235595, 0.0083333293858894631756)) + s * w * r);
}

__device__ inline float cosine_kernel(double x) {
    double z = x * x, w = z * z, r = horner(z, -0.00138867637746099294692, 0.0000243904487962774090654);
    return (float)(((1 + z * -0.499999997251031003120) + w * 0.0416666233237390631894) + (w * z) * r);
}

// The sine of 0 ≤ x < 7π/2, which is all that a kernel asks for; NaN beyond.
__device__ __noinline__ double sin_(double x) {
    const double PIO2 = 1.57079632673412561417e+00, TAIL = 6.07710050650619224932e-11;
    unsigned ix = high(x);
    if (!(x >= 0 && x < 10.99)) return from_bits((u64)0x7ff8 << 48);
    if (ix < 0x3e500000) return x;
    if (ix <= 0x3fe921fb) return sine_kernel(x, 0, false);
    // The reference subtracts a multiple of π/2 in one round where that is accurate enough; else in up to three.
    int n = ix <= 0x4002d97c ? 1 : ix <= 0x400f6a7a ? 2 : ix <= 0x4015fdbc ? 3 : 4;
    bool is_near = (ix <= 0x400f6a7a && (ix & 0xfffff) == 0x921fb) || ix == 0x4012d97c || ix == 0x401921fb;
    double r, w, y0;
    if (ix <= 0x401c463b && !is_near) {
        r = x - n * PIO2;
        w = n * TAIL;
        y0 = r - w;
    } else {
        const double TO_INT = 1.5 / 2.2204460492503131e-16, INV_PIO2 = 6.36619772367581382433e-01;
        double f = x * INV_PIO2 + TO_INT - TO_INT;
        n = (int)f;
        r = x - f * PIO2;
        w = f * TAIL;
        y0 = r - w;
        int ex = (int)(ix >> 20);
        if (ex - (int)(high(y0) >> 20 & 0x7ff) > 16) {
            double t = r;
            w = f * 6.07710050630396597660e-11;
            r = t - w;
            w = f * 2.02226624879595063154e-21 - ((t - r) - w);
            y0 = r - w;
            if (ex - (int)(high(y0) >> 20 & 0x7ff) > 49) {
                t = r;
                w = f * 2.02226624871116645580e-21;
                r = t - w;
                w = f * 8.47842766036889956997e-32 - ((t - r) - w);
                y0 = r - w;
            }
        }
    }
    double y1 = (r - y0) - w;
    double y = n & 1 ? cosine_kernel(y0, y1) : sine_kernel(y0, y1, true);
    return n & 2 ? -y : y;
}

__device__ __noinline__ float sin_(float x) {
    const double QUARTER = 1.57079632679489661923;
    unsigned ix = high(x);
    if (!(x >= 0 && x < 10.99f)) return from_bits(0x7fc00000u);
    if (ix < 0x39800000) return x;
    if (ix <= 0x3f490fda) return sine_kernel((double)x);
    int n = ix <= 0x4016cbe3 ? 1 : ix <= 0x407b53d1 ? 2 : ix <= 0x40afeddf ? 3 : 4;
    double y = (double)x - n * QUARTER;
    if (ix > 0x40e231d5) {
        const double TO_INT = 1.5 / 2.2204460492503131e-16, INV_PIO2 = 6.36619772367581382433e-01;
        double f = (double)x * INV_PIO2 + TO_INT - TO_INT;
        n = (int)f;
        y = (double)x - f * 1.57079631090164184570e+00 - f * 1.58932547735281966916e-08;
    }
    switch (n & 3) {
        case 0: return sine_kernel(y);
        case 1: return cosine_kernel(y);
        case 2: return sine_kernel(-y);
        default: return -cosine_kernel(y);
    }
}
