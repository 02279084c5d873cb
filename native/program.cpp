// Programs: which gradients are added up together. Memory of tapes and of large tensors.
#include "program.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <stdexcept>
#include <utility>

#include <pthread.h>

namespace gatel0rd {

namespace {

// Memory that is no longer used: large blocks are expensive to get from the system, page by page. Very large ones are given
// back: what is computed with them takes much longer than the pages.
class MemoryPool {
  public:
    void* take(std::size_t wanted, std::size_t& bytes) {
        std::lock_guard<std::mutex> lock(mutex_);
        for (auto it = kept_.begin(); it != kept_.end(); ++it)
            if (it->first >= wanted && it->first <= 2 * wanted) {
                void* memory = it->second;
                bytes = it->first;
                total_ -= bytes;
                kept_.erase(it);
                return memory;
            }
        return nullptr;
    }
    void keep(void* memory, std::size_t bytes) {
        if (bytes > most / 2) return std::free(memory);
        std::lock_guard<std::mutex> lock(mutex_);
        kept_.emplace_back(bytes, memory);
        total_ += bytes;
        while (kept_.size() > 32 || total_ > most) {
            total_ -= kept_.front().first;
            std::free(kept_.front().second);
            kept_.erase(kept_.begin());
        }
    }

    // around a fork, so that no child is born while somebody holds it
    void lock() { mutex_.lock(); }
    void unlock() { mutex_.unlock(); }

  private:
    static constexpr std::size_t most = std::size_t(64) << 20;
    std::mutex mutex_;
    std::deque<std::pair<std::size_t, void*>> kept_;  // the oldest first
    std::size_t total_ = 0;
};

MemoryPool& memory_pool() {
    static MemoryPool* instance = new MemoryPool;  // outlives every tape
    static const int registered = pthread_atfork([] { instance->lock(); }, [] { instance->unlock(); }, [] { instance->unlock(); });
    (void)registered;
    return *instance;
}

}  // namespace

namespace {

template <class T> int find_or_add(std::vector<T>& known, T wanted) {
    const auto found = std::find(known.begin(), known.end(), wanted);
    const int number = int(found - known.begin());
    if (found == known.end()) known.push_back(std::move(wanted));
    return number;
}

}  // namespace

void Section::number_sums() {
    weight_sums.clear(), bias_sums.clear();
    for (Instruction& i : instructions) {
        if (i.op != Op::linear) continue;
        const int outputs = values[i.dst].size;
        i.bias_sum = find_or_add(bias_sums, {i.biases, outputs});
        for (Term& term : i.terms)
            term.sum = find_or_add(weight_sums, {term.parameter, term.start, term.stride, outputs, values[term.input].size});
    }
}

Memory::~Memory() {
    if (data) memory_pool().keep(data, bytes);
}

void Memory::reserve(std::size_t wanted) {
    if (wanted <= bytes) return;
    if (data) memory_pool().keep(data, bytes);
    bytes = 0;
    data = memory_pool().take(wanted, bytes);
    if (data) return;
    const std::size_t rounded = (wanted + 63) / 64 * 64;
    data = std::aligned_alloc(64, rounded);
    if (!data) throw std::bad_alloc();
    bytes = rounded;
}

Tape::Tape(void* memory, std::size_t bytes) : given_(memory), room_(bytes) {
    if (!memory || bytes < label_bytes || reinterpret_cast<std::uintptr_t>(memory) % 64)
        throw std::invalid_argument("a tape needs 64 bytes or more, at an address that 64 divides");
    data = static_cast<char*>(memory) + label_bytes;
}

void Tape::reserve(std::size_t bytes) {
    if (!given_) {
        own_.reserve(bytes);
        data = own_.data;
    } else if (bytes > room_ - label_bytes)
        throw std::invalid_argument("the memory for a tape is too small");
}

void Tape::write_label(const TapeLabel& written) {
    label = written;
    if (given_) std::memcpy(given_, &label, sizeof(label));
}

bool Tape::read_label(const TapeLabel& expected, std::size_t bytes) {
    if (!given_ || bytes > room_ - label_bytes) return false;
    TapeLabel found;
    std::memcpy(&found, given_, sizeof(found));
    if (found.backend != expected.backend || found.program != expected.program || found.steps != expected.steps ||
        found.batch != expected.batch)
        return false;
    label = expected;
    return true;
}

}  // namespace gatel0rd
