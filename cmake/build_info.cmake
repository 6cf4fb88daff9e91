# lib/core/build_info: the commit, compiler and flags that a result record names. The commit is read at build time.
string(TOUPPER "${CMAKE_BUILD_TYPE}" attn_build_type_upper)
set(ATTN_COMPILER_FLAGS "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${attn_build_type_upper}}")
if(ATTN_NATIVE)
  string(APPEND ATTN_COMPILER_FLAGS " (CPU kernels: -march=native)")
endif()
if(ATTN_SANITIZE)
  string(APPEND ATTN_COMPILER_FLAGS " -fsanitize=${ATTN_SANITIZE}")
endif()
string(STRIP "${ATTN_COMPILER_FLAGS}" ATTN_COMPILER_FLAGS)
if(ATTN_WITH_CUDA)
  set(ATTN_WITH_CUDA_BOOL true)
else()
  set(ATTN_WITH_CUDA_BOOL false)
endif()
set(ATTN_GENERATED_DIR ${CMAKE_BINARY_DIR}/generated)
configure_file(${CMAKE_CURRENT_LIST_DIR}/build_config.h.in ${ATTN_GENERATED_DIR}/build_config.h @ONLY)
add_custom_target(attn_git_commit ALL
  COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DOUTPUT=${ATTN_GENERATED_DIR}/git_commit.h
          -P ${CMAKE_CURRENT_LIST_DIR}/write_git_commit.cmake
  BYPRODUCTS ${ATTN_GENERATED_DIR}/git_commit.h
  COMMENT "Reading the git commit" VERBATIM)
