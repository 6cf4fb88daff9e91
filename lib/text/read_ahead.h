// ReadAhead: items made in a thread of their own, ahead of the one that consumes them, in bounded memory.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace attn {

// `make` gives the next item or nothing at the end, `size` what an item costs (bytes, tokens; the same unit
// as max_size). Items wait while their sizes sum up to at most max_size; one that is larger waits alone. So
// besides the consumer's own there are at most max_size waiting and one item being made. `make` runs in the
// thread alone and must not touch what the consumer changes; the destructor lets it finish the item that it
// is at, and no other.
template <typename Item>
class ReadAhead {
 public:
  using Make = std::function<std::optional<Item>()>;
  using Size = std::function<std::size_t(const Item&)>;

  ReadAhead(Make make, Size size, std::size_t max_size)
      : make_(std::move(make)), size_(std::move(size)), max_size_(max_size), thread_([this] { run(); }) {}

  ~ReadAhead() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopped_ = true;
    }
    room_.notify_all();
    thread_.join();
  }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // The next item, or nothing at the end. What `make` has thrown is thrown here, after the items before it,
  // and again by each later call.
  std::optional<Item> next() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (waiting_.empty() && !ended_) ++starved_;
    filled_.wait(lock, [this] { return !waiting_.empty() || ended_; });
    if (waiting_.empty()) {
      if (error_) std::rethrow_exception(error_);
      return std::nullopt;
    }
    std::optional<Item> item(std::move(waiting_.front().first));
    waiting_size_ -= waiting_.front().second;
    waiting_.pop_front();
    lock.unlock();
    room_.notify_one();
    return item;
  }

  // Whether `make` has given all that it will.
  bool ended() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return ended_;
  }
  // How often next() found nothing ready and had to wait: 1 is the first item's.
  std::size_t starved() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return starved_;
  }
  // The largest sum of sizes that waited at a time.
  std::size_t peak_size() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return peak_size_;
  }

 private:
  void run() {
    std::exception_ptr error;
    try {
      while (std::optional<Item> item = make_()) {
        const std::size_t size = size_(*item);
        if (!put(std::move(*item), size)) return;
      }
    } catch (...) {
      error = std::current_exception();
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      error_ = std::move(error);
      ended_ = true;
    }
    filled_.notify_all();
  }

  // Waits for room; false: nobody wants it any more.
  bool put(Item&& item, std::size_t size) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      room_.wait(lock, [&] {
        return stopped_ || waiting_.empty() || (size <= max_size_ && waiting_size_ <= max_size_ - size);
      });
      if (stopped_) return false;
      waiting_.emplace_back(std::move(item), size);
      waiting_size_ += size;
      if (waiting_size_ > peak_size_) peak_size_ = waiting_size_;
    }
    filled_.notify_one();
    return true;
  }

  const Make make_;
  const Size size_;
  const std::size_t max_size_;

  mutable std::mutex mutex_;  // of all below
  std::condition_variable filled_, room_;
  std::deque<std::pair<Item, std::size_t>> waiting_;
  std::size_t waiting_size_ = 0, peak_size_ = 0, starved_ = 0;
  bool ended_ = false, stopped_ = false;
  std::exception_ptr error_;

  std::thread thread_;  // last: it starts when all above is there
};

}  // namespace attn
