// The engine for one instruction set: included by kernels_*.cpp with GATEL0RD_ISA and GATEL0RD_VECTOR_BYTES defined, after
// kernel_headers.hpp.
//
// The batch is cut into blocks of lanes; a row holds one feature of all lanes of a block (a cache line, half of one, or two), and
// all arithmetic runs over rows. A block runs through all time steps forward, keeping its frames, and then backward. Weight
// gradients are products over time and lanes, added up for chunks of steps while their frames are in the cache.

#undef GATEL0RD_X86_256
#if defined(GATEL0RD_X86) && GATEL0RD_VECTOR_BYTES >= 32
#define GATEL0RD_X86_256
#endif

namespace gatel0rd {
namespace GATEL0RD_ISA {

#include "vectors.hpp"
#include "random.hpp"

static_assert(GATEL0RD_ROW_BYTES < 64 || lanes<float> % random_lanes == 0, "lanes of a block are drawn together");

// How many rows of outputs a linear kernel keeps in registers: 12 vectors, or 24 where there are 32 registers and rows of two
template <class Real>
constexpr int row_block = pieces<Real> >= 4                                  ? 3
                          : GATEL0RD_VECTOR_BYTES == 64 && pieces<Real> == 2 ? 12
                                                                             : 12 / pieces<Real>;

template <class Real> GATEL0RD_INLINE V<Real> load(const Real* p) { return *(const V<Real>*)p; }
template <class Real> GATEL0RD_INLINE void store(Real* p, V<Real> v) { *(V<Real>*)p = v; }

template <class Real> struct Scratch {
    std::unique_ptr<void, void (*)(void*)> memory{nullptr, std::free};
    std::size_t bytes = 0;
    static constexpr std::size_t most_kept = std::size_t(16) << 20;
    void give_back_large() {
        if (bytes > most_kept) memory.reset(), bytes = 0;
    }
    Real* get(std::size_t count) {
        const std::size_t wanted = (count * sizeof(Real) + 64) / 64 * 64;
        if (wanted > bytes) {
            bytes = 0;
            memory.reset(std::aligned_alloc(64, wanted));
            if (!memory) throw std::bad_alloc();
            bytes = wanted;
        }
        return static_cast<Real*>(memory.get());
    }
};

#include "products.hpp"
#include "layer.hpp"

template <class Real> using Pointers = std::vector<const Real*>;

// A linear instruction with its weights looked up and its biases added up
template <class Real> struct Linear {
    struct Product {
        const Real* weights;
        std::ptrdiff_t stride;
        std::size_t offset;  // of the input in the frame
        int columns;
        int input;
    };
    std::vector<Product> products;
    std::vector<Real> bias;
    int rows;
    std::size_t offset, addend;  // in the frame
    Act act;
    bool with_addend;

    Linear(const Instruction& i, const Section& section, const Pointers<Real>& parameters)
        : bias(section.values[i.dst].size),
          rows(section.values[i.dst].size),
          offset(std::size_t(section.values[i.dst].offset) * lanes<Real>),
          addend(i.a >= 0 ? std::size_t(section.values[i.a].offset) * lanes<Real> : 0),
          act(i.act),
          with_addend(i.a >= 0) {
        for (const Bias& b : i.biases)
            for (int row = 0; row < rows; ++row) bias[row] += parameters[b.parameter][b.start + row];
        for (const Term& term : i.terms) {
            const Value& input = section.values[term.input];
            products.push_back({parameters[term.parameter] + term.start, term.stride, std::size_t(input.offset) * lanes<Real>,
                                input.size, term.input});
        }
    }
};

template <class Real>
static std::vector<Linear<Real>> prepare(const Section& section, const Pointers<Real>& parameters) {
    std::vector<Linear<Real>> linears;
    linears.reserve(section.linears);
    for (const Instruction& i : section.instructions)
        if (i.op == Op::linear) linears.emplace_back(i, section, parameters);
    return linears;
}

// What all blocks of a run share
template <class Real> struct Context {
    const Program& program;
    const Run& run;
    Pointers<Real> parameters;
    std::vector<std::vector<Real>> masked;
    std::vector<Linear<Real>> prologue_linears, body_linears;

    Context(const Program& p, const Run& r) : program(p), run(r) {
        for (std::size_t k = 0; k < r.parameters.size(); ++k) {
            const Real* weights = static_cast<const Real*>(r.parameters[k]);
            if (k < r.masks.size() && r.masks[k]) {
                const Real* mask = static_cast<const Real*>(r.masks[k]);
                std::vector<Real> product(p.parameter_sizes[k]);
                for (std::size_t i = 0; i < product.size(); ++i) product[i] = weights[i] * mask[i];
                masked.push_back(std::move(product));
                weights = masked.back().data();
            }
            parameters.push_back(weights);
        }
        prologue_linears = prepare<Real>(p.prologue, parameters);
        body_linears = prepare<Real>(p.body, parameters);
    }
    const std::vector<Linear<Real>>& linears(const Section& section) const {
        return &section == &program.body ? body_linears : prologue_linears;
    }
    int blocks() const { return (run.batch + lanes<Real> - 1) / lanes<Real>; }
    std::size_t frame() const { return std::size_t(program.body.rows) * lanes<Real>; }
    std::size_t prologue() const { return std::size_t(program.prologue.rows) * lanes<Real>; }
    std::size_t block_size(int frames) const { return prologue() + frame() * frames; }
};

// One block of lanes: where its frames are, and which batch entries it holds
template <class Real> struct Block {
    Real* prologue;
    Real* frames;
    int first, count;
    Block(const Context<Real>& context, int index, Real* memory)
        : prologue(memory),
          frames(memory + context.prologue()),
          first(index * lanes<Real>),
          count(std::min(lanes<Real>, context.run.batch - first)) {}
};

GATEL0RD_INLINE std::ptrdiff_t entry(const Run& run, int b) { return run.index ? std::ptrdiff_t(run.index[b]) : b; }

// ---- between the caller's tensors and rows ----

// Features and lanes change places, in squares of a vector's width (at most 8 floats) where features lie side by side; tensors
// of the caller are never touched beyond their ends.
#ifdef GATEL0RD_X86_256
template <class Real> constexpr int square = 32 / int(sizeof(Real));

GATEL0RD_INLINE void transpose(__m256 (&r)[8]) {
    __m256 t[8], u[8];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
        t[2 * k] = _mm256_unpacklo_ps(r[2 * k], r[2 * k + 1]);
        t[2 * k + 1] = _mm256_unpackhi_ps(r[2 * k], r[2 * k + 1]);
    }
#pragma GCC unroll 2
    for (int k = 0; k < 8; k += 4) {
        u[k] = _mm256_shuffle_ps(t[k], t[k + 2], 0x44);
        u[k + 1] = _mm256_shuffle_ps(t[k], t[k + 2], 0xEE);
        u[k + 2] = _mm256_shuffle_ps(t[k + 1], t[k + 3], 0x44);
        u[k + 3] = _mm256_shuffle_ps(t[k + 1], t[k + 3], 0xEE);
    }
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
        r[k] = _mm256_permute2f128_ps(u[k], u[k + 4], 0x20);
        r[k + 4] = _mm256_permute2f128_ps(u[k], u[k + 4], 0x31);
    }
}
GATEL0RD_INLINE void transpose(__m256d (&r)[4]) {
    const __m256d a = _mm256_unpacklo_pd(r[0], r[1]), b = _mm256_unpackhi_pd(r[0], r[1]);
    const __m256d c = _mm256_unpacklo_pd(r[2], r[3]), d = _mm256_unpackhi_pd(r[2], r[3]);
    r[0] = _mm256_permute2f128_pd(a, c, 0x20), r[1] = _mm256_permute2f128_pd(b, d, 0x20);
    r[2] = _mm256_permute2f128_pd(a, c, 0x31), r[3] = _mm256_permute2f128_pd(b, d, 0x31);
}

