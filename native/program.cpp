// Memory of tapes, and the threads that share the blocks of a batch.
#include "program.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <thread>

#include <unistd.h>

namespace gatel0rd {

Tape::~Tape() { std::free(memory); }

void Tape::reserve(std::size_t wanted) {
    if (wanted <= bytes) return;
    std::free(memory);
    memory = std::aligned_alloc(64, (wanted + 63) / 64 * 64);
    bytes = memory ? wanted : 0;
    if (!memory) throw std::bad_alloc();
}

namespace {

// Threads that wait for work; the caller works too. One job at a time.
class Pool {
  public:
    void run(int blocks, int threads, void (*work)(void*, int), void* context) {
        std::lock_guard<std::mutex> one_at_a_time(callers_);
        {
            std::lock_guard<std::mutex> lock(mutex_);
            while (int(threads_.size()) < threads - 1) {
                const int worker = int(threads_.size()) + 1;
                threads_.emplace_back([this, worker, seen = generation_.load()] { wait(worker, seen); });
            }
            work_ = work, context_ = context, blocks_ = blocks, helpers_ = threads - 1;
            next_ = 0, error_ = nullptr, active_ = threads - 1;
            ++generation_;
        }
        wake_.notify_all();
        take();
        spin([this] { return active_.load(std::memory_order_acquire) == 0; });
        std::unique_lock<std::mutex> lock(mutex_);
        done_.wait(lock, [this] { return active_ == 0; });
        if (error_) std::rethrow_exception(error_);
    }

  private:
    // A short wait without sleeping: the next call of a training loop comes within microseconds
    template <class F> static void spin(F ready) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(200);
        while (!ready() && std::chrono::steady_clock::now() < end)
            for (int k = 0; k < 32; ++k) __asm__ volatile("" ::: "memory");
    }
    void take() {
        try {
            for (int block; (block = next_.fetch_add(1)) < blocks_;) work_(context_, block);
        } catch (...) {
            std::lock_guard<std::mutex> lock(mutex_);
            error_ = std::current_exception();
        }
    }
    void wait(int worker, unsigned seen) {
        for (;;) {
            spin([&] { return generation_.load(std::memory_order_acquire) != seen; });
            {
                std::unique_lock<std::mutex> lock(mutex_);
                wake_.wait(lock, [&] { return generation_ != seen; });
                seen = generation_;
                if (worker > helpers_) continue;
            }
            take();
            std::lock_guard<std::mutex> lock(mutex_);
            if (--active_ == 0) done_.notify_one();
        }
    }

    std::mutex callers_, mutex_;
    std::condition_variable wake_, done_;
    std::vector<std::thread> threads_;
    void (*work_)(void*, int) = nullptr;
    void* context_ = nullptr;
    int blocks_ = 0, helpers_ = 0;
    std::atomic<int> next_{0}, active_{0};
    std::atomic<unsigned> generation_{0};
    std::exception_ptr error_;
};

}  // namespace

void parallel_blocks(int blocks, int threads, void (*work)(void*, int), void* context) {
    if (threads > blocks) threads = blocks;
    if (threads <= 1) {
        for (int block = 0; block < blocks; ++block) work(context, block);
        return;
    }
    // never destroyed: its threads wait until the process ends; a forked child has none of them and starts anew
    static Pool* pool = nullptr;
    static pid_t owner = 0;
    static std::mutex guard;
    {
        std::lock_guard<std::mutex> lock(guard);
        if (owner != getpid()) pool = new Pool, owner = getpid();
    }
    pool->run(blocks, threads, work, context);
}

}  // namespace gatel0rd
