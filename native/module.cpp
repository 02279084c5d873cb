// The Python binding. Pointers are checked and kept alive by gatel0rd.engine; nothing else calls these functions.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>

#include "check.hpp"
#include "program.hpp"

namespace nb = nanobind;
using namespace gatel0rd;

namespace {

using Address = std::uintptr_t;
// address; strides of time, batch and feature; time steps, entries of the batch, features
using View = std::tuple<Address, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
using Flat = std::pair<Address, std::int64_t>;  // address and number of elements of a contiguous tensor; 0 and 0: missing

std::string chosen;

const Backend& backend(bool wide) {
#ifdef GATEL0RD_X86
    if (chosen == "avx512") return backend_avx512(wide);
    if (chosen == "avx2") return backend_avx2(wide);
#endif
    return backend_baseline(wide);
}

// The backend for a batch: rows of half the size where the other half would be empty, and of two vectors for large batches with
// AVX-512, whose products are limited by loads of weights otherwise. It depends on sizes only, never on threads.
const Backend& backend_for(const Program& program, bool wide, int batch) {
#ifdef GATEL0RD_X86
    if (chosen != "baseline" && batch <= (wide ? 4 : 8) && !program.draws()) return backend_avx2_narrow(wide);
    if (chosen == "avx512" && batch >= (wide ? 32 : 64)) return backend_avx512_broad(wide);
#endif
    return backend(wide);
}

std::vector<std::string> available() {
    std::vector<std::string> names{"baseline"};
#ifdef GATEL0RD_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) names.push_back("avx2");
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) names.push_back("avx512");
#endif
    return names;
}

void use(const std::string& name) {
    for (const std::string& known : available())
        if (known == name) {
            chosen = name;
            return;
        }
    throw std::invalid_argument("this processor has no instruction set '" + name + "'");
}

void* pointer(Address address) { return reinterpret_cast<void*>(address); }

std::vector<Strided> views(const std::vector<View>& given) {
    std::vector<Strided> result;
    for (const auto& [address, time, batch, feature, steps, entries, features] : given)
        result.push_back({pointer(address), time, batch, feature, steps, entries, features});
    return result;
}

std::vector<const void*> pointers(const std::vector<Flat>& given) {
    std::vector<const void*> result;
    for (const Flat& flat : given) result.push_back(pointer(flat.first));
    return result;
}

// A call that was checked
Run make_run(Program& program, std::int64_t steps, std::int64_t batch, int threads, const Flat& index,
             const std::vector<View>& initials, const std::vector<View>& sequences, const std::vector<Flat>& parameters,
             const std::vector<Flat>& masks) {
    constexpr std::int64_t most = std::numeric_limits<int>::max();
    if (steps > most || batch > most) throw std::invalid_argument("there are too many time steps or batch entries");
    if (!program.checked || !program.prologue.checked || !program.body.checked) {
        check_program(program);
        program.prologue.number_sums(), program.body.number_sums();
        program.checked = program.prologue.checked = program.body.checked = true;
    }
    if (index.first && index.second != batch) throw std::invalid_argument("the index has another length than the batch");
    Run run;
    run.steps = int(steps), run.batch = int(batch), run.threads = threads;
    run.index = static_cast<const std::int64_t*>(pointer(index.first));
    run.initials = views(initials), run.sequences = views(sequences);
    run.parameters = pointers(parameters), run.masks = pointers(masks);
    std::vector<std::int64_t> sizes;
    for (const Flat& flat : parameters) sizes.push_back(flat.second);
    for (std::size_t k = 0; k < masks.size(); ++k)
        if (masks[k].first && (k >= sizes.size() || masks[k].second != sizes[k]))
            throw std::invalid_argument("a mask has another size than its parameter");
    check_run(program, run, sizes);
    return run;
}

enum Kind { forward_call, backward_call, train_call, layer_call, layer_backward_call, draw_call };

template <std::size_t count> nb::tuple names(const char* const (&given)[count]) {
    nb::list result;
    for (const char* name : given) result.append(name);
    return nb::tuple(result);
}

}  // namespace