// the first numbers of a vector in the caller's memory
struct Part {
    __m256i mask;
    bool whole;
    template <class Real> static Part of(int count) {
        alignas(32) Real bits[square<Real>];
        std::memset(bits, 0, sizeof bits);
        std::memset(bits, 0xFF, std::size_t(count) * sizeof(Real));
        return {_mm256_load_si256((const __m256i*)bits), count == square<Real>};
    }
    __m256 load(const float* p) const { return whole ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, mask); }
    __m256d load(const double* p) const { return whole ? _mm256_loadu_pd(p) : _mm256_maskload_pd(p, mask); }
    void store(float* p, __m256 v) const { whole ? _mm256_storeu_ps(p, v) : _mm256_maskstore_ps(p, mask, v); }
    void store(double* p, __m256d v) const { whole ? _mm256_storeu_pd(p, v) : _mm256_maskstore_pd(p, mask, v); }
};
GATEL0RD_INLINE __m256 row_of(const float* p) { return _mm256_load_ps(p); }
GATEL0RD_INLINE __m256d row_of(const double* p) { return _mm256_load_pd(p); }
GATEL0RD_INLINE void set_row(float* p, __m256 v) { _mm256_store_ps(p, v); }
GATEL0RD_INLINE void set_row(double* p, __m256d v) { _mm256_store_pd(p, v); }

// whether whole squares can be used, of lanes and of at least two features
template <class Real> GATEL0RD_INLINE bool in_squares(int size, const Strided& tensor, int count) {
    return size > 1 && tensor.feature == 1 && count == lanes<Real>;
}

// rows[f][l] = place(l)[f], or += it
template <class Real, bool accumulate, class F> GATEL0RD_INLINE void lanes_to_rows(Real* rows, int size, F place) {
    constexpr int L = lanes<Real>, S = square<Real>;
    for (int f = 0; f < size; f += S) {
        const int count = std::min(S, size - f);
        const Part part = Part::of<Real>(count);
        for (int l = 0; l < L; l += S) {
            decltype(row_of(rows)) r[S];
#pragma GCC unroll 8
            for (int k = 0; k < S; ++k) r[k] = part.load(place(l + k) + f);
            transpose(r);
            Real* to = rows + std::size_t(f) * L + l;
#pragma GCC unroll 8
            for (int k = 0; k < S; ++k)
                if (k < count) set_row(to + k * L, accumulate ? row_of(to + k * L) + r[k] : r[k]);
        }
    }
}

// place(l)[f] = rows[f][l], or += it
template <class Real, bool accumulate, class F> GATEL0RD_INLINE void rows_to_lanes(const Real* rows, int size, F place) {
    constexpr int L = lanes<Real>, S = square<Real>;
    for (int f = 0; f < size; f += S) {
        const int count = std::min(S, size - f);
        const Part part = Part::of<Real>(count);
        for (int l = 0; l < L; l += S) {
            decltype(row_of(rows)) r[S];
            const Real* from = rows + std::size_t(f) * L + l;
#pragma GCC unroll 8
            for (int k = 0; k < S; ++k) r[k] = row_of(from + (k < count ? k : 0) * L);
            transpose(r);
#pragma GCC unroll 8
            for (int k = 0; k < S; ++k) {
                Real* to = place(l + k) + f;
                part.store(to, accumulate ? part.load(to) + r[k] : r[k]);
            }
        }
    }
}
#endif

template <class Real>
static void read_rows(Real* rows, int size, const Strided& from, int t, const Block<Real>& block, const Run& run, bool indexed) {
    constexpr int L = lanes<Real>;
    const Real* base = static_cast<const Real*>(from.data) + t * from.time;
    auto place = [&](int l) { return base + (indexed ? entry(run, block.first + l) : block.first + l) * from.batch; };
#ifdef GATEL0RD_X86_256
    if (in_squares<Real>(size, from, block.count)) return lanes_to_rows<Real, false>(rows, size, place);
#endif
    if (block.count < L) std::fill(rows, rows + std::size_t(size) * L, Real(0));
    for (int l = 0; l < block.count; ++l) {
        const Real* source = place(l);
        for (int f = 0; f < size; ++f) rows[f * L + l] = source[f * from.feature];
    }
}

template <class Real, bool accumulate>
static void write_rows(const Real* rows, int size, const Strided& to, int t, const Block<Real>& block) {
    constexpr int L = lanes<Real>;
    Real* base = static_cast<Real*>(to.data) + t * to.time;
    auto place = [&](int l) { return base + (block.first + l) * to.batch; };
#ifdef GATEL0RD_X86_256
    if (in_squares<Real>(size, to, block.count)) return rows_to_lanes<Real, accumulate>(rows, size, place);
#endif
    for (int l = 0; l < block.count; ++l) {
        Real* target = place(l);
        for (int f = 0; f < size; ++f)
            target[f * to.feature] = accumulate ? target[f * to.feature] + rows[f * L + l] : rows[f * L + l];
    }
}

template <class Real> static void add_rows(Real* rows, int size, const Strided& from, int t, const Block<Real>& block) {
    constexpr int L = lanes<Real>;
    const Real* base = static_cast<const Real*>(from.data) + t * from.time;
    auto place = [&](int l) { return base + (block.first + l) * from.batch; };
#ifdef GATEL0RD_X86_256
    if (in_squares<Real>(size, from, block.count)) return lanes_to_rows<Real, true>(rows, size, place);
#endif
    for (int l = 0; l < block.count; ++l) {
        const Real* source = place(l);
        for (int f = 0; f < size; ++f) rows[f * L + l] += source[f * from.feature];
    }
}

// ---- linear layers ----

template <class Real, int rows_at_once>
GATEL0RD_INLINE void linear_rows(const Linear<Real>& linear, Real* frame, int row) {
    constexpr int L = lanes<Real>, P = pieces<Real>, W = width<Real>;
    V<Real> sum[rows_at_once][P];
#pragma GCC unroll 16
    for (int k = 0; k < rows_at_once; ++k)
#pragma GCC unroll 4
        for (int p = 0; p < P; ++p) sum[k][p] = splat<Real>(linear.bias[row + k]);
    if (linear.with_addend) {
        const Real* addend = frame + linear.addend + std::size_t(row) * L;
#pragma GCC unroll 16
        for (int k = 0; k < rows_at_once; ++k)
#pragma GCC unroll 4
            for (int p = 0; p < P; ++p) sum[k][p] += load(addend + k * L + p * W);
    }
    for (const auto& product : linear.products) {
        const Real* x = frame + product.offset;
        const Real* weights = product.weights + row * product.stride;
        const std::ptrdiff_t stride = product.stride;
        for (const Real* end = x + std::size_t(product.columns) * L; x != end; x += L, ++weights) {
            V<Real> here[P];
#pragma GCC unroll 4
            for (int p = 0; p < P; ++p) here[p] = load(x + p * W);
#pragma GCC unroll 16
            for (int k = 0; k < rows_at_once; ++k) {
                const Real weight = weights[k * stride];
#pragma GCC unroll 4
                for (int p = 0; p < P; ++p) sum[k][p] += weight * here[p];
            }
        }
    }
    Real* out = frame + linear.offset + std::size_t(row) * L;
#pragma GCC unroll 16
    for (int k = 0; k < rows_at_once; ++k)
#pragma GCC unroll 4
        for (int p = 0; p < P; ++p) store(out + k * L + p * W, sum[k][p]);
}

template <class Real, Act act> GATEL0RD_INLINE void activate_all(const Real* in, Real* out, std::size_t count) {
    for (std::size_t k = 0; k < count; k += width<Real>) store(out + k, activated<Real, act>(load(in + k)));
}

template <class Real> GATEL0RD_INLINE void activate_rows(Act act, const Real* in, Real* out, int rows) {
    const std::size_t count = std::size_t(rows) * lanes<Real>;
    switch (act) {
        case Act::tanh: return activate_all<Real, Act::tanh>(in, out, count);
        case Act::sigmoid: return activate_all<Real, Act::sigmoid>(in, out, count);
        case Act::retanh: return activate_all<Real, Act::retanh>(in, out, count);
        case Act::heaviside: return activate_all<Real, Act::heaviside>(in, out, count);
        case Act::relu: return activate_all<Real, Act::relu>(in, out, count);
        case Act::none:
            if (in != out) std::memcpy(out, in, count * sizeof(Real));
    }
}

