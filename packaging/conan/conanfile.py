# SPDX-License-Identifier: Apache-2.0
"""Conan recipe, used from a checkout of the project:

    conan create packaging/conan        builds the library and the command line, and tries the package
    conan export-pkg packaging/conan    packs what `make build` has built in build/, and tries it

What the library is built with comes from the system (Debian's names are below): Conan's own packages lack some of it.
"""
import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain
from conan.tools.files import copy, load
from conan.tools.system.package_manager import Apt

REPOSITORY = os.path.join("..", "..")


class Tessera(ConanFile):
    name = "tessera"
    license = "Apache-2.0"
    description = "Sharded arrays on many devices: meshes, parallelism from shardings, collectives, transformations"
    topics = ("arrays", "sharding", "spmd", "stablehlo", "autodiff")
    package_type = "static-library"
    settings = "os", "arch", "compiler", "build_type"

    def set_version(self):
        header = load(self, os.path.join(self.recipe_folder, REPOSITORY, "include", "tessera", "version.h"))
        self.version = re.search(r'TESSERA_VERSION "([^"]+)"', header)[1]

    def export_sources(self):
        checkout = os.path.join(self.recipe_folder, REPOSITORY)
        for what in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/*", "cli/*", "xla/*", "pjrt/*"):
            copy(self, what, checkout, self.export_sources_folder)

    def layout(self):
        self.folders.root = REPOSITORY
        self.folders.source = "."
        self.folders.build = "build"
        self.folders.generators = os.path.join("build", "conan_generators")

    def validate(self):
        check_min_cppstd(self, 20)

    def system_requirements(self):
        Apt(self).check([
            "libdnnl-dev", "libhwy-dev", "libsleef-dev", "libopenblas-pthread-dev", "liblapacke-dev", "libeigen3-dev",
            "nlohmann-json3-dev", "libdlpack-dev", "libboost-dev", "libboost-math-dev", "libzip-dev", "zlib1g-dev",
            "libxbyak-dev", "libcli11-dev", "libmimalloc-dev",
        ])

    def generate(self):
        toolchain = CMakeToolchain(self, generator="Ninja")
        toolchain.cache_variables["TESSERA_BUILD_TESTS"] = False
        toolchain.cache_variables["TESSERA_BUILD_EXAMPLES"] = False
        toolchain.user_presets_path = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        self.run(f'cmake --install "{self.build_folder}" --prefix "{self.package_folder}"')

    def package_info(self):
        # Programs find the package that the library itself installs, which names what it is linked with.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "Tessera")]
