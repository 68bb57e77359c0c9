# find_package(Tessera) and `pkg-config tessera` for programs that use an installed Tessera.

include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Tessera)

# The same objects as a shared library. Until 1.0 a minor version may change the binary interface, so the soname has both
# numbers.
set(libraries tessera)
if(NOT TESSERA_SANITIZE)
  add_library(tessera_shared SHARED $<TARGET_OBJECTS:tessera>)
  set_target_properties(tessera_shared PROPERTIES OUTPUT_NAME tessera EXPORT_NAME shared LINKER_LANGUAGE CXX
                        VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  target_include_directories(tessera_shared PUBLIC $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(tessera_shared PUBLIC cxx_std_20)
  target_link_libraries(tessera_shared PRIVATE ${TESSERA_DEPENDENCIES})
  list(APPEND libraries tessera_shared)
endif()
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)
install(TARGETS ${libraries} EXPORT TesseraTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development)
install(DIRECTORY include/tessera DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
install(EXPORT TesseraTargets NAMESPACE Tessera:: DESTINATION ${package_dir})
configure_package_config_file(cmake/TesseraConfig.cmake.in ${PROJECT_BINARY_DIR}/TesseraConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/TesseraConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/TesseraConfig.cmake ${PROJECT_BINARY_DIR}/TesseraConfigVersion.cmake
              cmake/TesseraDependencies.cmake DESTINATION ${package_dir})
# Relative to the file itself, so that `cmake --install --prefix` needs no new configuration.
file(RELATIVE_PATH pc_to_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
set(pc_libraries "-l:libtessera.a -ldnnl -lhwy -lsleef -llapacke -lopenblas -lzip -lz -lgomp -pthread -ldl")
foreach(pc_name tessera tessera-shared)
  configure_file(cmake/tessera.pc.in ${PROJECT_BINARY_DIR}/${pc_name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${pc_name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  set(pc_libraries -ltessera)
endforeach()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
# A project that takes in this one packs itself.
if(PROJECT_IS_TOP_LEVEL)
  include(cmake/Packages.cmake)
endif()