// Calls work with a compile-time count of at most row_block, in shares that are as even as possible: 8 rows are 4 + 4
template <class Real, int most, class F> GATEL0RD_INLINE void with_count(int count, F& work) {
    if constexpr (most > 1)
        if (count < most) return with_count<Real, most - 1>(count, work);
    work(std::integral_constant<int, most>());
}
template <class Real, class F> GATEL0RD_INLINE void in_shares(int size, F work) {
    constexpr int most = row_block<Real>;
    for (int row = 0, count; row < size; row += count) {
        const int left = size - row;
        count = left > 2 * most ? most : left > most ? (left + 1) / 2 : left;
        auto at_row = [&](auto fixed) { work(row, fixed); };
        with_count<Real, most>(count, at_row);
    }
}

template <class Real> static void linear_forward(const Linear<Real>& linear, Real* frame) {
    in_shares<Real>(linear.rows, [&](int row, auto count) { linear_rows<Real, count>(linear, frame, row); });
    activate_rows<Real>(linear.act, frame + linear.offset, frame + linear.offset, linear.rows);
}

// into[column + k] += sum over rows of W[row][column + k] * d[row]
template <class Real, int columns_at_once>
GATEL0RD_INLINE void transposed_columns(const Real* weights, std::ptrdiff_t stride, const Real* d, int rows, Real* into) {
    constexpr int L = lanes<Real>, P = pieces<Real>, W = width<Real>;
    V<Real> sum[columns_at_once][P];
#pragma GCC unroll 16
    for (int k = 0; k < columns_at_once; ++k)
#pragma GCC unroll 4
        for (int p = 0; p < P; ++p) sum[k][p] = load(into + k * L + p * W);
    for (int row = 0; row < rows; ++row, d += L, weights += stride) {
        V<Real> here[P];
#pragma GCC unroll 4
        for (int p = 0; p < P; ++p) here[p] = load(d + p * W);
#pragma GCC unroll 16
        for (int k = 0; k < columns_at_once; ++k) {
            const Real weight = weights[k];
#pragma GCC unroll 4
            for (int p = 0; p < P; ++p) sum[k][p] += weight * here[p];
        }
    }
#pragma GCC unroll 16
    for (int k = 0; k < columns_at_once; ++k)
#pragma GCC unroll 4
        for (int p = 0; p < P; ++p) store(into + k * L + p * W, sum[k][p]);
}

template <class Real>
static void linear_backward(const Linear<Real>& linear, const Real* frame, Real* gradient, Real* d, bool to_addend,
                            const std::vector<char>& needs) {
    constexpr int L = lanes<Real>, W = width<Real>;
    const Real *dy = gradient + linear.offset, *y = frame + linear.offset;
    const std::size_t count = std::size_t(linear.rows) * L;
    switch (linear.act) {
#define GATEL0RD_CASE(name)                                                                                               \
    case Act::name:                                                                                                       \
        for (std::size_t k = 0; k < count; k += W) store(d + k, load(dy + k) * derivative<Real>(Act::name, load(y + k))); \
        break;
        GATEL0RD_CASE(tanh)
        GATEL0RD_CASE(sigmoid)
        GATEL0RD_CASE(retanh)
        GATEL0RD_CASE(relu)
#undef GATEL0RD_CASE
        default: std::memcpy(d, dy, count * sizeof(Real));
    }
    if (to_addend) {
        Real* da = gradient + linear.addend;
        for (std::size_t k = 0; k < count; k += W) store(da + k, load(da + k) + load(d + k));
    }
    for (const auto& product : linear.products) {
        if (!needs[product.input]) continue;
        Real* into = gradient + product.offset;
        in_shares<Real>(product.columns, [&](int column, auto columns) {
            transposed_columns<Real, columns>(product.weights + column, product.stride, d, linear.rows, into + column * L);
        });
    }
}

// ---- weight gradients: products over time and lanes ----

template <class Real> GATEL0RD_INLINE Real total(V<Real> v) {
    Real parts[width<Real>];
    __builtin_memcpy(parts, &v, sizeof v);
#pragma GCC unroll 8
    for (int half = width<Real> / 2; half > 0; half /= 2)
#pragma GCC unroll 8
        for (int k = 0; k < half; ++k) parts[k] += parts[k + half];
    return parts[0];
}

// The totals of four vectors
GATEL0RD_INLINE void four_totals(const V<double>* v, double* totals) {
    for (int k = 0; k < 4; ++k) totals[k] = total<double>(v[k]);
}
GATEL0RD_INLINE void four_totals(const V<float>* v, float* totals) {
#ifdef GATEL0RD_X86_256
    // neighbours are added while the four are woven into one vector
    __m256 h[4];
    for (int k = 0; k < 4; ++k)
#if GATEL0RD_VECTOR_BYTES == 64
        h[k] = _mm256_add_ps(_mm512_castps512_ps256((__m512)v[k]), _mm512_extractf32x8_ps((__m512)v[k], 1));
#else
        h[k] = (__m256)v[k];
#endif
    const __m256 a = _mm256_add_ps(_mm256_unpacklo_ps(h[0], h[1]), _mm256_unpackhi_ps(h[0], h[1]));
    const __m256 b = _mm256_add_ps(_mm256_unpacklo_ps(h[2], h[3]), _mm256_unpackhi_ps(h[2], h[3]));
    const __m256 c = _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xEE));
    _mm_storeu_ps(totals, _mm_add_ps(_mm256_castps256_ps128(c), _mm256_extractf128_ps(c, 1)));
#else
    for (int k = 0; k < 4; ++k) totals[k] = total<float>(v[k]);
#endif
}

// A tile's sums stay in registers: 24 of 32, or 12 of 16
constexpr int outputs_at_once = GATEL0RD_VECTOR_BYTES == 64 ? 6 : 4, inputs_at_once = GATEL0RD_VECTOR_BYTES == 64 ? 4 : 3;
constexpr int whole_tiles(int count, int tile) { return count / tile * tile; }
constexpr int steps_at_once = 8, tile_outputs = whole_tiles(32, outputs_at_once), tile_inputs = whole_tiles(32, inputs_at_once);

// sums[a][b] += sum over some steps and all lanes of d[t][a] * x[t][b]
template <class Real, int na, int nb>
GATEL0RD_INLINE void product_tile(const Real* d, std::size_t d_step, const Real* x, std::size_t x_step, int steps, V<Real>* sums) {
    constexpr int L = lanes<Real>, P = pieces<Real>, W = width<Real>;
    V<Real> sum[na][nb];
#pragma GCC unroll 8
    for (int a = 0; a < na; ++a)
#pragma GCC unroll 4
        for (int b = 0; b < nb; ++b) sum[a][b] = sums[a * inputs_at_once + b];
    for (int t = 0; t < steps; ++t, d += d_step, x += x_step) {
#pragma GCC unroll 4
        for (int p = 0; p < P; ++p) {
            V<Real> right[nb];
#pragma GCC unroll 4
            for (int b = 0; b < nb; ++b) right[b] = load(x + b * L + p * W);
#pragma GCC unroll 8
            for (int a = 0; a < na; ++a) {
                const V<Real> left = load(d + a * L + p * W);
#pragma GCC unroll 4
                for (int b = 0; b < nb; ++b) sum[a][b] += left * right[b];
            }
        }
    }
#pragma GCC unroll 8
    for (int a = 0; a < na; ++a)
#pragma GCC unroll 4
        for (int b = 0; b < nb; ++b) sums[a * inputs_at_once + b] = sum[a][b];
}

