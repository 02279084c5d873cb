// Everything that comes from Python is checked here, once: a program before its first run, a call before it begins. What is
// wrong is an invalid_argument (ValueError) that says so; the kernels then read memory without asking again.
#include "check.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace gatel0rd {

namespace {

using std::to_string;

[[noreturn]] void refuse(const std::string& message) { throw std::invalid_argument(message); }

const std::int64_t most_rows = std::int64_t(1) << 24, most_noise = 16380;

// One section: operands exist, have the right sizes, and are filled before they are used
struct SectionCheck {
    const Program& program;
    const Section& section;
    bool is_body;
    std::vector<char> written;

    SectionCheck(const Program& p, const Section& s) : program(p), section(s), is_body(&s == &p.body), written(s.rows) {}

    std::string name() const { return is_body ? "body" : "prologue"; }
    int size(int value) const { return section.values[value].size; }

    void value(int value, const char* what) const {
        if (value < 0 || value >= int(section.values.size()))
            refuse(std::string(what) + " is value " + to_string(value) + " of the " + name() + ", which has " +
                   to_string(section.values.size()));
    }
    void write(int v, const char* what) {
        value(v, what);
        for (int row = 0; row < size(v); ++row) {
            char& here = written[section.values[v].offset + row];
            if (here) refuse(std::string(what) + ", value " + to_string(v) + " of the " + name() + ", is filled twice");
            here = 1;
        }
    }
    void read(int v, const char* what) const {
        value(v, what);
        if (!is_body) return;  // there, what nothing fills is zero
        for (int row = 0; row < size(v); ++row)
            if (!written[section.values[v].offset + row])
                refuse(std::string(what) + ", value " + to_string(v) + " of the body, is used before it is filled");
    }
    void same(int v, int wanted, const char* what) const {
        if (size(v) != wanted) refuse(std::string(what) + " has " + to_string(size(v)) + " rows; expected " + to_string(wanted));
    }
    void row_or_same(int v, int wanted, const char* what) const {
        if (size(v) != 1) same(v, wanted, what);
    }
    void parameter(int number, std::int64_t first, std::int64_t last, const char* what) const {
        if (number < 0 || number >= int(program.parameter_sizes.size()))
            refuse(std::string(what) + " is parameter " + to_string(number) + " of " + to_string(program.parameter_sizes.size()));
        if (first < 0 || last > program.parameter_sizes[number])
            refuse(std::string(what) + " takes the elements " + to_string(first) + " to " + to_string(last) + " of parameter " +
                   to_string(number) + ", which has " + to_string(program.parameter_sizes[number]));
    }

    // as far as numbers can be added without leaving 64 bits; no parameter is that large
    static std::int64_t bounded(std::int64_t number) {
        constexpr std::int64_t most = std::int64_t(1) << 36;
        return std::max<std::int64_t>(-1, std::min(number, most));
    }

    void linear(const Instruction& i) {
        value(i.dst, "the result");
        const std::int64_t rows = size(i.dst);
        for (const Term& term : i.terms) {
            read(term.input, "an input");
            if (term.stride < size(term.input)) refuse("the rows of a weight matrix overlap");
            const std::int64_t start = bounded(term.start), stride = bounded(term.stride);
            parameter(term.parameter, start, start + (rows - 1) * stride + size(term.input), "a weight matrix");
        }
        for (const Bias& bias : i.biases) parameter(bias.parameter, bounded(bias.start), bounded(bias.start) + rows, "a bias");
        if (i.a >= 0) read(i.a, "the addend"), same(i.a, int(rows), "the addend");
    }

