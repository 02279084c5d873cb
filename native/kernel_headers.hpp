// Everything that kernels.hpp uses from elsewhere. It is included before an instruction set is chosen, so that code of the
// standard library, which all kernels share, is compiled for every processor.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#ifdef GATEL0RD_X86
#include <immintrin.h>
#endif

#include "program.hpp"

// small functions on vectors must not become calls, whatever the compiler thinks of their size
#define GATEL0RD_INLINE static inline __attribute__((always_inline))
