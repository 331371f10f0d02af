// SPDX-License-Identifier: MIT
// The threads of regions: how many can be started, how they wait, and what is left of them in a forked process.
#include "core/team.h"

#include <omp.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#ifdef __linux__
#include <dlfcn.h>
#include <sys/syscall.h>
#endif

namespace {

constexpr int32_t MOST_THREADS = 4096;

// The most threads that the run time keeps for the calling thread, and whether it lost them in a fork.
thread_local int32_t team_kept = 1;
thread_local bool team_lost = false;

// ---- how many can be started: where one cannot, the run time ends the process

// The bytes of a thread's stack that OMP_STACKSIZE or GOMP_STACKSIZE asks for; 0 where they do not.
size_t stack_bytes() {
    for (const char* name : {"OMP_STACKSIZE", "GOMP_STACKSIZE"}) {
        const char* const text = std::getenv(name);
        if (!text) continue;
        char* end;
        errno = 0;
        const unsigned long long number = std::strtoull(text, &end, 10);
        if (end == text || errno) continue;
        while (*end == ' ') ++end;
        const char unit = *end ? *end : 'k';
        const int shift = unit == 'b' || unit == 'B'   ? 0
                          : unit == 'm' || unit == 'M' ? 20
                          : unit == 'g' || unit == 'G' ? 30
                                                       : 10;
        if (number >> (63 - shift)) continue;
        return size_t(number) << shift;
    }
    return 0;
}

struct Trial {
    pthread_t thread;
    pthread_mutex_t* gate;
    std::atomic<long> number;
};

void* wait_at_gate(void* argument) {
    Trial* const trial = static_cast<Trial*>(argument);
#ifdef __linux__
    trial->number = syscall(SYS_gettid);
#endif
    pthread_mutex_lock(trial->gate);
    pthread_mutex_unlock(trial->gate);
    return nullptr;
}

// Until the system counts a thread that was joined no more: its place is needed at once.
void wait_until_gone([[maybe_unused]] long number) {
#ifdef __linux__
    constexpr int LOOKS = 100000;
    for (int look = 0; look < LOOKS && syscall(SYS_tgkill, getpid(), number, 0) == 0; ++look) sched_yield();
#endif
}

// How many of so many threads can be started beside those that there are. They are started all, and end.
int32_t startable(int32_t wanted) {
    std::vector<Trial> trials;
    try {
        trials = std::vector<Trial>(wanted);
    } catch (const std::bad_alloc&) {
        return 0;
    }
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes)) return 0;
    // A size that the system refuses is one that the run time does not take either.
    if (const size_t bytes = stack_bytes()) pthread_attr_setstacksize(&attributes, bytes);
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&gate);
    int32_t started = 0;
    for (; started < wanted; ++started) {
        trials[started].gate = &gate;
        if (pthread_create(&trials[started].thread, &attributes, wait_at_gate, &trials[started])) break;
    }
    pthread_mutex_unlock(&gate);
    for (int32_t n = 0; n < started; ++n) pthread_join(trials[n].thread, nullptr);
    for (int32_t n = 0; n < started; ++n) wait_until_gone(trials[n].number);
    pthread_attr_destroy(&attributes);
    return started;
}

// ---- how they wait

enum Waiting : int { AS_THE_RUN_TIME_DOES, SHORTLY, SHORTLY_IN_A_CROWD };
std::atomic<int> waiting{AS_THE_RUN_TIME_DOES};

std::mutex crowd_mutex;
int32_t crowd_size = 0;

struct Rest {
    int32_t threads;
    std::atomic<int32_t> begun;
    std::atomic<bool> done;
};

void* rest(void* argument) {
    Rest* const task = static_cast<Rest*>(argument);
    const int32_t threads = task->threads;
#pragma omp parallel num_threads(threads)
    ++task->begun;
    task->done = true;
    for (;;) pause();
}

// GCC's run time has no call for how long its threads wait busily, but with more threads than processors they do so for
// a moment only. So many that a team of this size exceeds them rest for good, in the team of a thread of their own.
void crowd(int32_t size) {
    const std::lock_guard<std::mutex> lock(crowd_mutex);
    const int32_t missing = omp_get_num_procs() + 1 - size - crowd_size;
    if (missing < 1 || startable(missing + 1) <= missing) return;
    Rest task = {missing + 1, {0}, {false}};
    sigset_t all, before;
    sigfillset(&all);
    // Signals are for the threads of the program.
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    const bool started = pthread_create(&thread, nullptr, rest, &task) == 0;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!started) return;
    pthread_detach(thread);
    while (!task.done) sched_yield();
    crowd_size += task.begun - 1;
}

// Those of LLVM's and Intel's run time are told so, by each thread that has a team.
bool told_to_wait_shortly() {
#ifdef __linux__
    using SetBlocktime = void (*)(int);
    static const auto set = reinterpret_cast<SetBlocktime>(dlsym(RTLD_DEFAULT, "kmp_set_blocktime"));
    if (set) set(0);
    return set;
#else
    return false;
#endif
}

void wait_shortly(int32_t size) {
    if (waiting != AS_THE_RUN_TIME_DOES && !told_to_wait_shortly() && waiting == SHORTLY_IN_A_CROWD) crowd(size);
}

// ---- in a forked process

void before_fork() {
    crowd_mutex.lock();
    hold_released_memory();
}

void after_fork() {
    let_released_memory_go();
    crowd_mutex.unlock();
}

// The thread that forked is alone: the run time would wait for the others of its team for ever, but a region of one
// thread needs none. Threads that are started from now on have teams as ever.
void in_forked() {
    after_fork();
    team_lost = team_lost || team_kept > 1;
    team_asked = -1;
}

[[maybe_unused]] const int registered = pthread_atfork(before_fork, after_fork, in_forked);

}  // namespace

void make_team(int32_t threads) {
    int32_t size = threads > 0 ? threads : omp_get_max_threads();
    size = team_lost ? 1 : std::max(1, std::min({size, MOST_THREADS, omp_get_thread_limit()}));
    if (size > team_kept) {
        team_kept = size = team_kept + startable(size - team_kept);
        // At once: what else starts threads could take their room before a region is large enough for them.
        std::atomic<int32_t> begun{0};
#pragma omp parallel num_threads(size)
        ++begun;
    }
    if (size > 1) wait_shortly(size);
    team_asked = threads;
    team_size = size;
}

extern "C" int32_t poisson_threads(int32_t threads) {
    make_team(threads);
    return team_size;
}

extern "C" void poisson_wait_shortly(int32_t run_time_was_loaded) {
    waiting = run_time_was_loaded ? SHORTLY_IN_A_CROWD : SHORTLY;
}
