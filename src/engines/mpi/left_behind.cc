// SPDX-License-Identifier: Apache-2.0
#include "engines/mpi/left_behind.h"

#include <algorithm>
#include <iterator>
#include <memory>

namespace tessera::mpi {

void LeftBehind::give_up(int tag, std::chrono::duration<double> how_long) {
  const Time now = std::chrono::steady_clock::now();
  given_up_.push_back({tag, now + std::chrono::duration_cast<Time::duration>(how_long)});
  if (given_up_.size() > kRemembered) given_up_.pop_front();
}

void LeftBehind::add(std::list<Parts>& one) noexcept {
  for (const Part& p : one.front()) {
    if (!p.done && p.receives) mpi_.cancel(p.request);
  }
  parts_.splice(parts_.end(), one);
}

std::list<Parts> LeftBehind::take_ended() {
  const Time now = std::chrono::steady_clock::now();
  std::erase_if(given_up_, [&](const GivenUp& g) { return g.until < now; });
  for (const GivenUp& g : given_up_) take_strays(g.tag);
  std::list<Parts> out;
  for (auto parts = parts_.begin(); parts != parts_.end();) {
    auto next = std::next(parts);
    for (Part& p : *parts) {
      int done = 0;
      if (!p.done) mpi_.test(p.request, &done, nullptr);
      p.done = p.done || done != 0;
    }
    if (std::all_of(parts->begin(), parts->end(), [](const Part& p) { return p.done; })) {
      out.splice(out.end(), parts_, parts);
    }
    parts = next;
  }
  return out;
}

void LeftBehind::take_strays(int tag) {
  int found = 0;
  tessera_mpi_message message{};
  while (mpi_.probe(TESSERA_MPI_DATA, tag, &found, &message) == 0 && found) {
    const auto nbytes = std::max<std::int64_t>(message.nbytes, 0);
    auto bytes = std::make_shared<std::vector<char>>(static_cast<std::size_t>(nbytes));
    std::list<Parts> one{{Part{nullptr, message.peer, nbytes, true, false, bytes}}};
    Part& p = one.front().front();
    if (mpi_.receive(TESSERA_MPI_DATA, bytes->data(), static_cast<int>(nbytes), p.peer, message.tag, &p.request) != 0) {
      return;
    }
    parts_.splice(parts_.end(), one);
  }
}

void LeftBehind::abandon() {
  for (Parts& parts : parts_) {
    for (Part& p : parts) {
      if (!p.done) mpi_.abandon(p.request);
      p.done = true;
    }
  }
}

}  // namespace tessera::mpi
