// SPDX-License-Identifier: Apache-2.0
// What becomes of messages whose step has failed, with an MPI that does what the test tells it.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <set>
#include <vector>

#include "engines/mpi/left_behind.h"

namespace tessera::mpi {
namespace {

using namespace std::chrono_literals;

struct Mpi {
  std::set<void*> done, cancelled, abandoned;
  std::multiset<int> strays;  // their tags
  void* received_into = nullptr;
};
Mpi& mpi() {
  static Mpi one;
  return one;
}

int test_request(void* request, int* done, tessera_mpi_message*) {
  *done = mpi().done.contains(request) ? 1 : 0;
  return 0;
}
void cancel(void* request) {
  mpi().cancelled.insert(request);
  mpi().done.insert(request);
}
void abandon(void* request) { mpi().abandoned.insert(request); }
int probe(int channel, int tag, int* found, tessera_mpi_message* message) {
  EXPECT_EQ(channel, TESSERA_MPI_DATA);
  auto stray = tag < 0 ? mpi().strays.begin() : mpi().strays.find(tag);
  *found = stray != mpi().strays.end() ? 1 : 0;
  if (*found != 0) *message = {.peer = 1, .tag = *stray, .nbytes = 8};
  return 0;
}
int receive(int, void* data, int nbytes, int, int tag, void** request) {
  mpi().strays.erase(mpi().strays.find(tag));
  std::memset(data, 1, static_cast<std::size_t>(nbytes));
  *request = mpi().received_into = data;
  return 0;
}

class LeftBehindMessages : public ::testing::Test {
 protected:
  LeftBehindMessages() {
    mpi() = {};
    module_.test = test_request;
    module_.cancel = cancel;
    module_.abandon = abandon;
    module_.probe = probe;
    module_.receive = receive;
  }
  // A message whose request is its memory, which it alone keeps.
  std::weak_ptr<int> leave(bool receives) {
    auto memory = std::make_shared<int>(0);
    std::list<Parts> one{{Part{memory.get(), 1, 4, receives, false, memory}}};
    left_.add(one);
    EXPECT_TRUE(one.empty());
    return memory;
  }

  tessera_mpi_module module_{};
  LeftBehind left_{module_};
};

TEST_F(LeftBehindMessages, KeepWhatIsSentUntilItIsTaken) {
  auto memory = leave(false);
  void* request = memory.lock().get();
  EXPECT_TRUE(left_.take_ended().empty());
  EXPECT_FALSE(memory.expired());
  EXPECT_FALSE(mpi().cancelled.contains(request));
  mpi().done.insert(request);
  EXPECT_EQ(left_.take_ended().size(), 1U);
  EXPECT_TRUE(memory.expired());
  EXPECT_TRUE(left_.empty());
}

TEST_F(LeftBehindMessages, TakeReceiptsBackThatNoMessageHasMet) {
  auto memory = leave(true);
  EXPECT_TRUE(mpi().cancelled.contains(memory.lock().get()));
  left_.take_ended();
  EXPECT_TRUE(memory.expired());
}

TEST_F(LeftBehindMessages, ReceiveWhatComesForStepsThatAreGivenUp) {
  mpi().strays = {5, 5, 7};
  left_.take_ended();
  EXPECT_EQ(mpi().strays.size(), 3U) << "somebody may still ask for them";
  left_.give_up(5, 1h);
  left_.take_ended();
  EXPECT_EQ(mpi().strays, std::multiset<int>{7});
  EXPECT_FALSE(left_.empty()) << "the messages have not come wholly";
  left_.give_up(7, -1s);  // long ago
  left_.take_ended();
  EXPECT_EQ(mpi().strays, std::multiset<int>{7});
  left_.take_strays(-1);
  EXPECT_TRUE(mpi().strays.empty());
}

TEST_F(LeftBehindMessages, KeepTheirMemoryBeyondTheEndOfMpi) {
  auto sent = leave(false);
  auto other = leave(false);
  mpi().done.insert(other.lock().get());
  left_.take_ended();
  left_.abandon();
  left_.abandon();
  EXPECT_EQ(mpi().abandoned.size(), 1U);
  EXPECT_FALSE(sent.expired());
}

}  // namespace
}  // namespace tessera::mpi
