#include "kernel_headers.hpp"

#define GATEL0RD_ISA baseline
#define GATEL0RD_VECTOR_BYTES 16
#define GATEL0RD_ROW_BYTES 64
#include "kernels.hpp"

namespace gatel0rd {
const Backend& backend_baseline(bool wide) { return wide ? baseline::backend<double>() : baseline::backend<float>(); }
}  // namespace gatel0rd
