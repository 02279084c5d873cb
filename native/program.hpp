// A recurrent model as a short program: values are groups of rows in a frame, instructions fill them.
// Nothing here depends on the instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "threads.hpp"

namespace gatel0rd {

// Operations and activations by name. Their numbers exist here only: Python asks for them by name.
// clang-format off
#define GATEL0RD_OPS(X)                                                                                              \
    X(linear)        /* dst = act(sum of W·input + sum of biases + a) */                                             \
    X(add)           /* dst = act(a + b) */                                                                          \
    X(multiply)      /* dst = a * b */                                                                               \
    X(maximum)       /* dst = the larger of a and b; of equals a gets the gradient */                                \
    X(blend)         /* dst = a * b + (1 - a) * c */                                                                 \
    X(select)        /* dst = b where a is not 0, else c: unlike blend it never looks at the other one */            \
    X(axpy)          /* dst = a + scalar * b */                                                                      \
    X(activate)      /* dst = act(a) */                                                                              \
    X(clear)         /* dst = a where b is 0, else 0 */                                                              \
    X(due)           /* dst = 1 where the clock a is a multiple of the unit's period, else 0; no gradient */         \
    X(tick)          /* dst = (a + 1) mod scalar; no gradient */                                                     \
    X(normal)        /* dst = scalar * standard normal numbers of the run's stream; no gradient */                   \
    X(bernoulli)     /* dst = 1 with the run's probability (always before step scalar), else 0; no gradient */       \
    X(squared_error) /* loss[slot] += sum (a - b)^2 */                                                               \
    X(count_open)    /* loss[slot] += number of a > 0, gradient straight through */                                  \
    X(sum_absolute)  /* loss[slot] += sum |a| */                                                                     \
    X(sum_squares)   /* loss[slot] += sum a^2 */

#define GATEL0RD_ACTIVATIONS(X) X(none) X(tanh) X(sigmoid) X(retanh) X(heaviside) X(relu)

#define GATEL0RD_ENUMERATOR(name) name,
#define GATEL0RD_NAME(name) #name,
enum class Op : int { GATEL0RD_OPS(GATEL0RD_ENUMERATOR) };
enum class Act : int { GATEL0RD_ACTIVATIONS(GATEL0RD_ENUMERATOR) };
constexpr const char* op_names[] = {GATEL0RD_OPS(GATEL0RD_NAME)};
constexpr const char* activation_names[] = {GATEL0RD_ACTIVATIONS(GATEL0RD_NAME)};
#undef GATEL0RD_ENUMERATOR
#undef GATEL0RD_NAME
// clang-format on

struct Value {
    int offset;  // first row in the frame
    int size;    // number of rows
};

// One product W·input of a linear instruction; W is a part of a parameter.
struct Term {
    int input;
    int parameter;
    std::int64_t start;   // element of the parameter where row 0, column 0 stands
    std::int64_t stride;  // elements from one row to the next
    int sum = -1;         // which of the section's weight sums its gradient is added to
};

struct Bias {
    int parameter;
    std::int64_t start;
    bool operator==(const Bias& o) const { return parameter == o.parameter && start == o.start; }
};

struct Instruction {
    Op op = Op::add;
    Act act = Act::none;
    int dst = -1, a = -1, b = -1, c = -1;
    double scalar = 0;
    int slot = -1;            // of a loss; of normal and bernoulli: which stream of random numbers
    int linear = -1;          // number of this linear instruction in its section
    int derivative_row = -1;  // where its d loss / d (W·input) is kept for the weight gradients
    int bias_sum = -1;        // which of the section's bias sums its gradient is added to
    std::vector<Term> terms;
    std::vector<Bias> biases;
    std::vector<int> periods;
};

// A value that is read from a tensor of the caller: of shape [B, size], or [T, B, size] at one time step.
struct Load {
    int value;
    int tensor;
    int time;  // -1: the tensor has no time dimension
};

struct State {
    int initial;  // prologue value
    int in;       // body value at the beginning of a step
    int out;      // body value at its end
};

// Gradients of one weight matrix, and of one sum of biases: instructions that use the same weights share them
struct WeightSum {
    int parameter;
    std::int64_t start, stride;
    int outputs, inputs;
    bool operator==(const WeightSum& o) const {
        return parameter == o.parameter && start == o.start && stride == o.stride && outputs == o.outputs && inputs == o.inputs;
    }
};
struct BiasSum {
    std::vector<Bias> biases;
    int outputs;
    bool operator==(const BiasSum& o) const { return biases == o.biases && outputs == o.outputs; }
};

struct Section {
    bool checked = false;  // nothing was added since the program was checked
    std::vector<WeightSum> weight_sums;
    std::vector<BiasSum> bias_sums;
    void number_sums();
    std::vector<Value> values;
    std::vector<Instruction> instructions;
    int rows = 0;
    int linears = 0;
    int derivative_rows = 0;
};

struct Program {
    Section prologue, body;
    std::vector<Load> initial_loads;   // into prologue values
    std::vector<Load> sequence_loads;  // into body values, at every step
    std::vector<State> states;
    std::vector<int> outputs;  // body values that are written at every step
    std::vector<int> finals;   // body values of which the last step is written
    std::vector<std::int64_t> parameter_sizes;
    std::vector<std::int64_t> parameter_offsets;  // in a flat buffer of all parameters
    std::int64_t parameter_total = 0;
    int loss_slots = 0;
    bool checked = false;

