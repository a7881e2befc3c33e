// Storages: a number for each storage, which no later storage gets. A storage is referred to weakly:
// its data is freed with its last tensor, its address is not used again until `freed` was asked.
// Guarded by the GIL.
#pragma once
#include <Python.h>

#include <ATen/core/Tensor.h>
#include <c10/util/flat_hash_map.h>

#include "values.h"

namespace nodescope {

class Storages {
 public:
  // The number of a tensor's storage; 0 if it has no single one.
  uint64_t number(const at::Tensor& tensor) {
    if (!is_plain(tensor)) return 0;
    const auto& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
    auto* address = storage.unsafeGetStorageImpl();
    if (!address) return 0;
    auto known = by_address_.find(address);
    if (known != by_address_.end()) return known->second.number;
    by_address_.emplace(address, Known{++count_, storage.getWeakStorageImpl()});
    return count_;
  }

  size_t size() const { return by_address_.size(); }

  // The numbers of storages that were freed since this was asked.
  std::vector<uint64_t> freed() {
    std::vector<uint64_t> numbers;
    for (auto at = by_address_.begin(); at != by_address_.end();) {
      if (at->second.reference.expired()) { numbers.push_back(at->second.number); at = by_address_.erase(at); }
      else ++at;
    }
    return numbers;
  }

 private:
  struct Known { uint64_t number; c10::weak_intrusive_ptr<c10::StorageImpl> reference; };

  ska::flat_hash_map<const void*, Known> by_address_;
  uint64_t count_ = 0;
};

}  // namespace nodescope
