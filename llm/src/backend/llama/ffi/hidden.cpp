// Hidden states, which MTP layers draft from: llama.cpp's functions for them have no C interface (`hidden.rs` has the other side).

#include <cstdint>

#include "llama-ext.h"

extern "C" {

// What Rust calls.
void          graphmill_give_hidden(llama_context * context, bool give, bool all);
const float * graphmill_hidden(llama_context * context, int32_t index);

}  // extern "C"

// Says whether the next batches give hidden states: those of all tokens, or of the ones that ask for logits.
void graphmill_give_hidden(llama_context * context, bool give, bool all) {
    llama_set_embeddings_nextn(context, give, !all);
}

// The hidden state behind a token of the last batch; null if there is none.
const float * graphmill_hidden(llama_context * context, int32_t index) {
    return llama_get_embeddings_nextn_ith(context, index);
}