    // whether an instruction draws random numbers
    bool draws() const {
        for (const Section* section : {&prologue, &body})
            for (const Instruction& i : section->instructions)
                if (i.op == Op::normal || i.op == Op::bernoulli) return true;
        return false;
    }
};

// A tensor of the caller: its strides, and its sizes. time = 0 for tensors without a time dimension.
struct Strided {
    void* data = nullptr;
    std::ptrdiff_t time = 0, batch = 0, feature = 0;
    std::int64_t steps = 0, entries = 0, features = 0;
};

struct Run {
    int steps = 0, batch = 0, threads = 1;
    const std::int64_t* index = nullptr;  // batch entry -> entry of the sequence tensors; null: the same
    std::vector<Strided> initials, sequences, outputs, finals;
    std::vector<const void*> parameters;
    std::vector<const void*> masks;  // per parameter, null without a mask
    std::uint64_t seed = 0, counter = 0;
    double probability = 1;
    std::vector<double> loss_weights;  // gradient of the total with respect to each loss sum
};

// Where gradients come from and go to; null data means: not wanted (or zero).
struct Gradients {
    std::vector<Strided> outputs, finals;      // given
    std::vector<Strided> initials, sequences;  // wanted
    void* parameters = nullptr;                // flat, wanted
};

// Memory that comes from a pool and goes back to it
struct Memory {
    void* data = nullptr;
    std::size_t bytes = 0;
    Memory() = default;
    explicit Memory(std::size_t wanted) { reserve(wanted); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory();
    void reserve(std::size_t wanted);
};

// What a forward pass leaves for its backward pass, in blocks of lanes
struct Backend;
struct TapeLabel {
    const Backend* backend = nullptr;  // that wrote it, in its own layout
    const Program* program = nullptr;
    int steps = 0, batch = 0;
};
struct Tape {
    static constexpr std::size_t label_bytes = 64;
    TapeLabel label;
    void* data = nullptr;
    Tape() = default;
    // In memory of the caller's, which begins with room for the label
    Tape(void* memory, std::size_t bytes);
    void reserve(std::size_t bytes);
    void write_label(const TapeLabel& written);  // of a forward pass that has ended
    bool read_label(const TapeLabel& expected, std::size_t bytes);  // whether the caller's memory holds such a tape