template <class Real, int na = outputs_at_once, int nb = inputs_at_once>
GATEL0RD_INLINE void product_tile_any(int a, int b, const Real* d, std::size_t d_step, const Real* x, std::size_t x_step, int steps,
                                      V<Real>* sums) {
    if constexpr (na > 1)
        if (a < na) return product_tile_any<Real, na - 1, nb>(a, b, d, d_step, x, x_step, steps, sums);
    if constexpr (nb > 1)
        if (b < nb) return product_tile_any<Real, na, nb - 1>(a, b, d, d_step, x, x_step, steps, sums);
    product_tile<Real, na, nb>(d, d_step, x, x_step, steps, sums);
}

constexpr int sums_per_tile = outputs_at_once * inputs_at_once;
constexpr int up(int count, int step) { return (count + step - 1) / step; }
constexpr std::size_t sums_of(int outputs, int inputs) {
    return std::size_t(up(outputs, outputs_at_once)) * up(inputs, inputs_at_once) * sums_per_tile;
}

// sums += sum over some steps of d[t][o] * x[t][i], lane by lane, for all outputs and inputs
template <class Real>
static void add_products(const Real* d, std::size_t d_step, int outputs, const Real* x, std::size_t x_step, int inputs, int steps,
                         V<Real>* sums) {
    constexpr int L = lanes<Real>;
    for (int o = 0; o < outputs; o += outputs_at_once)
        for (int i = 0; i < inputs; i += inputs_at_once, sums += sums_per_tile)
            product_tile_any<Real>(std::min(outputs_at_once, outputs - o), std::min(inputs_at_once, inputs - i),
                                   d + std::size_t(o) * L, d_step, x + std::size_t(i) * L, x_step, steps, sums);
}

// weights[o][i] += the sums over all lanes
template <class Real>
static void add_up(const V<Real>* sums, int outputs, int inputs, Real* weights, std::ptrdiff_t stride) {
    for (int o = 0; o < outputs; o += outputs_at_once)
        for (int i = 0; i < inputs; i += inputs_at_once, sums += sums_per_tile) {
            Real totals[sums_per_tile];
#pragma GCC unroll 4
            for (int k = 0; k < sums_per_tile; k += 4) four_totals(sums + k, totals + k);
            for (int a = 0; a < std::min(outputs_at_once, outputs - o); ++a)
                for (int b = 0; b < std::min(inputs_at_once, inputs - i); ++b)
                    weights[std::ptrdiff_t(o + a) * stride + i + b] += totals[a * inputs_at_once + b];
        }
}

// Weight gradients of a section, collected while the backward pass goes from chunk to chunk of time steps, so that the
// frames of a chunk are still in the cache. Large layers, whose sums would not fit there, are computed in tiles at once.
template <class Real> struct Collector {
    const Program& program;
    const Section& section;
    std::size_t count = 0;                      // vectors of sums
    std::vector<std::size_t> biases, products;  // where the sums of each begin
    bool chunked;
    int chunk;

    Collector(const Program& p, const Section& s, int steps) : program(p), section(s) {
        for (const BiasSum& sum : s.bias_sums) biases.push_back(count), count += sum.outputs;
        for (const WeightSum& sum : s.weight_sums) products.push_back(count), count += sums_of(sum.outputs, sum.inputs);
        constexpr std::size_t cache = 256 * 1024;
        chunked = count * sizeof(V<Real>) <= 2 * cache;
        const std::size_t per_step = std::size_t(s.rows + s.derivative_rows) * GATEL0RD_ROW_BYTES + 1;
        chunk = chunked ? std::max(4, std::min(steps, int(cache / per_step))) : steps;
    }

    // frames and derivatives of some consecutive steps
    void add(const Real* frames, const Real* derivatives, int steps, V<Real>* sums, Real* flat) const {
        constexpr int L = lanes<Real>, W = width<Real>;
        const std::size_t x_step = std::size_t(section.rows) * L, d_step = std::size_t(section.derivative_rows) * L;
        for (const Instruction& i : section.instructions) {
            if (i.op != Op::linear) continue;
            const Real* d = derivatives + std::size_t(i.derivative_row) * L;
            const int outputs = section.values[i.dst].size;
            V<Real>* bias = sums + biases[i.bias_sum];
            if (!i.biases.empty())
                for (int t = 0; t < steps; ++t)
                    for (int o = 0; o < outputs; ++o)
                        for (int p = 0; p < L; p += W) bias[o] += load(d + t * d_step + std::size_t(o) * L + p);
            for (const Term& term : i.terms) {
                const Value& input = section.values[term.input];
                const Real* x = frames + std::size_t(input.offset) * L;
                if (chunked)
                    add_products<Real>(d, d_step, outputs, x, x_step, input.size, steps, sums + products[term.sum]);
                else
                    in_tiles(d, d_step, outputs, x, x_step, input.size, steps,
                             flat + program.parameter_offsets[term.parameter] + term.start, term.stride);
            }
        }
    }

    void finish(const V<Real>* sums, Real* flat) const {
        for (std::size_t k = 0; k < biases.size(); ++k)
            for (const Bias& b : section.bias_sums[k].biases)
                for (int o = 0; o < section.bias_sums[k].outputs; ++o)
                    flat[program.parameter_offsets[b.parameter] + b.start + o] += total<Real>(sums[biases[k] + o]);
        if (!chunked) return;
        for (std::size_t k = 0; k < products.size(); ++k) {
            const WeightSum& sum = section.weight_sums[k];
            add_up<Real>(sums + products[k], sum.outputs, sum.inputs, flat + program.parameter_offsets[sum.parameter] + sum.start,
                         sum.stride);
        }
    }

    // tiles whose rows of a few steps stay in the first-level cache
    static void in_tiles(const Real* d, std::size_t d_step, int outputs, const Real* x, std::size_t x_step, int inputs, int steps,
                         Real* weights, std::ptrdiff_t stride) {
        constexpr int L = lanes<Real>;
        V<Real> sums[sums_of(tile_outputs, tile_inputs)];
        for (int o = 0; o < outputs; o += tile_outputs) {
            const int no = std::min(tile_outputs, outputs - o);
            for (int i = 0; i < inputs; i += tile_inputs) {
                const int ni = std::min(tile_inputs, inputs - i);
                std::memset(sums, 0, sizeof(V<Real>) * sums_of(no, ni));
                for (int t = 0; t < steps; t += steps_at_once)
                    add_products<Real>(d + t * d_step + std::size_t(o) * L, d_step, no, x + t * x_step + std::size_t(i) * L, x_step,
                                       ni, std::min(steps_at_once, steps - t), sums);
                add_up<Real>(sums, no, ni, weights + o * stride + i, stride);
            }
        }
    }
};

// ---- random numbers ----

// Instructions of one program draw from streams of their own
GATEL0RD_INLINE std::uint64_t stream(std::uint64_t seed, int number) { return seed + std::uint64_t(number) * 0x9E3779B97F4A7C15u; }

// The second word of a counter has room for 2^20 steps; later ones change the key
GATEL0RD_INLINE std::uint32_t step_word(int t, int group) { return (std::uint32_t(t) & 0xFFFFFu) << 12 | std::uint32_t(group); }
GATEL0RD_INLINE std::uint64_t step_key(std::uint64_t seed, int t) { return seed + std::uint64_t(t >> 20) * 0xD1B54A32D192ED03u; }

template <class Real>
static void fill_normal(Real* rows, int size, int first, int t, std::uint64_t seed, std::uint64_t counter, Real scale) {
    constexpr int L = lanes<Real>, at_once = std::min(L, random_lanes);
    Words w0, w1, w2, w3;
    float z[4][random_lanes];
    for (int part = 0; part < L; part += at_once)
        for (int f = 0; f < size; f += 4) {
            philox(std::uint32_t(first + part), step_word(t, f / 4), std::uint32_t(counter), std::uint32_t(counter >> 32),
                   step_key(seed, t), w0, w1, w2, w3);
            normals(w0, w1, z[0], z[1]);
            normals(w2, w3, z[2], z[3]);
            for (int k = 0; k < 4 && f + k < size; ++k)
                for (int l = 0; l < at_once; ++l) rows[(f + k) * L + part + l] = scale * Real(z[k][l]);
        }
}

