// Storages: a number for each storage, which no later storage gets. References are weak: the data is
// freed with the last tensor, but the address is not reused until the storage is forgotten here.
// Guarded by `lock`; a thread that holds it must not wait for the GIL.
#pragma once
#include <Python.h>

#include <ATen/core/Tensor.h>
#include <c10/util/flat_hash_map.h>

#include <mutex>

#include "values.h"

namespace nodescope {

struct KnownStorage {
  uint64_t number;
  c10::weak_intrusive_ptr<c10::StorageImpl> reference;
  bool told = false;    // Python knows the number
  uint32_t slot = 0;    // its slot in the script, see fast_path.h
  uint64_t cycle = 0;   // the cycle in which it had the slot
  int64_t version = 0;  // autograd's version when the script last changed it
};

class Storages {
 public:
  std::mutex lock;

  // The number of a tensor's storage, for Python; 0 if it has no single storage.
  uint64_t number(const at::Tensor& tensor) {
    auto* address = address_of(tensor);
    if (!address) return 0;
    std::lock_guard<std::mutex> guard(lock);
    auto& known = added(tensor, address);
    known.told = true;
    return known.number;
  }

  static c10::StorageImpl* address_of(const at::Tensor& tensor) {
    return is_plain(tensor) ? tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() : nullptr;
  }

  KnownStorage* find(const void* address) {
    auto known = by_address_.find(address);
    return known == by_address_.end() ? nullptr : &known->second;
  }

  KnownStorage& added(const at::Tensor& tensor, const void* address) {
    auto known = by_address_.find(address);
    if (known != by_address_.end()) return known->second;
    const auto& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
    return by_address_.emplace(address, KnownStorage{++count_, storage.getWeakStorageImpl()}).first->second;
  }

  uint64_t count() const { return count_; }

  // The numbers of storages that were freed since the last call.
  std::vector<uint64_t> freed() {
    std::lock_guard<std::mutex> guard(lock);
    std::vector<uint64_t> numbers;
    for (auto at = by_address_.begin(); at != by_address_.end();) {
      if (at->second.reference.expired()) { numbers.push_back(at->second.number); at = by_address_.erase(at); }
      else ++at;
    }
    return numbers;
  }

  // Forget a storage that Python does not know.
  void forget(const void* address) {
    auto at = by_address_.find(address);
    if (at != by_address_.end() && !at->second.told) by_address_.erase(at);
  }

  // Forget freed storages that Python does not know; leave in `addresses` those still in use.
  void sweep(std::vector<const void*>& addresses) {
    size_t kept = 0;
    for (const void* address : addresses) {
      auto at = by_address_.find(address);
      if (at == by_address_.end() || at->second.told) continue;
      if (at->second.reference.expired()) by_address_.erase(at);
      else addresses[kept++] = address;
    }
    addresses.resize(kept);
  }

 private:
  ska::flat_hash_map<const void*, KnownStorage> by_address_;
  uint64_t count_ = 0;
};

inline Storages& storages() { static auto* all = new Storages; return *all; }

}  // namespace nodescope