  private:
    Memory own_;
    void* given_ = nullptr;
    std::size_t room_ = 0;
};

// A gated layer over time: project, recur, read out. Everything that does not depend on the state is computed for all time
// steps at once; only two products stay in the loop.
//     gates[t] = act(gate·[x[t], before[t]] + noise[t])          recommended[t] = tanh(recommend·[x[t], before[t]])
//     fresh[t] = gates[t]·recommended[t] + (1 - gates[t])·before[t]
//     outputs[t] = tanh(output·[x[t], fresh[t]])·sigmoid(output_gate·[x[t], fresh[t]])
// All tensors are contiguous: [steps, batch, features], weights [rows, inputs + hidden].
struct Affine {
    const void* weight = nullptr;
    const void* bias = nullptr;  // may be missing
    void* weight_gradient = nullptr;
    void* bias_gradient = nullptr;
};

struct Layer {
    int steps = 0, batch = 0, inputs = 0, hidden = 0, outputs = 0, threads = 1;
    Act act = Act::retanh;
    Affine gate, recommend, output, output_gate;  // output_gate.weight may be missing
    const void* x = nullptr;
    const void* noise = nullptr;           // may be missing
    const std::uint8_t* resets = nullptr;  // [steps, batch], may be missing: the state is 0 before such a step
    const std::uint8_t* active = nullptr;  // [steps, batch], may be missing: the state stays as it is at other steps
    void* states = nullptr;                // [steps + 1, batch, hidden]: the first is given
    void* before = nullptr;                // states that steps begin with; the same memory as states without resets
    void* fresh = nullptr;                 // states that steps make; the same memory as states + 1 where all are active
    void* gates = nullptr;                 // filled by forward, as are the next three
    void* recommended = nullptr;
    void* read = nullptr;       // tanh(output·…); the same memory as result without output gate
    void* read_gate = nullptr;  // sigmoid(output_gate·…)
    void* result = nullptr;
    // for backward; given gradients may be missing
    const void* d_result = nullptr;
    const void* d_states = nullptr;  // [steps, batch, hidden], of the states after each step
    const void* d_gates = nullptr;
    void* d_x = nullptr;      // wanted if not missing
    void* d_first = nullptr;  // [batch, hidden], always filled
    void* d_noise = nullptr;  // wanted if not missing
};

// The functions of one instruction set and precision.
struct Backend {
    bool wide;  // float64
    std::size_t (*tape_bytes)(const Program&, int steps, int batch);
    void (*forward)(const Program&, const Run&, Tape* tape);
    void (*backward)(const Program&, const Run&, const Gradients&, Tape&);
    // forward, loss and backward, block by block; fills the loss sums and the flat parameter gradient
    void (*train)(const Program&, const Run&, void* gradient, double* losses);
    // clip the gradient's norm, then Adam; returns the norm before clipping
    double (*adam)(void* parameters, const void* gradient, void* mean, void* square, std::size_t count, double rate, double beta1,
                   double beta2, double epsilon, double clip, std::int64_t step);
    // what normal and bernoulli give for one value: [T, B, size]
    void (*draw_normal)(void* out, int steps, int batch, int size, std::uint64_t seed, std::uint64_t counter, double scale);
    void (*draw_numbers)(void* out, std::size_t count, int threads, std::uint64_t seed, double scale);  // of no program
    void (*draw_bernoulli)(void* out, int steps, int batch, std::uint64_t seed, std::uint64_t counter, double probability);
    void (*activate)(int act, const void* in, void* out, std::size_t count);
    void (*layer_forward)(const Layer&);
    void (*layer_backward)(const Layer&);
};

const Backend& backend_baseline(bool wide);
#ifdef GATEL0RD_X86
const Backend& backend_avx2(bool wide);
const Backend& backend_avx2_narrow(bool wide);  // only for programs that draw no random numbers
const Backend& backend_avx512(bool wide);
const Backend& backend_avx512_broad(bool wide);  // rows of two vectors
#endif

}  // namespace gatel0rd
