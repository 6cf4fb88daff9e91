# attn_add_library(NAME SOURCES ... [PUBLIC libs] [PRIVATE libs]): one room of kernels/, lib/ or apps/.
function(attn_add_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC attn_flags ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
endfunction()

# attn_add_program(NAME MAIN main.cc LIBRARIES ...): a command-line tool in build/bin.
function(attn_add_program name)
  cmake_parse_arguments(arg "" "MAIN" "LIBRARIES" ${ARGN})
  add_executable(${name} ${arg_MAIN})
  target_link_libraries(${name} PRIVATE attn_flags ${arg_LIBRARIES})
endfunction()

# Catch's header is half of a small test's compile time: the first test precompiles it for all. That needs the same flags
# everywhere, hence -fopenmp for every test; clang is stricter still and goes without.
function(attn_share_catch_header name)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  get_property(first_test GLOBAL PROPERTY ATTN_FIRST_TEST)
  if(first_test)
    target_precompile_headers(${name} REUSE_FROM ${first_test})
  else()
    target_precompile_headers(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${PROJECT_SOURCE_DIR}/tests/catch.h>)
    set_property(GLOBAL PROPERTY ATTN_FIRST_TEST ${name})
  endif()
endfunction()

# attn_add_test(NAME SOURCES ... LIBRARIES ... [LABELS cpu|cuda|long]): a Catch2 program; each case is a CTest test.
# What is labelled long takes minutes: tools/test leaves it out, .ci/run runs a part.
# A case that cannot run prints "[skipped] reason" (tests/catch.h: ATTN_SKIP) and CTest shows it as skipped.
function(attn_add_test name)
  cmake_parse_arguments(arg "" "LABELS" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT arg_LABELS)
    set(arg_LABELS cpu)
  endif()
  set(timeout 300)
  if("long" IN_LIST arg_LABELS)
    set(timeout 3600)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE attn_flags attn_catch OpenMP::OpenMP_CXX ${arg_LIBRARIES})
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O1>)  # tests are compiled oftener than run
  target_compile_definitions(${name} PRIVATE ATTN_SOURCE_DIR="${PROJECT_SOURCE_DIR}" ATTN_BIN_DIR="${CMAKE_BINARY_DIR}/bin")
  attn_share_catch_header(${name})
  catch_discover_tests(${name} TEST_PREFIX "${name}: " WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    PROPERTIES LABELS ${arg_LABELS} SKIP_REGULAR_EXPRESSION "\\[skipped\\]" TIMEOUT ${timeout}
      ENVIRONMENT OMP_WAIT_POLICY=PASSIVE)  # tests share the cores: a thread that waits must not spin
endfunction()

# attn_test_on_gpu(NAME): the cases of a test that asks tests/test_device.h once more, on a GPU; skipped without one.
function(attn_test_on_gpu name)
  if(ATTN_WITH_CUDA)
    # -d no is Catch's default: other arguments than the first registration's keep their lists of tests apart.
    catch_discover_tests(${name} TEST_PREFIX "${name} on cuda: " WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} EXTRA_ARGS -d no
      PROPERTIES LABELS cuda ENVIRONMENT ATTN_TEST_DEVICE=cuda TIMEOUT 300
                 SKIP_REGULAR_EXPRESSION "\\[skipped\\]|no usable GPU")
  endif()
endfunction()
