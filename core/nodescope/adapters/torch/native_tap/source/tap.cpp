// The native tap of nodescope for PyTorch: an extension module that building.py compiles.
// It defines the module's Python functions; its only state is that of one observer.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "observer.h"
#include "following.h"

namespace nodescope {
namespace {

at::CallbackHandle handle = 0, backward = 0;

// attach(resolve, called)
PyObject* attach(PyObject*, PyObject* arguments) {
  PyObject *resolve, *called;
  if (!PyArg_ParseTuple(arguments, "OO", &resolve, &called)) return nullptr;
  Functions before = functions;
  functions = {borrowed(resolve), borrowed(called)};
  Py_XDECREF(before.resolve);
  Py_XDECREF(before.called);
  attached++;
  on = true;
  if (!handle) {
    handle = at::addGlobalCallback(
        at::RecordFunctionCallback(started, ended).needsInputs(true).needsOutputs(true).scopes({at::RecordScope::FUNCTION}));
    backward = at::addGlobalCallback(
        at::RecordFunctionCallback(evaluates).scopes({at::RecordScope::BACKWARD_FUNCTION}));
  }
  Py_RETURN_NONE;
}

PyObject* detach(PyObject*, PyObject*) {
  on = false;
  fast_path().rest();
  for (auto* one : {&handle, &backward}) {
    if (*one) at::removeCallback(*one);
    *one = 0;
  }
  here().error.reset();
  c10::impl::tls_set_dispatch_key_included(kRaise, false);
  Py_RETURN_NONE;
}

// use_core(capsule of nodescope.native, or None)
PyObject* use_core(PyObject*, PyObject* capsule) {
  void* function = nullptr;
  if (capsule != Py_None && !(function = PyCapsule_GetPointer(capsule, "nodescope.float_statistics"))) return nullptr;
  float_statistics = (FloatStatistics)function;
  Py_RETURN_NONE;
}

// forked(): the child of a fork has a copy of the observer, which reports nothing there.
PyObject* forked(PyObject*, PyObject*) {
  on = false;
  Py_RETURN_NONE;
}

// storage(tensor) -> the number of its storage, or 0
PyObject* storage(PyObject*, PyObject* tensor) {
  if (!THPVariable_Check(tensor)) return PyLong_FromLong(0);
  return PyLong_FromUnsignedLongLong(storages().number(((THPVariable*)tensor)->cdata));
}

// freed() -> numbers of storages
PyObject* freed(PyObject*, PyObject*) {
  return list_of(storages().freed(), PyLong_FromUnsignedLongLong);
}

PyMethodDef methods[] = {
    NODESCOPE_FOLLOWING_METHODS
    {"attach", attach, METH_VARARGS, "Observe each operator until `detach`."},
    {"detach", detach, METH_NOARGS, "Observe nothing."},
    {"use_core", use_core, METH_O, "Let nodescope's native core compute statistics of float32 in a row."},
    {"forked", forked, METH_NOARGS, "Observe nothing in the child of a fork."},
    {"storage", storage, METH_O, "The number of a tensor's storage, or 0."},
    {"freed", freed, METH_NOARGS, "Numbers of storages that were freed since the last call."},
    {}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "nodescope_tap", nullptr, -1, methods};

}  // namespace
}  // namespace nodescope

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&nodescope::raise_now>());
}

PyMODINIT_FUNC PyInit_nodescope_tap() { return PyModule_Create(&nodescope::definition); }
