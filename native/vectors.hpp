// Vectors of the compiler's own types, and the few functions on them that networks need.
// Included once per instruction set, inside that set's namespace.

template <class Real> struct Native;
template <> struct Native<float> {
    typedef float V __attribute__((vector_size(GATEL0RD_VECTOR_BYTES)));
    typedef std::int32_t I __attribute__((vector_size(GATEL0RD_VECTOR_BYTES)));
    static constexpr int mantissa = 23, bias = 127, terms = 7;
    static constexpr float magic = 12582912.0f;  // 1.5 * 2^23: adding it leaves the rounded integer in the low bits
    static constexpr float lowest_exponent = -87.0f;
};
template <> struct Native<double> {
    typedef double V __attribute__((vector_size(GATEL0RD_VECTOR_BYTES)));
    typedef std::int64_t I __attribute__((vector_size(GATEL0RD_VECTOR_BYTES)));
    static constexpr int mantissa = 52, bias = 1023, terms = 13;
    static constexpr double magic = 6755399441055744.0;  // 1.5 * 2^52
    static constexpr double lowest_exponent = -708.0;
};

template <class Real> using V = typename Native<Real>::V;
template <class Real> using I = typename Native<Real>::I;

template <class Real> constexpr int width = GATEL0RD_VECTOR_BYTES / int(sizeof(Real));
template <class Real> constexpr int lanes = GATEL0RD_ROW_BYTES / int(sizeof(Real));  // batch entries in a block
template <class Real> constexpr int pieces = lanes<Real> / width<Real>;              // vectors in a row

template <class Real> GATEL0RD_INLINE V<Real> splat(Real x) { return x - V<Real>{}; }

template <class Real> GATEL0RD_INLINE V<Real> choose(I<Real> mask, V<Real> yes, V<Real> no) { return mask ? yes : no; }

// The smaller and the larger of two; b where either is NaN, so that min(limit, x) keeps a NaN in x. One instruction where
// the compiler would compare and blend.
#if defined(GATEL0RD_X86) && GATEL0RD_VECTOR_BYTES == 64
GATEL0RD_INLINE V<float> smaller(V<float> a, V<float> b) { return (V<float>)_mm512_min_ps((__m512)a, (__m512)b); }
GATEL0RD_INLINE V<float> larger(V<float> a, V<float> b) { return (V<float>)_mm512_max_ps((__m512)a, (__m512)b); }
GATEL0RD_INLINE V<double> larger(V<double> a, V<double> b) { return (V<double>)_mm512_max_pd((__m512d)a, (__m512d)b); }
#elif defined(GATEL0RD_X86) && GATEL0RD_VECTOR_BYTES == 32
GATEL0RD_INLINE V<float> smaller(V<float> a, V<float> b) { return (V<float>)_mm256_min_ps((__m256)a, (__m256)b); }
GATEL0RD_INLINE V<float> larger(V<float> a, V<float> b) { return (V<float>)_mm256_max_ps((__m256)a, (__m256)b); }
GATEL0RD_INLINE V<double> larger(V<double> a, V<double> b) { return (V<double>)_mm256_max_pd((__m256d)a, (__m256d)b); }
#else
GATEL0RD_INLINE V<float> smaller(V<float> a, V<float> b) { return a < b ? a : b; }
GATEL0RD_INLINE V<float> larger(V<float> a, V<float> b) { return a > b ? a : b; }
GATEL0RD_INLINE V<double> larger(V<double> a, V<double> b) { return a > b ? a : b; }
#endif

template <class Real> GATEL0RD_INLINE I<Real> sign_bits() { return (I<Real>)splat<Real>(Real(-0.0)); }
template <class Real> GATEL0RD_INLINE V<Real> absolute(V<Real> x) { return (V<Real>)((I<Real>)x & ~sign_bits<Real>()); }
template <class Real> GATEL0RD_INLINE V<Real> minus_absolute(V<Real> x) { return (V<Real>)((I<Real>)x | sign_bits<Real>()); }

