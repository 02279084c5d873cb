// What may be run: see check.cpp.
#pragma once

#include <array>
#include <map>
#include <string>

#include "program.hpp"

namespace gatel0rd {

void check_program(const Program&);
void check_run(const Program&, const Run&, const std::vector<std::int64_t>& parameter_sizes);
void check_outputs(const Program&, const Run&);
void check_gradients(const Program&, const Run&, const Gradients&);
void check_training(const Program&, const Run&);

struct FlatTensor {
    void* data = nullptr;
    std::int64_t count = 0;
};
using LayerTensors = std::map<std::string, FlatTensor>;

// A layer whose tensors have the sizes that it will read and write. sizes: steps, batch, inputs, hidden, outputs; networks: gate,
// recommend, output, output gate, each with weight, bias and their gradients.
Layer make_layer(const std::array<std::int64_t, 5>& sizes, int threads, int act,
                 const std::array<std::array<FlatTensor, 4>, 4>& networks, const LayerTensors& tensors, bool backward);

}  // namespace gatel0rd
