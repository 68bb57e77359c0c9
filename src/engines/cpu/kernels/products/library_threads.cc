// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/products/library_threads.h"

#include <cblas.h>
#include <dlfcn.h>

#include "base/address_space.h"
#include "base/process.h"
#include "tessera/error.h"

namespace tessera::kernels {

namespace {

struct OpenMp;
const OpenMp& open_mp();

// Looked up at run time: whichever OpenMP runtime oneDNN was linked with is the one to ask.
struct OpenMp {
  int (*get)() = nullptr;
  void (*set)(int) = nullptr;
  OpenMp() {
    if (openblas_get_num_threads() != 1) openblas_set_num_threads(1);
    get = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
    set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
    if (!get || !set) get = nullptr;
    // The runtime's threads are the parent's, and the thread that forks would wait for its own ones for ever.
    base::at_fork(base::ForkStage::Libraries, {nullptr, nullptr, [] {
                                                 if (open_mp().get) open_mp().set(1);
                                               }});
  }
};

const OpenMp& open_mp() {
  static const auto* functions = new OpenMp;
  return *functions;
}

}  // namespace

SingleThreadedLibraries::SingleThreadedLibraries() {
  base::check_address_space(base::kBlasBuffer);
  const OpenMp& omp = open_mp();
  if (!omp.get) return;
  before_ = omp.get();
  if (before_ != 1) omp.set(1);
}

void SingleThreadedLibraries::need_onednn() const {
  base::stop_if_ended();
  if (!has_onednn()) {
    throw StateError("this product or convolution needs oneDNN, whose objects are gone: the program has ended");
  }
}

SingleThreadedLibraries::~SingleThreadedLibraries() {
  if (before_ != 1) open_mp().set(before_);
}

}  // namespace tessera::kernels
