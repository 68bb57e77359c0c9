// SPDX-License-Identifier: Apache-2.0
#include "terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <string_view>

namespace tessera::cli {

std::size_t terminal_width(std::size_t fallback) {
  winsize size{};
  if (::isatty(STDOUT_FILENO) == 0 || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return fallback;
  return size.ws_col;
}

bool shows_colours() {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return ::isatty(STDOUT_FILENO) != 0 && (no_colour == nullptr || *no_colour == '\0') && terminal != nullptr &&
         std::string_view(terminal) != "dumb";
}

std::string coloured(const std::string& drawing) {
  constexpr std::string_view kBar = "│";
  // Light backgrounds of the 256 colours, with black letters.
  constexpr std::array<int, 12> kColours{153, 223, 157, 218, 229, 183, 159, 216, 194, 225, 222, 189};
  std::map<std::string, int> colours;
  std::string out;
  for (std::size_t begin = 0; begin < drawing.size();) {
    const std::size_t end = std::min(drawing.find('\n', begin), drawing.size());
    const std::string line = drawing.substr(begin, end - begin);
    std::size_t at = 0;
    for (std::size_t bar = line.find(kBar); bar != std::string::npos;) {
      out += line.substr(at, bar + kBar.size() - at);
      at = bar + kBar.size();
      bar = line.find(kBar, at);
      if (bar == std::string::npos) break;
      const std::string cell = line.substr(at, bar - at);
      const std::size_t first = cell.find_first_not_of(' ');
      if (first != std::string::npos) {
        const std::string name = cell.substr(first, cell.find_last_not_of(' ') - first + 1);
        const auto [found, is_new] = colours.emplace(name, kColours[colours.size() % kColours.size()]);
        out += "\x1b[48;5;" + std::to_string(found->second) + ";38;5;16m" + cell + "\x1b[0m";
      } else {
        out += cell;
      }
      at = bar;
    }
    out += line.substr(at);
    if (end < drawing.size()) out += '\n';
    begin = end + 1;
  }
  return out;
}

std::size_t width_of(const std::string& drawing) {
  std::size_t most = 0;
  std::size_t width = 0;
  for (const char c : drawing) {
    if (c == '\n') {
      width = 0;
    } else if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U) {  // one for each character of UTF-8
      most = std::max(most, ++width);
    }
  }
  return most;
}

}  // namespace tessera::cli
