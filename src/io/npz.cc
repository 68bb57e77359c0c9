// SPDX-License-Identifier: Apache-2.0
// NumPy's .npz: a ZIP archive of .npy members, read and written by libzip.
#include <zip.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <utility>

#include "base/file.h"
#include "base/strings.h"
#include "io/input.h"
#include "io/sharded_read.h"
#include "tessera/io.h"
#include "tessera/sharded_files.h"

namespace tessera {

namespace {

// ZIP compresses at most about 1032 : 1, so a member that claims more is a lie.
constexpr std::uint64_t kMaxRatio = 1100;

struct Closer {
  void operator()(zip_t* z) const { zip_discard(z); }
  void operator()(zip_file_t* f) const { zip_fclose(f); }
};
using ArchivePtr = std::unique_ptr<zip_t, Closer>;

[[noreturn]] void bad_npz(const std::string& name, const std::string& what) {
  throw FormatError(str("load_npz: \"", name, "\" is no .npz file: ", what), name);
}

std::string error_text(zip_error_t* e) {
  std::string text = zip_error_strerror(e);
  zip_error_fini(e);
  return text;
}

// --- reading -------------------------------------------------------------------------------------------------------

class NpzReader {
 public:
  explicit NpzReader(io::Input input) : in_(std::move(input)) {
    const io::Input& in = in_;
    if (in.size() < 22) bad(str("it has ", in.size(), " bytes; expected at least 22"));  // libzip takes nothing for new
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t* source = in.descriptor() >= 0
                               ? zip_source_file_create(in.name().c_str(), 0, -1, &error)
                               : zip_source_buffer_create(in.bytes().data(), in.bytes().size(), 0, &error);
    if (!source) bad(error_text(&error));
    archive_.reset(zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error));
    if (!archive_) {
      zip_source_free(source);  // else the archive owns it
      bad(error_text(&error));
    }
    zip_int64_t count = zip_get_num_entries(archive_.get(), 0);
    for (zip_int64_t i = 0; i < count; ++i) list(static_cast<zip_uint64_t>(i));
  }

  HostArrays read_all() const {
    HostArrays out(in_.name());
    for (const auto& [key, index] : members_) out[key] = read(index);
    return out;
  }
  HostArrays read_named(const std::vector<std::string>& names) const {
    HostArrays out(in_.name());
    for (const auto& name : names) out[name] = read(member_named(name));
    return out;
  }
  std::map<std::string, Array> read_sharded(const std::map<std::string, ShardingPtr>& shardings) const {
    std::map<std::string, Array> out;
    for (const auto& [name, sharding] : shardings) out[name] = read(member_named(name), sharding);
    return out;
  }

 private:
  [[noreturn]] void bad(const std::string& what) const { bad_npz(in_.name(), what); }
  zip_uint64_t member_named(const std::string& name) const {
    auto it = members_.find(name);
    if (it != members_.end()) return it->second;
    std::vector<std::string> names;
    for (const auto& [key, index] : members_) names.push_back(key);
    io::fail_missing("load_npz", in_.name(), name, names);
  }

  void list(zip_uint64_t index) {
    const char* name = zip_get_name(archive_.get(), index, 0);
    if (name == nullptr) bad(str("member ", std::uint64_t{index}, " has no name"));
    std::string key = name;
    if (key.ends_with(".npy")) key.resize(key.size() - 4);
    if (!members_.emplace(key, index).second) bad(str("it has two members for \"", key, "\""));
  }

  // A member that is being read.
  struct Open {
    const NpzReader* archive;
    std::string name;
    zip_stat_t stat;
    std::unique_ptr<zip_file_t, Closer> file;

    [[noreturn]] void bad(const std::string& what) const { archive->bad(str("member \"", name, "\" ", what)); }
    std::string title() const { return str(archive->in_.name(), ":", name); }
    void next(void* to, std::size_t n) const {
      char* out = static_cast<char*>(to);
      while (n > 0) {
        zip_int64_t got = zip_fread(file.get(), out, n);
        if (got <= 0) bad(str("cannot be read: ", got < 0 ? zip_file_strerror(file.get()) : "it is cut off"));
        out += got;
        n -= static_cast<std::size_t>(got);
      }
    }
  };

