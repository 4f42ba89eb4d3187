// Calls that no C++ exception leaves.

#pragma once

#include <exception>

// Is told what an exception says that was caught.
extern "C" void graphmill_caught(const char * what);

// Whether a failed assertion of this thread becomes an exception. Only where all of the work is this thread's own: other threads
// of a computation would wait for it for ever.
extern thread_local int graphmill_assertions_throw;

namespace {

struct Throwing {
    bool on;

    explicit Throwing(bool on) : on(on) { graphmill_assertions_throw += on; }

    ~Throwing() { graphmill_assertions_throw -= on; }
};

template <typename Result, typename Call> Result guarded(bool throwing, Result failed, Call call) {
    try {
        const Throwing while_here(throwing);
        return call();
    } catch (const std::exception & error) {
        graphmill_caught(error.what());
    } catch (...) {
        graphmill_caught("an exception without a message");
    }
    return failed;
}

}  // namespace
