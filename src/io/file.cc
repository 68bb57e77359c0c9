// SPDX-License-Identifier: Apache-2.0
#include "io/file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/strings.h"
#include "tessera/error.h"

namespace tessera::io {

std::string read_file(const char* function, const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw ValueError(str(function, ": cannot open \"", path, "\": ", std::strerror(errno)));
  std::ostringstream bytes;
  bytes << in.rdbuf();
  if (in.bad()) throw ValueError(str(function, ": cannot read \"", path, "\": ", std::strerror(errno)));
  return std::move(bytes).str();
}

void write_file(const char* function, const std::string& path, const std::string& bytes) {
  std::string fresh = path + ".part";
  {
    std::ofstream out(fresh, std::ios::binary | std::ios::trunc);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    out.flush();
    if (!out) {
      int why = errno;
      std::remove(fresh.c_str());
      throw ValueError(str(function, ": cannot write \"", path, "\": ", std::strerror(why)));
    }
  }
  if (std::rename(fresh.c_str(), path.c_str()) != 0) {
    int why = errno;
    std::remove(fresh.c_str());
    throw ValueError(str(function, ": cannot replace \"", path, "\": ", std::strerror(why)));
  }
}

}  // namespace tessera::io