  Open open(zip_uint64_t index) const {
    Open m{this, {}, {}, nullptr};
    zip_stat_init(&m.stat);
    if (zip_stat_index(archive_.get(), index, 0, &m.stat) != 0 || !(m.stat.valid & ZIP_STAT_NAME)) {
      bad(str("member ", std::uint64_t{index}, " has no record"));
    }
    m.name = m.stat.name;
    constexpr zip_uint64_t kNeeded = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_CRC;
    if ((m.stat.valid & kNeeded) != kNeeded) m.bad("has no size or no checksum");
    if (m.stat.comp_size > in_.size() || m.stat.size / kMaxRatio > m.stat.comp_size)
      m.bad(str("claims ", std::uint64_t{m.stat.size}, " bytes, compressed to ", std::uint64_t{m.stat.comp_size}));
    m.file.reset(zip_fopen_index(archive_.get(), index, 0));
    if (!m.file) m.bad(str("cannot be opened: ", zip_strerror(archive_.get())));
    return m;
  }

  HostArray read(zip_uint64_t index) const {
    const Open m = open(index);
    HostArray value = io::read_npy([&](void* to, std::size_t n) { m.next(to, n); }, m.stat.size, m.title());
    // libzip compares size and checksum when it meets the end, which is after the last byte.
    char more = 0;
    zip_int64_t got = zip_fread(m.file.get(), &more, 1);
    if (got < 0) m.bad(str("is damaged: ", zip_file_strerror(m.file.get())));
    if (got > 0) m.bad(str("has more than the ", std::uint64_t{m.stat.size}, " bytes of its record"));
    return value;
  }

  // Of a member that is stored as it is, only the runs of bytes that the shards need.
  Array read(zip_uint64_t index, const ShardingPtr& sharding) const {
    const Open m = open(index);
    constexpr const char kFunction[] = "load_npz";
    const bool as_it_is = (m.stat.valid & ZIP_STAT_COMP_METHOD) != 0 && m.stat.comp_method == ZIP_CM_STORE;
    if (!as_it_is) return io::placed(kFunction, read(index), sharding);
    const io::StoredArray stored =
        io::read_npy_header([&](void* to, std::size_t n) { m.next(to, n); }, m.stat.size, m.title());
    return io::read_shards(kFunction, stored, sharding, [&](std::uint64_t offset, std::uint64_t n, char* to) {
      if (zip_fseek(m.file.get(), static_cast<zip_int64_t>(offset), SEEK_SET) != 0) {
        m.bad(str("cannot be read at byte ", offset, ": ", zip_file_strerror(m.file.get())));
      }
      m.next(to, static_cast<std::size_t>(n));
    });
  }

  io::Input in_;
  ArchivePtr archive_;
  std::map<std::string, zip_uint64_t> members_;  // by key
};

// --- writing -------------------------------------------------------------------------------------------------------

// A new archive's bytes on their way to a file: what libzip calls a source. libzip is C, so that what the file throws
// waits here until libzip is out.
class Sink {
 public:
  Sink(base::OutputFile& out, zip_error_t* error) : out_(out) {
    zip_error_init(&error_);
    source_ = zip_source_function_create(call, this, error);
  }
  ~Sink() { zip_error_fini(&error_); }
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  zip_source_t* source() const { return source_; }
  void rethrow() const {
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  static zip_int64_t call(void* self, void* data, zip_uint64_t n, zip_source_cmd_t command) {
    return static_cast<Sink*>(self)->answer(data, n, command);
  }
  zip_int64_t answer(void* data, zip_uint64_t n, zip_source_cmd_t command) {
    switch (command) {
      case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT,
                                              ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE, ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL,
                                              ZIP_SOURCE_BEGIN_WRITE, ZIP_SOURCE_COMMIT_WRITE,
                                              ZIP_SOURCE_ROLLBACK_WRITE, ZIP_SOURCE_WRITE, ZIP_SOURCE_SEEK_WRITE,
                                              ZIP_SOURCE_TELL_WRITE, ZIP_SOURCE_REMOVE, -1);
      case ZIP_SOURCE_STAT: {
        auto* stat = static_cast<zip_stat_t*>(data);
        zip_stat_init(stat);
        stat->size = 0;  // what it was before
        stat->valid |= ZIP_STAT_SIZE;
        return sizeof *stat;
      }
      case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&error_, data, n);
      case ZIP_SOURCE_WRITE:
        return write(data, n);
      case ZIP_SOURCE_TELL_WRITE:
        return static_cast<zip_int64_t>(at_);
      case ZIP_SOURCE_SEEK_WRITE: {
        zip_int64_t to = zip_source_seek_compute_offset(at_, end_, data, n, &error_);
        if (to < 0) return -1;
        at_ = static_cast<std::uint64_t>(to);
        return 0;
      }
      default:
        return 0;
    }
  }
  zip_int64_t write(const void* data, zip_uint64_t n) {
    try {
      out_.write(at_, data, static_cast<std::size_t>(n));
    } catch (...) {
      thrown_ = std::current_exception();
      zip_error_set(&error_, ZIP_ER_WRITE, 0);
      return -1;
    }
    at_ += n;
    end_ = std::max(end_, at_);
    return static_cast<zip_int64_t>(n);
  }

