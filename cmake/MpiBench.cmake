# What `make bench-mpi` runs: the library's side, and loops of plain MPI for each MPI. Built when asked for.

add_executable(mpi_bench EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/bench/mpi_bench.cc)
target_include_directories(mpi_bench PRIVATE src)
target_link_libraries(mpi_bench PRIVATE tessera_workloads tessera tessera_warnings)
set_target_properties(mpi_bench PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
add_custom_target(bench_mpi DEPENDS mpi_bench)
foreach(mpi IN LISTS TESSERA_MPIS)
  set(program ${PROJECT_BINARY_DIR}/bench/plain_mpi_${mpi})
  set(source ${PROJECT_SOURCE_DIR}/bench/mpi/plain_mpi.c)
  add_custom_command(
    OUTPUT ${program}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/bench
    COMMAND ${TESSERA_MPICC_${mpi}} -std=c11 -O2 -Wall -Wextra -o ${program} ${source}
    DEPENDS ${source}
    VERBATIM)
  add_custom_target(plain_mpi_${mpi} DEPENDS ${program})
  add_dependencies(bench_mpi plain_mpi_${mpi} tessera_mpi_${mpi})
endforeach()
