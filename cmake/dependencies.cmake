# The only find_package calls of the project: distribution packages, nothing is downloaded.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)

# OpenBLAS and utf8proc: by header and library, since their pkg-config files differ between distributions.
find_path(ATTN_CBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas openblas-openmp openblas-pthread
          x86_64-linux-gnu/openblas-openmp x86_64-linux-gnu/openblas-pthread REQUIRED)
find_library(ATTN_OPENBLAS openblas PATH_SUFFIXES openblas-openmp openblas-pthread REQUIRED)
add_library(attn_openblas INTERFACE)
target_include_directories(attn_openblas SYSTEM INTERFACE ${ATTN_CBLAS_INCLUDE})
target_link_libraries(attn_openblas INTERFACE ${ATTN_OPENBLAS})

find_path(ATTN_UTF8PROC_INCLUDE utf8proc.h REQUIRED)
find_library(ATTN_UTF8PROC NAMES libutf8proc.a utf8proc REQUIRED)
add_library(attn_utf8proc INTERFACE)
target_include_directories(attn_utf8proc SYSTEM INTERFACE ${ATTN_UTF8PROC_INCLUDE})
target_link_libraries(attn_utf8proc INTERFACE ${ATTN_UTF8PROC})

if(ATTN_TESTS)
  find_package(Catch2 REQUIRED)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)  # the tests of tools/
endif()

if(ATTN_WITH_CUDA)
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 89-real 90)
  endif()
  if(ATTN_NVCC AND NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    set(CMAKE_CUDA_COMPILER ${ATTN_NVCC})  # also where it is not on the PATH
  endif()
  enable_language(CUDA)
  if(CMAKE_VERSION VERSION_LESS 3.26)  # CMake 3.25 knows no -std=c++20 of nvcc 13
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  find_package(CUDAToolkit REQUIRED)
endif()
