// The Python binding. Pointers are checked and kept alive by gatel0rd.engine; nothing else calls these functions.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <iterator>
#include <array>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>

#include "program.hpp"

namespace nb = nanobind;
using namespace gatel0rd;

namespace {

using Address = std::uintptr_t;
using View = std::tuple<Address, std::int64_t, std::int64_t, std::int64_t>;  // address, strides of time, batch, feature

std::string chosen;

const Backend& backend(bool wide) {
#ifdef GATEL0RD_X86
    if (chosen == "avx512") return backend_avx512(wide);
    if (chosen == "avx2") return backend_avx2(wide);
#endif
    return backend_baseline(wide);
}

// The backend for a batch: rows of half the size where the other half would be empty. Lanes do not see each other, so that
// results are the same to the bit.
const Backend& backend_for(const Program& program, bool wide, int batch) {
#ifdef GATEL0RD_X86
    if (chosen == "avx2" && batch <= (wide ? 4 : 8) && !program.draws()) return backend_avx2_narrow(wide);
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

std::vector<Strided> views(const std::vector<View>& given) {
    std::vector<Strided> result;
    for (const auto& [address, time, batch, feature] : given)
        result.push_back({reinterpret_cast<void*>(address), time, batch, feature});
    return result;
}

void* pointer(Address address) { return reinterpret_cast<void*>(address); }

std::vector<const void*> pointers(const std::vector<Address>& given) {
    std::vector<const void*> result;
    for (Address address : given) result.push_back(reinterpret_cast<const void*>(address));
    return result;
}

Run make_run(int steps, int batch, int threads, Address index, const std::vector<View>& initials,
             const std::vector<View>& sequences, const std::vector<View>& outputs, const std::vector<View>& finals,
             const std::vector<Address>& parameters, const std::vector<Address>& masks) {
    Run run;
    run.steps = steps, run.batch = batch, run.threads = threads;
    run.index = reinterpret_cast<const std::int64_t*>(index);
    run.initials = views(initials), run.sequences = views(sequences), run.outputs = views(outputs), run.finals = views(finals);
    run.parameters = pointers(parameters), run.masks = pointers(masks);
    return run;
}

template <std::size_t count> nb::tuple names(const char* const (&given)[count]) {
    nb::list result;
    for (const char* name : given) result.append(name);
    return nb::tuple(result);
}

void check(const Section& section) {
    auto inside = [&](int value) { return value >= -1 && value < int(section.values.size()); };
    for (const Instruction& i : section.instructions) {
        bool good = inside(i.dst) && inside(i.a) && inside(i.b) && inside(i.c);
        for (const Term& term : i.terms) good = good && term.input >= 0 && inside(term.input);
        if (!good) throw std::invalid_argument("an instruction names a value that does not exist");
    }
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
             [](Section& s, int size) {
                 s.values.push_back({s.rows, size});
                 s.rows += size;
                 return int(s.values.size()) - 1;
             })
        .def("view",
             [](Section& s, int of, int start, int size) {
                 if (start < 0 || start + size > s.values.at(of).size) throw std::invalid_argument("a view leaves its value");
                 s.values.push_back({s.values.at(of).offset + start, size});
                 return int(s.values.size()) - 1;
             })
        .def("instruction", [](Section& s, int op, int act, int dst, int a, int b, int c, double scalar, int slot,
                               const std::vector<std::tuple<int, int, int, int>>& terms,
                               const std::vector<std::tuple<int, int>>& biases, const std::vector<int>& periods) {
            if (op < 0 || op >= int(std::size(op_names)) || act < 0 || act >= int(std::size(activation_names)))
                throw std::invalid_argument("an instruction has an operation or an activation that does not exist");
            Instruction i;
            i.op = Op(op), i.act = Act(act), i.dst = dst, i.a = a, i.b = b, i.c = c, i.scalar = scalar, i.slot = slot;
            for (const auto& [input, parameter, start, stride] : terms) i.terms.push_back({input, parameter, start, stride});
            for (const auto& [parameter, start] : biases) i.biases.push_back({parameter, start});
            i.periods = periods;
            if (i.op == Op::linear) {
                i.linear = s.linears++;
                i.derivative_row = s.derivative_rows;
                s.derivative_rows += s.values.at(dst).size;
            }
            s.instructions.push_back(std::move(i));
            check(s);
        });

    nb::class_<Tape>(m, "Tape").def(nb::init<>());

    nb::class_<Program>(m, "Program")
        .def(nb::init<>())
        .def_ro("prologue", &Program::prologue, nb::rv_policy::reference_internal)
        .def_ro("body", &Program::body, nb::rv_policy::reference_internal)
        .def_rw("loss_slots", &Program::loss_slots)
        .def_ro("parameter_total", &Program::parameter_total)
        .def("parameter",
             [](Program& p, int size) {
                 p.parameter_sizes.push_back(size);
                 p.parameter_offsets.push_back(p.parameter_total);
                 p.parameter_total += size;
                 return int(p.parameter_sizes.size()) - 1;
             })
        .def("initial_load", [](Program& p, int value, int tensor, int time) { p.initial_loads.push_back({value, tensor, time}); })
        .def("sequence_load",
             [](Program& p, int value, int tensor, int shift) { p.sequence_loads.push_back({value, tensor, shift}); })
        .def("state", [](Program& p, int initial, int in, int out) { p.states.push_back({initial, in, out}); })
        .def("output", [](Program& p, int value) { p.outputs.push_back(value); })
        .def("final", [](Program& p, int value) { p.finals.push_back(value); })
        .def("tape_bytes", [](const Program& p, bool wide, int steps,
                              int batch) { return backend_for(p, wide, batch).tape_bytes(p, steps, batch); })
        .def(
            "forward",
            [](const Program& p, bool wide, int steps, int batch, int threads, const std::vector<View>& initials,
               const std::vector<View>& sequences, const std::vector<View>& outputs, const std::vector<View>& finals,
               const std::vector<Address>& parameters, const std::vector<Address>& masks, Tape* tape) {
                const Run run = make_run(steps, batch, threads, 0, initials, sequences, outputs, finals, parameters, masks);
                nb::gil_scoped_release release;
                backend_for(p, wide, batch).forward(p, run, tape);
            },
            nb::arg("wide"), nb::arg("steps"), nb::arg("batch"), nb::arg("threads"), nb::arg("initials"), nb::arg("sequences"),
            nb::arg("outputs"), nb::arg("finals"), nb::arg("parameters"), nb::arg("masks"), nb::arg("tape").none())
        .def("backward",
             [](const Program& p, bool wide, int steps, int batch, int threads, const std::vector<View>& initials,
                const std::vector<View>& sequences, const std::vector<Address>& parameters, const std::vector<Address>& masks,
                const std::vector<View>& output_gradients, const std::vector<View>& final_gradients,
                const std::vector<View>& initial_gradients, const std::vector<View>& sequence_gradients, Address flat, Tape& tape) {
                 const Run run = make_run(steps, batch, threads, 0, initials, sequences, {}, {}, parameters, masks);
                 Gradients g;
                 g.outputs = views(output_gradients), g.finals = views(final_gradients);
                 g.initials = views(initial_gradients), g.sequences = views(sequence_gradients);
                 g.parameters = reinterpret_cast<void*>(flat);
                 nb::gil_scoped_release release;
                 backend_for(p, wide, batch).backward(p, run, g, tape);
             })
        .def("train", [](const Program& p, bool wide, int steps, int batch, int threads, Address index,
                         const std::vector<View>& sequences, const std::vector<Address>& parameters,
                         const std::vector<Address>& masks, std::uint64_t seed, std::uint64_t counter, double probability,
                         const std::vector<double>& loss_weights, Address gradient) {
            Run run =
                make_run(steps, batch, threads, index, {}, sequences, std::vector<View>(p.outputs.size()), {}, parameters, masks);
            run.seed = seed, run.counter = counter, run.probability = probability, run.loss_weights = loss_weights;
            std::vector<double> losses(p.loss_slots);
            {
                nb::gil_scoped_release release;
                backend(wide).train(p, run, reinterpret_cast<void*>(gradient), losses.data());
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
    m.def("draw_bernoulli",
          [](bool wide, Address out, int steps, int batch, std::uint64_t seed, std::uint64_t counter, double probability) {
              backend(wide).draw_bernoulli(reinterpret_cast<void*>(out), steps, batch, seed, counter, probability);
          });
    // sizes: steps, batch, inputs, hidden, outputs, threads; affine: weight, bias and their gradients, of the four networks
    m.def("layer", [](bool wide, bool is_backward, const std::array<int, 6>& sizes, int act, const std::array<std::array<Address, 4>, 4>& affine,
                      const std::map<std::string, Address>& tensors) {
        Layer l;
        l.steps = sizes[0], l.batch = sizes[1], l.inputs = sizes[2], l.hidden = sizes[3], l.outputs = sizes[4], l.threads = sizes[5];
        l.act = Act(act);
        Affine* networks[] = {&l.gate, &l.recommend, &l.output, &l.output_gate};
        for (int k = 0; k < 4; ++k)
            *networks[k] = {pointer(affine[k][0]), pointer(affine[k][1]), pointer(affine[k][2]), pointer(affine[k][3])};
        auto get = [&](const char* name) {
            const auto found = tensors.find(name);
            return found == tensors.end() ? nullptr : pointer(found->second);
        };
        l.x = get("x"), l.noise = get("noise");
        l.resets = static_cast<const std::uint8_t*>(get("resets")), l.active = static_cast<const std::uint8_t*>(get("active"));
        l.states = get("states"), l.before = get("before"), l.fresh = get("fresh"), l.gates = get("gates");
        l.recommended = get("recommended"), l.read = get("read"), l.read_gate = get("read_gate"), l.result = get("result");
        l.d_result = get("d_result"), l.d_states = get("d_states"), l.d_last = get("d_last"), l.d_gates = get("d_gates");
        l.d_x = get("d_x"), l.d_first = get("d_first");
        nb::gil_scoped_release release;
        const Backend& chosen_backend = backend(wide);
        (is_backward ? chosen_backend.layer_backward : chosen_backend.layer_forward)(l);
    });
    m.def("activate", [](bool wide, int act, Address in, Address out, std::size_t count) {
        backend(wide).activate(act, reinterpret_cast<const void*>(in), reinterpret_cast<void*>(out), count);
    });
}
