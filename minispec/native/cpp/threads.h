// Threads that share a forward.
//
// A forward is many short products, and each of them needs all of the one before it. So its threads wait for each other
// five times in a layer, every few microseconds. To put a thread to sleep and to wake it takes longer than that. So a
// thread that waits spins. Between two forwards it does so for four times as long as a forward takes, so that it is there
// after a draft by one thread, and then sleeps. A forward begins with the threads that are there, and does not wait for
// one that cannot run.
#pragma once

#include <atomic>
#include <chrono>

#include "vectors.h"

#if !defined(__wasm__)
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#if !defined(_WIN32)
#include <pthread.h>
#endif
#endif

namespace {

using Clock = std::chrono::steady_clock;

#if defined(__wasm__)
// A page in a browser has one thread.
struct Share {
    Int index = 0, count = 1;

    void wait() const {}
};

struct Team {
    static Team get() { return {}; }

    template <class Call>
    void run(Int, Call share_of) { share_of(Share{}); }
};
#else

constexpr Clock::duration PATIENCE = std::chrono::milliseconds(1);  // the longest that a thread spins

// Spins until `done()`, or until it is too late. Returns whether it was done.
template <class Done>
bool spin(Done done, Clock::time_point late = Clock::time_point::max()) {
    for (Int turns = 1; !done(); ++turns) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        asm volatile("yield");
#endif
        if (turns % 32 == 0 && Clock::now() > late) return done();
        if (turns > 10000) std::this_thread::yield();  // another program may have the other's core
    }
    return true;
}

// Where threads wait for each other: none goes on before all are here.
class Barrier {
    alignas(64) std::atomic<Int> here{0};
    alignas(64) std::atomic<Int> passed{0};

  public:
    void wait(Int count) {
        const Int before = passed.load();
        if (here.fetch_add(1) + 1 < count) {
            spin([&] { return passed.load() != before; });
        } else {
            here.store(0);
            passed.store(before + 1);
        }
    }
};

// One thread's share of a forward: it is number `index` of `count`.
struct Share {
    Int index = 0, count = 1;
    Barrier* barrier = nullptr;

    void wait() const {
        if (count > 1) barrier->wait(count);
    }
};

// The threads of this process. They are made when they are first wanted, and end with it.
class Team {
    static constexpr Int MOST = 63;  // threads
    // Each of these is 64 times the number of a forward and a count of threads, so that both change at once: how many
    // are wanted, how many have joined (MOST: nobody may any more), with how many it has begun.
    std::atomic<Int> wanted{0}, joined{0}, sharing{0};
    std::mutex busy, sleeping;
    std::condition_variable wake;
    std::atomic<Clock::rep> last_forward{0};  // how long the last ones took, the longest of them
    void (*work)(void*, Share) = nullptr;
    void* callable = nullptr;
    Barrier barrier;
    Int thread_count = 1;  // threads, the caller of `run` included

    Clock::time_point after(Clock::rep wait) const { return Clock::now() + std::min(Clock::duration(wait), PATIENCE); }

    // What a thread does: it takes part in one forward after the other.
    void serve(Int last_wanted) {
        for (;; join(last_wanted)) {
            const auto more = [&] { return wanted.load() != last_wanted; };
            if (!spin(more, after(4 * last_forward))) {
                std::unique_lock<std::mutex> lock(sleeping);
                wake.wait(lock, more);
            }
            last_wanted = wanted.load();
        }
    }

    // Takes part in a forward, unless it has begun, or enough have joined.
    void join(Int forward) {
        Int now = joined.load();
        while (now / 64 == forward / 64 && now % 64 < forward % 64) {
            if (!joined.compare_exchange_weak(now, now + 1)) continue;
            spin([&] { return sharing.load() / 64 == forward / 64; });
            const Share share{now % 64, sharing.load() % 64, &barrier};
            work(callable, share);
            return share.wait();
        }
    }

    // Invites threads to a forward, and waits for them for a part of the time that it will take; returns how many came.
    Int invite(Int count) {
        try {
            for (; thread_count < count; ++thread_count)
                std::thread([this, last = wanted.load()] { serve(last); }).detach();
        } catch (const std::exception&) {  // the system has no more, or no memory for it: those that there are do
        }
        const Int forward = (wanted.load() / 64 + 1) * 64;
        joined.store(forward + 1);
        {
            std::lock_guard<std::mutex> lock(sleeping);
            wanted.store(forward + count);
        }
        wake.notify_all();
        spin([&] { return joined.load() == forward + count; }, after(last_forward / 8));
        sharing.store(joined.exchange(forward + MOST));
        return sharing.load() % 64;
    }

  public:
    static Team& get() {
        // Not destroyed at the end of the process, when threads may still spin.
        alignas(Team) static unsigned char place[sizeof(Team)];
        static Team* team = new (place) Team;
#if !defined(_WIN32)
        // The child of a fork has none of its parent's threads.
        [[maybe_unused]] static const bool once = [] {
            if (pthread_atfork(nullptr, nullptr, [] { team = new (place) Team; })) throw std::bad_alloc();
            return true;
        }();
#endif
        return *team;
    }

    // Calls share_of(share) in up to `count` threads, of which the caller is the first; returns when all are done. Who
    // comes while others share a forward computes alone.
    template <class Call>
    void run(Int count, Call share_of) {
        std::unique_lock<std::mutex> lock(busy, std::defer_lock);
        if (count <= 1 || !lock.try_lock()) return share_of(Share{});
        const auto started = Clock::now();
        work = [](void* call, Share share) { (*static_cast<Call*>(call))(share); };
        callable = &share_of;
        const Share caller{0, invite(std::min(count, MOST - 1)), &barrier};
        share_of(caller);
        caller.wait();
        // What is short, as a head alone, does not send the others to sleep before the next forward.
        last_forward = std::max((Clock::now() - started).count(), last_forward * 7 / 8);
    }
};

#endif

}  // namespace
