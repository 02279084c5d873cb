// Matrix products of any size: packed, in blocks that depend on the shapes only, so that results are the same for any number
// of threads. Included once per instruction set, inside that set's namespace.

// work(k) for all k below count, shared by threads
template <class F> static void in_parallel(int count, int threads, F& work) {
    parallel_blocks(count, threads, [](void* context, int k) { (*static_cast<F*>(context))(k); }, &work);
}

template <class Real> struct Matrix {
    Real* data;
    std::ptrdiff_t row, column;  // elements from one row, or column, to the next
    Matrix transposed() const { return {data, column, row}; }
    Matrix from_row(std::ptrdiff_t r) const { return {data + r * row, row, column}; }
    Matrix from_column(std::ptrdiff_t c) const { return {data + c * column, row, column}; }
    bool operator==(const Matrix& other) const { return data == other.data && row == other.row && column == other.column; }
};

// A tile of the result that is kept in registers: rows x two vectors
template <class Real> constexpr int tile_rows = GATEL0RD_VECTOR_BYTES == 64 ? 12 : 6;
template <class Real> constexpr int tile_columns = 2 * width<Real>;

// What a product is added to
enum class Start { zero, bias, itself };

// out[r][c] = start + sum over k of left[r][k] * right[k][c]; right is packed, [k][tile_columns]
template <class Real, int rows>
GATEL0RD_INLINE void multiply_tile(int inner, const Real* left, std::ptrdiff_t left_row, std::ptrdiff_t left_inner,
                                   const Real* right, Real* out, std::ptrdiff_t out_row, Start start, const Real* bias) {
    constexpr int W = width<Real>;
    V<Real> sum[rows][2];
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
        const Real* from = start == Start::bias ? bias : out + r * out_row;
        if (start == Start::zero) {
            sum[r][0] = sum[r][1] = V<Real>{};
        } else {
            __builtin_memcpy(&sum[r][0], from, sizeof(V<Real>));
            __builtin_memcpy(&sum[r][1], from + W, sizeof(V<Real>));
        }
    }
    for (int k = 0; k < inner; ++k, left += left_inner, right += 2 * W) {
        const V<Real> first = load(right), second = load(right + W);
#pragma GCC unroll 16
        for (int r = 0; r < rows; ++r) {
            const Real factor = left[r * left_row];
            sum[r][0] += factor * first;
            sum[r][1] += factor * second;
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
        __builtin_memcpy(out + r * out_row, &sum[r][0], sizeof(V<Real>));
        __builtin_memcpy(out + r * out_row + W, &sum[r][1], sizeof(V<Real>));
    }
}

template <class Real, int rows = tile_rows<Real>>
GATEL0RD_INLINE void multiply_rows(int count, int inner, const Real* left, std::ptrdiff_t left_row, std::ptrdiff_t left_inner,
                                   const Real* right, Real* out, std::ptrdiff_t out_row, Start start, const Real* bias) {
    if constexpr (rows > 1)
        if (count < rows)
            return multiply_rows<Real, rows - 1>(count, inner, left, left_row, left_inner, right, out, out_row, start, bias);
    multiply_tile<Real, rows>(inner, left, left_row, left_inner, right, out, out_row, start, bias);
}

// Some rows and all columns of a result, with a packed right side of [panel][inner][tile_columns]. Columns that do not fill a
// panel go through a buffer.
template <class Real>
static void multiply_packed(int rows, int columns, int inner, const Real* left, std::ptrdiff_t left_row, std::ptrdiff_t left_inner,
                            const Real* packed, Real* out, std::ptrdiff_t out_row, Start start, const Real* bias) {
    constexpr int N = tile_columns<Real>, M = tile_rows<Real>;
    for (int c = 0; c < columns; c += N, packed += std::size_t(inner) * N) {
        const int width_here = std::min(N, columns - c);
        for (int r = 0; r < rows; r += M) {
            const int count = std::min(M, rows - r);
            const Real* a = left + r * left_row;
            Real* to = out + r * out_row + c;
            if (width_here == N) {
                multiply_rows<Real>(count, inner, a, left_row, left_inner, packed, to, out_row, start, bias ? bias + c : nullptr);
                continue;
            }
            alignas(64) Real edge[M * N], edge_bias[N] = {};
            for (int k = 0; k < count; ++k)
                for (int n = 0; n < N; ++n)
                    edge[k * N + n] = start == Start::itself && n < width_here ? to[k * out_row + n] : Real(0);
            if (bias) std::copy(bias + c, bias + c + width_here, edge_bias);
            multiply_rows<Real>(count, inner, a, left_row, left_inner, packed, edge, N, start, edge_bias);
            for (int k = 0; k < count; ++k) std::copy(edge + k * N, edge + k * N + width_here, to + k * out_row);
        }
    }
}