    void instruction(const Instruction& i) {
        if (int(i.op) < 0 || i.op > Op::sum_squares) refuse("there is no operation " + to_string(int(i.op)));
        if (int(i.act) < 0 || i.act > Act::relu) refuse("there is no activation " + to_string(int(i.act)));
        const bool is_loss = i.op >= Op::squared_error;
        if (is_loss) {
            read(i.a, "the operand of a loss");
            if (i.op == Op::squared_error) read(i.b, "the target of a loss"), same(i.b, size(i.a), "the target of a loss");
            if (i.dst >= 0) refuse("a loss has no result");
            if (i.slot < 0 || i.slot >= program.loss_slots)
                refuse("a loss has slot " + to_string(i.slot) + " of " + to_string(program.loss_slots));
            return;
        }
        value(i.dst, "the result");
        const int rows = size(i.dst);
        switch (i.op) {
            case Op::linear: linear(i); break;
            case Op::add:
            case Op::maximum:
            case Op::axpy:
                for (int operand : {i.a, i.b}) read(operand, "an operand"), same(operand, rows, "an operand");
                break;
            case Op::multiply:
            case Op::clear:
                read(i.a, "an operand"), same(i.a, rows, "an operand");
                read(i.b, "the factor or mask"), row_or_same(i.b, rows, "the factor or mask");
                break;
            case Op::blend:
            case Op::select:
                read(i.a, "the gate"), row_or_same(i.a, rows, "the gate");
                for (int operand : {i.b, i.c}) read(operand, "an operand"), same(operand, rows, "an operand");
                break;
            case Op::activate: read(i.a, "an operand"), same(i.a, rows, "an operand"); break;
            case Op::due:
                read(i.a, "the clock"), same(i.a, 1, "the clock");
                if (int(i.periods.size()) != rows)
                    refuse(to_string(i.periods.size()) + " periods were given for " + to_string(rows) + " units");
                for (int period : i.periods)
                    if (period < 1) refuse("a period is " + to_string(period) + "; expected at least 1");
                break;
            case Op::tick:
                read(i.a, "the clock"), same(i.a, rows, "the clock");
                if (!(i.scalar >= 1)) refuse("the period of a clock is below 1");
                break;
            case Op::normal:
                if (rows > most_noise)
                    refuse("noise has " + to_string(rows) + " features; there is room for " + to_string(most_noise));
                if (i.slot < 0) refuse("noise has no stream");
                break;
            case Op::bernoulli:
                same(i.dst, 1, "a mask");
                if (i.slot < 0) refuse("a mask has no stream");
                break;
            default: break;
        }
        write(i.dst, "the result");
    }
};

void check_views(const std::vector<Strided>& views, std::size_t count, const char* what) {
    if (views.size() != count) refuse(to_string(views.size()) + " " + what + " were given; expected " + to_string(count));
}

// one tensor of the caller: [.., batch, size], and with time at least first .. last
void check_extent(const Strided& view, int size, std::int64_t batch, std::int64_t last, const char* what) {
    if (!view.data && batch > 0 && size > 0) refuse(std::string(what) + " has no memory");
    if (view.features != size)
        refuse(std::string(what) + " has " + to_string(view.features) + " features; expected " + to_string(size));
    if (view.entries < batch)
        refuse(std::string(what) + " has a batch of " + to_string(view.entries) + "; expected " + to_string(batch));
    if (view.steps < last)
        refuse(std::string(what) + " has " + to_string(view.steps) + " time steps; expected at least " + to_string(last));
}

}  // namespace

void check_program(const Program& p) {
    if (p.loss_slots < 0 || p.loss_slots > 1000) refuse("there are " + to_string(p.loss_slots) + " losses; expected 0 to 1000");
    for (const Section* section : {&p.prologue, &p.body}) {
        if (section->rows > most_rows)
            refuse("a section has " + to_string(section->rows) + " rows; expected at most " + to_string(most_rows));
    }
    SectionCheck prologue(p, p.prologue), body(p, p.body);
    for (const Load& load : p.initial_loads) {
        prologue.write(load.value, "what is read first");
        if (load.tensor < 0 || load.time < -1)
            refuse("an initial load names tensor " + to_string(load.tensor) + " at time " + to_string(load.time));
    }
    for (const Instruction& i : p.prologue.instructions) prologue.instruction(i);
    for (const State& state : p.states) {
        prologue.value(state.initial, "an initial state");
        body.write(state.in, "a state");
        body.same(state.in, prologue.size(state.initial), "a state");
    }
    for (const Load& load : p.sequence_loads) {
        body.write(load.value, "what is read at a step");
        if (load.tensor < 0 || load.time < 0)
            refuse("a load names tensor " + to_string(load.tensor) + " at shift " + to_string(load.time));
    }
    for (const Instruction& i : p.body.instructions) body.instruction(i);
    for (const State& state : p.states) {
        body.read(state.out, "a next state");
        body.same(state.out, body.size(state.in), "a next state");
    }
    for (int value : p.outputs) body.read(value, "an output");
    for (int value : p.finals) body.read(value, "a final value");
}

