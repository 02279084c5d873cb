// A gated layer over time: see Layer in program.hpp. Included once per instruction set, inside that set's namespace.

template <class Real> GATEL0RD_INLINE V<Real> load_part(const Real* p, int count) {
    V<Real> v{};
    __builtin_memcpy(&v, p, count == width<Real> ? sizeof v : std::size_t(count) * sizeof(Real));
    return v;
}
template <class Real> GATEL0RD_INLINE void store_part(Real* p, V<Real> v, int count) {
    __builtin_memcpy(p, &v, count == width<Real> ? sizeof v : std::size_t(count) * sizeof(Real));
}

// work(place, count) for vectors of some contiguous numbers; count is known to be a whole vector but for the last
template <class Real, class F> GATEL0RD_INLINE void each_vector(std::size_t size, F work) {
    constexpr int W = width<Real>;
    std::size_t k = 0;
    for (; k + W <= size; k += W) work(k, std::integral_constant<int, W>());
    if (k < size) work(k, int(size - k));
}

template <class Real> struct GatedLayer {
    const Layer& layer;
    const int T, B, I, H, O;
    const std::size_t width_in;  // of a weight matrix
    const bool gated;            // whether there is an output gate

    explicit GatedLayer(const Layer& l)
        : layer(l),
          T(l.steps),
          B(l.batch),
          I(l.inputs),
          H(l.hidden),
          O(l.outputs),
          width_in(std::size_t(l.inputs) + l.hidden),
          gated(l.output_gate.weight != nullptr) {}

    static Real* real(void* p) { return static_cast<Real*>(p); }
    static const Real* real(const void* p) { return static_cast<const Real*>(p); }
    int all() const { return T * B; }

    // the columns of a weight matrix that belong to the input, or to the state, as [columns, rows]
    Matrix<const Real> from_input(const Affine& a) const { return {real(a.weight), 1, std::ptrdiff_t(width_in)}; }
    Matrix<const Real> from_state(const Affine& a) const { return {real(a.weight) + I, 1, std::ptrdiff_t(width_in)}; }
    static Matrix<const Real> rows_of(const void* p, int columns) { return {real(p), columns, 1}; }

    // batch entries that run through time together: the more, the more often a weight is used once it was fetched
    int together() const { return H >= 512 ? 72 : 24; }
    template <class F> void for_entries(F work) const {
        auto block = [&](int k) { work(k * together(), std::min(together(), B - k * together())); };
        in_parallel((B + together() - 1) / together(), layer.threads, block);
    }
    // the same for all numbers of a tensor, in stretches
    template <class F> void for_stretches(std::size_t size, F work) const {
        constexpr std::size_t stretch = 1 << 14;
        auto block = [&](int k) { work(k * stretch, std::min(stretch, size - k * stretch)); };
        in_parallel(int((size + stretch - 1) / stretch), layer.threads, block);
    }

    // ---- forward ----

    Product<Real> project(const Affine& a, int rows, void* out) const {
        const Start start = a.bias ? Start::bias : Start::zero;
        return {all(), rows, {{rows_of(layer.x, I), from_input(a), I}}, real(out), rows, start, real(a.bias)};
    }
    Product<Real> read_state(const Affine& a, void* out) const {
        return {all(), O, {{rows_of(layer.fresh, H), from_state(a), H}}, real(out), O, Start::itself, nullptr};
    }

    void forward() const {
        std::vector<Product<Real>> inputs{project(layer.gate, H, layer.gates), project(layer.recommend, H, layer.recommended),
                                          project(layer.output, O, layer.read)};
        if (gated) inputs.push_back(project(layer.output_gate, O, layer.read_gate));
        compute_all<Real>(inputs, layer.threads);

        const Memory weights(2 * packed_size<Real>(H, H) * sizeof(Real));
        Real* gate = static_cast<Real*>(weights.data);
        Real* recommend = gate + packed_size<Real>(H, H);
        pack_right<Real>(from_state(layer.gate), H, H, gate);
        pack_right<Real>(from_state(layer.recommend), H, H, recommend);
        for_entries([&](int first, int count) { recur(first, count, gate, recommend); });

        std::vector<Product<Real>> states{read_state(layer.output, layer.read)};
        if (gated) states.push_back(read_state(layer.output_gate, layer.read_gate));
        compute_all<Real>(states, layer.threads);
        for_stretches(std::size_t(all()) * O, [&](std::size_t first, std::size_t size) {
            Real *p = real(layer.read) + first, *o = real(layer.read_gate) + first, *y = real(layer.result) + first;
            each_vector<Real>(size, [&](std::size_t k, auto n) {
                const V<Real> left = tanh_of(load_part(p + k, n));
                store_part(p + k, left, n);
                if (!gated) return;
                const V<Real> right = sigmoid_of<Real>(load_part(o + k, n));
                store_part(o + k, right, n);
                store_part(y + k, left * right, n);
            });
        });
    }

    template <Act act> void take_step(std::size_t at, std::size_t size, const Real* before, Real* fresh) const {
        Real *g = real(layer.gates) + at, *r = real(layer.recommended) + at;
        const Real* noise = layer.noise ? real(layer.noise) + at : nullptr;
        each_vector<Real>(size, [&](std::size_t k, auto n) {
            V<Real> s = load_part(g + k, n);
            if (noise) s += load_part(noise + k, n);
            const V<Real> gate = activated<Real, act>(s), right = tanh_of(load_part(r + k, n));
            store_part(g + k, gate, n);
            store_part(r + k, right, n);
            store_part(fresh + k, gate * right + (Real(1) - gate) * load_part(before + k, n), n);
        });
    }

    void recur(int first, int count, const Real* gate, const Real* recommend) const {
        const std::size_t size = std::size_t(count) * H;
        for (int t = 0; t < T; ++t) {
            const std::size_t at = (std::size_t(t) * B + first) * H, next = at + std::size_t(B) * H;
            const Real* before = real(layer.states) + at;
            if (layer.resets) {
                Real* to = real(layer.before) + at;
                for (int b = 0; b < count; ++b)
                    if (layer.resets[std::size_t(t) * B + first + b])
                        std::fill_n(to + std::size_t(b) * H, H, Real(0));
                    else
                        std::copy_n(before + std::size_t(b) * H, H, to + std::size_t(b) * H);
                before = to;
            }
            multiply_packed<Real>(count, H, H, before, H, 1, gate, real(layer.gates) + at, H, Start::itself, nullptr);
            multiply_packed<Real>(count, H, H, before, H, 1, recommend, real(layer.recommended) + at, H, Start::itself, nullptr);
            Real* fresh = layer.active ? real(layer.fresh) + at : real(layer.states) + next;
            if (layer.act == Act::retanh) take_step<Act::retanh>(at, size, before, fresh);
            if (layer.act == Act::sigmoid) take_step<Act::sigmoid>(at, size, before, fresh);
            if (layer.act == Act::heaviside) take_step<Act::heaviside>(at, size, before, fresh);
            if (layer.active)
                for (int b = 0; b < count; ++b) {
                    const bool goes_on = layer.active[std::size_t(t) * B + first + b];
                    std::copy_n((goes_on ? fresh : before) + std::size_t(b) * H, H, real(layer.states) + next + std::size_t(b) * H);
                }
        }
    }

    // ---- backward ----

    void backward() const {
        const std::size_t states = std::size_t(all()) * H, results = std::size_t(all()) * O;
        const bool reads = layer.d_result != nullptr;
        const Memory memory((3 * states + (reads ? (gated ? 2 : 1) * results : 0)) * sizeof(Real));
        Real* d_recommend = static_cast<Real*>(memory.data);
        Real *d_fresh = d_recommend + states, *d_read = d_fresh + states, *d_read_gate = d_read + results;
        Real* d_gate = layer.d_noise ? real(layer.d_noise) : d_fresh + (reads ? (gated ? 2 : 1) * results : 0) + states;
        if (reads) {
            for_stretches(results, [&](std::size_t first, std::size_t size) {
                const Real *p = real(layer.read) + first, *o = real(layer.read_gate) + first, *dy = real(layer.d_result) + first;
                each_vector<Real>(size, [&](std::size_t k, auto n) {
                    const V<Real> left = load_part(p + k, n), d = load_part(dy + k, n);
                    if (!gated) return store_part(d_read + first + k, d * (Real(1) - left * left), n);
                    const V<Real> right = load_part(o + k, n);
                    store_part(d_read + first + k, d * right * (Real(1) - left * left), n);
                    store_part(d_read_gate + first + k, d * left * right * (Real(1) - right), n);
                });
            });
            Product<Real> back{all(), H, {{rows_of(d_read, O), from_state(layer.output).transposed(), O}}, d_fresh, H};
            if (gated) back.terms.push_back({rows_of(d_read_gate, O), from_state(layer.output_gate).transposed(), O});
            compute_all<Real>({back}, layer.threads);
        }
        const Memory weights(2 * packed_size<Real>(H, H) * sizeof(Real));
        Real* gate = static_cast<Real*>(weights.data);
        Real* recommend = gate + packed_size<Real>(H, H);
        pack_right<Real>(from_state(layer.gate).transposed(), H, H, gate);
        pack_right<Real>(from_state(layer.recommend).transposed(), H, H, recommend);
        for_entries([&](int first, int count) {
            recur_backward(first, count, gate, recommend, reads ? d_fresh : nullptr, d_gate, d_recommend);
        });

        std::vector<Product<Real>> products;
        auto weights_of = [&](const Affine& a, const Real* d, int rows, const void* state) {
            if (!a.weight_gradient) return;
            const Right<const Real> right(rows_of(layer.x, I), I, rows_of(state, H));
            const std::ptrdiff_t columns = std::ptrdiff_t(width_in);
            products.push_back(
                {rows, int(columns), {{rows_of(d, rows).transposed(), right, all()}}, real(a.weight_gradient), columns});
        };
        weights_of(layer.gate, d_gate, H, layer.before);
        weights_of(layer.recommend, d_recommend, H, layer.before);
        if (reads) {
            weights_of(layer.output, d_read, O, layer.fresh);
            if (gated) weights_of(layer.output_gate, d_read_gate, O, layer.fresh);
        }
        compute_tall<Real>(products, layer.threads);
        if (layer.d_x) {
            Product<Real> to_x{all(), I, {{rows_of(d_gate, H), from_input(layer.gate).transposed(), H}}, real(layer.d_x), I};
            to_x.terms.push_back({rows_of(d_recommend, H), from_input(layer.recommend).transposed(), H});
            if (reads) to_x.terms.push_back({rows_of(d_read, O), from_input(layer.output).transposed(), O});
            if (reads && gated) to_x.terms.push_back({rows_of(d_read_gate, O), from_input(layer.output_gate).transposed(), O});
            compute_all<Real>({to_x}, layer.threads);
        }
        sum_steps(d_gate, H, layer.gate);
        sum_steps(d_recommend, H, layer.recommend);
        if (reads) sum_steps(d_read, O, layer.output);
        if (reads && gated) sum_steps(d_read_gate, O, layer.output_gate);
    }

    void sum_steps(const Real* d, int columns, const Affine& a) const {
        if (!a.bias_gradient) return;
        Real* sum = real(a.bias_gradient);
        std::fill_n(sum, columns, Real(0));
        for (int row = 0; row < all(); ++row, d += columns)
            each_vector<Real>(columns,
                              [&](std::size_t k, auto n) { store_part(sum + k, load_part(sum + k, n) + load_part(d + k, n), n); });
    }

    void recur_backward(int first, int count, const Real* gate, const Real* recommend, const Real* d_fresh, Real* d_gate,
                        Real* d_recommend) const {
        const std::size_t size = std::size_t(count) * H, start = std::size_t(first) * H;
        Real* carry = real(layer.d_first) + start;  // the gradient of the state, from the last step to the first
        std::fill_n(carry, size, Real(0));
        std::vector<Real> held(layer.active ? size : 0);
        for (int t = T - 1; t >= 0; --t) {
            const std::size_t at = std::size_t(t) * B * H + start;
            if (layer.d_states)
                each_vector<Real>(size, [&](std::size_t k, auto n) {
                    store_part(carry + k, load_part(carry + k, n) + load_part(real(layer.d_states) + at + k, n), n);
                });
            if (layer.active)
                for (int b = 0; b < count; ++b) {
                    Real *own = carry + std::size_t(b) * H, *kept = held.data() + std::size_t(b) * H;
                    if (layer.active[std::size_t(t) * B + first + b]) {
                        std::fill_n(kept, H, Real(0));
                    } else {
                        std::copy_n(own, H, kept);
                        std::fill_n(own, H, Real(0));
                    }
                }
            const Real *g = real(layer.gates) + at, *r = real(layer.recommended) + at, *h = real(layer.before) + at;
            const Real* given = layer.d_gates ? real(layer.d_gates) + at : nullptr;
            const Real* read = d_fresh ? d_fresh + at : nullptr;
            each_vector<Real>(size, [&](std::size_t k, auto n) {
                V<Real> d = load_part(carry + k, n);
                if (read) d += load_part(read + k, n);
                const V<Real> open = load_part(g + k, n), right = load_part(r + k, n);
                V<Real> to_gate = d * (right - load_part(h + k, n));
                if (given) to_gate += load_part(given + k, n);
                store_part(d_gate + at + k, to_gate * derivative<Real>(layer.act, open), n);
                store_part(d_recommend + at + k, d * open * (Real(1) - right * right), n);
                store_part(carry + k, d * (Real(1) - open), n);
            });
            multiply_packed<Real>(count, H, H, d_gate + at, H, 1, gate, carry, H, Start::itself, nullptr);
            multiply_packed<Real>(count, H, H, d_recommend + at, H, 1, recommend, carry, H, Start::itself, nullptr);
            if (layer.active)
                each_vector<Real>(size, [&](std::size_t k, auto n) {
                    store_part(carry + k, load_part(carry + k, n) + load_part(held.data() + k, n), n);
                });
            if (layer.resets)
                for (int b = 0; b < count; ++b)
                    if (layer.resets[std::size_t(t) * B + first + b]) std::fill_n(carry + std::size_t(b) * H, H, Real(0));
        }
    }
};

template <class Real> static void layer_forward(const Layer& layer) { GatedLayer<Real>(layer).forward(); }
template <class Real> static void layer_backward(const Layer& layer) { GatedLayer<Real>(layer).backward(); }
