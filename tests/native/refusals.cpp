// Loaded before everything else in a process: refuses one library of it memory and threads, request by request.
//
// What the library takes comes from an area of its own. So what it has not given back can be counted.
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>

extern "C" void __libc_free(void*);

namespace {

constexpr std::size_t AREA = std::size_t(1) << 36;
const char *code = nullptr, *code_end = nullptr;  // of the library
char* area = nullptr;
std::atomic<std::size_t> taken{0};
std::atomic<long> held{0}, requests{0}, refusals{0}, refused{0};
std::atomic<bool> no_threads{false};

bool watched(const void* caller) { return code <= caller && caller < code_end; }

void* take(std::size_t size, std::size_t unit) {
    if (++requests == refused) {
        ++refusals;
        return nullptr;
    }
    ++held;
    const std::size_t from = taken.fetch_add(size + 2 * unit);
    return area + (from + unit - 1) / unit * unit;
}

}  // namespace

extern "C" {

// The library's code lies between two addresses.
void watch(const char* from, const char* to) {
    void* made = mmap(nullptr, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    area = made == MAP_FAILED ? nullptr : static_cast<char*>(made);
    code = from, code_end = area ? to : from;
}

// Refuses the n-th request for memory, counted from now; 0: none.
void refuse(long n) { requests = refusals = 0, refused = n; }

// Refuses threads, or not.
void refuse_threads(bool all) { no_threads = all; }

long blocks_held() { return held; }

long times_refused() { return refusals; }

void* aligned_alloc(std::size_t unit, std::size_t size) {
    return watched(__builtin_return_address(0)) ? take(size, unit) : memalign(unit, size);
}

void free(void* block) {
    const char* address = static_cast<char*>(block);
    if (area && area <= address && address < area + AREA)
        --held;
    else
        __libc_free(block);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* how, void* (*run)(void*), void* with) {
    static const auto create = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
    return no_threads ? EAGAIN : create(thread, how, run, with);
}
}

void* operator new(std::size_t size) {
    void* block = watched(__builtin_return_address(0)) ? take(size, 16) : std::malloc(size ? size : 1);
    if (!block) throw std::bad_alloc();
    return block;
}
