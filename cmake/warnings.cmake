# One interface target carries the warnings, the sanitizers and the include root of the project's own code.
add_library(attn_flags INTERFACE)
target_include_directories(attn_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(attn_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror=return-type>)
if(ATTN_SANITIZE)
  target_compile_options(attn_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${ATTN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all>
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)  # g++ guesses wrong in instrumented code
  target_link_options(attn_flags INTERFACE -fsanitize=${ATTN_SANITIZE})
endif()
