# JAX's way to Tessera: a plugin of the PJRT C API.
if(NOT TESSERA_HAS_PJRT)
  return()
endif()
file(GLOB plugin_sources CONFIGURE_DEPENDS pjrt/*.cc)
add_library(tessera_pjrt MODULE ${plugin_sources})
set_target_properties(tessera_pjrt PROPERTIES PREFIX lib LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/plugin
                      CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
target_include_directories(tessera_pjrt PRIVATE pjrt src)
target_include_directories(tessera_pjrt SYSTEM PRIVATE ${TESSERA_PJRT_HEADERS})
target_link_libraries(tessera_pjrt PRIVATE tessera tessera_warnings nlohmann_json::nlohmann_json)
# Nothing but GetPjrtApi and the functions of pjrt/python_api.h is seen from outside: a process may hold other copies of the libraries that it is made of.
target_link_options(tessera_pjrt PRIVATE -Wl,--exclude-libs,ALL)
# With clang's sanitizers it is the program that has their functions.
if(NOT TESSERA_SANITIZE OR CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_link_options(tessera_pjrt PRIVATE -Wl,-z,defs)
endif()
# Of thread-local memory that comes with a library loaded later, g++ 12's leak check takes what lies in front of it for its
# address and size where it begins 16 bytes behind a page's start, by chance, and then ends with signal 11. There the
# program has all of it from its start.
if(TESSERA_SANITIZE MATCHES "address")
  target_compile_options(tessera_pjrt PRIVATE -ftls-model=initial-exec)
endif()
install(TARGETS tessera_pjrt LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tessera COMPONENT plugin)
# Into the Python package.
if(SKBUILD)
  install(TARGETS tessera_pjrt LIBRARY DESTINATION tessera COMPONENT python)
endif()

# The test loads the plugin as JAX does, and calls nothing of Tessera.
if(TESSERA_BUILD_TESTS)
  find_package(GTest REQUIRED)
  add_executable(pjrt_plugin_test tests/pjrt/plugin_test.cc tests/pjrt/plugin_client.cc)
  target_include_directories(pjrt_plugin_test SYSTEM PRIVATE ${TESSERA_PJRT_HEADERS})
  target_compile_definitions(pjrt_plugin_test PRIVATE TESSERA_PJRT_LIBRARY="$<TARGET_FILE:tessera_pjrt>")
  target_link_libraries(pjrt_plugin_test PRIVATE tessera_warnings GTest::gtest_main ${CMAKE_DL_LIBS})
  if(TESSERA_SANITIZE MATCHES "address")
    target_link_libraries(pjrt_plugin_test PRIVATE -Wl,--no-as-needed tessera)
  endif()
  set_target_properties(pjrt_plugin_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_dependencies(pjrt_plugin_test tessera_pjrt)
  add_dependencies(tests_quick pjrt_plugin_test)
  add_test(NAME pjrt_plugin_test COMMAND pjrt_plugin_test WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(pjrt_plugin_test PROPERTIES LABELS quick TIMEOUT 900 ENVIRONMENT
                       "GTEST_OUTPUT=json:${PROJECT_BINARY_DIR}/test-results/pjrt_plugin_test.json")

  # The engine for PJRT plugins, on this build's own plugin, and on one that fails as it is told.
  add_library(tessera_fake_plugin MODULE tests/engines/pjrt/fake_plugin.cc)
  target_include_directories(tessera_fake_plugin SYSTEM PRIVATE ${TESSERA_PJRT_HEADERS})
  target_link_libraries(tessera_fake_plugin PRIVATE tessera_warnings ${CMAKE_DL_LIBS})
  tessera_test(pjrt_engine_test tests/engines/pjrt/pjrt_engine_test.cc tests/engines/pjrt/pjrt_engine_test_failures.cc
               tests/engines/pjrt/pjrt_engine_test_cache.cc tests/engines/pjrt/pjrt_engine_test_host.cc
               tests/engines/pjrt/pjrt_engine_test_checkpoint.cc tests/engines/pjrt/pjrt_engine_test_one_device.cc
               tests/engines/pjrt/plugin_programs.cc)
  target_compile_definitions(pjrt_engine_test PRIVATE TESSERA_PJRT_LIBRARY="$<TARGET_FILE:tessera_pjrt>"
                             TESSERA_FAKE_PLUGIN="$<TARGET_FILE:tessera_fake_plugin>")
  add_dependencies(pjrt_engine_test tessera_pjrt tessera_fake_plugin)
endif()

# What `make bench-xla` runs. Built when asked for.
add_executable(pjrt_bench EXCLUDE_FROM_ALL tests/bench/pjrt_bench.cc)
target_include_directories(pjrt_bench PRIVATE src)
target_include_directories(pjrt_bench SYSTEM PRIVATE ${TESSERA_PJRT_HEADERS})
target_link_libraries(pjrt_bench PRIVATE tessera tessera_warnings)
set_target_properties(pjrt_bench PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
