// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint/agreement.h"

#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "base/strings.h"
#include "runtime/engine.h"
#include "tessera/error.h"

namespace tessera::io {

namespace {

constexpr char kFine = '+';
constexpr char kFailed = '-';

// The reason of the exception that is being handled, without the line of the caller, which the message that it becomes
// a part of has itself.
std::string reason() {
  std::string text;
  try {
    throw;
  } catch (const std::exception& e) {
    text = e.what();
  } catch (...) {
    return "an exception of no standard kind";
  }
  const std::size_t line = text.rfind(" (at ");
  return line != std::string::npos && text.ends_with(')') ? text.substr(0, line) : text;
}

}  // namespace

CheckpointState& checkpoint_state(const Client& client) {
  static const char key = 0;
  return *std::static_pointer_cast<CheckpointState>(client.extensions().get(&key, []() -> std::shared_ptr<void> {
    auto state = std::make_shared<CheckpointState>();
    state->writer = runtime::TaskScheduler::create(1);
    return state;
  }));
}

Agreement::Agreement(const Client& client, std::int64_t tag, std::string what)
    : call_{.tag = tag, .name = "checkpoint", .aside = true}, what_(std::move(what)) {
  if (client.process_count() == 1) return;
  collectives_ = runtime::runtime_of(client).collectives;
  process_index_ = client.process_index();
  process_count_ = client.process_count();
}

void Agreement::send(int to, const std::string& text) const {
  auto n = std::make_shared<const std::uint64_t>(text.size());
  auto own = std::make_shared<const std::string>(text);
  const runtime::Collectives::Message length{to, n.get(), sizeof(*n), n};
  const runtime::Collectives::Message body{to, own->data(), static_cast<std::int64_t>(*n), own};
  collectives_->exchange(call_, {&length, 1}, {});
  collectives_->exchange(call_, {&body, 1}, {});
}

std::string Agreement::receive(int from) const {
  auto n = std::make_shared<std::uint64_t>(0);
  const runtime::Collectives::Receipt length{from, n.get(), sizeof(*n), n};
  collectives_->exchange(call_, {}, {&length, 1});
  auto text = std::make_shared<std::string>(*n, '\0');
  const runtime::Collectives::Receipt body{from, text->data(), static_cast<std::int64_t>(*n), text};
  collectives_->exchange(call_, {}, {&body, 1});
  return *text;
}

std::string Agreement::decide_for_all(
    std::string mine, std::exception_ptr own,
    const std::function<std::vector<std::string>(const std::vector<std::string>&)>& decide) const {
  std::vector<std::string> reports{std::move(mine)};
  for (int p = 1; p < process_count_; ++p) {
    try {
      reports.push_back(receive(p));
    } catch (...) {
      reports.push_back(kFailed + reason());
    }
  }
  std::string failure;
  std::vector<std::string> plain;
  for (std::size_t p = 0; p < reports.size(); ++p) {
    if (reports[p].front() == kFailed && failure.empty()) {
      failure = str(what_, " failed in process ", p, ": ", reports[p].substr(1));
    }
    plain.push_back(reports[p].substr(1));
  }
  std::vector<std::string> answers(reports.size());
  if (failure.empty()) {
    try {
      answers = decide(plain);
    } catch (...) {
      own = std::current_exception();
      failure = str(what_, " failed in process 0: ", reason());
    }
  }
  for (int p = 1; p < process_count_; ++p) {
    try {
      send(p, failure.empty() ? kFine + answers[static_cast<std::size_t>(p)] : kFailed + failure);
    } catch (...) {
      // It is gone, which its own wait or the next round reports; the others still learn the answer.
      if (failure.empty()) failure = str(what_, " failed: process ", p, " has ended");
    }
  }
  if (own) std::rethrow_exception(own);
  if (!failure.empty()) throw StateError(failure);
  return answers[0];
}

std::string Agreement::round(
    const std::function<std::string()>& report,
    const std::function<std::vector<std::string>(const std::vector<std::string>&)>& decide) const {
  if (process_count_ == 1) return decide({report()}).at(0);
  std::exception_ptr own;
  std::string mine;
  try {
    mine = kFine + report();
  } catch (...) {
    own = std::current_exception();
    mine = kFailed + reason();
  }
  if (process_index_ == 0) return decide_for_all(std::move(mine), std::move(own), decide);
  std::string answer;
  try {
    send(0, mine);
    answer = receive(0);
  } catch (...) {
    if (own) std::rethrow_exception(own);
    throw StateError(str(what_, " failed: ", reason()));
  }
  if (own) std::rethrow_exception(own);
  if (answer.front() == kFailed) throw StateError(answer.substr(1));
  return answer.substr(1);
}

}  // namespace tessera::io
