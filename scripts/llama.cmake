# Read by CMake at each `project()` of llama.cpp (`CMAKE_PROJECT_INCLUDE` in .cargo/config.toml).
#
# `llama-common` is what llama.cpp's own programs share: argument parsing, chat templates, downloads. Nothing here uses it, and it
# takes half of llama.cpp's build. The binding always asks for it, because `llama-cpp-2` takes `llama-cpp-sys-2` with its defaults.
set(LLAMA_BUILD_COMMON OFF CACHE BOOL "not used" FORCE)
