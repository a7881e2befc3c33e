// Operators: what the observer knows about each overload. Guarded by the GIL, except `find`, which
// uses a table per thread.
#pragma once
#include <Python.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <c10/util/flat_hash_map.h>

#include <memory>
#include <mutex>
#include <vector>

namespace nodescope {

// How an argument is converted for Python where its IValue does not say: dtypes, layouts and memory
// formats are plain numbers in an IValue.
enum class As : uint8_t { itself, dtype, layout, memory_format };

struct Argument {
  As as = As::itself;
  int64_t usual = -1;             // the default if it is such a number: passed as the number, as in the schema
};

struct Operator {
  std::string name;               // aten::add.Tensor
  bool composite = false;         // the dispatcher replaces it with others, and only those are reported
  c10::DispatchKeySet autocast;   // keys for which a wrapper casts the arguments and calls it again
  std::vector<Argument> arguments;
  size_t returns = 0;
  PyObject* function = nullptr;   // torch.ops.aten.add.Tensor; resolved at the first call, never released
};

inline As as_of(const c10::Argument& argument) {
  auto type = argument.real_type();
  if (type->kind() == c10::TypeKind::OptionalType) type = type->castRaw<c10::OptionalType>()->getElementType();
  switch (type->kind()) {
    case c10::TypeKind::ScalarTypeType: return As::dtype;
    case c10::TypeKind::LayoutType: return As::layout;
    case c10::TypeKind::MemoryFormatType: return As::memory_format;
    default: return As::itself;
  }
}

inline std::unique_ptr<Operator> describe(const c10::FunctionSchema& schema, const c10::OperatorName& name) {
  using Key = c10::DispatchKey;
  auto found = std::make_unique<Operator>();
  found->name = c10::toString(name);
  found->returns = schema.returns().size();
  for (auto& argument : schema.arguments()) {
    auto usual = argument.default_value();
    found->arguments.push_back({as_of(argument), usual && usual->isInt() ? usual->toInt() : -1});
  }
  auto handle = c10::Dispatcher::singleton().findSchema(name);
  if (!handle) return found;
  // If a backend kernel exists as well, that one runs: silu_backward has both.
  found->composite = handle->hasKernelForDispatchKey(Key::CompositeImplicitAutograd) &&
                     !handle->hasKernelForAnyDispatchKey(c10::DispatchKeySet({Key::CPU, Key::CUDA}));
  for (auto key : c10::autocast_dispatch_keyset)
    if (handle->hasKernelForDispatchKey(key)) found->autocast = found->autocast.add(key);
  return found;
}

// The operators of calls. The text `overload_name` lies inside the schema, so its address identifies
// an overload without a copy; the schema itself is copied once per overload and thread.
class Operators {
 public:
  Operator* find(const at::RecordFunction& call) {
    const char* address = call.overload_name();
    auto known = by_address_.find(address);
    if (C10_LIKELY(known != by_address_.end() && known->second.name == call.name())) return known->second.op;
    auto name = call.operator_name();
    auto schema = call.operator_schema();
    if (!name || !schema) return nullptr;
    Operator* op = shared(*schema, *name);
    by_address_[address] = {call.name(), op};
    return op;
  }

 private:
  struct Known { const char* name; Operator* op; };

  static Operator* shared(const c10::FunctionSchema& schema, const c10::OperatorName& name) {
    static std::mutex lock;
    static auto* all = new ska::flat_hash_map<std::string, std::unique_ptr<Operator>>;  // outlives all threads
    std::lock_guard<std::mutex> guard(lock);
    auto& op = (*all)[c10::toString(name)];
    if (!op) op = describe(schema, name);
    return op.get();
  }

  ska::flat_hash_map<const void*, Known> by_address_;
};

}  // namespace nodescope
