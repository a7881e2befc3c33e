// Aside: a guard for nodescope's own operators on a thread. They are not observed, and autograd,
// autocast, transforms and the program's modes are off, as inside a Python dispatch mode.
#pragma once
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace nodescope {

// The dispatch key whose fallback raises; see observer.h.
constexpr auto kRaise = c10::DispatchKey::TESTING_ONLY_GenericMode;

class Aside {
 public:
  Aside() : state_(at::impl::PythonTorchFunctionTLS::get_disabled_state()) {
    at::impl::PythonTorchFunctionTLS::set_disabled_state(at::impl::TorchFunctionDisabledState::ALL_DISABLED);
  }
  ~Aside() { at::impl::PythonTorchFunctionTLS::set_disabled_state(state_); }

 private:
  static c10::DispatchKeySet keys() {
    using Key = c10::DispatchKey;
    return c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset | c10::python_ks |
           c10::DispatchKeySet({Key::FuncTorchDynamicLayerFrontMode, Key::FuncTorchDynamicLayerBackMode,
               Key::FuncTorchVmapMode, Key::PreDispatch, kRaise});
  }

  at::impl::TorchFunctionDisabledState state_;
  at::DisableRecordFunctionGuard unobserved_;
  c10::impl::ExcludeDispatchKeyGuard excluded_{keys()};
};

}  // namespace nodescope