template <class Real>
static void fill_bernoulli(Real* row, int first, int t, std::uint64_t seed, std::uint64_t counter, double probability) {
    constexpr int at_once = std::min(lanes<Real>, random_lanes);
    Words w0, w1, w2, w3;
    const float threshold = float(probability * 16777216.0);  // 24 bits, so that comparing floats is exact
    for (int part = 0; part < lanes<Real>; part += at_once) {
        // the last of the 4096 groups of features is never used by noise
        philox(std::uint32_t(first + part), step_word(t, 0xFFF), std::uint32_t(counter), std::uint32_t(counter >> 32),
               step_key(seed, t), w0, w1, w2, w3);
        for (int l = 0; l < at_once; ++l) row[part + l] = float(std::int32_t(w0[l] >> 8)) < threshold ? Real(1) : Real(0);
    }
}

// ---- one step forward and backward ----

// Add up rows, lane by lane, in registers
template <class Real, class F> GATEL0RD_INLINE void sum_rows(Real* into, std::size_t count, F term) {
    constexpr int L = lanes<Real>, P = pieces<Real>, W = width<Real>;
    V<Real> sum[P];
    for (int p = 0; p < P; ++p) sum[p] = load(into + p * W);
    for (std::size_t k = 0; k < count; k += L)
        for (int p = 0; p < P; ++p) sum[p] += term(k + p * W);
    for (int p = 0; p < P; ++p) store(into + p * W, sum[p]);
}

template <class Real>
static void execute(const Context<Real>& context, const Section& section, Real* frame, int t, const Block<Real>& block,
                    Real* loss_rows) {
    constexpr int L = lanes<Real>, W = width<Real>;
    const Run& run = context.run;
    const auto& linears = context.linears(section);
    auto rows = [&](int value) { return frame + std::size_t(section.values[value].offset) * L; };
    auto size = [&](int value) { return section.values[value].size; };
    for (const Instruction& i : section.instructions) {
        const Real *a = i.a >= 0 ? rows(i.a) : nullptr, *b = i.b >= 0 ? rows(i.b) : nullptr, *c = i.c >= 0 ? rows(i.c) : nullptr;
        Real* y = i.dst >= 0 ? rows(i.dst) : nullptr;
        const std::size_t count = std::size_t(i.dst >= 0 ? size(i.dst) : size(i.a)) * L;
        // an operand of one row stands for all rows
        const std::size_t a_mask = i.a >= 0 && size(i.a) == 1 ? L - 1 : ~std::size_t(0);
        const std::size_t b_mask = i.b >= 0 && size(i.b) == 1 ? L - 1 : ~std::size_t(0);
        switch (i.op) {
            case Op::linear: linear_forward<Real>(linears[i.linear], frame); break;
            case Op::add:
                for (std::size_t k = 0; k < count; k += W) store(y + k, load(a + k) + load(b + k));
                activate_rows<Real>(i.act, y, y, size(i.dst));
                break;
            case Op::multiply:
                for (std::size_t k = 0; k < count; k += W) store(y + k, load(a + k) * load(b + (k & b_mask)));
                break;
            case Op::maximum:
                for (std::size_t k = 0; k < count; k += W) {
                    const V<Real> left = load(a + k), right = load(b + k);
                    store(y + k, choose<Real>((right > left) | (right != right), right, left));
                }
                break;
            case Op::blend:
                for (std::size_t k = 0; k < count; k += W) {
                    const V<Real> g = load(a + (k & a_mask));
                    store(y + k, g * load(b + k) + (Real(1) - g) * load(c + k));
                }
                break;
            case Op::select:
                for (std::size_t k = 0; k < count; k += W)
                    store(y + k, choose<Real>(load(a + (k & a_mask)) != 0, load(b + k), load(c + k)));
                break;
            case Op::axpy:
                for (std::size_t k = 0; k < count; k += W) store(y + k, load(a + k) + Real(i.scalar) * load(b + k));
                break;
            case Op::activate: activate_rows<Real>(i.act, a, y, size(i.dst)); break;
            case Op::clear:
                for (std::size_t k = 0; k < count; k += W)
                    store(y + k, choose<Real>(load(b + (k & b_mask)) != 0, V<Real>{}, load(a + k)));
                break;
            case Op::due:
                for (int f = 0; f < size(i.dst); ++f)
                    for (int l = 0; l < L; ++l) y[f * L + l] = std::int64_t(a[l]) % i.periods[f] == 0 ? Real(1) : Real(0);
                break;
            case Op::tick:
                for (std::size_t k = 0; k < count; ++k)
                    y[k] = (a[k] + 1) - Real(i.scalar) * std::floor((a[k] + 1) / Real(i.scalar));
                break;
            case Op::normal:
                fill_normal<Real>(y, size(i.dst), block.first, t, stream(run.seed, i.slot), run.counter, Real(i.scalar));
                break;
            case Op::bernoulli:
                fill_bernoulli<Real>(y, block.first, t, stream(run.seed, i.slot), run.counter,
                                     t < i.scalar ? 1.0 : run.probability);
                break;
            case Op::squared_error:
                sum_rows<Real>(loss_rows + i.slot * L, count, [&](std::size_t k) {
                    const V<Real> e = load(a + k) - load(b + k);
                    return e * e;
                });
                break;
            case Op::count_open:
                sum_rows<Real>(loss_rows + i.slot * L, count,
                               [&](std::size_t k) { return choose<Real>(load(a + k) > 0, splat<Real>(1), V<Real>{}); });
                break;
            case Op::sum_absolute:
                sum_rows<Real>(loss_rows + i.slot * L, count, [&](std::size_t k) { return absolute<Real>(load(a + k)); });
                break;
            case Op::sum_squares:
                sum_rows<Real>(loss_rows + i.slot * L, count, [&](std::size_t k) { return load(a + k) * load(a + k); });
                break;
        }
    }
}

