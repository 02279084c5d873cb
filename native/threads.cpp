// The threads that share the blocks of a call, and the choice of how many of them are worth it.
#include "threads.hpp"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <pthread.h>
#include <unistd.h>

namespace gatel0rd {

namespace {

using Clock = std::chrono::steady_clock;

// The blocks of one call. Whoever comes late finds none left, and nobody waits for threads that never came: the system may
// have given their core to somebody else.
struct Job {
    void (*work)(void*, int);
    void* context;
    int blocks;
    std::atomic<int> next{0}, done{0};
    std::mutex mutex;
    std::condition_variable finished;
    std::exception_ptr error;

    Job(void (*w)(void*, int), void* c, int b) : work(w), context(c), blocks(b) {}

    void take() {
        for (int block; (block = next.fetch_add(1)) < blocks;) {
            try {
                work(context, block);
            } catch (...) {
                std::lock_guard<std::mutex> lock(mutex);
                error = std::current_exception();
            }
            if (done.fetch_add(1) + 1 == blocks) {
                std::lock_guard<std::mutex> lock(mutex);
                finished.notify_all();
            }
        }
    }
};

// Wait for a moment without sleeping, since the next call of a training loop comes within microseconds; but let others have
// the core meanwhile
template <class F> bool spin(F ready) {
    const auto start = Clock::now();
    for (;;) {
        for (int k = 0; k < 64; ++k) {
            if (ready()) return true;
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
        }
        const auto waited = Clock::now() - start;
        if (waited > std::chrono::microseconds(100)) return false;
        if (waited > std::chrono::microseconds(10)) std::this_thread::yield();
    }
}

class Pool {
  public:
    // whether the job was done; a pool that works for somebody else does not take it
    bool run(int blocks, int threads, void (*work)(void*, int), void* context) {
        std::unique_lock<std::mutex> only(caller_, std::try_to_lock);
        if (!only.owns_lock()) return false;
        auto job = std::make_shared<Job>(work, context, blocks);
        {
            std::lock_guard<std::mutex> lock(mutex_);
            while (int(threads_.size()) < threads - 1) {
                const int number = int(threads_.size()) + 1;
                threads_.emplace_back([this, number] { serve(number); });
            }
            job_ = job, helpers_ = threads - 1;
            ++generation_;
        }
        wake_.notify_all();
        job->take();
        if (!spin([&] { return job->done.load() == blocks; })) {
            std::unique_lock<std::mutex> lock(job->mutex);
            job->finished.wait(lock, [&] { return job->done.load() == blocks; });
        }
        if (job->error) std::rethrow_exception(job->error);
        return true;
    }

  private:
    void serve(int number) {
        for (unsigned seen = 0;;) {
            spin([&] { return generation_.load() != seen; });
            std::shared_ptr<Job> job;
            {
                std::unique_lock<std::mutex> lock(mutex_);
                wake_.wait(lock, [&] { return generation_.load() != seen; });
                seen = generation_.load();
                if (number > helpers_) continue;
                job = job_;
            }
            job->take();
        }
    }

    std::mutex caller_, mutex_;
    std::condition_variable wake_;
    std::vector<std::thread> threads_;
    std::shared_ptr<Job> job_;
    int helpers_ = 0;
    std::atomic<unsigned> generation_{0};
};

// Made when it is first needed and never destroyed: its threads wait until the process ends. A forked child has none of them
// and starts anew; a fork waits until nobody is just looking.
std::mutex guard;
Pool* pool = nullptr;
pid_t owner = 0;

Pool& own_pool() {
    static const int registered = pthread_atfork([] { guard.lock(); }, [] { guard.unlock(); }, [] { guard.unlock(); });
    (void)registered;
    std::lock_guard<std::mutex> lock(guard);
    if (owner != getpid()) pool = new Pool, owner = getpid();
    return *pool;
}

}  // namespace

void parallel_blocks(int blocks, int threads, void (*work)(void*, int), void* context) {
    if (threads > blocks) threads = blocks;
    if (threads > 1 && own_pool().run(blocks, threads, work, context)) return;
    for (int block = 0; block < blocks; ++block) work(context, block);
}

namespace {

// What is known about one kind of call
struct Experience {
    double one = -1, many = -1;  // seconds, the newest counting most
    int calls = 0, look_again = 32, interval = 32;
};

std::mutex experiences_guard;
std::map<ThreadChoice::Key, Experience>& experiences() {
    static auto* all = new std::map<ThreadChoice::Key, Experience>;
    return *all;
}
constexpr std::size_t most_experiences = 4096;

}  // namespace

ThreadChoice::ThreadChoice(const Key& key, int threads) : key_(key), most_(threads), threads_(threads), start_(Clock::now()) {
    if (threads <= 1) return;
    static const int registered =
        pthread_atfork([] { experiences_guard.lock(); }, [] { experiences_guard.unlock(); }, [] { experiences_guard.unlock(); });
    (void)registered;
    std::lock_guard<std::mutex> lock(experiences_guard);
    if (experiences().size() >= most_experiences) experiences().clear();
    Experience& e = experiences()[key];
    const bool one_is_faster = e.one >= 0 && e.many >= 0 && e.one < e.many;
    if (e.calls == 2 || e.calls == 3)
        threads_ = 1;  // the first calls warm up; then each way is tried
    else if (e.calls > 3)
        threads_ = (e.calls >= e.look_again) != one_is_faster ? 1 : threads;
    ++e.calls;
}

ThreadChoice::~ThreadChoice() {
    if (most_ <= 1) return;
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    std::lock_guard<std::mutex> lock(experiences_guard);
    Experience& e = experiences()[key_];
    if (e.calls <= 1) return;
    double& known = threads_ == 1 ? e.one : e.many;
    const double other = threads_ == 1 ? e.many : e.one;
    known = known < 0 ? seconds : 0.7 * known + 0.3 * seconds;
    if (e.calls > e.look_again) {
        // the way that was thought slower was tried: the clearer it lost, the later it is tried again
        const bool still_slower = other >= 0 && seconds > other;
        if (!still_slower) known = seconds;
        e.interval = still_slower ? (e.interval < 1024 ? 2 * e.interval : 1024) : 32;
        e.look_again = e.calls + e.interval;
    }
}

}  // namespace gatel0rd
