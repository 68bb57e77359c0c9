// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/products/library_threads.h"

#include <cblas.h>

#include "base/process.h"
#include "dnnl.hpp"
#include "tessera/error.h"

// Of libgomp, the runtime of oneDNN. Its header is a compiler's own, and another compiler's does not fit.
extern "C" {
int omp_get_max_threads();
void omp_set_num_threads(int threads);
}

namespace tessera::kernels {

namespace {

void prepare() {
  if (openblas_get_parallel() == OPENBLAS_SEQUENTIAL) {
    throw StateError(
        "products: this OpenBLAS was built without threads, and then has no locks either: calls of several threads "
        "give "
        "wrong values; install the one with threads (Debian: libopenblas0-pthread), of which one is used");
  }
  if (openblas_get_num_threads() != 1) openblas_set_num_threads(1);
  // libgomp's threads are the parent's, and the thread that forks would wait for its own ones for ever.
  base::at_fork(base::ForkStage::Libraries, {nullptr, nullptr, [] { omp_set_num_threads(1); }});
}

}  // namespace

SingleThreadedLibraries::SingleThreadedLibraries() {
  static const bool prepared = (prepare(), true);
  static_cast<void>(prepared);
  before_ = omp_get_max_threads();
  if (before_ != 1) omp_set_num_threads(1);
}

void SingleThreadedLibraries::need_onednn() const {
  base::stop_if_ended();
  if (!has_onednn()) {
    throw StateError("this product or convolution needs oneDNN, whose objects are gone: the program has ended");
  }
}

SingleThreadedLibraries::~SingleThreadedLibraries() {
  if (before_ != 1) omp_set_num_threads(before_);
}

const dnnl::engine& onednn_engine() {
  static const auto* engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

}  // namespace tessera::kernels
