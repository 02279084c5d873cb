// The kernels once more with rows of half the size, for batches that would leave the other half empty. They draw no
// random numbers.
#include "kernel_headers.hpp"

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define GATEL0RD_ISA avx2_narrow
#define GATEL0RD_VECTOR_BYTES 32
#define GATEL0RD_ROW_BYTES 32
#include "kernels.hpp"

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace gatel0rd {
const Backend& backend_avx2_narrow(bool wide) { return wide ? avx2_narrow::backend<double>() : avx2_narrow::backend<float>(); }
}  // namespace gatel0rd
