# Tests: tests/unit/<layer>_test*.cc make the binary <layer>_test, tests/<folder>/<name>_test*.cc the binary
# <folder>_<name>_test. New files need no edit here. A binary is labelled `long` when its name ends in _long_test, `full`
# when it ends in _more_test (too slow under sanitizers for every change), else `quick`. Every binary leaves its counts in
# test-results/, which tools/test_summary.py adds up.

find_package(GTest REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Boost 1.74 REQUIRED)

file(GLOB support_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/support/*.cc)
add_library(tessera_test_support STATIC ${support_sources})
target_include_directories(tessera_test_support PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src
                           ${PROJECT_SOURCE_DIR}/tests)
set_source_files_properties(${PROJECT_SOURCE_DIR}/tests/support/paths.cc PROPERTIES
                            COMPILE_DEFINITIONS TESSERA_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
target_link_libraries(tessera_test_support PUBLIC tessera GTest::gtest PRIVATE tessera_warnings nlohmann_json::nlohmann_json)
# A static library brings what it links to, a shared one does not, and some tests call zlib themselves.
if(TESSERA_SANITIZE)
  target_link_libraries(tessera_test_support PUBLIC ${TESSERA_DEPENDENCIES})
endif()

# Every test reads the same headers, so they are compiled once; and what a test itself does is too little for an optimiser
# to be worth its time (two fifths of the compile time of all tests together). Support stays optimised.
set(test_options -O0)
# The library and the support are watched for undefined behaviour: tests themselves only call, at half the compile time.
if(TESSERA_SANITIZE MATCHES "undefined")
  list(APPEND test_options -fno-sanitize=undefined)
endif()
# Each access is checked by a call: in place, the same checks take a fifth longer to compile.
if(TESSERA_SANITIZE MATCHES "address" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND test_options "SHELL:--param asan-instrumentation-with-call-threshold=0")
endif()
tessera_precompile(tessera_test_headers <algorithm> <cmath> <functional> <map> <string> <vector> <gtest/gtest.h>
                   <tessera/tessera.h>)
if(TARGET tessera_test_headers)
  target_link_libraries(tessera_test_headers PRIVATE tessera_test_support)
  target_compile_options(tessera_test_headers PRIVATE ${test_options})
endif()

# What `ctest -L <label>` runs, so that a run of some tests builds no others.
foreach(label quick full long)
  add_custom_target(tests_${label})
endforeach()
if(TARGET tessera_cli AND NOT TESSERA_SANITIZE STREQUAL "thread")
  add_dependencies(tests_quick tessera_cli)
endif()

find_program(PYTHON3 python3 REQUIRED)

# Five sources of a test are read as one, in two fifths of their compile time, where all are compiled anyway: in the
# presets of unity builds and in `.ci/run`; twelve in large groups. CMake's own unity builds would have equal names in
# unnamed namespaces meet.
option(TESSERA_UNITE_TESTS "Sources of a test are compiled five as one" ${CMAKE_UNITY_BUILD})
set(united_at_a_time 5)
if(TESSERA_LARGE_GROUPS)
  set(united_at_a_time 12)
endif()
function(tessera_unite variable binary)
  set(united "")
  set(sources ${${variable}})
  while(sources)
    list(SUBLIST sources 0 ${united_at_a_time} some)
    list(REMOVE_ITEM sources ${some})
    list(LENGTH united number)
    set(out ${PROJECT_BINARY_DIR}/united/${binary}_${number}.cc)
    add_custom_command(OUTPUT ${out} COMMAND ${PYTHON3} ${PROJECT_SOURCE_DIR}/tools/unite_sources.py ${out} ${some}
                       DEPENDS ${some} ${PROJECT_SOURCE_DIR}/tools/unite_sources.py
                       WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    list(APPEND united ${out})
  endwhile()
  set(${variable} ${united} PARENT_SCOPE)
endfunction()

# Readers, writers, graph passes and tables of cases: the thread sanitizer sees nothing there that other tests lack.
string(JOIN "|" one_thread annotate annotation_cases bench cli core explicit_cases explicit_meshes explicit_programs
       explicit_types guides hlo interop io ir mesh ops oracle_oracle oracle_reference passes pictures planner props_numpy
       props_ops sharding spmd support vmap)
set(one_thread "^(${one_thread})_test$")
# Public functions over what other tests run, types, plans and tables of their cases: no memory is handled there.
string(JOIN "|" above_memory annotate annotation_cases api bench explicit_cases explicit_meshes explicit_programs explicit_types
       guides mesh oracle_reference passes pictures planner props_numpy sharding support vmap)
set(above_memory "^(${above_memory})_test$")

# GoogleTest has its main in a library of its own, so support may come before it.
function(tessera_test binary)
  set(sources ${ARGN})
  # In these, names of unnamed namespaces are used outside them.
  if(TESSERA_UNITE_TESTS AND NOT binary MATCHES "^(oracle_oracle|explicit_cases|pjrt_engine)_test$")
    tessera_unite(sources ${binary})
  endif()
  add_executable(${binary} ${sources})
  set_property(TARGET ${binary} PROPERTY UNITY_BUILD OFF)
  target_link_libraries(${binary} PRIVATE tessera_warnings tessera_test_support GTest::gtest_main
                        nlohmann_json::nlohmann_json Boost::headers)
  target_compile_options(${binary} PRIVATE ${test_options})
  tessera_read_precompiled(${binary} tessera_test_headers)
  # Code of templates and inline functions that test and library both have is the first one's that the linker meets: the
  # optimised one of the library, as users run it. And small objects are many in tests, as in the command line.
  if(NOT TESSERA_SANITIZE)
    target_link_options(${binary} PRIVATE $<TARGET_FILE:tessera_test_support> $<TARGET_FILE:tessera>)
    if(TARGET mimalloc AND NOT binary MATCHES "^props_allocation_")
      target_link_libraries(${binary} PRIVATE $<LINK_ONLY:mimalloc>)
    endif()
  endif()
  set_target_properties(${binary} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_test(NAME ${binary} COMMAND ${binary} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  if(binary MATCHES "_long_test$")
    set(label long)
    set(timeout 3600)
  elseif(binary MATCHES "_more_test$" OR (TESSERA_SANITIZE STREQUAL "thread" AND binary MATCHES "${one_thread}") OR
         (TESSERA_SANITIZE MATCHES "address" AND binary MATCHES "${above_memory}"))
    set(label full)
    set(timeout 900)
  else()
    set(label quick)
    set(timeout 900)
  endif()
  add_dependencies(tests_${label} ${binary})
  # Every pass verifies the graph that it makes.
  set(environment "GTEST_OUTPUT=json:${PROJECT_BINARY_DIR}/test-results/${binary}.json" TESSERA_VERIFY_PASSES=1)
  if(TARGET tessera_cli)
    list(APPEND environment "TESSERA_CLI=$<TARGET_FILE:tessera_cli>")
  endif()
  if(TESSERA_SANITIZE STREQUAL "thread")
    list(APPEND environment "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/tsan.supp halt_on_error=1 die_after_fork=0")
  endif()
  # One thread alone, of which two fifths is code written at run time, which no sanitizer watches.
  if(TESSERA_SANITIZE STREQUAL "thread" AND binary STREQUAL "kernels_test")
    list(APPEND environment "GTEST_FILTER=-Compiled.*:Linalg.*:Reduce.Integers:Gemm.Complex:Gemm.Integers:Gemm.Halves:Sort.EveryDtype")
  endif()
  # Measures the machine in a process of its own, for a minute and a half.
  if(TESSERA_SANITIZE MATCHES "address" AND binary STREQUAL "cli_test")
    list(APPEND environment "GTEST_FILTER=-Calibrate.WritesAClusterAndChecksIt")
  endif()
  set_tests_properties(${binary} PROPERTIES LABELS ${label} TIMEOUT ${timeout} ENVIRONMENT "${environment}")
endfunction()

foreach(folder unit ir props engines oracle annotation explicit)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${folder}/*_test*.cc)
  set(binaries "")
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME)
    string(REGEX REPLACE "^(.*_test).*\\.cc$" "\\1" binary ${name})
    if(NOT folder STREQUAL "unit")
      set(binary ${folder}_${binary})
    endif()
    list(APPEND binaries ${binary})
    list(APPEND sources_of_${binary} ${source})
  endforeach()
  list(REMOVE_DUPLICATES binaries)
  foreach(binary IN LISTS binaries)
    tessera_test(${binary} ${sources_of_${binary}})
  endforeach()
endforeach()

# Machines with wide vectors test the kernels and the machine code of the others too.
if(NOT TESSERA_SANITIZE STREQUAL "thread")
  add_test(NAME kernels_narrow_test COMMAND kernels_test --gtest_filter=Compiled.*:Vectors.* WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(kernels_narrow_test PROPERTIES LABELS quick TIMEOUT 900 ENVIRONMENT TESSERA_VECTOR_BYTES=32)
endif()

# More threads than shards share out what each shard's kernel does (`base::team_size`), which a few cores never do.
function(tessera_many_threads_test name binary filter)
  add_test(NAME ${name} COMMAND ${binary} --gtest_filter=${filter} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  get_test_property(${binary} ENVIRONMENT environment)
  list(FILTER environment EXCLUDE REGEX "^GTEST_OUTPUT=")
  set_tests_properties(${name} PROPERTIES LABELS quick TIMEOUT 900 ENVIRONMENT "${environment};TESSERA_THREADS=16")
endfunction()
tessera_many_threads_test(kernels_threads_test kernels_test "Conv.GivesTheSame*:Conv.Large*:Gemm.Float:Fused.*:Reduce.Floats:Scatter.*:TopK.*")
tessera_many_threads_test(life_threads_test life_test "ThreadsTest.*")
tessera_many_threads_test(programs_threads_test props_programs_test "*")

target_link_libraries(interop_test PRIVATE Eigen3::Eigen)
# What tests/interop/check_dlpack.py and check_arrow.py load (`make test-python`).
foreach(other dlpack arrow)
  add_library(tessera_${other}_module MODULE EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/interop/${other}_module.cc)
  target_link_libraries(tessera_${other}_module PRIVATE tessera tessera_warnings)
  set_target_properties(tessera_${other}_module PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/interop)
endforeach()

# Their allocations fail: the library's calls of the C allocators go through the test.
foreach(binary props_allocation_test props_allocation_long_test)
  target_link_options(${binary} PRIVATE -Wl,--wrap=malloc -Wl,--wrap=aligned_alloc -Wl,--wrap=posix_memalign)
  # A shared library's would not: there the test has the library's objects itself, and needs the library no more.
  if(TESSERA_SANITIZE)
    target_sources(${binary} PRIVATE $<TARGET_OBJECTS:tessera>)
    target_link_options(${binary} PRIVATE -Wl,--as-needed)
  endif()
endforeach()

# What the compiler says of common mistakes.
if(NOT TESSERA_SANITIZE)
  add_test(NAME mistakes COMMAND ${PYTHON3} ${PROJECT_SOURCE_DIR}/tests/mistakes/check.py ${CMAKE_CXX_COMPILER}
                                 ${PROJECT_SOURCE_DIR}/include)
  set_tests_properties(mistakes PROPERTIES LABELS quick TIMEOUT 900)
endif()

# The C++ blocks of the guides are tests.
file(GLOB guides CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/coming-from-*.md)
foreach(guide quick-start concepts numerics halo-exchange settings interop plans planner checkpoints explicit-sharding)
  list(APPEND guides ${PROJECT_SOURCE_DIR}/docs/${guide}.md)
endforeach()
set(guide_sources "")
foreach(guide IN LISTS guides)
  get_filename_component(name ${guide} NAME_WE)
  set(source ${PROJECT_BINARY_DIR}/guides/${name}.cc)
  add_custom_command(OUTPUT ${source}
                     COMMAND ${PYTHON3} ${PROJECT_SOURCE_DIR}/tools/doc_snippets.py ${guide} ${source}
                     DEPENDS ${guide} ${PROJECT_SOURCE_DIR}/tools/doc_snippets.py)
  list(APPEND guide_sources ${source})
endforeach()
tessera_test(guides_test ${guide_sources})
target_link_libraries(guides_test PRIVATE Eigen3::Eigen)

# MPI's own memory and threads are not for the sanitizers.
if(NOT TESSERA_SANITIZE)
  include(cmake/MpiTests.cmake)
endif()
