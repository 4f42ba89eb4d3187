// Calls of libmtmd that no C++ exception leaves (`vision.rs` has the other side).

#include "guard.h"

#include <cstddef>
#include <cstdint>
#include <memory>

#include "llama.h"
#include "mtmd.h"

extern "C" {

// What Rust calls.
size_t graphmill_vision_bytes(const char * path, const mtmd_context_params * params);
mtmd_context * graphmill_vision_load(const char * path, const llama_model * model, const mtmd_context_params * params);
int32_t graphmill_vision_prepare(const mtmd_context * context, uint32_t width, uint32_t height, const unsigned char * rgb,
                                 mtmd_input_chunks * chunks, int32_t failed);
int32_t graphmill_vision_prepare_sound(const mtmd_context * context, const float * samples, size_t count, mtmd_input_chunks * chunks,
                                       int32_t failed);
int32_t graphmill_vision_encode(mtmd_context * context, const mtmd_input_chunk * chunk, int32_t failed);

}  // extern "C"

// Bytes that a projector takes; 0 if it cannot be loaded.
size_t graphmill_vision_bytes(const char * path, const mtmd_context_params * params) {
    return guarded<size_t>(true, 0, [&] {
        size_t bytes = 0;
        for (const auto & usage : mtmd_get_memory_usage(path, *params).backend_mem_usage) {
            bytes += usage.second;
        }
        return bytes;
    });
}

mtmd_context * graphmill_vision_load(const char * path, const llama_model * model, const mtmd_context_params * params) {
    return guarded<mtmd_context *>(true, nullptr, [&] { return mtmd_init_from_file(path, model, *params); });
}

// Puts what stands for an image or a sound into `chunks`.
static int32_t prepare(const mtmd_context * context, mtmd_bitmap * medium, mtmd_input_chunks * chunks) {
    const std::unique_ptr<mtmd_bitmap, decltype(&mtmd_bitmap_free)> owned(medium, mtmd_bitmap_free);
    const mtmd_input_part   part{ nullptr, medium };
    const mtmd_input_part * parts[] = { &part };
    return mtmd_tokenize_from_parts(context, chunks, parts, 1, false);
}

int32_t graphmill_vision_prepare(const mtmd_context * context, uint32_t width, uint32_t height, const unsigned char * rgb,
                                 mtmd_input_chunks * chunks, int32_t failed) {
    return guarded<int32_t>(true, failed, [&] { return prepare(context, mtmd_bitmap_init(width, height, rgb), chunks); });
}

int32_t graphmill_vision_prepare_sound(const mtmd_context * context, const float * samples, size_t count, mtmd_input_chunks * chunks,
                                       int32_t failed) {
    return guarded<int32_t>(true, failed, [&] { return prepare(context, mtmd_bitmap_init_from_audio(count, samples), chunks); });
}

int32_t graphmill_vision_encode(mtmd_context * context, const mtmd_input_chunk * chunk, int32_t failed) {
    return guarded<int32_t>(false, failed, [&] { return mtmd_encode_chunk(context, chunk); });
}
