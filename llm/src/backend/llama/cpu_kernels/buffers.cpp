// Tells Rust what happens to the buffers of ggml's CPU backend, and lets it do some of that (`buffers.rs` has the other side).

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ggml-backend-impl.h"
#include "ggml-backend.h"
#include "ggml.h"

extern "C" {

// Makes memory read as zeros; says whether it did.
bool graphmill_buffer_clear(void * first, size_t bytes);
// Is told that a buffer is about to be freed.
void graphmill_buffer_freed(void * first);

// What Rust calls.
void graphmill_buffers_attach(void);

}  // extern "C"

// Written for these interfaces; ggml keeps them to itself and may change them in any version.
static_assert(std::is_same_v<decltype(ggml_backend_buffer_type_i::alloc_buffer),
                             ggml_backend_buffer_t (*)(ggml_backend_buffer_type_t, size_t)>);
static_assert(std::is_same_v<decltype(ggml_backend_buffer_i::clear), void (*)(ggml_backend_buffer_t, uint8_t)>);
static_assert(std::is_same_v<decltype(ggml_backend_buffer_i::free_buffer), void (*)(ggml_backend_buffer_t)>);

namespace {

// ggml's own functions for these buffers.
ggml_backend_buffer_t (*ALLOC)(ggml_backend_buffer_type_t, size_t) = nullptr;
ggml_backend_buffer_i BUFFER                                       = {};

void clear_buffer(ggml_backend_buffer_t buffer, uint8_t value) {
    if (value != 0 || !graphmill_buffer_clear(ggml_backend_buffer_get_base(buffer), buffer->size)) {
        BUFFER.clear(buffer, value);
    }
}

void free_buffer(ggml_backend_buffer_t buffer) {
    graphmill_buffer_freed(ggml_backend_buffer_get_base(buffer));
    BUFFER.free_buffer(buffer);
}

ggml_backend_buffer_t alloc_buffer(ggml_backend_buffer_type_t type, size_t size) {
    ggml_backend_buffer_t buffer = ALLOC(type, size);
    if (buffer != nullptr) {
        buffer->iface.clear       = clear_buffer;
        buffer->iface.free_buffer = free_buffer;
    }
    return buffer;
}

}  // namespace

// To be called once, before anything is allocated.
void graphmill_buffers_attach(void) {
    ggml_backend_buffer_type_t type   = ggml_backend_cpu_buffer_type();
    ggml_backend_buffer_t      buffer = ggml_backend_buft_alloc_buffer(type, 1);
    if (buffer == nullptr) {
        return;
    }
    BUFFER = buffer->iface;
    ggml_backend_buffer_free(buffer);
    ALLOC                    = type->iface.alloc_buffer;
    type->iface.alloc_buffer = alloc_buffer;
}