template <class Real>
static void execute_backward(const Context<Real>& context, const Section& section, const Real* frame, Real* gradient,
                             Real* derivatives, const std::vector<char>& needs, const Real* alive) {
    constexpr int L = lanes<Real>, W = width<Real>;
    const auto& linears = context.linears(section);
    auto rows = [&](int value) { return frame + std::size_t(section.values[value].offset) * L; };
    auto grad = [&](int value) { return gradient + std::size_t(section.values[value].offset) * L; };
    auto size = [&](int value) { return section.values[value].size; };
    for (auto it = section.instructions.rbegin(); it != section.instructions.rend(); ++it) {
        const Instruction& i = *it;
        if (i.dst >= 0 && !needs[i.dst]) continue;
        const bool to_a = i.a >= 0 && needs[i.a], to_b = i.b >= 0 && needs[i.b], to_c = i.c >= 0 && needs[i.c];
        const Real *a = i.a >= 0 ? rows(i.a) : nullptr, *b = i.b >= 0 ? rows(i.b) : nullptr, *c = i.c >= 0 ? rows(i.c) : nullptr;
        Real *da = to_a ? grad(i.a) : nullptr, *db = to_b ? grad(i.b) : nullptr, *dc = to_c ? grad(i.c) : nullptr;
        const Real *y = i.dst >= 0 ? rows(i.dst) : nullptr, *dy = i.dst >= 0 ? grad(i.dst) : nullptr;
        const std::size_t count = std::size_t(i.dst >= 0 ? size(i.dst) : size(i.a)) * L;
        const std::size_t a_mask = i.a >= 0 && size(i.a) == 1 ? L - 1 : ~std::size_t(0);
        const std::size_t b_mask = i.b >= 0 && size(i.b) == 1 ? L - 1 : ~std::size_t(0);
        auto into = [](Real* p, V<Real> v) { store(p, load(p) + v); };
        // losses count in training only; elsewhere nobody weights them
        const auto& weights = context.run.loss_weights;
        const Real weight = i.slot >= 0 && std::size_t(i.slot) < weights.size() ? Real(weights[i.slot]) : Real(0);
        switch (i.op) {
            case Op::linear:
                linear_backward<Real>(linears[i.linear], frame, gradient, derivatives + std::size_t(i.derivative_row) * L, to_a,
                                      needs);
                break;
            case Op::add:
                for (std::size_t k = 0; k < count; k += W) {
                    const V<Real> d = load(dy + k) * derivative<Real>(i.act, load(y + k));
                    if (to_a) into(da + k, d);
                    if (to_b) into(db + k, d);
                }
                break;
            case Op::multiply:
                for (std::size_t k = 0; k < count; k += W) {
                    if (to_a) into(da + k, load(dy + k) * load(b + (k & b_mask)));
                    if (to_b) into(db + (k & b_mask), load(dy + k) * load(a + k));
                }
                break;
            case Op::maximum:
                for (std::size_t k = 0; k < count; k += W) {
                    const V<Real> d = load(dy + k);
                    const auto right = load(b + k) > load(a + k);
                    if (to_a) into(da + k, choose<Real>(right, V<Real>{}, d));
                    if (to_b) into(db + k, choose<Real>(right, d, V<Real>{}));
                }
                break;
            case Op::blend:
                for (std::size_t k = 0; k < count; k += W) {
                    const V<Real> d = load(dy + k), g = load(a + (k & a_mask));
                    if (to_a) into(da + (k & a_mask), d * (load(b + k) - load(c + k)));
                    if (to_b) into(db + k, d * g);
                    if (to_c) into(dc + k, d * (Real(1) - g));
                }
                break;
            case Op::select:
                for (std::size_t k = 0; k < count; k += W) {
                    const V<Real> d = load(dy + k);
                    const auto yes = load(a + (k & a_mask)) != 0;
                    if (to_b) into(db + k, choose<Real>(yes, d, V<Real>{}));
                    if (to_c) into(dc + k, choose<Real>(yes, V<Real>{}, d));
                }
                break;
            case Op::axpy:
                for (std::size_t k = 0; k < count; k += W) {
                    if (to_a) into(da + k, load(dy + k));
                    if (to_b) into(db + k, Real(i.scalar) * load(dy + k));
                }
                break;
            case Op::activate:
                if (!to_a) break;
                for (std::size_t k = 0; k < count; k += W) into(da + k, load(dy + k) * derivative<Real>(i.act, load(y + k)));
                break;
            case Op::clear:
                if (!to_a) break;
                for (std::size_t k = 0; k < count; k += W)
                    into(da + k, choose<Real>(load(b + (k & b_mask)) != 0, V<Real>{}, load(dy + k)));
                break;
            case Op::squared_error:
                for (std::size_t k = 0; k < count; k += W)
                    if (to_a) into(da + k, (2 * weight) * (load(a + k) - load(b + k)) * load(alive + (k & (L - 1))));
                break;
            case Op::count_open:
                if (!to_a) break;
                for (std::size_t k = 0; k < count; k += W) into(da + k, weight * load(alive + (k & (L - 1))));
                break;
            case Op::sum_absolute:
                if (!to_a) break;
                for (std::size_t k = 0; k < count; k += W) {
                    const V<Real> sign =
                        choose<Real>(load(a + k) > 0, splat<Real>(1), choose<Real>(load(a + k) < 0, splat<Real>(-1), V<Real>{}));
                    into(da + k, weight * sign * load(alive + (k & (L - 1))));
                }
                break;
            case Op::sum_squares:
                if (!to_a) break;
                for (std::size_t k = 0; k < count; k += W) into(da + k, (2 * weight) * load(a + k) * load(alive + (k & (L - 1))));
                break;
            case Op::due:
            case Op::tick:
            case Op::normal:
            case Op::bernoulli: break;
        }
    }
}

// ---- a block through time ----

template <class Real> static void copy_rows(const Real* from, Real* to, int size) {
    std::memcpy(to, from, std::size_t(size) * lanes<Real> * sizeof(Real));
}

// frames: how many frames the block's memory holds; all time steps for a backward pass to follow, else two
template <class Real>
static void forward_block(const Context<Real>& context, const Block<Real>& block, int frames, Real* loss_rows) {
    constexpr int L = lanes<Real>;
    const Program& p = context.program;
    const Run& run = context.run;
    std::memset(block.prologue, 0, context.prologue() * sizeof(Real));  // values that nothing fills are zero
    for (const Load& load : p.initial_loads) {
        const Value& value = p.prologue.values[load.value];
        const bool timed = load.time >= 0;
        const Strided& source = timed ? run.sequences[load.tensor] : run.initials[load.tensor];
        read_rows<Real>(block.prologue + std::size_t(value.offset) * L, value.size, source, timed ? load.time : 0, block, run,
                        timed);
    }
    execute<Real>(context, p.prologue, block.prologue, 0, block, loss_rows);
    const Real* before = nullptr;
    for (int t = 0; t < run.steps; ++t) {
        Real* frame = block.frames + context.frame() * (frames == run.steps ? t : t % frames);
        for (const State& state : p.states) {
            const Value& in = p.body.values[state.in];
            const Real* from = t == 0 ? block.prologue + std::size_t(p.prologue.values[state.initial].offset) * L
                                      : before + std::size_t(p.body.values[state.out].offset) * L;
            copy_rows<Real>(from, frame + std::size_t(in.offset) * L, in.size);
        }
        for (const Load& load : p.sequence_loads) {
            const Value& value = p.body.values[load.value];
            read_rows<Real>(frame + std::size_t(value.offset) * L, value.size, run.sequences[load.tensor], t + load.time, block,
                            run, true);
        }
        execute<Real>(context, p.body, frame, t, block, loss_rows);
        for (std::size_t k = 0; k < p.outputs.size(); ++k) {
            if (!run.outputs[k].data) continue;
            const Value& value = p.body.values[p.outputs[k]];
            write_rows<Real, false>(frame + std::size_t(value.offset) * L, value.size, run.outputs[k], t, block);
        }
        before = frame;
    }
    for (std::size_t k = 0; k < p.finals.size(); ++k) {
        if (k >= run.finals.size() || !run.finals[k].data) continue;
        const Value& value = p.body.values[p.finals[k]];
        write_rows<Real, false>(before + std::size_t(value.offset) * L, value.size, run.finals[k], 0, block);
    }
}

// Which values the total depends on through something that wants a gradient
struct Needs {
    std::vector<char> prologue, body;

    Needs(const Program& p, const Gradients& g) : prologue(p.prologue.values.size()), body(p.body.values.size()) {
        const bool parameters = g.parameters != nullptr;
        for (const Load& load : p.initial_loads) {
            const auto& wanted = load.time >= 0 ? g.sequences : g.initials;
            prologue[load.value] = std::size_t(load.tensor) < wanted.size() && wanted[load.tensor].data;
        }
        for (const Load& load : p.sequence_loads)
            body[load.value] = std::size_t(load.tensor) < g.sequences.size() && g.sequences[load.tensor].data;
        propagate(p.prologue, prologue, parameters);
        for (bool changed = true; changed;) {
            for (const State& s : p.states) body[s.in] = body[s.in] || prologue[s.initial] || body[s.out];
            propagate(p.body, body, parameters);
            changed = false;
            for (const State& s : p.states) changed = changed || (body[s.out] && !body[s.in]);
        }
    }

    // views share rows with the value they are cut from: a value overlapping one that needs a gradient needs it too
    static void propagate(const Section& section, std::vector<char>& needs, bool parameters) {
        auto spread = [&](int value) {
            const Value& v = section.values[value];
            for (std::size_t k = 0; k < needs.size(); ++k) {
                const Value& w = section.values[k];
                if (w.offset < v.offset + v.size && v.offset < w.offset + w.size) needs[k] = 1;
            }
        };
        for (std::size_t k = 0; k < needs.size(); ++k)
            if (needs[k]) spread(int(k));
        for (const Instruction& i : section.instructions) {
            if (i.dst < 0 || i.op == Op::due || i.op == Op::tick || i.op == Op::normal || i.op == Op::bernoulli) continue;
            bool need = i.op == Op::linear && parameters;
            for (int operand : {i.a, i.b, i.c}) need = need || (operand >= 0 && needs[operand]);
            for (const Term& term : i.terms) need = need || needs[term.input];
            if (need) spread(i.dst);
        }
    }
};