template <class Real> constexpr std::size_t packed_size(int columns, int inner) {
    return std::size_t((columns + tile_columns<Real> - 1) / tile_columns<Real>) * tile_columns<Real> * inner;
}

// A right side, or two side by side: the second begins at the column `split`
template <class Real> struct Right {
    Matrix<Real> first, second;
    int split;
    Right(const Matrix<Real>& only) : first(only), second(only), split(std::numeric_limits<int>::max()) {}
    Right(const Matrix<Real>& a, int columns, const Matrix<Real>& b) : first(a), second(b), split(columns) {}
    Right from_row(std::ptrdiff_t r) const { return {first.from_row(r), split, second.from_row(r)}; }
    bool operator==(const Right& other) const { return first == other.first && second == other.second && split == other.split; }
    Matrix<Real> from_column(int c) const { return c < split ? first.from_column(c) : second.from_column(c - split); }
};

// Lay out a right side [inner, columns] in panels
template <class Real> static void pack_right(const Right<const Real>& right, int inner, int columns, Real* packed) {
    constexpr int N = tile_columns<Real>, at_once = 8;
    for (int c = 0; c < columns; c += N, packed += std::size_t(inner) * N) {
        const int count = std::min(N, columns - c);
        const Matrix<const Real> from = right.from_column(c);
        const bool mixed = c < right.split && c + count > right.split;
        if (from.column == 1 && count == N && !mixed) {
            for (int k = 0; k < inner; ++k) std::memcpy(packed + std::size_t(k) * N, from.data + k * from.row, N * sizeof(Real));
            continue;
        }
        // some rows at a time, so that what is read and what is written stays in the cache
        for (int k0 = 0; k0 < inner; k0 += at_once) {
            const int last = std::min(inner, k0 + at_once);
            for (int n = 0; n < N; ++n) {
                const Matrix<const Real> column = right.from_column(c + n);
                for (int k = k0; k < last; ++k) packed[std::size_t(k) * N + n] = n < count ? column.data[k * column.row] : Real(0);
            }
        }
    }
}

// Lay out a left side [rows, inner] in panels of tile_rows; the last one may be lower
template <class Real> static void pack_left(const Matrix<const Real>& left, int rows, int inner, Real* packed) {
    constexpr int M = tile_rows<Real>;
    for (int r = 0; r < rows; r += M) {
        const int count = std::min(M, rows - r);
        const Real* from = left.data + r * left.row;
        if (left.row == 1 && count == M) {
            for (int k = 0; k < inner; ++k, packed += M) std::memcpy(packed, from + k * left.column, M * sizeof(Real));
            continue;
        }
        for (int k = 0; k < inner; ++k, packed += count)
            for (int m = 0; m < count; ++m) packed[m] = from[m * left.row + k * left.column];
    }
}

