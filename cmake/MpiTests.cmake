# Programs under mpirun: tests/mpi/mpi_test*.cc is run whole by every rank, tests/mpi/faults.cc by tests/mpi/check_faults.py,
# which lets ranks fail, examples/language_model.cc by tests/mpi/check_launch.py, which kills ranks. Once for each MPI; where
# one is not installed, its tests are skipped and say so.

file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/mpi/mpi_test*.cc)
add_executable(mpi_test ${sources})
add_executable(mpi_faults ${PROJECT_SOURCE_DIR}/tests/mpi/faults.cc)
foreach(program mpi_test mpi_faults)
  set_property(TARGET ${program} PROPERTY UNITY_BUILD OFF)
  target_link_libraries(${program} PRIVATE tessera_warnings tessera_test_support GTest::gtest
                        nlohmann_json::nlohmann_json)
  target_compile_options(${program} PRIVATE -O0)
  tessera_read_precompiled(${program} tessera_test_headers)
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
endforeach()
target_include_directories(mpi_test PRIVATE ${PROJECT_SOURCE_DIR}/bench)  # the training step that is timed
target_link_libraries(mpi_test PRIVATE tessera_workloads)
add_custom_target(tests_mpi DEPENDS mpi_test mpi_faults)
set(launched FALSE)
if(TARGET tessera_cli AND TARGET example_language_model)
  set(launched TRUE)
  add_dependencies(tests_mpi tessera_cli example_language_model)
endif()

# More ranks than cores, and as root too, which Open MPI wants to be told twice.
set(environment OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    OMPI_MCA_mpi_yield_when_idle=1 TESSERA_THREADS=2 TESSERA_VERIFY_PASSES=1)

function(tessera_mpi_test name)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS mpi TIMEOUT 300 ENVIRONMENT "${environment}" RUN_SERIAL TRUE)
endfunction()

foreach(mpi openmpi mpich)
  find_program(TESSERA_MPIRUN_${mpi} mpirun.${mpi})
  if(NOT mpi IN_LIST TESSERA_MPIS OR NOT TESSERA_MPIRUN_${mpi})
    add_test(NAME mpi_${mpi} COMMAND ${CMAKE_COMMAND} -E echo "SKIPPED: ${mpi} is not installed (tools/setup.sh --mpi)")
    set_tests_properties(mpi_${mpi} PROPERTIES LABELS mpi SKIP_REGULAR_EXPRESSION "SKIPPED:")
    continue()
  endif()
  add_dependencies(tests_mpi tessera_mpi_${mpi})
  set(run ${TESSERA_MPIRUN_${mpi}})
  # processes x devices
  foreach(shape 2x4 4x2 8x1)
    string(REPLACE "x" ";" shape_list ${shape})
    list(GET shape_list 0 ranks)
    list(GET shape_list 1 devices)
    tessera_mpi_test(mpi_${mpi}_${shape} ${run} -n ${ranks} $<TARGET_FILE:mpi_test> --devices=${devices}
                     --gtest_brief=1)
  endforeach()
  tessera_mpi_test(mpi_${mpi}_faults ${PYTHON3} ${PROJECT_SOURCE_DIR}/tests/mpi/check_faults.py ${run}
                   $<TARGET_FILE:mpi_faults>)
  if(launched)
    tessera_mpi_test(mpi_${mpi}_launch ${PYTHON3} ${PROJECT_SOURCE_DIR}/tests/mpi/check_launch.py
                     $<TARGET_FILE:tessera_cli> ${run} $<TARGET_FILE:example_language_model>)
    tessera_mpi_test(mpi_${mpi}_overlap ${PYTHON3} ${PROJECT_SOURCE_DIR}/tests/mpi/check_overlap.py ${run}
                     $<TARGET_FILE:example_language_model>)
  endif()
endforeach()