// e^x - 1 and e^x for x <= 0: x = n ln 2 + r with |r| <= ln 2 / 2, a Taylor polynomial for e^r - 1, then scaling by 2^n.
template <class Real> GATEL0RD_INLINE void exponentials(V<Real> x, V<Real>& minus_one, V<Real>& exponential) {
    using N = Native<Real>;
    x = larger(splat<Real>(N::lowest_exponent), x);
    const V<Real> shifted = x * Real(1.4426950408889634074) + N::magic;
    const I<Real> n = (I<Real>)shifted - (I<Real>)splat<Real>(N::magic);
    const V<Real> rounded = shifted - N::magic;
    // ln 2 in two parts, the first with trailing zeros, so that n ln 2 is exact where it matters
    constexpr Real high = sizeof(Real) == 4 ? Real(0.693145751953125) : Real(0.69314718036912381649);
    constexpr Real low = sizeof(Real) == 4 ? Real(1.42860682030941723212e-6) : Real(1.90821492927058770002e-10);
    const V<Real> r = (x - rounded * high) - rounded * low;
    constexpr double inverse[] = {
        1,           1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,         1.0 / 5040,
        1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0};
    V<Real> polynomial = splat<Real>(Real(inverse[N::terms - 1]));
#pragma GCC unroll 16
    for (int k = N::terms - 2; k >= 0; --k) polynomial = polynomial * r + Real(inverse[k]);
    polynomial = polynomial * r;
    const V<Real> scale = (V<Real>)((n + N::bias) << N::mantissa);
    minus_one = polynomial * scale + (scale - Real(1));
    exponential = polynomial * scale + scale;
}

// In float32, x P(x^2) / Q(x^2) on [-9, 9], beyond which tanh rounds to 1: coefficients fitted to the least relative
// error (2e-8); with rounding the result is good to 4e-7. In float64 through e^x - 1.
GATEL0RD_INLINE V<float> tanh_of(V<float> x) {
    // a NaN passes all comparisons; beyond 9 the quotient grows with x and is cut at 1
    const V<float> z = smaller(splat<float>(81.0f), x * x);
    const V<float> p =
        (((1.3354643661e-8f * z + 2.0609068026e-5f) * z + 3.4955871961e-3f) * z + 1.3381024836e-1f) * z + 9.9999997946e-1f;
    const V<float> q = (((7.7765505869e-7f * z + 3.2856333396e-4f) * z + 2.5876978593e-2f) * z + 4.6714340430e-1f) * z + 1.0f;
    return larger(splat<float>(-1.0f), smaller(splat<float>(1.0f), x * p / q));
}

GATEL0RD_INLINE V<double> tanh_of(V<double> x) {
    V<double> m, e;
    exponentials<double>(minus_absolute<double>(x + x), m, e);
    const V<double> negative = m / (m + 2.0);  // tanh(-|x|)
    return (V<double>)((I<double>)negative ^ (~(I<double>)x & sign_bits<double>()));
}

template <class Real> GATEL0RD_INLINE V<Real> sigmoid_of(V<Real> x) {
    V<Real> m, e;
    exponentials<Real>(minus_absolute<Real>(x), m, e);
    return choose<Real>(x < 0, e, splat<Real>(1)) / (e + Real(1));
}

template <class Real, Act act> GATEL0RD_INLINE V<Real> activated(V<Real> x) {
    if constexpr (act == Act::tanh) return tanh_of(x);
    if constexpr (act == Act::sigmoid) return sigmoid_of<Real>(x);
    if constexpr (act == Act::retanh) {
        return larger(V<Real>{}, tanh_of(x));  // keeps a NaN
    }
    if constexpr (act == Act::heaviside) return choose<Real>(x > 0, splat<Real>(1), choose<Real>(x == x, V<Real>{}, x));  // keeps a NaN
    if constexpr (act == Act::relu) return larger(V<Real>{}, x);  // keeps a NaN
    return x;
}

// d act(x) / dx, from y = act(x) alone; straight through for the step function
template <class Real> GATEL0RD_INLINE V<Real> derivative(Act act, V<Real> y) {
    switch (act) {
        case Act::tanh: return Real(1) - y * y;
        case Act::sigmoid: return y * (Real(1) - y);
        case Act::retanh: return choose<Real>(y > 0, Real(1) - y * y, V<Real>{});
        case Act::relu: return choose<Real>(y > 0, splat<Real>(1), V<Real>{});
        default: return splat<Real>(1);
    }
}
