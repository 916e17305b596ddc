// What kernels.cu needs of CUDA, as host C++: threads are loops, and every entry can be called by its name.
#pragma once

#include <cmath>
#include <cstring>
#include <map>
#include <string>

#define __device__
#define __global__
#define __noinline__

struct Dim {
    unsigned x;
};
static Dim gridDim, blockDim, blockIdx, threadIdx;

template <typename To, typename From> static To same_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
static long long __double_as_longlong(double x) { return same_bits<long long>(x); }
static double __longlong_as_double(long long x) { return same_bits<double>(x); }
static unsigned __float_as_uint(float x) { return same_bits<unsigned>(x); }
static float __uint_as_float(unsigned x) { return same_bits<float>(x); }
static double __dsqrt_rn(double x) { return std::sqrt(x); }
static float __fsqrt_rn(float x) { return std::sqrt(x); }

// An entry that takes its parameters as CUDA's driver does: as many bytes as they have, from where the host put them.
typedef void (*Entry)(const void *const *operands, void *y, unsigned *first, unsigned launch, const void *params);
static std::map<std::string, Entry> &entries() {
    static std::map<std::string, Entry> all;
    return all;
}
static bool add_entry(const char *name, Entry entry) { return entries().emplace(name, entry).second; }

#define REGISTER(name, Params)                                                                                       \
    static void call_##name(const void *const *x, void *y, unsigned *first, unsigned launch, const void *bytes) {    \
        Params p;                                                                                                    \
        memcpy(&p, bytes, sizeof p);                                                                                 \
        name(x[0], x[1], x[2], x[3], x[4], y, first, launch, p);                                                     \
    }                                                                                                                \
    static const bool is_added_##name = add_entry(#name, call_##name);
