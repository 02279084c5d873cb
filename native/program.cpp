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
#include <utility>

#include <unistd.h>

namespace gatel0rd {

namespace {

// Memory of tapes that are no longer used: large blocks are expensive to get from the system, page by page
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
        std::lock_guard<std::mutex> lock(mutex_);
        kept_.emplace_back(bytes, memory);
        total_ += bytes;
        while (kept_.size() > 4 || total_ > most) {
            total_ -= kept_.front().first;
            std::free(kept_.front().second);
            kept_.erase(kept_.begin());
        }
    }

  private:
    static constexpr std::size_t most = std::size_t(256) << 20;
    std::mutex mutex_;
    std::vector<std::pair<std::size_t, void*>> kept_;
    std::size_t total_ = 0;
};

MemoryPool& memory_pool() {
    static MemoryPool* instance = new MemoryPool;  // outlives every tape
    return *instance;
}

}  // namespace

Tape::~Tape() {
    if (memory) memory_pool().keep(memory, bytes);
}

void Tape::reserve(std::size_t wanted) {
    if (wanted <= bytes) return;
    if (memory) memory_pool().keep(memory, bytes);
    bytes = 0;
    memory = memory_pool().take(wanted, bytes);
    if (memory) return;
    const std::size_t rounded = (wanted + 63) / 64 * 64;
    memory = std::aligned_alloc(64, rounded);
    if (!memory) throw std::bad_alloc();
    bytes = rounded;
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