  base::OutputFile& out_;
  zip_source_t* source_ = nullptr;
  zip_error_t error_;
  std::uint64_t at_ = 0, end_ = 0;
  std::exception_ptr thrown_;
};

// What libzip reads when the archive closes.
struct Member {
  std::string name, header;
  HostArray value;
  std::array<zip_buffer_fragment_t, 2> parts{};
};

void add_member(zip_t* archive, Member& m) {
  m.header = io::npy_header(m.value);
  m.parts[0] = {reinterpret_cast<zip_uint8_t*>(m.header.data()), m.header.size()};
  m.parts[1] = {static_cast<zip_uint8_t*>(m.value.data()), static_cast<zip_uint64_t>(m.value.nbytes())};
  zip_source_t* source = zip_source_buffer_fragment(archive, m.parts.data(), m.value.nbytes() > 0 ? 2 : 1, 0);
  zip_int64_t index = source ? zip_file_add(archive, (m.name + ".npy").c_str(), source, ZIP_FL_ENC_UTF_8) : -1;
  if (index < 0) {
    if (source) zip_source_free(source);
    throw ValueError(str("save_npz: cannot add \"", m.name, "\": ", zip_strerror(archive)));
  }
  zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
}

void write_archive(base::OutputFile& out, std::vector<Member>& members) {
  zip_error_t error;
  zip_error_init(&error);
  Sink sink(out, &error);
  ArchivePtr archive;
  if (sink.source()) archive.reset(zip_open_from_source(sink.source(), ZIP_TRUNCATE, &error));
  if (!archive) {
    if (sink.source()) zip_source_free(sink.source());
    throw ValueError(str("save_npz: cannot make an archive: ", error_text(&error)));
  }
  for (auto& m : members) add_member(archive.get(), m);
  zip_t* raw = archive.release();
  if (zip_close(raw) == 0) return;
  std::string why = zip_strerror(raw);
  zip_discard(raw);
  sink.rethrow();
  throw ValueError(str("save_npz: cannot write the archive: ", why));
}

}  // namespace

HostArrays parse_npz(const std::string& bytes, const std::string& name, const Loc&) {
  return NpzReader(io::Input(bytes, name)).read_all();
}
HostArrays load_npz(const std::string& path, const Loc&) {
  return NpzReader(io::Input::open("load_npz", path)).read_all();
}
HostArrays load_npz(const std::string& path, const std::vector<std::string>& names, const Loc&) {
  return NpzReader(io::Input::open("load_npz", path)).read_named(names);
}

std::map<std::string, Array> load_npz(const std::string& path, const std::map<std::string, ShardingPtr>& shardings,
                                      const Loc&) {
  return NpzReader(io::Input::open("load_npz", path)).read_sharded(shardings);
}

void save_npz(const std::string& path, const HostArrays& values, const Loc&) {
  std::vector<Member> members;
  for (const auto& [name, value] : values) {
    io::check_defined("save_npz", str("values[\"", name, "\"]"), value);
    if (name.find('\0') != std::string::npos) {
      throw ValueError(str("save_npz: the name \"", name.c_str(), "\\0...\" holds a zero byte, which ends names"));
    }
    members.push_back({name, {}, io::as_numpy(value)});
  }
  base::write_file("save_npz", path, [&](base::OutputFile& out) {
    // libzip writes nothing for an archive without members; this is its only record.
    static constexpr char kEmpty[22] = {'P', 'K', 5, 6};
    if (members.empty()) out.write(0, kEmpty, sizeof kEmpty);
    if (!members.empty()) write_archive(out, members);
  });
}

}  // namespace tessera
