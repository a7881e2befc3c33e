// Observer: the callbacks around each operator that PyTorch calls, on all threads.
//
// The observer reports the operators that the program runs, except composite operators, which the
// dispatcher replaces by others, and operators that run inside a reported one. Inputs can be read
// when a call begins, outputs when it ends.
//
// PyTorch drops exceptions of callbacks. An exception of a Python function called here is therefore
// raised by the program's next operator, which is routed through the dispatch key `kRaise`, whose
// fallback raises; on the main thread, Python raises it as soon as it continues, if that is earlier.
#pragma once
#include <Python.h>

#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/Exceptions.h>
#include <torch/library.h>

#include <atomic>
#include <exception>
#include <cstring>
#include <time.h>

#include "aside.h"
#include "operators.h"
#include "fast_path.h"
#include "values.h"

namespace nodescope {

inline int64_t now() {  // the clock of time.perf_counter_ns
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000ll + time.tv_nsec;
}

struct Gil {
  PyGILState_STATE state = PyGILState_Ensure();
  ~Gil() { PyGILState_Release(state); }
};

// The Python functions that the observer calls; strong references.
struct Functions {
  PyObject* resolve = nullptr;  // resolve(name) -> the operator, an OpOverload; None if it is never a node
  PyObject* called = nullptr;   // called(what, operator, arguments) -> a call, or None if it is no node
};                              // called(what, call, result, start_ns, end_ns); if it raised, what was kept
enum What { begins, has_ended, has_failed, flushes, waits };
inline Functions functions;

// Nanoseconds after which the next operator has Python take the records of the fast path, so that the
// page stays up to date.
constexpr int64_t kFlushedNs = 100'000'000;

// The number of the current attachment; a thread's state from an earlier attachment is invalid.
inline std::atomic<uint64_t> attached{0};
inline std::atomic<bool> on{false};

// The number of nodes that are running on all threads, and of those that have run.
inline std::atomic<int> under_way{0};
inline std::atomic<uint64_t> over_count{0};

struct Thread {
  Operators operators;
  const void* call = nullptr;     // the call that is being reported, by its address
  Operator* op = nullptr;
  PyObject* reported = nullptr;   // the result of `begin` for the call
  int64_t start = 0;
  uint32_t nested = 0;            // number of operators called within it
  int raising = 0;                // number of uncaught exceptions when it began
  std::vector<at::Tensor> kept;   // tensors detached within it: hooks keep results this way for the backward pass
  const void* alone = nullptr;    // the call, while callbacks are off for operators within it
  const void* saving = nullptr;   // the call by which autograd copies a tensor that the operator will overwrite
  at::Tensor copied;              // the tensor that is being copied
  std::vector<c10::IValue> saved; // tensors that were copied, each followed by its copy
  uint64_t attached = 0;
  int64_t place = 0;              // the mark of the thread's scope and phase, see `Place.mark`
  int quiet = 0;                  // operators are observed only while this equals `loud`
  int loud = 0;                   // above 0, operators belong to data loading, not to steps
  bool follows = false;           // the call is on the fast path
  bool counts = false;            // the call is counted as running
  bool captures = false;          // the call is recorded for a script, as `item`
  Item item;
  std::unique_ptr<python_error> error;  // to be raised by the next operator
};
inline Thread& here() {
  static thread_local Thread* thread = nullptr;  // never freed: a callback may run while a thread ends
  if (C10_UNLIKELY(!thread)) thread = new Thread;
  return *thread;
}

inline int raise_in_python(void*) {  // called by Python on the main thread, between two instructions
  Thread& thread = here();
  if (!thread.error) return 0;
  c10::impl::tls_set_dispatch_key_included(kRaise, false);
  auto error = std::move(thread.error);
  error->restore();
  return -1;
}

inline void raise_later(Thread& thread) {
  auto error = std::make_unique<python_error>();
  error->persist();
  thread.error = std::move(error);
  c10::impl::tls_set_dispatch_key_included(kRaise, true);
  Py_AddPendingCall(raise_in_python, nullptr);
}

inline void raise_now(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  Thread& thread = here();
  c10::impl::tls_set_dispatch_key_included(kRaise, false);
  if (thread.error) {
    auto error = std::move(thread.error);
    if (on && thread.attached == attached) throw python_error(std::move(*error));
  }
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kRaise), stack);
}

