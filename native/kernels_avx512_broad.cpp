#include "kernel_headers.hpp"

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx2,fma")
#endif
#define GATEL0RD_ISA avx512_broad
#define GATEL0RD_VECTOR_BYTES 64
#define GATEL0RD_ROW_BYTES 128
#include "kernels.hpp"

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace gatel0rd {
const Backend& backend_avx512_broad(bool wide) { return wide ? avx512_broad::backend<double>() : avx512_broad::backend<float>(); }
}  // namespace gatel0rd
