// SPDX-License-Identifier: Apache-2.0
#include "array/noted.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "array/array_impl.h"
#include "base/strings.h"
#include "runtime/engine.h"

namespace tessera::arrays {

Array noted(Array made, const char* function) {
  const ArrayImpl& impl = *made.impl();
  const auto& devices = *impl.placement->devices;
  if (devices.all_local()) return made;
  const auto& others = runtime::runtime_of(devices.client).collectives;
  if (!others) return made;  // devices that only show shardings
  std::vector<std::int32_t> processes;
  Dims ids;
  for (const Device& d : devices.devices) {
    processes.push_back(d.process_index());
    ids.push_back(d.id());
  }
  std::sort(processes.begin(), processes.end());
  processes.erase(std::unique(processes.begin(), processes.end()), processes.end());
  const Loc* line = CallSite::innermost();
  others->journal().made(std::move(processes),
                         str(dtype_name(impl.type.dtype), impl.type.shape, " under ", impl.sharding->text(),
                             " on devices ", base::list_text(ids)),
                         line == nullptr ? function : str(function, " at ", *line));
  return made;
}

}  // namespace tessera::arrays