template <class Real> struct Worker {
    Scratch<Real> gradient, prologue_gradient, derivatives, prologue_derivatives, carry, tape, losses, sums;
    void give_back_large() {
        for (Scratch<Real>* scratch :
             {&gradient, &prologue_gradient, &derivatives, &prologue_derivatives, &carry, &tape, &losses, &sums})
            scratch->give_back_large();
    }
};

// A thread's own, for one chunk of blocks
template <class Real> struct Borrowed {
    Worker<Real>& worker;
    Borrowed() : worker(own()) {}
    ~Borrowed() { worker.give_back_large(); }
    static Worker<Real>& own() {
        static thread_local Worker<Real> worker;
        return worker;
    }
};

template <class Real>
static void backward_block(const Context<Real>& context, const Block<Real>& block, const Gradients& g, const Needs& needs,
                           const Collector<Real>& collector, const Collector<Real>& first_collector, Worker<Real>& worker,
                           Real* flat) {
    constexpr int L = lanes<Real>;
    const Program& p = context.program;
    const Run& run = context.run;
    Real* gradient = worker.gradient.get(context.frame());
    Real* derivatives = worker.derivatives.get(std::size_t(collector.chunk) * p.body.derivative_rows * L);
    V<Real>* sums = reinterpret_cast<V<Real>*>(worker.sums.get((collector.count + first_collector.count) * width<Real>));
    std::memset(sums, 0, (collector.count + first_collector.count) * sizeof(V<Real>));
    int carried = 0;
    for (const State& state : p.states) carried += p.body.values[state.in].size;
    Real* carry = worker.carry.get(std::size_t(carried) * L);
    std::memset(carry, 0, std::size_t(carried) * L * sizeof(Real));
    alignas(64) Real alive[L];
    for (int l = 0; l < L; ++l) alive[l] = l < block.count ? Real(1) : Real(0);

    // add what was carried to the gradient of each state, at the end of a step or in the prologue
    auto add_carry = [&](const Section& section, int State::* which, Real* rows) {
        const Real* from = carry;
        for (const State& state : p.states) {
            const Value& value = section.values[state.*which];
            Real* to = rows + std::size_t(value.offset) * L;
            for (int k = 0; k < value.size * L; k += width<Real>) store(to + k, load(to + k) + load(from + k));
            from += std::size_t(value.size) * L;
        }
    };
    for (int t = run.steps - 1; t >= 0; --t) {
        const Real* frame = block.frames + context.frame() * t;
        std::memset(gradient, 0, context.frame() * sizeof(Real));
        add_carry(p.body, &State::out, gradient);
        for (std::size_t k = 0; k < g.outputs.size(); ++k) {
            const Value& value = p.body.values[p.outputs[k]];
            if (g.outputs[k].data) add_rows<Real>(gradient + std::size_t(value.offset) * L, value.size, g.outputs[k], t, block);
        }
        if (t == run.steps - 1)
            for (std::size_t k = 0; k < g.finals.size(); ++k) {
                const Value& value = p.body.values[p.finals[k]];
                if (g.finals[k].data) add_rows<Real>(gradient + std::size_t(value.offset) * L, value.size, g.finals[k], 0, block);
            }
        execute_backward<Real>(context, p.body, frame, gradient,
                               derivatives + std::size_t(t % collector.chunk) * p.body.derivative_rows * L, needs.body, alive);
        if (flat && t % collector.chunk == 0)
            collector.add(frame, derivatives, std::min(collector.chunk, run.steps - t), sums, flat);
        Real* to = carry;
        for (const State& state : p.states) {
            const Value& in = p.body.values[state.in];
            copy_rows<Real>(gradient + std::size_t(in.offset) * L, to, in.size);
            to += std::size_t(in.size) * L;
        }
        for (const Load& load : p.sequence_loads)
            if (needs.body[load.value] && std::size_t(load.tensor) < g.sequences.size() && g.sequences[load.tensor].data)
                write_rows<Real, true>(gradient + std::size_t(p.body.values[load.value].offset) * L, p.body.values[load.value].size,
                                       g.sequences[load.tensor], t + load.time, block);
    }
    Real* first = worker.prologue_gradient.get(context.prologue() + L);
    std::memset(first, 0, context.prologue() * sizeof(Real));
    add_carry(p.prologue, &State::initial, first);
    Real* prologue_derivatives = worker.prologue_derivatives.get(std::size_t(p.prologue.derivative_rows) * L + L);
    execute_backward<Real>(context, p.prologue, block.prologue, first, prologue_derivatives, needs.prologue, alive);
    for (const Load& load : p.initial_loads) {
        if (!needs.prologue[load.value]) continue;
        const bool timed = load.time >= 0;
        const auto& wanted = timed ? g.sequences : g.initials;
        if (std::size_t(load.tensor) < wanted.size() && wanted[load.tensor].data)
            write_rows<Real, true>(first + std::size_t(p.prologue.values[load.value].offset) * L,
                                   p.prologue.values[load.value].size, wanted[load.tensor], timed ? load.time : 0, block);
    }
    if (flat) {
        first_collector.add(block.prologue, prologue_derivatives, 1, sums + collector.count, flat);
        collector.finish(sums, flat);
        first_collector.finish(sums + collector.count, flat);
    }
}

// ---- all blocks ----

// Blocks are dealt out in chunks whose number does not depend on the threads; a chunk's blocks are added up in order,
// and so are the chunks: results are the same for any number of threads.
constexpr int most_chunks = 16;
GATEL0RD_INLINE int chunk_begin(int chunk, int chunks, int blocks) { return int(std::int64_t(blocks) * chunk / chunks); }

// work(block, chunk, worker)
template <class Real, class F> static void for_chunks(int blocks, int threads, F work) {
    const int chunks = std::min(blocks, most_chunks);
    auto do_chunk = [&](int chunk) {
        Borrowed<Real> borrowed;
        for (int b = chunk_begin(chunk, chunks, blocks); b < chunk_begin(chunk + 1, chunks, blocks); ++b)
            work(b, chunk, borrowed.worker);
    };
    in_parallel(chunks, threads, do_chunk);
}

template <class Real> static std::size_t tape_bytes(const Program& p, int steps, int batch) {
    const std::size_t blocks = std::size_t((batch + lanes<Real> - 1) / lanes<Real>);
    return blocks * (std::size_t(p.prologue.rows) + std::size_t(p.body.rows) * steps) * GATEL0RD_ROW_BYTES;
}

template <class Real> static void forward(const Program& p, const Run& run, Tape* tape) {
    const Context<Real> context(p, run);
    if (tape) tape->reserve(tape_bytes<Real>(p, run.steps, run.batch));
    for_chunks<Real>(context.blocks(), run.threads, [&](int b, int, Worker<Real>& worker) {
        const int frames = tape ? run.steps : std::min(run.steps, 2);
        const std::size_t size = context.block_size(frames);
        Real* memory = tape ? static_cast<Real*>(tape->data) + size * b : worker.tape.get(size);
        Real* losses = worker.losses.get(std::size_t(p.loss_slots + 1) * lanes<Real>);
        forward_block<Real>(context, Block<Real>(context, b, memory), frames, losses);
    });
}

template <class Real>
static void finish_gradient(const Context<Real>& context, const Real* partial, int chunks, Real* flat) {
    const Program& p = context.program;
    const std::size_t count = std::size_t(p.parameter_total);
    std::memcpy(flat, partial, count * sizeof(Real));
    for (int c = 1; c < chunks; ++c)
        for (std::size_t k = 0; k < count; ++k) flat[k] += partial[c * count + k];
    for (std::size_t q = 0; q < context.run.masks.size(); ++q)
        if (const Real* mask = static_cast<const Real*>(context.run.masks[q]))
            for (std::int64_t k = 0; k < p.parameter_sizes[q]; ++k) flat[p.parameter_offsets[q] + k] *= mask[k];
}

