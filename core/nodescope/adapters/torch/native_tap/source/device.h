// Device: enqueues events, statistics and copies for tensors on a device while a step follows its
// script. Python provides the driver's functions, kernels and memory, and queries the times.
//
// Invariant: nothing here waits for the device. Guarded by the lock of `storages()`.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/ops/contiguous.h>
#include <ATen/record_function.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <vector>

#include "statistics.h"

namespace nodescope {

constexpr int kCodes = 9, kThreads = 512;

// The driver's functions. Streams, events and kernels are the driver's handles; 0 means success.
struct Driver {
  int (*create)(void** event, unsigned flags);
  int (*record)(void* event, void* stream);
  int (*capturing)(void* stream, int* status);
  int (*copy)(uint64_t to, uint64_t from, size_t bytes, void* stream);
  int (*launch)(void* kernel, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void* stream, void** arguments, void** extra);
  int (*together)(void* kernel, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void* stream, void** arguments);
  int (*elapsed)(float* ms, void* first, void* last);
};

// As in summary.cu.
struct Summed {
  uint64_t data, scratch, row;
  int64_t count, dims, previewed;
  int64_t sizes[8], strides[8], first[8];
};

// An event in a stream: after the script's item at this position; -1 for an event after something else.
struct Moment { int64_t position, event, stream; };

class Device {
 public:
  bool known = false;                 // whether Python has provided the functions
  bool pretends = false;              // for tests: the CPU counts as a device
  Driver driver{};
  void* kernels[kCodes] = {};         // by dtype, for this device
  int index = -1;                     // the device
  unsigned most_blocks = 1;
  std::vector<Moment> moments;        // not taken by Python yet

  // The index of the device that holds a tensor, or -1.
  int index_of(const at::Tensor& tensor) const {
    if (C10_UNLIKELY(pretends)) return 0;
    return tensor.is_cuda() ? tensor.get_device() : -1;
  }

  // Find the stream in which the thread enqueues. False if it cannot be followed.
  bool here() {
    if (pretends) stream_ = nullptr;
    else {
      auto* guard = c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA);
      if (guard->getDevice().index() != index) return false;
      stream_ = guard->getStreamNativeHandle(guard->getStream(c10::Device(c10::DeviceType::CUDA, c10::DeviceIndex(index))));
    }
    int status = 0;
    return driver.capturing(stream_, &status) == 0 && status == 0;
  }

  bool note(int64_t position) {
    void* event = nullptr;
    if (!free_.empty()) { event = free_.back(); free_.pop_back(); }
    else if (driver.create(&event, 0)) return false;
    if (driver.record(event, stream_)) return false;
    moments.push_back({position, int64_t(event), int64_t(stream_)});
    return true;
  }

  void give_back(void* event) { free_.push_back(event); }

  void set_scratch(void* stream, uint64_t address) { scratch_.emplace_back(stream, address); }

  // Enqueue the statistics of a tensor into a row; false if that is impossible.
  bool summarise(const at::Tensor& tensor, Statistics* row) {
    int code = code_of(tensor.scalar_type());
    uint64_t scratch = 0;
    for (auto& one : scratch_) if (one.first == stream_) scratch = one.second;
    if (code < 0 || !kernels[code] || !scratch) return false;
    Summed given{};
    given.data = uint64_t(tensor.const_data_ptr());
    given.scratch = scratch;
    given.row = uint64_t(row);
    given.count = tensor.numel();
    auto sizes = tensor.sizes(), strides = tensor.strides();
    given.previewed = std::min<int64_t>(given.count, kPreview);
    for (int64_t nth = 0; nth < given.previewed; nth++) {
      int64_t rest = nth, at = 0;
      for (int64_t axis = tensor.dim() - 1; axis >= 0; axis--) {
        at += rest % sizes[axis] * strides[axis];
        rest /= sizes[axis];
      }
      given.first[nth] = at;
    }
    if (tensor.is_contiguous()) { given.dims = 1; given.sizes[0] = given.count; given.strides[0] = 1; }
    else if (!merge(sizes, strides, given)) return false;
    unsigned blocks = 1;
    if (given.count > 16384) blocks = unsigned(std::min<int64_t>((given.count + 8 * kThreads - 1) / (8 * kThreads), most_blocks));
    void* arguments[] = {&given};
    return (blocks == 1 ? driver.launch(kernels[code], 1, 1, 1, kThreads, 1, 1, 0, stream_, arguments, nullptr)
                        : driver.together(kernels[code], blocks, 1, 1, kThreads, 1, 1, 0, stream_, arguments)) == 0;
  }

  // Enqueue a copy of a tensor's elements, in index order.
  bool copy(const at::Tensor& tensor, int64_t bytes, char* to) {
    if (tensor.numel() * int64_t(tensor.element_size()) != bytes) return false;
    if (!bytes) return true;
    if (tensor.is_contiguous()) return driver.copy(uint64_t(to), uint64_t(tensor.const_data_ptr()), size_t(bytes), stream_) == 0;
    at::DisableRecordFunctionGuard unobserved;
    c10::impl::ExcludeDispatchKeyGuard excluded(c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset);
    at::Tensor whole = tensor.contiguous();
    return driver.copy(uint64_t(to), uint64_t(whole.const_data_ptr()), size_t(bytes), stream_) == 0;
  }

 private:
  static int code_of(at::ScalarType dtype) {
    switch (dtype) {
      case at::kFloat: return 0;
      case at::kDouble: return 1;
      case at::kBFloat16: return 2;
      case at::kHalf: return 3;
      case at::kByte: case at::kBool: return 4;
      case at::kChar: return 5;
      case at::kShort: return 6;
      case at::kInt: return 7;
      case at::kLong: return 8;
      default: return -1;
    }
  }

  // The fewest axes that reach the same elements, outermost in memory first.
  static bool merge(c10::IntArrayRef sizes, c10::IntArrayRef strides, Summed& to) {
    c10::SmallVector<int, 8> order;
    for (int i = 0; i < int(sizes.size()); i++) if (sizes[i] != 1) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return strides[a] > strides[b]; });
    int64_t dims = 0;
    for (int i : order) {
      if (dims && to.strides[dims - 1] == strides[i] * sizes[i]) { to.sizes[dims - 1] *= sizes[i]; to.strides[dims - 1] = strides[i]; continue; }
      if (dims == 8) return false;
      to.sizes[dims] = sizes[i];
      to.strides[dims++] = strides[i];
    }
    if (!dims) { to.sizes[0] = to.strides[0] = 1; dims = 1; }
    to.dims = dims;
    return true;
  }

  void* stream_ = nullptr;
  std::vector<void*> free_;
  std::vector<std::pair<void*, uint64_t>> scratch_;
};

inline Device& device() { static auto* only = new Device; return *only; }

}  // namespace nodescope