void check_run(const Program& p, const Run& run, const std::vector<std::int64_t>& parameter_sizes) {
    if (run.steps < 1) refuse("there are " + to_string(run.steps) + " time steps; expected at least 1");
    if (run.batch < 1) refuse("the batch has " + to_string(run.batch) + " entries; expected at least 1");
    if (run.threads < 1) refuse("there are " + to_string(run.threads) + " threads; expected at least 1");
    if (parameter_sizes.size() != p.parameter_sizes.size())
        refuse(to_string(parameter_sizes.size()) + " parameters were given; expected " + to_string(p.parameter_sizes.size()));
    for (std::size_t k = 0; k < parameter_sizes.size(); ++k)
        if (parameter_sizes[k] != p.parameter_sizes[k] || (!run.parameters[k] && parameter_sizes[k]))
            refuse("parameter " + to_string(k) + " has " + to_string(parameter_sizes[k]) + " elements; expected " +
                   to_string(p.parameter_sizes[k]));
    if (!run.masks.empty() && run.masks.size() != p.parameter_sizes.size())
        refuse(to_string(run.masks.size()) + " masks were given; expected " + to_string(p.parameter_sizes.size()));
    for (const Load& load : p.initial_loads) {
        const bool timed = load.time >= 0;
        const auto& tensors = timed ? run.sequences : run.initials;
        if (std::size_t(load.tensor) >= tensors.size()) refuse("tensor " + to_string(load.tensor) + " was not given");
        const int size = p.prologue.values[load.value].size;
        const std::int64_t entries = timed && run.index ? 0 : run.batch;
        check_extent(tensors[load.tensor], size, entries, timed ? std::int64_t(load.time) + 1 : 0,
                     timed ? "a sequence" : "an initial state");
    }
    for (const Load& load : p.sequence_loads) {
        if (std::size_t(load.tensor) >= run.sequences.size()) refuse("sequence " + to_string(load.tensor) + " was not given");
        const std::int64_t entries = run.index ? 0 : run.batch;
        check_extent(run.sequences[load.tensor], p.body.values[load.value].size, entries, std::int64_t(run.steps) + load.time,
                     "a sequence");
    }
    if (run.index)
        for (const Strided& sequence : run.sequences)
            for (int b = 0; b < run.batch; ++b)
                if (run.index[b] < 0 || run.index[b] >= sequence.entries)
                    refuse("the batch names sequence " + to_string(run.index[b]) + " of " + to_string(sequence.entries));
}

void check_outputs(const Program& p, const Run& run) {
    check_views(run.outputs, p.outputs.size(), "outputs");
    check_views(run.finals, p.finals.size(), "final values");
    for (std::size_t k = 0; k < p.outputs.size(); ++k)
        if (run.outputs[k].data) check_extent(run.outputs[k], p.body.values[p.outputs[k]].size, run.batch, run.steps, "an output");
    for (std::size_t k = 0; k < p.finals.size(); ++k)
        if (run.finals[k].data) check_extent(run.finals[k], p.body.values[p.finals[k]].size, run.batch, 0, "a final value");
}

void check_gradients(const Program& p, const Run& run, const Gradients& g) {
    check_views(g.outputs, p.outputs.size(), "gradients of outputs");
    check_views(g.finals, p.finals.size(), "gradients of final values");
    check_views(g.sequences, run.sequences.size(), "gradients of sequences");
    check_views(g.initials, run.initials.size(), "gradients of initial states");
    for (std::size_t k = 0; k < p.outputs.size(); ++k)
        if (g.outputs[k].data)
            check_extent(g.outputs[k], p.body.values[p.outputs[k]].size, run.batch, run.steps, "the gradient of an output");
    for (std::size_t k = 0; k < p.finals.size(); ++k)
        if (g.finals[k].data)
            check_extent(g.finals[k], p.body.values[p.finals[k]].size, run.batch, 0, "the gradient of a final value");
    for (std::size_t k = 0; k < run.sequences.size(); ++k)
        if (g.sequences[k].data)
            check_extent(g.sequences[k], int(run.sequences[k].features), run.sequences[k].entries, run.sequences[k].steps,
                         "the gradient of a sequence");
    for (std::size_t k = 0; k < run.initials.size(); ++k)
        if (g.initials[k].data)
            check_extent(g.initials[k], int(run.initials[k].features), run.batch, 0, "the gradient of an initial state");
}