template <class Real> static void backward(const Program& p, const Run& run, const Gradients& g, Tape& tape) {
    const Context<Real> context(p, run);
    const Needs needs(p, g);
    const Collector<Real> collector(p, p.body, run.steps), first_collector(p, p.prologue, 1);
    const int chunks = std::min(context.blocks(), most_chunks);
    const std::size_t count = std::size_t(p.parameter_total);
    const std::size_t bytes = g.parameters ? count * chunks * sizeof(Real) : 0;
    const Memory sums(bytes);
    Real* partial = static_cast<Real*>(sums.data);
    if (partial) std::memset(partial, 0, bytes);
    for_chunks<Real>(context.blocks(), run.threads, [&](int b, int chunk, Worker<Real>& worker) {
        Real* memory = static_cast<Real*>(tape.data) + context.block_size(run.steps) * b;
        backward_block<Real>(context, Block<Real>(context, b, memory), g, needs, collector, first_collector, worker,
                             partial ? partial + count * chunk : nullptr);
    });
    if (g.parameters) finish_gradient<Real>(context, partial, chunks, static_cast<Real*>(g.parameters));
}

template <class Real> static void train(const Program& p, const Run& run, void* gradient, double* losses) {
    constexpr int L = lanes<Real>;
    const Context<Real> context(p, run);
    Gradients g;
    g.parameters = gradient;
    const Needs needs(p, g);
    const Collector<Real> collector(p, p.body, run.steps), first_collector(p, p.prologue, 1);
    const int blocks = context.blocks(), chunks = std::min(blocks, most_chunks);
    const std::size_t count = std::size_t(p.parameter_total);
    const Memory memory(count * chunks * sizeof(Real));
    Real* partial = static_cast<Real*>(memory.data);
    if (partial) std::memset(partial, 0, count * chunks * sizeof(Real));
    std::vector<double> sums(std::size_t(blocks) * p.loss_slots);
    for_chunks<Real>(blocks, run.threads, [&](int b, int chunk, Worker<Real>& worker) {
        const Block<Real> block(context, b, worker.tape.get(context.block_size(run.steps)));
        Real* rows = worker.losses.get(std::size_t(p.loss_slots + 1) * L);
        std::memset(rows, 0, std::size_t(p.loss_slots) * L * sizeof(Real));
        forward_block<Real>(context, block, run.steps, rows);
        for (int slot = 0; slot < p.loss_slots; ++slot)
            for (int l = 0; l < block.count; ++l) sums[std::size_t(b) * p.loss_slots + slot] += rows[slot * L + l];
        backward_block<Real>(context, block, g, needs, collector, first_collector, worker, partial + count * chunk);
    });
    for (int slot = 0; slot < p.loss_slots; ++slot) {
        losses[slot] = 0;
        for (int b = 0; b < blocks; ++b) losses[slot] += sums[std::size_t(b) * p.loss_slots + slot];
    }
    finish_gradient<Real>(context, partial, chunks, static_cast<Real*>(gradient));
}

template <class Real>
static double adam(void* parameters, const void* gradient, void* mean, void* square, std::size_t count, double rate, double beta1,
                   double beta2, double epsilon, double clip, std::int64_t step) {
    Real *w = static_cast<Real*>(parameters), *m = static_cast<Real*>(mean), *v = static_cast<Real*>(square);
    const Real* g = static_cast<const Real*>(gradient);
    double norm = 0;
    for (std::size_t k = 0; k < count; ++k) norm += double(g[k]) * double(g[k]);
    norm = std::sqrt(norm);
    const Real scale = Real(clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0);
    const Real b1 = Real(beta1), b2 = Real(beta2), c1 = Real(1 - beta1), c2 = Real(1 - beta2), tiny = Real(epsilon);
    const Real size = Real(rate / (1 - std::pow(beta1, double(step))));
    const Real correction = Real(1 / std::sqrt(1 - std::pow(beta2, double(step))));
    for (std::size_t k = 0; k < count; ++k) {
        const Real d = g[k] * scale;
        m[k] = b1 * m[k] + c1 * d;
        v[k] = b2 * v[k] + c2 * d * d;
        w[k] -= size * m[k] / (std::sqrt(v[k]) * correction + tiny);
    }
    return norm;
}

template <class Real>
static void draw_normal(void* out, int steps, int batch, int size, std::uint64_t seed, std::uint64_t counter, double scale) {
    constexpr int L = lanes<Real>;
    std::vector<Real> rows(std::size_t(size) * L);
    Real* target = static_cast<Real*>(out);
    for (int t = 0; t < steps; ++t)
        for (int first = 0; first < batch; first += L) {
            fill_normal<Real>(rows.data(), size, first, t, seed, counter, Real(scale));
            for (int l = 0; l < std::min(L, batch - first); ++l)
                for (int f = 0; f < size; ++f) target[(std::size_t(t) * batch + first + l) * size + f] = rows[f * L + l];
        }
}

// Normal numbers one after the other. Each group of 64 has a counter of its own, whose third word is none of a program's.
template <class Real>
static void draw_numbers(void* out, std::size_t count, int threads, std::uint64_t seed, double scale) {
    constexpr std::size_t group = 4 * random_lanes, stretch = 256 * group;
    Real* target = static_cast<Real*>(out);
    auto fill = [&](int part) {
        Words w0, w1, w2, w3;
        float z[4][random_lanes];
        const std::size_t last = std::min(count, (part + 1) * stretch);
        for (std::size_t first = part * stretch; first < last; first += group) {
            const std::uint64_t number = first / group * random_lanes;
            philox(std::uint32_t(number), std::uint32_t(number >> 32), 0, 0x80000000u, seed, w0, w1, w2, w3);
            normals(w0, w1, z[0], z[1]);
            normals(w2, w3, z[2], z[3]);
            const std::size_t here = std::min(group, last - first);
            const float* numbers = &z[0][0];
            for (std::size_t k = 0; k < here; ++k) target[first + k] = Real(scale) * Real(numbers[k]);
        }
    };
    in_parallel(int((count + stretch - 1) / stretch), threads, fill);
}

template <class Real>
static void draw_bernoulli(void* out, int steps, int batch, std::uint64_t seed, std::uint64_t counter, double probability) {
    constexpr int L = lanes<Real>;
    Real row[L];
    Real* target = static_cast<Real*>(out);
    for (int t = 0; t < steps; ++t)
        for (int first = 0; first < batch; first += L) {
            fill_bernoulli<Real>(row, first, t, seed, counter, probability);
            for (int l = 0; l < std::min(L, batch - first); ++l) target[std::size_t(t) * batch + first + l] = row[l];
        }
}

template <class Real> static void activate(int act, const void* in, void* out, std::size_t count) {
    constexpr int L = lanes<Real>;
    const Real* x = static_cast<const Real*>(in);
    Real* y = static_cast<Real*>(out);
    for (std::size_t k = 0; k < count; k += L) {
        alignas(64) Real row[L] = {};
        const std::size_t n = std::min(std::size_t(L), count - k);
        std::memcpy(row, x + k, n * sizeof(Real));
        activate_rows<Real>(Act(act), row, row, 1);
        std::memcpy(y + k, row, n * sizeof(Real));
    }
}

template <class Real> static const Backend& backend() {
    static const Backend b{sizeof(Real) == 8,    tape_bytes<Real>, forward<Real>,       backward<Real>,
                           train<Real>,          adam<Real>,       draw_normal<Real>,   draw_numbers<Real>,
                           draw_bernoulli<Real>, activate<Real>,   layer_forward<Real>, layer_backward<Real>};
    return b;
}

}  // namespace GATEL0RD_ISA
}  // namespace gatel0rd
