// SPDX-License-Identifier: Apache-2.0
// Serves a classifier of handwritten digits that was trained and exported in JAX (data/digits_model.py), over HTTP and
// without Python. Requests that arrive together are answered by one run of the program, whose batch is split over
// eight devices.
//
//   serve         starts a server on a free port, sends it requests from many threads, compares with JAX's answers
//   serve PORT    serves until it is stopped:
//                 curl -d '{"image": [64 numbers in 0 … 1]}' http://127.0.0.1:PORT/classify
#include <httplib.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <future>
#include <iostream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tessera/tessera.h"

namespace ts = tessera;
using json = nlohmann::json;

namespace {

constexpr std::size_t kPixels = 64, kClasses = 10;
constexpr int kClients = 24;
using Image = std::vector<float>;
using Answer = std::vector<float>;  // a probability for each digit

// Collects requests and runs the program for as many as it takes at once. The first request waits a little for others;
// a full batch waits for nothing.
class Batcher {
 public:
  explicit Batcher(const std::string& path)
      : program_(ts::StablehloProgram::load(path)),
        size_(static_cast<std::size_t>(program_.inputs().at(0).shape.at(0))),
        worker_([this] { work(); }) {}
  ~Batcher() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    arrived_.notify_all();
    worker_.join();
  }
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  std::future<Answer> submit(Image image) {
    std::lock_guard lock(mutex_);
    Request& request = waiting_.emplace_back();
    request.image = std::move(image);
    arrived_.notify_all();
    return request.answer.get_future();
  }
  /// Requests answered, and runs of the program for them.
  std::pair<std::int64_t, std::int64_t> counts() const {
    std::lock_guard lock(mutex_);
    return {answered_, runs_};
  }

 private:
  struct Request {
    Image image;
    std::promise<Answer> answer;
  };

  void work() {
    const ts::ClientScope eight(ts::Client::cpu({.devices = static_cast<int>(program_.num_devices())}));
    for (std::vector<Request> batch = next(); !batch.empty(); batch = next()) {
      try {
        answer(batch);
      } catch (...) {
        for (auto& r : batch) r.answer.set_exception(std::current_exception());
      }
    }
  }

  // Empty once the batcher stops.
  std::vector<Request> next() {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    arrived_.wait_for(lock, std::chrono::milliseconds(2), [this] { return stopping_ || waiting_.size() >= size_; });
    std::vector<Request> batch;
    while (!waiting_.empty() && batch.size() < size_) {
      batch.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    answered_ += static_cast<std::int64_t>(batch.size());
    runs_ += batch.empty() ? 0 : 1;
    return batch;
  }

  // The program takes batches of one size; what is missing is zeros.
  void answer(std::vector<Request>& batch) {
    std::vector<float> images;
    for (const auto& r : batch) images.insert(images.end(), r.image.begin(), r.image.end());
    images.resize(size_ * kPixels);
    const ts::HostArray in = ts::HostArray::from(images, {static_cast<std::int64_t>(size_), kPixels});
    const std::vector<float> out = program_.run({in}).at(0).to_vector<float>();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const auto row = out.begin() + static_cast<std::ptrdiff_t>(i * kClasses);
      batch[i].answer.set_value(Answer(row, row + kClasses));
    }
  }

  ts::StablehloProgram program_;
  std::size_t size_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Request> waiting_;
  std::int64_t answered_ = 0, runs_ = 0;
  bool stopping_ = false;
  std::thread worker_;  // last: it uses all the others
};

void classify(Batcher& batcher, const httplib::Request& request, httplib::Response& response) {
  const json body = json::parse(request.body, nullptr, false);
  Image image;
  if (body.is_object() && body.contains("image") && body["image"].is_array()) {
    for (const auto& pixel : body["image"]) image.push_back(pixel.is_number() ? pixel.get<float>() : std::nanf(""));
  }
  if (image.size() != kPixels || std::any_of(image.begin(), image.end(), [](float v) { return !(v >= 0 && v <= 1); })) {
    response.status = 400;
    response.set_content(json{{"error", "expected {\"image\": [64 numbers in 0 … 1]}"}}.dump(), "application/json");
    return;
  }
  const Answer p = batcher.submit(std::move(image)).get();
  const auto digit = std::max_element(p.begin(), p.end()) - p.begin();
  response.set_content(json{{"digit", digit}, {"probabilities", p}}.dump(), "application/json");
}