// The last `count` items of a list: in a boxed call, PyTorch passes the whole stack, including the caller's part.
template <class List>
c10::ArrayRef<const c10::IValue> last(const List& values, size_t count) {
  c10::ArrayRef<const c10::IValue> all(values.data(), values.size());
  return all.size() > count ? all.slice(all.size() - count) : all;
}

// Whether any tensor among the arguments has one of these dispatch keys.
inline bool any_has(c10::ArrayRef<const c10::IValue> arguments, c10::DispatchKeySet keys) {
  for (const auto& value : arguments) {
    if (value.isTensor() && value.toTensor().defined() && value.toTensor().key_set().has_any(keys)) return true;
    if (value.isTensorList())
      for (const at::Tensor& item : value.toTensorVector())
        if (item.defined() && item.key_set().has_any(keys)) return true;
  }
  return false;
}

// Whether the operator calls itself or others again, below autocast or a function transform; those
// inner calls are reported instead.
inline bool calls_again(const Operator& op, const at::RecordFunction& call) {
  using Key = c10::DispatchKey;
  auto local = c10::impl::tls_local_dispatch_key_set();
  auto inputs = last(call.inputs(), op.arguments.size());
  if (C10_UNLIKELY(local.included_.has(Key::FuncTorchDynamicLayerBackMode))) {
    auto transforms = c10::DispatchKeySet({Key::FuncTorchBatched, Key::FuncTorchBatchedDecomposition, Key::FuncTorchVmapMode,
                                           Key::FuncTorchGradWrapper, Key::FuncTorchDynamicLayerFrontMode});
    if (!((local.included_ - local.excluded_) & transforms).empty() || any_has(inputs, transforms)) return true;
  }
  auto casting = op.autocast - local.excluded_;
  return C10_UNLIKELY(!casting.empty()) && any_has(inputs, casting);
}

// Whether the operator is internal to PyTorch, such as those of `torch.tensor`, or is traced for a
// compiler instead of being run.
inline bool is_internal() {
  if (c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::Python)) return true;
  using Mode = c10::impl::TorchDispatchModeKey;
  using Modes = c10::impl::TorchDispatchModeTLS;
  return C10_UNLIKELY(Modes::any_modes_set()) && (Modes::get_mode(Mode::FAKE) || Modes::get_mode(Mode::PROXY) ||
                                                  Modes::get_mode(Mode::FUNCTIONAL));
}

inline PyObject* begin(Operator& op, c10::ArrayRef<const c10::IValue> given) {
  PyObject* arguments = arguments_of(op, given);
  if (!arguments) return nullptr;
  PyObject* reported = PyObject_CallFunction(functions.called, "iOO", begins, op.function, arguments);
  Py_DECREF(arguments);
  return reported;
}

inline void capture(Thread& thread, Operator& op, c10::ArrayRef<const c10::IValue> given) {
  if (!fast_path().is_ours(&thread, given)) { fast_path().spoil(); return; }
  thread.item = fast_path().capture(op, given, thread.place, &thread);
  thread.captures = true;
}

inline void captured(Thread& thread, c10::ArrayRef<const c10::IValue> returned) {
  thread.captures = false;
  thread.item.saves = !thread.saved.empty();
  thread.item.reported = thread.reported != nullptr;
  thread.item.nests = !thread.item.reported || thread.nested;  // unknown for an operator that is not a node
  fast_path().captured(std::move(thread.item), returned);
}

// Autograd begins to copy a tensor within an in-place operator whose derivative needs the old contents.
inline void saving(Thread& thread, const at::RecordFunction& call) {
  if (thread.saving || c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutogradFunctionality)) return;
  auto inputs = last(call.inputs(), 2);
  if (inputs.size() != 2 || !inputs[0].isTensor()) return;
  thread.saving = &call;
  thread.copied = inputs[0].toTensor();
}

inline void saved(Thread& thread, const at::RecordFunction& call) {
  auto outputs = last(call.outputs(), 1);
  if (outputs.size() == 1 && outputs[0].isTensor()) {
    thread.saved.emplace_back(thread.copied);
    thread.saved.push_back(outputs[0]);
  }
  thread.saving = nullptr;
  thread.copied.reset();
}