void check_training(const Program& p, const Run& run) {
    if (int(run.loss_weights.size()) != p.loss_slots)
        refuse(to_string(run.loss_weights.size()) + " weights of losses were given; expected " + to_string(p.loss_slots));
    if (!(run.probability >= 0 && run.probability <= 1)) refuse("the probability is not between 0 and 1");
}

Layer make_layer(const std::array<std::int64_t, 5>& sizes, int threads, int act,
                 const std::array<std::array<FlatTensor, 4>, 4>& networks, const LayerTensors& tensors, bool backward) {
    const auto [T, B, I, H, O] = sizes;
    constexpr std::int64_t most = std::int64_t(1) << 31;
    for (std::int64_t size : {T, B, I, H, O})
        if (size < 1 || size >= most) refuse("a layer has a size of " + to_string(size) + "; expected at least 1");
    if (T >= most / B) refuse("a layer has " + to_string(T) + " steps of " + to_string(B) + " entries, which is too many");
    if (threads < 1) refuse("there are " + to_string(threads) + " threads; expected at least 1");
    Layer layer;
    layer.steps = int(T), layer.batch = int(B), layer.inputs = int(I), layer.hidden = int(H), layer.outputs = int(O),
    layer.threads = threads;
    layer.act = Act(act);
    if (layer.act != Act::retanh && layer.act != Act::sigmoid && layer.act != Act::heaviside)
        refuse("a gate has another activation than a gate's");

    auto get = [&](const char* name, std::int64_t count, bool needed) -> void* {
        const auto found = tensors.find(name);
        if (found == tensors.end() || !found->second.data) {
            if (needed) refuse(std::string(name) + " is missing");
            return nullptr;
        }
        if (found->second.count != count)
            refuse(std::string(name) + " has " + to_string(found->second.count) + " elements; expected " + to_string(count));
        return found->second.data;
    };
    Affine* members[] = {&layer.gate, &layer.recommend, &layer.output, &layer.output_gate};
    for (int k = 0; k < 4; ++k) {
        const std::int64_t rows = k < 2 ? H : O, expected[] = {rows * (I + H), rows, rows * (I + H), rows};
        for (int n = 0; n < 4; ++n)
            if (networks[k][n].data && networks[k][n].count != expected[n])
                refuse("a weight of a layer has " + to_string(networks[k][n].count) + " elements; expected " +
                       to_string(expected[n]));
        if (k < 3 && !networks[k][0].data) refuse("a layer has no weights");
        *members[k] = {networks[k][0].data, networks[k][1].data, networks[k][2].data, networks[k][3].data};
    }
    const bool gated = layer.output_gate.weight != nullptr;
    const std::int64_t all = T * B;
    layer.x = get("x", all * I, true);
    layer.noise = get("noise", all * H, false);
    layer.resets = static_cast<const std::uint8_t*>(get("resets", all, false));
    layer.active = static_cast<const std::uint8_t*>(get("active", all, false));
    layer.states = get("states", (T + 1) * B * H, true);
    layer.before = layer.resets ? get("before", all * H, true) : layer.states;
    layer.fresh = get("fresh", all * H, true);
    layer.gates = get("gates", all * H, true);
    layer.recommended = get("recommended", all * H, true);
    layer.read = get("read", all * O, true);
    layer.read_gate = get("read_gate", all * O, gated);
    layer.result = get("result", all * O, !backward);
    if (backward) {
        layer.d_result = get("d_result", all * O, false);
        layer.d_states = get("d_states", all * H, false);
        layer.d_gates = get("d_gates", all * H, false);
        layer.d_x = get("d_x", all * I, false);
        layer.d_noise = get("d_noise", all * H, false);
        layer.d_first = get("d_first", B * H, true);
    }
    return layer;
}

}  // namespace gatel0rd
