// Threads that share a forward.
//
// A forward is many short products, one after the other, and each of them needs all of the one before it. So its threads
// wait for each other some five times in a layer, every few microseconds. To put a thread to sleep and to wake it takes
// longer than that. So a thread that waits looks again and again. Between two forwards it does so for as long as a
// forward takes, and then sleeps.
//
// Where other programs want the cores too, a thread that has lost its own keeps all others waiting. So a forward begins
// with the threads that are there, and what was slow when it was shared is computed alone for a while.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <mutex>
#include <system_error>
#include <thread>

#if !defined(_WIN32)
#include <pthread.h>
#endif

namespace {

using Int = std::int64_t;
using Clock = std::chrono::steady_clock;

constexpr Int MOST_THREADS = 63;
constexpr Int SLOW = 3, LONGEST_REST = 255;  // so many times as long is slow; so many forwards alone are a long rest
constexpr Clock::duration PATIENCE = std::chrono::milliseconds(1);  // the longest that a thread looks for work

// Looks until `done()`; gives up at a time. Returns whether it was done.
template <class Done>
bool look(Done done, Clock::time_point until = Clock::time_point::max()) {
    for (Int looks = 1; !done(); ++looks) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        asm volatile("yield");
#endif
        if (looks % 32 == 0 && until < Clock::time_point::max() && Clock::now() > until) return done();
        if (looks > 10000) std::this_thread::yield();  // another program may have the other's core
    }
    return true;
}

// Where threads wait for each other: none goes on before all are here.
class Barrier {
    alignas(64) std::atomic<Int> here{0};
    alignas(64) std::atomic<Int> passed{0};

  public:
    void wait(Int count) {
        const Int before = passed.load(std::memory_order_relaxed);
        if (here.fetch_add(1, std::memory_order_acq_rel) + 1 < count) {
            look([&] { return passed.load(std::memory_order_acquire) != before; });
        } else {
            here.store(0, std::memory_order_relaxed);
            passed.store(before + 1, std::memory_order_release);
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

// How forwards of one size fared when they were shared.
struct Pace {
    Clock::rep best = std::numeric_limits<Clock::rep>::max() / 2;
    Int rest = 0, last_rest = 0;  // so many are still to be computed alone; so many were, the last time

    // Whether the next one is to be shared.
    bool again() { return rest == 0 || --rest < 0; }

    // Takes how long one took.
    void see(Clock::rep took) {
        best = std::min(best + best / 64, took);  // a longer context takes longer
        rest = last_rest = took > SLOW * best ? std::min<Int>(2 * last_rest + 1, LONGEST_REST) : 0;
    }
};

// A number and how many threads that is about, in one: both change at once.
struct Ticket {
    Int value;
    Ticket(Int value) : value(value) {}
    Ticket(Int number, Int threads) : value(number * (MOST_THREADS + 1) + threads) {}
    Int number() const { return value / (MOST_THREADS + 1); }
    Int threads() const { return value % (MOST_THREADS + 1); }
};

// The threads of this process. They are made when they are first wanted, and end with it.
class Team {
    std::mutex busy, sleeping;
    std::condition_variable wake;
    std::atomic<Int> wanted{0}, joined{0}, begun{0};  // tickets: of a forward, and how many threads
    std::atomic<Int> sleepers{0};
    std::atomic<Clock::rep> took{0};  // the last forward
    void (*work)(void*, Share) = nullptr;
    void* about = nullptr;
    Barrier barrier;
    Int made = 1;  // threads, the caller of `run` included

    Clock::time_point soon(Int parts) const { return Clock::now() + std::min(Clock::duration(took / parts), PATIENCE); }

    // What a thread does: it takes part in one forward after the other.
    void serve(Int seen) {
        for (;; seen = wanted.load()) {
            const auto more = [&] { return wanted.load() != seen; };
            if (!look(more, soon(1))) {
                std::unique_lock<std::mutex> lock(sleeping);
                ++sleepers;
                wake.wait(lock, more);
                --sleepers;
            }
            const Ticket forward = wanted.load();
            Int now = joined.load();
            while (Ticket(now).number() == forward.number() && Ticket(now).threads() < forward.threads())
                if (joined.compare_exchange_weak(now, now + 1)) {
                    look([&] { return Ticket(begun.load()).number() == forward.number(); });
                    const Int count = Ticket(begun.load()).threads();
                    work(about, {Ticket(now).threads(), count, &barrier});
                    barrier.wait(count);
                    break;
                }
        }
    }

    // Makes threads until there are `enough`, if the system lets us; returns how many may take part.
    Int grow(Int enough) {
        try {
            for (; made < enough; ++made) std::thread([this, seen = wanted.load()] { serve(seen); }).detach();
        } catch (const std::system_error&) {
        }
        return std::min(made, enough);
    }

    // Invites threads to a forward; returns how many came.
    Int invite(Int count) {
        const Ticket last = wanted.load();
        const Int number = last.number() + 1;
        joined.store(Ticket(number, 1).value);
        wanted.store(Ticket(number, count).value);
        if (sleepers.load() > 0) {
            std::lock_guard<std::mutex> lock(sleeping);
            wake.notify_all();
        }
        look([&] { return Ticket(joined.load()).threads() == count; }, soon(8));
        const Int came = Ticket(joined.exchange(Ticket(number, MOST_THREADS).value)).threads();
        begun.store(Ticket(number, came).value);
        return came;
    }

    static Team*& here() {
        static Team* team = new Team;  // not destroyed at the end of the process, when threads may still look
        return team;
    }

  public:
    static Team& get() {
#if !defined(_WIN32)
        // The child of a fork has none of its parent's threads.
        static const int once = pthread_atfork(nullptr, nullptr, [] { here() = new Team; });
        (void)once;
#endif
        return *here();
    }

    // Calls share_of(share) in up to `count` threads, of which the caller is the first; returns when all are done. Who
    // comes while others share a forward computes alone.
    template <class Call>
    void run(Int count, Pace& pace, Call&& share_of) {
        std::unique_lock<std::mutex> lock(busy, std::defer_lock);
        if (count <= 1 || !lock.try_lock() || !pace.again()) return share_of(Share{});
        count = grow(std::min(count, MOST_THREADS - 1));
        work = [](void* call, Share share) { (*static_cast<std::remove_reference_t<Call>*>(call))(share); };
        about = &share_of;
        const auto started = Clock::now();
        const Share own{0, invite(count), &barrier};
        share_of(own);
        own.wait();
        took = (Clock::now() - started).count();
        if (own.count > 1) pace.see(took);
    }
};

}  // namespace