// The results of a call, followed by the copies that autograd made within it.
inline std::vector<c10::IValue> with_saved(const Thread& thread, c10::ArrayRef<const c10::IValue> returned) {
  std::vector<c10::IValue> all(returned.begin(), returned.end());
  for (size_t i = 1; i < thread.saved.size(); i += 2) all.push_back(thread.saved[i]);
  return all;
}

inline void over(Thread& thread) {
  thread.kept.clear();
  thread.saved.clear();
  thread.saving = nullptr;
  thread.copied.reset();
  thread.call = nullptr;
}

// Called when an autograd node is evaluated: the engine resets the thread's dispatch keys for each
// node, so `kRaise` is set again if an exception waits.
inline std::unique_ptr<at::ObserverContext> evaluates(const at::RecordFunction&) {
  if (on.load(std::memory_order_relaxed) && C10_UNLIKELY(here().error != nullptr))
    c10::impl::tls_set_dispatch_key_included(kRaise, true);
  return nullptr;
}

// Call a Python function from an operator on the fast path.
template <class Call>
void tell(Thread& thread, Call call) {
  Gil gil;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  {
    Aside aside;
    Py_XDECREF(call());
  }
  if (PyErr_Occurred()) raise_later(thread);
  else PyErr_Restore(type, value, trace);
}

// Have Python take the records of the fast path.
inline void flush(Thread& thread, int64_t now) {
  fast_path().flushed_ns = now;
  tell(thread, [] { return PyObject_CallFunction(functions.called, "iOO", flushes, Py_None, Py_None); });
}

// Have Python set hooks for the gradients of operands.
inline void wait_for(Thread& thread) {
  auto hooked = fast_path().hooked();
  using Hooked = std::pair<int64_t, at::Tensor>;
  tell(thread, [&]() -> PyObject* {
    PyObject* ids = list_of(hooked, [](const Hooked& one) { return PyLong_FromLongLong(one.first); });
    PyObject* tensors = list_of(hooked, [](const Hooked& one) { return object_of(one.second); });
    PyObject* done = ids && tensors ? PyObject_CallFunction(functions.called, "iOO", waits, ids, tensors) : nullptr;
    Py_XDECREF(ids);
    Py_XDECREF(tensors);
    return done;
  });
}

// Count the call as one that has run.
inline void is_over(Thread& thread) {
  if (!thread.counts) return;
  thread.counts = false;
  over_count.fetch_add(1, std::memory_order_relaxed);
  under_way.fetch_sub(1, std::memory_order_relaxed);
}

inline std::unique_ptr<at::ObserverContext> started(const at::RecordFunction& call) {
  if (!on.load(std::memory_order_relaxed)) return nullptr;
  Thread& thread = here();
  if (C10_UNLIKELY(thread.error != nullptr)) return evaluates(call);
  uint64_t generation = attached.load(std::memory_order_relaxed);
  if (C10_UNLIKELY(thread.attached != generation)) {
    thread.attached = generation;
    thread.call = nullptr;
    is_over(thread);
    if (thread.reported) { Gil gil; Py_CLEAR(thread.reported); }
  }
  if (thread.call) {
    thread.nested++;
    if (C10_UNLIKELY(std::strcmp(call.name(), "aten::detach") == 0)) thread.kept.push_back(call.inputs().back().toTensor());
    else if (C10_UNLIKELY(std::strcmp(call.name(), "aten::clone") == 0)) saving(thread, call);
    return nullptr;
  }
  if (at::in_parallel_region()) return nullptr;
  Operator* op = thread.operators.find(call);
  if (!op || op->composite || is_internal() || calls_again(*op, call)) return nullptr;
  thread.call = &call;
  thread.nested = 0;
  thread.op = op;
  thread.raising = std::uncaught_exceptions();
  thread.follows = thread.captures = false;
  if (thread.quiet != thread.loud || op->function == Py_None) return nullptr;
  auto given = last(call.inputs(), op->arguments.size());
  FastPath& path = nodescope::fast_path();
  bool ours = !thread.loud && path.is_ours(&thread, given);
  if (ours && path.begin(*op, given, thread.place, &thread)) thread.follows = true;
  else {
    Gil gil;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject* reported = nullptr;
    {
      Aside aside;
      if (!op->function) op->function = PyObject_CallFunction(functions.resolve, "s", op->name.c_str());
      if (op->function && op->function != Py_None) {
        if (path.mode == Mode::recording && !thread.loud) capture(thread, *op, given);
        reported = begin(*op, given);
        if (reported == Py_True) {  // a step has begun, which may follow the script
          Py_CLEAR(reported);
          thread.captures = false;
          if (path.thread == &thread && path.begin(*op, given, thread.place, &thread)) thread.follows = true;
          else {
            if (path.mode == Mode::recording) capture(thread, *op, given);
            reported = begin(*op, given);
          }
        }
        thread.captures = thread.captures && path.mode == Mode::recording;
        if (thread.captures && reported == Py_None) captured(thread, {});
        if (reported == Py_None) Py_CLEAR(reported);
      }
    }
    if (PyErr_Occurred()) { raise_later(thread); Py_CLEAR(reported); }
    else PyErr_Restore(type, value, trace);
    thread.reported = reported;
  }
  if (C10_UNLIKELY(thread.follows && path.hooks())) wait_for(thread);
  if (thread.follows && path.needs_nothing_within() && !at::hasThreadLocalCallbacks()) {
    thread.alone = &call;
    at::enableRecordFunction(false);
  }
  if ((thread.counts = thread.follows || thread.reported)) under_way.fetch_add(1, std::memory_order_relaxed);
  thread.start = now();
  return nullptr;
}

