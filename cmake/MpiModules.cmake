# The transport between processes is a module for each MPI, loaded when a program asks for it: the library links none, and
# both may be installed (Debian's libopenmpi-dev and libmpich-dev). Plain C, by the MPI's own compiler wrapper.

# Where an installed module is: in the library's prefix, which may be another one at install time than here.
set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/engines/mpi/load_module.cc APPEND PROPERTY COMPILE_DEFINITIONS
             TESSERA_PREFIX="${CMAKE_INSTALL_PREFIX}" TESSERA_MODULE_DIR="${CMAKE_INSTALL_LIBDIR}/tessera")
set(TESSERA_MPIS "")
set(source ${PROJECT_SOURCE_DIR}/src/engines/mpi/module/mpi_module.c)
foreach(mpi openmpi mpich)
  find_program(TESSERA_MPICC_${mpi} mpicc.${mpi})
  if(NOT TESSERA_MPICC_${mpi})
    message(STATUS "mpicc.${mpi} not found: no MPI module for it (tools/setup.sh --mpi installs both)")
    continue()
  endif()
  set(module ${PROJECT_BINARY_DIR}/modules/tessera_mpi_${mpi}.so)
  add_custom_command(
    OUTPUT ${module}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/modules
    COMMAND ${TESSERA_MPICC_${mpi}} -std=c11 -O2 -g -Wall -Wextra -fPIC -shared -o ${module} ${source}
    DEPENDS ${source} ${PROJECT_SOURCE_DIR}/src/engines/mpi/module/mpi_module.h
    COMMENT "Building the MPI module for ${mpi}"
    VERBATIM)
  add_custom_target(tessera_mpi_${mpi} ALL DEPENDS ${module})
  install(FILES ${module} DESTINATION ${CMAKE_INSTALL_LIBDIR}/tessera COMPONENT ${mpi})
  list(APPEND TESSERA_MPIS ${mpi})
endforeach()
