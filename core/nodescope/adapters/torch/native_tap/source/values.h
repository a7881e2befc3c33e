// Values: converts PyTorch's arguments and results to Python objects. The caller holds the GIL and
// an `Aside`.
#pragma once
#include <Python.h>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/tensor_memoryformats.h>

#include "operators.h"

namespace nodescope {

// Whether a tensor is strided memory of one storage, and not a Python subclass or a transform's wrapper.
constexpr c10::DispatchKeySet kOdd({c10::DispatchKey::Python, c10::DispatchKey::Functionalize,
    c10::DispatchKey::FuncTorchGradWrapper, c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::NestedTensor});
inline bool is_plain(const at::Tensor& tensor) {
  auto* impl = tensor.unsafeGetTensorImpl();
  return !impl->key_set().has_any(kOdd) && impl->has_storage() && impl->layout() == at::kStrided;
}

// A tensor without a Python object gets none if no gradient flows through it. The object would be a
// lasting reference, and autograd copies a gradient with other references instead of taking it or
// adding to it. Python gets a temporary tensor that shares the memory instead.
inline PyObject* wrapped(const at::Tensor& tensor) {
  auto* impl = tensor.unsafeGetTensorImpl();
  if (!impl->pyobj_slot()->load_pyobj() && is_plain(tensor) && !tensor.requires_grad())
    return THPVariable_Wrap(at::Tensor(impl->shallow_copy_and_detach(impl->version_counter(), false)));
  return THPVariable_Wrap(tensor);
}

// The number that a tensor stands for: `x * 2` calls mul.Tensor.
inline PyObject* number_of(const at::Tensor& tensor) {
  const void* data = tensor.const_data_ptr();
  switch (tensor.scalar_type()) {
    case at::kDouble: return PyFloat_FromDouble(*(const double*)data);
    case at::kLong: return PyLong_FromLongLong(*(const int64_t*)data);
    case at::kBool: return PyBool_FromLong(*(const bool*)data);
    case at::kComplexDouble: return PyComplex_FromDoubles(((const double*)data)[0], ((const double*)data)[1]);
    default: return wrapped(tensor);
  }
}

inline PyObject* object_of(const at::Tensor& tensor) {
  if (!tensor.defined()) Py_RETURN_NONE;
  auto* impl = tensor.unsafeGetTensorImpl();
  return C10_UNLIKELY(impl->is_wrapped_number()) && is_plain(tensor) && tensor.is_cpu() ? number_of(tensor) : wrapped(tensor);
}

inline PyObject* none() { Py_RETURN_NONE; }

inline PyObject* borrowed(PyObject* object) { Py_XINCREF(object); return object; }

inline PyObject* object_of(const c10::IValue& value, Argument argument = {});

template <class List, class Convert>
PyObject* list_of(const List& items, Convert convert) {
  PyObject* list = PyList_New(0);
  for (const auto& item : items) {
    PyObject* object = list ? convert(item) : nullptr;
    if (!object || PyList_Append(list, object) < 0) { Py_XDECREF(object); Py_CLEAR(list); break; }
    Py_DECREF(object);
  }
  return list;
}

// A new reference, or nullptr with a Python error.
inline PyObject* object_of(const c10::IValue& value, Argument argument) {
  if (value.isTensor()) return object_of(value.toTensor());
  if (value.isNone()) return none();
  if (value.isBool()) return PyBool_FromLong(value.toBool());
  if (value.isInt()) {
    As as = value.toInt() == argument.usual ? As::itself : argument.as;
    if (as == As::dtype) return borrowed((PyObject*)torch::getTHPDtype(value.toScalarType()));
    if (as == As::layout) return borrowed((PyObject*)torch::getTHPLayout(value.toLayout()));
    if (as == As::memory_format) return borrowed(torch::utils::getTHPMemoryFormat(value.toMemoryFormat()));
    return PyLong_FromLongLong(value.toInt());
  }
  if (value.isDouble()) return PyFloat_FromDouble(value.toDouble());
  if (value.isString()) return PyUnicode_FromString(value.toStringRef().c_str());
  if (value.isDevice()) return THPDevice_New(value.toDevice());
  if (value.isGenerator()) return value.toGenerator().defined() ? THPGenerator_Wrap(value.toGenerator()) : none();
  if (value.isComplexDouble()) {
    auto number = value.toComplexDouble();
    return PyComplex_FromDoubles(number.real(), number.imag());
  }
  if (value.isIntList()) return list_of(value.toIntVector(), PyLong_FromLongLong);
  if (value.isDoubleList()) return list_of(value.toDoubleVector(), PyFloat_FromDouble);
  if (value.isBoolList()) return list_of(value.toBoolList().vec(), [](bool item) { return PyBool_FromLong(item); });
  if (value.isTensorList())
    return list_of(value.toTensorVector(), [](const at::Tensor& item) { return object_of(item); });
  if (value.isList()) return list_of(value.toListRef(), [](const c10::IValue& item) { return object_of(item); });
  if (value.isSymInt()) {
    auto number = value.toSymInt().maybe_as_int();
    return number ? PyLong_FromLongLong(*number) : none();
  }
  return PyUnicode_FromString(value.tagKind().c_str());
}

// The arguments of a call as a tuple.
inline PyObject* arguments_of(const Operator& op, c10::ArrayRef<const c10::IValue> given) {
  PyObject* tuple = PyTuple_New(given.size());
  for (size_t i = 0; tuple && i < given.size(); i++) {
    PyObject* object = object_of(given[i], i < op.arguments.size() ? op.arguments[i] : Argument{});
    if (!object) { Py_CLEAR(tuple); break; }
    PyTuple_SET_ITEM(tuple, i, object);
  }
  return tuple;
}

// The result of a call for Python: one object, a tuple of several, or None.
inline PyObject* result_of(c10::ArrayRef<const c10::IValue> returned) {
  if (returned.empty()) return none();
  if (returned.size() == 1) return object_of(returned[0]);
  PyObject* tuple = PyTuple_New(returned.size());
  for (size_t i = 0; tuple && i < returned.size(); i++) {
    PyObject* object = object_of(returned[i]);
    if (!object) { Py_CLEAR(tuple); break; }
    PyTuple_SET_ITEM(tuple, i, object);
  }
  return tuple;
}

}  // namespace nodescope