inline void ended(const at::RecordFunction& call, at::ObserverContext*) {
  Thread& thread = here();
  if (thread.alone == &call) {
    thread.alone = nullptr;
    at::enableRecordFunction(true);
  }
  if (thread.call != &call) {
    if (C10_UNLIKELY(thread.saving == &call)) saved(thread, call);
    return;
  }
  int64_t end = now();
  bool failed = std::uncaught_exceptions() > thread.raising;
  bool follows = thread.follows;
  thread.follows = false;
  auto returned = last(call.outputs(), thread.op->returns);
  std::vector<c10::IValue> all;  // the results, and the copies that autograd made
  if (C10_UNLIKELY(!thread.saved.empty())) all = with_saved(thread, returned);
  auto seen = all.empty() ? returned : boxed(all);
  bool is_followed = follows && !failed && fast_path().end(seen, thread.start, end);
  is_over(thread);  // statistics are part of the node
  if (is_followed) {
    over(thread);
    if (C10_UNLIKELY(fast_path().full || end - fast_path().flushed_ns > kFlushedNs)) flush(thread, end);
    return;
  }
  if (follows || thread.reported) {
    Gil gil;
    PyObject* reported = thread.reported;
    if (on.load(std::memory_order_relaxed) && thread.attached == attached) {
      PyObject *type, *value, *trace;
      PyErr_Fetch(&type, &value, &trace);
      {
        Aside aside;
        if (follows) {  // it does not match the script after all: report its beginning to Python now
          auto held = fast_path().held();
          reported = begin(*thread.op, boxed(held));
          if (reported == Py_None) Py_CLEAR(reported);
        }
        if (thread.captures) {
          if (failed) fast_path().spoil();
          else captured(thread, seen);
        }
        if (!reported) {}
        else if (failed) {
          if (PyObject* kept = list_of(thread.kept, [](const at::Tensor& tensor) { return object_of(tensor); })) {
            Py_XDECREF(PyObject_CallFunction(functions.called, "iOO", has_failed, reported, kept));
            Py_DECREF(kept);
          }
        }
        else if (PyObject* result = result_of(returned)) {
          PyObject* copies = list_of(thread.saved, [](const c10::IValue& value) { return object_of(value); });
          if (copies) Py_XDECREF(PyObject_CallFunction(functions.called, "iOOLLO", has_ended, reported, result, (long long)thread.start, (long long)end, copies));
          Py_XDECREF(copies);
          Py_DECREF(result);
        }
        Py_CLEAR(reported);  // releases the operands while nothing is observed
      }
      if (PyErr_Occurred()) raise_later(thread);
      else PyErr_Restore(type, value, trace);
    }
    Py_XDECREF(reported);
    thread.reported = nullptr;
    if (follows) fast_path().held();
  }
  over(thread);
}

}  // namespace nodescope