// One product of many that are computed together:
// out[rows, columns] = start + sum over terms of left[rows, inner] · right[inner, columns]
template <class Real> struct Product {
    struct Term {
        Matrix<const Real> left;
        Right<const Real> right;
        int inner;
        const Real* packed = nullptr;  // the right side
    };
    int rows, columns;
    std::vector<Term> terms;
    Real* out;
    std::ptrdiff_t out_row;
    Start start = Start::zero;
    const Real* bias = nullptr;

    static constexpr int inner_block = 256;
    // rows of a block: enough of them that weights are used often once they were fetched, few enough that threads share the
    // work. The order in which numbers are added up does not depend on it.
    int row_block(int threads) const {
        constexpr int M = tile_rows<Real>;
        if (threads <= 1) return 16 * M;
        const int share = (rows / (4 * threads) + M - 1) / M * M;
        return std::max(2 * M, std::min(16 * M, share));
    }
    int blocks(int threads) const { return (rows + row_block(threads) - 1) / row_block(threads); }

    void compute(int block, int threads) const {
        constexpr int M = tile_rows<Real>, N = tile_columns<Real>;
        static thread_local Scratch<Real> scratch;
        const int r0 = block * row_block(threads), height = std::min(row_block(threads), rows - r0);
        Real* to = out + r0 * out_row;
        Start begin = start;
        for (const Term& term : terms) {
            const bool direct = term.left.column == 1;  // rows are read as they are
            Real* a = direct ? nullptr : scratch.get(std::size_t(height) * inner_block);
            const Real* panels = term.packed;
            for (int k0 = 0; k0 < term.inner; k0 += inner_block, begin = Start::itself) {
                const int depth = std::min(inner_block, term.inner - k0);
                const Matrix<const Real> left = term.left.from_row(r0).from_column(k0);
                if (!direct) pack_left<Real>(left, height, depth, a);
                for (int c = 0; c < columns; c += N, panels += std::size_t(depth) * N) {
                    const int breadth = std::min(N, columns - c);
                    const Real* here = bias ? bias + c : nullptr;
                    if (direct) {
                        multiply_packed<Real>(height, breadth, depth, left.data, left.row, 1, panels, to + c, out_row, begin, here);
                        continue;
                    }
                    for (int r = 0; r < height; r += M) {
                        const int count = std::min(M, height - r);
                        multiply_packed<Real>(count, breadth, depth, a + std::size_t(r) * depth, 1, count, panels,
                                              to + r * out_row + c, out_row, begin, here);
                    }
                }
            }
        }
    }
};

// Some products, none of which reads what another writes
template <class Real> static void compute_all(std::vector<Product<Real>> products, int threads) {
    using Term = typename Product<Real>::Term;
    // right sides are packed once, block by block of their inner dimension, also if several products share them
    struct Packed {
        Right<const Real> right;
        int inner, columns;
        std::size_t offset;
    };
    std::vector<Packed> packed;
    std::vector<std::pair<Term*, std::size_t>> uses;
    std::size_t size = 0;
    for (Product<Real>& product : products)
        for (Term& term : product.terms) {
            std::size_t k = 0;
            while (k < packed.size() &&
                   !(packed[k].right == term.right && packed[k].inner == term.inner && packed[k].columns == product.columns))
                ++k;
            if (k == packed.size()) {
                packed.push_back({term.right, term.inner, product.columns, size});
                size += packed_size<Real>(product.columns, term.inner);
            }
            uses.push_back({&term, k});
        }
    const Memory memory(size * sizeof(Real));
    Real* base = static_cast<Real*>(memory.data);
    std::vector<std::pair<const Packed*, int>> parts;
    for (const Packed& p : packed)
        for (int k0 = 0; k0 < p.inner; k0 += Product<Real>::inner_block) parts.push_back({&p, k0});
    auto pack = [&](int k) {
        const auto& [p, k0] = parts[k];
        const int depth = std::min(Product<Real>::inner_block, p->inner - k0);
        pack_right<Real>(p->right.from_row(k0), depth, p->columns, base + p->offset + packed_size<Real>(p->columns, k0));
    };
    in_parallel(int(parts.size()), threads, pack);
    for (auto& [term, k] : uses) term->packed = base + packed[k].offset;
    std::vector<std::pair<const Product<Real>*, int>> blocks;
    for (const Product<Real>& product : products)
        for (int block = 0; block < product.blocks(threads); ++block) blocks.push_back({&product, block});
    auto compute = [&](int k) { blocks[k].first->compute(blocks[k].second, threads); };
    in_parallel(int(blocks.size()), threads, compute);
}

// The same for products of one term with a long inner dimension: stretch by stretch, so that what was laid out is still in the
// cache when it is used
template <class Real> static void compute_tall(const std::vector<Product<Real>>& products, int threads) {
    const int stretch = (threads > 1 ? 4 : 1) * Product<Real>::inner_block,
              inner = products.empty() ? 0 : products[0].terms[0].inner;
    for (int k = 0; k < inner; k += stretch) {
        std::vector<Product<Real>> parts = products;
        for (Product<Real>& part : parts) {
            auto& term = part.terms[0];
            term = {term.left.from_column(k), term.right.from_row(k), std::min(stretch, inner - k)};
            if (k > 0) part.start = Start::itself;
        }
        compute_all<Real>(std::move(parts), threads);
    }
}
