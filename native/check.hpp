// What may be run: see check.cpp.
#pragma once

#include "program.hpp"

namespace gatel0rd {

void check_program(const Program&);
void check_run(const Program&, const Run&, const std::vector<std::int64_t>& parameter_sizes);
void check_outputs(const Program&, const Run&);
void check_gradients(const Program&, const Run&, const Gradients&);
void check_training(const Program&, const Run&);

}  // namespace gatel0rd
