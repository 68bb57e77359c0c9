// SPDX-License-Identifier: Apache-2.0
// Where files go, what names and dtypes they take, and what an error tells.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "base/file.h"
#include "tessera/io.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// A folder of its own for each test.
class IoFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "tessera_files_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

 private:
  std::string folder_;
};

HostArrays one_array() {
  HostArrays a;
  a["x"] = HostArray::from<float>({1, 2, 3});
  return a;
}

template <class E>
std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

using Save = std::function<void(const std::string&)>;
const std::pair<const char*, Save> kSavers[] = {
    {"npy", [](const std::string& p) { save_npy(p, one_array().at("x")); }},
    {"npz", [](const std::string& p) { save_npz(p, one_array()); }},
    {"safetensors", [](const std::string& p) { save_safetensors(p, one_array()); }}};

TEST_F(IoFiles, LinksAreFollowedAndModesKept) {
  for (const auto& [kind, save] : kSavers) {
    std::ofstream(path("real")) << "old";
    fs::permissions(path("real"), fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read);
    fs::create_symlink("real", path("link"));
    fs::create_symlink("link", path("second"));
    save(path("second"));
    EXPECT_TRUE(fs::is_symlink(path("second")) && fs::is_symlink(path("link"))) << kind;
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(path("real")))) << kind;
    EXPECT_GT(fs::file_size(path("real")), 3U) << kind;
    EXPECT_EQ(fs::status(path("real")).permissions(),
              fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read)
        << kind;
    EXPECT_EQ(files(), 3U) << kind;
    for (const char* name : {"real", "link", "second"}) fs::remove(path(name));
  }
  fs::create_symlink("made", path("dangling"));
  save_npz(path("dangling"), one_array());
  EXPECT_EQ(load_npz(path("made")).size(), 1U);
}

TEST_F(IoFiles, DevicesAndPipesAreWrittenTo) {
  fs::create_symlink("/dev/null", path("null"));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  for (const auto& [kind, save] : kSavers) {
    save(path("null"));
    EXPECT_TRUE(fs::is_character_file("/dev/null")) << kind;
    std::string got;
    std::thread reader([&] { got = base::read_file("test", path("pipe")); });
    save(path("pipe"));
    reader.join();
    save(path("plain"));
    EXPECT_EQ(got, base::read_file("test", path("plain"))) << kind;
    EXPECT_TRUE(fs::is_fifo(path("pipe"))) << kind;
    EXPECT_NE(message_of<ValueError>([&, &save = save] { save("/dev/full"); }).find("No space left on device"),
              std::string::npos);
  }
}

TEST_F(IoFiles, OtherFilesStay) {
  for (const char* suffix : {".part", ".tmp", "~"}) std::ofstream(path(std::string("a") + suffix)) << "the user's";
  for (const auto& [kind, save] : kSavers) save(path("a"));
  EXPECT_EQ(files(), 4U);
  for (const char* suffix : {".part", ".tmp", "~"}) {
    EXPECT_EQ(base::read_file("test", path(std::string("a") + suffix)), "the user's") << suffix;
  }
}

TEST_F(IoFiles, AFailureLeavesTheOldFile) {
  std::ofstream(path("a")) << "old";
  EXPECT_THROW(base::write_file("test", path("a"),
                                [](base::OutputFile& out) {
                                  out.write(0, "new", 3);
                                  throw ValueError("half way");
                                }),
               ValueError);
  EXPECT_EQ(base::read_file("test", path("a")), "old");
  EXPECT_EQ(files(), 1U);
  fs::create_directory(path("folder"));
  for (const auto& [kind, save] : kSavers) {
    for (const std::string& bad : {path("folder"), path("none/a"), path("a/b"), std::string()}) {
      std::string why = message_of<ValueError>([&, &save = save] { save(bad); });
      EXPECT_NE(why.find('"' + bad + '"'), std::string::npos) << why;
    }
  }
  EXPECT_EQ(files(), 2U);
}

TEST_F(IoFiles, MissingNamesAreTold) {
  save_npz(path("a.npz"), one_array());
  save_safetensors(path("a.safetensors"), one_array());
  const HostArrays npz = load_npz(path("a.npz"));
  const std::function<void()> asks[] = {
      [&] { load_npz(path("a.npz"), {"y"}); },
      [&] { load_safetensors(path("a.safetensors"), {"y"}); },
      [&] { npz.at("y"); },
      [&] { npz["y"]; },
      [&] { load_npz(path("a.npz"))["y"]; },
      [&] { load_safetensors(path("a.safetensors")).at("y"); },
  };
  for (const auto& ask : asks) {
    std::string why = message_of<ValueError>(ask);
    for (const char* part : {"a.", "no array \"y\"", "\"x\""}) EXPECT_NE(why.find(part), std::string::npos) << why;
  }
  std::map<std::string, Array> like{{"y", Array(HostArray::from<float>({1}))}};
  EXPECT_NE(message_of<ValueError>([&] { with_named_leaves(like, npz); }).find("\"x\""), std::string::npos);
}

TEST_F(IoFiles, SafetensorsTakeTheirOwnDtypesOnly) {
  for (DType t : {bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64,
                  complex64}) {
    HostArrays a;
    a["x"] = HostArray::from<float>({0, 1, 2}).astype(t);
    save_safetensors(path("a"), a);
    EXPECT_TRUE(identical(load_safetensors(path("a")).at("x"), a.at("x"))) << dtype_name(t);
  }
  HostArrays wide = one_array();
  wide["z"] = HostArray::from<complex128_t>({{1, 2}});
  std::string why = message_of<TypeError>([&] { save_safetensors(path("wide"), wide); });
  for (const char* part : {"\"z\"", "complex128", "save_npz"}) EXPECT_NE(why.find(part), std::string::npos) << why;
  EXPECT_FALSE(fs::exists(path("wide")));
}

TEST_F(IoFiles, NamesThatAFormatCannotHoldAreRefused) {
  HostArrays metadata, latin, zero, undefined;
  metadata["__metadata__"] = one_array().at("x");
  latin["\xe9"] = one_array().at("x");
  zero[std::string("a\0b", 3)] = one_array().at("x");
  undefined["x"] = HostArray();
  EXPECT_THROW(save_safetensors(path("a"), metadata), ValueError);
  EXPECT_THROW(save_safetensors(path("a"), latin), ValueError);
  EXPECT_THROW(save_npz(path("a"), latin), ValueError);
  EXPECT_THROW(save_npz(path("a"), zero), ValueError);
  EXPECT_THROW(save_npz(path("a"), undefined), ValueError);
  EXPECT_THROW(save_safetensors(path("a"), undefined), ValueError);
  EXPECT_EQ(files(), 0U);
}

}  // namespace
}  // namespace tessera
