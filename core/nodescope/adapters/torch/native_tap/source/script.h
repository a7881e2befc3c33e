// Script: the operators of a recorded step, in a form with which later steps can be compared. Tensors
// are identified by the slot of their storage in the script, and their geometry there.
#pragma once
#include <ATen/SequenceNumber.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#if __has_include(<torch/csrc/autograd/node.h>)
#include <torch/csrc/autograd/node.h>
#else  // before 2.13
#include <torch/csrc/autograd/function.h>
#endif

#include "device.h"
#include "operators.h"
#include "statistics.h"
#include "storages.h"

namespace nodescope {

struct Fact {
  uint64_t number;   // the number of the storage when the script was made
  uint32_t slot;
  int64_t offset;
  c10::SmallVector<int64_t, 5> sizes, strides;
  at::ScalarType dtype;
  bool differentiable;
  int device = -1;   // the index of the CUDA device; -1 for the CPU
};

struct Plain { uint32_t argument; c10::IValue value; };

constexpr int64_t kNoNode = INT64_MIN, kAccumulates = INT64_MAX;

struct Item {
  uint64_t recording = 0;
  Operator* op = nullptr;             // null if the item is the arrival of a parameter's gradient
  int64_t place = 0;                  // the mark of the thread's scope and phase, see `Place.mark`
  int64_t before = 0, after = 0;      // autograd's sequence numbers, relative to the script's first
  int64_t node = kNoNode;             // the relative number of the autograd node that is evaluated
  bool reported = false;              // it is a node of the graph
  bool sound = true;                  // all its arguments and results can be compared
  bool seeded = false;                // it may draw random numbers
  bool saves = false;                 // autograd keeps copies of tensors that it overwrites
  bool nests = true;                  // other operators are called within it
  bool draws = false;                 // it draws random numbers: the state of the generator is recorded
  bool other = false;                 // it ran on the thread of the device's backward pass
  bool enqueued = false;              // it ran on the device
  std::vector<Fact> inputs, outputs;
  std::vector<int32_t> structure;     // by part of the arguments: a `Kind`, or the length of a list
  std::vector<int32_t> returned;      // the same for the results
  std::vector<Plain> plain;
  // Set by Python: inputs that are emitted as data before it, and the outputs of the node: an index
  // into `outputs`, or -1 - an index into `inputs`.
  std::vector<uint32_t> leaves;
  std::vector<int32_t> results;
  std::vector<std::pair<uint32_t, int64_t>> hooked;  // inputs that get a gradient hook, and their value ids
  int64_t value = 0, gradient = 0;    // for an arrival: value ids of the parameter, or 0, and of its gradient
  uint32_t statistics = 0;            // the index of its first row of statistics
  int64_t bytes = 0;                  // the bytes that copies of its values take
};

struct Script {
  std::vector<Item> items;
  std::vector<uint64_t> slots;        // the number of the storage if it is older than the step, or 0
  uint32_t statistics = 0;
  std::vector<int64_t> kept;          // by row of statistics: bytes of the copy of the elements, or 0
  // By row of statistics: the earlier row of the same elements; -2 for the first of several such rows, -1 otherwise.
  std::vector<int32_t> same;
  int device = -1;                    // the index of the one device that is used, or -1
};

constexpr int64_t kAligned = 64;
inline int64_t aligned(int64_t bytes) { return (bytes + kAligned - 1) / kAligned * kAligned; }

constexpr c10::DispatchKeySet kIncomparable = kOdd | c10::DispatchKeySet({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative,
    c10::DispatchKey::ZeroTensor, c10::DispatchKey::Quantized});
inline bool is_comparable(const at::Tensor& tensor) {
  auto* impl = tensor.unsafeGetTensorImpl();
  return !impl->key_set().has_any(kIncomparable) && impl->has_storage() && impl->layout() == at::kStrided &&
         (tensor.is_cpu() || (device().known && tensor.is_cuda())) && !tensor.is_inference();
}

inline bool is_number(const at::Tensor& tensor) { return tensor.unsafeGetTensorImpl()->is_wrapped_number() && is_plain(tensor) && tensor.is_cpu(); }

inline bool fits(const Fact& fact, const at::Tensor& tensor) {
  auto* impl = tensor.unsafeGetTensorImpl();
  return impl->dtype() == c10::scalarTypeToTypeMeta(fact.dtype) && impl->storage_offset() == fact.offset &&
         impl->sizes() == c10::IntArrayRef(fact.sizes) && impl->strides() == c10::IntArrayRef(fact.strides) &&
         tensor.requires_grad() == fact.differentiable && is_comparable(tensor) && device().index_of(tensor) == fact.device;
}

inline int64_t version_of(const at::Tensor& tensor) { return tensor.unsafeGetTensorImpl()->version_counter().current_version(); }

// Identifies the elements that statistics were computed from; the version is -1 if unknown.
struct Source { int64_t version = -1; uint64_t sum = 0; };

// The version and a checksum of a tensor's elements, so that writes that autograd does not count are noticed. Elements
// that are not contiguous are read with everything between them; the source is unknown if they lie far apart.
inline Source source_of(const at::Tensor& tensor, const char* in_a_row) {
  constexpr int64_t kMostApart = 4;  // most elements spanned in memory, per element of the tensor
  int64_t size = tensor.element_size(), count = tensor.numel();
  if (in_a_row) return {version_of(tensor), sum_of(in_a_row, count * size)};
  int64_t last = 0;
  for (int64_t i = 0; i < tensor.dim(); i++) last += (tensor.size(i) - 1) * tensor.stride(i);
  if (last >= kMostApart * count) return {};
  return {version_of(tensor), sum_of((const char*)tensor.const_data_ptr(), (last + 1) * size)};
}

inline c10::IValue number_in(const at::Tensor& tensor) {
  const void* data = tensor.const_data_ptr();
  switch (tensor.scalar_type()) {
    case at::kDouble: return *(const double*)data;
    case at::kLong: return *(const int64_t*)data;
    case at::kBool: return *(const bool*)data;
    default: return c10::IValue();
  }
}

enum class Same { yes, varied, no };

// Compare an argument with the script's; `varied` if they differ only in integers or floats.
inline Same compare(const c10::IValue& a, const c10::IValue& b) {
  if (a.isInt() && b.isInt()) return a.toInt() == b.toInt() ? Same::yes : Same::varied;
  if (a.isDouble() && b.isDouble()) {
    double x = a.toDouble(), y = b.toDouble();
    return std::memcmp(&x, &y, sizeof x) == 0 ? Same::yes : Same::varied;
  }
  if (a.isBool() && b.isBool()) return a.toBool() == b.toBool() ? Same::yes : Same::no;
  if (a.isNone() || b.isNone()) return a.isNone() && b.isNone() ? Same::yes : Same::no;
  if (a.isList() && b.isList()) {
    auto x = a.toListRef(), y = b.toListRef();
    if (x.size() != y.size()) return Same::no;
    Same all = Same::yes;
    for (size_t i = 0; i < x.size(); i++) {
      Same one = compare(x[i], y[i]);
      if (one == Same::no) return one;
      if (one == Same::varied) all = one;
    }
    return all;
  }
  if (a.isString() && b.isString()) return a.toStringRef() == b.toStringRef() ? Same::yes : Same::no;
  if (a.isDevice() && b.isDevice()) return a.toDevice() == b.toDevice() ? Same::yes : Same::no;
  if (a.isGenerator() && b.isGenerator()) return a.toGenerator() == b.toGenerator() ? Same::yes : Same::no;
  return Same::no;
}

inline c10::ArrayRef<const c10::IValue> boxed(const std::vector<c10::IValue>& values) {
  return c10::ArrayRef<const c10::IValue>(values.data(), values.size());
}

enum Kind : int32_t { kTensor = -1, kNumber = -2, kUndefined = -3 };  // other values are lengths of lists

// Visit arguments or results by calling structure(kind), tensor(tensor), plain(argument, value), which return
// whether to continue. Returns whether all did.
template <class Structure, class Tensor, class Other>
bool each_part(c10::ArrayRef<const c10::IValue> values, Structure structure, Tensor tensor, Other plain) {
  auto one = [&](uint32_t argument, const at::Tensor& item) {
    if (!item.defined()) return structure(kUndefined);
    if (C10_UNLIKELY(is_number(item))) {
      auto number = number_in(item);
      return !number.isNone() && structure(kNumber) && plain(argument, number);
    }
    return structure(kTensor) && tensor(item);
  };
  for (uint32_t i = 0; i < values.size(); i++) {
    const c10::IValue& value = values[i];
    if (value.isTensor()) { if (!one(i, value.toTensor())) return false; }
    else if (value.isList() && !value.toListRef().empty() && (value.isTensorList() || value.toListRef()[0].isTensor() || value.isOptionalTensorList())) {
      auto items = value.toListRef();
      if (!structure(int32_t(items.size()))) return false;
      for (const auto& item : items) {
        if (item.isTensor()) { if (!one(i, item.toTensor())) return false; }
        else if (!structure(kUndefined)) return false;
      }
    }
    else if (!plain(i, value)) return false;
  }
  return true;
}

inline int64_t node_now(int64_t base) {
  auto node = torch::autograd::get_current_node();
  if (!node) return kNoNode;
  uint64_t number = node->sequence_nr();
  return number >= (1ull << 62) ? kAccumulates : int64_t(number) - base;
}

}  // namespace nodescope
