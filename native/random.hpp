// Philox4x32-10 (Salmon et al., 2011): a counter goes in, four random words come out, whoever asks and in which order.
// Included once per instruction set, inside that set's namespace.

constexpr int random_lanes = 16;
typedef std::uint32_t Words[random_lanes] __attribute__((aligned(64)));

// As many words as fit in a vector, and both halves of their products with a constant
typedef std::uint32_t Word __attribute__((vector_size(GATEL0RD_VECTOR_BYTES)));
typedef std::uint64_t LongWord __attribute__((vector_size(GATEL0RD_VECTOR_BYTES)));
constexpr int words = GATEL0RD_VECTOR_BYTES / 4;

GATEL0RD_INLINE LongWord multiply_even(Word x, Word y) {  // 32 x 32 -> 64 bits, of the words at even places
#if defined(GATEL0RD_X86) && GATEL0RD_VECTOR_BYTES == 64
    return (LongWord)_mm512_mul_epu32((__m512i)x, (__m512i)y);
#elif defined(GATEL0RD_X86) && GATEL0RD_VECTOR_BYTES == 32
    return (LongWord)_mm256_mul_epu32((__m256i)x, (__m256i)y);
#elif defined(GATEL0RD_X86)
    return (LongWord)_mm_mul_epu32((__m128i)x, (__m128i)y);
#else
    return ((LongWord)x & 0xFFFFFFFFu) * ((LongWord)y & 0xFFFFFFFFu);
#endif
}

GATEL0RD_INLINE void multiply(Word x, std::uint32_t constant, Word& high, Word& low) {
    const Word factor = constant - Word{};
    const LongWord upper = LongWord{} + 0xFFFFFFFF00000000u;
    const LongWord even = multiply_even(x, factor), odd = multiply_even((Word)((LongWord)x >> 32), factor);
    high = (Word)((even >> 32) | (odd & upper));
    low = x * constant;
}

// Counters differ in their first word from lane to lane
GATEL0RD_INLINE void philox(std::uint32_t lane0, std::uint32_t c1, std::uint32_t c2, std::uint32_t c3, std::uint64_t key, Words& w0,
                            Words& w1, Words& w2, Words& w3) {
    Word first;
#pragma GCC unroll 16
    for (int l = 0; l < words; ++l) first[l] = std::uint32_t(l);
#pragma GCC unroll 4
    for (int part = 0; part < random_lanes; part += words) {
        Word x0 = first + (lane0 + std::uint32_t(part)), x1 = c1 - Word{}, x2 = c2 - Word{}, x3 = c3 - Word{};
        std::uint32_t k0 = std::uint32_t(key), k1 = std::uint32_t(key >> 32);
#pragma GCC unroll 10
        for (int round = 0; round < 10; ++round) {
            Word a_high, a_low, b_high, b_low;
            multiply(x0, 0xD2511F53u, a_high, a_low);
            multiply(x2, 0xCD9E8D57u, b_high, b_low);
            x0 = b_high ^ x1 ^ k0;
            x1 = b_low;
            x2 = a_high ^ x3 ^ k1;
            x3 = a_low;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        *(Word*)(w0 + part) = x0;
        *(Word*)(w1 + part) = x1;
        *(Word*)(w2 + part) = x2;
        *(Word*)(w3 + part) = x3;
    }
}

// Two standard normal numbers from two words, by Box and Muller; polynomials good to about 1e-7.
GATEL0RD_INLINE void normals(const Words& u, const Words& v, float (&first)[random_lanes], float (&second)[random_lanes]) {
#pragma GCC unroll 1
#pragma GCC ivdep
    for (int l = 0; l < random_lanes; ++l) {
        // log of a uniform number in (0, 1): exponent, and a series in s = (m - 1) / (m + 1)
        const float uniform = (float(std::int32_t(u[l] >> 9)) + 0.5f) * (1.0f / 8388608.0f);
        std::uint32_t bits;
        __builtin_memcpy(&bits, &uniform, 4);
        const std::uint32_t shifted = bits - 0x3F3504F3u;  // relative to sqrt(1/2)
        const float exponent = float(std::int32_t(shifted) >> 23);
        const std::uint32_t rest = (shifted & 0x007FFFFFu) + 0x3F3504F3u;
        float m;
        __builtin_memcpy(&m, &rest, 4);
        const float s = (m - 1.0f) / (m + 1.0f), q = s * s;
        const float series = s * (2.0f + q * (2.0f / 3 + q * (2.0f / 5 + q * (2.0f / 7 + q * (2.0f / 9)))));
        const float radius = __builtin_sqrtf(-2.0f * (exponent * 0.69314718056f + series));
        // an angle: quarter turns, and a rest of at most an eighth of a turn on either side
        const std::uint32_t quarter = (v[l] + 0x20000000u) >> 30;
        const float x = float(std::int32_t(v[l] - (quarter << 30))) * (6.28318530718f / 4294967296.0f);
        const float z = x * x;
        const float sine = x * (1.0f - z * (1.0f / 6 - z * (1.0f / 120 - z * (1.0f / 5040))));
        const float cosine = 1.0f - z * (0.5f - z * (1.0f / 24 - z * (1.0f / 720 - z * (1.0f / 40320))));
        const float along = quarter & 1 ? sine : cosine, across = quarter & 1 ? cosine : sine;
        const float sign_c = quarter == 1 || quarter == 2 ? -1.0f : 1.0f;
        const float sign_s = quarter >= 2 ? -1.0f : 1.0f;
        first[l] = radius * sign_c * along;
        second[l] = radius * sign_s * across;
    }
}