NB_MODULE(_native, m) {
    nb::set_leak_warnings(false);  // a graph that lives until the interpreter ends is no leak
    chosen = available().back();
    m.attr("OPS") = names(op_names);
    m.attr("ACTIVATIONS") = names(activation_names);
    m.def("available", &available);
    m.def("use", &use);
    m.def("instruction_set", [] { return chosen; });

    nb::class_<Section>(m, "Section")
        .def("value",
             [](Section& s, std::int64_t size) {
                 if (size < 0 || size > (1 << 24) - s.rows)
                     throw std::invalid_argument("a value has " + std::to_string(size) + " rows; expected 0 to 2^24 in all");
                 s.values.push_back({s.rows, int(size)});
                 s.rows += int(size), s.checked = false;
                 return int(s.values.size()) - 1;
             })
        .def("view",
             [](Section& s, int of, std::int64_t start, std::int64_t size) {
                 if (of < 0 || of >= int(s.values.size()) || start < 0 || size < 1 || start > s.values[of].size ||
                     size > s.values[of].size - start)
                     throw std::invalid_argument("a view leaves its value");
                 s.values.push_back({s.values[of].offset + int(start), int(size)});
                 s.checked = false;
                 return int(s.values.size()) - 1;
             })
        .def("instruction", [](Section& s, int op, int act, int dst, int a, int b, int c, double scalar, int slot,
                               const std::vector<std::tuple<int, int, std::int64_t, std::int64_t>>& terms,
                               const std::vector<std::tuple<int, std::int64_t>>& biases, const std::vector<int>& periods) {
            if (op < 0 || op >= int(std::size(op_names)) || act < 0 || act >= int(std::size(activation_names)))
                throw std::invalid_argument("an instruction has an operation or an activation that does not exist");
            for (int operand : {dst, a, b, c})
                if (operand < -1 || operand >= int(s.values.size()))
                    throw std::invalid_argument("an instruction names a value that does not exist");
            Instruction i;
            i.op = Op(op), i.act = Act(act), i.dst = dst, i.a = a, i.b = b, i.c = c, i.scalar = scalar, i.slot = slot;
            for (const auto& [input, parameter, start, stride] : terms) i.terms.push_back({input, parameter, start, stride});
            for (const auto& [parameter, start] : biases) i.biases.push_back({parameter, start});
            i.periods = periods;
            if (i.op == Op::linear) {
                if (dst < 0) throw std::invalid_argument("a linear instruction has no result");
                i.linear = s.linears++;
                i.derivative_row = s.derivative_rows;
                s.derivative_rows += s.values[dst].size;
            }
            s.instructions.push_back(std::move(i));
            s.checked = false;
        });

    // a tensor of bytes whose memory goes back to the pool when nobody uses it any more
    m.def("pooled", [](std::size_t bytes) {
        auto memory = std::make_unique<Memory>(std::max<std::size_t>(bytes, 1));
        Memory* raw = memory.get();
        nb::capsule owner(memory.release(), [](void* p) noexcept { delete static_cast<Memory*>(p); });
        return nb::ndarray<nb::pytorch, std::uint8_t, nb::ndim<1>>(raw->data, {bytes}, owner);
    });

    nb::class_<Tape>(m, "Tape")
        .def(nb::init<>())
        .def("__init__",
             [](Tape* tape, const Flat& memory) {
                 new (tape) Tape(pointer(memory.first), memory.second < 0 ? 0 : std::size_t(memory.second));
             })
        // whether a forward pass of this program with these sizes was the last to write here, with the instruction set of now
        .def("holds", [](Tape& tape, const Program& p, bool wide, int steps, int batch) {
            if (steps < 0 || batch < 1) return false;
            const Backend& used = backend_for(p, wide, batch);
            return tape.read_label({&used, &p, steps, batch}, used.tape_bytes(p, steps, batch));
        });

    nb::class_<Program>(m, "Program")
        .def(nb::init<>())
        .def_ro("prologue", &Program::prologue, nb::rv_policy::reference_internal)
        .def_ro("body", &Program::body, nb::rv_policy::reference_internal)
        .def_prop_rw(
            "loss_slots", [](const Program& p) { return p.loss_slots; },
            [](Program& p, int slots) { p.loss_slots = slots, p.checked = false; })
        .def_ro("parameter_total", &Program::parameter_total)
        .def("parameter",
             [](Program& p, std::int64_t size) {
                 if (size < 0 || size > std::numeric_limits<std::int64_t>::max() / 64 - p.parameter_total)
                     throw std::invalid_argument("a parameter has an impossible size");
                 p.parameter_sizes.push_back(size);
                 p.parameter_offsets.push_back(p.parameter_total);
                 p.parameter_total += size, p.checked = false;
                 return int(p.parameter_sizes.size()) - 1;
             })
        .def("initial_load", [](Program& p, int value, int tensor,
                                int time) { p.initial_loads.push_back({value, tensor, time}), p.checked = false; })
        .def("sequence_load", [](Program& p, int value, int tensor,
                                 int shift) { p.sequence_loads.push_back({value, tensor, shift}), p.checked = false; })
        .def("state", [](Program& p, int initial, int in, int out) { p.states.push_back({initial, in, out}), p.checked = false; })
        .def("output", [](Program& p, int value) { p.outputs.push_back(value), p.checked = false; })
        .def("final", [](Program& p, int value) { p.finals.push_back(value), p.checked = false; })
        .def("tape_bytes", [](const Program& p, bool wide, int steps,
                              int batch) { return backend_for(p, wide, batch).tape_bytes(p, steps, batch); })
        .def(
            "forward",
            [](Program& p, bool wide, std::int64_t steps, std::int64_t batch, int threads, const std::vector<View>& initials,
               const std::vector<View>& sequences, const std::vector<View>& outputs, const std::vector<View>& finals,
               const std::vector<Flat>& parameters, const std::vector<Flat>& masks, Tape* tape) {
                Run run = make_run(p, steps, batch, threads, {}, initials, sequences, parameters, masks);
                run.outputs = views(outputs), run.finals = views(finals);
                check_outputs(p, run);
                const Backend& used = backend_for(p, wide, run.batch);
                nb::gil_scoped_release release;
                const ThreadChoice choice({&p, forward_call, wide, steps, batch}, threads);
                run.threads = choice.threads();
                used.forward(p, run, tape);
                if (tape) tape->write_label({&used, &p, run.steps, run.batch});
            },
            nb::arg("wide"), nb::arg("steps"), nb::arg("batch"), nb::arg("threads"), nb::arg("initials"), nb::arg("sequences"),
            nb::arg("outputs"), nb::arg("finals"), nb::arg("parameters"), nb::arg("masks"), nb::arg("tape").none())
        .def("backward",
             [](Program& p, bool wide, std::int64_t steps, std::int64_t batch, int threads, const std::vector<View>& initials,
                const std::vector<View>& sequences, const std::vector<Flat>& parameters, const std::vector<Flat>& masks,
                const std::vector<View>& output_gradients, const std::vector<View>& final_gradients,
                const std::vector<View>& initial_gradients, const std::vector<View>& sequence_gradients, const Flat& flat,
                Tape& tape) {
                 Run run = make_run(p, steps, batch, threads, {}, initials, sequences, parameters, masks);
                 Gradients g;
                 g.outputs = views(output_gradients), g.finals = views(final_gradients);
                 g.initials = views(initial_gradients), g.sequences = views(sequence_gradients);
                 g.parameters = pointer(flat.first);
                 check_gradients(p, run, g);
                 if (g.parameters && flat.second != p.parameter_total)
                     throw std::invalid_argument("the gradient has another size than the parameters");
                 const TapeLabel& label = tape.label;
                 if (label.program != &p || label.steps != run.steps || label.batch != run.batch || !label.backend ||
                     label.backend->wide != wide)
                     throw std::invalid_argument("the tape is not of a forward pass of this program with these sizes");
                 nb::gil_scoped_release release;
                 const ThreadChoice choice({&p, backward_call, wide, steps, batch}, threads);
                 run.threads = choice.threads();
                 label.backend->backward(p, run, g, tape);
             })
        .def("train", [](Program& p, bool wide, std::int64_t steps, std::int64_t batch, int threads, const Flat& index,
                         const std::vector<View>& sequences, const std::vector<Flat>& parameters, const std::vector<Flat>& masks,
                         std::uint64_t seed, std::uint64_t counter, double probability, const std::vector<double>& loss_weights,
                         const Flat& gradient) {
            Run run = make_run(p, steps, batch, threads, index, {}, sequences, parameters, masks);
            run.outputs.resize(p.outputs.size());
            run.seed = seed, run.counter = counter, run.probability = probability, run.loss_weights = loss_weights;
            check_training(p, run);
            if (!gradient.first || gradient.second != p.parameter_total)
                throw std::invalid_argument("the gradient has another size than the parameters");
            std::vector<double> losses(p.loss_slots);
            {
                nb::gil_scoped_release release;
                const ThreadChoice choice({&p, train_call, wide, steps, batch}, threads);
                run.threads = choice.threads();
                backend_for(p, wide, run.batch).train(p, run, pointer(gradient.first), losses.data());
            }
            return losses;
        });

    m.def("adam", [](bool wide, Address parameters, Address gradient, Address mean, Address square, std::size_t count, double rate,
                     double beta1, double beta2, double epsilon, double clip, std::int64_t step) {
        return backend(wide).adam(reinterpret_cast<void*>(parameters), reinterpret_cast<const void*>(gradient),
                                  reinterpret_cast<void*>(mean), reinterpret_cast<void*>(square), count, rate, beta1, beta2,
                                  epsilon, clip, step);
    });
    m.def("draw_normal",
          [](bool wide, Address out, int steps, int batch, int size, std::uint64_t seed, std::uint64_t counter, double scale) {
              backend(wide).draw_normal(reinterpret_cast<void*>(out), steps, batch, size, seed, counter, scale);
          });
    m.def("draw_numbers", [](bool wide, Address out, std::size_t count, int threads, std::uint64_t seed, double scale) {
        if (!out && count) throw std::invalid_argument("there is no memory for random numbers");
        nb::gil_scoped_release release;
        const ThreadChoice choice({nullptr, draw_call, wide, std::int64_t(count), 0}, std::max(1, threads));
        backend(wide).draw_numbers(pointer(out), count, choice.threads(), seed, scale);
    });
    m.def("draw_bernoulli",
          [](bool wide, Address out, int steps, int batch, std::uint64_t seed, std::uint64_t counter, double probability) {
              backend(wide).draw_bernoulli(reinterpret_cast<void*>(out), steps, batch, seed, counter, probability);
          });
    // networks: weight, bias and their gradients, of the four networks; tensors by the names of Layer's members
    m.def("layer", [](bool wide, bool is_backward, const std::array<std::int64_t, 5>& sizes, int threads, int act,
                      const std::array<std::array<Flat, 4>, 4>& networks, const std::map<std::string, Flat>& tensors) {
        LayerTensors given;
        for (const auto& [name, flat] : tensors) given[name] = {pointer(flat.first), flat.second};
        std::array<std::array<FlatTensor, 4>, 4> affine;
        for (int k = 0; k < 4; ++k)
            for (int n = 0; n < 4; ++n) affine[k][n] = {pointer(networks[k][n].first), networks[k][n].second};
        Layer layer = make_layer(sizes, threads, act, affine, given, is_backward);
        const Backend& used = backend(wide);
        nb::gil_scoped_release release;
        const std::int64_t shape = (sizes[2] * 65536 + sizes[3]) * 65536 + sizes[4];
        const ThreadChoice choice({nullptr, is_backward ? layer_backward_call : layer_call, wide, sizes[0] * sizes[1], shape},
                                  threads);
        layer.threads = choice.threads();
        (is_backward ? used.layer_backward : used.layer_forward)(layer);
    });
    m.def("activate", [](bool wide, int act, Address in, Address out, std::size_t count) {
        if (act < 0 || act >= int(std::size(activation_names))) throw std::invalid_argument("there is no such activation");
        backend(wide).activate(act, reinterpret_cast<const void*>(in), reinterpret_cast<void*>(out), count);
    });
}
