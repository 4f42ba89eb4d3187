// Calls of llama.cpp that no C++ exception leaves, and what is said where ggml ends the process (`guard.rs` has the other side).

#include "guard.h"

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <stdexcept>

#include "ggml.h"
#include "llama.h"

extern "C" {

// Is told why the process ends. It does afterwards.
void graphmill_ends(const char * why);

// What Rust calls.
void            graphmill_guard_attach(void);
llama_model *   graphmill_load_model(const char * path, const llama_model_params * params);
llama_context * graphmill_new_context(llama_model * model, const llama_context_params * params);
llama_adapter_lora * graphmill_load_adapter(llama_model * model, const char * path);
int32_t         graphmill_decode(llama_context * context, const llama_batch * batch, int32_t failed);
int32_t         graphmill_encode(llama_context * context, const llama_batch * batch, int32_t failed);
int32_t         graphmill_tokenize(const llama_vocab * vocab, const char * text, int32_t length, llama_token * tokens,
                                   int32_t room, bool add_special, bool parse_special, int32_t failed);

}  // extern "C"

thread_local int graphmill_assertions_throw = 0;

namespace {

// ggml calls this where an assertion has failed, and ends the process if it returns.
void on_abort(const char * message) {
    if (graphmill_assertions_throw > 0) {
        throw std::runtime_error(message);
    }
    graphmill_ends(message);
}

// In the place of ggml's handler, which starts a debugger.
[[noreturn]] void on_terminate() {
    const std::exception_ptr thrown = std::current_exception();
    if (thrown == nullptr) {
        graphmill_ends("std::terminate");
        std::abort();
    }
    try {
        std::rethrow_exception(thrown);
    } catch (const std::exception & error) {
        graphmill_ends(error.what());
    } catch (...) {
        graphmill_ends("an exception without a message");
    }
    std::abort();
}

}  // namespace

// To be called once, before anything is loaded.
void graphmill_guard_attach(void) {
    ggml_set_abort_callback(on_abort);
    std::set_terminate(on_terminate);
}

llama_model * graphmill_load_model(const char * path, const llama_model_params * params) {
    return guarded<llama_model *>(true, nullptr, [&] { return llama_model_load_from_file(path, *params); });
}

llama_context * graphmill_new_context(llama_model * model, const llama_context_params * params) {
    return guarded<llama_context *>(true, nullptr, [&] { return llama_init_from_model(model, *params); });
}

llama_adapter_lora * graphmill_load_adapter(llama_model * model, const char * path) {
    return guarded<llama_adapter_lora *>(true, nullptr, [&] { return llama_adapter_lora_init(model, path); });
}

int32_t graphmill_decode(llama_context * context, const llama_batch * batch, int32_t failed) {
    return guarded<int32_t>(false, failed, [&] { return llama_decode(context, *batch); });
}

int32_t graphmill_encode(llama_context * context, const llama_batch * batch, int32_t failed) {
    return guarded<int32_t>(false, failed, [&] { return llama_encode(context, *batch); });
}

int32_t graphmill_tokenize(const llama_vocab * vocab, const char * text, int32_t length, llama_token * tokens,
                           int32_t room, bool add_special, bool parse_special, int32_t failed) {
    return guarded<int32_t>(true, failed, [&] {
        return llama_tokenize(vocab, text, length, tokens, room, add_special, parse_special);
    });
}
