// How work is shared by threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <tuple>

namespace gatel0rd {

// work(context, block) for all blocks, by at most so many threads, the caller among them
void parallel_blocks(int blocks, int threads, void (*work)(void* context, int block), void* context);

// For the time of a call: how many threads it should use. More than one are used only as long as that is faster, which depends
// on the size of the work and on what else the machine does; both ways give the same result to the bit, so that each can be tried.
class ThreadChoice {
  public:
    using Key = std::tuple<const void*, int, int, std::int64_t, std::int64_t>;  // program, kind of call, precision, and sizes

    ThreadChoice(const Key& key, int threads);
    ~ThreadChoice();
    ThreadChoice(const ThreadChoice&) = delete;
    ThreadChoice& operator=(const ThreadChoice&) = delete;
    int threads() const { return threads_; }

  private:
    Key key_;
    int most_, threads_;
    std::chrono::steady_clock::time_point start_;
};

}  // namespace gatel0rd