// A thread for each request that waits in a batch.
void prepare(httplib::Server& server, Batcher& batcher) {
  server.set_keep_alive_max_count(1000);
  server.set_tcp_nodelay(true);
  server.new_task_queue = [] { return new httplib::ThreadPool(kClients); };
  server.Get("/ready", [](const auto&, auto& response) { response.set_content("yes\n", "text/plain"); });
  server.Post("/classify", [&](const auto& request, auto& response) { classify(batcher, request, response); });
}

struct Recorded {
  std::vector<float> images, probabilities;  // the last images of the data, and what JAX answers for them
  std::size_t count;
};

Recorded recorded() {
  const std::vector<float> all =
      ts::load_npz("examples/data/digits.npz").at("images").astype(ts::float32).to_vector<float>();
  const std::vector<float> p = ts::load_npz("examples/data/digits_model.npz").at("probabilities").to_vector<float>();
  Recorded r{{}, p, p.size() / kClasses};
  r.images.assign(all.end() - static_cast<std::ptrdiff_t>(r.count * kPixels), all.end());
  for (auto& v : r.images) v /= 16.0F;
  return r;
}

// One client: every kClients-th image, one after the other. The largest difference from JAX's answers.
float ask(httplib::Client& client, const Recorded& r, std::size_t first) {
  float worst = 0;
  for (std::size_t i = first; i < r.count; i += kClients) {
    const auto at = r.images.begin() + static_cast<std::ptrdiff_t>(i * kPixels);
    const auto answer = client.Post("/classify", json{{"image", Image(at, at + kPixels)}}.dump(), "application/json");
    if (!answer || answer->status != 200) throw ts::StateError("serve: a request was not answered");
    const Answer p = json::parse(answer->body).at("probabilities");
    for (std::size_t c = 0; c < kClasses; ++c) {
      worst = std::max(worst, std::abs(p.at(c) - r.probabilities[i * kClasses + c]));
    }
  }
  return worst;
}

int demonstrate(httplib::Server& server, const Batcher& batcher) {
  const int port = server.bind_to_any_port("127.0.0.1");
  std::thread listening([&] { server.listen_after_bind(); });
  const Recorded r = recorded();
  // Connected one after the other: few connections may wait to be accepted.
  std::vector<std::unique_ptr<httplib::Client>> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<httplib::Client>("127.0.0.1", port));
    clients.back()->set_keep_alive(true);
    clients.back()->set_tcp_nodelay(true);
    clients.back()->Get("/ready");
  }
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::future<float>> answers;
  for (std::size_t i = 0; i < kClients; ++i) {
    answers.push_back(std::async(std::launch::async, [&, i] { return ask(*clients[i], r, i); }));
  }
  float worst = 0;
  bool answered = true;
  for (auto& a : answers) {
    try {
      worst = std::max(worst, a.get());
    } catch (const std::exception& e) {
      std::cerr << e.what() << '\n';
      answered = false;
    }
  }
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  const auto wrong = clients[0]->Post("/classify", "{\"image\": 7}", "application/json");
  const bool refused = wrong && wrong->status == 400;
  clients.clear();
  server.stop();
  listening.join();
  const auto [requests, runs] = batcher.counts();
  std::printf("%lld requests of %d clients: %lld runs of the program, %.1f requests a run, %.0f ms in all\n",
              static_cast<long long>(requests), kClients, static_cast<long long>(runs),
              static_cast<double>(requests) / static_cast<double>(runs), ms);
  std::printf("largest difference from JAX's probabilities: %.1e; a request without an image is %s\n", worst,
              refused ? "refused" : "NOT refused");
  return answered && refused && worst < 1e-5F && runs < requests ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const int port = argc > 1 ? std::atoi(argv[1]) : 0;
  if (argc > 2 || (argc > 1 && (port < 1 || port > 65535))) {
    std::cerr << "usage: serve [PORT]\n";
    return 2;
  }
  try {
    Batcher batcher("examples/data/digits_model.mlirbc");
    httplib::Server server;
    prepare(server, batcher);
    if (argc < 2) return demonstrate(server, batcher);
    std::printf("http://127.0.0.1:%d/classify\n", port);
    std::fflush(stdout);
    if (server.listen("127.0.0.1", port)) return 0;
    std::cerr << "serve: cannot listen on port " << argv[1] << '\n';
    return 1;
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
