// Hidden states, which MTP layers and EAGLE3 models draft from: llama.cpp's functions for them have no C interface (`hidden.rs` has the other side).

#include <algorithm>
#include <cstdint>

#include "llama-ext.h"

extern "C" {

// What Rust calls.
void          graphmill_give_hidden(llama_context * context, bool give, bool all);
const float * graphmill_hidden(llama_context * context, int32_t index);
void          graphmill_give_layer(llama_context * context, uint32_t layer);
const float * graphmill_layer(llama_context * context, uint32_t layer);
uint32_t      graphmill_target_layers(const llama_model * model, int32_t * layers, uint32_t room);

}  // extern "C"

// Says whether the next batches give hidden states: those of all tokens, or of the ones that ask for logits.
void graphmill_give_hidden(llama_context * context, bool give, bool all) {
    llama_set_embeddings_nextn(context, give, !all);
}

// The hidden state behind a token of the last batch; null if there is none.
const float * graphmill_hidden(llama_context * context, int32_t index) {
    return llama_get_embeddings_nextn_ith(context, index);
}

// From here on, batches give what goes into this layer.
void graphmill_give_layer(llama_context * context, uint32_t layer) {
    llama_set_embeddings_layer_inp(context, layer, true);
}

// What went into this layer in the last batch, a row for each token.
const float * graphmill_layer(llama_context * context, uint32_t layer) {
    return llama_get_embeddings_layer_inp(context, layer);
}

// The layers of another model that this one drafts from, and how many there are.
uint32_t graphmill_target_layers(const llama_model * model, int32_t * layers, uint32_t room) {
    const uint32_t count = llama_model_target_layer_ids_n(model);
    std::copy_n(llama_model_target_layer_ids(model), std::min(count, room), layers);
    return count;
}
